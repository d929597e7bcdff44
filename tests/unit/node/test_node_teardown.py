"""The end of a node: after a test, an interrupt, a broken machine, and with --keep."""

import contextlib
import threading
from concurrent.futures import Future

import pytest

from memqos.enactor import admission
from memqos.errors import DeadlineError, RuntimeCallError, TargetError
from memqos.node import NodeUnderTest
from memqos.node.occupancy import Cleanup
from memqos.place.fake import FakeSampler
from memqos.runtime.fake import FakeRuntime
from tests.unit.node.fakes import Bench, kubelet, pod


@pytest.mark.parametrize("disposable", [True, False])
@pytest.mark.parametrize("outcome", [pytest.skip, pytest.fail, pytest.xfail])
def test_a_finished_test_leaves_no_pods(disposable, outcome):
    bench = Bench(disposable=disposable)
    stood = []

    def end_while_pods_stand():
        with bench.node.admitted([pod("web")], kubelet()):
            stood.extend(bench.planned_cgroups)
            outcome("nothing can be said of it")

    with pytest.raises(outcome.Exception):
        end_while_pods_stand()
    assert stood
    assert not bench.planned_cgroups


@pytest.mark.parametrize("disposable", [True, False])
def test_an_interrupt_waits_for_a_runtime_that_hangs_only_where_pods_must_be_removed(monkeypatch, disposable):
    bench = Bench(disposable=disposable)
    asked, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def hang(spec, *, deadline):
        asked.set()
        goes_on.wait(20 if disposable else 1)
        ended.set()
        raise RuntimeCallError("the runtime hung.")

    def interrupted(future):
        asked.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.runtime, "run_sandbox", hang)
    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt), bench.node.admitted([pod("web")], kubelet()):
        pytest.fail("nothing may be admitted")

    assert ended.is_set() is not disposable
    goes_on.set()


def test_removing_is_not_tried_for_ever_either(monkeypatch):
    bench = Bench()
    asked = []

    def hang(sandbox, *, deadline):
        asked.append(sandbox.id)
        raise RuntimeCallError("the runtime hangs.")

    with (
        pytest.raises(RuntimeCallError, match=r"the runtime hangs\."),
        bench.node.admitted([pod(name) for name in ("one", "two", "three", "four", "five")], kubelet()),
    ):
        monkeypatch.setattr(bench.runtime, "remove_sandbox", hang)
    assert len(asked) == 3


def test_pods_that_are_killed_in_vain_are_waited_for_together(monkeypatch):
    """One after the other would leave a pod no time in which the runtime could end its containers."""
    bench = Bench()
    in_vain, stopped = [], []
    real = admission.wait

    def wait(condition, observe, *, deadline, until):
        had = deadline.remaining
        try:
            return real(condition, observe, deadline=deadline, until=until)
        except DeadlineError:
            in_vain.append(had)
            raise

    def stop(container, *, grace, deadline):
        stopped.append(container.id)
        FakeRuntime.finish(bench.runtime, container, exit_code=137)

    monkeypatch.setattr(admission, "HEARING_SECONDS", 0.05)
    with bench.node.admitted([pod(name) for name in ("one", "two", "three", "four")], kubelet()):
        # Their processes are not in their cgroups, where they are killed.
        monkeypatch.setattr(bench.runtime, "finish", lambda *_, **__: None)
        monkeypatch.setattr(bench.runtime, "stop", stop)
        monkeypatch.setattr(admission, "wait", wait)

    assert sorted(stopped) == sorted(bench.runtime.handles)
    # At most two are removed at a time; the time for all is spent when the third begins.
    assert [had == 0.0 for had in in_vain[2:]] == [True, True]
    assert bench.planned_cgroups == []


def test_an_error_in_the_test_removes_everything_and_stays_the_error():
    bench = Bench()

    with pytest.raises(ValueError, match="the test"), bench.node.admitted([pod("web")], kubelet()):
        raise ValueError("the test")

    assert bench.planned_cgroups == []


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_node_that_is_left_as_it_is_causes_no_error(is_broken, monkeypatch):
    """On a broken machine, tidying up could only fail again, in the name of the next test."""
    bench = Bench()
    node = NodeUnderTest(
        target=bench.target,
        runtime=bench.runtime,
        enactor=bench.enactor,
        sampler=FakeSampler(bench.cgroups, bench.target),
        facts=bench.facts,
        recorder=bench.log,
        cleanup=Cleanup(leaves=lambda: is_broken),
    )

    def gone(*_, **__):
        raise TargetError("the connection is lost.")

    ending = contextlib.nullcontext() if is_broken else pytest.raises(TargetError, match="the connection is lost")
    with ending, node.keeping_pods(), node.admitted([pod("web")], kubelet()):
        monkeypatch.setattr(bench.runtime, "stop", gone)
        monkeypatch.setattr(bench.runtime, "remove_sandbox", gone)

    assert bench.runtime.handles


class Wish:
    """Whether the user may want to inspect the pods, and whether they do."""

    def __init__(self):
        self.may, self.does = True, False
        self.bench = Bench()
        self.node = NodeUnderTest(
            target=self.bench.target,
            runtime=self.bench.runtime,
            enactor=self.bench.enactor,
            sampler=FakeSampler(self.bench.cgroups, self.bench.target),
            facts=self.bench.facts,
            recorder=self.bench.log,
            cleanup=Cleanup(leaves=lambda: self.does, lingers=lambda: self.may),
        )

    @property
    def pods(self):
        return len(self.bench.runtime.sandbox_ids)


def test_pods_linger_until_the_node_is_used_again():
    wish = Wish()
    with wish.node.admitted([pod("web")], kubelet()):
        pass
    assert wish.pods == 1
    with wish.node.admitted([pod("db"), pod("cache")], kubelet()):
        assert wish.pods == 2
    assert wish.pods == 2
    assert wish.node.leftovers() == ()
    assert wish.pods == 0


def test_pods_of_a_kept_machine_stay():
    """A test's failure is reported after its pods' context has ended, by an error or without one."""
    wish = Wish()
    with pytest.raises(AssertionError), wish.node.admitted([pod("web")], kubelet()):
        raise AssertionError
    wish.may, wish.does = False, True
    wish.node.leftovers()
    assert wish.pods == 1


def test_pods_kept_between_populations_linger_too():
    wish = Wish()
    with wish.node.keeping_pods():
        with wish.node.admitted([pod("web")], kubelet()):
            pass
        with wish.node.admitted([pod("web"), pod("db")], kubelet()):
            pass
    assert wish.pods == 2
    with wish.node.keeping_pods():
        assert wish.pods == 0
