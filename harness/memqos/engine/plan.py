"""The plan, and the rulings behind it.

The plan: the expected tree of cgroups, each knob with its value and its chain of reasons.

A ruling: the value written into one interface file, and a function for its reason.

The reason is computed on demand, so a plan without reasons costs only the arithmetic. To save time too, rulings and the
cases and requests behind them are not frozen: they never leave the engine, nothing changes them, a container needs a
dozen, and freezing them took a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memqos.engine.cgroup.layout import Layout
from memqos.engine.releases.release import Variant
from memqos.engine.translate.runtimes import Runtimes
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob, KnobValue
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.pod import ContainerKind, QosClass
from memqos.model.reading import read_back

__all__ = [
    "UNEXPLAINED",
    "Expected",
    "Ignored",
    "Input",
    "Level",
    "Plan",
    "PlannedCgroup",
    "PlannedContainer",
    "PlannedPod",
    "Reason",
    "Refusal",
    "RefusedBy",
    "Remark",
    "Ruling",
    "Rulings",
    "Why",
    "expected",
    "kernel_revision",
    "unexplained",
    "unified_entries",
]


class Level(StrEnum):
    """The level of a cgroup in the tree."""

    NODE = "node"
    RESERVED = "reserved"
    QOS = "qos"
    POD = "pod"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class Input:
    """One value that a rule read: its name, its text, and its origin ("pod.yaml:12", "default")."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a knob has its value.

    rule: one sentence in the present tense. revision: "memory-qos v1.27 shipped". source: KEP section, kernel
    document, or the kubelet's function and release. arithmetic: the calculation with its numbers, "" for none.
    rounding: the named rounding rule, "" if nothing was rounded. because: the reasons behind this one.
    """

    rule: str
    revision: str
    source: str
    inputs: tuple[Input, ...] = ()
    arithmetic: str = ""
    rounding: str = ""
    because: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expectation for one knob of one cgroup.

    written: what the kubelet or runtime writes; ABSENT if it writes nothing.
    value: the file's text after that: `written` after the kernel's rounding, or the default if nothing is written.
    undecided: two or more possible values, `value` the first, if versions of a runtime differ and its version is
    unknown, or while the pod is resized. The file is then not judged. inexpressible: why the value that the
    kubelet wants could not be requested, "" if it was, or no value is wanted. The file's text is then no finding about
    the runtime. unsettled: why the value is uncertain while the pod is resized, "" if it is certain. `undecided` has
    the possible values, and is empty if they are unknown. unmodelled: why nothing can be expected, "" if something can:
    a runtime or an annotation that is not modelled decides.
    """

    knob: Knob
    written: KnobValue
    value: KnobValue
    reason: Reason
    undecided: tuple[KnobValue, ...] = ()
    inexpressible: str = ""
    unsettled: str = ""
    unmodelled: str = ""

    @property
    def shown(self) -> str:
        """The value as text; "39 or 100" if undecided, "not modelled" if nothing is expected."""
        if self.unmodelled:
            return "not modelled"
        return " or ".join(map(str, self.undecided)) or str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCgroup:
    """One cgroup of the plan; `pod` is a pod's uid, `container` a container's name, "" at levels without one.

    A container's own path ends in a name that only the runtime knows (its id): `path` is then the pod's cgroup, and
    `engine.cgroup.layout` names the leaf for a known id.

    summed: the knobs whose values depend on the requests of all pods of the node.
    """

    level: Level
    path: CgroupPath
    knobs: Mapping[Knob, Expected]
    qos: QosClass | None = None
    pod: str = ""
    container: str = ""
    summed: frozenset[Knob] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedContainer:
    """The kubelet's request to the runtime for one container, and the resulting cgroup.

    refusal: the runtime's error if it refuses the request, "" if it creates the container. A refused container has no
    cgroup, so no file is planned. annotated: the request after the CRI runtime applied the pod's annotations; None if
    they change nothing. explain_oom_score_adj computes the reason for that value. oom_score_adj_unsure: why its
    processes may have another score, "" if they cannot: an in-place resize does not change the score of a running
    process.
    """

    name: str
    resources: ContainerResources
    cgroup: PlannedCgroup
    oom_score_adj: int
    explain_oom_score_adj: Callable[[], Reason] = field(compare=False, repr=False)
    kind: ContainerKind = ContainerKind.APP
    refusal: str = ""
    oom_score_adj_unsure: str = ""
    annotated: ContainerResources | None = None

    @property
    def carried_out(self) -> ContainerResources:
        """The request that the CRI runtime translates."""
        return self.resources if self.annotated is None else self.annotated

    @property
    def oom_score_adj_reason(self) -> Reason:
        """The reason for this oom_score_adj."""
        return self.explain_oom_score_adj()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPod:
    """One admitted pod: its cgroup, its containers in start order, and the resources sent with the sandbox.

    runtimes: those of its RuntimeClass; None means the node's.
    """

    name: str
    namespace: str
    uid: str
    qos: QosClass
    qos_reason: Reason
    cgroup: PlannedCgroup
    containers: tuple[PlannedContainer, ...]
    runtimes: Runtimes | None = None
    sandbox_resources: ContainerResources = field(default_factory=ContainerResources)
    sandbox_overhead: ContainerResources = field(default_factory=ContainerResources)


