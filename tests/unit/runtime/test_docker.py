"""The adapter of the Docker Engine: its requests over the socket, and the meaning of answers."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from memqos.clock import Deadline
from memqos.errors import DeadlineError, EnvironmentNotAbleError, MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime import docker_wire
from memqos.runtime.base import (
    CallRecord,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    Mount,
    Runtime,
    SandboxHandle,
    SandboxSpec,
    SpeaksDocker,
)
from memqos.runtime.docker import DockerRuntime, connect_docker

MIB = 1 << 20
POD = "/kubepods.slice/kubepods-pod1.slice"
SPEC = SandboxSpec(name="p", namespace="n", uid="1", cgroup_parent=POD, log_directory="/l")
CONTAINER = ContainerSpec(
    name="a",
    image="memqos.local/memload:1",
    args=("hold",),
    mounts=(Mount(container_path="/control", host_path="/run/c", readonly=True),),
    resources=ContainerResources(
        memory_limit_in_bytes=64 * MIB, oom_score_adj=981, unified={"memory.high": "50343936"}
    ),
)
ID = "0a1b"
RUNNING = {"State": {"Status": "running", "Pid": 17, "ExitCode": 0}, "HostConfig": {"Memory": 64 * MIB}}


def soon(seconds: float = 5) -> Deadline:
    return Deadline.after(seconds)


class Engine(socketserver.ThreadingUnixStreamServer):
    """Answers as a test sets, by verb and path without the version; `asked` has the requests, with their bodies."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.path = path
        self.asked: list[tuple[str, Any]] = []
        self.urls: list[str] = []
        self.records: list[CallRecord] = []
        self.release = threading.Event()
        self.answers: dict[str, tuple[int, Any]] = {
            "GET /version": (200, {"Version": "26.1.5+dfsg1", "ApiVersion": "1.45"}),
            "GET /info": (200, {"CgroupDriver": "systemd", "DockerRootDir": "/var/lib/docker"}),
            "POST /containers/create": (201, {"Id": ID}),
            f"POST /containers/{ID}/start": (204, None),
            f"POST /containers/{ID}/update": (200, {"Warnings": None}),
            f"GET /containers/{ID}/json": (200, RUNNING),
        }

    def handle_error(self, *_: object) -> None:
        """A client that no longer waits hangs up: that is the test's matter."""

    def asked_of(self, what: str) -> list[Any]:
        return [body for one, body in self.asked if one == what]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def answer(self) -> None:
        path = re.sub(r"^/v[\d.]+", "", self.path).partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        what = f"{self.command} {path}"
        self.server.urls.append(self.path)
        self.server.asked.append((what, json.loads(body) if body[:1] == b"{" else body))
        status, told = self.server.answers.get(what, (404, {"message": f"No such container: {path}"}))
        if status == 0:
            self.server.release.wait(20)
            return
        told = told() if callable(told) else told
        text = b"" if told is None else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

    def address_string(self) -> str:
        return "local"

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "docker.sock") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def runtime(engine: Engine) -> Iterator[DockerRuntime]:
    with connect_docker(
        engine.path,
        name="docker+runc",
        oci_runtime="runc",
        driver=CgroupDriver.SYSTEMD,
        record=engine.records.append,
        deadline=soon(),
    ) as connected:
        yield connected


@pytest.fixture
def container(runtime: DockerRuntime) -> ContainerHandle:
    return runtime.create(runtime.run_sandbox(SPEC, deadline=soon()), CONTAINER, deadline=soon())


def test_it_is_a_runtime_that_speaks_docker(runtime: DockerRuntime) -> None:
    assert isinstance(runtime, Runtime)
    assert isinstance(runtime, SpeaksDocker)
    assert Capability.HOST_CONFIG in runtime.capabilities
    assert Capability.UNIFIED not in runtime.capabilities
    version = runtime.version(deadline=soon())
    assert (version.name, version.version, version.api_version) == ("docker", "26.1.5+dfsg1", "1.45")


