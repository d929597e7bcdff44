"""Exhausted below kubepods' limit: one pod takes too much, and the kernel's model says what is killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.usage import ContainerUsage
from memqos.engine.cgroup.victims import MACHINE, Shortage, shortages
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.subject import Subject, subject_of
from memqos.errors import UsageError
from memqos.model.knob import Bytes, Knob
from memqos.node.behaviour.squeezing import below_limit
from memqos.node.behaviour.together import Together
from memqos.node.behaviour.watched import WatchedContainer
from memqos.node.pods.population import Population

__all__ = ["Exhausted", "Exhaustion", "exhaustion_of", "scores_of"]

EXCESS = 16 << 20
"""Bytes that are taken beyond what there is: so many that none is left, and fewer than any victim gives back."""

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
        return self._course(pod).is_oom_killed(why_not=self._why_not(pod, first=True))

    def is_spared(self, pod: str) -> Finding:
        """The kernel killed nothing in it; not observable of the one that the model names first."""
        return self._course(pod).is_spared(why_not=self._why_not(pod, first=False))

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
