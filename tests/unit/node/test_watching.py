"""Watching a container, on the fake node and on made-up samples."""

import pytest

from memqos.engine.finding import Verdict
from memqos.errors import DeadlineError
from memqos.node import ended, rises, watching
from tests.unit.node.fakes import Bench, kubelet, pod
from tests.unit.node.samples import EVENTS


def test_watching_ends_when_the_conditions_were_seen_even_one_after_the_other():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet()) as container:
        path = container.population.path_of(web, "app")
        bench.cgroups.show(path.parent, "memory.events", EVENTS.format(high=3, oom_kill=0))
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.CONFORMS
    assert course.rises("memory.events", "high").cgroup == str(path)
    assert len(bench.log.readings) == 3


def test_watching_ends_with_the_container():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet()) as container:
        [handle] = bench.runtime.handles.values()
        bench.runtime.finish(handle, exit_code=137, reason="OOMKilled")
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES
    assert ended().holds(course.samples[-1])


def test_a_container_that_only_works_on_gives_nothing_to_judge(monkeypatch):
    monkeypatch.setattr(watching, "WATCH_SECONDS", 0.01)
    bench, web = Bench(), pod("web")
    with (
        bench.node.watched(web, kubelet()) as container,
        pytest.raises(DeadlineError, match=r"memory\.events high rises"),
    ):
        container.until(rises("memory.events", "high"))


def test_a_workload_that_is_done_is_watched_a_little_longer_and_no_more(monkeypatch):
    monkeypatch.setattr(watching, "SETTLE_SECONDS", 0.0)
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet()) as container:
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES
