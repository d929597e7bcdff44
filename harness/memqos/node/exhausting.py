"""Exhausted below kubepods' limit: one pod takes more than there is, and the kernel's model says who is killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.usage import ContainerUsage
from memqos.engine.cgroup.victims import Shortage, shortages
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.errors import UsageError
from memqos.model.knob import Bytes, Knob
from memqos.model.path import CgroupPath
from memqos.node.population import Population
from memqos.node.premises import broken_of
from memqos.node.watched import WatchedContainer

__all__ = ["Exhausted", "Exhaustion", "exhaustion_of", "scores_of"]

EXCESS = 16 << 20
"""Bytes that are taken beyond what there is: so many that none is left, and fewer than any victim gives back."""

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
class Exhausted:
    """What became of the containers, each named by its pod, of which it is the first; and their oom_score_adj."""

    containers: Sequence[WatchedContainer]
    exhaustion: Exhaustion
    scores: Sequence[Finding]

    @property
    def premises(self) -> tuple[Finding, ...]:
        """The knobs and scores that the order of kills rests on: settle them with the behaviour."""
        return (*self.scores, *(finding for one in self.containers for finding in one.course.premises))

    def is_killed(self, pod: str) -> Finding:
        """The kernel killed it; not observable of one that the model does not name first."""
        return self._container(pod).course.rises("memory.events", "oom_kill", why_not=self._why_not(pod, first=True))

    def is_spared(self, pod: str) -> Finding:
        """The kernel killed nothing in it; not observable of the one that the model names first."""
        return self._container(pod).course.stays("memory.events", "oom_kill", why_not=self._why_not(pod, first=False))

    def still_runs(self, pod: str) -> Finding:
        """The runtime says that it runs."""
        return self._container(pod).course.still_runs()

    def _container(self, pod: str) -> WatchedContainer:
        return next(one for one in self.containers if one.premises.pod.name == pod)

    def _why_not(self, pod: str, *, first: bool) -> str:
        if broken := broken_of(self.premises):
            return f"what it rests on does not hold: {broken}"
        named = self.exhaustion.order.victims[0].subject
        if (named == _subject(self._container(pod))) is not first:
            return f"the kernel's model names {named} first"
        return self.exhaustion.close


def exhaustion_of(
    plan: Plan, kubelet: Kubelet, containers: Sequence[WatchedContainer], greedy: WatchedContainer
) -> Exhaustion:
    """How much the greedy one takes until kubepods has nothing left; UsageError if kubepods has no limit."""
    limit = plan.node.knobs.get(Knob.MEMORY_MAX)
    if limit is None or not isinstance(limit.value, Bytes):
        raise UsageError(
            "kubepods has no memory.max under this kubelet, so nothing runs out of memory below it.",
            next_step="Take a kubelet that enforces allocatable memory, as tight() makes one.",
        )
    swap = greedy.premises.planned.cgroup.knobs.get(Knob.MEMORY_SWAP_MAX)
    swaps = min(swap.value.count, kubelet.node.swap) if swap is not None and isinstance(swap.value, Bytes) else 0
    usage = {_key(one): one.last_usage(one.path) for one in containers}
    pods: dict[CgroupPath, WatchedContainer] = {one.pod: one for one in containers}
    left = limit.value.count - sum(one.last_usage(path) for path, one in pods.items())
    then: ContainerUsage = {**usage, _key(greedy): usage[_key(greedy)] + left + swaps}
    order = next(one for one in shortages(plan, kubelet, then) if one.subject == verdict.subject(plan.node))
    return Exhaustion(takes=left + swaps + EXCESS, order=order, page_size=kubelet.node.page_size)


def scores_of(population: Population) -> tuple[Finding, ...]:
    """The oom_score_adj of every container, judged."""
    found = [one for admitted in population.pods.values() for one in population.judge_pod(admitted.pod)]
    return tuple(one for one in found if one.knob == verdict.OOM_SCORE_ADJ)


def _key(one: WatchedContainer) -> tuple[str, str]:
    return one.premises.pod.uid, one.premises.planned.name


def _subject(one: WatchedContainer) -> str:
    return verdict.subject(one.premises.planned.cgroup, one.premises.pod)
