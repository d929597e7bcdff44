"""Containers whose processes are not in their cgroups: each is found, and nothing waits for it in vain."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import DeadlineError, NonconformanceError
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node import rises
from memqos.node.pods.population import place_outside
from tests.unit.node.asked import Asked, findings
from tests.unit.node.fakes import Bench, kubelet, pod

EMPTY = "populated 0\nfrozen 0\n"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.pods.population.HEARING_SECONDS", 0.01)
    monkeypatch.setattr("memqos.enactor.admission.HEARING_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("cgroup", "where"),
    [
        (b"0::/\n", "/"),
        (b"0::/system.slice/containerd.service\n", "/system.slice/containerd.service"),
        (b"0::/kubepods/pod1/c\n", ""),
        (b"0::/kubepods/pod1/c/below\n", ""),
        (b"0::/kubepods/pod1/c (deleted)\n", ""),
        (None, ""),
    ],
)
def test_a_process_is_outside_where_it_runs_in_another_cgroup(cgroup: bytes | None, where: str) -> None:
    bench = Bench()
    if cgroup is not None:
        bench.target.put("/proc/7/cgroup", cgroup)
    assert place_outside(bench.node.tree, CgroupPath.parse("/kubepods/pod1/c"), [6, 7]) == where


# ---- watched behaviours


def leaves(bench: Bench, container: Any) -> None:
    """The container's process goes to the root's cgroup."""
    bench.cgroups.show(container.path, "cgroup.events", EMPTY)
    bench.target.put("/proc/1/cgroup", b"0::/\n")


def test_a_container_that_left_its_cgroup_is_a_finding_and_no_behaviour_is_judged() -> None:
    bench = Bench()
    with bench.node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        leaves(bench, container)
        course = container.until(rises("memory.events", "high"))

    outside = course.premises[0]
    assert (outside.verdict, outside.knob, outside.set_by) == (Verdict.DEVIATES, "cgroup.procs", Setter.RUNTIME)
    assert outside.observed == "none, of a container that is running"
    assert outside.evidence == {"its processes run in": "/"}
    behaviour = course.rises("memory.events", "high")
    assert behaviour.verdict is Verdict.NOT_OBSERVABLE
    assert "cgroup.procs of container app of pod default/web is none" in behaviour.why_not


def test_a_container_whose_processes_were_never_seen_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.behaviour.machine_feed.OUTSIDE_SECONDS", 0.0)
    bench = Bench()
    with bench.node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        container.processes = ()
        bench.cgroups.show(container.path, "cgroup.events", EMPTY)
        course = container.until(rises("memory.events", "high"))

    assert course.premises[0].knob == "cgroup.procs"
    assert course.premises[0].evidence == {}


def test_one_that_was_killed_is_none_of_them_however_long_the_runtime_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen with Podman 5.4.2 on a busy machine, which reported a killed container as running for 20 s."""
    monkeypatch.setattr("memqos.node.behaviour.machine_feed.OUTSIDE_SECONDS", 0.0)
    monkeypatch.setattr("memqos.node.behaviour.watch.WATCH_SECONDS", 0.01)
    bench = Bench()
    with bench.node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        container.processes = ()
        bench.cgroups.show(container.path.parent, "memory.events", "high 0\noom_kill 1\n")
        bench.cgroups.show(container.path, "cgroup.events", EMPTY)
        with pytest.raises(DeadlineError):
            container.until(rises("memory.events", "high"))
    assert container.outside is None


def test_one_that_ended_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memqos.node.behaviour.watch.WATCH_SECONDS", 0.01)
    bench = Bench()
    with bench.node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        bench.cgroups.show(container.path, "cgroup.events", EMPTY)
        with pytest.raises(DeadlineError):
            container.until(rises("memory.events", "high"))
    assert container.outside is None


# ---- populations


def test_a_container_of_a_pod_without_a_process_is_found() -> None:
    bench, web = Bench(), pod("web")
    with bench.node.admitted([web], kubelet()) as population:
        path = population.path_of(web, "app")
        bench.cgroups.lose_process(path)
        reading = bench.node.read(population)
        found = dataclasses.replace(population, reading=reading).judge_pod(web)
    [one] = [one for one in found if one.knob == "cgroup.procs"]
    assert (one.verdict, one.expected, one.observed) == (Verdict.DEVIATES, "there", "none")


class Stays(Asked):
    """A process killed in a container's cgroup lives on, because it is elsewhere; the runtime can end it."""

    procs = ""

    def start(self, handle: Any, *, deadline: Any) -> None:
        self.fake.start(handle, deadline=deadline)
        if handle.name == "requested":
            self.cgroups.show(self.path(handle), "cgroup.procs", self.procs)
            self.fake.misplace(handle, self.path(handle).parent.child("elsewhere"))

    def path(self, handle: Any) -> Any:
        return TRIXIE.layout(CgroupDriver.SYSTEMD).whole(super().path(handle).parent, handle.id)


def test_a_container_outside_its_cgroup_is_found_and_ended_by_the_runtime() -> None:
    with pytest.raises(NonconformanceError, match=r"cgroup\.procs of container requested is none") as caught:
        findings("limit", Stays)
    assert caught.value.data["finding"].knob == "cgroup.procs"


class IsSlow(Stays):
    """Its process is in no other cgroup: the runtime has not noticed its end."""

    procs = "1\n"

    def status(self, handle: Any, *, deadline: Any) -> Any:
        looked = self.looked = getattr(self, "looked", 0) + 1
        if looked > len("some looks"):
            self.fake.stop(handle, grace=0, deadline=deadline)
        return self.fake.status(handle, deadline=deadline)


def test_one_that_a_slow_runtime_believes_to_run_is_waited_for() -> None:
    assert {one.verdict for one in findings("limit", IsSlow)} == {Verdict.CONFORMS}
