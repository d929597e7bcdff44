"""Workers of pytest-xdist: how many, what they share, how they end with their controller. Nothing is booted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.config.settings import resolve
from memqos.place import opening
from memqos.plugin.collection import workers
from memqos.plugin.collection.parameters import stretch_of
from memqos.vm.host.capacity import Host

pytest_plugins = ["pytester"]

HOLDS_A_PROCESS = """
import os, time
from pathlib import Path
from memqos.ownership import ProcessGroup

@pytest.mark.parametrize("number", range(2))
def test_it(qos_lane, number):
    with ProcessGroup(keepable=bool(number)) as group:
        member = group.start(["sleep", "100"])
        Path(os.environ["HELD"], str(number)).write_text(str(member.pid))
        time.sleep(100)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_workers_hold_is_gone_five_seconds_after_their_controller_was_killed(suite, pytester, tmp_path):
    suite(HOLDS_A_PROCESS)
    held = tmp_path / "held"
    held.mkdir()
    argv = [sys.executable, "-m", "pytest", "suites", "--memqos-results=out", "-n", "2", "--dist=load"]
    with subprocess.Popen(argv, cwd=pytester.path, env={**os.environ, "HELD": str(held)}) as controller:
        try:
            wait(
                "both workers hold a process",
                lambda: len([one for one in held.iterdir() if one.read_text()]) == 2,
                deadline=Deadline.after(60),
            )
        finally:
            controller.send_signal(signal.SIGKILL)
    pids = [int(one.read_text()) for one in held.iterdir()]
    wait("both are gone", lambda: not any(map(is_running, pids)), deadline=Deadline.after(5))


POPULATED = """
@pytest.fixture
def qos_population(qos_kubelet):
    pass

@pytest.mark.claim("demo/one")
@pytest.mark.kubelet("v1.22", "v1.27-documented", "v1.27", "v1.36-none", "v1.37-default")
@pytest.mark.parametrize("number", range(3))
def test_values(qos_population, qos_kubelet, number, request):
    with open(f"worker-{request.config.workerinput['workerid']}", "a") as file:
        file.write(f"{qos_kubelet.id}\\n")

@pytest.mark.claim("demo/two")
@pytest.mark.kubelet("v1.22", "v1.37-default")
def test_behaviour(qos_kubelet):
    pass
"""


def test_a_worker_gets_a_stretch_of_kubelets_so_that_pods_are_reused(suite, run, pytester):
    suite(POPULATED)
    run("-n", "2", "--dist=loadgroup")
    seen = {tuple(dict.fromkeys(file.read_text().split())) for file in pytester.path.glob("worker-*")}
    assert seen == {("v1.22", "v1.27-documented"), ("v1.27", "v1.36-none", "v1.37-default")}


CRASHES = """
import os
from pathlib import Path

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("same")
@pytest.mark.parametrize("number", range(6))
def test_it(qos_evidence, number):
    if number in CRASHING:
        os._exit(9)
    qos_evidence.settle(finding("conforms"))

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("other")
def test_other(qos_evidence):
    qos_evidence.settle(finding("conforms"))
"""


def outcomes(pytester):
    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    found = {result["id"].rpartition("::")[2]: result["outcome"] for result in bundle["results"]}
    return bundle, [found.get(f"test_it[{number}]", "not run") for number in range(6)]


# With a second worker the first one's group may go to it, or to the first one's replacement.
@pytest.mark.parametrize(
    ("number", "crashing"),
    [("1", (0,)), ("1", (5,)), ("1", (0, 1, 2)), ("2", (0,)), ("2", (4,)), ("2", (5,)), ("2", (1, 3))],
)
def test_what_a_crashed_worker_left_of_its_group_goes_to_another_one(suite, run, pytester, crashing, number):
    suite(CRASHES.replace("CRASHING", repr(crashing)))

    result = run("-n", number, "--dist=loadgroup", "--max-worker-restart=3")

    bundle, seen = outcomes(pytester)
    assert seen == ["machinery" if place in crashing else "conforms" for place in range(6)]
    assert (result.ret, bundle["exit_code"], bundle["counts"]["not_run"]) == (3, 3, 0)


