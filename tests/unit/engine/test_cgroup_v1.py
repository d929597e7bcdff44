"""cgroup v1: its files, compared with cgroup v2.

The first numbers are those of the tree that the document on Kubernetes 1.24 shows: 8 CPUs, 3156062208 bytes, of which
500m and 100 MiB are
reserved for the system and the same for Kubernetes, systemd as the driver.
"""

from dataclasses import replace

import pytest

from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import knob_reasons
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.errors import ManifestError
from memqos.model.knob import ABSENT, UNLIMITED, Bytes, Knob, Number
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts, SwapBehavior
from tests.unit.engine.leaving import left_behind
from tests.unit.engine.pods import amounts, container, equal, pod

MI = 1 << 20
NODE = NodeFacts(memory=3156062208, cpus=8, cgroup_version=CgroupVersion.V1)
SEED = KubeletSettings(
    system_reserved=amounts({"cpu": "500m", "memory": "100Mi"}),
    kube_reserved=amounts({"cpu": "500m", "memory": "100Mi"}),
    system_reserved_cgroup="/sys",
    kube_reserved_cgroup="/kube",
    enforce_node_allocatable=("pods", "system-reserved", "kube-reserved"),
)
ONE, TWO, THREE = (
    pod(equal("500m", "128Mi"), name="guaranteed"),
    pod(container({"memory": "128Mi", "cpu": "500m"}, {"memory": "256Mi", "cpu": "1"}), name="burstable"),
    pod(container(), name="best-effort"),
)


def planned(*pods, node=NODE, settings=SEED, release="1.24", **more):
    return expect(pods, Kubelet.of(node=node, settings=settings, release=release, driver=CgroupDriver.SYSTEMD, **more))


def shown(cgroup):
    """The texts of the files, without those that never differ."""
    return {knob.value: str(one.value) for knob, one in cgroup.knobs.items() if knob.controller in {"memory", "cpu"}}


NO_LIMIT = "9223372036854771712"


def files(limit=NO_LIMIT, shares="1024", quota="-1", memsw=NO_LIMIT):
    return {
        "memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": memsw, "memory.soft_limit_in_bytes": NO_LIMIT,
        "memory.swappiness": "60", "memory.oom_control": "0", "cpu.shares": shares, "cpu.cfs_quota_us": quota,
        "cpu.cfs_period_us": "100000",
    }  # fmt: skip


def test_the_tree_of_the_document():
    plan = planned(ONE, TWO, THREE)
    assert str(plan.node.path) == "/kubepods.slice"
    assert shown(plan.node) == files(limit="2946347008", shares="7168")
    assert [(str(one.path), shown(one)) for one in plan.reserved] == [
        ("/sys.slice", files(limit="104857600", shares="512")),
        ("/kube.slice", files(limit="104857600", shares="512")),
    ]
    assert [(one.path.name, shown(one)) for one in plan.qos] == [
        ("kubepods-burstable.slice", files(shares="512")),
        ("kubepods-besteffort.slice", files(shares="2")),
    ]
    assert {one.name: shown(one.cgroup) for one in plan.pods} == {
        "guaranteed": files(limit="134217728", shares="512", quota="50000"),
        "burstable": files(limit="268435456", shares="512", quota="100000"),
        "best-effort": files(shares="2"),
    }
    assert {one.name: shown(one.containers[0].cgroup) for one in plan.pods} == {
        "guaranteed": files(limit="134217728", shares="512", quota="50000", memsw="134217728"),
        "burstable": files(limit="268435456", shares="512", quota="100000", memsw="268435456"),
        "best-effort": files(shares="2"),
    }