class RefusedBy(StrEnum):
    """The component that refuses a pod: the kubelet, the API server, or the scheduler, which does not bind it."""

    KUBELET = "kubelet"
    API_SERVER = "API server"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A pod (uid) that is not admitted: the refusing component (by), its reason name and message, and the rule.

    name: "namespace/name" if known.
    """

    pod: str
    reason_name: str
    message: str
    reason: Reason
    name: str = ""
    by: RefusedBy = RefusedBy.KUBELET


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A given field without effect in the release: its place, and the consequence."""

    field: str
    origin: str
    what: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A note on a plan: its subject, the place in the input ("" for none), and the text."""

    about: str
    origin: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The expected state of one node with these pods under one release and configuration.

    variant: whose rules apply. layout: the cgroup driver, and the cgroups of containers. node: the kubepods cgroup;
    qos: the burstable and besteffort cgroups; reserved: those of kube- and system-reserved, if enforced.
    revisions: rule family to revision, in the words of reasons. unavailable: the interface files that no cgroup of this
    plan has, and why; empty in a plan without reasons. ignored: given fields and annotations without effect, such as
    fields that the release does not know. remarks: assumptions, unread input, and problems on a real node. unmodelled:
    the uid of a pod whose cgroups the rules cannot compute, and why: its values here may be wrong. not_modelled: the
    runtimes that are not modelled; files that they decide have `Expected.unmodelled`.
    user_namespace: whether the kubelet and the runtimes run in a user namespace.
    """

    release: str
    layout: Layout
    revisions: Mapping[str, str]
    node: PlannedCgroup
    qos: tuple[PlannedCgroup, ...]
    reserved: tuple[PlannedCgroup, ...]
    pods: tuple[PlannedPod, ...]
    refusals: tuple[Refusal, ...] = ()
    cgroup_version: CgroupVersion = CgroupVersion.V2
    unavailable: Mapping[Knob, Reason] = field(default_factory=dict)
    ignored: tuple[Ignored, ...] = ()
    remarks: tuple[Remark, ...] = ()
    unmodelled: Mapping[str, str] = field(default_factory=dict)
    not_modelled: tuple[str, ...] = ()
    user_namespace: bool = False
    variant: Variant = Variant.SHIPPED

    @property
    def driver(self) -> CgroupDriver:
        """The cgroup driver."""
        return self.layout.driver

    def layout_of(self, pod: PlannedPod) -> Layout:
        """The cgroups of this pod's containers, as its runtimes name them."""
        return self.layout if pod.runtimes is None else pod.runtimes.layout(self.driver)

    def cgroups(self) -> Iterator[PlannedCgroup]:
        """Every planned cgroup, parents before children."""
        yield from self.reserved
        yield self.node
        yield from self.qos
        for pod in self.pods:
            yield pod.cgroup
            yield from (container.cgroup for container in pod.containers)

    def has(self, uid: str) -> bool:
        """Whether a pod of this uid is planned."""
        return any(pod.uid == uid for pod in self.pods)

    def pod(self, uid: str) -> PlannedPod:
        """The planned pod of this uid; KeyError if the plan has none."""
        for pod in self.pods:
            if pod.uid == uid:
                return pod
        raise KeyError(uid)


Why = Callable[[], Reason]

UNEXPLAINED = Reason(rule="", revision="", source="")
"""The reason in a plan without reasons."""


def unexplained() -> Reason:
    """The `explain` of a ruling in a plan without reasons."""
    return UNEXPLAINED


@dataclass(slots=True)
class Ruling:
    """The written value (ABSENT: the file is not written), and its chain of reasons.

    otherwise: the values that other versions of the runtime write, if its version is unknown. inexpressible: why the
    wanted value was not requested, "" if it was. unmodelled: why nothing can be expected, "" if something can.
    unsettled: why the file may hold a value of `otherwise` though all versions are known; "" if it cannot.
    """

    written: KnobValue
    why: Why
    otherwise: tuple[KnobValue, ...] = ()
    inexpressible: str = ""
    unmodelled: str = ""
    unsettled: str = ""


Rulings = Mapping[Knob, Ruling]


def expected(
    knob: Knob, ruling: Ruling, *, page_size: int, reasons: bool, default: KnobValue | None = None
) -> Expected:
    """The expectation from a ruling: the file's text afterwards in a new cgroup.

    default: the text of an unwritten file, if the node decides it and not the kernel's default.
    """
    written = ruling.written
    if default is None:
        default = knob.kernel_default
    value = read_back(knob, default if written is ABSENT else written, page_size)
    undecided: tuple[KnobValue, ...] = ()
    if ruling.otherwise:
        others = [read_back(knob, default if one is ABSENT else one, page_size) for one in ruling.otherwise]
        several = tuple(dict.fromkeys((value, *others)))
        undecided = several if len(several) > 1 else ()
    reason = ruling.why() if reasons else unexplained()
    return Expected(
        knob=knob,
        written=written,
        value=value,
        reason=reason,
        undecided=undecided,
        inexpressible=ruling.inexpressible,
        unmodelled=ruling.unmodelled,
        unsettled=ruling.unsettled,
    )


def unified_entries(rulings: Rulings) -> dict[str, str]:
    """Rulings as entries of a unified map: interface file to text, without unwritten files."""
    return {str(knob): str(ruling.written) for knob, ruling in rulings.items() if ruling.written is not ABSENT}


def kernel_revision(version: CgroupVersion) -> str:
    """The revision of rules that the kernel alone decides, for every release of Kubernetes."""
    return f"kernel cgroup {version}"
