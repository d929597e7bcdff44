"""The adapter against a test server on a real socket: calls, records, and errors."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime.base import (
    CallRecord,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    Runtime,
    SandboxHandle,
    SandboxSpec,
)
from memqos.runtime.cri import CriRuntime, connect, traces_of
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc

SPEC = SandboxSpec(name="p", namespace="n", uid="u", cgroup_parent="/p", log_directory="/l")
SANDBOX = SandboxHandle(id="s1", spec=SPEC)
CONTAINER = ContainerHandle(id="c1", name="a", sandbox=SANDBOX, log_path="/l/a.log")


class Service(cri_pb2_grpc.RuntimeServiceServicer):  # type: ignore[misc]
    """A runtime that answers what the test put into `answers`, and records its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []
        self.answers: dict[str, Callable[[object, grpc.ServicerContext], object]] = {}

    def __getattribute__(self, name: str) -> object:
        if not name[0].isupper():
            return super().__getattribute__(name)

        def method(request: object, context: grpc.ServicerContext) -> object:
            self.asked.append((name, request))
            if name not in self.answers:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {name}")
            return self.answers[name](request, context)

        return method


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service()
    service.answers["Version"] = lambda *_: cri_pb2.VersionResponse(
        runtime_name="containerd", runtime_version="1.7.24", runtime_api_version="v1"
    )
    server = grpc.server(ThreadPoolExecutor(4))
    cri_pb2_grpc.add_RuntimeServiceServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{tmp_path}/cri.sock")
    server.start()
    yield service
    server.stop(None).wait()


@pytest.fixture
def records() -> list[CallRecord]:
    return []


@pytest.fixture
def runtime(service: Service, tmp_path: Path, records: list[CallRecord]) -> Iterator[CriRuntime]:
    with connect(
        tmp_path / "cri.sock", name="containerd+runc", handler="runc", record=records.append, deadline=soon()
    ) as it:
        yield it


def soon() -> Deadline:
    return Deadline.after(10)


def test_it_is_a_runtime(runtime: CriRuntime) -> None:
    assert isinstance(runtime, Runtime)
    assert runtime.version(deadline=soon()).version == "1.7.24"


def test_a_runtime_that_does_not_report_its_driver(runtime: CriRuntime) -> None:
    assert runtime.reported_driver is None
    assert Capability.CGROUP_DRIVER_REPORT not in runtime.capabilities


def test_a_runtime_that_does(service: Service, tmp_path: Path) -> None:
    config = cri_pb2.LinuxRuntimeConfiguration(cgroup_driver=cri_pb2.CGROUPFS)
    service.answers["RuntimeConfig"] = lambda *_: cri_pb2.RuntimeConfigResponse(linux=config)
    service.answers["Status"] = lambda *_: cri_pb2.StatusResponse()
    with connect(tmp_path / "cri.sock", name="x", deadline=soon()) as runtime:
        assert runtime.reported_driver is CgroupDriver.CGROUPFS
        assert Capability.CGROUP_DRIVER_REPORT in runtime.capabilities


@pytest.mark.parametrize(
    ("handler", "driver"), [("runc", CgroupDriver.SYSTEMD), ("runc-cgroupfs", None), ("", CgroupDriver.SYSTEMD)]
)
def test_the_default_handlers_driver_is_not_assumed_for_another(
    service: Service, tmp_path: Path, handler: str, driver: CgroupDriver | None
) -> None:
    config = cri_pb2.LinuxRuntimeConfiguration(cgroup_driver=cri_pb2.SYSTEMD)
    service.answers["RuntimeConfig"] = lambda *_: cri_pb2.RuntimeConfigResponse(linux=config)
    told = json.dumps({"containerd": {"defaultRuntimeName": "runc"}})
    service.answers["Status"] = lambda *_: cri_pb2.StatusResponse(info={"config": told})
    with connect(tmp_path / "cri.sock", name="x", handler=handler, deadline=soon()) as runtime:
        assert runtime.reported_driver is driver
        assert (Capability.CGROUP_DRIVER_REPORT in runtime.capabilities) is (driver is not None)


