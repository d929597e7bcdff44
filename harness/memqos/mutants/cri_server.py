"""Wrong CRI servers: a proxy in front of a machine's server, and the same faults over the fake runtime.

Both change messages as JSON with CRI's own field names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from memqos.clock import Deadline
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.mutants.programs.oci_runtime import changed
from memqos.mutants.table import CriFault
from memqos.ownership import temporary_folder
from memqos.runtime import cri_wire
from memqos.runtime.base import ContainerHandle, ContainerSpec, ContainerState, ContainerStatus, SandboxHandle
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.proto import cri_pb2

__all__ = ["WrongServer", "open_proxy", "plant_server"]

_SERVICE = "/runtime.v1.RuntimeService/"
_MOST_BYTES = (("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20))
_THREADS = 8
_SECONDS = 120.0

Json = dict[str, Any]


class RefusedCallError(Exception):
    """The wrong server's error; its text is the gRPC status's details."""


class WrongServer:
    """Holds the fault of a server, another for each mutant. fault: the current one; None for a right server."""

    def __init__(self) -> None:
        self.fault: CriFault | None = None
        self._calls = 0
        self._first: Json | None = None
        self._containers: list[str] = []

    def set_fault(self, fault: CriFault | None) -> None:
        """Set the fault for the calls from now on."""
        self.fault, self._calls, self._first = fault, 0, None

    def concerns(self, method: str) -> bool:
        """Whether the fault needs the messages of this method."""
        return method == "CreateContainer" or (self.fault is not None and self.fault.method == method)

    def answer(self, method: str, request: Json, passes_on: Callable[[Json], Json]) -> Json:
        """The reply to a call. passes_on: calls the right server. Raises RefusedCallError."""
        fault = self.fault
        if fault is None or fault.method != method:
            return self._seen(method, passes_on(request))
        self._calls += 1
        if fault.number not in {0, self._calls}:
            return self._seen(method, passes_on(request))
        if fault.fail == "before":
            raise RefusedCallError("it did not work")
        if fault.skip:
            return {}
        changed(request, [one.document() for one in fault.request])
        if fault.of == "another container" and self._containers:
            mine = request.get("container_id", "")
            request["container_id"] = next((one for one in self._containers if one != mine), mine)
        reply = passes_on(request)
        if fault.of == "its first answer":
            self._first = self._first or reply
            reply = self._first
        changed(reply, [one.document() for one in fault.reply])
        if fault.fail == "after":
            raise RefusedCallError("it did not work")
        return self._seen(method, reply)

    def _seen(self, method: str, reply: Json) -> Json:
        if method == "CreateContainer" and reply.get("container_id"):
            self._containers.append(str(reply["container_id"]))
        return reply


# ---- a proxy


@contextlib.contextmanager
def open_proxy(socket: Path, server: WrongServer) -> Iterator[Path]:
    """A socket with a proxy to the CRI server on this socket; the proxy adds the fault."""
    with temporary_folder("memqos-cri-") as folder, contextlib.ExitStack() as stack:
        options = (("grpc.default_authority", "localhost"), *_MOST_BYTES)
        channel = stack.enter_context(grpc.insecure_channel(f"unix:{socket}", options=options))
        proxy = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="cri-proxy"), options=_MOST_BYTES)
        proxy.add_generic_rpc_handlers((_Handlers(channel, server),))
        path = folder / "cri.sock"
        proxy.add_insecure_port(f"unix:{path}")
        proxy.start()
        stack.callback(lambda: proxy.stop(grace=None).wait())
        yield path


class _Handlers(grpc.GenericRpcHandler):
    """Handles every method; bytes pass unchanged unless the fault concerns the method."""

    def __init__(self, channel: grpc.Channel, server: WrongServer) -> None:
        self._channel, self._server = channel, server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler of a method."""
        path = handler_call_details.method

        def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
            left = context.time_remaining()
            seconds = _SECONDS if left is None else min(left, _SECONDS)
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(path)
            try:
                return self._answered(path.removeprefix(_SERVICE), data, lambda raw: bytes(call(raw, timeout=seconds)))
            except RefusedCallError as error:
                context.abort(grpc.StatusCode.UNKNOWN, str(error))
            except grpc.RpcError as error:
                context.abort(error.code(), error.details() or "")
            raise AssertionError

        return grpc.unary_unary_rpc_method_handler(answer)

    def _answered(self, method: str, data: bytes, call: Callable[[bytes], bytes]) -> bytes:
        if not self._server.concerns(method):
            return call(data)
        asked, told = getattr(cri_pb2, f"{method}Request"), getattr(cri_pb2, f"{method}Response")

        def passes_on(request: Json) -> Json:
            return cri_wire.message_json(told.FromString(call(_message(request, asked()))))

        request = cri_wire.message_json(asked.FromString(data))
        return _message(self._server.answer(method, request, passes_on), told())


