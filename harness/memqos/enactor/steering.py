"""Pods whose workloads take commands while they run: a FIFO per container, which its workload reads."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from memqos.clock import Deadline
from memqos.model.pod import Container, Pod
from memqos.runtime.base import Mount
from memqos.target.base import Target
from memqos.workload.control import Control, control_folders

__all__ = ["Steering", "steering"]

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
    """FIFOs for every app container of these pods, gone when the context ends."""
    keys = [f"{pod.uid}/{container.name}" for pod in pods for container in pod.containers]
    folders = [f"{FOLDER}/{key}" for key in keys]
    with control_folders(target, folders, deadline=Deadline.after(MAKE_SECONDS)) as controls:
        yield Steering(dict(zip(keys, controls, strict=True)))
