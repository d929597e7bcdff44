"""Pods and their containers as the kubelet sees them: after API defaulting, quantities exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memqos.model.cluster import NO_OBJECTS, ClusterObjects
from memqos.model.quantity import Quantity, ResourceList

__all__ = [
    "CRITICAL_PRIORITY",
    "Container",
    "ContainerKind",
    "ContainerState",
    "ContainerStatus",
    "Controller",
    "Pod",
    "PodStatus",
    "QosClass",
    "ResizePolicy",
    "ResourceList",
    "Resources",
    "Submission",
]

CRITICAL_PRIORITY = 2_000_000_000
"""The lowest priority that makes a pod critical (scheduling.SystemCriticalPriority)."""


class QosClass(StrEnum):
    """A pod's quality of service class, spelled as in `status.qosClass`."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class ContainerKind(StrEnum):
    """The kind of a container; a sidecar is an init container with `restartPolicy: Always`."""

    APP = "app"
    INIT = "init"
    SIDECAR = "sidecar"
    EPHEMERAL = "ephemeral"


class ResizePolicy(StrEnum):
    """The effect of a resize of one resource on its container, spelled as in `resizePolicy.restartPolicy`."""

    NOT_REQUIRED = "NotRequired"
    RESTART_CONTAINER = "RestartContainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Requests and limits; a missing key was not given, an explicit zero stays zero."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod.

    resize_policy: resource ("cpu", "memory") to the effect of its resize; a missing resource is NOT_REQUIRED. origin:
    resource field ("requests.memory") to its place ("pod.yaml:12"), for reason chains.
    """

    name: str
    kind: ContainerKind = ContainerKind.APP
    resources: Resources = field(default_factory=Resources)
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resize_policy: Mapping[str, ResizePolicy] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)


class ContainerState(StrEnum):
    """The state of a container, spelled as in `status.containerStatuses[].state`."""

    RUNNING = "running"
    WAITING = "waiting"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """The kubelet's status of one container: an element of `status.containerStatuses` or `initContainerStatuses`.

    id: `containerID` without the runtime's name, "" if missing. state: None if missing. reason: of a waiting or
    terminated container ("CrashLoopBackOff"). started:
    `state.running.startedAt`, an RFC 3339 time, "" if it does not run. restarts: `restartCount`.
    allocated: `allocatedResources`, the requests that the kubelet has admitted. resources: `resources`, those of the
    running container, or those allocated to one that does not run. Both are None if missing. allocated_limits: the
    limits that the kubelet has admitted, known only from its checkpoint; else None. origin: "allocated.memory",
    "resources.limits.memory" to its place, for reason chains.
    """

    name: str
    id: str = field(default="", compare=False)
    state: ContainerState | None = None
    reason: str = ""
    started: str = ""
    restarts: int = 0
    allocated: ResourceList | None = None
    resources: Resources | None = None
    allocated_limits: ResourceList | None = None
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """The kubelet's status of a pod, as far as it affects cgroups. Absent texts are "".

    reason: that of its phase ("Evicted"). qos: its qosClass, None if missing or unknown. resize: `status.resize`
    (1.27 to 1.32): Proposed, InProgress, Deferred, Infeasible. pending: the reason of the condition PodResizePending
    (1.33 and later) if it is true: Deferred, Infeasible. in_progress: whether the condition PodResizeInProgress is
    true; since: its lastTransitionTime; error: its message. observed_generation, pending_generation: the
    `observedGeneration` of the status, and of PodResizePending; None if missing.
    containers: by name, including init and ephemeral containers. allocated, resources: those of the whole pod (1.35 and
    later), overhead included, None if missing. checkpoint: the kubelet's file with the containers' allocated amounts,
    "" if they come from the status.
    """

    reason: str = ""
    qos: QosClass | None = None
    resize: str = ""
    pending: str = ""
    in_progress: bool = False
    since: str = ""
    error: str = ""
    observed_generation: int | None = None
    pending_generation: int | None = None
    containers: Mapping[str, ContainerStatus] = field(default_factory=dict)
    allocated: ResourceList | None = None
    resources: Resources | None = None
    checkpoint: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Controller:
    """The controller that creates pods from a template: kind and name of an object in the pods' namespace."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Further fields of a new pod that the API server's admission reads, and the cluster's objects.

    preemption_policy: `spec.preemptionPolicy`, "" if absent. has_deadline: whether `spec.activeDeadlineSeconds` is set.
    counted: whether the quotas' `status.used` includes the pod's usage, as for a workload read from a cluster.
    """

    cluster: ClusterObjects = NO_OBJECTS
    preemption_policy: str = ""
    has_deadline: bool = False
    counted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod. `init_containers` holds regular init containers and sidecars in spec order.

    resources: `spec.resources` (KEP-2837); None if the field is missing, which differs from an empty one.
    overhead: `spec.overhead`; an empty one means none, since the API server drops it.
    claims: the names of `spec.resourceClaims`, each with its status.nodeAllocatableResourceClaimStatuses. uid: the uid
    in the name of the pod's cgroup; for a static pod the configuration's hash.
    memory_volumes: the `sizeLimit` of each emptyDir volume with medium Memory, by name; None for one without.
    static: whether the kubelet read the pod from a file (or it is the mirror of such a pod), which makes it critical.
    controller: the owner of its template, so that its real name is unknown; None if it has a manifest. runtime_handler:
    the handler of its RuntimeClass, "" if unknown. annotations: as in the manifest. node, phase: `spec.nodeName` and
    `status.phase` from an API server; "" if missing. generation: `metadata.generation`, None if missing: 1 for a pod
    whose spec has never changed (1.33 and later). deleted: whether `metadata.deletionTimestamp` is set. restart_policy:
    `spec.restartPolicy`.
    status: the kubelet's; None for a manifest that was not in a cluster. submission: fields for admission if the API
    server has not stored the pod yet; None for a stored pod.
    os: `spec.os.name`; os_label: its label kubernetes.io/os; "" where absent.
    not_on_linux: the node selector or affinity that no Linux node matches, as text; "" if there is none.
    """

    name: str
    uid: str
    namespace: str = "default"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    resources: Resources | None = None
    overhead: ResourceList = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    memory_volumes: Mapping[str, Quantity | None] = field(default_factory=dict, compare=False)
    priority: int | None = None
    priority_class_name: str = ""
    runtime_class_name: str = ""
    os: str = ""
    os_label: str = ""
    not_on_linux: str = ""
    scheduling_gates: tuple[str, ...] = ()
    static: bool = False
    runtime_handler: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict, compare=False)
    controller: Controller | None = field(default=None, compare=False)
    node: str = field(default="", compare=False)
    phase: str = field(default="", compare=False)
    generation: int | None = field(default=None, compare=False)
    deleted: bool = field(default=False, compare=False)
    restart_policy: str = field(default="Always", compare=False)
    status: PodStatus | None = field(default=None, compare=False)
    submission: Submission | None = field(default=None, compare=False)
    file: str = field(default="", compare=False)
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers, then app containers, then ephemeral ones."""
        return self.init_containers + self.containers + self.ephemeral_containers

    @property
    def has_ended(self) -> bool:
        """Whether all its containers have ended for good: the kubelet has no cgroup for such a pod."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def waits_for_node(self) -> bool:
        """Whether no scheduler has bound it to a node yet."""
        return self.phase == "Pending" and not self.node

    @property
    def is_critical(self) -> bool:
        """The kubelet's IsCriticalPod: static or mirror, or a priority of at least CRITICAL_PRIORITY."""
        return self.static or (self.priority is not None and self.priority >= CRITICAL_PRIORITY)
