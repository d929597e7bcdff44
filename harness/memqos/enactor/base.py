"""The enactor port: carries out plans on a machine (cgroups above containers, pods, resizes).

Adapters are the kubelet stand-in, a real kubelet, and an observer that only reads existing pods (`enactor.observer`).
Every finding about a file above containers names its enactor (`setter`).

`Patience` limits the time of many equal attempts. `Steering` gives pods a FIFO for each container, through which its
workload takes commands.
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
    "MemoryVolume",
    "Order",
    "Patience",
    "RefusedRequest",
    "Steering",
    "not_able",
    "require",
    "steering",
]

AFTER_A_HANG_SECONDS = 60.0
"""Seconds: ten times a pod's start under software emulation on a busy host."""

TIMES_AS_LONG = 10
"""After one attempt hung, later ones may take this many times the slowest success."""


class Patience:
    """The time limits of repeated attempts. Thread-safe.

    longest: seconds for an attempt until one uses them up. Later attempts then get AFTER_A_HANG_SECONDS, or
    TIMES_AS_LONG the slowest success if that is more, but never more than `longest`. After three equal failures in a
    row no further attempt is made.
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

    def succeeded(self, deadline: Deadline) -> None:
        """An attempt with this deadline succeeded."""
        with self._lock:
            self._slowest = max(self._slowest, deadline.elapsed)
        self._row.succeeded()

    def try_again(self) -> None:
        """Allow one more attempt: the cause of the failures may be gone."""
        self._row.try_again()

    @property
    def enough(self) -> MachineryError | None:
        """The failure that makes another attempt pointless; None otherwise."""
        return self._row.enough


FOLDER = "/run/memqos/control"
MAKE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryVolume:
    """A memory-backed emptyDir volume for every container of a pod, which only a kubelet makes.

    size_limit: a Kubernetes quantity ("8Mi"), "" without one.
    """

    name: str
    container_path: str
    size_limit: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Steering:
    """The FIFOs of containers that take commands, by "pod uid/container name"; empty for none.

    volumes: further mounts of the target's folders for every app container. memory_volumes: need Ability.ANSWER.
    """

    controls: Mapping[str, Control] = dataclasses.field(default_factory=dict)
    volumes: tuple[Mount, ...] = ()
    memory_volumes: tuple[MemoryVolume, ...] = ()

    def pods(self, pods: Sequence[Pod]) -> list[Pod]:
        """The pods with workloads that run their own commands first and then take commands from their FIFOs."""
        return [
            dataclasses.replace(pod, containers=tuple(self._steered(pod, container) for container in pod.containers))
            for pod in pods
        ]

    def mounts(self, pod: Pod) -> Mapping[str, tuple[Mount, ...]]:
        """The mounts of the pod's containers, by container name."""
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
    """Make FIFOs for every app container of these pods, and remove them when the context ends."""
    keys = [f"{pod.uid}/{container.name}" for pod in pods for container in pod.containers]
    folders = [f"{FOLDER}/{key}" for key in keys]
    with control_folders(target, folders, deadline=Deadline.after(MAKE_SECONDS)) as controls:
        yield Steering(dict(zip(keys, controls, strict=True)))


