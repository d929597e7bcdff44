"""The table of releases: the novelties and feature gates of each.

A release with changes has rows here, and one module for each family with a module per release ("memory-qos", "swap");
no other part of the engine knows a release by its number. See docs/how-to/add-a-release.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

__all__ = [
    "DRAFTS",
    "FIELDS",
    "FIXES",
    "OPTION_STAGES",
    "POD_FIELDS",
    "PREVIEW",
    "RELEASES",
    "STAGES",
    "TWO_VARIANTS",
    "Family",
    "Gate",
    "GateStage",
    "Maturity",
    "Novelty",
    "revised_in",
]

RELEASES: tuple[int, ...] = tuple(range(22, 38))
"""The minor versions with rules, ascending."""

PREVIEW = 38
"""The unreleased minor version, a preview from its public texts."""


class Family(StrEnum):
    """A family of rules that change together; reasons name its revision."""

    MEMORY_QOS = "memory-qos"
    SWAP = "swap"
    SUMS = "pod sums"
    LIMITS_DECLARED = "limits declared"
    CONTAINER = "container resources"
    SANDBOX = "sandbox resources"
    QOS_CLASS = "qos class"
    OOM_SCORE = "oom_score_adj"
    NODE = "node allocatable"
    LAYOUT = "cgroup names"
    CPU = "cpu conversions"
    DEFAULTS = "pod defaults"
    CONFIGURATION = "kubelet configuration"
    RESIZE = "resize"
    MEMORY_MANAGER = "memory-manager"
    TOPOLOGY_MANAGER = "topology-manager"


class Novelty(Enum):
    """A change that a release introduced and later ones keep; changes behind a gate are in STAGES.

    since: the minor version that introduced it. family: the family of rules that it revised. what: the rule since then.
    """

    def __init__(self, since: int, family: Family, what: str) -> None:
        self.since = since
        self.family = family
        self.what = what

    # 1.23
    SANDBOX_RESOURCES = 23, Family.SANDBOX, "the sandbox request carries the containers' sums and the overhead"
    INIT_LIMITS_COUNT = 23, Family.LIMITS_DECLARED, "init containers without a limit leave the pod without one"
    # 1.24
    MERGES_UP_TO_NEED = 24, Family.TOPOLOGY_MANAGER, "hints that are not preferred are merged up to the need"
    # 1.26
    REQUEST_KEY_DECIDES = 26, Family.CONTAINER, "a cpu request of 0 counts, and is not replaced by the limit"
    # 1.27
    HIGH_BETWEEN = 27, Family.MEMORY_QOS, "memory.high lies between request and limit; the factor's default is 0.9"
    LIMITS_ADD_UP = 27, Family.LIMITS_DECLARED, "an init container counts with what its limits add up to"
    REQUESTED_HUGE_PAGES = 27, Family.LIMITS_DECLARED, "a pod's huge pages are its requests, with overhead"
    # 1.28
    PROPORTIONAL_SWAP = 28, Family.SWAP, "LimitedSwap gives swap in proportion to the memory request"
    LIMIT_RANGE_SUMS = 28, Family.DEFAULTS, "for a LimitRange of type Pod all requests add up, sidecars' too"
    OOM_GROUP = 28, Family.CONTAINER, "an OOM kill takes the whole container"
    DROP_INS = 28, Family.CONFIGURATION, "--config-dir exists if an environment variable enables it"
    # 1.29
    SIDECARS_KEEP_MEMORY = 29, Family.MEMORY_MANAGER, "a sidecar's memory is not used again by later containers"
    # 1.30
    NO_SWAP = 30, Family.SWAP, "NoSwap is new and the default, UnlimitedSwap is removed"
    DROP_INS_BY_DEFAULT = 30, Family.CONFIGURATION, "--config-dir needs no environment variable"
    # 1.31
    CRITICAL_WITHOUT_SWAP = 31, Family.SWAP, "critical pods never swap"
    FAIL_CGROUP_V1 = 31, Family.CONFIGURATION, "failCgroupV1 is new, false by default"
    # 1.32
    SINGLE_PROCESS_OOM_KILL = 32, Family.CONTAINER, "singleProcessOOMKill leaves memory.oom.group alone"
    SIDECARS_CAPPED = 32, Family.OOM_SCORE, "a sidecar is no likelier a victim than the smallest app container"
    COMPRESSIBLE_KEYS = 32, Family.NODE, "reservations can be enforced for cpu alone, by '-compressible' keys"
    WHOLE_CPUSET = 32, Family.NODE, "cpuset.cpus of kubepods is all CPUs, unless the CPU Manager is static"
    POD_RESOURCES_KNOWN = 32, Family.DEFAULTS, "the API has spec.resources of a pod"
    CHECKS_GROUPS = 32, Family.MEMORY_MANAGER, "NUMA nodes allocated together must be free of other groups"
    RESIZE_SUBRESOURCE = 32, Family.RESIZE, "the API server validates the resize subresource, and rejects static pods"
    RESIZE_THROUGH_LIBCONTAINER = 32, Family.RESIZE, "a pod's cgroup is resized through the driver"
    RESIZE_REQUESTS_FIRST = 32, Family.RESIZE, "when shrinking, the pod's request is written before its limit"
    RESIZE_SAYS_WHY = 32, Family.RESIZE, "the pod's status says why a resize waits or fails"
    RESIZE_WITHOUT_LIMITS = 32, Family.RESIZE, "pods and containers without limits are resized too"
    RESIZE_READS_BACK = 32, Family.RESIZE, "amounts are compared as the runtime reports them"
    # 1.33
    POD_LEVEL_HUGE_PAGES = 33, Family.DEFAULTS, "pod-level resources include huge pages"
    RESIZE_RECORDS = 33, Family.RESIZE, "the kubelet records the resources that it created containers with"
    RESIZE_SIDECARS = 33, Family.RESIZE, "sidecars are resized"
    RESIZE_MEMORY_REQUESTS = 33, Family.RESIZE, "a change of the memory request alone is a resize"
    RESIZE_CONDITIONS = 33, Family.RESIZE, "static pods, swap and the Memory Manager's policy make it infeasible"
    RESIZE_PAST_GATE = 33, Family.RESIZE, "the API server lets a resize pass whatever the gate"
    RESIZE_SANDBOX = 33, Family.RESIZE, "the runtime receives the pod's new size"
    RESIZE_FULL_NAME = 33, Family.RESIZE, "messages name the pod with namespace and uid"
    RESIZE_EXACT_AMOUNTS = 33, Family.RESIZE, "small amounts of cpu are distinguished again"
    RESIZE_LIMITS_KEPT = 33, Family.RESIZE, "memory limits are lowered and added only with a restart"
    # 1.34
    SYSTEMD_ROUNDS_QUOTA = 34, Family.CPU, "with the systemd driver a quota is rounded up to whole percents"
    CONTAINER_HUGE_PAGES = 34, Family.CONTAINER, "pod-level huge page limits apply to its containers"
    CPU_MANAGER_SKIPS_POD_LEVEL = 34, Family.CONTAINER, "pods with pod-level resources get no exclusive CPUs"
    HUGE_PAGE_REQUEST_SUFFICES = 34, Family.DEFAULTS, "a pod-level huge page request gets no limit"
    LEAVES_POD_LEVEL_ALONE = 34, Family.MEMORY_MANAGER, "pods with pod-level resources are not placed"
    RESIZE_QUEUE = 34, Family.RESIZE, "resizes wait in a queue; those that raise no request come first"
    RESIZE_OWN_ALLOCATABLE = 34, Family.RESIZE, "infeasible is judged by the kubelet's own allocatable"
    RESIZE_BY_RESOURCE = 34, Family.RESIZE, "CPU Manager and Memory Manager object by resource, each with its gate"
    RESIZE_DECREASES = 34, Family.RESIZE, "a limit may be lowered if it stays above usage"
    # 1.35
    FAIL_CGROUP_V1_BY_DEFAULT = 35, Family.CONFIGURATION, "failCgroupV1 is true by default"
    # 1.36
    RESERVATION_POLICY = 36, Family.MEMORY_QOS, "memoryReservationPolicy decides about protection"
    WARNS_ON_CGROUP_V1 = 36, Family.MEMORY_QOS, "the kubelet warns of memory QoS on cgroup v1"
    MANAGES_POD_LEVEL = 36, Family.MEMORY_MANAGER, "pods with pod-level resources are placed as a whole, or not at all"
    RESIZE_ANY_SIZE = 36, Family.RESIZE, "a resize that can never fit waits like one that does not fit now"
    RESIZE_STATIC_UNCHECKED = 36, Family.RESIZE, "the kubelet itself no longer refuses static pods"
    RESIZE_SANDBOX_FIRST = 36, Family.RESIZE, "the runtime receives the resize first, and may refuse"
    # 1.37
    MEMORY_QOS_BETA = (
        37,
        Family.MEMORY_QOS,
        "kubepods has memory.low, the factor has no default, and switching off resets",
    )
    RESIZE_MEMORY_QOS = 37, Family.RESIZE, "a resize that writes a pod's memory limit writes its memory QoS too"
    CLAIMS_COUNT = 37, Family.CONFIGURATION, "cpu, memory and huge pages from DRA count, behind a gate"
    RESIZE_LOSSY_WEIGHT = 37, Family.RESIZE, "a weight that reads back as the wanted one is left alone"
    # 1.38, a preview
    WORKLOAD_SWAP = 38, Family.SWAP, "WorkloadControlledSwap gives a container its limits.swap"


TWO_VARIANTS: Mapping[Family, tuple[int, int]] = {
    Family.MEMORY_QOS: (27, 36),
    Family.SWAP: (28, 29),
    Family.RESIZE: (27, 37),
}
"""Releases whose documentation differs from the shipped code, first and last minor."""

FIXES: Mapping[Family, tuple[int, int]] = {Family.RESIZE: (37, 37)}
"""Releases whose code was fixed later, first and last minor: the first patch release with the fix is unknown."""

DRAFTS: Mapping[Family, str] = {Family.MEMORY_MANAGER: "memory-manager draft 2020"}
"""Families of rules whose draft differs from the shipped code, and the name of the draft's revision."""


