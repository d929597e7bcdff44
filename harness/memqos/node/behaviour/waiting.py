"""Waiting for what is to be seen of watched containers: what is still missing, and when nothing more can come."""

from __future__ import annotations

from collections.abc import Sequence

from memqos.clock import Deadline
from memqos.errors import DeadlineError, UsageError
from memqos.node.behaviour.combining import Combined, Unfinished, both
from memqos.node.behaviour.conditions import Sample
from memqos.node.behaviour.watched import Awaited, Sees, WatchedContainer

__all__ = ["IDLE_SECONDS", "Waiting"]

SETTLE_SECONDS = 5.0
"""How long counters may lag behind a workload that is done: the kernel refreshes its statistics every 2 s."""

IDLE_SECONDS = 1.0
"""How long to wait for something to happen before the runtime is asked how its containers are."""


class Waiting:
    """What is still waited for, and when there is nothing left to wait for."""

    def __init__(self, awaited: Sequence[Awaited]) -> None:
        self._awaited: Combined[Sees] = both(*awaited)
        self.containers = list(dict.fromkeys(_container(one) for one in self._awaited.leaves()))
        self._progress = Unfinished(self._awaited)
        self._judged = {container.key: 0 for container in self.containers}
        self._settled: Deadline | None = None
        self._next = Deadline.after(IDLE_SECONDS)

    def is_due(self) -> bool:
        """Whether the runtime should be asked again, however much happens."""
        if self._next.expired:
            self._next = Deadline.after(IDLE_SECONDS)
            return True
        return False

    def is_over(self) -> bool:
        """Judge the samples that came since the last time; whether that was enough."""
        for container, sample in self._news():
            self._progress.see(lambda one: one.container is container and one.condition.holds(sample))  # noqa: B023
        if self._progress.is_seen or any(
            container.was_broken or container.was_outside for container in self.containers
        ):
            return True
        if all(container.has_ended for container in self.containers):
            return True
        if self._settled is None and all(one.work_is_done or one.has_ended for one in self.containers):
            self._settled = Deadline.after(SETTLE_SECONDS)
        return self._settled is not None and self._settled.expired

    def _news(self) -> Sequence[tuple[WatchedContainer, Sample]]:
        """The samples that came since the last time, as they came: of several containers the earlier ones first."""
        news = [
            (container, sample)
            for container in self.containers
            for sample in container.samples[self._judged[container.key] :]
        ]
        self._judged = {container.key: len(container.samples) for container in self.containers}
        return sorted(news, key=lambda one: one[1].reading.at)

    def in_vain(self, deadline: Deadline) -> DeadlineError:
        """What was waited for, and what was seen last of what did not come."""
        names = self._awaited.told(lambda one: one.condition.name)
        last = "; ".join(
            one.condition.shows(one.container.samples[-1]) for one in self._progress.unseen() if one.container.samples
        )
        return DeadlineError(
            f"waited {deadline.elapsed:.1f} s for '{names}'; the last observation was {last}.",
            data={"condition": names, "last": last, "elapsed": deadline.elapsed},
        )


def _container(sees: Sees) -> WatchedContainer:
    """Whose condition it is; UsageError for a condition of nobody's."""
    if isinstance(sees, Sees):
        return sees.container
    raise UsageError(
        f"of which container '{getattr(sees, 'name', sees)}' is to be seen is not said.",
        next_step="Say it of one of those that are watched: container.sees(condition).",
    )
