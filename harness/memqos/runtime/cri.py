"""The CRI adapter: gRPC to a runtime over a local UNIX socket; `cri_wire` builds the messages.

Only this module knows gRPC and its codes. Several threads may use one adapter: the channel is thread-safe, and records
are passed on one at a time.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from memqos.clock import Deadline
from memqos.errors import MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime import base, cri_wire
from memqos.runtime.base import (
    CallRecorder,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerStatus,
    RecordedCalls,
    RuntimeVersion,
    SandboxHandle,
    SandboxSpec,
    Traces,
    keep_none,
)
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc

__all__ = ["CriRuntime", "connect", "traces_of"]

FINISHING_SECONDS = 10.0
"""How long a runtime may take to finish a call that an interrupt does not cancel."""

_FINISHED = frozenset({"RunPodSandbox"})
"""Methods not to cancel: a half-created container is removed with its sandbox; a half-created sandbox stays."""

_BROKEN_OFF = ("Stream removed", "Received RST_STREAM", "Received http2 :status header")
"""gRPC's own wording for a missing answer, with codes that a server might also use."""


def answered(
    call: grpc.UnaryUnaryMultiCallable[Message, Message], request: Message, *, method: str, deadline: Deadline
) -> Message:
    """The reply; grpc.RpcError without one. An interrupt waits FINISHING_SECONDS for a sandbox that is being started.

    It would cancel the call, and after a cancellation containerd may fail to clean up: what is left appears some
    seconds later, when memqos no longer looks for it.
    """
    if method not in _FINISHED:
        return call(request, timeout=deadline.remaining)
    outcome: Future[Message] = Future()

    def ask() -> None:
        try:
            outcome.set_result(call(request, timeout=deadline.remaining))
        except Exception as error:  # noqa: BLE001 - it is raised where the reply is waited for
            outcome.set_exception(error)

    # Signals go to the main thread, so none ends this one; gRPC's own futures are left in disorder by one.
    asking = threading.Thread(target=ask, name="memqos-cri", daemon=True)
    try:
        asking.start()
        return outcome.result()
    except KeyboardInterrupt:
        wait([outcome], timeout=FINISHING_SECONDS)
        raise


def error_meant(error: grpc.RpcError, *, method: str, runtime: str, deadline: Deadline) -> MachineryError:
    """The memqos error for one of gRPC's."""
    code, details = error.code(), error.details() or ""
    data = {"method": method, "code": code.name, "details": details}
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return base.late(runtime, method, deadline, data=data)
    if code is grpc.StatusCode.UNAVAILABLE or details.startswith(_BROKEN_OFF):
        return base.gone(runtime, method, details, data=data)
    return RuntimeCallError(f"{runtime} answered {code.name}: {details}", where=method, data=data)


_TASK = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/ID"

_PLACES: Mapping[str, Traces] = {
    "containerd": Traces(
        config=(f"{_TASK}/config.json",),
        state=("/run/containerd/runc/k8s.io/ID/state.json",),
        log=(f"{_TASK}/log.json",),
    ),
    "cri-o": Traces(
        config=tuple(f"{root}/containers/storage/overlay-containers/ID/userdata/config.json"
                     for root in ("/run", "/var/lib")),
        state=("/run/runc/ID/state.json",),
    ),
}  # fmt: skip


def traces_of(daemon: str, container_id: str, status: ContainerStatus) -> Traces:
    """A container's traces. status: a verbose answer, which may have the stored specification in its "info"."""
    try:
        spec = json.loads(status.info["info"])["runtimeSpec"]
    except (KeyError, TypeError, ValueError):
        spec = None
    known = _PLACES.get(daemon, Traces())
    return Traces(
        spec=spec if isinstance(spec, dict) else None,
        config=_of(container_id, known.config),
        state=_of(container_id, known.state),
        log=_of(container_id, known.log),
    )


def _of(container_id: str, places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(place.replace("ID", container_id) for place in places)


_OF_IMAGES = frozenset({"ImageStatus", "PullImage"})
"""The methods of the image service."""

Reply = TypeVar("Reply", bound=Message)

# Go servers reject the percent-encoded socket path that gRPC would otherwise send as :authority.
_CHANNEL_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.enable_retries", 0))


@contextlib.contextmanager
def connect(
    socket: Path, *, name: str, handler: str = "", record: CallRecorder = keep_none, deadline: Deadline
) -> Iterator[CriRuntime]:
    """A CRI runtime behind this local socket, until the context ends.

    name: its name in reports. handler: the runtime's handler for sandboxes whose spec names none; "" is its default.
    Raises MachineryError if nothing answers on the socket.
    """
    with grpc.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS) as channel:
        runtime = CriRuntime(channel, name=name, handler=handler, record=record)
        runtime.greet(deadline=deadline)
        yield runtime


