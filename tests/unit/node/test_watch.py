"""Watching a container, on the fake node and on made-up samples."""

import dataclasses
import json
import re

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import DeadlineError, MachineryError, UsageError
from memqos.model.knob import Knob
from memqos.node import ended, reaches, rises
from memqos.node.behaviour import watch
from memqos.place import fake
from memqos.probe.sampler import Failed
from memqos.workload.command import Anon, Touch
from tests.unit.node.fakes import Bench, kubelet, pod
from tests.unit.node.samples import EVENTS, course, files, sample


def test_watching_ends_when_the_conditions_were_seen_even_one_after_the_other():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        path = container.path
        bench.cgroups.show(path.parent, "memory.events", EVENTS.format(high=3, oom_kill=0))
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.CONFORMS
    assert course.rises("memory.events", "high").cgroup == str(path)
    assert [look.why for look in bench.log.looks[:2]] == ["new", "new"]
    assert bench.log.looks[-1].files == {"memory.events": EVENTS.format(high=3, oom_kill=0)}


def test_pods_of_kubelets_with_other_factors_run_next_to_each_other():
    bench, web = Bench(), pod("web")
    kubelets = {factor: kubelet().with_factor(factor) for factor in ("0.4", "0.9")}
    with bench.node.watched_each(web, kubelets, rests_on=[Knob.MEMORY_HIGH]) as containers:
        held = {name: bench.cgroups.text(one.path, "memory.high") for name, one in containers.items()}

    # 32 Mi + 0.4 * 32 Mi = 46976204.8 and 32 Mi + 0.9 * 32 Mi = 63753420.8, in whole pages.
    assert held == {"0.4": "46972928\n", "0.9": "63750144\n"}
    assert {one.pod for one in containers.values()} == {one.cgroup.path for one in bench.log.plans[0].pods}
    assert [one.name for one in bench.log.plans[0].pods] == ["web-0.4", "web-0.9"]


def test_kubelets_that_differ_above_pods_cannot_be_combined():
    kubelets = {"one": kubelet(), "other": kubelet("1.36", memory_reservation_policy="None")}
    node = Bench().node
    with (
        pytest.raises(UsageError, match="the pod 'web-other' cannot run beside the others"),
        node.watched_each(pod("web"), kubelets, rests_on=[Knob.MEMORY_MAX]),
    ):
        pass


def test_nothing_is_seen_of_pods_that_are_being_removed(monkeypatch):
    bench, stood = Bench(), []
    monkeypatch.setattr(fake.FakeSampling, "finish", lambda _: stood.extend(bench.cgroups.below([path])))
    with bench.node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        path = container.path

    assert stood == [path]
    assert not [*bench.cgroups.below([path])]


def test_watching_ends_with_the_container():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        [handle] = bench.runtime.handles.values()
        bench.runtime.finish(handle, exit_code=137, reason="OOMKilled")
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES
    assert ended().holds(course.samples[-1])


def test_a_container_that_never_finishes_is_a_timeout(monkeypatch):
    monkeypatch.setattr(watch, "WATCH_SECONDS", 0.01)
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
        r"0 in /kubepods\.slice/.*/cri-containerd-[0-9a-f]{64}\.scope/memory\.current; "
        r"planned memory\.max is 67108864\.",
        told,
    ), told


def test_a_finished_workload_is_watched_for_the_settling_time(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        course = container.until(rises("memory.events", "high"))

    assert course.rises("memory.events", "high").verdict is Verdict.DEVIATES


def test_a_watch_ends_when_a_knob_that_it_rests_on_is_not_as_planned():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        path = container.path
        bench.cgroups.show(path, "memory.max", "max\n")
        course = container.until(rises("memory.events", "high"))

    assert [finding.verdict for finding in course.premises] == [Verdict.CONFORMS, Verdict.DEVIATES]
    assert course.rises("memory.events", "high").verdict is Verdict.NOT_OBSERVABLE


def test_a_precondition_is_judged_once_the_container_runs():
    """A runtime creates the cgroup first and writes its limits afterwards."""
    made = dataclasses.replace(sample(files(memory_swap_max="max\n"), at=1.0), runs=False)
    runs = sample(files(), at=2.0)

    assert [finding.verdict for finding in course(made, runs).premises] == [Verdict.CONFORMS]
    assert [finding.verdict for finding in course(runs, made).premises] == [Verdict.CONFORMS]


def test_a_container_that_ended_before_it_was_known_to_run_is_judged_by_its_last_files():
    made = dataclasses.replace(sample(files(memory_swap_max="max\n"), at=1.0), runs=False)
    limited = dataclasses.replace(sample(files(), at=2.0), runs=False)
    gone = sample(None, files(), exit_code=137, at=3.0)

    assert [finding.verdict for finding in course(made, limited, gone).premises] == [Verdict.CONFORMS]
    assert [finding.verdict for finding in course(made, gone).premises] == [Verdict.DEVIATES]


def test_several_pods_are_watched_at_once():
    bench, web, other = Bench(), pod("web"), pod("other")
    with bench.node.watched_pods([web, other], kubelet(), rests_on=[Knob.MEMORY_MAX]) as watch:
        one, two = watch.container("web"), watch.container("other", "app")
        bench.cgroups.show(one.path.parent, "memory.events", EVENTS.format(high=3, oom_kill=0))
        bench.runtime.finish(two.handle, exit_code=137, reason="OOMKilled")
        watch.until(one.sees(rises("memory.events", "high")), two.sees(ended()))

    assert one.course.rises("memory.events", "high").verdict is Verdict.CONFORMS
    assert two.course.rises("memory.events", "high").verdict is Verdict.DEVIATES
    assert two.course.oom.reports_reason().verdict is Verdict.CONFORMS
    assert one.course.still_runs().verdict is Verdict.CONFORMS
    with pytest.raises(UsageError, match="no container 'nobody/' is watched"):
        watch.container("nobody")


def test_a_steered_workload_takes_commands_and_another_one_does_not():
    bench, web = Bench(), pod("web")
    bench.target.on(("rm",), lambda *_: (0, b"", b""))
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX], steered=True) as container:
        container.do(Anon(size=4096), Touch())
        sampling = bench.sampler.opened[-1]
        assert not container.work_is_done
    assert sampling.written == [
        ("/run/memqos/control/uid-web/app/commands", "anon 4096 step=1048576"),
        ("/run/memqos/control/uid-web/app/commands", "touch all"),
    ]
    assert ("rm", "-rf", "--", "/run/memqos/control/uid-web/app") in bench.target.ran
    with (
        bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container,
        pytest.raises(UsageError, match="takes no commands"),
    ):
        container.do(Touch())