class Gate(StrEnum):
    """The feature gates that rules depend on, spelled as in `featureGates`."""

    MEMORY_QOS = "MemoryQoS"
    NODE_SWAP = "NodeSwap"
    SIDECARS = "SidecarContainers"
    POD_LEVEL_RESOURCES = "PodLevelResources"
    POD_LEVEL_MANAGERS = "PodLevelResourceManagers"
    QOS_RESERVED = "QOSReserved"
    CFS_QUOTA_PERIOD = "CustomCPUCFSQuotaPeriod"
    NO_QUOTA_WITH_EXCLUSIVE_CPUS = "DisableCPUQuotaWithExclusiveCPUs"
    MEMORY_MANAGER = "MemoryManager"
    TOPOLOGY_MANAGER = "TopologyManager"
    TOPOLOGY_OPTIONS = "TopologyManagerPolicyOptions"
    TOPOLOGY_ALPHA_OPTIONS = "TopologyManagerPolicyAlphaOptions"
    TOPOLOGY_BETA_OPTIONS = "TopologyManagerPolicyBetaOptions"
    RESIZE = "InPlacePodVerticalScaling"
    RESIZE_EXCLUSIVE_CPUS = "InPlacePodVerticalScalingExclusiveCPUs"
    RESIZE_EXCLUSIVE_MEMORY = "InPlacePodVerticalScalingExclusiveMemory"
    RESIZE_INIT_CONTAINERS = "InPlacePodVerticalScalingInitContainers"
    RESIZE_POD_LEVEL = "InPlacePodLevelResourcesVerticalScaling"
    RESIZE_VOLUMES = "InPlacePodVerticalScalingMemoryBackedVolumes"
    DRIVER_FROM_CRI = "KubeletCgroupDriverFromCRI"
    DRA_NODE_RESOURCES = "DRANodeAllocatableResources"
    USER_NAMESPACE = "KubeletInUserNamespace"
    WORKLOAD_SWAP = "WorkloadControlledSwap"
    DRIFT_TOLERANCE = "MemoryManagerDriftTolerance"
    NODE_RESERVATION = "NodeReservationPolicy"
    IDENTIFY_POD_OS = "IdentifyPodOS"
    SCHEDULING_READINESS = "PodSchedulingReadiness"


