"""Several containers judged together. Each is named by its pod and is the pod's first container.

PressureOutcome: one pod takes what others could lose; the kernel's model says what each of them keeps.

Exhausted below kubepods' limit: one pod takes too much; the kernel's model says which container is killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding, Subject, Verdict, subject_of
from memqos.engine.cgroup.effective_protection import Effective, ProtectionKind
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
    "ExhaustionOutcome",
    "PressureOutcome",
    "Refaulting",
    "Together",
    "exhaustion_of",
    "exposed",
    "gave_way_meanwhile",
    "scores_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Observations of containers of several pods. above: findings on the preconditions above the pods."""

    containers: Sequence[WatchedContainer]
    above: Sequence[Finding] = ()

    @property
    def premises(self) -> tuple[Finding, ...]:
        """All preconditions, of every container, its pod and above: settle them with the behaviour."""
        return (*self.above, *(finding for one in self.containers for finding in one.course.premises))

    @property
    def broken(self) -> str:
        """Why nothing can be expected of the rest of the machine: a precondition fails. "" if all hold."""
        return self._broken()

    def still_runs(self, pod: str, *, spent: str = "") -> Finding:
        """It runs; see `Course.still_runs`."""
        return self._course(pod).still_runs(spent=spent)

    def swaps(self, pod: str) -> Finding:
        """Some of it was swapped out."""
        return self._course(pod).swap.is_used(why_not=self._broken())

    def swaps_nothing(self, pod: str) -> Finding:
        """None of it was swapped out."""
        return self._course(pod).swap.is_unused(why_not=self._broken())

    def _container(self, pod: str) -> WatchedContainer:
        """The first container of a pod; UsageError for one that is not watched."""
        return container_of(pod, among=self.containers)

    def _course(self, pod: str) -> Course:
        return self._container(pod).course

    def _broken(self, why: str = "") -> str:
        """Why nothing can be expected, because a precondition of some container fails; else `why`."""
        broken = broken_of(self.premises)
        return f"a precondition does not hold: {broken}" if broken else why


def exposed(counts: Effective) -> str:
    """Why a container with this effective protection may lose memory, "" if it is fully protected."""
    whole = counts.protection in {ProtectionKind.HARD, ProtectionKind.SOFT}
    return "" if whole else f"not all of it is protected: {what_counts(counts)}"


def mostly_protected(counts: Effective) -> str:
    """Why such a container need not lose memory; "" if at most half of it is protected."""
    return "" if 2 * counts.exposed >= counts.usage else f"more than half of it is protected: {what_counts(counts)}"


def charged_ahead(counts: Effective, cpus: int, slack: int) -> str:
    """Why a loss is not observable where this many CPUs may have charged ahead; "" if it is.

    slack: bytes that each CPU may have charged.
    """
    ahead = cpus * slack
    why = f"of {counts.usage} bytes in use, {cpus} CPUs may have charged {ahead} ahead"
    return why if 2 * ahead > counts.usage else ""


def gave_way_meanwhile(container: WatchedContainer, counts: Effective) -> str:
    """Why memory that only memory.low protects may have been reclaimed while others write files; "" if not.

    Reclaim that makes no progress until the disk has those writes takes what memory.low covers, and counts `low` for it
    (mm/vmscan.c, do_try_to_free_pages, memcg_low_skipped).
    """
    low = container.samples[-1].counter("memory.events", "low")
    if counts.protection is not ProtectionKind.SOFT or not low:
        return ""
    return f"nothing else was reclaimable while the others' writes waited for the disk: low {low}"