def test_an_engine_with_another_cgroup_driver_is_not_able(engine: Engine) -> None:
    with (
        pytest.raises(EnvironmentNotAbleError, match="cgroup driver 'systemd', but cgroupfs is required"),
        connect_docker(
            engine.path, name="docker+runc", oci_runtime="runc", driver=CgroupDriver.CGROUPFS, deadline=soon()
        ),
    ):
        pass


def test_a_creations_request(engine: Engine, container: ContainerHandle) -> None:
    [asked] = engine.asked_of("POST /containers/create")
    assert asked["Image"] == "memqos.local/memload:1"
    assert asked["Cmd"] == ["hold"]
    assert "Entrypoint" not in asked
    assert asked["Labels"]["memqos.sandbox"] == container.sandbox.id
    assert asked["HostConfig"] == {
        "Memory": 67108864,
        "MemorySwap": 67108864,
        "OomScoreAdj": 981,
        "CgroupParent": "kubepods-pod1.slice",
        "Runtime": "runc",
        "NetworkMode": "none",
        "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"],
        "LogConfig": {"Type": "json-file", "Config": {}},
        "Binds": ["/run/c:/control:ro"],
    }
    assert container.log_path == f"/var/lib/docker/containers/{ID}/{ID}-json.log"


def test_with_the_cgroupfs_driver_the_parent_is_a_path() -> None:
    sandbox = SandboxHandle(
        id="s", spec=SandboxSpec(name="p", namespace="n", uid="1", cgroup_parent="/kubepods/pod1", log_directory="/l")
    )
    spec = ContainerSpec(name="a", image="i", command=("/other",))
    document = docker_wire.create_document(sandbox, spec, {}, driver=CgroupDriver.CGROUPFS, oci_runtime="crun")
    assert document["Entrypoint"] == ["/other"]
    host_config = document["HostConfig"]
    assert isinstance(host_config, dict)
    assert (host_config["CgroupParent"], host_config["Runtime"]) == ("/kubepods/pod1", "crun")


def test_an_update_repeats_earlier_requests(engine: Engine, runtime: DockerRuntime, container: ContainerHandle) -> None:
    runtime.update(container, ContainerResources(cpu_shares=512), deadline=soon())
    runtime.update(container, ContainerResources(memory_limit_in_bytes=96 * MIB), deadline=soon())
    assert engine.asked_of(f"POST /containers/{ID}/update") == [
        {"Memory": 67108864, "MemorySwap": 67108864, "CpuShares": 512},
        {"Memory": 100663296, "MemorySwap": 100663296, "CpuShares": 512},
    ]


def test_host_config_is_passed_unchanged(engine: Engine, runtime: DockerRuntime) -> None:
    sandbox = runtime.run_sandbox(SPEC, deadline=soon())
    container = runtime.create_as(sandbox, CONTAINER, {"Memory": 5, "OomScoreAdj": 3}, deadline=soon())
    runtime.update_as(container, {"MemorySwap": -1, "OomScoreAdj": 3}, deadline=soon())
    [asked] = engine.asked_of("POST /containers/create")
    assert {name: asked["HostConfig"].get(name) for name in ("Memory", "MemorySwap", "OomScoreAdj")} == {
        "Memory": 5, "MemorySwap": None, "OomScoreAdj": 3,
    }  # fmt: skip
    assert engine.asked_of(f"POST /containers/{ID}/update") == [{"MemorySwap": -1}]


def test_starting_a_running_container_is_an_error(
    engine: Engine, runtime: DockerRuntime, container: ContainerHandle
) -> None:
    runtime.start(container, deadline=soon())
    engine.answers[f"POST /containers/{ID}/start"] = (304, None)
    with pytest.raises(RuntimeCallError, match="the container runs already") as caught:
        runtime.start(container, deadline=soon())
    assert caught.value.data["code"] == "304"