class Maturity(StrEnum):
    """The stage of a feature gate; the names are those of the feature gate reference.

    REMOVED: the release no longer has the gate, and its kubelet refuses the name; the feature keeps its last state.
    """

    ALPHA = "alpha"
    BETA = "beta"
    GA = "stable"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class GateStage:
    """A gate from a minor version on: its stage, its default, and whether a configuration may change it.

    revises: the families of rules that this stage revises.
    """

    since: int
    maturity: Maturity
    default: bool
    locked: bool = False
    revises: tuple[Family, ...] = ()


_PODS = (Family.SUMS, Family.LIMITS_DECLARED)

STAGES: Mapping[Gate, tuple[GateStage, ...]] = {
    Gate.MEMORY_QOS: (
        GateStage(22, Maturity.ALPHA, default=False),
        GateStage(37, Maturity.BETA, default=True),
    ),
    Gate.NODE_SWAP: (
        GateStage(22, Maturity.ALPHA, default=False),
        GateStage(28, Maturity.BETA, default=False),
        GateStage(30, Maturity.BETA, default=True),
        GateStage(34, Maturity.GA, default=True, locked=True),
    ),
    Gate.SIDECARS: (
        GateStage(28, Maturity.ALPHA, default=False, revises=_PODS),
        GateStage(29, Maturity.BETA, default=True),
        GateStage(33, Maturity.GA, default=True, locked=True, revises=(Family.OOM_SCORE,)),
    ),
    Gate.POD_LEVEL_RESOURCES: (
        GateStage(
            32,
            Maturity.ALPHA,
            default=False,
            revises=(*_PODS, Family.CONTAINER, Family.QOS_CLASS, Family.OOM_SCORE),
        ),
        GateStage(34, Maturity.BETA, default=True),
    ),
    Gate.POD_LEVEL_MANAGERS: (
        GateStage(36, Maturity.ALPHA, default=False, revises=(Family.MEMORY_MANAGER,)),
        GateStage(37, Maturity.BETA, default=True),
    ),
    Gate.QOS_RESERVED: (GateStage(11, Maturity.ALPHA, default=False),),
    Gate.CFS_QUOTA_PERIOD: (
        GateStage(12, Maturity.ALPHA, default=False),
        GateStage(36, Maturity.GA, default=True),
    ),
    Gate.NO_QUOTA_WITH_EXCLUSIVE_CPUS: (GateStage(33, Maturity.BETA, default=True, revises=(Family.CPU,)),),
    Gate.MEMORY_MANAGER: (
        GateStage(21, Maturity.ALPHA, default=False),
        GateStage(22, Maturity.BETA, default=True),
        GateStage(32, Maturity.GA, default=True, locked=True),
    ),
    Gate.TOPOLOGY_MANAGER: (
        GateStage(18, Maturity.BETA, default=True),
        GateStage(27, Maturity.GA, default=True, locked=True),
        GateStage(29, Maturity.REMOVED, default=True, locked=True),
    ),
    Gate.TOPOLOGY_OPTIONS: (
        GateStage(26, Maturity.ALPHA, default=False),
        GateStage(28, Maturity.BETA, default=True),
        GateStage(32, Maturity.GA, default=True),
    ),
    Gate.TOPOLOGY_ALPHA_OPTIONS: (GateStage(26, Maturity.ALPHA, default=False),),
    Gate.TOPOLOGY_BETA_OPTIONS: (
        GateStage(26, Maturity.BETA, default=False),
        GateStage(28, Maturity.BETA, default=True),
    ),
    Gate.RESIZE: (
        GateStage(27, Maturity.ALPHA, default=False, revises=(Family.RESIZE,)),
        GateStage(33, Maturity.BETA, default=True),
        GateStage(35, Maturity.GA, default=True, locked=True),
    ),
    Gate.RESIZE_EXCLUSIVE_CPUS: (GateStage(32, Maturity.ALPHA, default=False, revises=(Family.RESIZE,)),),
    Gate.RESIZE_EXCLUSIVE_MEMORY: (GateStage(34, Maturity.ALPHA, default=False, revises=(Family.RESIZE,)),),
    Gate.RESIZE_INIT_CONTAINERS: (GateStage(36, Maturity.BETA, default=True, revises=(Family.RESIZE,)),),
    Gate.RESIZE_POD_LEVEL: (
        GateStage(35, Maturity.ALPHA, default=False, revises=(Family.RESIZE,)),
        GateStage(36, Maturity.BETA, default=True),
    ),
    Gate.RESIZE_VOLUMES: (GateStage(37, Maturity.ALPHA, default=False),),
    Gate.DRIVER_FROM_CRI: (
        GateStage(28, Maturity.ALPHA, default=False),
        GateStage(31, Maturity.BETA, default=True),
        GateStage(34, Maturity.GA, default=True, locked=True),
    ),
    Gate.IDENTIFY_POD_OS: (
        GateStage(23, Maturity.ALPHA, default=False),
        GateStage(24, Maturity.BETA, default=True),
        GateStage(25, Maturity.GA, default=True, locked=True),
        GateStage(27, Maturity.REMOVED, default=True, locked=True),
    ),
    Gate.SCHEDULING_READINESS: (
        GateStage(26, Maturity.ALPHA, default=False),
        GateStage(27, Maturity.BETA, default=True),
        GateStage(30, Maturity.GA, default=True, locked=True),
    ),
    Gate.DRA_NODE_RESOURCES: (GateStage(36, Maturity.ALPHA, default=False),),
    Gate.USER_NAMESPACE: (
        GateStage(22, Maturity.ALPHA, default=False),
        GateStage(37, Maturity.BETA, default=True),
    ),
    Gate.WORKLOAD_SWAP: (GateStage(38, Maturity.ALPHA, default=False),),
    Gate.DRIFT_TOLERANCE: (GateStage(38, Maturity.ALPHA, default=False),),
    Gate.NODE_RESERVATION: (GateStage(38, Maturity.ALPHA, default=False),),
}
"""Source: Kubernetes feature gate reference (kubernetes.io), `pkg/features/kube_features.go`."""

