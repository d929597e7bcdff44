"""Preconditions of a behaviour: knobs that must have their planned values for the behaviour to prove anything.

A runtime that leaves memory.swap.max at max lets a program swap without a limit. That behaviour says nothing about the
planned limit; the missing limit is the finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memqos.cgroupfs.hierarchy import find_hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer import verdict
from memqos.engine.answer.finding import HELD, Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.plan import Plan, PlannedContainer, PlannedPod, Reason, kernel_revision
from memqos.errors import UsageError
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT
from memqos.model.pod import ContainerKind
from memqos.model.reading import FileText, Reading
from memqos.node.behaviour.conditions import Sample
from memqos.node.pods.population import Population

__all__ = ["Preconditions", "began", "broken_of", "is_there", "premises_above", "premises_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """These knobs of one container and of its pod, at least one, each planned for at least one of the two.

    enacted_by: what enacted the plan above containers. Raises UsageError for knobs that are not planned.
    """

    pod: PlannedPod
    planned: PlannedContainer
    knobs: tuple[Knob, ...]
    enacted_by: Setter

    def __post_init__(self) -> None:
        known = {*self.pod.cgroup.knobs, *self.planned.cgroup.knobs}
        if not self.knobs or not known.issuperset(self.knobs):
            unknown = ", ".join(knob for knob in self.knobs if knob not in known)
            raise UsageError(
                f"the plan has no {unknown} for pod {self.pod.namespace}/{self.pod.name}, so no behaviour can rest "
                "on it."
                if unknown
                else f"no file is named that the behaviour of pod {self.pod.namespace}/{self.pod.name} rests on.",
                next_step="Name the interface files whose planned values the test relies on: rests_on=[…].",
            )

    def judge(self, samples: Sequence[Sample]) -> tuple[Finding, ...]:
        """Each knob over all samples (at least one): the finding is the first deviation, with its time.

        A value that was right before and wrong later was changed by something else. A file read in no sample is not
        observable.
        """
        start = began(samples)
        judged: list[tuple[float, list[Finding]]] = []
        before: tuple[FileText | None, ...] = ()
        for sample in _while_it_ran(samples):
            # Cached: they change seldom, and there are many samples.
            texts = self.texts(sample)
            if texts != before:
                judged.append((sample.reading.at - start, self._in(sample)))
                before = texts
        seconds = [at for at, _ in judged]
        return tuple(_over_time(one, seconds) for one in zip(*(findings for _, findings in judged), strict=True))

    @property
    def undecided(self) -> str:
        """The precondition whose value is undecided, as one sentence; "" if all are known."""
        for knob in self.knobs:
            for cgroup in (self.pod.cgroup, self.planned.cgroup):
                expected = cgroup.knobs.get(knob)
                if expected is not None and expected.undecided:
                    return f"{knob} of {subject_of(cgroup, self.pod)} is {expected.shown}, since versions differ"
                if expected is not None and expected.unmodelled:
                    return f"{knob} of {subject_of(cgroup, self.pod)}: {expected.unmodelled}"
                if expected is not None and expected.inexpressible:
                    return f"{knob} of {subject_of(cgroup, self.pod)} could not be requested: {expected.inexpressible}"
        return ""

    def texts(self, sample: Sample) -> tuple[FileText | None, ...]:
        """The texts of the judged files in a sample."""
        return tuple(sample.reading.file(path, knob) for path in (sample.pod, sample.container) for knob in self.knobs)

    def broken(self, sample: Sample) -> str:
        """The precondition that fails in one sample, as one sentence; "" if none does."""
        return broken_of(self._in(sample)) if sample.runs else ""

    def _in(self, sample: Sample) -> list[Finding]:
        places = ((self.pod.cgroup, sample.pod), (self.planned.cgroup, sample.container))
        return [
            finding
            for cgroup, path in places
            for finding in verdict.judge_cgroup(
                cgroup, path, subject_of(cgroup, self.pod), sample.reading, enacted_by=self.enacted_by
            )
            if finding.knob in self.knobs
        ]


def began(samples: Sequence[Sample]) -> float:
    """When the first of these was read; a sample with only the runtime's status has no time."""
    return next((sample.reading.at for sample in samples if sample.reading.at), 0.0)


