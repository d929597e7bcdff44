"""The files of containers and pods by kind, resources and runtime."""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.cgroup.interface_files import CONTROL_FILES
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import ABSENT, Bytes, CpuMax, Knob, Number
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings
from memqos.model.pod import ContainerKind, QosClass
from tests.unit.engine.pods import NODE, ON, amounts, container, equal, pod, resources
from tests.unit.engine.reading import BURSTABLE, MI, TIERED, knobs, memory, written


def test_runtimes_differ():
    one = pod(container({"cpu": "1"}, {"cpu": "333m", "memory": "1Gi", "hugepages-2Mi": "4Mi"}))
    systemd = CgroupDriver.SYSTEMD
    linear = expect([one], Kubelet.of(node=NODE, release="1.36", driver=systemd))
    assert knobs(linear)["cpu.weight"] == Number(39)
    assert knobs(linear)["cpu.max"] == CpuMax(33300, 100000)
    assert "hugetlb.2MB.max" not in knobs(linear)
    # The kubelet's driver rounds from 1.34 on with every runtime.
    assert written(linear.pods[0].cgroup)["cpu.max"] == CpuMax(34000, 100000)
    assert written(expect([one], Kubelet.of(node=NODE, release="1.33", driver=systemd)).pods[0].cgroup)[
        "cpu.max"
    ] == CpuMax(33300, 100000)
    other = Runtimes(cri=traits_of("containerd", "1.6.8"), oci=traits_of("runc", "1.3.2"), hugetlb=True)
    found = knobs(expect([one], Kubelet.of(node=NODE, release="1.27", driver=systemd, runtimes=other)))
    assert found["cpu.weight"] == Number(100)
    assert found["cpu.max"] == CpuMax(34000, 100000)
    assert (found["hugetlb.2MB.max"], found["hugetlb.1GB.max"]) == (Bytes(4 * MI), Bytes(0))
    assert "memory.swap.max" not in found
    assert knobs(expect([one], Kubelet.of(node=NODE, release="1.27", runtimes=other)))["cpu.max"] == CpuMax(
        33300, 100000
    )


def test_no_quota():
    one = pod(equal("500m", "1Gi"))
    plan = expect([one], Kubelet.of(node=NODE, settings=KubeletSettings(cpu_cfs_quota=False), release="1.36"))
    assert "cpu.max" not in knobs(plan)
    assert written(plan.pods[0].cgroup)["cpu.max"] == CpuMax(None, 100000)


