"""Nodes whose plans together have every kind of reason: pods of all shapes under releases and configurations."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from memqos.engine.releases.release import Variant
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.node import (
    CgroupDriver,
    CgroupVersion,
    KubeletSettings,
    NodeFacts,
    NumaNode,
    ReservationPolicy,
    SwapBehavior,
)
from memqos.model.pod import CRITICAL_PRIORITY, Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity

NODE = NodeFacts(memory=8 << 30, swap=4 << 30, cpus=4, origin="node.yaml")


def amounts(**given: str) -> dict[str, Quantity]:
    return {name.replace("_", "-"): Quantity.parse(text) for name, text in given.items()}


def container(name, requests=None, limits=None, *, kind=ContainerKind.APP):
    origin = {f"requests.{one}": f"{name}.yaml:1" for one in requests or {}}
    origin |= {f"limits.{one}": f"{name}.yaml:2" for one in limits or {}}
    own = Resources(requests=requests or {}, limits=limits or {})
    return Container(name=name, kind=kind, resources=own, origin=origin)


def pod(name, *containers, **more):
    return Pod(name=name, uid=name, containers=containers, **more)


HALF = {"requests": amounts(cpu="250m", memory="64Mi"), "limits": amounts(cpu="333m", memory="200Mi")}
EQUAL = {"requests": amounts(cpu="1", memory="100Mi"), "limits": amounts(cpu="1", memory="100Mi")}

PODS = (
    pod("guaranteed", container("g", **EQUAL)),
    pod("burstable", container("b", **HALF)),
    pod("plain", container("p")),
    pod("requests", container("r", amounts(memory="64Mi"))),
    pod("limits", container("l", None, amounts(memory="64Mi", hugepages_2Mi="4Mi"))),
    pod("close", container("c", amounts(memory="1073741824"), amounts(memory="1073745920"))),
    pod("greedy", container("y", amounts(memory="9Gi"))),
    pod("mixed", container("m", **HALF), container("n", amounts(memory="1Mi")), container("o", **EQUAL)),
    pod(
        "sidecar",
        container("app", **HALF),
        init_containers=(
            container("first", amounts(memory="300Mi"), amounts(cpu="2", memory="300Mi"), kind=ContainerKind.INIT),
            container("helper", amounts(memory="10Mi"), amounts(memory="20Mi"), kind=ContainerKind.SIDECAR),
        ),
        overhead=amounts(cpu="10m", memory="5Mi"),
        origin={"overhead.memory": "sidecar.yaml:9", "overhead.cpu": "sidecar.yaml:8"},
    ),
    pod(
        "whole",
        container("w", **HALF),
        container("x"),
        resources=Resources(requests=amounts(cpu="1", memory="400Mi"), limits=amounts(cpu="2", memory="800Mi")),
        origin={"resources.limits.memory": "whole.yaml:4", "resources.requests.memory": "whole.yaml:3"},
    ),
    pod("static", container("s", **HALF), static=True, priority_class_name="system-node-critical"),
    pod(
        "critical",
        container("t", **HALF),
        priority=CRITICAL_PRIORITY,
        priority_class_name="system-node-critical",
        origin={"priorityClassName": "critical.yaml:5"},
    ),
)


FROM_NOWHERE = (
    replace(
        PODS[8],
        containers=tuple(replace(one, origin={}) for one in PODS[8].containers),
        init_containers=tuple(replace(one, origin={}) for one in PODS[8].init_containers),
        origin={},
    ),
    replace(PODS[9], containers=tuple(replace(one, origin={}) for one in PODS[9].containers), origin={}),
    replace(PODS[11], containers=tuple(replace(one, origin={}) for one in PODS[11].containers), origin={}),
)
"""Pods that no file tells of."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan to compute: its differences from the node and the pods above."""

    title: str
    release: str
    settings: KubeletSettings = field(default_factory=KubeletSettings)
    more: dict[str, Any] = field(default_factory=dict)
    node: NodeFacts = NODE
    pods: tuple[Pod, ...] = PODS


def gates(**given):
    return KubeletSettings(
        feature_gates=given, origin={f"featureGates.{gate}": f"kubelet.yaml:{n}" for n, gate in enumerate(given, 1)}
    )


ON = gates(MemoryQoS=True)
TIERED = replace(
    ON,
    memory_reservation_policy=ReservationPolicy.TIERED,
    throttling_factor=Fraction(9, 10),
    origin={"memoryReservationPolicy": "kubelet.yaml:8", "memoryThrottlingFactor": "kubelet.yaml:9"},
)
RESERVED = replace(
    TIERED,
    system_reserved=amounts(cpu="500m", memory="512Mi"),
    system_reserved_cgroup="/system",
    kube_reserved=amounts(cpu="250m", memory="256Mi", hugepages_2Mi="2Mi"),
    kube_reserved_cgroup="/podruntime",
    enforce_node_allocatable=("pods", "system-reserved", "kube-reserved"),
    qos_reserved={"memory": 50},
    feature_gates={"MemoryQoS": True, "QOSReserved": True},
)
LIMITED = replace(gates(NodeSwap=True), swap_behavior=SwapBehavior.LIMITED)
ZONES = replace(
    NODE,
    numa_nodes=tuple(NumaNode(id=n, memory=4 << 30, cpus=(2 * n, 2 * n + 1), distances=(10, 10)) for n in (0, 1)),
)
V1 = replace(NODE, cgroup_version=CgroupVersion.V1)
STATIC = KubeletSettings(
    memory_manager_policy="Static",
    topology_manager_policy="single-numa-node",
    cpu_manager_policy="static",
    reserved_memory=((0, amounts(memory="100Mi")),),
)

