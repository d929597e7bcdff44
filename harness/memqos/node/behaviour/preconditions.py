"""Preconditions of a behaviour, the samples of a container, and how a finding is made from both. Pure.

Preconditions are knobs that must have their planned values for the behaviour to prove anything. A runtime that leaves
memory.swap.max at max lets a program swap without a limit. That behaviour says nothing about the planned limit; the
missing limit is the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from memqos.cgroupfs.hierarchy import RECURSIVE_PROTECTION, find_hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer import verdict
from memqos.engine.answer.behaviour import behaviour_reason, behaviour_setter
from memqos.engine.answer.finding import HELD, Finding, Loss, Setter, Subject, Verdict, subject_of
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, PlannedPod, Reason, kernel_revision
from memqos.errors import UsageError
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT
from memqos.model.pod import ContainerKind
from memqos.model.reading import FileText, Reading
from memqos.node.behaviour.conditions import PEAKS, Sample, amounts_of
from memqos.node.pods.population import Population

__all__ = ["Observed", "Preconditions", "began", "broken_of", "is_there", "premises_above", "premises_of"]


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

    def undecided(self, samples: Sequence[Sample]) -> str:
        """The precondition whose value is undecided, as one sentence; "" if all are known.

        A file that only a runtime without a model may have written is known if it shows the kernel's default in each
        of the samples: the kernel behaves by its files, whatever wrote them.
        """
        for knob in self.knobs:
            for cgroup, texts in self._shown(samples, knob):
                expected = cgroup.knobs.get(knob)
                if expected is not None and expected.undecided:
                    return f"{knob} of {subject_of(cgroup, self.pod)} is {expected.shown}, since versions differ"
                if expected is not None and expected.unmodelled and not _is_default(expected, texts):
                    return f"{knob} of {subject_of(cgroup, self.pod)}: {expected.unmodelled}"
                if expected is not None and expected.inexpressible:
                    return f"{knob} of {subject_of(cgroup, self.pod)} could not be requested: {expected.inexpressible}"
        return ""

    def _shown(self, samples: Sequence[Sample], knob: Knob) -> Iterator[tuple[PlannedCgroup, list[FileText | None]]]:
        """The texts of a file of the pod and of the container, each once for every sample in which it ran."""
        ran = _while_it_ran(samples)
        yield self.pod.cgroup, [sample.reading.file(sample.pod, knob) for sample in ran]
        yield self.planned.cgroup, [sample.reading.file(sample.container, knob) for sample in ran]

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


def _is_default(expected: Expected, texts: Iterable[FileText | None]) -> bool:
    """Whether a file that nothing planned decides was read, and always showed the kernel's default."""
    read = {text for text in texts if isinstance(text, str)}
    try:
        return bool(read) and {expected.knob.parse(text) for text in read} == {expected.value}
    except ValueError:
        return False


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
        knob=RECURSIVE_PROTECTION,
        set_by=Setter.KERNEL if seen is known else Setter.OTHER,
        expected=words[known],
        observed=words[seen],
        reason=_REASON,
    )


