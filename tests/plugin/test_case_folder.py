"""Evidence of a test's own fixtures on the node belongs to that test."""

import pytest

pytest_plugins = ["pytester"]

STATION = """
import contextlib
from types import SimpleNamespace
from memqos.place.fake import FakePlace
from memqos.plugin.machines import lane

FOLDERS = []

@contextlib.contextmanager
def station(config, key):
    node = SimpleNamespace(leftovers=lambda: (), why_not=lambda need: "")
    log = SimpleNamespace(to=lambda sink: FOLDERS.append(sink.folder.path.name) or contextlib.nullcontext())
    yield SimpleNamespace(
        id="main-0", key=key, place=FakePlace(), node=node, log=log, folder=None, capture=lambda folder: None
    )

lane.open_station = station

@pytest.fixture
def pods({node}):
    return list(FOLDERS)

@pytest.mark.claim("demo/one")
def test_it(pods, qos_evidence):
    verdict = "conforms" if pods == ["demo_test_demo.py_test_it"] else "deviates"
    qos_evidence.settle(finding(verdict, observed=str(pods)))
"""


@pytest.mark.parametrize("node", ["qos_node", "qos_fresh_node"])
def test_it_is_the_tests_though_they_come_before_its_evidence(suite, run, node):
    """They come first in a signature, like pods that a test then presses on."""
    suite(STATION.replace("{node}", node))

    run().stdout.fnmatch_lines(["verdict: conforms (1 case observed, 0 deviate;*"])
