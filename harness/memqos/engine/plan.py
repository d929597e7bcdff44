"""The plan, and the rulings that it is made of.

The plan: the expected tree of cgroups, each knob with its value and the chain of reasons for it.

A ruling: what is written into one control file, and how to say why.

The reason is made on demand, so that a plan without reasons costs only the arithmetic. For the same purpose rulings,
and the cases and requests that they are made from, are not frozen though nothing changes them: a container takes a
dozen of these values, which never leave the engine, and freezing them took a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memqos.engine.cgroup.layout import Layout
from memqos.engine.releases.release import Variant
from memqos.engine.translate.versions import Runtimes
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
    """Where in the tree a cgroup is."""

    NODE = "node"
    RESERVED = "reserved"
    QOS = "qos"
    POD = "pod"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class Input:
    """One value that a rule read: its name, the value as text, and where it came from ("pod.yaml:12", "default")."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a knob has its value.

    rule: one sentence in the present tense. revision: "memory-qos v1.27 shipped". source: KEP section, kernel
    document, or the kubelet's function and release. arithmetic: the sum with the numbers in it, "" where there is
    none. rounding: the named rounding rule, "" where nothing was rounded. because: the reasons this one rests on.
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
    value: what the file then shows: `written` after the kernel's rounding, or the default if nothing is written.
    undecided: the values that versions of a runtime make of the same request, where its own version is not known and
    they differ, or those that a pod may have while it is resized: two or more, `value` the first of them. Then none is
    expected, and what the file holds is not judged.
    unasked: why the runtime could not be asked for what the kubelet wants here, "" if it was, or nothing is wanted.
    Then what the file holds says nothing about the runtime.
    unsettled: why the file may hold either value, though the kubelet's rules are known: the pod is being resized.
    `undecided` has the values that are possible; it is empty where they are not known. "" where it is settled.
    unmodelled: why nothing can be expected, "" if something can: a runtime or an annotation that is not modelled
    decides.
    """

    knob: Knob
    written: KnobValue
    value: KnobValue
    reason: Reason
    undecided: tuple[KnobValue, ...] = ()
    unasked: str = ""
    unsettled: str = ""
    unmodelled: str = ""

    @property
    def shown(self) -> str:
        """The value as text; "39 or 100" where it is undecided, "not modelled" where nothing is expected."""
        if self.unmodelled:
            return "not modelled"
        return " or ".join(map(str, self.undecided)) or str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCgroup:
    """One cgroup of the plan; `pod` is a pod's uid, `container` a container's name, "" where the level has none.

    A container's own path ends in a name that only the runtime knows (its id): `path` is then the pod's cgroup, and
    `engine.layout` says what the leaf is called once the id is known.

    summed: the knobs whose values are made from what all pods of the node request.
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
    """What the kubelet asks the runtime for one container, and the cgroup that must come of it.

    refusal: the runtime's own error where it refuses the request, "" where it makes the container. A container that is
    refused has no cgroup: nothing is planned for its files. annotated: the request as the CRI runtime goes on with it,
    where annotations of the pod change it; else None. explain_oom_score_adj makes the reason for that value.
    oom_score_adj_unsure: why its processes may have another score, "" if they cannot: a resize in place does not
    change that of a process that runs.
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
        """Why the processes get this oom_score_adj."""
        return self.explain_oom_score_adj()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPod:
    """One admitted pod: its cgroup, its containers in start order, what is sent along with the sandbox.

    runtimes: those of its RuntimeClass; None if it has none: the node's.
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
    """What keeps a pod off the node: the kubelet, the API server, or the scheduler, which does not bind it."""

    KUBELET = "kubelet"
    API_SERVER = "API server"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A pod (uid) that is not admitted: the reason name of what refuses it (by), its message, and the rule.

    name: "namespace/name" where it is known.
    """

    pod: str
    reason_name: str
    message: str
    reason: Reason
    name: str = ""
    by: RefusedBy = RefusedBy.KUBELET


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A field that was given and has no effect in the release: where it was written, and what comes of it there."""

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

    variant: whose rules were followed. layout: the cgroup driver, and where the runtimes keep containers. node: the
    kubepods cgroup; qos: the burstable and besteffort cgroups; reserved: those of kube- and system-reserved, if
    enforced.
    revisions: rule family to revision, in the words that reasons use.
    unavailable: the control files that no cgroup of this plan has, and why; empty in a plan without reasons.
    ignored: what was given and has no effect: fields that the release does not know, annotations of pods.
    remarks: what was assumed, what of the input was not read, and what will not work on a node.
    unmodelled: the uid of a pod whose cgroups the rules cannot tell, and why: its values here may be wrong.
    not_modelled: the runtimes that are not modelled; what they decide has `Expected.unmodelled`.
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
        """Who makes the cgroups."""
        return self.layout.driver

    def layout_of(self, pod: PlannedPod) -> Layout:
        """Where this pod's runtimes keep its containers."""
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
"""Stands in a plan that was asked for without reasons."""


def unexplained() -> Reason:
    """What a ruling says that was made for a plan without reasons."""
    return UNEXPLAINED


@dataclass(slots=True)
class Ruling:
    """The value that is written (ABSENT: the file is left alone), and the chain of reasons for it.

    otherwise: what other versions of the runtime write, where it is not known which one runs. unasked: why nothing
    could ask for what is wanted, "" if it was asked for. unmodelled: why nothing can be expected, "" if something can.
    unsettled: why the file may hold what `otherwise` has though all versions are known; "" where it is settled.
    """

    written: KnobValue
    why: Why
    otherwise: tuple[KnobValue, ...] = ()
    unasked: str = ""
    unmodelled: str = ""
    unsettled: str = ""


Rulings = Mapping[Knob, Ruling]


def expected(
    knob: Knob, ruling: Ruling, *, page_size: int, reasons: bool, default: KnobValue | None = None
) -> Expected:
    """The expectation that follows from a ruling: what the kernel shows afterwards in a cgroup that was new.

    default: what an unwritten file shows, where that is the node's and not the kernel's own default.
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
        unasked=ruling.unasked,
        unmodelled=ruling.unmodelled,
        unsettled=ruling.unsettled,
    )


def unified_entries(rulings: Rulings) -> dict[str, str]:
    """Rulings as entries of a unified map: control file to text, without those that leave their file alone."""
    return {str(knob): str(ruling.written) for knob, ruling in rulings.items() if ruling.written is not ABSENT}


def kernel_revision(version: CgroupVersion) -> str:
    """The revision of what the kernel alone decides, whatever the release of Kubernetes."""
    return f"kernel cgroup {version}"