_EVIDENCE = {False: ("memory.current", "memory.events"), True: ("memory.usage_in_bytes", "memory.oom_control")}
"""The files of usage and of events, by whether the readings are of cgroup v1."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Samples of one container from its start to the end of the watch, at least one.

    If a precondition fails in any sample, every behaviour is *not observable*, and `premises` has the deviation.
    Amounts are compared with the plan's limits, never with the limits read from the files.
    losses: which hop lost a failed precondition, by cgroup and interface file. outside: the finding that its processes
    run outside its cgroup, a precondition of every behaviour; None if they do not.
    commands: how many of the workload's commands end by themselves. threads: how many threads allocate concurrently.
    """

    rests_on: Preconditions
    samples: tuple[Sample, ...]
    losses: Mapping[tuple[str, str], Loss] = field(default_factory=dict)
    commands: int = 0
    threads: int = 1
    outside: Finding | None = None

    @property
    def slack(self) -> int:
        """A batch of the machine's pages, in bytes; see `Sample.slack`."""
        return self.samples[0].slack

    @cached_property
    def premises(self) -> tuple[Finding, ...]:
        """The knobs that the behaviour depends on, judged in every sample: settle them with the behaviour."""
        found = self.rests_on.judge(self.samples)
        judged = [replace(one, lost=self.losses.get((one.cgroup, one.knob))) for one in found]
        return tuple(judged) if self.outside is None else (self.outside, *judged)

    def amounts(self, file: str) -> list[int]:
        """Every value of a file in all samples, in bytes."""
        return [amount for sample in self.samples for amount in amounts_of(sample, file)]

    def unseen(self, file: str, least: int, most: int) -> str:
        """Why an amount may have reached `least` though at most `most` was seen; "" if it cannot have."""
        if self.samples[-1].status.exit_code is None:
            return ""
        unseen = f"{file} was seen at {most}, and the container ended before the next sample"
        peak = max((peak for sample in self.samples if (peak := sample.pod_peak(file)) is not None), default=None)
        if peak is None:
            return unseen
        return "" if peak < least else f"{unseen}, with a {PEAKS[file]} of {peak} in its pod"

    def counter(self, file: str, key: str, expected: str, holds: Callable[[int], bool], *, why_not: str) -> Finding:
        """A finding on the highest value of a counter in a file."""
        values = [value for sample in self.samples if (value := sample.counter(file, key)) is not None]
        most = max(values, default=None)
        observed = None if most is None else f"{key} {most}"
        held_true = most is not None and holds(most)
        return self.finding(file, f"{key} {expected}", observed, held_true, key=key, why_not=why_not)

    def word(self, what: str, expected: str, observed: str, **evidence: str) -> Finding:
        """A finding on what the runtime or the workload reports, which is in no interface file."""
        finding = self.finding(what, expected, observed, observed == expected)
        return replace(finding, evidence={**finding.evidence, **evidence})

    def unbounded(self, file: str, limit: Knob, *, key: str = "") -> Finding:
        """A finding that is not observable because the plan has no such limit."""
        why_not = f"the plan sets no {limit}"
        return self.finding(file, f"measured by {limit}", None, holds=False, key=key, why_not=why_not)

    def finding(
        self, file: str, expected: str, observed: object, holds: bool, *, key: str = "", why_not: str = ""
    ) -> Finding:
        """A finding on an interface file of the container; observed: None if it could not be read.

        why_not: why the observation proves nothing, "" if it does.
        """
        why_not = self._premise_broken() or why_not
        unread = f"{file} could not be read while the container ran" if observed is None else ""
        unseen = why_not or unread
        return Finding(
            verdict=Verdict.of(holds, unseen),
            subject=subject_of(self.rests_on.planned.cgroup, self.rests_on.pod),
            cgroup=str(self.samples[-1].container),
            knob=file,
            set_by=behaviour_setter(file, key),
            expected=expected,
            observed="" if unseen else str(observed),
            reason=behaviour_reason(file, key, self.rests_on.planned.cgroup.knobs),
            why_not=unseen,
            evidence=self._evidence(),
        )

    def _premise_broken(self) -> str:
        if undecided := self.rests_on.undecided(self.samples):
            return f"a precondition is not known: {undecided}"
        broken = broken_of(self.premises)
        return f"a precondition does not hold: {broken}" if broken else ""

    def _evidence(self) -> Mapping[str, str]:
        """Number of samples, length of the watch, the pod's event counters and the container's highest usage."""
        first, last = self.samples[0], self.samples[-1]
        usage, events = _EVIDENCE[first.reading.file(first.container, "memory.usage_in_bytes") is not None]
        texts = (sample.reading.file(sample.pod, events) for sample in reversed(self.samples))
        counts = next((text for text in texts if isinstance(text, str)), "")
        return {
            "samples": str(len(self.samples)),
            "seconds": f"{last.reading.at - began(self.samples):.1f}",
            f"{events} of the pod": " ".join(counts.split()) or "not read",
            f"{usage} of the container, at most": str(max(self.amounts(usage), default="not read")),
        }
