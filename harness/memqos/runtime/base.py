"""The port "something that makes containers": the verbs every runtime adapter offers.

An adapter asserts nothing and retries nothing; an answer that is an error becomes RuntimeCallError. Some runtimes can
also be asked in words of their own: those of CRI, of the Docker Engine, or of OCI runtimes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from memqos.clock import Deadline
from memqos.engine.translate.requested import OciRequest
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver

__all__ = [
    "OF_BUNDLES",
    "CallRecord",
    "CallRecorder",
    "Capability",
    "ContainerHandle",
    "ContainerSpec",
    "ContainerState",
    "ContainerStatus",
    "KubeletsRuntime",
    "Mount",
    "Runtime",
    "RuntimeVersion",
    "SandboxHandle",
    "SandboxSpec",
    "SpeaksCri",
    "SpeaksDocker",
    "SpeaksOci",
    "Traces",
    "keep_none",
]


class Capability(StrEnum):
    """What a runtime can say; a claim that needs a missing one is not observable through it."""

    UNIFIED = "unified"
    UPDATE = "update"
    UPDATE_UNIFIED = "update unified"
    CPUSET_MEMS = "cpuset.mems"
    SWAP_LIMIT = "swap limit"
    OOM_REASON = "OOM reason"
    CGROUP_DRIVER_REPORT = "RuntimeConfig"
    CRI = "CRI"
    HOST_CONFIG = "HostConfig"
    BUNDLE = "bundle"
    UNIT_PROPERTIES = "unit properties"
    UPDATE_OPTIONS = "options of update"
    EVENTS = "events"
    MEMORY_POLICY = "memory policy"


OF_BUNDLES = frozenset(
    {
        Capability.BUNDLE,
        Capability.UNIT_PROPERTIES,
        Capability.UPDATE_OPTIONS,
        Capability.EVENTS,
        Capability.MEMORY_POLICY,
    }
)
"""What can be asked where no daemon is in between."""


class ContainerState(StrEnum):
    """A container's state, as CRI names it."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeVersion:
    """Who answers: containerd 1.7.24 speaking CRI v1."""

    name: str
    version: str
    api_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the target, seen inside the container."""

    container_path: str
    host_path: str
    readonly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """A pod's sandbox. cgroup_parent: the pod cgroup's full path in cgroupfs syntax; log_directory: on the target."""

    name: str
    namespace: str
    uid: str
    cgroup_parent: str
    log_directory: str
    handler: str = ""
    resources: ContainerResources = field(default_factory=ContainerResources)
    overhead: ContainerResources = field(default_factory=ContainerResources)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxHandle:
    """A sandbox that exists, with the spec it was made from (CreateContainer must repeat it)."""

    id: str
    spec: SandboxSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container to make: image by the name in the runtime's own store, resources as the kubelet sends them.

    log: the file of its output below the sandbox's log directory, "" for one of its name. Runtimes append to a file
    that is there: one that an earlier container wrote to has that one's output first.
    """

    name: str
    image: str
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    log: str = ""
    resources: ContainerResources = field(default_factory=ContainerResources)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHandle:
    """A container that exists. log_path: where its output is on the target."""

    id: str
    name: str
    sandbox: SandboxHandle
    log_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """What the runtime says of a container.

    exit_code: None until it exited. reason: the runtime's word, "OOMKilled", "Completed", "Error".
    resources: what the runtime says it was asked for (not what the kernel holds); None if it does not say.
    """

    state: ContainerState
    exit_code: int | None
    reason: str
    message: str
    resources: ContainerResources | None
    info: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Where what was asked of a container can be looked at on its way to the files of its cgroup.

    spec: the OCI specification that the daemon keeps of it, None if there is no daemon or it does not tell.
    config, state, log: files of the target where the bundle's config.json, what the OCI runtime itself keeps
    (state.json), and its log may be; the first that is there is meant, and there may be none.
    """

    spec: Mapping[str, object] | None = None
    config: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call, for evidence.

    at: wall clock, ISO 8601 in UTC, when the call began; seconds: how long the answer took.
    reply: None if the answer was an error, which `error` then tells.
    """

    method: str
    at: str
    seconds: float
    request: Mapping[str, object]
    reply: Mapping[str, object] | None
    error: str = ""


CallRecorder = Callable[[CallRecord], None]


def keep_none(_: CallRecord) -> None:
    """A recorder that keeps no evidence."""


@runtime_checkable
class Runtime(Protocol):
    """What memqos asks of a container runtime. Every verb raises RuntimeCallError for an answer that is an error."""

    @property
    def name(self) -> str:
        """How reports call it: containerd+runc."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this runtime can say."""
        ...

    def version(self, *, deadline: Deadline) -> RuntimeVersion:
        """The runtime's own answer."""
        ...

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:
        """Make and start a pod's sandbox; the pod cgroup must exist."""
        ...

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """Make a container without starting it."""
        ...

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """Start a created container."""
        ...

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """Change the resources of a running container; what is not specified stays."""
        ...

    def update_sandbox(
        self,
        sandbox: SandboxHandle,
        *,
        overhead: ContainerResources,
        resources: ContainerResources,
        deadline: Deadline,
    ) -> None:
        """Tell the runtime of the pod's new size; the error of one without this call has the code UNIMPLEMENTED."""
        ...

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:
        """The container's state, exit code and reason."""
        ...

    def traces(self, container: ContainerHandle, *, deadline: Deadline) -> Traces:
        """Where to look for what became of the container's resources."""
        ...

    def exec(
        self, container: ContainerHandle, argv: tuple[str, ...], *, deadline: Deadline
    ) -> tuple[int, bytes, bytes]:
        """Run a command inside: exit code, stdout, stderr."""
        ...

    def stop(self, container: ContainerHandle, *, grace: int, deadline: Deadline) -> None:
        """Stop a container: TERM, then KILL after `grace` seconds (0: KILL at once)."""
        ...

    def remove(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """Remove a stopped container; a missing one is not an error."""
        ...

    def remove_sandbox(self, sandbox: SandboxHandle, *, deadline: Deadline) -> None:
        """Stop and remove a sandbox with everything in it; a missing one is not an error."""
        ...

    def close(self) -> None:
        """Give up the connection."""
        ...


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


@runtime_checkable
class KubeletsRuntime(Runtime, Protocol):
    """A runtime that a kubelet uses as well: it lists the sandboxes of all its clients, as CRI servers do."""

    def sandboxes(self, *, deadline: Deadline) -> Mapping[str, str]:
        """The pod's uid of every sandbox, by the sandbox's id, running or not."""
        ...