class CriRuntime:
    """The Runtime port over CRI v1, and the verbs that only CRI has. Created by `connect`."""

    def __init__(self, channel: grpc.Channel, *, name: str, handler: str, record: CallRecorder) -> None:
        self._channel = channel
        self._stub: Any = cri_pb2_grpc.RuntimeServiceStub(channel)  # type: ignore[no-untyped-call]
        self._images: Any = cri_pb2_grpc.ImageServiceStub(channel)  # type: ignore[no-untyped-call]
        self._name = name
        self._handler = handler
        self._calls = RecordedCalls(record)
        self._capabilities: frozenset[Capability] = frozenset()
        self._driver: CgroupDriver | None = None
        self._daemon = ""

    @property
    def name(self) -> str:
        """This runtime's name in reports."""
        return self._name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this runtime supports, from its version and its answer to RuntimeConfig."""
        return self._capabilities

    @property
    def reported_driver(self) -> CgroupDriver | None:
        """The cgroup driver; None if the runtime has no RuntimeConfig, or reports it only for another handler."""
        return self._driver

    def greet(self, *, deadline: Deadline) -> None:
        """Query the runtime's version and what it supports."""
        version = self.version(deadline=deadline)
        self._daemon = version.name
        try:
            reply = self._call("RuntimeConfig", cri_pb2.RuntimeConfigRequest(), cri_pb2.RuntimeConfigResponse, deadline)
            default = cri_wire.default_handler(self.configuration(deadline=deadline))
            if not default or self._handler in {"", default}:
                self._driver = cri_wire.cgroup_driver_from_wire(reply)
        except RuntimeCallError as error:
            # containerd before 2.0 does not serve it, and the kubelet then uses its own configuration.
            if error.data["code"] != "UNIMPLEMENTED":
                raise
        self._capabilities = cri_wire.capabilities_of(version, reports_driver=self._driver is not None)

    def version(self, *, deadline: Deadline) -> RuntimeVersion:
        """Version."""
        request = cri_pb2.VersionRequest(version="v1")
        return cri_wire.version_from_wire(self._call("Version", request, cri_pb2.VersionResponse, deadline))

    def conditions(self, *, deadline: Deadline) -> dict[str, bool]:
        """Status: the runtime's conditions (RuntimeReady, NetworkReady) and whether they hold."""
        reply = self._call("Status", cri_pb2.StatusRequest(), cri_pb2.StatusResponse, deadline)
        return {condition.type: condition.status for condition in reply.status.conditions}

    def configuration(self, *, deadline: Deadline) -> Mapping[str, Any]:
        """Status: the daemon's configuration in its own words; empty if it reports none, as CRI-O."""
        request = cri_pb2.StatusRequest(verbose=True)
        return cri_wire.configuration_from_wire(self._call("Status", request, cri_pb2.StatusResponse, deadline))

    def has_image(self, image: str, *, deadline: Deadline) -> bool:
        """ImageStatus: whether the runtime's store has an image of this name."""
        request = cri_pb2.ImageStatusRequest(image=cri_pb2.ImageSpec(image=image))
        return self._call("ImageStatus", request, cri_pb2.ImageStatusResponse, deadline).HasField("image")

    def pull_image(self, image: str, *, deadline: Deadline) -> None:
        """PullImage, as the kubelet does for an image that the store lacks."""
        request = cri_pb2.PullImageRequest(image=cri_pb2.ImageSpec(image=image))
        self._call("PullImage", request, cri_pb2.PullImageResponse, deadline)

    def handlers(self, *, deadline: Deadline) -> tuple[str, ...]:
        """Status: the names of the runtime's handlers; empty if it reports none."""
        reply = self._call("Status", cri_pb2.StatusRequest(), cri_pb2.StatusResponse, deadline)
        return tuple(handler.name for handler in reply.runtime_handlers if handler.name)

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:
        """RunPodSandbox with the spec's handler, or this adapter's if the spec names none."""
        request = cri_wire.sandbox_request(spec, spec.handler or self._handler)
        reply = self._call("RunPodSandbox", request, cri_pb2.RunPodSandboxResponse, deadline)
        return SandboxHandle(id=base.usable_id(self._name, "RunPodSandbox", reply.pod_sandbox_id), spec=spec)

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """CreateContainer."""
        request = cri_wire.create_request(sandbox, spec)
        reply = self._call("CreateContainer", request, cri_pb2.CreateContainerResponse, deadline)
        container_id = base.usable_id(self._name, "CreateContainer", reply.container_id)
        return cri_wire.container_handle(sandbox, spec, container_id)

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """StartContainer."""
        request = cri_pb2.StartContainerRequest(container_id=container.id)
        self._call("StartContainer", request, cri_pb2.StartContainerResponse, deadline)

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """UpdateContainerResources; unspecified ones stay."""
        request = cri_wire.update_request(container.id, resources)
        self._call("UpdateContainerResources", request, cri_pb2.UpdateContainerResourcesResponse, deadline)

    def update_sandbox(
        self,
        sandbox: SandboxHandle,
        *,
        overhead: ContainerResources,
        resources: ContainerResources,
        deadline: Deadline,
    ) -> None:
        """UpdatePodSandboxResources, which the kubelet calls after it wrote the pod cgroup (1.33 and later)."""
        request = cri_pb2.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox.id,
            overhead=cri_wire.resources_to_wire(overhead),
            resources=cri_wire.resources_to_wire(resources),
        )
        self._call("UpdatePodSandboxResources", request, cri_pb2.UpdatePodSandboxResourcesResponse, deadline)

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:
        """ContainerStatus."""
        return self._status(container, verbose=False, deadline=deadline)

    def pid(self, container: ContainerHandle, *, deadline: Deadline) -> int:
        """The container's first process on the target, for /proc/PID; RuntimeCallError if it does not run."""
        return cri_wire.pid_from_info(self._status(container, verbose=True, deadline=deadline))

    def traces(self, container: ContainerHandle, *, deadline: Deadline) -> Traces:
        """ContainerStatus, verbose for the stored specification; and the paths of this daemon's bundles."""
        status = self._status(container, verbose=True, deadline=deadline)
        return traces_of(self._daemon, container.id, status)

    def exec(
        self, container: ContainerHandle, argv: tuple[str, ...], *, deadline: Deadline
    ) -> tuple[int, bytes, bytes]:
        """ExecSync; its timeout, in whole seconds, is the rest of the deadline."""
        request = cri_pb2.ExecSyncRequest(container_id=container.id, cmd=argv, timeout=max(1, int(deadline.remaining)))
        reply = self._call("ExecSync", request, cri_pb2.ExecSyncResponse, deadline)
        return reply.exit_code, reply.stdout, reply.stderr

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """ContainerStats with CRI's field names; a field that the runtime omits is missing, not zero."""
        request = cri_pb2.ContainerStatsRequest(container_id=container.id)
        return cri_wire.message_json(
            self._call("ContainerStats", request, cri_pb2.ContainerStatsResponse, deadline).stats
        )

    def sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """PodSandboxStats, likewise."""
        request = cri_pb2.PodSandboxStatsRequest(pod_sandbox_id=sandbox.id)
        return cri_wire.message_json(
            self._call("PodSandboxStats", request, cri_pb2.PodSandboxStatsResponse, deadline).stats
        )

    def listed_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:
        """ListContainerStats of the containers in this sandbox."""
        request = cri_pb2.ListContainerStatsRequest(filter=cri_pb2.ContainerStatsFilter(pod_sandbox_id=sandbox.id))
        answer = self._call("ListContainerStats", request, cri_pb2.ListContainerStatsResponse, deadline)
        return [cri_wire.message_json(one) for one in answer.stats]

    def listed_sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:
        """ListPodSandboxStats with this sandbox's id."""
        request = cri_pb2.ListPodSandboxStatsRequest(filter=cri_pb2.PodSandboxStatsFilter(id=sandbox.id))
        answer = self._call("ListPodSandboxStats", request, cri_pb2.ListPodSandboxStatsResponse, deadline)
        return [cri_wire.message_json(one) for one in answer.stats]

    def stop(self, container: ContainerHandle, *, grace: int, deadline: Deadline) -> None:
        """StopContainer: TERM, then KILL after `grace` seconds (0: KILL at once)."""
        request = cri_pb2.StopContainerRequest(container_id=container.id, timeout=grace)
        self._call("StopContainer", request, cri_pb2.StopContainerResponse, deadline)

    def remove(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """RemoveContainer, which CRI makes idempotent."""
        request = cri_pb2.RemoveContainerRequest(container_id=container.id)
        self._call("RemoveContainer", request, cri_pb2.RemoveContainerResponse, deadline)

    def remove_sandbox(self, sandbox: SandboxHandle, *, deadline: Deadline) -> None:
        """StopPodSandbox, then RemovePodSandbox, which also removes the containers; both are idempotent in CRI."""
        self.remove_sandbox_by_id(sandbox.id, deadline=deadline)

    def remove_sandbox_by_id(self, sandbox_id: str, *, deadline: Deadline) -> None:
        """The same for a sandbox of which only the id is known, such as a leftover of a killed run.

        It is tried twice, as a kubelet would: a runtime that notices a container's end while it removes the sandbox may
        refuse that, and require that the container be stopped first.
        """
        try:
            self._stop_and_remove_sandbox(sandbox_id, deadline)
        except RuntimeCallError:
            self._stop_and_remove_sandbox(sandbox_id, deadline)

    def _stop_and_remove_sandbox(self, sandbox_id: str, deadline: Deadline) -> None:
        stop = cri_pb2.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("StopPodSandbox", stop, cri_pb2.StopPodSandboxResponse, deadline)
        remove = cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("RemovePodSandbox", remove, cri_pb2.RemovePodSandboxResponse, deadline)

    def sandboxes(self, *, deadline: Deadline) -> dict[str, str]:
        """ListPodSandbox: id to pod uid of every sandbox, running or not."""
        reply = self._call("ListPodSandbox", cri_pb2.ListPodSandboxRequest(), cri_pb2.ListPodSandboxResponse, deadline)
        return {item.id: item.metadata.uid for item in reply.items}

    def listed(self, *, deadline: Deadline) -> frozenset[str]:
        """ListPodSandbox and ListContainers: the ids of all sandboxes and containers, in any state."""
        pods = self._call("ListPodSandbox", cri_pb2.ListPodSandboxRequest(), cri_pb2.ListPodSandboxResponse, deadline)
        inside = self._call("ListContainers", cri_pb2.ListContainersRequest(), cri_pb2.ListContainersResponse, deadline)
        return frozenset(one.id for one in pods.items) | frozenset(one.id for one in inside.containers)

    def foreign_sandboxes(self, *, deadline: Deadline) -> tuple[str, ...]:
        """ListPodSandbox: NAMESPACE/NAME of every sandbox that memqos did not create, running or not."""
        reply = self._call("ListPodSandbox", cri_pb2.ListPodSandboxRequest(), cri_pb2.ListPodSandboxResponse, deadline)
        others = (item.metadata for item in reply.items if cri_wire.MADE_BY_LABEL not in item.labels)
        return tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in others))

    def running(self, *, deadline: Deadline) -> dict[str, tuple[str, str, str]]:
        """ListPodSandbox and ListContainers: the pods that exist now, by id; see `cri_wire.running_from_wire`."""
        pods = self._call("ListPodSandbox", cri_pb2.ListPodSandboxRequest(), cri_pb2.ListPodSandboxResponse, deadline)
        inside = self._call("ListContainers", cri_pb2.ListContainersRequest(), cri_pb2.ListContainersResponse, deadline)
        return cri_wire.running_from_wire(pods, inside)

    def close(self) -> None:
        """Close the connection; closing twice is allowed."""
        self._channel.close()

    def _status(self, container: ContainerHandle, *, verbose: bool, deadline: Deadline) -> ContainerStatus:
        request = cri_pb2.ContainerStatusRequest(container_id=container.id, verbose=verbose)
        return cri_wire.status_from_wire(
            self._call("ContainerStatus", request, cri_pb2.ContainerStatusResponse, deadline)
        )

    def _call(self, method: str, request: Message, reply_type: type[Reply], deadline: Deadline) -> Reply:
        stub = self._images if method in _OF_IMAGES else self._stub
        with self._calls.call(method, cri_wire.message_json(request), deadline) as call:
            try:
                reply = answered(getattr(stub, method), request, method=method, deadline=deadline)
            except grpc.RpcError as error:
                raise error_meant(error, method=method, runtime=self._name, deadline=deadline) from error
            assert isinstance(reply, reply_type)  # noqa: S101 - the stub's own deserializer made it
            call.reply = cri_wire.message_json(reply)
        return reply
