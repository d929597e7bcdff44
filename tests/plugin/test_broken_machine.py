"""The tests after one in which a machine broke; the machines are made up, and nothing is booted."""

import json

import pytest

from memqos.plugin import pytest_internals

pytest_plugins = ["pytester"]

CONFTEST = """
import contextlib
import os
from types import SimpleNamespace

from memqos.errors import MachineError
from memqos.place.fake import FakePlace
from memqos.plugin.machines import lane

NUMBERS = iter(range(100))


class Place(FakePlace):
    def __init__(self, profile):
        super().__init__()
        self.profile, self.name = profile, f"{profile}-{next(NUMBERS)}"
        self.origin = profile

    def die(self):
        self.break_down(MachineError(f"{self.name} does not answer any more."))

    def origin_is_whole(self):
        with open("checked", "a") as file:
            file.write(f"{self.name}\\n")
        return self.name != os.environ.get("DAMAGED")


@contextlib.contextmanager
def open_station(config, key):
    place = Place(key[0])
    yield SimpleNamespace(
        id=place.name, key=key, place=place, folder=None, capture=lambda folder: None,
        node=SimpleNamespace(place=place, leftovers=lambda: (), why_not=lambda need: None),
        log=SimpleNamespace(to=lambda sink: contextlib.nullcontext()),
    )


lane.open_station = open_station
"""


@pytest.fixture
def results(suite, run, pytester):
    """Run modules with these bodies on made-up machines, and read the results."""

    def go(*bodies, arguments=()):
        for name, body in zip(("first", "second"), bodies, strict=False):
            suite(body, name=name)
        (pytester.path / "suites" / "conftest.py").write_text(CONFTEST)
        go.run = run(*arguments)
        return json.loads((pytester.path / "out/bundle.json").read_text())["results"]

    return go


BREAKS = """
def test_before(qos_node):
    pass

def test_breaks(qos_node):
    if qos_node.place.profile == "trixie":
        qos_node.place.die()
        qos_node.place.check_alive()

def test_after(qos_node):
    pass
"""


def test_another_profile_and_another_module_get_another_machine(results):
    found = results(BREAKS, "def test_it(qos_node): pass", arguments=["--memqos-profile=bookworm,trixie,forky"])
    assert [one["id"].partition("::")[2] for one in found if one["outcome"] == "machinery"] == ["test_breaks[trixie]"]
    assert [one["outcome"] for one in found].count("conforms") == 11


def test_a_pytest_that_cannot_tear_a_module_down_is_named_and_its_tests_end_in_machinery(results, monkeypatch):
    monkeypatch.setattr(pytest_internals, "SETUP_STATE", "called_otherwise")
    found = results(BREAKS)
    assert [one["outcome"] for one in found] == ["conforms", "machinery", "machinery"]
    assert found[2]["reason"].startswith("the machine of this module is lost: trixie-0 does not answer any more.")
    said = results.run.stdout.str()
    assert f"pytest {pytest.__version__} lacks Session.called_otherwise.teardown_exact" in said
    assert f"pytest {pytest.__version__} has no known way to set a module up on another machine" in said
    assert "Traceback" not in said


MODULE = """
import os

@pytest.fixture(scope="session", autouse=True)
def once():
    with open("sessions", "a") as file:
        file.write("began\\n")
    yield
    with open("sessions", "a") as file:
        file.write("ended\\n")

@pytest.fixture(scope="module")
def population(qos_node):
    if os.environ.get("REFUSED"):
        raise MachineryError("the runtime does not answer.")
    return qos_node

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(8))
def test_it(population, qos_node, qos_evidence, number):
    place = population.place
    assert place is qos_node.place
    if number == 2:
        place.die()
        place.check_alive()
    qos_evidence.settle(finding("conforms"))
    if number == 5:
        # As when somebody kills QEMU: nobody hears of it until somebody looks.
        place.die()
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_the_rest_of_a_module_goes_on_on_a_new_machine(results, pytester, arguments):
    found = results(MODULE, arguments=arguments)
    assert [(one["outcome"], one["machine"]) for one in found] == [
        ("conforms", "trixie-0"),
        ("conforms", "trixie-0"),
        ("machinery", "trixie-0"),
        ("conforms", "trixie-1"),
        ("conforms", "trixie-1"),
        ("conforms", "trixie-1"),
        ("conforms", "trixie-2"),
        ("conforms", "trixie-2"),
    ]
    assert (pytester.path / "sessions").read_text() == "began\nended\n"


ASKS = """
@pytest.fixture(scope="module")
def NAME(qos_node):
    return qos_node