def test_huge_pages():
    one = pod(container({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi", "memory": "1Mi"}))
    plan = planned(one, runtimes=replace(TRIXIE, hugetlb=True))
    two, large = Knob.HUGETLB_2MB_LIMIT_IN_BYTES, Knob.HUGETLB_1GB_LIMIT_IN_BYTES
    for cgroup in (plan.pods[0].cgroup, plan.pods[0].containers[0].cgroup):
        assert (cgroup.knobs[two].written, cgroup.knobs[large].written) == (Bytes(4 * MI), Bytes(0))
    assert plan.node.knobs[two].value == Bytes(1 << 62)
    assert planned(one).pods[0].containers[0].cgroup.knobs[two].value == Bytes(9223372036852678656)


def test_qos_reserved():
    settings = replace(SEED, qos_reserved={"memory": 100}, feature_gates={"QOSReserved": True})
    burstable, best_effort = planned(ONE, TWO, settings=settings).qos
    assert burstable.knobs[Knob.MEMORY_LIMIT_IN_BYTES].written == Bytes(2946347008 - 128 * MI)
    assert best_effort.knobs[Knob.MEMORY_LIMIT_IN_BYTES].written == Bytes(2946347008 - 256 * MI)


@pytest.mark.parametrize(("oci", "version", "quota"), [
    ("runc", "1.1.15", 33300), ("runc", "1.3.2", 34000), ("crun", "1.28", 33300),
])  # fmt: skip
def test_quotas_are_rounded_as_on_v2(oci, version, quota):
    one = pod(container({"cpu": "1"}, {"cpu": "333m"}))
    plan = planned(one, runtimes=Runtimes(cri=TRIXIE.cri, oci=traits_of(oci, version))).pods[0]
    assert plan.containers[0].cgroup.knobs[Knob.CPU_CFS_QUOTA_US].written == Number(quota)
    assert plan.cgroup.knobs[Knob.CPU_CFS_QUOTA_US].written == Number(33300)


def test_no_quota_at_all():
    plan = planned(ONE, settings=replace(SEED, cpu_cfs_quota=False)).pods[0]
    own, inner = plan.cgroup.knobs, plan.containers[0].cgroup.knobs
    assert own[Knob.CPU_CFS_QUOTA_US].written is UNLIMITED
    assert "cpu.cfs_quota_us is -1: CPU limits are not enforced" in own[Knob.CPU_CFS_QUOTA_US].reason.rule
    assert own[Knob.CPU_CFS_PERIOD_US].written == Number(100000)
    assert inner[Knob.CPU_CFS_QUOTA_US].written is inner[Knob.CPU_CFS_PERIOD_US].written is ABSENT


def test_a_period_without_a_quota():
    inner = planned(THREE).pods[0].containers[0].cgroup.knobs
    assert inner[Knob.CPU_CFS_QUOTA_US].written is ABSENT
    assert inner[Knob.CPU_CFS_QUOTA_US].reason.rule == "no CPU limit: cpu.cfs_quota_us stays -1"
    assert inner[Knob.CPU_CFS_PERIOD_US].written == Number(100000)


# memory.memsw.limit_in_bytes of a container with 1Gi to 2Gi: memory and swap together.
@pytest.mark.parametrize(("release", "gate", "behavior", "written"), [
    ("1.22", False, "", Bytes(2 << 30)),
    ("1.22", True, "", Bytes(2 << 30)),
    ("1.27", True, "LimitedSwap", Bytes(2 << 30)),
    ("1.27", True, "UnlimitedSwap", UNLIMITED),
    ("1.28", True, "UnlimitedSwap", Bytes(2 << 30)),
    ("1.29", True, "LimitedSwap", Bytes(2 << 30)),
    ("1.34", True, "NoSwap", Bytes(2 << 30)),
])  # fmt: skip
def test_swap(release, gate, behavior, written):
    settings = KubeletSettings(
        feature_gates={"NodeSwap": gate}, swap_behavior=SwapBehavior(behavior) if behavior else None
    )
    one = pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))
    node = replace(NODE, memory=8 << 30, swap=4 << 30)
    found = planned(one, node=node, settings=settings, release=release).pods[0].containers[0].cgroup
    knob = found.knobs[Knob.MEMORY_MEMSW_LIMIT_IN_BYTES]
    assert knob.written == written
    assert str(knob.value) == (NO_LIMIT if written is UNLIMITED else "2147483648")


def test_runtimes_that_do_not_write_swap():
    one = pod(container({"memory": "1Gi"}, {"memory": "2Gi"}))
    runtimes = Runtimes(cri=traits_of("containerd", "1.6.8"), oci=TRIXIE.oci)
    found = planned(one, runtimes=runtimes, node=replace(NODE, memory=8 << 30)).pods[0].containers[0].cgroup
    assert found.knobs[Knob.MEMORY_MEMSW_LIMIT_IN_BYTES].written is ABSENT


def test_without_swap_accounting_there_is_no_file():
    plan = planned(TWO, node=replace(NODE, swap_controller=False))
    assert all(Knob.MEMORY_MEMSW_LIMIT_IN_BYTES not in cgroup.knobs for cgroup in plan.cgroups())
    text = knob_reasons(plan, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES)
    assert text.startswith("memory.memsw.limit_in_bytes is not planned: the node does not have it")


def test_swappiness_is_the_nodes():
    plan = planned(node=replace(NODE, swappiness=10))
    one = plan.node.knobs[Knob.MEMORY_SWAPPINESS]
    assert (one.written, one.value) == (ABSENT, Number(10))
    assert [given.value for given in one.reason.inputs] == ["10"]


@pytest.mark.parametrize(
    ("release", "gate", "warns"), [("1.24", False, False), ("1.34", True, False), ("1.36", True, True)]
)
def test_memory_qos_says_why_it_writes_nothing(release, gate, warns):
    settings = KubeletSettings(feature_gates={"MemoryQoS": gate}, fail_cgroup_v1=False)
    plan = planned(ONE, TWO, settings=settings, release=release)
    for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH):
        reason = plan.unavailable[knob]
        assert reason.rule.startswith(f"{knob} does not exist on cgroup v1: cgroup v1 does not")
        assert ("the kubelet warns of it" in reason.rule) is warns
        assert [(one.name, one.value) for one in reason.inputs][1] == ("featureGates.MemoryQoS", str(gate).lower())
    assert all(knob in one.knobs for one in plan.cgroups() for knob in (Knob.CPU_SHARES, Knob.CPU_CFS_QUOTA_US))


