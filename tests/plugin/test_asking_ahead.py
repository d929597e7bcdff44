"""Requests judged ahead of their tests: each leaves its evidence with its own test, and only once."""

import gzip
import json

import pytest

from tests.plugin.failing_creation import FAILING_CREATION

pytest_plugins = ["pytester"]

CONFTEST = (
    """
import contextlib
import os
import threading
from pathlib import Path
from types import SimpleNamespace

from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import DeadlineError, MachineryError
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.place.fake import FakePlace
from memqos.plugin.machines import lane
from memqos.plugin.machines.lane import leaves
from memqos.laboratory.evidence import Folder, MachineLog, Sink

NUMBERS = iter(range(100))
FIRST = [10.0]
LINGERING, BEGUN, GOES_ON = [], threading.Event(), threading.Event()


def hangs():
    return DeadlineError("waited 60.0 s for an answer to create.")


@contextlib.contextmanager
def open_station(config, key):
    place, name = FakePlace(runtimes=TRIXIE), f"main-{next(NUMBERS)}"
    place.is_disposable = "LINGERS" in os.environ
    log, driver = MachineLog(Sink(Folder(Path("out/machines") / name))), CgroupDriver.SYSTEMD
    runtime = FailingCreation(place.runtime(driver), hangs)
    runtime.machine = name
    yield SimpleNamespace(
        id=name, key=key, place=place, folder=None, capture=lambda folder: None, runtimes=["runc 1.1"], log=log,
        node=node_on(
            place, runtime, recorder=log, driver=driver, runtimes=TRIXIE, parallel=2,
            leaves=lambda: leaves(config, place),
        ),
    )


lane.open_station = open_station
"""
    + FAILING_CREATION
)

MODULE = """
def test_request(qos_request, qos_requests, qos_evidence):
    qos_evidence.settle(qos_requests(qos_request))
"""

NAMES = ["limit", "unified-high", "update-unified-high", "everything"]


SANDBOXES = """

class FailingCreation(FailingCreation):
    def __init__(self, runtime, error):
        super().__init__(runtime, error)
        self.killed = threading.Event()

    def create(self, sandbox, spec, *, deadline):
        if "LINGERS" in os.environ:
            self.linger(spec.resources)
        if "KILLS" not in os.environ:
            return super().create(sandbox, spec, deadline=deadline)
        if spec.resources.unified == {"memory.high": "50331648"}:
            self.killed.set()
        elif spec.resources.memory_limit_in_bytes and FIRST:
            # It is made while the one that kills is under way.
            self.killed.wait(FIRST.pop())
        if self.killed.is_set():
            raise MachineryError("nothing answers.")
        return self.runtime.create(sandbox, spec, deadline=deadline)

    def linger(self, resources):
        # update-unified-high waits on the first machine until it was judged on the last, and goes on to its end.
        if resources.cpu_shares == 512 and self.machine == "main-0":
            LINGERING.append(threading.current_thread())
            BEGUN.set()
            GOES_ON.wait(10)
        elif resources.unified == {"memory.high": "50331648"} and self.machine == "main-0":
            # It fails once the other one is under way.
            BEGUN.wait(10)
        elif resources.cpu_shares == 256 and self.machine == "main-2" and LINGERING:
            GOES_ON.set()
            LINGERING[0].join(10)
            Path("gone-on").touch()

    def run_sandbox(self, *words, **more):
        Path("sandbox-made").touch()
        return self.runtime.run_sandbox(*words, **more)
"""


@pytest.fixture
def find(suite, run, pytester):
    """The results of a chapter of these requests, by their names; one of them hangs. needs: of each claim, in TOML."""

    def go(needs=""):
        suite(MODULE)
        folder = pytester.path / "suites"
        one, _, _ = (folder / "demo" / "claims.toml").read_text().partition("[two]")
        claims = "".join(f"{one.replace('[one]', f'[{name}]').rstrip()}\n{needs}\n\n" for name in NAMES)
        (folder / "demo" / "claims.toml").write_text(claims)
        (folder / "conftest.py").write_text(CONFTEST + SANDBOXES)
        run("--memqos-all")
        results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
        return {one["claim"].partition("/")[2]: one for one in results}

    return go


@pytest.fixture
def found(find):
    return find()


def lines(file):
    """Its content, also if a longer one was compressed."""
    return (
        file.read_text() if file.exists() else gzip.decompress(file.with_suffix(".jsonl.gz").read_bytes()).decode()
    ).splitlines()


def test_what_each_was_judged_by_is_with_its_own_test(found, pytester):
    assert [found[name]["outcome"] for name in NAMES] == ["conforms", "machinery", "conforms", "conforms"]
    machines = [found[name]["machine"] for name in NAMES]
    # It failed next to another case on the first machine, and alone on the second.
    assert machines == ["main-0", "main-1", "main-2", "main-2"]
    for name in ("limit", "update-unified-high", "everything"):
        folder = pytester.path / "out" / found[name]["folder"]
        readings = [json.loads(line) for line in lines(folder / "readings.jsonl")]
        # Evidence from before, of the container, and from after, of its machine only.
        assert len(readings) == 3
        assert readings[0]["cgroups"].keys() == readings[2]["cgroups"].keys()
        [container] = readings[1]["cgroups"]
        assert container.rpartition("/")[0] in readings[0]["cgroups"]


def test_what_one_case_takes_away_from_the_others_they_have_on_another_machine(find, pytester, monkeypatch):
    """A case that kills the daemon, requested while the previous one runs: the previous one is not to blame."""
    monkeypatch.setenv("KILLS", "yes")
    found = find()

    assert [found[name]["outcome"] for name in NAMES] == ["conforms", "machinery", "conforms", "conforms"]
    assert [found[name]["machine"] for name in NAMES] == ["main-1", "main-1", "main-2", "main-2"]
    read = {name: len(lines(pytester.path / "out" / found[name]["folder"] / "readings.jsonl")) for name in NAMES}
    # Readings from before the failed attempt are kept with those of the next one.
    assert (read["limit"], read["everything"]) == (4, 3)


def test_a_thread_left_on_an_abandoned_machine_writes_nothing_into_the_next_attempt(find, pytester, monkeypatch):
    monkeypatch.setenv("LINGERS", "yes")
    found = find()

    assert (pytester.path / "gone-on").exists()
    assert [found[name]["machine"] for name in NAMES] == ["main-0", "main-1", "main-2", "main-2"]
    assert len(lines(pytester.path / "out" / found["update-unified-high"]["folder"] / "readings.jsonl")) == 3


def test_no_pod_is_created_if_the_node_lacks_a_need_of_every_claim(find, pytester):
    """One was created for each chapter, and removed again, before its cases got their reasons."""
    found = find('needs = ["docker"]')

    assert {(one["outcome"], one["reason"]) for one in found.values()} == {
        ("not observable", "fake does not support 'HostConfig'")
    }
    assert not (pytester.path / "sandbox-made").exists()


def test_a_pod_is_created_if_one_claim_can_be_tried(found, pytester):
    assert found
    assert (pytester.path / "sandbox-made").exists()
