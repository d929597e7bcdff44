"""How much a neighbour is to take for others to be short of memory, by the kernel's model of what they can lose.

Below kubepods' limit reclaim begins at kubepods, so that protection is handed down from there: a container's memory.min
and memory.low count as far as those of its pod and its QoS class do. Where the whole machine is short of memory it
begins at the root, and they count only as far as kubepods' do too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.answer.finding import subject_of
from memqos.engine.cgroup.protection import Effective, shelter
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.errors import UsageError
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.watched_container import WatchedContainer

__all__ = ["Aim", "Before", "Squeeze", "below_limit", "squeeze_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Squeeze:
    """What there was before the pressure, and what the neighbour takes at last: all in bytes.

    counts: what counts of each container's protection, by its key in the watch. short: how much of what it takes is not
    free, and so has to come from others. since: when it began, in seconds of the machine's clock. cpus: those of the
    machine, each of which may have charged a batch ahead for each container. past_low: whether that is more than what
    is unprotected. generations: whether the machine as a whole is short, and reclaims by the multi-generational LRU: it
    passes memory.low over once and then takes from it, whatever other cgroup has memory left (mm/vmscan.c, shrink_one),
    where the classic LRU takes nothing of it while others have. dirty: whether what others have to give may have to be
    written to the disk first.
    """

    counts: Mapping[str, Effective]
    takes: int
    short: int
    since: float
    cpus: int
    past_low: bool = False
    generations: bool = False
    dirty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What containers used before memory was taken from them, in bytes by their keys, and when it was seen last."""

    usage: Mapping[str, int]
    at: float

    @classmethod
    def of(cls, containers: Sequence[WatchedContainer]) -> Before:
        """What these use now; at: seconds of the machine's clock."""
        return cls(
            usage={one.key: one.last_usage(one.path) for one in containers},
            at=max(one.samples[-1].reading.at for one in containers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """How much is to be short, of what others can lose: half of what nothing protects, unless it says something else.

    all_lose: all of that but half of an equal part. Which cgroup is reclaimed from first is not guaranteed, so for all
    of them to lose some, there has to be too little without any of them. past_low: all of that, and half of what
    memory.low alone protects. besides: bytes that something beside the pods can lose, and is to lose half of at least:
    all that pods can lose, and half of these. short: so many bytes in place of all that, where pods can lose nothing.
    """

    past_low: bool = False
    all_lose: bool = False
    besides: int = 0
    short: int | None = None

    def of(self, others: Sequence[Effective]) -> int:
        """Bytes that these, of which so much counts, and what is beside them are to lose together."""
        if self.short is not None:
            return self.short
        exposed, soft = sum(counts.exposed for counts in others), sum(counts.soft for counts in others)
        if self.past_low or self.besides:
            return exposed + (soft if self.past_low else self.besides) // 2
        losers = sum(counts.exposed > 0 for counts in others) if self.all_lose else 1
        return exposed - exposed // (2 * max(1, losers))


def squeeze_of(
    plan: Plan,
    kubelet: Kubelet,
    containers: Sequence[WatchedContainer],
    neighbour: WatchedContainer,
    aim: Aim,
    *,
    before: Before,
    recursive: bool,
    spare: int | None = None,
    generations: bool = False,
    dirty: bool = False,
) -> Squeeze:
    """How much the neighbour takes for others to be short of so much, with what they have lost already.

    recursive: whether cgroups are mounted with memory_recursiveprot. spare: bytes that the whole machine has to give,
    where that is what runs short; None where it is kubepods. generations: how the machine reclaims. dirty: whether
    others were left to write to the disk later. UsageError if kubepods is to run short and has no limit.
    """
    free = below_limit(plan, containers) if spare is None else spare
    now, others = Before.of(containers).usage, [one for one in containers if one is not neighbour]
    lost = sum(max(0, before.usage[one.key] - now[one.key]) for one in others)
    usage = {(one.premises.pod.uid, one.premises.planned.name): before.usage[one.key] for one in others}
    # Unclaimed protection is shared out by use, and the neighbour has its share when memory is short.
    its_own = neighbour.premises.pod.uid, neighbour.premises.planned.name
    usage[its_own] = now[neighbour.key] + max(0, free)
    subjects = {one.key: subject_of(one.premises.planned.cgroup, one.premises.pod) for one in containers}
    sheltered = {one.subject: one for one in shelter(plan, kubelet, usage, recursive=recursive)}
    counts: dict[str, Effective] = {}
    for key, subject in subjects.items():
        one = sheltered[subject]
        of_the_machine = one.recursive if recursive else one.plain
        counts[key] = of_the_machine if spare is not None or one.crowded is None else one.crowded
    short = aim.of([found for key, found in counts.items() if key != neighbour.key])
    return Squeeze(
        counts=counts,
        takes=free + max(0, short - lost),
        short=short,
        since=before.at,
        cpus=kubelet.node.cpus,
        past_low=aim.past_low,
        generations=generations and spare is not None,
        dirty=dirty,
    )


def below_limit(plan: Plan, containers: Sequence[WatchedContainer]) -> int:
    """Bytes that kubepods' limit leaves to its pods; UsageError without one."""
    limit = plan.node.knobs.get(Knob.MEMORY_MAX)
    if limit is None or not isinstance(limit.value, Bytes):
        raise UsageError(
            "kubepods has no memory.max under this kubelet, so nothing is short of memory below it.",
            next_step="Take a kubelet that enforces allocatable memory, as tight() makes one.",
        )
    return limit.value.count - sum(one.last_usage(pod) for pod, one in {one.pod: one for one in containers}.items())