def test_every_knob_is_planned_or_explained():
    for node in (NODE, replace(NODE, cgroup_version=CgroupVersion.V2)):
        plan = planned(ONE, node=node)
        there = {knob for cgroup in plan.cgroups() for knob in cgroup.knobs}
        assert there | {*plan.unavailable} == {*Knob}
        assert not there & {*plan.unavailable}
    assert knob_reasons(planned(), Knob.CPU_WEIGHT).splitlines()[0] == (
        "cpu.weight does not exist on cgroup v1: cpu.shares exists instead, as the kubelet computes it"
    )


def test_the_document():
    document = plan_document(planned(TWO))
    assert document["cgroup_version"] == "v1"
    pod_cgroup = next(one for one in document["cgroups"] if one["level"] == "pod")
    assert pod_cgroup["knobs"]["memory.limit_in_bytes"]["written"] == "268435456"
    assert "memory.max limits" not in document["unavailable"]["memory.max"]["rule"]
    assert "memory.limit_in_bytes limits memory there" in document["unavailable"]["memory.max"]["rule"]


# failCgroupV1: unknown before 1.31, false by default, true by default from 1.35 on.
@pytest.mark.parametrize(("release", "configured", "starts"), [
    ("1.30", True, True), ("1.31", None, True), ("1.31", True, False), ("1.34", None, True), ("1.35", None, False),
    ("1.35", False, True), ("1.37", None, False), ("1.37", False, True),
])  # fmt: skip
def test_kubelets_that_do_not_start(release, configured, starts):
    settings = KubeletSettings(fail_cgroup_v1=configured)
    if starts:
        assert planned(settings=settings, release=release).cgroup_version is CgroupVersion.V1
        return
    with pytest.raises(ManifestError, match="does not start on cgroup v1") as caught:
        planned(settings=settings, release=release)
    assert caught.value.data["field"] == "failCgroupV1"
    v2 = replace(NODE, cgroup_version=CgroupVersion.V2)
    assert planned(node=v2, settings=settings, release=release).cgroup_version is CgroupVersion.V2


def test_what_stays_after_an_upgrade():
    before = planned(TWO)
    bare = planned(TWO, settings=KubeletSettings())
    assert [(str(cgroup.path), one.knob.value, str(one.value)) for cgroup, one in left_behind(before, bare)] == [
        ("/sys.slice", "memory.limit_in_bytes", "104857600"),
        ("/sys.slice", "cpu.shares", "512"),
        ("/sys.slice", "hugetlb.2MB.limit_in_bytes", "0"),
        ("/sys.slice", "hugetlb.1GB.limit_in_bytes", "0"),
        ("/kube.slice", "memory.limit_in_bytes", "104857600"),
        ("/kube.slice", "cpu.shares", "512"),
        ("/kube.slice", "hugetlb.2MB.limit_in_bytes", "0"),
        ("/kube.slice", "hugetlb.1GB.limit_in_bytes", "0"),
    ]
