"""The levels above pods: upstream's tables of 1.36.3 and 1.37's master.

TestQOSCPUConfigUpdate and the tables with a `ResourceParameters` of references build their pods in Go: their cases are
written out below.
"""

from dataclasses import replace

import pytest

from memqos.catalog.kubelet_config import settings_of
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet, allocatable
from memqos.engine.numa.reservation import node_reservation
from memqos.errors import ManifestError
from memqos.model.knob import ABSENT, Bytes, Knob, Number, Text
from memqos.model.node import KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.pod import QosClass
from memqos.model.quantity import Quantity
from tests.vectors.tables import amounts, pod, table

MI = 1 << 20
TIERED = KubeletSettings(feature_gates={"MemoryQoS": True}, memory_reservation_policy=ReservationPolicy.TIERED)
NODE = NodeFacts(memory=8192 * MI, cpus=8)


def levels(pods, settings, release):
    """kubepods, burstable and besteffort of a plan."""
    plan = expect(pods, Kubelet.of(node=NODE, settings=settings, release=release))
    classes = {cgroup.qos: cgroup.knobs for cgroup in plan.qos}
    return plan.node.knobs, classes[QosClass.BURSTABLE], classes[QosClass.BEST_EFFORT]


CASES = table("qos_container_manager.v1.36.3")["tables"]["TestQoSContainerCgroup"][0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_tiered_reservation_of_136(case):
    kubepods, burstable, besteffort = levels([pod(one) for one in case["pods"] or []], TIERED, "1.36")
    assert str(kubepods[Knob.MEMORY_MIN].written) == case["expectedGuaranteed"]
    assert str(burstable[Knob.MEMORY_LOW].written) == case["expectedBurstable"]
    assert kubepods[Knob.MEMORY_LOW].written is ABSENT
    assert burstable[Knob.MEMORY_MIN].written is ABSENT
    assert besteffort[Knob.MEMORY_MIN].written is besteffort[Knob.MEMORY_LOW].written is ABSENT


def test_policy_none_of_136_writes_zeros():
    pods = [pod(one) for one in CASES[0]["pods"]]
    kubepods, burstable, _ = levels(pods, replace(TIERED, memory_reservation_policy=None), "1.36")
    assert kubepods[Knob.MEMORY_MIN].written == burstable[Knob.MEMORY_LOW].written == Bytes(0)


def test_sums_of_135():
    # TestQoSContainerCgroup of 1.35: 128Mi Guaranteed, 128Mi + 256Mi Burstable.
    pods = [pod(one) for one in CASES[0]["pods"]]
    kubepods, burstable, _ = levels(pods, KubeletSettings(feature_gates={"MemoryQoS": True}), "1.35")
    assert kubepods[Knob.MEMORY_MIN].written == Bytes(536870912)
    assert burstable[Knob.MEMORY_MIN].written == Bytes(402653184)
    kubepods, burstable, _ = levels([], KubeletSettings(feature_gates={"MemoryQoS": True}), "1.35")
    assert kubepods[Knob.MEMORY_MIN].written is burstable[Knob.MEMORY_MIN].written is ABSENT


def sized(name, cpu, memory, *, guaranteed):
    amounts_ = {"cpu": cpu, "memory": memory}
    resources = {"requests": amounts_, "limits": amounts_} if guaranteed else {"requests": amounts_}
    return pod({"metadata": {"name": name, "uid": name}, "spec": {"containers": [{"resources": resources}]}})


MASTER = table("v1_37_master_tests")["system_partition_memory_qos"]


def test_tiered_reservation_of_137():
    # The alpha system partition is not modelled: the row without it.
    given = MASTER["inputs"]["pods"]
    pods = [
        sized(name, one["cpu"], one["memory"], guaranteed=name.endswith("guaranteed")) for name, one in given.items()
    ]
    settings = replace(TIERED, feature_gates={"MemoryQoS": True, "QOSReserved": True}, qos_reserved={"memory": 100})
    kubepods, burstable, besteffort = levels(pods, settings, "1.37")
    expected = MASTER["expected_Mi"]["without_partition"]
    assert kubepods[Knob.MEMORY_MIN].written == Bytes(expected["kubepods"]["memory.min"] * MI) == Bytes(1472 * MI)
    assert kubepods[Knob.MEMORY_LOW].written == Bytes(expected["kubepods"]["memory.low"] * MI) == Bytes(320 * MI)
    assert burstable[Knob.MEMORY_LOW].written == Bytes(expected["burstable"]["memory.low"] * MI) == Bytes(320 * MI)
    assert burstable[Knob.MEMORY_MAX].written == Bytes(expected["burstable"]["memory.max"] * MI) == Bytes(7040 * MI)
    assert besteffort[Knob.MEMORY_MAX].written == Bytes(expected["besteffort"]["memory.max"] * MI) == Bytes(6720 * MI)


# TestQOSCPUConfigUpdate: a Guaranteed, a Burstable and a BestEffort pod; the Burstable one requests one CPU.
@pytest.mark.parametrize(
    ("kinds", "shares", "weight"),
    [("g", 2, 1), ("b", 1024, 39), ("gb", 1024, 39), ("eb", 1024, 39)],
)
def test_burstable_shares(kinds, shares, weight):
    rows = table("qos_container_manager.v1.36.3")["tables"]["TestQOSCPUConfigUpdate"]
    assert shares in [row["expectedBurstableCPUShares"] for row in rows]
    known = {
        "g": sized("g", "1", "1Gi", guaranteed=True),
        "b": sized("b", "1", "1Gi", guaranteed=False),
        "e": pod({"metadata": {"name": "e", "uid": "e"}, "spec": {"containers": [{}]}}),
    }
    _, burstable, besteffort = levels([known[kind] for kind in kinds], KubeletSettings(), "1.36")
    assert burstable[Knob.CPU_WEIGHT].written == Number(weight)
    assert besteffort[Knob.CPU_WEIGHT].written == Number(1)


@pytest.mark.parametrize(
    "row", table("qos_reserved_parse.v1.36.3")["tables"]["Test"], ids=lambda row: str(row["input"])
)
def test_qos_reserved_is_refused(row):
    assert row["expected"] is None
    lines = "\n".join(f"  {name}: '{text}'" for name, text in row["input"].items())
    text = f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nqosReserved:\n{lines}\n"
    with pytest.raises(ManifestError):
        settings_of(text.encode(), "k.yaml")


ENFORCED = [
    row for row in table("node_container_manager.v1.36.3")["tables"]["TestNodeAllocatableForEnforcement"]
    # A node without memory is invalid here.
    if "memory" in row["capacity"]
]  # fmt: skip


@pytest.mark.parametrize("row", ENFORCED)
def test_allocatable(row):
    node = NodeFacts(
        memory=Quantity.parse(row["capacity"]["memory"]).value, cpus=Quantity.parse(row["capacity"]["cpu"]).value
    )
    settings = KubeletSettings(
        kube_reserved=amounts(row["kubeReserved"]), system_reserved=amounts(row["systemReserved"])
    )
    assert allocatable(node, settings) == amounts(row["expected"])


# TestGetCgroupConfig: its checks are Go functions; no reservation, only CPU, only memory.
@pytest.mark.parametrize(
    ("keys", "reserved", "written"),
    [
        (("system-reserved-compressible",), {"cpu": "100m", "memory": "200Mi"}, {Knob.CPU_WEIGHT: Number(4)}),
        (("system-reserved",), {"memory": "200Mi"}, {Knob.MEMORY_MAX: Bytes(200 * MI)}),
    ],
)
def test_reserved_cgroup(keys, reserved, written):
    settings = KubeletSettings(
        enforce_node_allocatable=keys, system_reserved=amounts(reserved), system_reserved_cgroup="/sysres"
    )
    plan = expect([], Kubelet.of(node=NODE, settings=settings, release="1.36"))
    (cgroup,) = plan.reserved
    assert str(cgroup.path) == "/sysres"
    found = {knob: one.written for knob, one in cgroup.knobs.items() if one.written is not ABSENT}
    assert found.pop(Knob.CPUSET_CPUS) == Text("0-7")
    assert {knob: value for knob, value in found.items() if not knob.startswith("hugetlb")} == written
    assert found[Knob.HUGETLB_2MB_MAX] == found[Knob.HUGETLB_1GB_MAX] == Bytes(0)


def with_memory(name):
    """The rows about memory, of a table that is several lists of cases."""
    lists = table("node_container_manager.v1.36.3")["tables"][name]
    return [row for rows in lists for row in rows if "memory" in row["capacity"]]


def reserving(row):
    """The settings of a row. A threshold is a quantity or a share; none means no threshold, not the default."""
    threshold = row.get("hardThreshold", {})
    share = threshold.get("Percentage")
    text = threshold.get("Quantity", "" if share is None else f"{round(100 * share)}%")
    return KubeletSettings(
        kube_reserved=amounts(row["kubeReserved"]),
        system_reserved=amounts(row["systemReserved"]),
        eviction_hard={"memory.available": text},
    )


@pytest.mark.parametrize("row", with_memory("TestNodeAllocatableReservationForScheduling"))
def test_the_memory_reservation_of_a_node(row):
    kept = node_reservation(reserving(row), Quantity.parse(row["capacity"]["memory"]).value)
    assert kept == {name: one for name, one in amounts(row["expected"]).items() if name == "memory"}


@pytest.mark.parametrize("row", with_memory("TestNodeAllocatableInputValidation"))
def test_a_reservation_above_the_capacity_is_refused(row):
    node = NodeFacts(
        memory=Quantity.parse(row["capacity"]["memory"]).value, cpus=Quantity.parse(row["capacity"]["cpu"]).value
    )
    if row.get("invalidConfiguration"):
        with pytest.raises(ManifestError, match="more memory is reserved"):
            expect([], Kubelet.of(node=node, settings=reserving(row), release="1.36"))
    else:
        assert expect([], Kubelet.of(node=node, settings=reserving(row), release="1.36")).pods == ()