def test_if_every_worker_crashes_the_rest_is_reported_as_not_run(suite, run, pytester):
    suite(CRASHES.replace("CRASHING", "range(6)"))

    result = run("-n", "1")

    bundle, seen = outcomes(pytester)
    assert seen == ["machinery"] * 4 + ["not run"] * 2
    assert bundle["results"][0]["reason"] == "worker 'gw0' crashed while running 'demo/test_demo.py::test_it[0]'"
    assert result.ret == bundle["exit_code"] == 3
    assert "4 workers crashed, and 3 cases were not run." in bundle["error"]
    result.stdout.fnmatch_lines(["  4 workers crashed, and 3 cases were not run.*"])


SETTLES_NOTHING = """
@pytest.mark.claim("demo/one")
def test_that_finds(qos_evidence):
    qos_evidence.settle(finding("conforms"))

def test_that_finds_nothing():
    pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_test_that_ends_without_a_finding_was_run(suite, run, pytester, options):
    suite(SETTLES_NOTHING)

    run(*options)

    bundle = json.loads((pytester.path / "out/bundle.json").read_text())
    assert (len(bundle["results"]), bundle["counts"]["not_run"]) == (1, 0)


@pytest.mark.parametrize(
    ("count", "stretches", "expected"),
    [
        (7, 1, [0, 0, 0, 0, 0, 0, 0]),
        (7, 2, [0, 0, 0, 1, 1, 1, 1]),
        (7, 3, [0, 0, 1, 1, 2, 2, 2]),
        (7, 7, [0, 1, 2, 3, 4, 5, 6]),
        (3, 8, [0, 1, 2]),
        (1, 2, [0]),
    ],
)
def test_stretches_are_of_nearly_the_same_length(count, stretches, expected):
    assert [stretch_of(place, count, stretches) for place in range(count)] == expected


@pytest.fixture
def host(monkeypatch):
    """A host of four CPUs with room for three machines of two, under emulation or not."""

    def made(*, emulated):
        monkeypatch.setattr(workers, "settings_given", lambda _: resolve({}, {}))
        monkeypatch.setattr(opening, "read_host", lambda: Host(available=6 << 30, cores=4))
        monkeypatch.setattr(opening, "list_checkpoints", lambda _: [])
        monkeypatch.setattr(opening, "is_emulated", lambda *_: emulated)

    return made


TURNS = "under emulation a machine keeps 2 of this host's 4 processors busy, so more machines would only compete"
ROOM = "6144 MiB of memory are available, and a machine takes up to 1600 MiB"


@pytest.mark.parametrize(
    ("asked", "emulated", "number", "said"),
    [
        ("auto", True, 2, f"memqos: 2 machines at a time: {TURNS}"),
        ("auto", False, 3, f"memqos: 3 machines at a time: {ROOM}"),
        (1, True, 1, "memqos: 1 machine at a time"),
        (2, True, 2, "memqos: 2 machines at a time"),
        (3, True, 3, f"memqos: 3 machines at a time; 2 would be faster (-n auto): {TURNS}"),
        (3, False, 3, "memqos: 3 machines at a time"),
        (4, True, 3, f"memqos: 3 machines at a time instead of 4: {ROOM}; 2 would be faster (-n auto): {TURNS}"),
    ],
)
def test_auto_is_the_fastest_number_and_more_gets_a_warning(host, asked, emulated, number, said):
    host(emulated=emulated)
    assert workers.limit_workers(None, asked) == (number, said)


def test_where_one_machine_is_fastest_no_worker_is_needed(monkeypatch):
    monkeypatch.setattr(opening, "read_host", lambda: Host(available=6 << 30, cores=2))
    monkeypatch.setattr(opening, "is_emulated", lambda *_: True)
    monkeypatch.setattr(workers, "settings_given", lambda _: resolve({}, {}))
    monkeypatch.setattr(opening, "list_checkpoints", lambda _: [])
    number, said = workers.limit_workers(None, "auto")
    assert number == 0
    assert said.startswith(
        "memqos: 1 machine at a time: under emulation a machine keeps 2 of this host's 2 processors busy"
    )


def test_cases_that_were_not_chosen_are_not_missing(suite, run, pytester):
    """Workers report what they have before -k deselects anything."""
    suite("""
        @pytest.mark.claim("demo/one")
        @pytest.mark.parametrize("number", range(4))
        def test_it(qos_evidence, number):
            qos_evidence.settle(finding("conforms"))
        """)
    result = run("-n", "2", "-k", "1")
    assert result.ret == 0
    assert json.loads((pytester.path / "out/bundle.json").read_text())["counts"]["not_run"] == 0
