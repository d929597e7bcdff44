"""Pods that are kept from one plan to the next: which parts are reused, and which are replaced."""

import dataclasses

from memqos.engine.answer.finding import Verdict, worst
from memqos.engine.releases.release import Variant
from memqos.model.node import ReservationPolicy
from memqos.model.pod import QosClass
from tests.unit.node.fakes import Bench, kubelet, pod


def test_kept_sandboxes_are_reused_without_values_of_the_previous_plan():
    bench = Bench()
    web = pod("web")
    tiered = kubelet("1.36", memory_reservation_policy=ReservationPolicy.TIERED)
    none = kubelet("1.36", memory_reservation_policy=ReservationPolicy.NONE)

    with bench.node.keeping_pods():
        for case in (kubelet("1.27"), tiered, none, kubelet("1.22", throttling_factor=None)):
            with bench.node.admitted([web], case) as population:
                findings = [*population.judge_pod(web), *population.judge_class(QosClass.BURSTABLE)]
                assert [f for f in findings if f.verdict is not Verdict.CONFORMS] == []

    assert bench.runtime.sandboxes == ["web"]
    assert bench.planned_cgroups == []


def test_a_sandbox_is_killed_with_its_containers_and_only_where_it_is_removed():
    bench, web = Bench(), pod("web")
    other = kubelet("1.22", throttling_factor=None)

    with bench.node.keeping_pods():
        for case in (kubelet("1.27"), other):
            with bench.node.admitted([web], case) as population:
                admitted = population.pods[web.uid]
            if case is not other:
                first = admitted.containers["app"].id
        assert bench.killed == [first]
        last, sandbox = admitted.containers["app"].id, admitted.sandbox.id
    assert bench.killed == [first, last, sandbox]


def test_a_recreated_container_has_a_log_of_its_own():
    """Runtimes append: a watch would take the previous container's report for its own."""
    bench, web, logs = Bench(), pod("web"), []

    for _ in range(2):
        with bench.node.admitted([web], kubelet()) as population:
            logs.append(population.pods[web.uid].containers["app"].log_path)

    assert len(set(logs)) == 2
    assert all("/app-" in log and log.endswith(".log") for log in logs)


def test_containers_are_recreated_unless_their_requests_are_equal():
    bench = Bench()
    web, best = pod("web", init=True), pod("best", request="", limit="")
    documented = dataclasses.replace(kubelet("1.27"), variant=Variant.DOCUMENTED)

    with bench.node.keeping_pods():
        with bench.node.admitted([web, best], kubelet("1.27")) as population:
            before = population.ids
        # Only BestEffort has another memory.high where the enhancement and the kubelet differ.
        with bench.node.admitted([web, best], documented) as population:
            after = population.ids
            assert worst(population.judge_pod(web)) is Verdict.CONFORMS
            assert worst(population.judge_pod(best)) is Verdict.CONFORMS

    assert {key for key in before if before[key] == after[key]} == {("uid-web", "init"), ("uid-web", "app")}
    assert before["uid-best", "app"] != after["uid-best", "app"]
    assert bench.planned_cgroups == []


def test_a_pod_with_another_cgroup_path_gets_a_new_sandbox():
    bench = Bench()

    with bench.node.keeping_pods():
        with bench.node.admitted([pod("web")], kubelet()):
            pass
        with bench.node.admitted([pod("web", request="", limit="")], kubelet()) as population:
            assert worst(population.judge_pod(pod("web"))) is Verdict.CONFORMS

    assert bench.runtime.sandboxes == ["web", "web"]


def test_a_pod_that_failed_does_not_keep_its_sandbox():
    bench = Bench()
    bench.runtime.init_exit_code = 1
    job = pod("job", init=True)

    with bench.node.keeping_pods():
        with bench.node.admitted([job], kubelet()) as population:
            assert population.failures
        bench.runtime.init_exit_code = 0
        with bench.node.admitted([job], kubelet()) as population:
            assert not population.failures

    assert bench.runtime.sandboxes == ["job", "job"]
