"""Several containers that are judged together, each named by its pod, of which it is the first.

Pressed: one pod takes what others could lose, and the kernel's model says what each of them keeps.

Exhausted below kubepods' limit: one pod takes too much, and the kernel's model says what is killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding, Subject, Verdict, subject_of
from memqos.engine.cgroup.protection import Effective, Shelter
from memqos.engine.cgroup.usage import ContainerUsage
from memqos.engine.cgroup.victims import MACHINE, Shortage, shortages
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.errors import UsageError
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.conditions import Sample, numa_of
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.neighbour_demand import Squeeze, below_limit
from memqos.node.behaviour.preconditions import broken_of
from memqos.node.behaviour.watched_container import WatchedContainer, container_of
from memqos.node.pods.population import Population
from memqos.workload.command import Read, Touch
from memqos.workload.report import Done

__all__ = [
    "MARGIN",
    "Exhausted",
    "Pressed",
    "Refaulting",
    "Together",
    "exhaustion_of",
    "exposed",
    "gave_way_meanwhile",
    "scores_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What was seen of containers of several pods. above: what their behaviour rests on above the pods, judged."""

    containers: Sequence[WatchedContainer]
    above: Sequence[Finding] = ()

    @property
    def premises(self) -> tuple[Finding, ...]:
        """The knobs that it all rests on, of every container, its pod and above: settle them with the behaviour."""
        return (*self.above, *(finding for one in self.containers for finding in one.course.premises))

    def still_runs(self, pod: str, *, spent: str = "") -> Finding:
        """The runtime says that it runs; see `Course.still_runs`."""
        return self._course(pod).still_runs(spent=spent)

    def swaps(self, pod: str) -> Finding:
        """Some of it was swapped out."""
        return self._course(pod).swap.is_used(why_not=self._broken())

    def swaps_nothing(self, pod: str) -> Finding:
        """Nothing of it was swapped out."""
        return self._course(pod).swap.is_unused(why_not=self._broken())

    def _container(self, pod: str) -> WatchedContainer:
        """The first container of a pod; UsageError for one that is not watched."""
        return container_of(pod, among=self.containers)

    def _course(self, pod: str) -> Course:
        return self._container(pod).course

    def _broken(self, why: str = "") -> str:
        """Why nothing can be expected, where one container has what it should not have; else `why`."""
        broken = broken_of(self.premises)
        return f"a precondition does not hold: {broken}" if broken else why


def exposed(counts: Effective) -> str:
    """Why a container of whose protection so much counts may lose memory, "" for one that is protected whole."""
    whole = counts.shelter in {Shelter.HARD, Shelter.SOFT}
    return "" if whole else f"not all of it is protected: {what_counts(counts)}"


def mostly_protected(counts: Effective) -> str:
    """Why such a container need not lose memory; "" if at most half of it is protected."""
    return "" if 2 * counts.exposed >= counts.usage else f"more than half of it is protected: {what_counts(counts)}"


def charged_ahead(counts: Effective, cpus: int, slack: int) -> str:
    """Why what a container lost cannot be told where so many CPUs may have charged ahead for it; "" if it can be.

    slack: bytes that each of them may have charged.
    """
    ahead = cpus * slack
    why = f"of {counts.usage} bytes in use {cpus} CPUs may have charged {ahead} ahead"
    return why if 2 * ahead > counts.usage else ""


def gave_way_meanwhile(container: WatchedContainer, counts: Effective) -> str:
    """Why what memory.low alone protects may have been taken where others write files; "" if it cannot have been.

    Reclaim that gets nowhere until the disk has what they wrote takes what memory.low covers, and counts `low` for it
    (mm/vmscan.c, do_try_to_free_pages, memcg_low_skipped).
    """
    low = container.samples[-1].counter("memory.events", "low")
    if counts.shelter is not Shelter.SOFT or not low:
        return ""
    return f"nothing else could make room while the others' writes waited for the disk: low {low}"


def taken_unweighed(container: WatchedContainer) -> str:
    """Why what a container lost to the multi-generational LRU says nothing of its protection; "" if it does.

    From Linux 6.11 on kswapd alone works out what counts of memory.min and memory.low for the whole machine
    (mm/vmscan.c, lru_gen_age_node). Other reclaim, as that of khugepaged for a huge page on a NUMA node that is full
    while another one is not, goes by what kswapd found last (shrink_one): nothing, if it has not been there.
    """
    last = container.samples[-1]
    kswapd, direct, khugepaged = (
        last.counter("memory.stat", f"pgsteal_{who}") or 0 for who in ("kswapd", "direct", "khugepaged")
    )
    if kswapd or not (direct or khugepaged):
        return ""
    taken = f"pgsteal_direct {direct}, pgsteal_khugepaged {khugepaged}, pgsteal_kswapd 0"
    return f"its pages were taken before kswapd had computed their protection: {taken}"


