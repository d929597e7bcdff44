"""An event shared by waiting tests: each has its own outcome and evidence, whichever were selected."""

import gzip
import json

import pytest

from tests.plugin.failing_creation import FAILING_CREATION

pytest_plugins = ["pytester"]

CONFTEST = (
    """
import contextlib
import os
from pathlib import Path
from types import SimpleNamespace

from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import DeadlineError, MachineryError
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.place.fake import FakePlace
from memqos.plugin.machines import lane
from memqos.laboratory.evidence import Folder, MachineLog, Sink

NUMBERS = iter(range(100))
FAULTS = os.environ.get("FAULTS", "")


def fault():
    if "hangs" in FAULTS:
        return DeadlineError("waited 60.0 s for an answer to create.")
    return MachineryError("the answer to create is no CRI message.")


@contextlib.contextmanager
def open_station(config, key):
    place, name = FakePlace(runtimes=TRIXIE), f"main-{next(NUMBERS)}"
    log, driver = MachineLog(Sink(Folder(Path("out/machines") / name))), CgroupDriver.SYSTEMD

    def systemctl(words, stdin, deadline):
        if words[1] != "show":
            with open("happened", "a") as file:
                file.write(f"{words[1]} on {name}\\n")
        return int("systemd" in FAULTS), b"", b"systemd does not answer"

    place.target.on(("systemctl",), systemctl)
    runtime = FailingCreation(place.runtime(driver), fault)
    node = node_on(place, runtime, recorder=log, driver=driver, runtimes=TRIXIE, parallel=2)
    node.why_not = lambda need: "the machine has no psi" if need == "psi" else ""
    yield SimpleNamespace(
        id=name, key=key, place=place, folder=None, capture=lambda folder: None, runtimes=["runc 1.1"], log=log,
        node=node,
    )


lane.open_station = open_station
"""
    + FAILING_CREATION
)

MODULE = """
def test_case(qos_case, qos_cases, qos_evidence):
    qos_evidence.settle(qos_cases(qos_case))
"""
REQUESTS = {"one": "limit", "two": "limit", "wrong": "unified-high", "three": "everything", "four": "limit"}
VERBS = {name: f'asks = {{ verb = "systemd_reloaded", request = "{request}" }}' for name, request in REQUESTS.items()}
ASKS = {**VERBS, "five": 'asks = { verb = "systemd_burnt" }'}


@pytest.fixture
def found(suite, run, pytester):
    """The results of a chapter of these tests by the names of their claims, with these options."""

    def of(*options):
        suite(MODULE)
        folder = pytester.path / "suites"
        one, _, two = (folder / "demo" / "claims.toml").read_text().partition("[two]")
        tables = {"one": one, "two": f"[two]{two}"}
        tables |= {name: one.replace("[one]", f"[{name}]") for name in ASKS if name not in tables}
        said = "".join(table.replace("]\n", f"]\n{ASKS[name]}\n", 1) for name, table in tables.items())
        (folder / "demo" / "claims.toml").write_text(said)
        (folder / "conftest.py").write_text(CONFTEST)
        run(*options)
        results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
        return {one["claim"].partition("/")[2]: one for one in results}

    return of


def lines(file):
    """Its content, also if a longer one was compressed."""
    return (
        file.read_text() if file.exists() else gzip.decompress(file.with_suffix(".jsonl.gz").read_bytes()).decode()
    ).splitlines()


def test_it_happens_once_for_all_that_wait_and_again_for_those_after_a_failure(found, pytester):
    results = found("-k", "not five")
    outcomes = {name: one["outcome"] for name, one in results.items()}
    assert outcomes == {
        "one": "conforms",
        "two": "not observable",
        "wrong": "machinery",
        "three": "conforms",
        "four": "conforms",
    }
    assert results["two"]["reason"] == "the machine has no psi"
    # After a machinery error neither the pod nor its machine is used any more.
    assert (pytester.path / "happened").read_text().splitlines() == [
        "daemon-reload on main-0",
        "daemon-reload on main-1",
    ]


def test_what_each_was_judged_by_is_with_its_own_test(found, pytester):
    results = found("-k", "one or three or four")
    for name in ("one", "three", "four"):
        folder = pytester.path / "out" / results[name]["folder"]
        assert json.loads((folder / "together.json").read_text()) == {"waited": ["one", "three", "four"]}
        readings = [json.loads(line) for line in lines(folder / "readings.jsonl")]
        # Of the container and its surroundings; before and after the event.
        assert len(readings) == 4
        [container] = readings[0]["cgroups"]
        assert readings[2]["cgroups"].keys() == {container}
    assert (pytester.path / "happened").read_text() == "daemon-reload on main-0\n"


def test_one_case_alone_is_judged(found, pytester):
    results = found("-k", "three")
    assert [one["outcome"] for one in results.values()] == ["conforms"]
    assert (pytester.path / "happened").read_text() == "daemon-reload on main-0\n"


def test_a_claim_without_a_verb_is_reported(found):
    [five] = found("-k", "five").values()
    assert five["outcome"] == "usage"
    assert "there is no verb 'systemd_burnt'" in five["reason"]


def test_after_a_hanging_case_no_further_one_is_started(found, pytester, monkeypatch):
    """The next one runs on another machine."""
    monkeypatch.setenv("FAULTS", "hangs")
    results = found("-k", "one or wrong or three or four")
    assert {name: one["outcome"] for name, one in results.items()} == {
        "one": "conforms",
        "wrong": "machinery",
        "three": "conforms",
        "four": "conforms",
    }
    assert {name: one["machine"] for name, one in results.items()} == {
        "one": "main-0",
        "wrong": "main-0",
        "three": "main-1",
        "four": "main-1",
    }


def test_what_does_not_happen_is_every_cases_own_error(found, pytester, monkeypatch):
    monkeypatch.setenv("FAULTS", "systemd")
    results = found("-k", "one or three")
    assert {one["outcome"] for one in results.values()} == {"machinery"}
    for one in results.values():
        assert "systemd does not answer" in one["reason"]
    # The second one is tried on a machine of its own.
    assert (pytester.path / "happened").read_text().splitlines() == [
        "daemon-reload on main-0",
        "daemon-reload on main-1",
    ]


def test_no_event_happens_for_a_single_case_with_unmet_needs(found, pytester):
    results = found("-k", "two")
    assert [one["outcome"] for one in results.values()] == ["not observable"]
    assert not (pytester.path / "happened").exists()