def test_a_refusal_keeps_dockers_words(engine: Engine, runtime: DockerRuntime, container: ContainerHandle) -> None:
    engine.answers[f"POST /containers/{ID}/update"] = (400, {"message": "Minimum memory limit allowed is 6MB"})
    with pytest.raises(RuntimeCallError, match=r"docker\+runc answered 400: Minimum memory limit") as caught:
        runtime.update(container, ContainerResources(cpu_shares=2), deadline=soon())
    assert caught.value.data == {
        "method": "ContainerUpdate",
        "code": "400",
        "details": "Minimum memory limit allowed is 6MB",
    }
    refused = engine.records[-1]
    assert (refused.method, refused.reply) == ("ContainerUpdate", None)
    assert refused.request["CpuShares"] == 2
    assert "6MB" in refused.error


def test_what_is_no_amount_is_not_sent(engine: Engine, runtime: DockerRuntime) -> None:
    spec = ContainerSpec(name="a", image="i", resources=ContainerResources(unified={"memory.low": "plenty"}))
    with pytest.raises(RuntimeCallError, match="plenty"):
        runtime.create(runtime.run_sandbox(SPEC, deadline=soon()), spec, deadline=soon())
    assert engine.asked_of("POST /containers/create") == []


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"Status": "created", "ExitCode": 0}, (ContainerState.CREATED, None, "")),
        ({"Status": "running", "ExitCode": 0, "OOMKilled": True}, (ContainerState.RUNNING, None, "")),
        ({"Status": "paused", "ExitCode": 0}, (ContainerState.RUNNING, None, "")),
        ({"Status": "exited", "ExitCode": 0}, (ContainerState.EXITED, 0, "Completed")),
        ({"Status": "exited", "ExitCode": 1}, (ContainerState.EXITED, 1, "Error")),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, (ContainerState.EXITED, 137, "OOMKilled")),
        ({"Status": "dead", "ExitCode": 137}, (ContainerState.EXITED, 137, "Error")),
        ({"Status": "restarting"}, (ContainerState.UNKNOWN, None, "")),
        # Podman's own.
        ({"Status": "initialized", "ExitCode": 0}, (ContainerState.CREATED, None, "")),
        ({"Status": "stopped", "ExitCode": 137, "OOMKilled": True}, (ContainerState.EXITED, 137, "OOMKilled")),
        ({"Status": "stopped", "ExitCode": 0}, (ContainerState.EXITED, 0, "Completed")),
        ({"Status": "stopped", "ExitCode": -1}, (ContainerState.UNKNOWN, None, "")),
        ({"Status": "stopping", "ExitCode": 0}, (ContainerState.UNKNOWN, None, "")),
    ],
)
def test_states(
    engine: Engine,
    runtime: DockerRuntime,
    container: ContainerHandle,
    state: dict[str, Any],
    expected: tuple[ContainerState, int | None, str],
) -> None:
    engine.answers[f"GET /containers/{ID}/json"] = (200, {"State": state})
    status = runtime.status(container, deadline=soon())
    assert (status.state, status.exit_code, status.reason) == expected


def test_resources_reported_by_docker(engine: Engine, runtime: DockerRuntime, container: ContainerHandle) -> None:
    config = {"Memory": 5, "MemorySwap": -1, "MemoryReservation": 4, "CpusetMems": "1", "OomScoreAdj": 3}
    engine.answers[f"GET /containers/{ID}/json"] = (200, {**RUNNING, "HostConfig": config})
    assert runtime.status(container, deadline=soon()).resources == ContainerResources(
        memory_limit_in_bytes=5,
        memory_swap_limit_in_bytes=-1,
        cpuset_mems="1",
        oom_score_adj=3,
        unified={"memory.low": "4"},
    )


def test_an_answer_without_a_state_is_machinery(
    engine: Engine, runtime: DockerRuntime, container: ContainerHandle
) -> None:
    engine.answers[f"GET /containers/{ID}/json"] = (200, {})
    with pytest.raises(MachineryError, match="no state"):
        runtime.status(container, deadline=soon())


