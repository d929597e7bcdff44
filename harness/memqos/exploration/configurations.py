"""Hypothesis strategies of KubeletConfigurations and of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from memqos.engine.kubelet import Kubelet
from memqos.engine.node.validation import check_configuration
from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import RELEASES, Gate, Maturity
from memqos.errors import UsageError
from memqos.exploration import Document
from memqos.exploration.amounts import (
    GIB,
    MIB,
    chosen,
    drawn_bytes,
    drawn_cpu_spelling,
    drawn_spelling,
    once_in,
    plainly,
)
from memqos.exploration.examples import HEAD, ConfiguredKubelet
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts, NumaNode
from memqos.model.quantity import Quantity

__all__ = [
    "configurations",
    "feature_gates",
    "kubelet_settings",
    "nodes",
    "placing",
    "releases",
    "small_node",
    "throttling_factors",
]

_SWITCHES = (
    Gate.MEMORY_QOS,
    Gate.NODE_SWAP,
    Gate.SIDECARS,
    Gate.POD_LEVEL_RESOURCES,
    Gate.CFS_QUOTA_PERIOD,
    Gate.QOS_RESERVED,
    Gate.POD_LEVEL_MANAGERS,
    Gate.NO_QUOTA_WITH_EXCLUSIVE_CPUS,
)


def releases(least: int = RELEASES[0], most: int = RELEASES[-1]) -> st.SearchStrategy[str]:
    """Kubernetes releases from 1.LEAST to 1.MOST."""
    return st.sampled_from([f"1.{minor}" for minor in RELEASES if least <= minor <= most])


def throttling_factors() -> st.SearchStrategy[str]:
    """MemoryThrottlingFactor as a decimal: above 0, at most 1."""
    return st.integers(1, 1000).map(lambda count: f"{count // 1000}.{count % 1000:03}".rstrip("0").rstrip("."))


@st.composite
def feature_gates(draw: st.DrawFn, release: str, *, gates: Sequence[Gate] = _SWITCHES) -> dict[str, bool]:
    """`featureGates` that a kubelet of this release accepts: some of these gates, on or off, and no locked gate."""
    found: dict[str, bool] = {}
    for _ in range(draw(st.integers(0, 3))):
        gate = chosen(draw, gates)
        now = stage(gate, Release.parse(release))
        if now is not None and now.maturity is not Maturity.REMOVED and not now.locked:
            found[gate.value] = draw(st.booleans())
    return found


@st.composite
def nodes(draw: st.DrawFn, *, version: CgroupVersion | None = None) -> NodeFacts:
    """Nodes: memory, swap or none, CPUs, NUMA nodes, page sizes, cgroup v1 or v2. version: None is either."""
    sizes = [drawn_bytes(draw, GIB // 2, 16 * GIB) for _ in range(draw(st.integers(1, 4)))]
    numa_nodes = tuple(NumaNode(id=number, memory=size, cpus=(number,)) for number, size in enumerate(sizes))
    return NodeFacts(
        memory=sum(sizes),
        swap=chosen(draw, (0, drawn_bytes(draw, 1, 8 * GIB))),
        cpus=len(numa_nodes),
        numa_nodes=numa_nodes,
        page_size=chosen(draw, (4096, 4096, 4096, 16384, 65536)),
        cgroup_version=version or chosen(draw, (CgroupVersion.V2, CgroupVersion.V2, CgroupVersion.V1)),
        pids=chosen(draw, (None, 32768)),
        swap_controller=chosen(draw, (True, True, True, False)),
    )


def small_node() -> NodeFacts:
    """A node with two NUMA nodes of 1 GiB, and half a GiB of swap: what memqos boots by default."""
    numa_nodes = tuple(NumaNode(id=number, memory=GIB, cpus=(number,)) for number in (0, 1))
    return NodeFacts(memory=2 * GIB, swap=GIB // 2, cpus=2, numa_nodes=numa_nodes)


@st.composite
def configurations(
    draw: st.DrawFn, *, kubernetes: str | None = None, node: NodeFacts | None = None, driver: CgroupDriver | None = None
) -> ConfiguredKubelet:
    """A release and a KubeletConfiguration with which a kubelet of that release starts on this node.

    kubernetes: the release, None for any. node: None is `small_node`. driver: the kubelet's, None for either.
    """
    release = kubernetes or draw(releases())
    node = node or small_node()
    driver = driver or chosen(draw, tuple(CgroupDriver))
    config: Document = {**HEAD, "cgroupDriver": driver.value, "failSwapOn": False, "failCgroupV1": False}
    found = ConfiguredKubelet(kubernetes=release, config=config)
    for field, value in _fields(draw, release, node).items():
        wider = ConfiguredKubelet(kubernetes=release, config={**found.config, field: value})
        if _starts(wider, node, driver):
            found = wider
    return found


def _starts(configured: ConfiguredKubelet, node: NodeFacts, driver: CgroupDriver) -> bool:
    """Whether a kubelet of this release starts with this configuration."""
    try:
        kubelet = Kubelet.of(node=node, settings=configured.settings, release=configured.kubernetes, driver=driver)
        check_configuration(kubelet)
    except UsageError:
        return False
    return True


def _fields(draw: st.DrawFn, release: str, node: NodeFacts) -> Document:
    """Fields, drawn so that later ones can depend on earlier ones; some may not exist in the release."""
    found: Document = {}
    gates = draw(feature_gates(release))
    if not once_in(draw, 6) and Gate.MEMORY_QOS not in gates:
        gates = {Gate.MEMORY_QOS.value: True, **gates}
    if gates:
        found["featureGates"] = gates
    if not once_in(draw, 3):
        found["memoryThrottlingFactor"] = float(draw(throttling_factors()))
    if once_in(draw, 2):
        found["memoryReservationPolicy"] = chosen(draw, ("TieredReservation", "None"))
    if not once_in(draw, 3):
        found["memorySwap"] = {"swapBehavior": chosen(draw, ("LimitedSwap", "NoSwap", "UnlimitedSwap"))}
    if once_in(draw, 2):
        found["singleProcessOOMKill"] = draw(st.booleans())
    if once_in(draw, 3):
        found["cpuCFSQuota"] = draw(st.booleans())
    if once_in(draw, 3):
        found["cpuCFSQuotaPeriod"] = chosen(draw, ("100ms", "10ms", "50ms", "1s"))
    if once_in(draw, 3):
        found["podPidsLimit"] = chosen(draw, (-1, 256, 1024, 4096))
    return {**found, **_reservations(draw, node), **_managers(draw)}


def _reservations(draw: st.DrawFn, node: NodeFacts) -> Document:
    found: Document = {}
    if once_in(draw, 3):
        found["qosReserved"] = {"memory": f"{draw(st.integers(0, 100))}%"}
    enforced = ["pods"]
    for name, cgroup in (("system", "/memqossys"), ("kube", "/memqoskube")):
        if once_in(draw, 2):
            amounts: Document = {"memory": drawn_spelling(draw, drawn_bytes(draw, 0, min(256 * MIB, node.memory // 8)))}
            if draw(st.booleans()):
                amounts["cpu"] = drawn_cpu_spelling(draw, draw(st.integers(0, 100 * node.cpus)))
            found[f"{name}Reserved"] = {key: str(one) for key, one in amounts.items()}
            if draw(st.booleans()):
                found[f"{name}ReservedCgroup"] = cgroup
                enforced.append(f"{name}-reserved")
    if len(enforced) > 1 or once_in(draw, 3):
        found["enforceNodeAllocatable"] = enforced
    if once_in(draw, 3):
        threshold = chosen(draw, ("100Mi", "5%", str(drawn_bytes(draw, 1, 256 * MIB))))
        found["evictionHard"] = {"memory.available": threshold}
    return found


def _managers(draw: st.DrawFn) -> Document:
    found: Document = {}
    if once_in(draw, 6):
        found["cpuManagerPolicy"] = "none"
    if once_in(draw, 3):
        found["topologyManagerPolicy"] = chosen(draw, ("none", "best-effort", "restricted", "single-numa-node"))
        if draw(st.booleans()):
            found["topologyManagerScope"] = chosen(draw, ("container", "pod"))
    return found


@st.composite
def placing(draw: st.DrawFn, configured: ConfiguredKubelet, node: NodeFacts) -> ConfiguredKubelet:
    """The kubelet with the Memory Manager's policy Static and its reserved memory split over the NUMA nodes.

    The unchanged kubelet if the release has no Memory Manager or the reservation does not fit.
    """
    release = Release.parse(configured.kubernetes)
    if not enabled(Gate.MEMORY_MANAGER, release, configured.settings.feature_gates) or not node.numa_nodes:
        return configured
    reserved = sum(
        Quantity.parse(str(configured.config.get(field, {}).get("memory", "0"))).value
        for field in ("systemReserved", "kubeReserved")
    )
    threshold = configured.config.get("evictionHard", {}).get("memory.available", "100Mi")
    if str(threshold).endswith("%"):
        return configured
    left = reserved + Quantity.parse(str(threshold)).value
    numa_nodes: list[Document] = []
    for numa in node.numa_nodes:
        last = numa is node.numa_nodes[-1]
        part = left if last else min(left, drawn_bytes(draw, 0, max(left, 1)))
        left -= part
        if part:
            numa_nodes.append({"numaNode": numa.id, "limits": {"memory": plainly(part)}})
    return ConfiguredKubelet(
        kubernetes=configured.kubernetes,
        config={**configured.config, "memoryManagerPolicy": "Static", "reservedMemory": numa_nodes},
    )


def kubelet_settings(
    *, kubernetes: str | None = None, node: NodeFacts | None = None
) -> st.SearchStrategy[tuple[str, KubeletSettings]]:
    """A release and the settings of a kubelet of it, which starts on this node; arguments as of `configurations`."""
    return configurations(kubernetes=kubernetes, node=node).map(lambda one: (one.kubernetes, one.settings))
