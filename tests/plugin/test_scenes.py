"""What a module's fixture makes happen on a node, and for whom: for no test whose claim needs what the node lacks."""

import json

import pytest

pytest_plugins = ["pytester"]

MODULE = """
import contextlib
from types import SimpleNamespace
from memqos.place.fake import FakePlace
from memqos.plugin.machines import lane

@contextlib.contextmanager
def station(config, key):
    node = SimpleNamespace(leftovers=lambda: (), why_not=lambda need: "no pressure" if need == "psi" else "")
    log = SimpleNamespace(go_to=lambda folder: None)
    yield SimpleNamespace(
        id="main-0", key=key, place=FakePlace(), node=node, log=log, folder=None, capture=lambda folder: None
    )

lane.open_station = station

@pytest.fixture(scope="module")
def pressure(qos_node):
    if not LACKS_NOTHING:
        raise MachineryError("there is no file memory.pressure.")
    with open("happened", "a") as file:
        file.write("once\\n")
"""
NEEDS_MORE = """
@pytest.mark.claim("demo/two")
def test_two(pressure, qos_evidence):
    qos_evidence.settle(finding("conforms"))
"""
NEEDS_LESS = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", [1, 2])
def test_one(pressure, number, qos_evidence):
    qos_evidence.settle(finding("conforms"))
"""


@pytest.fixture
def results(suite, run, pytester):
    """The outcome and the reason of each test, by its name."""

    def of(lacks_nothing, *options, tests=NEEDS_MORE + NEEDS_LESS):
        suite(MODULE.replace("LACKS_NOTHING", str(lacks_nothing)) + tests)
        run(*options)
        written = json.loads((pytester.path / "out/bundle.json").read_text())
        return {one["id"].partition("::")[2]: (one["outcome"], one["reason"]) for one in written["results"]}

    return of


def test_what_a_claim_needs_is_looked_for_before_anything_happens(results):
    """What happens may not even be possible without it, as memory.high is not on cgroup v1."""
    assert results(False, "-k", "two") == {"test_two": ("not observable", "no pressure")}


@pytest.mark.parametrize("tests", [NEEDS_MORE + NEEDS_LESS, NEEDS_LESS + NEEDS_MORE], ids=["after it", "before it"])
def test_others_of_the_module_that_need_less_are_made_happen_what_they_look_at(results, pytester, tests):
    assert results(True, tests=tests) == {
        "test_two": ("not observable", "no pressure"),
        "test_one[1]": ("conforms", ""),
        "test_one[2]": ("conforms", ""),
    }
    assert (pytester.path / "happened").read_text() == "once\n"