def too_young(container: WatchedContainer) -> str:
    """Why no page of it may have been taken though its memory.low was passed over; "" if some were, or it was not."""
    last = container.samples[-1]
    low, taken = last.counter("memory.events", "low"), last.counter("memory.stat", "pgsteal")
    return f"reclaim scanned it and took nothing: low {low}, pgsteal {taken}" if low and not taken else ""


def what_counts(counts: Effective) -> str:
    """How much of its protection counts, and of how much."""
    return f"of {counts.usage} bytes in use {counts.min} count for memory.min and {counts.low} for memory.low"


_REFAULTS = "workingset_refault_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refaulting(Together):
    """Containers from which a neighbour took memory. squeeze: what there was before, and how much was to be short.

    Refaults are pages of page cache that were taken from a container and that it read again, as memory.stat counts them
    (mm/workingset.c, workingset_refault). The multi-generational LRU counts none that comes back on another NUMA node
    than it was taken from (lru_gen_refault), as where the program runs on another CPU by then. So no number of them is
    expected of a container that lost memory, only that there are some; and none where its files came to other nodes.
    """

    squeeze: Squeeze

    def refaults(self, pod: str) -> Finding:
        """It read again what was taken from it since the pressure began.

        Not observable of one of which more than half is protected, nor of one that has read nothing since then (see
        `Watch.read_again`), nor where all of that came back on other zones.
        """
        container, counts = self._counted(pod)
        why = self._broken(mostly_protected(counts) or self._unread(container))
        if not self._read_again(container):
            why = why or self._elsewhere(container, at_most=0)
        return container.course.rises("memory.stat", _REFAULTS, why_not=why)

    def _hardly_refaults(self, container: WatchedContainer, *, at_most: int, why_not: str) -> Finding:
        """It read nothing again but so many batches of pages, which it may have missed.

        Not observable of one that has read nothing, nor where no more is counted, and more of its files has come to
        other zones. why_not: why it may have lost more, "" if it may not.
        """
        why = self._broken(why_not or self._unread(container))
        found = container.course.rises_by_batches("memory.stat", _REFAULTS, at_most=at_most, why_not=why)
        uncounted = self._elsewhere(container, at_most=at_most)
        if not uncounted or found.verdict is not Verdict.CONFORMS:
            return found
        return replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=uncounted)

    def _counted(self, pod: str) -> tuple[WatchedContainer, Effective]:
        container = self._container(pod)
        return container, self.squeeze.counts[container.key]

    def _read_again(self, container: WatchedContainer) -> int:
        """Pages of its files that were taken from it and that it read again, as far as the kernel counts them."""
        return container.samples[-1].counter("memory.stat", _REFAULTS) or 0

    def _unread(self, container: WatchedContainer) -> str:
        """Why nothing can have come back; "" if it has reported since then that it read what it had."""
        read = _readings(container.samples[-1]) > max(map(_readings, self._before(container)), default=0)
        return "" if read else "it has not read its memory again"

    def _elsewhere(self, container: WatchedContainer, *, at_most: int) -> str:
        """Why pages may have come back uncounted: there are more on a zone, by more than so many batches; or ""."""
        before, now = _files(self._before(container)), _files(container.samples)
        more = {zone: size - before.get(zone, 0) for zone, size in now.items() if size > before.get(zone, 0)}
        if sum(more.values()) <= at_most * container.samples[0].slack:
            return ""
        told = " and ".join(f"{size} bytes more on N{zone}" for zone, size in sorted(more.items()))
        return f"a page that comes back on another NUMA node need not be counted: there are {told}"

    def _before(self, container: WatchedContainer) -> Sequence[Sample]:
        return [sample for sample in container.samples if sample.reading.at <= self.squeeze.since]


def _readings(sample: Sample) -> int:
    """How often its workload had read all that it had by then."""
    return sum(isinstance(one, Done) and one.verb in {Read.verb, Touch.verb} for one in sample.report)


