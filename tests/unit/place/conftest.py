"""A runtime that knows sandboxes and images, on a real socket of this host."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from memqos.runtime.cri_wire import MADE_BY_LABEL
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc


class Sandboxes(cri_pb2_grpc.RuntimeServiceServicer):  # type: ignore[misc]
    """containerd's answers, and its requests. stuck: ids that it does not remove.

    starting: ids in which a container is being started, which it refuses to remove once. late: an id of memqos that it
    lists only after this many requests for its sandboxes.
    """

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.asked: list[str] = []
        self.stuck: set[str] = set()
        self.starting: set[str] = set()
        self.late: dict[str, int] = {}
        self.known: dict[str, dict[str, str]] = {}

    def add(self, name: str, *, ours: bool) -> None:
        labels = {"io.kubernetes.pod.name": name}
        self.known[name] = labels | {MADE_BY_LABEL: "memqos"} if ours else labels

    def Version(self, _, __):  # type: ignore[no-untyped-def]  # noqa: N802
        return cri_pb2.VersionResponse(runtime_name="containerd", runtime_version="1.7.24", runtime_api_version="v1")

    def ListPodSandbox(self, _, __):  # type: ignore[no-untyped-def]  # noqa: N802
        self.late = {name: count - 1 for name, count in self.late.items()}
        for name in [name for name, count in self.late.items() if count < 0]:
            del self.late[name]
            self.add(name, ours=True)
        items = [
            cri_pb2.PodSandbox(
                id=name,
                metadata=cri_pb2.PodSandboxMetadata(name=name, namespace="default", uid="1", attempt=300),
                created_at=1 << 60,
                labels=labels,
                annotations={"a": "b" * 300},
            )
            for name, labels in self.known.items()
        ]
        return cri_pb2.ListPodSandboxResponse(items=items)

    def StopPodSandbox(self, request, _):  # type: ignore[no-untyped-def]  # noqa: N802
        self.asked.append(f"stop {request.pod_sandbox_id}")
        return cri_pb2.StopPodSandboxResponse()

    def RemovePodSandbox(self, request, context):  # type: ignore[no-untyped-def]  # noqa: N802
        self.asked.append(f"remove {request.pod_sandbox_id}")
        if request.pod_sandbox_id in self.starting:
            self.starting.remove(request.pod_sandbox_id)
            context.abort(grpc.StatusCode.UNKNOWN, "a container is in starting state, can't be removed")
        if request.pod_sandbox_id in self.stuck:
            context.abort(grpc.StatusCode.UNKNOWN, "it is busy")
        self.known.pop(request.pod_sandbox_id, None)
        return cri_pb2.RemovePodSandboxResponse()


@pytest.fixture
def sandboxes(tmp_path: Path) -> Iterator[Sandboxes]:
    service = Sandboxes(tmp_path / "cri.sock")
    server = grpc.server(ThreadPoolExecutor(4))
    cri_pb2_grpc.add_RuntimeServiceServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{service.socket}")
    server.start()
    yield service
    server.stop(None).wait()