def test_exclusive_cpus_have_no_quota():
    plan = expect(
        [pod(equal("2", "1Gi"))],
        Kubelet.of(node=NODE, settings=KubeletSettings(cpu_manager_policy="static"), release="1.33"),
    )
    assert knobs(plan)["cpu.max"] == CpuMax(None, 100000)
    assert plan.pods[0].sandbox_resources.cpu_quota == -1
    own = pod(equal("2", "1Gi"), resources=resources({"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}))
    plan = expect([own], Kubelet.of(node=NODE, settings=KubeletSettings(cpu_manager_policy="static"), release="1.34"))
    assert knobs(plan)["cpu.max"] == CpuMax(200000, 100000)
    assert plan.pods[0].sandbox_resources.cpu_quota == 200000


def test_sidecars_by_release():
    one = pod(
        container({"memory": "10Mi"}, {"memory": "20Mi"}),
        init_containers=(container({"memory": "30Mi"}, {"memory": "40Mi"}, name="s", kind=ContainerKind.SIDECAR),),
    )
    for release, gates, total in (
        ("1.27", {}, 30),
        ("1.28", {}, 30),
        ("1.28", {"SidecarContainers": True}, 40),
        ("1.29", {}, 40),
    ):
        settings_ = replace(ON, feature_gates={"MemoryQoS": True, **gates})
        plan = expect([one], Kubelet.of(node=NODE, settings=settings_, release=release))
        assert plan.pods[0].cgroup.knobs[Knob.MEMORY_MIN].written == Bytes(total * MI)
        assert [c.name for c in plan.pods[0].containers] == ["s", "c"]


def test_limits_declared_by_release():
    init = container(name="i", kind=ContainerKind.INIT)
    bare_init = pod(container(None, {"memory": "64Mi"}), init_containers=(init,))
    side = container(None, {"memory": "32Mi"}, name="s", kind=ContainerKind.SIDECAR)
    after = pod(container(None, {"memory": "64Mi"}), init_containers=(side, init))
    for release, one, limit in (
        ("1.22", bare_init, Bytes(64 * MI)),
        ("1.23", bare_init, ABSENT),
        ("1.27", bare_init, ABSENT),
        # The limit of the sidecar before it counts for the init container too.
        ("1.28", after, ABSENT),
        ("1.29", after, Bytes(96 * MI)),
    ):
        plan = expect([one], Kubelet.of(node=NODE, release=release))
        assert plan.pods[0].cgroup.knobs[Knob.MEMORY_MAX].written == limit


def test_pod_level_resources_by_release():
    own = resources({"memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})
    one = pod(container(), resources=own)
    gates = {"PodLevelResources": True, "MemoryQoS": True}
    for release, gate, qos, limit in (
        ("1.31", {"MemoryQoS": True}, QosClass.BEST_EFFORT, None),
        ("1.32", {"MemoryQoS": True}, QosClass.BEST_EFFORT, None),
        ("1.32", gates, QosClass.BURSTABLE, Bytes(2 << 30)),
        ("1.34", {"MemoryQoS": True}, QosClass.BURSTABLE, Bytes(2 << 30)),
    ):
        plan = expect([one], Kubelet.of(node=NODE, settings=KubeletSettings(feature_gates=gate), release=release))
        assert plan.pods[0].qos is qos
        assert written(plan.pods[0].cgroup).get("memory.max") == limit
        assert knobs(plan).get("memory.max") == limit
        # memory.high depends only on the container.
        assert "memory.high" not in knobs(plan)


def test_pod_level_defaulting():
    own = resources(None, {"memory": "2Gi", "cpu": "1"})
    one = pod(container({"memory": "1Gi"}, {"memory": "1Gi", "hugepages-2Mi": "4Mi"}), resources=own)
    settings_ = replace(ON, feature_gates={"MemoryQoS": True, "PodLevelResources": True})
    for release, hugepages in (("1.33", 4 * MI), ("1.34", 4 * MI)):
        plan = expect([one], Kubelet.of(node=NODE, settings=settings_, release=release))
        # The containers' requests become the pod's; the limit does if no container has a request.
        assert plan.pods[0].cgroup.knobs[Knob.MEMORY_MIN].written == Bytes(1 << 30)
        assert plan.pods[0].sandbox_resources.cpu_shares == 1024
        assert plan.pods[0].cgroup.knobs[Knob.HUGETLB_2MB_MAX].written == Bytes(hugepages)


def test_node_critical_pods():
    critical = {"priority": 2_000_001_000, "priority_class_name": "system-node-critical"}
    one = pod(container(*BURSTABLE), **critical)
    plan = expect(
        [one, pod(container(), name="s", static=True, priority_class_name="system-node-critical")],
        Kubelet.of(node=NODE, release="1.36"),
    )
    assert [p.containers[0].oom_score_adj for p in plan.pods] == [-997, -997]
    assert "2000001000 >= 2000000000" in plan.pods[0].containers[0].oom_score_adj_reason.inputs[0].value
    assert "static pod" in plan.pods[1].containers[0].oom_score_adj_reason.inputs[0].value


def test_ephemeral_containers_have_a_cgroup_too():
    debug = container(name="debug", kind=ContainerKind.EPHEMERAL)
    plan = expect(
        [pod(container(*BURSTABLE), ephemeral_containers=(debug,))],
        Kubelet.of(node=NODE, settings=TIERED, release="1.36"),
    )
    assert memory(knobs(plan, "debug")) == {
        "memory.min": "0",
        "memory.low": "0",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }


def test_single_process_oom_kill():
    for value, release, group in (
        (True, "1.32", None),
        (False, "1.32", Number(1)),
        (None, "1.32", Number(1)),
        (True, "1.31", Number(1)),
        (None, "1.27", None),
    ):
        plan = expect(
            [pod()], Kubelet.of(node=NODE, settings=KubeletSettings(single_process_oom_kill=value), release=release)
        )
        assert knobs(plan).get("memory.oom.group") == group


def test_without_allocatable_memory_memory_high_is_not_written():
    full = replace(ON, system_reserved=amounts({"memory": "8Gi"}), eviction_hard={})
    for release in ("1.22", "1.27", "1.37"):
        settings_ = replace(full, throttling_factor=Fraction(1, 2))
        plan = expect([pod(container({"memory": "1Gi"}))], Kubelet.of(node=NODE, settings=settings_, release=release))
        assert "memory.high" not in knobs(plan)


def test_sandbox_resources_from_123_on():
    one = pod(container(*BURSTABLE), overhead=amounts({"memory": "10Mi", "cpu": "100m"}))
    old, new = (expect([one], Kubelet.of(node=NODE, release=release)).pods[0] for release in ("1.22", "1.23"))
    assert (old.sandbox_resources.cpu_shares, old.sandbox_overhead.cpu_shares) == (0, 0)
    assert (new.sandbox_resources.memory_limit_in_bytes, new.sandbox_overhead.memory_limit_in_bytes) == (
        200 * MI,
        10 * MI,
    )


def test_a_node_without_huge_pages():
    plan = expect([pod()], Kubelet.of(node=replace(NODE, hugepage_sizes=(64 << 10,)), release="1.36"))
    assert tuple(plan.node.knobs) == (*CONTROL_FILES[CgroupVersion.V2].planned, Knob.CPUSET_CPUS)
    assert plan.pods[0].containers[0].resources.hugepage_limits == (("64KB", 0),)


@pytest.mark.parametrize(
    ("reserved", "files"),
    [
        ({"cpu": "500m"}, {"cpu.weight": "20"}),
        ({"memory": "1Gi"}, {"memory.max": "1073741824", "memory.min": "1073741824"}),
        ({"memory": "0"}, {"memory.min": "0"}),
        ({"memory": "1Gi", "hugepages-2Mi": "4Mi"}, {"memory.max": "1073741824", "memory.min": "1073741824"}),
    ],
)
def test_reserved_cgroups(reserved, files):
    given_ = {
        "system_reserved": amounts(reserved),
        "system_reserved_cgroup": "/sys",
        "kube_reserved": amounts({"memory": "1Gi"}),
        "kube_reserved_cgroup": "/kube",
        "enforce_node_allocatable": ("system-reserved",),
    }
    # The other reservation is not enforced: its cgroup is not written.
    (cgroup,) = expect([], Kubelet.of(node=NODE, settings=replace(ON, **given_), release="1.27")).reserved
    found = {name: str(value) for name, value in written(cgroup).items() if not name.startswith("hugetlb")}
    assert found == files
    hugepages = 4 * MI if "hugepages-2Mi" in reserved else 0
    assert written(cgroup)["hugetlb.2MB.max"] == Bytes(hugepages)


def test_pod_level_memory_high_needs_room():
    factor = Fraction(9, 10)
    for request, limit, high in (("128Mi", "256Mi", 255012864), ("256Mi", "256Mi", None), ("1Gi", "1073741828", None)):
        one = pod(container(), resources=resources({"memory": request}, {"memory": limit}))
        plan = expect([one], Kubelet.of(node=NODE, settings=replace(ON, throttling_factor=factor), release="1.37"))
        assert written(plan.pods[0].cgroup).get("memory.high") == (None if high is None else Bytes(high))
