"""The port "what makes a plan true on a place": cgroups above containers, pods, and what becomes of them.

memqos in the kubelet's place is one. Another only reads pods that others made (`enactor.observer`).
Every finding about a file above containers names it (`setter`).

How long one attempt among many alike may take, and whether the next one is worth making.

Pods whose workloads take commands while they run: a FIFO per container, which its workload reads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from memqos.clock import SYSTEM_CLOCK, Clock, Deadline
from memqos.engine.answer.finding import Setter
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedPod
from memqos.engine.resize import Resize, ResizePlan, ResizeStep
from memqos.errors import EnactorNotAbleError, MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.model.pod import Container, Pod
from memqos.model.reading import CgroupReading
from memqos.repetition import Repetition
from memqos.runtime.base import ContainerHandle, Mount, SandboxHandle
from memqos.target.base import Target
from memqos.workload.command import Control, control_folders

__all__ = [
    "Ability",
    "AdmittedPod",
    "Enactment",
    "Enactor",
    "KubeletAnswers",
    "Order",
    "Patience",
    "RefusedRequest",
    "Steering",
    "not_able",
    "require",
    "steering",
]

AFTER_A_HANG_SECONDS = 60.0
"""Ten times what a pod takes under software emulation on a busy host."""

TIMES_AS_LONG = 10
"""How much longer than the slowest that came to its end an attempt may take, once another one has hung."""


class Patience:
    """Time for attempts, from one to the next. It may be asked from several threads.

    longest: seconds for an attempt while none has used them up. One that does has most likely hung, and the ones after
    it get AFTER_A_HANG_SECONDS, or TIMES_AS_LONG what an attempt was seen to need here if that is more; never more than
    the longest. Three that fail alike in a row are enough.
    """

    def __init__(self, *, longest: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._longest = longest
        self._clock = clock
        self._row = Repetition()
        self._lock = threading.Lock()
        self._slowest = 0.0
        self._hung = False

    def deadline(self) -> Deadline:
        """The deadline of an attempt that begins now."""
        with self._lock:
            shorter = max(AFTER_A_HANG_SECONDS, TIMES_AS_LONG * self._slowest) if self._hung else self._longest
        return Deadline.after(min(self._longest, shorter), self._clock)

    def failed(self, error: MachineryError, deadline: Deadline) -> None:
        """An attempt with this deadline ended in an error."""
        with self._lock:
            self._hung = self._hung or deadline.expired
        self._row.failed(error)

    def went_well(self, deadline: Deadline) -> None:
        """An attempt with this deadline succeeded."""
        with self._lock:
            self._slowest = max(self._slowest, deadline.elapsed)
        self._row.went_well()

    def try_again(self) -> None:
        """Times may have changed: one more attempt is worth it, before it is enough again."""
        self._row.try_again()

    @property
    def enough(self) -> MachineryError | None:
        """What the next attempt need not be made for; None while it is worth making."""
        return self._row.enough


FOLDER = "/run/memqos/control"
MAKE_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Steering:
    """Which containers are steered, and how: by pod uid and container name, "uid/name"; of none where it is empty.

    volumes: what every app container sees of the target beside that.
    """

    controls: Mapping[str, Control] = dataclasses.field(default_factory=dict)
    volumes: tuple[Mount, ...] = ()

    def pods(self, pods: Sequence[Pod]) -> list[Pod]:
        """The same pods, whose steered workloads do their own commands first and then take others."""
        return [
            dataclasses.replace(pod, containers=tuple(self._steered(pod, container) for container in pod.containers))
            for pod in pods
        ]

    def mounts(self, pod: Pod) -> Mapping[str, tuple[Mount, ...]]:
        """What the pod's containers must see of the target, by their names."""
        found = {container.name: self.controls.get(f"{pod.uid}/{container.name}") for container in pod.containers}
        mounts = {name: (() if one is None else (one.mount,)) + self.volumes for name, one in found.items()}
        return {name: seen for name, seen in mounts.items() if seen}

    def _steered(self, pod: Pod, container: Container) -> Container:
        control = self.controls.get(f"{pod.uid}/{container.name}")
        if control is None:
            return container
        return dataclasses.replace(container, args=(*control.arguments(), *container.args))