@pytest.mark.parametrize("number", range(4))
def test_it(NAME, number):
    if number == 1:
        raise MachineryError("its container cannot be removed.")
"""


@pytest.mark.parametrize(
    ("name", "machine"),
    [("qos_requests", "trixie-1"), ("qos_lifecycle", "trixie-1"), ("pods", "trixie-0")],
    ids=["requests", "life", "pods of its own"],
)
def test_after_machinery_in_a_pod_that_tests_share_the_next_one_gets_a_new_machine(results, name, machine):
    """What cannot be removed there has the name of the next one's container."""
    found = results(ASKS.replace("NAME", name))
    assert [(one["outcome"], one["machine"]) for one in found] == [
        ("conforms", "trixie-0"),
        ("machinery", "trixie-0"),
        ("conforms", machine),
        ("conforms", machine),
    ]


def test_the_same_failure_everywhere_is_not_retried_and_noted_once(results, monkeypatch):
    monkeypatch.setenv("REFUSED", "1")
    found = results(MODULE, MODULE)
    assert [one["reason"] for one in found] == [
        *["the runtime does not answer."] * 3,
        *["as before: the runtime does not answer."] * 5,
        "the runtime does not answer.",
        *["as before: the runtime does not answer."] * 7,
    ]
    assert results.run.ret == 3
    results.run.stdout.fnmatch_lines(
        [
            "*· the same failure 3 times in a row: the remaining cases of test_first.py are skipped",
            "*· the same failure 3 times in a row: the remaining cases of test_second.py are skipped",
            "*· only machinery errors on trixie/two-numa-nodes, containerd+runc, systemd driver: * are skipped",
            "verdict: machinery failed; * (0 cases observed, 0 deviate, 12 given up without an attempt; *)",
        ]
    )


FAILS_LATE = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(8))
def test_it(qos_node, qos_evidence, number):
    if number >= 1 and qos_node.place.name == "trixie-0":
        raise MachineryError(f"the pod 'p{number}' does not start: Deadline Exceeded after {number} s.")
    qos_evidence.settle(finding("conforms"))
"""


def test_a_runtime_that_stopped_working_is_tried_again_on_a_new_machine(results):
    found = results(FAILS_LATE)
    assert [one["outcome"] for one in found] == ["conforms", *["machinery"] * 3, *["conforms"] * 4]
    assert [one["machine"] for one in found] == ["trixie-0"] * 4 + ["trixie-1"] * 4


DIFFERENT = """
@pytest.mark.parametrize("word", ["one", "two", "three", "four", "five"])
def test_it(qos_node, word):
    raise MachineryError(f"{word} went wrong.")
"""


def test_different_failures_are_all_reported(results):
    told = [one["reason"] for one in results(DIFFERENT)]
    assert told == [f"{word} went wrong." for word in ("one", "two", "three", "four", "five")]


FAILS_TWICE = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(4))
def test_it(qos_node, qos_evidence, number):
    if number in {1, 3}:
        raise MachineryError("a shim was killed by SIGILL.")
    qos_evidence.settle(finding("conforms"))
"""


@pytest.mark.parametrize(
    ("damaged", "machines"),
    [
        ("trixie-0", ["trixie-0", "trixie-1", "trixie-1", "trixie-1"]),
        ("", ["trixie-0", "trixie-0", "trixie-0", "trixie-0"]),
    ],
)
def test_a_failure_has_the_checkpoint_checked_once_and_a_damaged_one_is_left(
    results, pytester, monkeypatch, damaged, machines
):
    monkeypatch.setenv("DAMAGED", damaged)
    found = results(FAILS_TWICE)
    assert [one["machine"] for one in found] == machines
    assert (pytester.path / "checked").read_text() == "trixie-0\n"