def test_the_handler_is_the_specs_own_or_the_adapters(service: Service, runtime: CriRuntime) -> None:
    service.answers["RunPodSandbox"] = lambda *_: cri_pb2.RunPodSandboxResponse(pod_sandbox_id="s1")
    assert runtime.run_sandbox(SPEC, deadline=soon()) == SANDBOX
    other = SandboxSpec(name="p", namespace="n", uid="u", cgroup_parent="/p", log_directory="/l", handler="crun")
    runtime.run_sandbox(other, deadline=soon())
    assert [request.runtime_handler for name, request in service.asked if name == "RunPodSandbox"] == ["runc", "crun"]


def test_a_container_is_created_and_updated(service: Service, runtime: CriRuntime) -> None:
    service.answers["CreateContainer"] = lambda *_: cri_pb2.CreateContainerResponse(container_id="c1")
    service.answers["UpdateContainerResources"] = lambda *_: cri_pb2.UpdateContainerResourcesResponse()
    container = runtime.create(SANDBOX, ContainerSpec(name="a", image="i"), deadline=soon())
    assert container == CONTAINER
    runtime.update(container, ContainerResources(unified={"memory.high": "4096"}), deadline=soon())
    assert service.asked[-1][1].linux.unified == {"memory.high": "4096"}


def test_a_sandbox_is_stopped_before_it_is_removed(service: Service, runtime: CriRuntime) -> None:
    service.answers["StopPodSandbox"] = lambda *_: cri_pb2.StopPodSandboxResponse()
    service.answers["RemovePodSandbox"] = lambda *_: cri_pb2.RemovePodSandboxResponse()
    runtime.remove_sandbox(SANDBOX, deadline=soon())
    assert [name for name, _ in service.asked[-2:]] == ["StopPodSandbox", "RemovePodSandbox"]


STOPPED_LATE = "failed to set removing state for container c1: container is still running, to stop first"


@pytest.mark.parametrize(("refusals", "removed"), [(1, True), (2, False)])
def test_a_sandbox_of_which_a_container_ends_late_is_stopped_once_more(
    service: Service, runtime: CriRuntime, refusals: int, removed: bool
) -> None:
    refused: list[int] = []

    def remove(_: object, context: grpc.ServicerContext) -> cri_pb2.RemovePodSandboxResponse:
        if len(refused) < refusals:
            refused.append(1)
            context.abort(grpc.StatusCode.UNKNOWN, STOPPED_LATE)
        return cri_pb2.RemovePodSandboxResponse()

    service.answers["StopPodSandbox"] = lambda *_: cri_pb2.StopPodSandboxResponse()
    service.answers["RemovePodSandbox"] = remove
    with contextlib.nullcontext() if removed else pytest.raises(RuntimeCallError, match="still running"):
        runtime.remove_sandbox(SANDBOX, deadline=soon())
    assert [name for name, _ in service.asked[-4:]] == ["StopPodSandbox", "RemovePodSandbox"] * 2


def test_every_call_is_recorded_with_its_answer_or_its_error(
    service: Service, runtime: CriRuntime, records: list[CallRecord]
) -> None:
    service.answers["StopContainer"] = lambda _, context: context.abort(grpc.StatusCode.NOT_FOUND, "no container c1")
    with pytest.raises(RuntimeCallError):
        runtime.stop(CONTAINER, grace=3, deadline=soon())
    assert [record.method for record in records] == ["Version", "RuntimeConfig", "StopContainer"]
    assert records[0].reply == {
        "runtime_name": "containerd",
        "runtime_version": "1.7.24",
        "runtime_api_version": "v1",
    }
    assert records[2].request == {"container_id": "c1", "timeout": "3"}
    assert records[2].reply is None
    assert "no container c1" in records[2].error


def test_an_error_keeps_method_code_and_details(service: Service, runtime: CriRuntime) -> None:
    service.answers["StartContainer"] = lambda _, context: context.abort(grpc.StatusCode.UNKNOWN, "runc create failed")
    with pytest.raises(
        RuntimeCallError, match=r"StartContainer: containerd\+runc answered UNKNOWN: runc create failed"
    ) as caught:
        runtime.start(CONTAINER, deadline=soon())
    assert caught.value.data == {"method": "StartContainer", "code": "UNKNOWN", "details": "runc create failed"}


