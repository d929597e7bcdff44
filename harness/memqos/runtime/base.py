"""The container runtime port: the verbs that every runtime adapter offers, and the record of each call.

An adapter asserts nothing and retries nothing; an error answer becomes RuntimeCallError. Some runtimes also take
requests in native words: those of CRI, of the Docker Engine, or of OCI runtimes.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from memqos.clock import Deadline, utc_now
from memqos.engine.translate.requested import OciRequest
from memqos.errors import DeadlineError, MachineryError, MemqosError
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
    "RecordedCalls",
    "Runtime",
    "RuntimeVersion",
    "SandboxHandle",
    "SandboxSpec",
    "SpeaksCri",
    "SpeaksDocker",
    "SpeaksOci",
    "Traces",
    "keep_none",
    "usable_id",
]


class Capability(StrEnum):
    """What a runtime supports; a claim that needs a missing capability is not observable with it."""

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
"""The capabilities of a runtime without a daemon."""


class ContainerState(StrEnum):
    """A container's state, as CRI names it."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeVersion:
    """The identity of a runtime, such as containerd 1.7.24 with CRI v1."""

    name: str
    version: str
    api_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the target, mounted into the container."""

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
    """An existing sandbox, with its spec (CreateContainer must repeat it)."""

    id: str
    spec: SandboxSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container to create: image by its name in the runtime's own store, resources as the kubelet sends them.

    log: its output file below the sandbox's log directory, "" for one with the container's name. Runtimes append to an
    existing file: one of an earlier container starts with that container's output.
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
    """An existing container. log_path: where its output is on the target."""

    id: str
    name: str
    sandbox: SandboxHandle
    log_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """The runtime's status of a container.

    exit_code: None until it exited. reason: as reported, "OOMKilled", "Completed", "Error". resources: what the runtime
    reports as requested (not what the kernel holds); None if it does not report them.
    """

    state: ContainerState
    exit_code: int | None
    reason: str
    message: str
    resources: ContainerResources | None
    info: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Where a container's requested resources can be read on their way to its cgroup's files.

    spec: the OCI specification that the daemon stores, None without a daemon or if it does not report it. config,
    state, log: possible files on the target of the bundle's config.json, of the OCI runtime's own state (state.json),
    and of its log; the first one that exists counts, and there may be none.
    """

    spec: Mapping[str, object] | None = None
    config: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call, for evidence.

    at: wall clock, ISO 8601 in UTC, when the call began; seconds: how long the answer took. reply: None after an error,
    which is in `error`.
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
    """The verbs of a container runtime. Each raises RuntimeCallError for an error answer."""

    @property
    def name(self) -> str:
        """Its name in reports: containerd+runc."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this runtime supports."""
        ...

    def version(self, *, deadline: Deadline) -> RuntimeVersion:
        """The runtime's own answer."""
        ...

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:
        """Create and start a pod's sandbox; the pod cgroup must exist."""
        ...

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """Create a container without starting it."""
        ...

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """Start a created container."""
        ...

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """Change the resources of a running container; unspecified ones stay."""
        ...

    def update_sandbox(
        self,
        sandbox: SandboxHandle,
        *,
        overhead: ContainerResources,
        resources: ContainerResources,
        deadline: Deadline,
    ) -> None:
        """Pass the runtime the pod's new size; one without this call raises an error with the code UNIMPLEMENTED."""
        ...

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:
        """The container's state, exit code and reason."""
        ...

    def traces(self, container: ContainerHandle, *, deadline: Deadline) -> Traces:
        """Where a container's resources can be read on their way to its cgroup."""
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
        """Close the connection."""
        ...


@runtime_checkable
class SpeaksCri(Protocol):
    """Verbs of a runtime with Capability.CRI: usage of pods and containers, and its cgroup driver."""

    @property
    def reported_driver(self) -> CgroupDriver | None:
        """The cgroup driver that it reports; None if it does not support RuntimeConfig."""
        ...

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """ContainerStats with CRI's field names; a field that the runtime omits is missing, not zero."""
        ...

    def sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """PodSandboxStats, likewise."""
        ...

    def listed_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:
        """ListContainerStats of the containers in this sandbox."""
        ...

    def listed_sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:
        """ListPodSandboxStats with this sandbox's id."""
        ...

    def listed(self, *, deadline: Deadline) -> frozenset[str]:
        """ListPodSandbox and ListContainers: the ids of all sandboxes and containers, in any state."""
        ...


