"""Findings: expected and observed values, the program that set a value, and the hop that lost it.

Setter: a runtime writes containers' files; a kubelet, or memqos in its place, writes those above. A value that memqos
wrote itself and reads back is no finding about a runtime.

Hops: a request becomes a stored specification, a bundle's config.json, the OCI runtime's own state, the properties of
a systemd unit, and the text of an interface file. Each hop is the work of a different program.

Subjects: what a finding is about, as a value; its name for readers is derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from memqos.engine.plan import Expected, Level, PlannedCgroup, PlannedPod, Reason
from memqos.model.knob import ABSENT, Knob
from memqos.model.path import CgroupPath

__all__ = [
    "HELD",
    "Finding",
    "Hop",
    "HopHeld",
    "Loss",
    "Setter",
    "Subject",
    "Verdict",
    "changed_later",
    "first_lost",
    "setter_of",
    "subject_of",
    "unseen_loss",
    "worst",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The node, pod, container or cgroup of a finding or answer. Equal subjects are the same thing of one node.

    level: its level in the tree; a part of the machine other than a cgroup has the node's. name: of a cgroup above the
    pods ("kubepods.slice") or a part of the machine ("the swap devices"). pod: namespace and name ("default/web"), ""
    for none or for a container without a pod. container: its name. part: "scope" for the scope around a container, ""
    for the whole. when: the moment ("after the resize"), "" if there is only one.
    """

    level: Level
    name: str = ""
    pod: str = ""
    container: str = ""
    part: str = ""
    when: str = ""

    @classmethod
    def of_machine(cls, name: str) -> Subject:
        """A part of the machine other than a cgroup: "the swap devices"."""
        return cls(level=Level.NODE, name=name)

    @classmethod
    def of_pod(cls, namespace: str, name: str) -> Subject:
        """A pod, planned or not."""
        return cls(level=Level.POD, pod=f"{namespace}/{name}")

    @classmethod
    def of_container(cls, name: str, pod: str = "") -> Subject:
        """A container; pod: namespace and name of its pod, "" for a container without one."""
        return cls(level=Level.CONTAINER, container=name, pod=pod)

    def scope(self) -> Subject:
        """The systemd scope around a container, as crun with a subgroup and runsc make it."""
        return replace(self, part="scope")

    def at(self, when: str) -> Subject:
        """The same subject at another moment."""
        return replace(self, when=when)

    def __str__(self) -> str:
        """Its name for readers: "kubepods.slice", "container app of pod default/web", "scope of container app"."""
        named = {Level.POD: f"pod {self.pod}", Level.CONTAINER: f"container {self.container}"}.get(
            self.level, self.name
        )
        if self.level is Level.CONTAINER and self.pod:
            named += f" of pod {self.pod}"
        named = f"{self.part} of {named}" if self.part else named
        return f"{named}, {self.when}" if self.when else named


def subject_of(cgroup: PlannedCgroup, pod: PlannedPod | None = None) -> Subject:
    """The subject of a planned cgroup; pod: its pod, for a cgroup of a pod or a container."""
    if pod is None or cgroup.level in {Level.NODE, Level.QOS, Level.RESERVED}:
        return Subject(level=cgroup.level, name=cgroup.path.name or "root")
    if cgroup.level is Level.POD:
        return Subject.of_pod(pod.namespace, pod.name)
    return Subject.of_container(cgroup.container, f"{pod.namespace}/{pod.name}")


class Setter(StrEnum):
    """The program that set an observed value; for a deviation, the one that should have set the expected value.

    MEMQOS: memqos wrote the value that the file holds. OTHER: a file above containers no longer holds what memqos wrote
    there, and the writer is unknown.
    """

    RUNTIME = "the runtime under test"
    KUBELET = "the kubelet"
    MEMQOS = "memqos in the kubelet's place"
    SYSTEMD = "systemd"
    KERNEL = "the kernel"
    OTHER = "unknown writer"


_UNITS = (".slice", ".scope")