def taken_unweighed(container: WatchedContainer) -> str:
    """Why a loss to the multi-generational LRU proves nothing about protection; "" if it does.

    From Linux 6.11 on only kswapd computes the effective memory.min and memory.low for the whole machine (mm/vmscan.c,
    lru_gen_age_node). Other reclaim, such as khugepaged's for a huge page on a full NUMA node, uses what kswapd
    computed last (shrink_one): nothing, if kswapd has not run.
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
    """Why no page may have been taken though its memory.low was skipped; "" if some were, or it was not."""
    last = container.samples[-1]
    low, taken = last.counter("memory.events", "low"), last.counter("memory.stat", "pgsteal")
    return f"reclaim scanned it and took nothing: low {low}, pgsteal {taken}" if low and not taken else ""


def what_counts(counts: Effective) -> str:
    """How much of its usage is effectively protected."""
    return f"effective memory.min is {counts.min} and memory.low {counts.low} of {counts.usage} bytes in use"


_REFAULTS = "workingset_refault_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refaulting(Together):
    """Containers that lost memory to a neighbour. squeeze: the usage before, and how much was to be short.

    Refaults are pages of page cache that were reclaimed from a container and that it read again, as memory.stat counts
    them (mm/workingset.c, workingset_refault). The multi-generational LRU does not count pages that return on another
    NUMA node than they were reclaimed from (lru_gen_refault), as when the program has moved to another CPU. So a
    container that lost memory must show some refaults, but no certain number, and none if its files returned on other
    nodes.
    """

    squeeze: Squeeze

    def refaults(self, pod: str) -> Finding:
        """It read again what was reclaimed from it since the pressure began.

        Not observable if more than half of it is protected, if it has read nothing since then (see `Watch.read_again`),
        or if all of that returned on other NUMA nodes.
        """
        container, counts = self._counted(pod)
        why = self._broken(mostly_protected(counts) or self._unread(container))
        if not self._read_again(container):
            why = why or self._elsewhere(container, at_most=0)
        return container.course.rises("memory.stat", _REFAULTS, why_not=why)

    def _hardly_refaults(self, container: WatchedContainer, *, at_most: int, why_not: str) -> Finding:
        """It read nothing again beyond this many batches of pages, which it may have missed.

        Not observable if it has read nothing, or if no more is counted while more of its files has come to other NUMA
        nodes. why_not: why it may have lost more, "" if it may not.
        """
        why = self._broken(why_not or self._unread(container))
        found = container.course.rises_by_batches("memory.stat", _REFAULTS, at_most=at_most, why_not=why)
        uncounted = self._elsewhere(container, at_most=at_most)
        if not uncounted or found.verdict is not Verdict.CONFORMS:
            return found
        return found.unseen(uncounted)

    def _counted(self, pod: str) -> tuple[WatchedContainer, Effective]:
        container = self._container(pod)
        return container, self.squeeze.counts[container.key]

    def _read_again(self, container: WatchedContainer) -> int:
        """Pages of its files that were reclaimed and read again, as far as the kernel counts them."""
        return container.samples[-1].counter("memory.stat", _REFAULTS) or 0

    def _unread(self, container: WatchedContainer) -> str:
        """Why nothing can have been read again; "" if it has reported since then that it read its memory."""
        read = _readings(container.samples[-1]) > max(map(_readings, self._before(container)), default=0)
        return "" if read else "it has not read its memory again"

    def _elsewhere(self, container: WatchedContainer, *, at_most: int) -> str:
        """Why refaults may be uncounted: a NUMA node holds more, by more than this many batches; or ""."""
        before, now = _files(self._before(container)), _files(container.samples)
        more = {
            numa_node: size - before.get(numa_node, 0)
            for numa_node, size in now.items()
            if size > before.get(numa_node, 0)
        }
        if sum(more.values()) <= at_most * container.samples[0].slack:
            return ""
        told = " and ".join(f"{size} bytes more on N{numa_node}" for numa_node, size in sorted(more.items()))
        return f"a page that returns on another NUMA node may not be counted: {told}"

    def _before(self, container: WatchedContainer) -> Sequence[Sample]:
        return [sample for sample in container.samples if sample.reading.at <= self.squeeze.since]


def _readings(sample: Sample) -> int:
    """How often its workload had read all of its memory by then."""
    return sum(isinstance(one, Done) and one.verb in {Read.verb, Touch.verb} for one in sample.report)


def _files(samples: Sequence[Sample]) -> Mapping[int, int]:
    """Bytes of its files by NUMA node in the last sample that has them; empty if none has."""
    seen = (numa_of(sample, "file") for sample in reversed(samples))
    return next((spread for spread in seen if spread is not None), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureOutcome(Refaulting):
    """The effect of a neighbour's growth on the other containers.

    That memory was kept proves nothing if the neighbour ended before it took its amount.
    """

    neighbour: WatchedContainer

    def keeps(self, pod: str) -> Finding:
        """It lost nothing since the pressure began; not observable if it is not fully protected.

        A loss is not observable if memory.low alone protects it and the kernel counted `low` for it while others waited
        for the disk; see `gave_way_meanwhile`. Nor if a process reclaimed from it before kswapd did; see
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
        """Together they lost memory, and kept all that their ancestors protect.

        Reclaim skips them as soon as that protection covers their summed usage, whichever of them lost how much, and
        each CPU may have drained a batch of each. Not observable if one of them is not partly protected.
        """
        counted, why = self._partly([pod, *others])
        since = self.squeeze.since
        batches = sum(one.samples[0].slack for one, _ in counted) * self.squeeze.cpus
        usage = sum(counts.usage for _, counts in counted) - batches
        whole = sum(counts.hard for _, counts in counted) - batches
        first, *rest = [one.course for one, _ in counted]
        return (
            first.give_way_together(rest, usage, since=since, why_not=why),
            first.keep_together(rest, whole, since=since, why_not=why),
        )

    def _partly(self, pods: Sequence[str]) -> tuple[list[tuple[WatchedContainer, Effective]], str]:
        """The effective protection of each, and why their parts are not observable, "" if they are."""
        counted = [self._counted(pod) for pod in pods]
        whole = [
            counts for _, counts in counted if counts.protection is not ProtectionKind.PARTIAL or counts.min == Bytes(0)
        ]
        ahead = [
            why for one, counts in counted if (why := charged_ahead(counts, self.squeeze.cpus, one.samples[0].slack))
        ]
        why_not = f"no part of it is protected: {what_counts(whole[0])}" if whole else "".join(ahead[:1])
        return counted, self._broken(why_not)

    def hardly_refaults(self, pod: str) -> Finding:
        """It refaulted no more than `keeps` allows; not observable where `keeps` is not."""
        container, counts = self._counted(pod)
        why, cpus = self._may_lose(counts), self.squeeze.cpus
        return self._weighed(container, counts, self._hardly_refaults(container, at_most=cpus, why_not=why))

    def breaks_low(self, pod: str) -> tuple[Finding, Finding]:
        """It lost memory that memory.low covers, and `low` was counted for it.

        How much the multi-generational LRU takes depends on which cgroup comes next. Only reclaimed pages are expected
        then, since usage may fall by a charge batch without any. This is not observable if the kernel counts a scan
        that found no page old enough (mm/vmscan.c, get_nr_to_scan). Both are not observable if memory.low alone does
        not cover the whole container, or while others can be reclaimed first.
        """
        container, counts = self._counted(pod)
        covered = counts.protection is ProtectionKind.SOFT
        why = "" if covered else f"memory.low alone does not cover all of it: {what_counts(counts)}"
        if not (why or self.squeeze.past_low or self.squeeze.generations):
            why = "the classic LRU takes unprotected memory first, which is enough"
        why, course = self._broken(why), container.course
        low = course.rises("memory.events", "low", why_not=why)
        if self.squeeze.generations:
            return course.rises("memory.stat", "pgsteal", why_not=why or too_young(container)), low
        return self._gives_way(container, counts, why), low

    def lives(self, pod: str) -> tuple[Finding, Finding]:
        """None of its processes was killed, and it runs; a kill is not observable if no page cache was left to take."""
        return self._course(pod).lives(spent=self._all_taken())

    def swaps_nothing(self, pod: str) -> Finding:
        """None of it was swapped out; swapped memory is not observable where a loss in `keeps` is not."""
        container, counts = self._counted(pod)
        return self._weighed(container, counts, container.course.swap.is_unused(why_not=self._broken()))

    def stays(self, pod: str, file: str, key: str) -> Finding:
        """A counter is still zero; see `Course.stays`."""
        return self._course(pod).stays(file, key, why_not=self._broken())

    def _may_lose(self, counts: Effective) -> str:
        """Why the kernel's rules let it lose memory; "" if they do not."""
        if counts.protection is ProtectionKind.SOFT and self.squeeze.generations:
            return "the multi-generational LRU takes what memory.low covers too when the whole machine is short"
        return exposed(counts)

    def _weighed(self, container: WatchedContainer, counts: Effective, found: Finding) -> Finding:
        """Kept memory is not observable without pressure.

        Nor is a loss that may have happened before its protection was computed, or in spite of it.
        """
        if found.verdict is Verdict.CONFORMS:
            why = self._unpressed()
        elif found.verdict is Verdict.DEVIATES:
            why = taken_unweighed(container) if self.squeeze.generations else ""
            why = why or (gave_way_meanwhile(container, counts) if self.squeeze.dirty else "")
        else:
            why = ""
        return found.unseen(why) if why else found

    def _all_taken(self) -> str:
        """Why the kernel had to kill: the others have lost all page cache above their effective memory.min, or "".

        A neighbour can run out of memory before it has its amount: pages that one CPU has reclaimed and keeps in its
        own list are not free for another one until reclaim makes progress (mm/page_alloc.c,
        __alloc_pages_direct_reclaim), and daemons grow.
        """
        left, allowed = 0, 0
        for one in self.containers:
            if one is self.neighbour:
                continue
            cached = _files(one.samples)
            if not cached:
                return ""
            left += max(0, sum(cached.values()) - self.squeeze.counts[one.key].hard)
            allowed += self.squeeze.cpus * one.samples[0].slack
        if left > allowed:
            return ""
        return f"the page cache that could still be reclaimed was {left} bytes, within charges ahead ({allowed})"

    def _unpressed(self) -> str:
        """Why there was no shortage; "" if the neighbour took its whole amount."""
        if self.neighbour.work_is_done:
            return ""
        return f"{self.neighbour.key} ended before it had made the others short of memory"