class Ability(StrEnum):
    """An optional ability of an enactor.

    STEER: start workloads that take commands. RESIZE: resize a pod in place. RECONCILE: write a pod's cgroup again.
    SUCCEED: restart with another configuration or release while pods keep running. ALTER: carry out a plan that is not
    the kubelet's own: containers bound to a NUMA node from outside, other sums above pods, pods that ended before, or
    several kubelets at once. ANSWER: provide a kubelet's endpoints and the status of its pods
    (`Enactor.answers`). UPGRADE: let the second of its releases take over the pods of the first.
    """

    STEER = "steer"
    RESIZE = "resize"
    RECONCILE = "reconcile"
    SUCCEED = "succeed"
    ALTER = "alter"
    ANSWER = "answer"
    UPGRADE = "upgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order for an enactor: a plan, its pods and its kubelet.

    kubelet: release, configuration and node; a real kubelet is started with them and should arrive at `plan`. pods: all
    pods of the plan. steering: which workloads take commands. succeeds: the kubelet replaces the previous one, whose
    pods keep running (Ability.SUCCEED).
    """

    kubelet: Kubelet
    plan: Plan
    pods: Sequence[Pod]
    steering: Steering = field(default_factory=Steering)
    succeeds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    """A runtime's refusal of a request, although it starts a container without resources in the same pod.

    update: whether the request was an update instead of a creation. error: the runtime's own words.
    """

    container: str
    request: ContainerResources
    update: bool
    error: RuntimeCallError


@dataclass(slots=True, kw_only=True)
class AdmittedPod:
    """One pod on the node: its handles so far, and the error that stopped its start.

    early: cgroups that were read while they existed (init containers end before the pod is complete). mounts: by
    container name. requested: the accepted requests of each container, in order, the first at its creation. refused:
    the refused request that stopped the start, None for another cause.
    """

    pod: Pod
    planned: PlannedPod
    sandbox: SandboxHandle | None = None
    containers: dict[str, ContainerHandle] = field(default_factory=dict)
    early: dict[CgroupPath, CgroupReading] = field(default_factory=dict)
    mounts: Mapping[str, tuple[Mount, ...]] = field(default_factory=dict)
    requested: dict[str, tuple[ContainerResources, ...]] = field(default_factory=dict)
    failure: MachineryError | None = None
    refused: RefusedRequest | None = None

    def require(self) -> AdmittedPod:
        """The pod itself if it started completely; otherwise raises its error."""
        if self.failure is not None:
            raise self.failure
        return self


class Enactment(Protocol):
    """The work of one enactor on a machine: the cgroups and pods of one plan after another."""

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods of the last plan, by uid."""
        ...

    def bring(self, order: Order) -> None:
        """Bring the cgroups above containers to the order's plan; MachineryError for a failure.

        Running pods stay only if the plan has them at the same cgroup path. With running pods and another kubelet this
        is a takeover: EnactorNotAbleError without Ability.SUCCEED.
        """
        ...

    def admit(self, order: Order, *, appears: Callable[[PlannedPod], None]) -> Mapping[str, AdmittedPod]:
        """Start the pods of the order; the result is by uid.

        A pod that fails has its `failure`; the others still start. appears: called once for each pod when its cgroup
        exists and, if the enactor starts the containers, before they run; not for a pod without a cgroup. Raises
        EnactorNotAbleError if workloads must take commands, without Ability.STEER.
        """
        ...

    def resize(
        self,
        plan: ResizePlan,
        resize: Resize,
        desired: Pod,
        *,
        after: Callable[[ResizeStep], None],
        above: bool = True,
    ) -> None:
        """Resize one of the pods in place.

        after: called after every step, or only after the last steps: a real kubelet's intermediate steps are not seen.
        above: whether the levels above pods must have followed; a real kubelet writes them in its next period.

        Raises EnactorNotAbleError without Ability.RESIZE, MachineryError for a step that fails.
        """
        ...

    def reconcile(self, plan: Plan) -> None:
        """Write the values of this plan's pod cgroups again, whatever they hold now. The plan is in force already.

        Raises EnactorNotAbleError without Ability.RECONCILE, MachineryError for a value that is refused.
        """
        ...

    def clear(self) -> None:
        """Restore the machine's previous state; raises the first error at the end. A second call does nothing."""
        ...


class KubeletAnswers(Protocol):
    """A kubelet's answers about itself and its pods."""

    def objects(self, version: str, resource: str) -> list[dict[str, Any]]:
        """All API objects of a resource ("v1", "pods"), with the status that the kubelet reports."""
        ...

    def fetched(self, url: str, *, seconds: float) -> str:
        """The answer of an endpoint of the machine to GET; MachineryError without one in time."""
        ...


class Enactor(Protocol):
    """Carries out plans on one machine."""

    @property
    def setter(self) -> Setter:
        """The writer of the files above containers."""
        ...

    def why_not(self, ability: Ability) -> str:
        """Why it lacks an ability, with an alternative; "" if it has it."""
        ...

    @property
    def releases(self) -> Sequence[str]:
        """The releases ("1.36") of the kubelets that it can run; () if it carries out the plans of any release."""
        ...

    def answers(self) -> KubeletAnswers:
        """The kubelet's answers; EnactorNotAbleError without Ability.ANSWER."""
        ...

    def begin(self, name: str) -> Enactment:
        """Begin without pods. name: the run's name, kept with everything that it makes, to identify leftovers."""
        ...

    def leftovers(self) -> Sequence[CgroupPath]:
        """The cgroups that any such enactor made and did not remove; empty on a clean machine."""
        ...


def require(enactor: Enactor, ability: Ability) -> None:
    """Raise EnactorNotAbleError unless the enactor has this ability."""
    if enactor.why_not(ability):
        raise not_able(enactor, ability)


def not_able(enactor: Enactor, ability: Ability) -> EnactorNotAbleError:
    """The error that the enactor lacks this ability, with its reason."""
    return EnactorNotAbleError(enactor.why_not(ability), data={"ability": ability.value})