def test_a_timeout_names_the_call(service: Service, runtime: CriRuntime) -> None:
    def late(_: object, context: grpc.ServicerContext) -> object:
        while context.is_active():
            Deadline.after(0).clock.sleep(0.02)
        return cri_pb2.StartContainerResponse()

    service.answers["StartContainer"] = late
    with pytest.raises(DeadlineError, match=r"'containerd\+runc answers StartContainer'"):
        runtime.start(CONTAINER, deadline=Deadline.after(0.2))


INTERRUPTED = """
import os, signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc
from memqos.runtime.cri import connect
from tests.unit.runtime.test_cri import CONTAINER, SPEC

def say(word):
    # In one write: two threads may say something at the same time.
    os.write(1, f"{word}\\n".encode())

class Slow(cri_pb2_grpc.RuntimeServiceServicer):
    def Version(self, *_):
        return cri_pb2.VersionResponse(runtime_name="containerd", runtime_version="1.7.24")

    def RunPodSandbox(self, _, context):
        os.kill(os.getpid(), signal.SIGINT)
        SYSTEM_CLOCK.sleep(0.5)
        say("started" if context.is_active() else "cancelled")
        return cri_pb2.RunPodSandboxResponse(pod_sandbox_id="s1")

    def StartContainer(self, _, context):
        os.kill(os.getpid(), signal.SIGINT)
        while context.is_active():
            SYSTEM_CLOCK.sleep(0.02)
        say("cancelled")

server = grpc.server(ThreadPoolExecutor(4))
cri_pb2_grpc.add_RuntimeServiceServicer_to_server(Slow(), server)
server.add_insecure_port(f"unix:{sys.argv[1]}")
server.start()
given = {"start": CONTAINER, "run_sandbox": SPEC}[sys.argv[2]]
with connect(Path(sys.argv[1]), name="x", deadline=Deadline.after(10)) as runtime:
    try:
        getattr(runtime, sys.argv[2])(given, deadline=Deadline.after(60))
    except KeyboardInterrupt:
        say("interrupted")
server.stop(None).wait()
"""


@pytest.mark.parametrize(("asked", "became"), [("run_sandbox", "started"), ("start", "cancelled")])
def test_an_interrupt_lets_the_start_of_a_sandbox_finish(tmp_path: Path, asked: str, became: str) -> None:
    argv = [sys.executable, "-c", INTERRUPTED, f"{tmp_path}/cri.sock", asked]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert set(done.stdout.split()) == {became, "interrupted"}, done


def test_a_missing_server_is_a_machinery_error_and_not_an_answer(tmp_path: Path) -> None:
    with (
        pytest.raises(MachineryError, match="does not answer") as caught,
        connect(tmp_path / "none.sock", name="containerd+runc", deadline=soon()),
    ):
        pass
    assert not isinstance(caught.value, RuntimeCallError)


def test_any_other_refusal_of_runtimeconfig_is_not_swallowed(service: Service, tmp_path: Path) -> None:
    service.answers["RuntimeConfig"] = lambda _, context: context.abort(grpc.StatusCode.INTERNAL, "broken")
    with pytest.raises(RuntimeCallError, match="broken"), connect(tmp_path / "cri.sock", name="x", deadline=soon()):
        pass


def test_several_threads_share_one_adapter(runtime: CriRuntime, records: list[CallRecord]) -> None:
    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(lambda _: runtime.version(deadline=soon()), range(20)))
    assert len(versions) == 20
    assert len(records) == 22


def test_lists_of_leftovers_of_a_dead_run(service: Service, runtime: CriRuntime) -> None:
    item = cri_pb2.PodSandbox(id="s9", metadata=cri_pb2.PodSandboxMetadata(uid="u9"))
    service.answers["ListPodSandbox"] = lambda *_: cri_pb2.ListPodSandboxResponse(items=[item])
    assert runtime.sandboxes(deadline=soon()) == {"s9": "u9"}