OPTION_STAGES: Mapping[str, tuple[tuple[int, Gate | None], ...]] = {
    "prefer-closest-numa-nodes": ((26, Gate.TOPOLOGY_ALPHA_OPTIONS), (28, Gate.TOPOLOGY_BETA_OPTIONS), (32, None)),
    "max-allowable-numa-nodes": ((31, Gate.TOPOLOGY_BETA_OPTIONS), (35, None)),
}
"""Topology Manager policy option to its gates, each from a minor version on; None for no gate."""

FIELDS: Mapping[str, int] = {
    "registerWithTaints": 23,
    "shutdownGracePeriodByPodPriority": 23,
    "registerNode": 23,
    "localStorageCapacityIsolation": 25,
    "tracing": 25,
    "topologyManagerPolicyOptions": 26,
    "containerRuntimeEndpoint": 27,
    "enableSystemLogQuery": 27,
    "imageServiceEndpoint": 27,
    "maxParallelImagePulls": 27,
    "imageMaximumGCAge": 29,
    "containerLogMaxWorkers": 30,
    "containerLogMonitorInterval": 30,
    "podLogsDir": 30,
    "failCgroupV1": 31,
    "crashLoopBackOff": 32,
    "singleProcessOOMKill": 32,
    "imagePullCredentialsVerificationPolicy": 33,
    "mergeDefaultEvictionSettings": 33,
    "preloadedImagesVerificationAllowlist": 33,
    "userNamespaces": 33,
    "memoryReservationPolicy": 36,
    "tlsCurvePreferences": 36,
    "memoryManagerPolicyOptions": 38,
    "systemPartition": 38,
}
"""Fields of a KubeletConfiguration to the minor version of the first kubelet that has them; all others are older."""

POD_FIELDS: Mapping[str, int] = {"resizePolicy": 27, "restartPolicy": 28, "spec.resources": 32}
"""Fields of a pod and its containers to the first minor version that has them; restartPolicy is a container's."""


def revised_in(family: Family) -> tuple[int, ...]:
    """The minor versions that revised a family of rules, ascending; the first release known is always one of them."""
    novelties = {one.since for one in Novelty if one.family is family}
    gates = {stage.since for stages in STAGES.values() for stage in stages if family in stage.revises}
    return tuple(sorted({RELEASES[0]} | novelties | gates))
