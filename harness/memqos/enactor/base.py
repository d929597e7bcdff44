"""The port "what makes a plan true on a place": cgroups above containers, pods, and what becomes of them.

memqos in the kubelet's place is one such, and nobody is another: where somebody else made the pods, memqos only reads.
Who it is stands in every finding about a file above containers (`setter`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memqos.enactor.steering import Steering
from memqos.engine.answer.setter import Setter
from memqos.engine.plan import Plan, PlannedPod
from memqos.engine.resize import Resize, ResizePlan, ResizeStep
from memqos.errors import MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.model.reading import CgroupReading
from memqos.runtime.base import ContainerHandle, Mount, SandboxHandle

__all__ = ["AdmittedPod", "Enactment", "Enactor", "RefusedRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    """What the runtime would not do for a container of a pod, though it starts a plain one in the same pod.

    update: whether the container was there already, and would have been updated. error: the runtime's own words.
    """

    container: str
    request: ContainerResources
    update: bool
    error: RuntimeCallError


@dataclass(slots=True, kw_only=True)
class AdmittedPod:
    """One pod on the node: its handles as far as it came, and why it came no further.

    early: cgroups that were read while they existed (init containers end before the pod is complete).
    mounts: what containers see of the target, by their names. asked: what the runtime took of requests for each of
    them, in order, the first at its creation. refused: the request that kept it from coming further, if that was why.
    """

    pod: Pod
    planned: PlannedPod
    sandbox: SandboxHandle | None = None
    containers: dict[str, ContainerHandle] = field(default_factory=dict)
    early: dict[CgroupPath, CgroupReading] = field(default_factory=dict)
    mounts: Mapping[str, tuple[Mount, ...]] = field(default_factory=dict)
    asked: dict[str, tuple[ContainerResources, ...]] = field(default_factory=dict)
    failure: MachineryError | None = None
    refused: RefusedRequest | None = None

    def require(self) -> AdmittedPod:
        """The pod itself, if all of it was started; otherwise the error that kept it from that."""
        if self.failure is not None:
            raise self.failure
        return self


class Enactment(Protocol):
    """What one enactor has standing on a place: the cgroups and pods of one plan after another."""

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods of the last plan, by uid."""
        ...

    def bring(self, plan: Plan) -> None:
        """Have what is above containers as this plan says; MachineryError for what cannot be made so.

        Of pods that stand already only those stay that have the same place in it.
        """
        ...

    def admit(self, plan: Plan, pods: Sequence[Pod], *, steering: Steering) -> Mapping[str, AdmittedPod]:
        """Have the pods of the plan running, by uid; all of `pods` that it is about are given.

        A pod that does not come up has its failure, and does not keep the others from it. steering: which of their
        workloads take commands; UsageError where nobody can give them any.
        """
        ...

    def resize(self, plan: ResizePlan, resize: Resize, desired: Pod, *, after: Callable[[ResizeStep], None]) -> None:
        """Resize one of the pods in place, to what is desired. after: called after every step.

        Raises UsageError where nobody resizes, MachineryError for a step that fails.
        """
        ...

    def reconcile(self, plan: Plan) -> None:
        """Write anew what the cgroups of this plan's pods have to hold, whatever they hold now; it is in force already.

        Raises UsageError where nobody writes, MachineryError for a value that is refused.
        """
        ...

    def clear(self) -> None:
        """Leave the place as it was before; the first error is raised when all was tried. Twice is nothing."""
        ...


class Enactor(Protocol):
    """Makes plans true on one place."""

    @property
    def setter(self) -> Setter:
        """Who sets what is above containers."""
        ...

    def begin(self, name: str) -> Enactment:
        """Begin with nothing standing. name: told to whoever finds something of it later."""
        ...

    def leftovers(self) -> Sequence[CgroupPath]:
        """What was made by such an enactor, at any time, and not removed: none on a place that is as it was."""
        ...
