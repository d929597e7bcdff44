"""Scenes of a module's fixtures: they run for no test whose claim needs what the node lacks."""

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
    log = SimpleNamespace(to=lambda sink: contextlib.nullcontext())
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
    """The scene may be impossible without the need, such as memory.high on cgroup v1."""
    assert results(False, "-k", "two") == {"test_two": ("not observable", "no pressure")}


@pytest.mark.parametrize("tests", [NEEDS_MORE + NEEDS_LESS, NEEDS_LESS + NEEDS_MORE], ids=["after it", "before it"])
def test_scenes_of_a_modules_other_tests_run_if_their_needs_are_met(results, pytester, tests):
    assert results(True, tests=tests) == {
        "test_two": ("not observable", "no pressure"),
        "test_one[1]": ("conforms", ""),
        "test_one[2]": ("conforms", ""),
    }
    assert (pytester.path / "happened").read_text() == "once\n"


LOOKED_AT = """
@pytest.fixture(scope="module")
def happened(qos_node, qos_scene, qos_kubelet):
    with qos_scene(qos_kubelet) as scene:
        return [name for name in ("one", "two") if scene.shows(f"demo/{name}")]

@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("demo/one")
def test_one(happened, qos_evidence):
    with open("scene", "w") as file:
        file.write(" ".join(happened))
    qos_evidence.settle(finding("conforms"))

@pytest.mark.kubelet("v1.27")
@pytest.mark.claim("demo/two")
def test_two(happened, qos_evidence):
    qos_evidence.settle(finding("conforms"))
"""


@pytest.mark.parametrize("options", [("-k", "test_one"), ()], ids=["not selected", "not observable"])
def test_a_scene_runs_only_for_selected_tests(results, pytester, options):
    results(True, *options, tests=LOOKED_AT)
    assert (pytester.path / "scene").read_text() == "one"


def test_a_scene_runs_everything_its_tests_look_at(results, pytester):
    results(True, tests=LOOKED_AT.replace('"demo/two"', '"demo/one"').replace('("one", "two")', '("one", "one")'))
    assert (pytester.path / "scene").read_text() == "one one"