def test_a_list_of_running_pods(service: Service, runtime: CriRuntime) -> None:
    def sandbox(number: int, state: int) -> object:
        metadata = cri_pb2.PodSandboxMetadata(name=f"p{number}", uid=f"u{number}")
        return cri_pb2.PodSandbox(id=f"s{number}", metadata=metadata, state=state)

    def container(name: str, sandbox: str, state: int) -> object:
        metadata = cri_pb2.ContainerMetadata(name=name)
        return cri_pb2.Container(id=f"id-{name}", pod_sandbox_id=sandbox, metadata=metadata, state=state)

    pods = [sandbox(1, cri_pb2.SANDBOX_READY), sandbox(2, cri_pb2.SANDBOX_NOTREADY)]
    inside = [
        container("runs", "s1", cri_pb2.CONTAINER_RUNNING),
        container("ended", "s1", cri_pb2.CONTAINER_EXITED),
        container("stays", "s2", cri_pb2.CONTAINER_RUNNING),
        container("of-nobody", "s3", cri_pb2.CONTAINER_RUNNING),
    ]
    service.answers["ListPodSandbox"] = lambda *_: cri_pb2.ListPodSandboxResponse(items=pods)
    service.answers["ListContainers"] = lambda *_: cri_pb2.ListContainersResponse(containers=inside)
    assert runtime.running(deadline=soon()) == {
        "s1": ("p1", "", "u1"),
        "id-runs": ("p1", "runs", "u1"),
        "id-stays": ("p2", "stays", "u2"),
    }
    assert runtime.listed(deadline=soon()) == {"s1", "s2", "id-runs", "id-ended", "id-stays", "id-of-nobody"}


def test_statistics_omit_what_the_runtime_omits(service: Service, runtime: CriRuntime) -> None:
    memory = cri_pb2.MemoryUsage(usage_bytes=cri_pb2.UInt64Value(value=4096))
    stats = cri_pb2.ContainerStats(memory=memory)
    service.answers["ContainerStats"] = lambda *_: cri_pb2.ContainerStatsResponse(stats=stats)
    assert runtime.stats(CONTAINER, deadline=soon()) == {"memory": {"usage_bytes": {"value": "4096"}}}


def test_listed_statistics_are_those_of_one_sandbox(service: Service, runtime: CriRuntime) -> None:
    memory = cri_pb2.MemoryUsage(usage_bytes=cri_pb2.UInt64Value(value=4096))
    container = cri_pb2.ContainerStats(attributes=cri_pb2.ContainerAttributes(id="c"), memory=memory)
    pod = cri_pb2.PodSandboxStats(linux=cri_pb2.LinuxPodSandboxStats(memory=memory, containers=[container]))
    service.answers["ListContainerStats"] = lambda *_: cri_pb2.ListContainerStatsResponse(stats=[container])
    service.answers["ListPodSandboxStats"] = lambda *_: cri_pb2.ListPodSandboxStatsResponse(stats=[pod])
    values = {"attributes": {"id": "c"}, "memory": {"usage_bytes": {"value": "4096"}}}
    assert runtime.listed_stats(CONTAINER.sandbox, deadline=soon()) == [values]
    linux = {"memory": values["memory"], "containers": [values]}
    assert runtime.listed_sandbox_stats(CONTAINER.sandbox, deadline=soon()) == [{"linux": linux}]
    [of_containers, of_pods] = [request for method, request in service.asked if method.startswith("List")]
    sandbox = CONTAINER.sandbox.id
    assert of_containers == cri_pb2.ListContainerStatsRequest(filter={"pod_sandbox_id": sandbox})
    assert of_pods == cri_pb2.ListPodSandboxStatsRequest(filter={"id": sandbox})


SPECIFICATION = {"linux": {"resources": {"memory": {"limit": 67108864}}}}


@pytest.mark.parametrize(
    ("info", "spec"),
    [
        ({"info": json.dumps({"pid": 17, "runtimeSpec": SPECIFICATION})}, SPECIFICATION),
        ({"info": json.dumps({"pid": 17})}, None),
        ({"info": json.dumps({"runtimeSpec": "hidden"})}, None),
        ({"info": "no document"}, None),
        ({}, None),
    ],
)
def test_what_is_kept_of_a_container_is_in_the_verbose_status(
    service: Service, runtime: CriRuntime, info: dict[str, str], spec: object
) -> None:
    service.answers["ContainerStatus"] = lambda *_: cri_pb2.ContainerStatusResponse(info=info)
    traces = runtime.traces(CONTAINER, deadline=soon())
    assert service.asked[-1][1].verbose
    assert traces.spec == spec
    assert traces.config == ("/run/containerd/io.containerd.runtime.v2.task/k8s.io/c1/config.json",)
    assert traces.state == ("/run/containerd/runc/k8s.io/c1/state.json",)
    assert traces.log == ("/run/containerd/io.containerd.runtime.v2.task/k8s.io/c1/log.json",)