def _message(document: Json, message: Message) -> bytes:
    """The bytes of a message, without fields that CRI does not define."""
    ParseDict(document, message, ignore_unknown_fields=True)
    return message.SerializeToString()


# ---- in memory


def plant_server(runtime: FakeRuntime, server: WrongServer) -> None:
    """Add the switch's faults to this fake runtime."""
    planted = _FaultyRuntime(runtime, server)
    for name in _PLANTED:
        setattr(runtime, name, getattr(planted, name))


_PLANTED = (
    "create",
    "update",
    "status",
    "stats",
    "listed_stats",
    "sandbox_stats",
    "listed_sandbox_stats",
    "exec",
    "update_sandbox",
)
"""The methods of the fake that a fault can change."""


class _FaultyRuntime:
    """The methods of the fake that a fault can change."""

    def __init__(self, runtime: FakeRuntime, server: WrongServer) -> None:
        self._server = server
        self._create, self._update, self._status = runtime.create, runtime.update, runtime.status
        self._stats, self._sandbox_stats, self._exec = runtime.stats, runtime.sandbox_stats, runtime.exec
        self._listed_stats, self._listed_sandbox_stats = runtime.listed_stats, runtime.listed_sandbox_stats
        self._update_sandbox = runtime.update_sandbox
        self._handles: dict[str, ContainerHandle] = {}

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """CreateContainer."""
        handles: list[ContainerHandle] = []

        def passes_on(request: Json) -> Json:
            message = ParseDict(request, cri_pb2.CreateContainerRequest(), ignore_unknown_fields=True)
            resources = cri_wire.resources_from_wire(message.config.linux.resources)
            handles.append(self._create(sandbox, replace(spec, resources=resources), deadline=deadline))
            return {"container_id": handles[0].id}

        request = cri_wire.message_json(cri_wire.create_request(sandbox, spec))
        self._answer("CreateContainer", request, passes_on)
        self._handles[handles[0].id] = handles[0]
        return handles[0]

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """UpdateContainerResources."""

        def passes_on(request: Json) -> Json:
            message = ParseDict(request, cri_pb2.UpdateContainerResourcesRequest(), ignore_unknown_fields=True)
            meant = self._handles.get(message.container_id, container)
            self._update(meant, cri_wire.resources_from_wire(message.linux), deadline=deadline)
            return {}

        request = cri_wire.message_json(cri_wire.update_request(container.id, resources))
        self._answer("UpdateContainerResources", request, passes_on)

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:
        """ContainerStatus."""

        def passes_on(request: Json) -> Json:
            meant = self._handles.get(request["container_id"], container)
            return cri_wire.message_json(_status_message(self._status(meant, deadline=deadline)))

        reply = self._answer("ContainerStatus", {"container_id": container.id}, passes_on)
        return cri_wire.status_from_wire(
            ParseDict(reply, cri_pb2.ContainerStatusResponse(), ignore_unknown_fields=True)
        )

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """ContainerStats."""

        def passes_on(request: Json) -> Json:
            meant = self._handles.get(request["container_id"], container)
            return {"stats": dict(self._stats(meant, deadline=deadline))}

        reply = self._answer("ContainerStats", {"container_id": container.id}, passes_on)
        stats: Mapping[str, object] = reply.get("stats", {})
        return stats

    def sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """PodSandboxStats."""

        def passes_on(_: Json) -> Json:
            return {"stats": dict(self._sandbox_stats(sandbox, deadline=deadline))}

        reply = self._answer("PodSandboxStats", {"pod_sandbox_id": sandbox.id}, passes_on)
        stats: Mapping[str, object] = reply.get("stats", {})
        return stats

    def listed_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:
        """ListContainerStats."""

        def passes_on(_: Json) -> Json:
            return {"stats": [dict(one) for one in self._listed_stats(sandbox, deadline=deadline)]}

        return self._listed("ListContainerStats", {"pod_sandbox_id": sandbox.id}, passes_on)

    def listed_sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:
        """ListPodSandboxStats."""

        def passes_on(_: Json) -> Json:
            return {"stats": [dict(one) for one in self._listed_sandbox_stats(sandbox, deadline=deadline)]}

        return self._listed("ListPodSandboxStats", {"id": sandbox.id}, passes_on)

    def _listed(self, method: str, asked: Json, passes_on: Callable[[Json], Json]) -> Sequence[Mapping[str, object]]:
        stats: Sequence[Mapping[str, object]] = self._answer(method, {"filter": asked}, passes_on).get("stats", [])
        return stats

    def exec(
        self, container: ContainerHandle, argv: tuple[str, ...], *, deadline: Deadline
    ) -> tuple[int, bytes, bytes]:
        """ExecSync."""
        answers: list[tuple[int, bytes, bytes]] = []

        def passes_on(request: Json) -> Json:
            meant = self._handles.get(request["container_id"], container)
            answers.append(self._exec(meant, argv, deadline=deadline))
            return {"exit_code": answers[0][0]}

        reply = self._answer("ExecSync", {"container_id": container.id}, passes_on)
        return (int(reply.get("exit_code", 0)), b"", b"")

    def update_sandbox(
        self,
        sandbox: SandboxHandle,
        *,
        overhead: ContainerResources,
        resources: ContainerResources,
        deadline: Deadline,
    ) -> None:
        """UpdatePodSandboxResources."""

        def passes_on(_: Json) -> Json:
            self._update_sandbox(sandbox, overhead=overhead, resources=resources, deadline=deadline)
            return {}

        self._answer("UpdatePodSandboxResources", {"pod_sandbox_id": sandbox.id}, passes_on)

    def _answer(self, method: str, request: Json, passes_on: Callable[[Json], Json]) -> Json:
        try:
            return self._server.answer(method, request, passes_on)
        except RefusedCallError as error:
            data = {"method": method, "code": "UNKNOWN", "details": str(error)}
            raise RuntimeCallError(f"fake answered UNKNOWN: {error}", where=method, data=data) from None


_STATES = {
    ContainerState.CREATED: cri_pb2.CONTAINER_CREATED,
    ContainerState.RUNNING: cri_pb2.CONTAINER_RUNNING,
    ContainerState.EXITED: cri_pb2.CONTAINER_EXITED,
    ContainerState.UNKNOWN: cri_pb2.CONTAINER_UNKNOWN,
}


def _status_message(status: ContainerStatus) -> cri_pb2.ContainerStatusResponse:
    told = cri_pb2.ContainerStatus(
        state=_STATES[status.state], exit_code=status.exit_code or 0, reason=status.reason, message=status.message
    )
    if status.resources is not None:
        told.resources.linux.CopyFrom(cri_wire.resources_to_wire(status.resources))
    return cri_pb2.ContainerStatusResponse(status=told)
