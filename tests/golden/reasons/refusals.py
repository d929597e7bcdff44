"""Every error of the engine about a user's input: the sentence, and its fields for programs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.numa.draft_2020 import draft_start
from memqos.engine.releases.release import Release, Variant
from memqos.engine.resize import resize_pods
from memqos.errors import MemqosError
from memqos.model.node import CgroupVersion, KubeletSettings, NodeFacts, NumaNode, ReservationPolicy, SwapBehavior
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity, QuantityError
from tests.golden.reasons.nodes import NODE, STATIC, ZONES, amounts, container

ORIGINS = (
    "memoryThrottlingFactor",
    "memoryReservationPolicy",
    "memorySwap.swapBehavior",
    "cpuCFSQuotaPeriod",
    "topologyManagerPolicy",
    "enforceNodeAllocatable",
    "systemReserved",
    "kubeReserved",
    "qosReserved",
    "singleProcessOOMKill",
    "cgroupRoot",
    "reservedMemory",
    "evictionHard",
    "memoryManagerPolicy",
    "topologyManagerPolicyOptions",
)

POD = Pod(name="p", uid="u", containers=(container("c", limits=amounts(cpu="1", memory="1Gi")),))


def settings(base: KubeletSettings = KubeletSettings(), **changes: Any) -> KubeletSettings:  # noqa: B008 - frozen
    return replace(base, origin={name: f"kubelet.yaml:{n}" for n, name in enumerate(ORIGINS, 1)}, **changes)


def plan(release="1.36", node=NODE, **changes):
    return lambda: expect([POD], Kubelet.of(node=node, settings=settings(**changes), release=release))


def static(release="1.36", node=ZONES, variant=Variant.SHIPPED, **changes):
    kubelet = Kubelet.of(node=node, settings=settings(STATIC, **changes), release=release, variant=variant)
    return lambda: expect([POD], kubelet)


def many_zones(count, first=0):
    zones = tuple(NumaNode(id=n, memory=1 << 30) for n in range(first, first + count))
    return replace(NODE, numa_nodes=zones)


EVICTION = {"memory.available": ""}
ATTEMPTS: dict[str, Callable[[], object]] = {
    "an unknown release": lambda: Release.parse("1.99"),
    "a factor of 0": plan(throttling_factor=Fraction(0)),
    "a factor above 1": plan(throttling_factor=Fraction(11, 10)),
    "a policy without the gate": plan(memory_reservation_policy=ReservationPolicy.TIERED),
    "a locked gate": plan(feature_gates={"NodeSwap": False}),
    "swap without the gate": plan("1.28", swap_behavior=SwapBehavior.LIMITED),
    "a swap behaviour that is gone": plan(swap_behavior=SwapBehavior.UNLIMITED),
    "a swap behaviour to come": plan("1.28", swap_behavior=SwapBehavior.NO_SWAP, feature_gates={"NodeSwap": True}),
    "a period without the gate": plan("1.30", cpu_cfs_quota_period_us=5000),
    "a period too long": plan(cpu_cfs_quota_period_us=1_000_001),
    "a period too short": plan(cpu_cfs_quota_period_us=999),
    "an unknown topology policy": plan(topology_manager_policy="strict"),
    "an unknown topology scope": plan(topology_manager_scope="node"),
    "an unknown key": plan(enforce_node_allocatable=("pods", "users")),
    "a key to come": plan("1.31", enforce_node_allocatable=("system-reserved-compressible",)),
    "a key without its cgroup": plan(enforce_node_allocatable=("pods", "system-reserved")),
    "a key without a reservation": plan(enforce_node_allocatable=("kube-reserved",), kube_reserved_cgroup="/kube"),
    "two keys that exclude each other": plan(
        enforce_node_allocatable=("kube-reserved", "kube-reserved-compressible"),
        kube_reserved_cgroup="/kube",
        kube_reserved=amounts(cpu="1"),
    ),
    "a key twice": plan(enforce_node_allocatable=("pods", "pods")),
    "none and another": plan(enforce_node_allocatable=("none", "pods")),
    "pods without their cgroups": plan(cgroups_per_qos=False),
    "a root with ..": plan(cgroup_root="/a/.."),
    "a reserved cgroup with ..": plan(system_reserved_cgroup="/.."),
    "more memory reserved than there is": plan(system_reserved=amounts(memory="9Gi")),
    "more CPUs reserved than there are": plan(kube_reserved=amounts(cpu="4001m")),
    "cgroup v1 in a release that does not start there": plan(node=replace(NODE, cgroup_version=CgroupVersion.V1)),
    "group kills on cgroup v1": plan(
        "1.34", node=replace(NODE, cgroup_version=CgroupVersion.V1), single_process_oom_kill=False
    ),
    "QOSReserved without the gate": plan(qos_reserved={"memory": 50}),
    "an unknown memory policy": static(memory_manager_policy="Dynamic"),
    "a topology gate that is locked": static("1.27", feature_gates={"TopologyManager": False}),
    "a topology policy without its gate": static("1.26", feature_gates={"TopologyManager": False}),
    "options without their gate": static(
        feature_gates={"TopologyManagerPolicyOptions": False},
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
    ),
    "an unknown option": static(topology_manager_policy_options={"prefer-largest": "true"}),
    "an option that is no flag": static(topology_manager_policy_options={"prefer-closest-numa-nodes": "yes"}),
    "an option that is no number": static(topology_manager_policy_options={"max-allowable-numa-nodes": "many"}),
    "an option too small": static(topology_manager_policy_options={"max-allowable-numa-nodes": "7"}),
    "a type that is no memory": static(reserved_memory=((0, amounts(cpu="1")),)),
    "nothing of a type": static(reserved_memory=((0, amounts(memory="0")),)),
    "half a byte": static(reserved_memory=((0, amounts(memory="1.5")),)),
    "a type twice": static(reserved_memory=((0, amounts(memory="1Mi")), (0, amounts(memory="1Mi")))),
    "a zone that is not there": static(reserved_memory=((5, amounts(memory="100Mi")),)),
    "sums that differ": static(reserved_memory=((0, amounts(memory="99Mi")),)),
    "sums of huge pages that differ": static(
        reserved_memory=((0, amounts(memory="100Mi")), (1, amounts(hugepages_2Mi="3Mi"))),
    ),
    "nothing reserved": static(reserved_memory=None, eviction_hard={}),
    "a threshold above all": static(eviction_hard={"memory.available": "101%"}),
    "a threshold of nothing": static(eviction_hard={"memory.available": "0"}),
    "a threshold that is none": static(eviction_hard={"memory.available": "lots"}),
    "a zone with too little": static(
        node=replace(NODE, numa_nodes=(NumaNode(id=0, memory=50 << 20, distances=(10,)),)),
        topology_manager_policy=None,
    ),
    "zones without distances": static(
        node=replace(ZONES, numa_nodes=tuple(replace(zone, distances=()) for zone in ZONES.numa_nodes)),
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
    ),
    "more zones than the policy takes": static(node=many_zones(9)),
    "more zones than can be looked at": static(node=many_zones(17), topology_manager_policy=None),
    "a zone with too high an id": static(node=many_zones(1, 64), topology_manager_policy=None),
    "a safety zone that differs": static(reserved_memory=((0, amounts(memory="50Mi")),), variant=Variant.DRAFT),
    "a safety zone that is not there": static(reserved_memory=((5, amounts(memory="1Mi")),), variant=Variant.DRAFT),
    "a safety zone of huge pages": static(reserved_memory=((0, amounts(hugepages_2Mi="2Mi")),), variant=Variant.DRAFT),
    "a topology scope that the draft does not know": static(topology_manager_scope="pod", variant=Variant.DRAFT),
    "a topology policy that the draft does not know": static(
        topology_manager_policy="restricted", variant=Variant.DRAFT
    ),
    "a safety zone above what is reserved": lambda: draft_start(ZONES, safety_zone=2 << 30, node_reservation=1 << 30),
    "a safety zone above what a zone has": lambda: draft_start(
        NodeFacts(memory=1 << 30, numa_nodes=(NumaNode(id=3, memory=1 << 30),)),
        safety_zone=2 << 30,
        node_reservation=3 << 30,
    ),
    "a resize of a pod that does not run": lambda: resize_pods(
        [POD, replace(POD, name="q", uid="v")],
        [replace(POD, name="other", file="new.yaml")],
        Kubelet.of(node=NODE, settings=KubeletSettings(), release="1.36"),
    ),
    "a resize where no pod runs": lambda: resize_pods(
        [], [POD], Kubelet.of(node=NODE, settings=KubeletSettings(), release="1.36")
    ),
    "no quantity": lambda: Quantity.parse("12q"),
    "a quantity without a suffix of its own": lambda: Quantity.parse("1KiB"),
    "a long quantity": lambda: Quantity.parse("1" * 200),
}


def book() -> Iterator[str]:
    for title, attempt in ATTEMPTS.items():
        try:
            attempt()
        except MemqosError as error:
            data = "\n".join(f"    {name}: {value!r}" for name, value in error.data.items())
            yield f"{title}\n  {type(error).__name__}: {error}\n{data}".rstrip()
        except QuantityError as error:
            yield f"{title}\n  {type(error).__name__}: {error}"
        else:
            yield f"{title}\n  accepted"