_WRITTEN_BY_SYSTEMD = frozenset(
    {
        Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.CPU_WEIGHT,
        Knob.CPU_MAX, Knob.PIDS_MAX, Knob.MEMORY_LIMIT_IN_BYTES, Knob.CPU_SHARES, Knob.CPU_CFS_QUOTA_US,
        Knob.CPU_CFS_PERIOD_US,
    }
)  # fmt: skip
"""Files that systemd writes in the cgroup of each unit, with its own default where no property is set.

Source: systemd, src/core/cgroup.c, cgroup_context_apply. It does not write those of hugetlb and cpuset.
"""


def setter_of(
    expected: Expected, level: Level, path: CgroupPath, *, enacted_by: Setter, deviates: bool = False
) -> Setter:
    """The setter of a file in the cgroup at this path.

    A runtime also sets the files that systemd writes as properties of the scope that the runtime requests; the same
    holds for the enactor of the plan. A value without a request is systemd's in a unit's cgroup, else the kernel's.
    enacted_by: what enacts the plan above containers. deviates: whether the file holds another value.
    """
    asked = Setter.RUNTIME if level is Level.CONTAINER else enacted_by
    if deviates:
        return Setter.OTHER if asked is Setter.MEMQOS else asked
    if expected.written is not ABSENT or expected.undecided:
        return asked
    is_unit = path.name.endswith(_UNITS)
    return Setter.SYSTEMD if is_unit and expected.knob in _WRITTEN_BY_SYSTEMD else Setter.KERNEL


class Hop(StrEnum):
    """The places where a value can be read on its way, in order."""

    SPEC = "the daemon's stored spec"
    CONFIG = "config.json"
    STATE = "the OCI runtime's state.json"
    UNIT = "the systemd unit"
    FILE = "the interface file"