def test_stopping_and_removing(engine: Engine, runtime: DockerRuntime, container: ContainerHandle) -> None:
    engine.answers[f"POST /containers/{ID}/stop"] = (304, None)
    runtime.stop(container, grace=3, deadline=soon())
    engine.answers[f"POST /containers/{ID}/kill"] = (409, {"message": "container is not running"})
    engine.answers[f"POST /containers/{ID}/wait"] = (200, {"StatusCode": 0})
    runtime.stop(container, grace=0, deadline=soon())
    engine.answers[f"POST /containers/{ID}/kill"] = (500, {"message": "it does not die"})
    with pytest.raises(RuntimeCallError, match="it does not die"):
        runtime.stop(container, grace=0, deadline=soon())
    runtime.remove(container, deadline=soon())
    engine.answers["GET /containers/json"] = (200, [{"Id": ID}, {"Id": "other"}])
    engine.answers["DELETE /containers/other"] = (204, None)
    runtime.remove_sandbox(container.sandbox, deadline=soon())
    assert [what for what, _ in engine.asked][-3:] == [
        "GET /containers/json", f"DELETE /containers/{ID}", "DELETE /containers/other",
    ]  # fmt: skip


def test_an_image_of_memqos_is_created_from_its_root(engine: Engine, runtime: DockerRuntime) -> None:
    engine.answers["GET /images/json"] = (200, [])
    assert not runtime.has_image("memqos.local/memload:1", deadline=soon())
    engine.answers["POST /images/create"] = (200, {"status": "sha256:1"})
    runtime.import_image("memqos.local/memload:1", "memload", b"a tar", deadline=soon())
    assert engine.asked_of("POST /images/create") == [b"a tar"]
    engine.answers["GET /images/json"] = (200, [{"Id": "sha256:1"}])
    assert runtime.has_image("memqos.local/memload:1", deadline=soon())


def test_stats_have_dockers_names(engine: Engine, runtime: DockerRuntime, container: ContainerHandle) -> None:
    engine.answers[f"GET /containers/{ID}/stats"] = (200, {"memory_stats": {"usage": 5}})
    assert runtime.stats(container, deadline=soon()) == {"memory_stats": {"usage": 5}}


def test_where_its_traces_are(runtime: DockerRuntime, container: ContainerHandle) -> None:
    traces = runtime.traces(container, deadline=soon())
    assert traces.config[0] == f"/run/containerd/io.containerd.runtime.v2.task/memqos-systemd/{ID}/config.json"
    assert traces.state == (
        f"/run/memqos-docker/systemd/runtime-runc/memqos-systemd/{ID}/state.json",
        f"/run/docker/runtime-runc/moby/{ID}/state.json",
    )


def test_docker_has_no_pods(runtime: DockerRuntime, container: ContainerHandle) -> None:
    with pytest.raises(RuntimeCallError, match="there is no sandbox") as caught:
        runtime.update_sandbox(
            container.sandbox, overhead=ContainerResources(), resources=ContainerResources(), deadline=soon()
        )
    assert caught.value.data["code"] == "UNIMPLEMENTED"


def test_an_engine_that_hangs_is_waited_for_no_longer_than_the_deadline(
    engine: Engine, runtime: DockerRuntime, container: ContainerHandle
) -> None:
    engine.answers[f"POST /containers/{ID}/start"] = (0, None)
    with pytest.raises(DeadlineError, match=r"waited .* for 'docker\+runc answers ContainerStart'"):
        runtime.start(container, deadline=soon(0.2))


class HangsUp(socketserver.StreamRequestHandler):
    """Like the connection to an engine that died."""

    def handle(self) -> None:
        """Send nothing."""


class SpeaksHttp2(socketserver.StreamRequestHandler):
    """As a CRI runtime."""

    def handle(self) -> None:
        self.wfile.write(b"PRI * HTTP/2.0\r\n\r\n")


@pytest.mark.parametrize("kind", [HangsUp, SpeaksHttp2])
def test_what_is_no_engine_is_machinery(tmp_path: Path, kind: type[socketserver.StreamRequestHandler]) -> None:
    path = tmp_path / "other.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with (
                pytest.raises(MachineryError, match=r"docker\+runc does not answer") as caught,
                connect_docker(
                    path, name="docker+runc", oci_runtime="runc", driver=CgroupDriver.SYSTEMD, deadline=soon()
                ),
            ):
                pass
            assert not isinstance(caught.value, RuntimeCallError | DeadlineError)
        finally:
            server.shutdown()
            thread.join()
