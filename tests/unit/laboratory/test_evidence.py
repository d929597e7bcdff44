"""The folder of evidence: a case's sink travels with its context, and into the threads of its work."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import MachineryError
from memqos.laboratory.evidence import Folder, MachineLog, Sink
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.node.requests.lifecycle import LifecycleVerbs
from memqos.place.fake import FakePlace
from memqos.runtime.base import RecordedCalls
from memqos.threads import submit
from tests.unit.node.asked import CATALOGUE
from tests.unit.node.fakes import kubelet, pod


@pytest.fixture
def log(tmp_path):
    return MachineLog(Sink(Folder(tmp_path / "machine")))


@pytest.fixture
def sink(tmp_path):
    return lambda name: Sink(Folder(tmp_path / name))


def kept(tmp_path, name="requests.jsonl"):
    """The lines of this file in each folder."""
    return {
        file.parent.name: [json.loads(one) for one in file.read_text().splitlines()] for file in tmp_path.rglob(name)
    }


def test_a_nested_case_returns_to_the_outer_one(log, sink, tmp_path):
    """A test with pods of its own between two tests of a population: later evidence is the population's again."""
    with log.to(sink("population")):
        log.call(1)
        with log.to(sink("case")):
            log.call(2)
        log.call(3)
    log.call(4)
    assert kept(tmp_path) == {"population": [1, 3], "case": [2], "machine": [4]}


def test_a_case_left_early_leaves_no_state_behind(log, sink, tmp_path):
    case, population = log.to(sink("case")), log.to(sink("population"))
    case.__enter__()
    population.__enter__()
    case.__exit__(None, None, None)
    log.call(1)
    population.__exit__(None, None, None)
    log.call(2)
    assert kept(tmp_path) == {"population": [1], "machine": [2]}


def test_what_a_sink_has_taken_is_on_the_disk_at_once_and_stays_when_the_machine_dies(log, sink, tmp_path):
    def dies():
        with log.to(sink("case")):
            log.call(1)
            assert kept(tmp_path) == {"case": [1]}
            raise MachineryError("the machine died.")

    with pytest.raises(MachineryError):
        dies()
    log.call(2)
    assert kept(tmp_path) == {"case": [1], "machine": [2]}


def test_work_that_outlives_its_case_writes_to_its_own_case(log, sink, tmp_path):
    goes_on = threading.Event()

    def lingers():
        goes_on.wait(10)
        log.call("late")

    with ThreadPoolExecutor(max_workers=1) as pool:
        with log.to(sink("first")):
            submit(pool, lingers)
        with log.to(sink("second")):
            log.call("next")
            goes_on.set()
            pool.shutdown()
    assert kept(tmp_path) == {"first": ["late"], "second": ["next"]}


def test_a_lent_machine_keeps_evidence_outside_cases_from_any_thread(log, sink, tmp_path):
    with log.lent(sink("admission")), ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(log.call, 1).result()
        with log.to(sink("case")):
            log.call(2)
            pool.submit(log.call, 3).result()
    log.call(4)
    assert kept(tmp_path) == {"admission": [1, 3], "case": [2], "machine": [4]}


class Recorded:
    """The runtime of an in-memory place; some of its calls are recorded, with the calling thread."""

    def __init__(self, runtime, log):
        self.runtime, self.calls = runtime, RecordedCalls(log.call)

    def __getattr__(self, name):
        found = getattr(self.runtime, name)
        if name not in {"create", "exec", "run_sandbox"}:
            return found

        def called(*words, deadline, **more):
            thread = threading.current_thread().name.partition("_")[0]
            with self.calls.call(name, {"thread": thread}, deadline) as call:
                answer = found(*words, deadline=deadline, **more)
                call.reply = {}
                return answer

        return called


def node_of(log):
    place, driver = FakePlace(), CgroupDriver.SYSTEMD
    runtime = Recorded(place.runtime(driver), log)
    return node_on(place, runtime, recorder=log, driver=driver, runtimes=TRIXIE, parallel=2)


def calls(tmp_path):
    """Which calls of which threads each folder has."""
    return {
        folder: [f"{one['method']} by {one['request']['thread']}" for one in lines]
        for folder, lines in kept(tmp_path).items()
    }


def test_the_threads_that_start_pods_write_to_the_case_that_admits_them(log, sink, tmp_path):
    node = node_of(log)
    with log.to(sink("case")), node.admitted([pod("one"), pod("two")], kubelet()):
        pass
    assert calls(tmp_path).keys() == {"case"}
    assert sorted(calls(tmp_path)["case"]) == [*["create by pod"] * 2, *["run_sandbox by pod"] * 2]
    assert kept(tmp_path, "readings.jsonl").keys() == {"case"}


def test_a_program_run_next_to_other_cases_is_recorded_with_its_own(log, sink, tmp_path):
    """Its request was in the folder of whichever test ran at that moment."""
    node = node_of(log)
    with (
        log.to(sink("running")),
        node.requests_as(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none"), LifecycleVerbs) as life,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="asker") as pool,
    ):

        def judge():
            with log.to(sink("ahead")):
                return life.exec_in_it(CATALOGUE.request("everything"))

        assert submit(pool, judge).result()
    assert calls(tmp_path)["ahead"] == ["create by asker", "exec by exec"]
    assert calls(tmp_path)["running"] == ["run_sandbox by pod", "create by pod"]
