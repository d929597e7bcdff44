"""The verbs of the node under test, on fakes: order, failures, reuse, and the way back."""

import pytest

from memqos.enactor.base import Patience
from memqos.engine.answer.finding import Verdict, worst
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import MachineError, MachineryError, RuntimeCallError, TargetError
from memqos.model.path import CgroupPath
from memqos.model.pod import QosClass
from memqos.model.quantity import Quantity
from memqos.node import NodeUnderTest
from memqos.node.occupancy import HealthChecks
from memqos.place.fake import FakeSampler
from tests.unit.node.fakes import Bench, kubelet, pod


def test_pods_are_planned_enforced_started_read_and_judged():
    bench = Bench()
    web = pod("web")

    with bench.node.admitted([web], kubelet()) as population:
        findings = population.judge_pod(web)
        app = [finding for finding in findings if str(finding.subject) == "container app of pod default/web"]
        values = {finding.knob: finding.observed for finding in app}

    assert worst(findings) is Verdict.CONFORMS
    # 32Mi + 0.9 * (64Mi - 32Mi) = 63753420.8, whole pages below it: 15564 * 4096
    assert values["memory.high"] == "63750144"
    assert values["memory.min"] == "33554432"
    assert values["memory.max"] == "67108864"
    assert worst(population.judge_class(QosClass.BURSTABLE)) is Verdict.CONFORMS
    assert worst(population.judge_node()) is Verdict.CONFORMS
    assert bench.planned_cgroups == []
    assert len(bench.log.plans) == 1
    assert len(bench.log.readings) == 1


def test_crun_keeps_containers_in_a_cgroup_below_their_scope():
    bench = Bench(runtimes=Runtimes(cri=traits_of("containerd", "1.7.24"), oci=traits_of("crun", "1.21")))
    job = pod("job", init=True)

    with bench.node.admitted([job], kubelet()) as population:
        findings = population.judge_pod(job)
        app = population.path_of(job, "app")

    assert (app.name, app.parent.name[:14], app.parent.name[-6:]) == ("container", "cri-containerd", ".scope")
    assert worst(findings) is Verdict.CONFORMS
    assert {finding.cgroup for finding in findings if str(finding.subject).startswith("container app")} == {str(app)}
    assert bench.planned_cgroups == []


def test_a_reserved_cgroup_that_exists_is_adopted_and_gets_its_values_back():
    """What a kubelet requires to exist: /system.slice has processes, limits and an owner of its own."""
    bench = Bench()
    system = CgroupPath.parse("/system.slice")
    bench.cgroups.make(system)
    bench.cgroups.put(system, "memory.max", "1073741824")
    reserved = kubelet(
        system_reserved={"memory": Quantity.parse("100Mi")},
        system_reserved_cgroup="/system",
        enforce_node_allocatable=("pods", "system-reserved"),
    )
    web = pod("web")

    with bench.node.admitted([web], reserved) as population:
        assert worst(population.judge_node()) is Verdict.CONFORMS
        assert bench.cgroups.text(system, "memory.max") == "104857600\n"

    assert bench.cgroups.text(system, "memory.max") == "1073741824\n"


def test_init_containers_run_first_and_are_read_while_they_run():
    bench = Bench()
    job = pod("job", init=True)

    with bench.node.admitted([job], kubelet()) as population:
        findings = population.judge_pod(job)

    init = [finding for finding in findings if str(finding.subject).startswith("container init")]
    assert {finding.verdict for finding in init} == {Verdict.CONFORMS}
    assert [handle.name for handle in bench.runtime.handles.values()] == ["init", "app"]


def test_an_init_container_that_fails_keeps_its_pod_from_starting():
    bench = Bench()
    bench.runtime.init_exit_code = 3
    job, web = pod("job", init=True), pod("web")

    with bench.node.admitted([job, web], kubelet()) as population:
        with pytest.raises(MachineryError, match="the init container 'init' ended with 3"):
            population.judge_pod(job)
        assert worst(population.judge_pod(web)) is Verdict.CONFORMS
        assert [admitted.pod.name for admitted in population.failures] == ["job"]