@pytest.mark.parametrize(
    ("daemon", "config"),
    [
        (
            "cri-o",
            (
                "/run/containers/storage/overlay-containers/c1/userdata/config.json",
                "/var/lib/containers/storage/overlay-containers/c1/userdata/config.json",
            ),
        ),
        ("somebody", ()),
    ],
)
def test_each_daemon_keeps_bundles_at_its_own_place(daemon: str, config: tuple[str, ...]) -> None:
    status = ContainerStatus(
        state=ContainerState.RUNNING, exit_code=None, reason="", message="", resources=None, info={}
    )
    assert traces_of(daemon, "c1", status).config == config


class Passage:
    """A socket in front of the server's, which forwards until it is cut."""

    def __init__(self, place: Path, behind: Path) -> None:
        self.place, self._behind = place, behind
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._behind))
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)

    def cut(self, *, saying: bytes = b"") -> None:
        """Hang up on everybody, after these bytes, and let nobody in again."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                if saying:
                    end.sendall(saying)
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def passage(service: Service, tmp_path: Path) -> Iterator[Passage]:
    passage = Passage(tmp_path / "passage.sock", tmp_path / "cri.sock")
    yield passage
    passage.cut()


@pytest.mark.parametrize("saying", [b"", b"HTTP/1.1 500 Internal Server Error\r\n\r\n", bytes(4096)])
def test_a_server_that_dies_in_mid_call_is_machinery_and_the_call_is_kept(
    service: Service, passage: Passage, records: list[CallRecord], saying: bytes
) -> None:
    """No part of its answer about the request came: a runtime that refuses sends one."""

    def dies(_: object, context: grpc.ServicerContext) -> object:
        passage.cut(saying=saying)
        return cri_pb2.StartContainerResponse()

    service.answers["StartContainer"] = dies
    with connect(passage.place, name="containerd+runc", record=records.append, deadline=soon()) as runtime:
        for _ in range(2):
            with pytest.raises(MachineryError) as caught:
                runtime.start(CONTAINER, deadline=Deadline.after(5))
            assert not isinstance(caught.value, RuntimeCallError)
    kept = [record for record in records if record.method == "StartContainer"]
    assert [(record.request, record.reply) for record in kept] == [({"container_id": "c1"}, None)] * 2
    assert all(record.error for record in kept)


def test_words_of_many_megabytes_are_an_error_of_the_runtime(service: Service, runtime: CriRuntime) -> None:
    service.answers["StartContainer"] = lambda _, context: context.abort(grpc.StatusCode.UNKNOWN, "x" * (64 << 20))
    with pytest.raises(MachineryError) as caught:
        runtime.start(CONTAINER, deadline=soon())
    assert len(str(caught.value)) < 10_000
    service.answers["StartContainer"] = lambda *_: cri_pb2.StartContainerResponse()
    runtime.start(CONTAINER, deadline=soon())


@pytest.mark.parametrize("given", ["", "..", "a/b", "../../x", "-f", "a b", "a\nb", "a\0b", "é", "x" * 4096])
def test_an_id_that_no_cgroup_can_have_is_machinery(service: Service, runtime: CriRuntime, given: str) -> None:
    """It would become part of paths."""
    service.answers["RunPodSandbox"] = lambda *_: cri_pb2.RunPodSandboxResponse(pod_sandbox_id=given)
    service.answers["CreateContainer"] = lambda *_: cri_pb2.CreateContainerResponse(container_id=given)
    for method, ask in (
        ("RunPodSandbox", lambda: runtime.run_sandbox(SPEC, deadline=soon())),
        ("CreateContainer", lambda: runtime.create(SANDBOX, ContainerSpec(name="a", image="i"), deadline=soon())),
    ):
        with pytest.raises(
            MachineryError, match=f"{method}: containerd.runc answered with .*which is not an id"
        ) as caught:
            ask()
        assert not isinstance(caught.value, RuntimeCallError)
        assert len(str(caught.value)) < 400