@dataclass(frozen=True, slots=True, kw_only=True)
class HopHeld:
    """One hop before the file.

    asked: the expected text for the knob in the hop's own format; several if runtime versions differ, "" for none.
    held: the observed text. why_not: why it was not observable, "" if it was. is_gone: whether the hop existed and was
    removed, so that it may have held the expected text.
    """

    hop: Hop
    asked: tuple[str, ...] = ()
    held: str = ""
    why_not: str = ""
    is_gone: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether it holds an unexpected text."""
        return not self.why_not and self.held not in self.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The first hop that does not hold the requested value.

    by: the program that lost it, "" if no hop was observable. told: one line with the values of this hop and the
    previous one. documents: the hops' own files and answers, kept as evidence with the findings.
    """

    by: str
    told: str
    hops: tuple[HopHeld, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


_BY = {
    Hop.SPEC: "the daemon",
    Hop.CONFIG: "the daemon, or a runtime that changed its config.json",
    Hop.STATE: "the OCI runtime",
    Hop.UNIT: "the OCI runtime, or another writer of the systemd unit",
}
_CHANGED_BUNDLE = "the OCI runtime, which changed its config.json"
_AFTER_THE_UNIT = "a writer after systemd"
_OCI_RUNTIME = "the OCI runtime"
_AFTER_THE_RUNTIME = "the OCI runtime, or a writer after it"
_WHILE_IT_RAN = "a writer while the container ran"

HELD = "held before"
"""The evidence name for the value that a file held while the container ran, before it deviated."""


def first_lost(hops: Sequence[HopHeld], *, knob: str, observed: str, own_bundle: bool = False) -> Loss:
    """The hop at which a deviating interface file lost its value; observed: the file's text.

    own_bundle: whether memqos wrote config.json, so no daemon can have lost anything before it.

    If the request named no value, the first hop with a value "set" it.
    """
    seen = [hop for hop in hops if not hop.why_not]
    if not seen:
        reasons = "; ".join(f"{hop.hop}: {hop.why_not}" for hop in hops)
        return unseen_loss(reasons or "no hop can be read", hops)
    at = next((number for number, hop in enumerate(seen) if hop.is_lost), len(seen))
    asked = seen[min(at, len(seen) - 1)].asked
    before = _had("the request" if at == 0 else seen[at - 1].hop, " or ".join(asked) if at == 0 else seen[at - 1].held)
    now = f"{knob} has {observed}" if at == len(seen) else _has(seen[at])
    by = _CHANGED_BUNDLE if own_bundle and at < len(seen) and seen[at].hop is Hop.CONFIG else _by(seen, at, hops)
    verb = "lost" if any(asked) else "set"
    return Loss(by=by, told=f"first {verb}: {by} ({before}, {now})", hops=tuple(hops))


def changed_later(hops: Sequence[HopHeld], *, knob: str, held: str, observed: str) -> Loss:
    """A file held the requested value while the container ran, so no earlier hop lost it."""
    told = f"first lost: {_WHILE_IT_RAN} ({knob} had {held}, and has {observed})"
    return Loss(by=_WHILE_IT_RAN, told=told, hops=tuple(hops))


def unseen_loss(reason: str, hops: Sequence[HopHeld] = ()) -> Loss:
    """No hop is observable, for this reason."""
    return Loss(by="", told=f"first lost: not observable: {reason}", hops=tuple(hops))


def _by(seen: Sequence[HopHeld], at: int, hops: Sequence[HopHeld]) -> str:
    if at < len(seen):
        return _BY[seen[at].hop]
    if seen[-1].hop is Hop.UNIT:
        return _AFTER_THE_UNIT
    return _AFTER_THE_RUNTIME if any(one.is_gone for one in hops) else _OCI_RUNTIME


def _had(where: str, said: str) -> str:
    return f"{where} had {said}" if said else f"{where} did not set it"


def _has(hop: HopHeld) -> str:
    return f"{hop.hop} has {hop.held}" if hop.held else f"{hop.hop} does not set it"


class Verdict(StrEnum):
    """The outcome of comparing an expectation with an observation; not observable never passes.

    KNOWN: a deviation on the list of known deviations; a comparison alone never yields it.
    """

    CONFORMS = "conforms"
    DEVIATES = "deviates"
    KNOWN = "known"
    NOT_OBSERVABLE = "not observable"

    @classmethod
    def of(cls, holds: bool, why_not: str = "") -> Verdict:
        """The verdict on an expectation that holds or not. why_not: why what was seen proves nothing, "" if it does."""
        if why_not:
            return cls.NOT_OBSERVABLE
        return cls.CONFORMS if holds else cls.DEVIATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One expectation and its observation.

    subject: its name for readers ("container app of pod default/web", "kubepods"); cgroup: its path;
    knob: the interface file, or a behaviour's name ("throttling", "OOM kill").
    set_by: what set the observed value, or should have set it.
    expected, observed: as text. reason: the chain behind `expected`, None for a behaviour that no rule computes.
    why_not: for NOT_OBSERVABLE, the reason.
    evidence: further facts (event counters, exit code), name to text.
    lost: for a deviating file of a container, the first hop that lost the value; None if no hop was read.
    measured: whether the expected value was measured on the machine and so varies between runs.
    """

    verdict: Verdict
    subject: Subject
    cgroup: str
    knob: str
    set_by: Setter
    expected: str
    observed: str
    reason: Reason | None = None
    why_not: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)
    lost: Loss | None = None
    measured: bool = False

    def __str__(self) -> str:
        """One line: the verdict, the interface file and its cgroup's name, what was observed, and what was expected."""
        if self.verdict is Verdict.NOT_OBSERVABLE:
            return f"{self.verdict}: {self.knob} of {self.subject}: {self.why_not}"
        if self.verdict is Verdict.CONFORMS:
            return f"{self.verdict}: {self.knob} of {self.subject} is {self.observed}"
        return f"{self.verdict}: {self.knob} of {self.subject} is {self.observed}, expected {self.expected}"

    def unseen(self, why_not: str) -> Finding:
        """The same, not observable for this reason; what was seen proves nothing and is left out."""
        return replace(self, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=why_not)

    def unsure(self, why_not: str) -> Finding:
        """The same, not observable for this reason; what was read stays."""
        return replace(self, verdict=Verdict.NOT_OBSERVABLE, why_not=why_not)


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict over several: one deviation decides, known or not, then one that is not observable."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in (Verdict.DEVIATES, Verdict.KNOWN):
        if verdict in verdicts:
            return verdict
    if not verdicts or Verdict.NOT_OBSERVABLE in verdicts:
        return Verdict.NOT_OBSERVABLE
    return Verdict.CONFORMS