def test_a_pod_that_cannot_start_is_an_error_of_its_own_tests_only():
    bench = Bench()
    bench.runtime.broken = {"bad"}
    bad, good = pod("bad"), pod("good")

    with bench.node.admitted([bad, good], kubelet()) as population:
        for _ in range(2):
            with pytest.raises(RuntimeCallError, match="no sandbox for bad"):
                population.judge_pod(bad)
        assert worst(population.judge_pod(good)) is Verdict.CONFORMS

    assert bench.planned_cgroups == []


def test_after_three_pods_that_failed_alike_the_rest_of_a_population_is_not_tried():
    bench = Bench()
    pods = [pod(name) for name in "abcdef"]
    bench.runtime.hanging = set("abcdef")

    with bench.node.keeping_pods():
        with bench.node.admitted(pods, kubelet()) as population:
            assert bench.runtime.asked == ["a", "b", "c"]
            told = [admitted.failure.what for admitted in population.failures]
        assert told == ["the runtime hangs."] * 3 + ["as before: the runtime hangs."] * 3
        with bench.node.admitted(pods, kubelet()) as population:
            # The machine is the same, so one attempt shows that nothing has changed.
            assert bench.runtime.asked == ["a", "b", "c", "a"]
            assert len(population.failures) == 6
        bench.runtime.hanging = set()
        with bench.node.admitted(pods, kubelet()) as population:
            assert population.failures == ()


def test_the_next_machine_gets_one_attempt_where_the_one_before_had_them_all():
    patience = Patience(longest=180)
    asked = []
    for _ in range(2):
        bench = Bench(patience=patience)
        bench.runtime.hanging = set("abcdef")
        with bench.node.admitted([pod(name) for name in "abcdef"], kubelet()) as population:
            assert len(population.failures) == 6
        asked.append(bench.runtime.asked)
    assert asked == [["a", "b", "c"], ["a"]]


def test_failures_that_are_not_in_a_row_are_each_tried():
    bench = Bench()
    bench.runtime.hanging = {"a", "b", "d", "e"}

    with bench.node.admitted([pod(name) for name in "abcdef"], kubelet()) as population:
        assert len(population.failures) == 4
        assert not [one for one in population.failures if "as before" in one.failure.what]


def test_a_value_the_kernel_refuses_is_a_machinery_error_without_leftovers():
    bench = Bench()
    bench.agent.refused = "kubepods-burstable.slice"

    with pytest.raises(TargetError, match="could not make the cgroup"), bench.node.admitted([pod("web")], kubelet()):
        pytest.fail("nothing may be admitted")

    assert bench.planned_cgroups == []


def test_pods_are_bound_to_a_numa_node_through_the_runtime():
    bench = Bench()

    with bench.node.admitted([pod("web")], kubelet(), numa_node=1) as population:
        path = population.path_of(pod("web"), "app")
        assert bench.cgroups.text(path, "cpuset.mems") == "1\n"


def test_a_broken_machine_is_reported_instead_of_follow_up_errors():
    bench = Bench()
    broken = MachineError("QEMU ended with status 1.")
    state: list[MachineError] = []

    def check_alive() -> None:
        if state:
            raise state[0]

    node = NodeUnderTest(
        target=bench.target,
        runtime=bench.runtime,
        enactor=bench.enactor,
        sampler=FakeSampler(bench.cgroups, bench.target),
        facts=Bench().facts,
        recorder=bench.log,
        health=HealthChecks(check=check_alive),
    )

    def lose_it() -> None:
        with node.admitted([pod("web")], kubelet()):
            state.append(broken)
            raise TargetError("the connection is lost.")

    with pytest.raises(MachineError, match="QEMU ended with status 1") as told:
        lose_it()
    assert told.value is broken


def test_a_cgroup_path_is_the_runtimes_for_the_container():
    bench = Bench()
    with bench.node.admitted([pod("web")], kubelet()) as population:
        path = population.path_of(pod("web"), "app")

    assert path.parent == CgroupPath.parse(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_web.slice"
    )
    assert path.name.startswith("cri-containerd-")
