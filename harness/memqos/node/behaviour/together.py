"""Several containers that are judged together, each named by its pod, of which it is the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.engine.answer.finding import Finding
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.premises import broken_of
from memqos.node.behaviour.watched import WatchedContainer, container_of

__all__ = ["Together"]


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
        return self._course(pod).swaps(why_not=self._broken())

    def swaps_nothing(self, pod: str) -> Finding:
        """Nothing of it was swapped out."""
        return self._course(pod).swaps_nothing(why_not=self._broken())

    def _container(self, pod: str) -> WatchedContainer:
        """The first container of a pod; UsageError for one that is not watched."""
        return container_of(pod, among=self.containers)

    def _course(self, pod: str) -> Course:
        return self._container(pod).course

    def _broken(self, why: str = "") -> str:
        """Why nothing can be expected, where one container has what it should not have; else `why`."""
        broken = broken_of(self.premises)
        return f"what it rests on does not hold: {broken}" if broken else why