def _files(samples: Sequence[Sample]) -> Mapping[int, int]:
    """Bytes of its files by zone as these saw them last; none if they never did."""
    seen = (numa_of(sample, "file") for sample in reversed(samples))
    return next((spread for spread in seen if spread is not None), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed(Refaulting):
    """What a neighbour's growth did to the containers beside it.

    That something was kept says nothing where the neighbour ended before it had taken what it was to take.
    """

    neighbour: WatchedContainer

    def keeps(self, pod: str) -> Finding:
        """It lost nothing since the pressure began; not observable of one that is not protected whole.

        A loss is not observable of one that memory.low alone protects, if the kernel counted `low` for it while others
        waited for the disk; see `gave_way_meanwhile`. Nor of one from which a process took before kswapd did; see
        `taken_unweighed`.
        """
        container, counts = self._counted(pod)
        why = self._may_lose(counts) or charged_ahead(counts, self.squeeze.cpus, container.samples[0].slack)
        since, cpus = self.squeeze.since, self.squeeze.cpus
        found = container.course.keeps(counts.usage, since=since, cpus=cpus, why_not=self._broken(why))
        return self._weighed(container, counts, found)

    def gives_way(self, pod: str) -> Finding:
        """It lost memory to the neighbour; not observable if more than half of it is protected."""
        container, counts = self._counted(pod)
        why = self._broken(mostly_protected(counts))
        return self._gives_way(container, counts, why)

    def _gives_way(self, container: WatchedContainer, counts: Effective, why_not: str) -> Finding:
        cpus, since = self.squeeze.cpus, self.squeeze.since
        why = why_not or charged_ahead(counts, cpus, container.samples[0].slack)
        return container.course.gives_way(counts.usage, since=since, cpus=cpus, why_not=why)

    def keep_together(self, pod: str, *others: str) -> tuple[Finding, ...]:
        """Together they lost memory, and kept all that what stands above them protects.

        Reclaim passes them over as soon as that covers what they use together, whichever of them lost how much, and
        each of the CPUs may have taken a batch more of each. Not observable of one that is not protected in part.
        """
        counted, why = self._partly([pod, *others])
        since = self.squeeze.since
        batches = sum(one.samples[0].slack for one, _ in counted) * self.squeeze.cpus
        usage = sum(counts.usage for _, counts in counted) - batches
        whole = sum(counts.hard for _, counts in counted) - batches
        first, *beside = [one.course for one, _ in counted]
        return (
            first.give_way_together(beside, usage, since=since, why_not=why),
            first.keep_together(beside, whole, since=since, why_not=why),
        )

    def _partly(self, pods: Sequence[str]) -> tuple[list[tuple[WatchedContainer, Effective]], str]:
        """What counts of each, and why nothing can be expected of their parts, "" if it can."""
        counted = [self._counted(pod) for pod in pods]
        whole = [counts for _, counts in counted if counts.shelter is not Shelter.PARTIAL or counts.min == Bytes(0)]
        ahead = [
            why for one, counts in counted if (why := charged_ahead(counts, self.squeeze.cpus, one.samples[0].slack))
        ]
        why_not = f"no part of it is protected: {what_counts(whole[0])}" if whole else "".join(ahead[:1])
        return counted, self._broken(why_not)

    def hardly_refaults(self, pod: str) -> Finding:
        """It read nothing again but what `keeps` lets it miss, and not observable where that is not."""
        container, counts = self._counted(pod)
        why, cpus = self._may_lose(counts), self.squeeze.cpus
        return self._weighed(container, counts, self._hardly_refaults(container, at_most=cpus, why_not=why))

    def breaks_low(self, pod: str) -> tuple[Finding, Finding]:
        """It lost memory that memory.low covers, and `low` was counted for it.

        How much of it the multi-generational LRU takes depends on which cgroup comes next there: that pages of it were
        taken is all that is expected then, since its usage may fall by a batch of charges without that. And not
        observable where the kernel counts that it came for them, and found none that is old enough (mm/vmscan.c,
        get_nr_to_scan). Neither is observable of one that memory.low alone does not cover whole, nor while others make
        room first.
        """
        container, counts = self._counted(pod)
        covered = counts.shelter is Shelter.SOFT
        why = "" if covered else f"memory.low alone does not cover all of it: {what_counts(counts)}"
        if not (why or self.squeeze.past_low or self.squeeze.generations):
            why = "the classic LRU takes unprotected memory first, and that is enough"
        why, course = self._broken(why), container.course
        low = course.rises("memory.events", "low", why_not=why)
        if self.squeeze.generations:
            return course.rises("memory.stat", "pgsteal", why_not=why or too_young(container)), low
        return self._gives_way(container, counts, why), low

    def lives(self, pod: str) -> tuple[Finding, Finding]:
        """Nothing of it was killed, and it runs."""
        return self._course(pod).lives()

    def swaps_nothing(self, pod: str) -> Finding:
        """Nothing of it was swapped out; some that was is not observable where a loss of `keeps` is not."""
        container, counts = self._counted(pod)
        return self._weighed(container, counts, container.course.swap.is_unused(why_not=self._broken()))

    def stays(self, pod: str, file: str, key: str) -> Finding:
        """A counter is still zero; see `Course.stays`."""
        return self._course(pod).stays(file, key, why_not=self._broken())

    def _may_lose(self, counts: Effective) -> str:
        """Why it may lose memory by the kernel's rules; "" if it may not."""
        if counts.shelter is Shelter.SOFT and self.squeeze.generations:
            return "the multi-generational LRU takes what memory.low covers too when the whole machine is short"
        return exposed(counts)

    def _weighed(self, container: WatchedContainer, counts: Effective, found: Finding) -> Finding:
        """What was kept is not observable without pressure.

        Nor is a loss that may have been taken without weighing what is protected, or in spite of it.
        """
        if found.verdict is Verdict.CONFORMS:
            why = self._unpressed()
        elif found.verdict is Verdict.DEVIATES:
            why = taken_unweighed(container) if self.squeeze.generations else ""
            why = why or (gave_way_meanwhile(container, counts) if self.squeeze.dirty else "")
        else:
            why = ""
        return replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not=why) if why else found

    def _unpressed(self) -> str:
        """Why there was no shortage; "" if the neighbour took all that it was to take."""
        if self.neighbour.work_is_done:
            return ""
        return f"{self.neighbour.key} ended before it had made the others short of memory"