@contextlib.contextmanager
def steering(target: Target, pods: Sequence[Pod]) -> Iterator[Steering]:
    """FIFOs for every app container of these pods, removed when the context ends."""
    keys = [f"{pod.uid}/{container.name}" for pod in pods for container in pod.containers]
    folders = [f"{FOLDER}/{key}" for key in keys]
    with control_folders(target, folders, deadline=Deadline.after(MAKE_SECONDS)) as controls:
        yield Steering(dict(zip(keys, controls, strict=True)))


class Ability(StrEnum):
    """What an enactor may be able to do besides having the pods of a plan running.

    STEER: start workloads that take commands. RESIZE: resize a pod in place. RECONCILE: write a pod's cgroup anew.
    SUCCEED: come back with another configuration or release over pods that run on.
    ANSWER: be a kubelet, with endpoints and a status of its pods that can be read (`Enactor.answers`).
    """

    STEER = "steer"
    RESIZE = "resize"
    RECONCILE = "reconcile"
    SUCCEED = "succeed"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What an enactor is to make true: the plan, of these pods, under this kubelet.

    kubelet: release, configuration and node; a real kubelet is started with them, and `plan` is what it should come to.
    pods: all that the plan is about. steering: which of their workloads take commands. succeeds: the kubelet takes over
    from the one before, whose pods run on (Ability.SUCCEED).
    """

    kubelet: Kubelet
    plan: Plan
    pods: Sequence[Pod]
    steering: Steering = field(default_factory=Steering)
    succeeds: bool = False


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

    def bring(self, order: Order) -> None:
        """Have what is above containers as the order says; MachineryError for what cannot be made so.

        Of pods that stand already only those stay that have the same place in it. Where pods stand, and the kubelet is
        another one, it takes over from the one before: EnactorNotAbleError without Ability.SUCCEED.
        """
        ...

    def admit(self, order: Order, *, appears: Callable[[PlannedPod], None]) -> Mapping[str, AdmittedPod]:
        """Have the pods of the order running, by uid.

        A pod that does not come up has its failure, and does not keep the others from it. appears: called once for each
        pod when its cgroup is there and, where the enactor starts them, before its containers run; not for a pod that
        gets no cgroup. EnactorNotAbleError for workloads that are to take commands, without Ability.STEER.
        """
        ...

    def resize(self, plan: ResizePlan, resize: Resize, desired: Pod, *, after: Callable[[ResizeStep], None]) -> None:
        """Resize one of the pods in place, to what is desired.

        after: called after every step, or after the last ones: a kubelet takes all by itself, so only the last is seen.

        Raises EnactorNotAbleError without Ability.RESIZE, MachineryError for a step that fails.
        """
        ...

    def reconcile(self, plan: Plan) -> None:
        """Write anew what the cgroups of this plan's pods have to hold, whatever they hold now; it is in force already.

        Raises EnactorNotAbleError without Ability.RECONCILE, MachineryError for a value that is refused.
        """
        ...

    def clear(self) -> None:
        """Leave the place as it was before; the first error is raised when all was tried. Twice is nothing."""
        ...


class KubeletAnswers(Protocol):
    """What a kubelet says about itself and its pods."""

    def objects(self, version: str, resource: str) -> list[dict[str, Any]]:
        """All API objects of a resource ("v1", "pods"), with the status that the kubelet reports."""
        ...

    def fetched(self, url: str, *, seconds: float) -> str:
        """What an endpoint of the machine answers to GET; MachineryError for one that does not answer in time."""
        ...


class Enactor(Protocol):
    """Makes plans true on one place."""

    @property
    def setter(self) -> Setter:
        """Who sets what is above containers."""
        ...

    def why_not(self, ability: Ability) -> str:
        """Why it does not do this, with what does instead; "" if it does."""
        ...

    def answers(self) -> KubeletAnswers:
        """The kubelet that it is; EnactorNotAbleError without Ability.ANSWER."""
        ...

    def begin(self, name: str) -> Enactment:
        """Begin with nothing standing. name: left with what it makes, so that leftovers name their run."""
        ...

    def leftovers(self) -> Sequence[CgroupPath]:
        """What was made by such an enactor, at any time, and not removed: none on a place that is as it was."""
        ...


def require(enactor: Enactor, ability: Ability) -> None:
    """EnactorNotAbleError unless the enactor does this."""
    if enactor.why_not(ability):
        raise not_able(enactor, ability)


def not_able(enactor: Enactor, ability: Ability) -> EnactorNotAbleError:
    """The error of an enactor that lacks this ability, with its reason."""
    return EnactorNotAbleError(enactor.why_not(ability), data={"ability": ability.value})