def broken_of(premises: Iterable[Finding]) -> str:
    """The first of these that deviates, as one sentence; "" if none does."""
    for finding in premises:
        if finding.verdict is Verdict.DEVIATES:
            return f"{finding.knob} of {finding.subject} is {finding.observed}, planned is {finding.expected}"
    return ""


def premises_of(plan: Plan, knobs: Sequence[Knob], enacted_by: Setter) -> list[Preconditions]:
    """These knobs of every app container of a plan; UsageError as for Preconditions."""
    return [
        Preconditions(pod=pod, planned=container, knobs=tuple(knobs), enacted_by=enacted_by)
        for pod in plan.pods
        for container in pod.containers
        if container.kind is ContainerKind.APP
    ]


def _while_it_ran(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples that show what a runtime made of a container; at least one.

    For a container that ended before it was known to run: the last sample in which it had files.
    """
    ran = [sample for sample in samples if sample.runs]
    if any(is_there(sample) for sample in ran):
        return ran
    return [sample for sample in samples if is_there(sample)][-1:] or samples[-1:]


def is_there(sample: Sample) -> bool:
    """Whether any file of the container's cgroup could be read."""
    cgroup = sample.reading.cgroups.get(sample.container)
    return cgroup is not None and any(isinstance(text, str) for text in cgroup.files.values())


def _over_time(findings: Sequence[Finding], seconds: Sequence[float]) -> Finding:
    held: Finding | None = None
    for finding, at in zip(findings, seconds, strict=True):
        if finding.verdict is Verdict.DEVIATES:
            seen = {"seen": f"{at:.1f} s after the watch began"} if at else {}
            return replace(finding, evidence=seen if held is None else {**seen, HELD: held.observed})
        if finding.verdict is Verdict.CONFORMS:
            held = finding
    return held or findings[0]


MOUNT_OPTION = "memory_recursiveprot"

_REASON = Reason(
    rule="cgroups keep the mount options that they had when the node was read: the model of protection uses them",
    revision=kernel_revision(CgroupVersion.V2),
    source="kernel cgroup-v2.rst, memory_recursiveprot; kernel/cgroup/cgroup.c, cgroup_reconfigure",
)


def premises_above(
    population: Population, tree: CgroupTree, knobs: Collection[Knob], *, deadline: Deadline
) -> tuple[Finding, ...]:
    """These knobs of kubepods and of each QoS class, when the pods had started and now; and the mount option.

    The first deviation of a knob counts for both times. tree: the node as known when its pods were admitted.
    """
    above = [cgroup for cgroup in (population.plan.node, *population.plan.qos) if cgroup.path != ROOT]
    now = tree.read_cgroups([one.path for one in above], [str(knob) for knob in knobs], deadline=deadline)
    readings = (population.reading, now)
    founds = [list(_judged(population, reading, knobs)) for reading in readings]
    files = tuple(_first_deviation(both) for both in zip(*founds, strict=True))
    return files if tree.hierarchy.version is CgroupVersion.V1 else (*files, _mounted(tree, deadline))


def _judged(population: Population, reading: Reading, knobs: Collection[Knob]) -> Iterator[Finding]:
    plan = population.plan
    for cgroup in (plan.node, *plan.qos):
        if cgroup.path != ROOT:
            name = subject_of(cgroup)
            found = verdict.judge_cgroup(cgroup, cgroup.path, name, reading, enacted_by=population.enacted_by)
            yield from (one for one in found if one.knob in knobs)


def _first_deviation(found: Sequence[Finding]) -> Finding:
    return next((one for one in found if one.verdict is Verdict.DEVIATES), found[-1])


def _mounted(tree: CgroupTree, deadline: Deadline) -> Finding:
    known = tree.hierarchy.is_recursive
    seen = find_hierarchy(tree.target, deadline=deadline).is_recursive
    words = {True: "on", False: "off"}
    return Finding(
        verdict=Verdict.of(seen is known),
        subject=Subject.of_machine("the cgroup file system"),
        cgroup=str(ROOT),
        knob=MOUNT_OPTION,
        set_by=Setter.KERNEL if seen is known else Setter.OTHER,
        expected=words[known],
        observed=words[seen],
        reason=_REASON,
    )
