"""What some runtimes can be asked beside the port: in the words of CRI, of the Docker Engine, or of OCI runtimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from memqos.clock import Deadline
from memqos.engine.translate.requested import OciRequest
from memqos.model.node import CgroupDriver
from memqos.runtime.base import ContainerHandle, ContainerSpec, SandboxHandle

__all__ = ["SpeaksCri", "SpeaksDocker", "SpeaksOci"]


@runtime_checkable
class SpeaksCri(Protocol):
    """What a runtime can that has Capability.CRI: tell what pods and containers use, and its cgroup driver."""

    @property
    def reported_driver(self) -> CgroupDriver | None:
        """The cgroup driver that it says it has; None if it does not know RuntimeConfig."""
        ...

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """ContainerStats as CRI names its fields; what the runtime leaves out is missing, not zero."""
        ...

    def sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """PodSandboxStats, the same."""
        ...


@runtime_checkable
class SpeaksDocker(Protocol):
    """What a runtime can that has Capability.HOST_CONFIG: take requests in Docker's own words, and tell its stats.

    config: fields of HostConfig that are about resources, by their names in the API.
    """

    def create_as(
        self, sandbox: SandboxHandle, spec: ContainerSpec, config: Mapping[str, int | str], *, deadline: Deadline
    ) -> ContainerHandle:
        """Make a container without starting it, with this in the place of the spec's resources."""
        ...

    def update_as(self, container: ContainerHandle, config: Mapping[str, int | str], *, deadline: Deadline) -> None:
        """Change what is named, and nothing else."""
        ...

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """What a running container uses, as the API names it."""
        ...


@runtime_checkable
class SpeaksOci(Protocol):
    """What a runtime can that has Capability.BUNDLE: take requests in the words of the OCI runtime specification."""

    def create_from(
        self, sandbox: SandboxHandle, spec: ContainerSpec, request: OciRequest, *, deadline: Deadline
    ) -> ContainerHandle:
        """Make a container without starting it, with this in the place of the spec's resources."""
        ...

    def update_with(self, container: ContainerHandle, request: OciRequest, *, deadline: Deadline) -> None:
        """Change what is named, by a document or by options of the command line."""
        ...

    def stats_event(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """What a running container uses, as `events --stats` tells it: the event's `data`."""
        ...

    def follow(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """Have `events` follow a container from now until its end, or until it is removed."""
        ...

    def followed(self, container: ContainerHandle, *, deadline: Deadline) -> Sequence[str]:
        """The types of the events that were told of it until now, such as "oom"."""
        ...
