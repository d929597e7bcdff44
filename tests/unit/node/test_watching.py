"""Watching a container, on the fake node and on made-up samples."""

import re

import pytest

from memqos.engine.finding import Verdict
from memqos.errors import DeadlineError
from memqos.model.knob import Knob
from memqos.node import ended, reaches, rises, watching
from tests.unit.node.fakes import Bench, kubelet, pod
from tests.unit.node.samples import EVENTS


def test_watching_ends_when_the_conditions_were_seen_even_one_after_the_other():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        path = container.population.path_of(web, "app")
        bench.cgroups.show(path.parent, "memory.events", EVENTS.format(high=3, oom_kill=0))
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.CONFORMS
    assert course.rises("memory.events", "high").cgroup == str(path)
    assert len(bench.log.readings) == 3


def test_watching_ends_with_the_container():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        [handle] = bench.runtime.handles.values()
        bench.runtime.finish(handle, exit_code=137, reason="OOMKilled")
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES
    assert ended().holds(course.samples[-1])


def test_a_container_that_only_works_on_gives_nothing_to_judge(monkeypatch):
    monkeypatch.setattr(watching, "WATCH_SECONDS", 0.01)
    bench, web = Bench(), pod("web")
    with (
        bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container,
        pytest.raises(DeadlineError) as caught,
    ):
        container.until(rises("memory.events", "high"), reaches("memory.current", Knob.MEMORY_MAX))

    told = str(caught.value)
    assert re.fullmatch(
        r"waited 0\.\d s for 'memory\.events high rises and memory\.current reaches memory\.max'; the last "
        r"observation was high 0 in /kubepods\.slice/.*-poduid_web\.slice/memory\.events; "
        r"0 in /kubepods\.slice/.*/cri-containerd-[0-9a-f]{64}\.scope/memory\.current, "
        r"beside a planned memory\.max of 67108864\.",
        told,
    ), told


def test_a_workload_that_is_done_is_watched_a_little_longer_and_no_more(monkeypatch):
    monkeypatch.setattr(watching, "SETTLE_SECONDS", 0.0)
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES


def test_a_watch_ends_when_a_knob_that_it_rests_on_is_not_as_planned():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        path = container.population.path_of(web, "app")
        bench.cgroups.show(path, "memory.max", "max\n")
        course = container.until(rises("memory.events", "high"))

    assert [finding.verdict for finding in course.premises] == [Verdict.CONFORMS, Verdict.DEVIATES]
    assert course.rises("memory.events", "high").verdict is Verdict.NOT_OBSERVABLE