EXCESS = 16 << 20
"""Bytes taken beyond the free memory: enough to exhaust it, and fewer than any victim frees."""

EXCESS_OF_MACHINE = 256 << 20
"""The same for the whole machine: more than its daemons can lose from page cache and to swap."""

MARGIN = 8 << 20
"""The least lead of the first victim, in bytes: page tables and page cache are in no container's own figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustion:
    """What is going to run out. takes: bytes that the greedy pod takes.

    order: the model's order of kills at that usage.
    """

    takes: int
    order: Shortage
    page_size: int

    @property
    def close(self) -> str:
        """Why the model's order is too close to rely on, as one sentence; "" if it is not."""
        first, second = self.order.victims[:2]
        ahead = (first.badness - second.badness) * self.page_size
        if ahead >= MARGIN:
            return ""
        return f"{first.subject} is ahead of {second.subject} by only {ahead} bytes, less than {MARGIN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhaustionOutcome(Together):
    """The outcome for the containers. above: includes their oom_score_adj."""

    exhaustion: Exhaustion

    def is_killed(self, pod: str) -> Finding:
        """The kernel killed it; not observable if the model names another one first."""
        return self._course(pod).oom.is_oom_killed(why_not=self._why_not(pod, first=True))

    def is_spared(self, pod: str) -> Finding:
        """The kernel killed none of its processes; not observable if the model names it first."""
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
    """How much the greedy container takes until kubepods has nothing left.

    UsageError if kubepods has no limit, or if no other container could be killed first. spare: bytes that the whole
    machine has to give, if the machine is to run out; None if kubepods is.
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
    """The findings on the oom_score_adj of every container."""
    found = [one for admitted in population.pods.values() for one in population.judge_pod(admitted.pod)]
    return tuple(one for one in found if one.knob == verdict.OOM_SCORE_ADJ)


def _key(one: WatchedContainer) -> tuple[str, str]:
    return one.premises.pod.uid, one.premises.planned.name


def _subject(one: WatchedContainer) -> Subject:
    return subject_of(one.premises.planned.cgroup, one.premises.pod)