@runtime_checkable
class SpeaksDocker(Protocol):
    """Verbs of a runtime with Capability.HOST_CONFIG: requests in Docker's own words, and its stats.

    config: the resource fields of HostConfig, by their names in the API.
    """

    def create_as(
        self, sandbox: SandboxHandle, spec: ContainerSpec, config: Mapping[str, int | str], *, deadline: Deadline
    ) -> ContainerHandle:
        """Create a container without starting it, with this instead of the spec's resources."""
        ...

    def update_as(self, container: ContainerHandle, config: Mapping[str, int | str], *, deadline: Deadline) -> None:
        """Update only the named fields."""
        ...

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """A running container's usage, with the API's names."""
        ...


@runtime_checkable
class SpeaksOci(Protocol):
    """Verbs of a runtime with Capability.BUNDLE: requests in the words of the OCI runtime specification."""

    def create_from(
        self, sandbox: SandboxHandle, spec: ContainerSpec, request: OciRequest, *, deadline: Deadline
    ) -> ContainerHandle:
        """Create a container without starting it, with this instead of the spec's resources."""
        ...

    def update_with(self, container: ContainerHandle, request: OciRequest, *, deadline: Deadline) -> None:
        """Update only the named fields, by a document or by command line options."""
        ...

    def stats_event(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """A running container's usage from `events --stats`: the event's `data`."""
        ...

    def follow(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """Have `events` follow a container from now until its end or removal."""
        ...

    def followed(self, container: ContainerHandle, *, deadline: Deadline) -> Sequence[str]:
        """The types of its events until now, such as "oom"."""
        ...


@runtime_checkable
class KubeletsRuntime(Runtime, Protocol):
    """A runtime that a kubelet may share: it lists the sandboxes of all its clients, as CRI servers do."""

    def sandboxes(self, *, deadline: Deadline) -> Mapping[str, str]:
        """The pod uid of every sandbox, by the sandbox's id, running or not."""
        ...


class Call:
    """A running call. reply: the answer, None until then and for an error."""

    reply: Mapping[str, object] | None = None


class RecordedCalls:
    """Passes every call to a recorder, one at a time, from any thread."""

    def __init__(self, record: CallRecorder) -> None:
        self._record = record
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def call(self, method: str, request: Mapping[str, object], deadline: Deadline) -> Iterator[Call]:
        """Recorded when the context ends, with its reply or the raised error."""
        call, trouble = Call(), "there was no answer"
        at, began = utc_now().isoformat(timespec="milliseconds"), deadline.clock.now()
        try:
            yield call
        except MemqosError as error:
            trouble = str(error)
            raise
        finally:
            record = CallRecord(
                method=method,
                at=at,
                seconds=deadline.clock.now() - began,
                request=request,
                reply=call.reply,
                error=trouble if call.reply is None else "",
            )
            with self._lock:
                self._record(record)


_ID = re.compile(r"\w[\w.-]{0,254}", re.ASCII)
_SHOWN = 100


def late(runtime: str, method: str, deadline: Deadline, *, data: Mapping[str, object]) -> DeadlineError:
    """The error for a call without an answer in time."""
    condition = f"{runtime} answers {method}"
    return DeadlineError(
        f"waited {deadline.elapsed:.1f} s for '{condition}'; there was no answer.",
        data={**data, "condition": condition, "last": None, "elapsed": deadline.elapsed},
    )


def gone(runtime: str, method: str, details: str, *, data: Mapping[str, object]) -> MachineryError:
    """The error if nothing listens at the other end."""
    return MachineryError(
        f"{runtime} does not answer: {details}",
        where=method,
        next_step="Check whether the runtime's service runs on the machine, and its journal.",
        data=data,
    )


def usable_id(runtime: str, method: str, text: str) -> str:
    """The id that a runtime assigned; MachineryError for one that no cgroup and no folder can have."""
    if not _ID.fullmatch(text):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise MachineryError(
            f"{runtime} answered with {shown!r}, which is not an id.",
            where=method,
            next_step="An id has only letters, digits, '.', '-' and '_', and begins with a letter or a digit.",
            data={"id": text},
        )
    return text