PLANS = (
    Planned(title="1.22, memory QoS and swap off", release="1.22"),
    Planned(title="1.22, memory QoS, swap unlimited", release="1.22", settings=replace(
        gates(MemoryQoS=True, NodeSwap=True), swap_behavior=SwapBehavior.UNLIMITED)),
    Planned(title="1.26, memory QoS, swap limited", release="1.26", settings=replace(
        LIMITED, feature_gates={"MemoryQoS": True, "NodeSwap": True})),
    Planned(title="1.27, memory QoS", release="1.27", settings=ON),
    Planned(title="1.27 as documented", release="1.27", settings=ON, more={"variant": Variant.DOCUMENTED}),
    Planned(title="1.28, swap", release="1.28", settings=gates(NodeSwap=True)),
    Planned(title="1.28, swap limited", release="1.28", settings=LIMITED),
    Planned(title="1.29, no swap", release="1.29"),
    Planned(title="1.30, gate NodeSwap off", release="1.30", settings=gates(NodeSwap=False)),
    Planned(title="1.32, pod-level resources, swap limited", release="1.32", settings=replace(
        LIMITED, feature_gates={"PodLevelResources": True}, single_process_oom_kill=False)),
    Planned(title="1.34, systemd and a newer runtime", release="1.34", settings=ON, more={
        "driver": CgroupDriver.SYSTEMD,
        "runtimes": Runtimes(cri=traits_of("containerd", "2.2"), oci=traits_of("runc", "1.4"), hugetlb=True),
    }),
    Planned(title="1.36, no policy", release="1.36", settings=ON),
    Planned(title="1.36 as documented", release="1.36", settings=ON, more={"variant": Variant.DOCUMENTED}),
    Planned(title="1.22, nothing left for pods", release="1.22", settings=replace(
        ON, system_reserved=amounts(memory="8Gi"), eviction_hard={}), pods=(pod("plain", container("p")),)),
    Planned(title="1.36, tiered, everything reserved", release="1.36", settings=RESERVED),
    Planned(title="1.36, CPU alone reserved, no CPU limits", release="1.36", settings=replace(
        RESERVED, enforce_node_allocatable=("system-reserved-compressible", "kube-reserved-compressible"),
        cpu_cfs_quota=False, qos_reserved=None)),
    Planned(title="1.36, a node without pods of its own", release="1.36", settings=replace(
        TIERED, system_reserved=amounts(memory="8Gi"), eviction_hard={}), pods=(pod("plain", container("p")),)),
    Planned(title="1.36, zones", release="1.36", settings=STATIC, node=ZONES),
    Planned(title="1.36, zones as drafted in 2020", release="1.36", settings=replace(STATIC, reserved_memory=None),
            node=ZONES, more={"variant": Variant.DRAFT}),
    Planned(title="1.36, no swap controller", release="1.36", node=replace(NODE, swap_controller=False)),
    Planned(title="1.22 on cgroup v1, swap limited", release="1.22", settings=LIMITED, node=V1),
    Planned(title="1.32 on cgroup v1, everything reserved", release="1.32", settings=replace(
        RESERVED, memory_reservation_policy=None), node=V1),
    Planned(title="1.37, tiered", release="1.37", settings=TIERED),
    Planned(title="1.37, the defaults", release="1.37"),
    Planned(title="1.37, memory QoS off", release="1.37", settings=gates(MemoryQoS=False)),
    Planned(title="1.29 on cgroup v1, swap", release="1.29", settings=gates(NodeSwap=True), node=V1),
    Planned(title="1.29 on cgroup v1, swap limited", release="1.29", settings=LIMITED, node=V1),
    Planned(title="1.30 on cgroup v1, swap limited", release="1.30", settings=LIMITED, node=V1),
    Planned(title="1.35 on cgroup v1, memory QoS", release="1.35", settings=replace(ON, fail_cgroup_v1=False), node=V1),
    Planned(title="1.36, one CPU, processes limited", release="1.36", node=replace(NODE, cpus=1, pids=32768),
        settings=replace(RESERVED, pod_pids_limit=100, system_reserved=amounts(memory="512Mi", pid="1000"),
            kube_reserved=amounts(memory="256Mi", pid="500"), origin={"podPidsLimit": "kubelet.yaml:7"})),
    Planned(title="1.36, pods from nowhere", release="1.36", settings=LIMITED, pods=FROM_NOWHERE),
    Planned(title="1.36, pods without room", release="1.36", more={"fit": True}, pods=(
        pod("first", container("a", amounts(cpu="1"))),
        pod("second", container("a", amounts(memory="1Gi"))),
        pod("bytes", container("a", amounts(memory="9Gi"))),
        pod("cores", container("a", amounts(cpu="5"))),
        pod("pages", container("a", amounts(memory="1Mi"), amounts(hugepages_2Mi="4Mi"))),
        pod("system", container("a", amounts(cpu="5")), priority=CRITICAL_PRIORITY),
    ), node=ZONES),
)  # fmt: skip
