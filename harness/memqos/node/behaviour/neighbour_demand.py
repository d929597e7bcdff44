"""How much memory a neighbour must take to make others short, by the kernel's model of what they can lose.

Below kubepods' limit, reclaim starts at kubepods, and protection is distributed from there: a container's memory.min
and memory.low count only as far as those of its pod and QoS class do. When the whole machine is short, reclaim starts
at the root, and they count only as far as kubepods' do too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.answer.finding import subject_of
from memqos.engine.cgroup.effective_protection import Effective
from memqos.engine.cgroup.protection import planned_protection
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.errors import UsageError
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.watched_container import WatchedContainer

__all__ = ["Aim", "Squeeze", "UsageBefore", "below_limit", "squeeze_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Squeeze:
    """Usage before the pressure, and how much the neighbour takes; all in bytes.

    counts: the effective protection of each container, by its key in the watch. short: the part of `takes` that is not
    free and must come from others. since: when it began, in seconds of the machine's clock. cpus: the machine's CPUs,
    each of which may have charged a batch ahead for each container. past_low: whether `short` exceeds what is
    unprotected. generations: whether the machine as a whole is short and reclaims by the multi-generational LRU. That
    LRU skips memory.low once and then reclaims from it even if other cgroups have memory left (mm/vmscan.c,
    shrink_one); the classic LRU does not. dirty: whether others' memory may have to be written to disk first.
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
class UsageBefore:
    """What containers used before the pressure, in bytes by their keys, and when that was read."""

    usage: Mapping[str, int]
    at: float

    @classmethod
    def of(cls, containers: Sequence[WatchedContainer]) -> UsageBefore:
        """Their usage now; at: seconds of the machine's clock."""
        return cls(
            usage={one.key: one.last_usage(one.path) for one in containers},
            at=max(one.samples[-1].reading.at for one in containers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """How much of what others can lose is to be short; by default half of what is unprotected.

    all_lose: all of it, less half of an equal part. The kernel does not guarantee which cgroup is reclaimed first; for
    all of them to lose some, the rest must never be enough without one of them. past_low: all of it, plus half of what
    memory.low alone protects. outside_pods: bytes that something other than the pods can lose, and must lose at least
    half of: all that the pods can lose, plus half of these bytes. short: this many bytes instead, where pods can lose
    nothing.
    """

    past_low: bool = False
    all_lose: bool = False
    outside_pods: int = 0
    short: int | None = None

    def of(self, others: Sequence[Effective]) -> int:
        """Bytes that these containers, with this effective protection, and anything besides must lose together."""
        if self.short is not None:
            return self.short
        exposed, soft = sum(counts.exposed for counts in others), sum(counts.soft for counts in others)
        if self.past_low or self.outside_pods:
            return exposed + (soft if self.past_low else self.outside_pods) // 2
        losers = sum(counts.exposed > 0 for counts in others) if self.all_lose else 1
        return exposed - exposed // (2 * max(1, losers))


def squeeze_of(
    plan: Plan,
    kubelet: Kubelet,
    containers: Sequence[WatchedContainer],
    neighbour: WatchedContainer,
    aim: Aim,
    *,
    before: UsageBefore,
    recursive: bool,
    spare: int | None = None,
    generations: bool = False,
    dirty: bool = False,
) -> Squeeze:
    """How much the neighbour takes to make others short, counting what they have already lost.

    recursive: whether cgroups are mounted with memory_recursiveprot. spare: bytes that the whole machine has to give,
    if the machine is to run short; None if kubepods is. generations: whether the machine reclaims by the
    multi-generational LRU. dirty: whether others' page cache was left unwritten. UsageError if kubepods is to run short
    and has no limit.
    """
    free = below_limit(plan, containers) if spare is None else spare
    now, others = UsageBefore.of(containers).usage, [one for one in containers if one is not neighbour]
    lost = sum(max(0, before.usage[one.key] - now[one.key]) for one in others)
    usage = {(one.premises.pod.uid, one.premises.planned.name): before.usage[one.key] for one in others}
    # Unclaimed protection is shared out by usage, and the neighbour has its share under pressure.
    its_own = neighbour.premises.pod.uid, neighbour.premises.planned.name
    usage[its_own] = now[neighbour.key] + max(0, free)
    subjects = {one.key: subject_of(one.premises.planned.cgroup, one.premises.pod) for one in containers}
    protections = {one.subject: one for one in planned_protection(plan, kubelet, usage, recursive=recursive)}
    counts: dict[str, Effective] = {}
    for key, subject in subjects.items():
        one = protections[subject]
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
    """Bytes left to pods below kubepods' limit; UsageError without one."""
    limit = plan.node.knobs.get(Knob.MEMORY_MAX)
    if limit is None or not isinstance(limit.value, Bytes):
        raise UsageError(
            "kubepods has no memory.max under this kubelet, so pods cannot run short of memory below it.",
            next_step="Take a kubelet that enforces allocatable memory, such as tight() returns.",
        )
    return limit.value.count - sum(one.last_usage(pod) for pod, one in {one.pod: one for one in containers}.items())