def test_commands_and_reports_are_recorded(monkeypatch):
    monkeypatch.setattr(watch, "WATCH_SECONDS", 0.01)
    bench, web = Bench(), pod("web")
    bench.target.on(("rm",), lambda *_: (0, b"", b""))
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX], steered=True) as container:
        container.do(Touch())
        seen = container.now
        done = {"event": "done", "ms": 1, "command": 1, "verb": "touch", "id": 1, "bytes": 1, "max_us": 1}
        log = f"2026-01-01T00:00:00Z stdout F {json.dumps(done)}\n".encode()
        bench.target.put(container.handle.log_path, log)
        container.until_done()

    told, said = bench.log.spoken_to
    assert (told.at, told.container, told.told, told.text) == (seen, "web/app", True, "touch all")
    assert (said.container, said.told, said.text.encode()) == ("web/app", False, log)
    assert said.at >= seen


def test_between_commands_there_are_no_samples_and_status_calls(monkeypatch):
    bench, web = Bench(), pod("web")
    bench.target.on(("rm",), lambda *_: (0, b"", b""))
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX], steered=True) as container:
        sampling = bench.sampler.opened[-1]
        container.do(Touch())
        done = {"event": "done", "ms": 1, "command": 1, "verb": "touch", "id": 1, "bytes": 1, "max_us": 1}
        log = f"2026-01-01T00:00:00Z stdout F {json.dumps(done)}\n".encode()
        bench.target.put(container.handle.log_path, log)
        looks = []
        monkeypatch.setattr(sampling, "look", lambda **_: looks.append("look") or [])
        monkeypatch.setattr(bench.runtime, "status", lambda *_, **__: pytest.fail("it is asked for a status"))
        container.until_reported()
        assert (container.undone, looks) == (0, [])
        monkeypatch.undo()
        container.until_done()


def test_status_is_asked_at_once_only_for_containers_that_seem_ended(monkeypatch):
    monkeypatch.setattr(watch, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "STATUS_SECONDS", 1000.0)
    bench = Bench()
    with bench.node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        waiting = watch.PendingConditions([container.sees(ended())])
        path = container.path
        container.samples[-1].reading.cgroups[path].files["cgroup.events"] = "populated 1\nfrozen 0\n"
        assert waiting.due() == []
        container.samples[-1].reading.cgroups[path].files["cgroup.events"] = "populated 0\nfrozen 0\n"
        assert waiting.due() == [container]
        # Without the file, as on cgroup v1, only the runtime reports it.
        del container.samples[-1].reading.cgroups[path].files["cgroup.events"]
        assert waiting.due() == [container]
        container.samples[-1].reading.cgroups[path].files["cgroup.events"] = "populated 1\nfrozen 0\n"
        monkeypatch.setattr(watch, "STATUS_SECONDS", 0.0)
        assert watch.PendingConditions([container.sees(ended())]).due() == [container]


def test_a_changed_container_has_no_time_before_its_next_sample():
    bench, web = Bench(), pod("web")
    bench.target.on(("rm",), lambda *_: (0, b"", b""))
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX], steered=True) as container:
        container.samples.clear()
        container.do(Touch())

    assert [(one.at, one.text) for one in bench.log.spoken_to] == [(0.0, "touch all")]


def test_unread_commands_are_a_machinery_error():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=[Knob.MEMORY_MAX]) as container:
        failed = Failed(at=1.0, what="to", path="/run/f", errno=6)
        bench.sampler.opened[-1].failed.append(failed)
        with pytest.raises(MachineryError, match="could not be written to /run/f"):
            container.until(ended())
