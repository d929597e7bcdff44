"""A wrong CRI server: the gRPC proxy between memqos's client and a right server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from memqos.clock import Deadline
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.mutants.cri_server import WrongServer, open_proxy
from memqos.mutants.table import Change, CriFault
from memqos.runtime.base import ContainerHandle, SandboxHandle, SandboxSpec
from memqos.runtime.cri import CriRuntime, connect
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc

SPEC = SandboxSpec(name="p", namespace="d", uid="u", cgroup_parent="/p", log_directory="/l")
CONTAINER = ContainerHandle(id="c1", name="app", sandbox=SandboxHandle(id="s", spec=SPEC), log_path="")
ASKED = ContainerResources(memory_limit_in_bytes=8192, unified={"memory.high": "4096"})


class Server(cri_pb2_grpc.RuntimeServiceServicer):
    """Answers like containerd 1.7, and keeps the updates."""

    def __init__(self) -> None:
        self.updates = []
        self.uses = 4096

    def Version(self, request, context):  # noqa: N802, ARG002
        return cri_pb2.VersionResponse(
            runtime_name="containerd", runtime_version="1.7.24", runtime_api_version="v1", version="0.1.0"
        )

    def UpdateContainerResources(self, request, context):  # noqa: N802
        self.updates.append(request)
        if request.linux.memory_limit_in_bytes == 1:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too small")
        return cri_pb2.UpdateContainerResourcesResponse()

    def ContainerStatus(self, request, context):  # noqa: N802, ARG002
        status = cri_pb2.ContainerStatus(id=request.container_id, state=cri_pb2.CONTAINER_EXITED, exit_code=137)
        status.reason = "OOMKilled"
        return cri_pb2.ContainerStatusResponse(status=status)

    def ContainerStats(self, request, context):  # noqa: N802, ARG002
        self.uses *= 2
        memory = cri_pb2.MemoryUsage(usage_bytes=cri_pb2.UInt64Value(value=self.uses))
        return cri_pb2.ContainerStatsResponse(stats=cri_pb2.ContainerStats(memory=memory))


@pytest.fixture
def right() -> Server:
    return Server()


@pytest.fixture
def wrong() -> WrongServer:
    return WrongServer()


@pytest.fixture
def runtime(right: Server, wrong: WrongServer, tmp_path: Path) -> Iterator[CriRuntime]:
    server = grpc.server(ThreadPoolExecutor(2))
    cri_pb2_grpc.add_RuntimeServiceServicer_to_server(right, server)
    server.add_insecure_port(f"unix:{tmp_path}/right.sock")
    server.start()
    with (
        open_proxy(tmp_path / "right.sock", wrong) as socket,
        connect(socket, name="containerd+runc", deadline=soon()) as client,
    ):
        yield client
    server.stop(None).wait()


def soon() -> Deadline:
    return Deadline.after(30)


def test_without_a_fault_everything_passes_through(runtime: CriRuntime, right: Server) -> None:
    runtime.update(CONTAINER, ASKED, deadline=soon())
    [seen] = right.updates
    assert (seen.container_id, seen.linux.memory_limit_in_bytes) == ("c1", 8192)
    assert dict(seen.linux.unified) == {"memory.high": "4096"}
    assert runtime.status(CONTAINER, deadline=soon()).reason == "OOMKilled"
    assert runtime.version(deadline=soon()).version == "1.7.24"


def test_the_servers_own_error_is_passed_on(runtime: CriRuntime, wrong: WrongServer) -> None:
    wrong.set_fault(CriFault(method="UpdateContainerResources"))
    with pytest.raises(RuntimeCallError, match="too small") as error:
        runtime.update(CONTAINER, ContainerResources(memory_limit_in_bytes=1), deadline=soon())
    assert error.value.data["code"] == "INVALID_ARGUMENT"


def test_a_request_is_changed_until_the_fault_ends(runtime: CriRuntime, right: Server, wrong: WrongServer) -> None:
    drop = Change(do="drop", field="linux/unified")
    wrong.set_fault(CriFault(method="UpdateContainerResources", request=(drop,)))
    runtime.update(CONTAINER, ASKED, deadline=soon())
    wrong.set_fault(None)
    runtime.update(CONTAINER, ASKED, deadline=soon())
    assert [dict(one.linux.unified) for one in right.updates] == [{}, {"memory.high": "4096"}]


def test_a_reply_is_changed(runtime: CriRuntime, wrong: WrongServer) -> None:
    change = Change(do="set", field="status/reason", to="Error", when="= OOMKilled")
    wrong.set_fault(CriFault(method="ContainerStatus", reply=(change,)))
    assert runtime.status(CONTAINER, deadline=soon()).reason == "Error"


def test_success_without_effect_in_the_second_call(runtime: CriRuntime, right: Server, wrong: WrongServer) -> None:
    wrong.set_fault(CriFault(method="UpdateContainerResources", skip=True, number=2))
    for _ in range(3):
        runtime.update(CONTAINER, ASKED, deadline=soon())
    assert len(right.updates) == 2


@pytest.mark.parametrize(("when", "done"), [("before", 0), ("after", 1)])
def test_a_failure(runtime: CriRuntime, right: Server, wrong: WrongServer, when: str, done: int) -> None:
    wrong.set_fault(CriFault(method="UpdateContainerResources", fail=when))
    with pytest.raises(RuntimeCallError, match="it did not work"):
        runtime.update(CONTAINER, ASKED, deadline=soon())
    assert len(right.updates) == done


def test_the_first_answer_again_and_again(runtime: CriRuntime, wrong: WrongServer) -> None:
    wrong.set_fault(CriFault(method="ContainerStats", of="its first answer"))
    answers = [runtime.stats(CONTAINER, deadline=soon()) for _ in range(2)]
    assert answers[0] == answers[1]