EXCESS = 16 << 20
"""Bytes taken beyond the free memory: enough to use it up, and fewer than any victim frees."""

EXCESS_OF_MACHINE = 256 << 20
"""The same where the machine runs out: more than what its daemons have in page cache, and in swap, and can lose."""

MARGIN = 8 << 20
"""Bytes by which the first victim is ahead at least: page tables and page cache are in no container's own figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustion:
    """What is going to run out. takes: bytes that the greedy pod takes. order: by the model, for the usage then."""

    takes: int
    order: Shortage
    page_size: int

    @property
    def close(self) -> str:
        """Why the model's word is too close to be held to, as one sentence; "" if it is not."""
        first, second = self.order.victims[:2]
        ahead = (first.badness - second.badness) * self.page_size
        if ahead >= MARGIN:
            return ""
        return f"{first.subject} is ahead of {second.subject} by {ahead} bytes alone, less than {MARGIN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted(Together):
    """What became of the containers. above: with their oom_score_adj."""

    exhaustion: Exhaustion

    def is_killed(self, pod: str) -> Finding:
        """The kernel killed it; not observable of one that the model does not name first."""
        return self._course(pod).oom.is_oom_killed(why_not=self._why_not(pod, first=True))

    def is_spared(self, pod: str) -> Finding:
        """The kernel killed nothing in it; not observable of the one that the model names first."""
        return self._course(pod).oom.is_spared(why_not=self._why_not(pod, first=False))

    def _why_not(self, pod: str, *, first: bool) -> str:
        if broken := self._broken():
            return broken
        named = self.exhaustion.order.victims[0].subject
        if (named == _subject(self._container(pod))) is not first:
            return f"the kernel's model names {named} first"
        return self.exhaustion.close


def exhaustion_of(
    plan: Plan,
    kubelet: Kubelet,
    containers: Sequence[WatchedContainer],
    greedy: WatchedContainer,
    *,
    spare: int | None = None,
) -> Exhaustion:
    """How much the greedy one takes until kubepods has nothing left.

    UsageError if kubepods has no limit, or if there is no container beside the greedy one that could be killed first.
    spare: bytes that the whole machine has to give, where that is what is to run out; None where it is kubepods.
    """
    if all(one is greedy for one in containers):
        raise UsageError(
            f"the container {greedy.key} is the only one watched, so no order of kills can be seen.",
            next_step="Watch another pod as well: qos_node.watched_pods([...]).",
        )
    swap = greedy.premises.planned.cgroup.knobs.get(Knob.MEMORY_SWAP_MAX)
    swaps = min(swap.value.count, kubelet.node.swap) if swap is not None and isinstance(swap.value, Bytes) else 0
    usage = {_key(one): one.last_usage(one.path) for one in containers}
    left = below_limit(plan, containers) if spare is None else spare
    then: ContainerUsage = {**usage, _key(greedy): usage[_key(greedy)] + left + swaps}
    short, excess = (subject_of(plan.node), EXCESS) if spare is None else (MACHINE, EXCESS_OF_MACHINE)
    order = next(one for one in shortages(plan, kubelet, then) if one.subject == short)
    return Exhaustion(takes=left + swaps + excess, order=order, page_size=kubelet.node.page_size)


def scores_of(population: Population) -> tuple[Finding, ...]:
    """The oom_score_adj of every container, judged."""
    found = [one for admitted in population.pods.values() for one in population.judge_pod(admitted.pod)]
    return tuple(one for one in found if one.knob == verdict.OOM_SCORE_ADJ)


def _key(one: WatchedContainer) -> tuple[str, str]:
    return one.premises.pod.uid, one.premises.planned.name


def _subject(one: WatchedContainer) -> Subject:
    return subject_of(one.premises.planned.cgroup, one.premises.pod)