@pytest.fixture
def damaged_first(results, monkeypatch):
    """As `results`; the first machine's origin is damaged."""
    monkeypatch.setenv("DAMAGED", "trixie-0")
    return results


FAILS_ON_THE_FIRST = """
@pytest.fixture(scope="module")
def population(qos_node):
    return qos_node

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(4))
def test_it(population, qos_node, qos_evidence, number):
    assert population.place is qos_node.place
    with open("runs", "a") as file:
        file.write(f"{number} ")
    if number == FAILING and qos_node.place.name == "trixie-0":
        raise MachineryError("a shim was killed by SIGILL.")
    qos_evidence.settle(finding("deviates" if number == DEVIATING else "conforms"))
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
@pytest.mark.parametrize(("failing", "runs"), [(0, "0 0 1 2 3 "), (1, "0 1 1 2 3 "), (3, "0 1 2 3 3 ")])
def test_a_test_on_a_damaged_machine_is_rerun(damaged_first, pytester, failing, runs, arguments):
    results = damaged_first
    found = results(FAILS_ON_THE_FIRST.replace("FAILING", str(failing)).replace("DEVIATING", "-1"), arguments=arguments)
    assert [one["outcome"] for one in found] == ["conforms"] * 4
    assert [len(one["findings"]) for one in found] == [1, 1, 1, 1]
    assert [one["machine"] for one in found] == ["trixie-0"] * failing + ["trixie-1"] * (4 - failing)
    assert (pytester.path / "runs").read_text() == runs
    assert results.run.ret == 0
    results.run.stdout.fnmatch_lines([f"*test_it[[]{failing}[]] is run again, on another machine"])
    again = [one.get("earlier_attempts", []) for one in found]
    assert [len(one) for one in again] == [int(number == failing) for number in range(4)]
    [attempt] = again[failing]
    assert (attempt["outcome"], attempt["machine"]) == ("machinery", "trixie-0")
    assert attempt["again"] == "the checkpoint or the image of its machine had changed on the disk"
    assert attempt["reason"]
    results.run.stdout.fnmatch_lines(["run again:", f"*test_it[[]{failing}[]]: the checkpoint*"])


def test_a_failure_on_an_undamaged_machine_is_not_rerun(results, pytester):
    found = results(FAILS_ON_THE_FIRST.replace("FAILING", "1").replace("DEVIATING", "-1"))
    assert [one["outcome"] for one in found] == ["conforms", "machinery", "conforms", "conforms"]
    assert (pytester.path / "runs").read_text() == "0 1 2 3 "


def test_a_deviation_is_never_rerun(damaged_first, pytester):
    found = damaged_first(FAILS_ON_THE_FIRST.replace("FAILING", "2").replace("DEVIATING", "1"))
    assert [one["outcome"] for one in found] == ["conforms", "deviates", "conforms", "conforms"]
    assert (pytester.path / "runs").read_text() == "0 1 2 2 3 "
    assert damaged_first.run.ret == 1


KEEPS = """
import os

@pytest.fixture(scope="module")
def population(qos_node):
    return qos_node

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(6))
def test_it(population, qos_node, qos_evidence, number):
    assert population.place is qos_node.place
    with open("used", "a") as file:
        file.write(f"{number} {qos_node.place.name}\\n")
    qos_evidence.settle(finding("deviates" if number in (1, 4) else "conforms"))
"""


def test_a_kept_machine_gets_no_further_test(results, pytester):
    """Its pods would have to make room; one machine is kept, that of the first failure."""
    results(KEEPS, arguments=["--memqos-keep-vm"])
    assert (pytester.path / "used").read_text().split() == [
        "0", "trixie-0", "1", "trixie-0", "2", "trixie-1", "3", "trixie-1", "4", "trixie-1", "5", "trixie-1",
    ]  # fmt: skip


def test_without_keeping_one_a_deviation_costs_no_machine(results, pytester):
    results(KEEPS)
    assert set((pytester.path / "used").read_text().split()) == {"0", "1", "2", "3", "4", "5", "trixie-0"}
