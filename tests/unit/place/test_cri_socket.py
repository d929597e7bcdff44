"""A server on the socket of --cri-socket: its runtimes, and the error if it does not serve CRI."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from memqos.clock import Deadline
from memqos.config.settings import resolve
from memqos.errors import MachineryError, UnfitFileError, UsageError
from memqos.model.node import CgroupDriver
from memqos.place.discovery import served_at
from memqos.place.opening import check_places, cri_socket
from memqos.place.provisioning import bring_images_served
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc
from memqos.target.fake import FakeTarget
from memqos.target.local import LocalTarget

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS
Serve = Callable[..., str]


class Daemon(cri_pb2_grpc.RuntimeServiceServicer, cri_pb2_grpc.ImageServiceServicer):  # type: ignore[misc]
    """Answers as a runtime of this name. driver: in RuntimeConfig, None for one that does not serve it."""

    def __init__(
        self, name: str, *, driver: CgroupDriver | None = None, handlers: tuple[str, ...] = (), runtimes: object = None
    ) -> None:
        self.name, self.driver, self.handlers, self.runtimes = name, driver, handlers, runtimes
        self.images = {"memqos.local/pause:1"}

    def Version(self, _, __):  # type: ignore[no-untyped-def]  # noqa: N802
        return cri_pb2.VersionResponse(runtime_name=self.name, runtime_version="1.32.13", runtime_api_version="v1")

    def RuntimeConfig(self, _, context):  # type: ignore[no-untyped-def]  # noqa: N802
        if self.driver is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method RuntimeConfig")
        kind = {SYSTEMD: cri_pb2.SYSTEMD, CGROUPFS: cri_pb2.CGROUPFS}[self.driver]
        return cri_pb2.RuntimeConfigResponse(linux=cri_pb2.LinuxRuntimeConfiguration(cgroup_driver=kind))

    def Status(self, _, __):  # type: ignore[no-untyped-def]  # noqa: N802
        info = {"config": json.dumps({"containerd": {"runtimes": self.runtimes}})} if self.runtimes else {}
        named = [cri_pb2.RuntimeHandler(name=name) for name in ("", *self.handlers)]
        return cri_pb2.StatusResponse(info=info, runtime_handlers=named)

    def ImageStatus(self, request, _):  # type: ignore[no-untyped-def]  # noqa: N802
        name = request.image.image
        image = cri_pb2.Image(id=name) if name in self.images else None
        return cri_pb2.ImageStatusResponse(image=image)

    def PullImage(self, request, context):  # type: ignore[no-untyped-def]  # noqa: N802
        if request.image.image.startswith("memqos.local/never"):
            context.abort(grpc.StatusCode.NOT_FOUND, "no registry has it")
        self.images.add(request.image.image)
        return cri_pb2.PullImageResponse(image_ref=request.image.image)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    servers = []

    def start(daemon: Daemon) -> str:
        path = str(tmp_path / "cri.sock")
        server = grpc.server(ThreadPoolExecutor(4))
        cri_pb2_grpc.add_RuntimeServiceServicer_to_server(daemon, server)
        cri_pb2_grpc.add_ImageServiceServicer_to_server(daemon, server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        servers.append(server)
        return path

    yield start
    for server in servers:
        server.stop(None).wait()


def asked(path: str, seconds: float = 20.0, **handlers: str):  # type: ignore[no-untyped-def]
    return served_at(LocalTarget(), path, handlers=handlers, deadline=Deadline.after(seconds))


def test_cri_o_has_its_handlers_with_the_driver_it_reports(serve: Serve) -> None:
    found = asked(serve(Daemon("cri-o", driver=SYSTEMD, handlers=("crun", "runc"))))
    assert list(found) == ["crio+crun", "crio+runc"]
    assert found["crio+crun"].handlers == {SYSTEMD: "crun"}


def test_containerd_has_those_of_its_configuration_under_the_driver_of_each(serve: Serve) -> None:
    runtimes = {
        "plain": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/no/such/crun"}},
        "fast": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/no/such/crun"}},
    }
    found = asked(serve(Daemon("containerd", runtimes=runtimes)), **{"cri+fast": "fast"})
    assert found["containerd+crun"].handlers == {CGROUPFS: "fast"}
    assert found["cri+fast"].handlers == {CGROUPFS: "fast"}
    assert (found["cri+fast"].oci.name, found["cri+fast"].oci.version) == ("crun", "")


def test_a_handler_of_a_silent_server_is_used_as_requested(serve: Serve) -> None:
    found = asked(serve(Daemon("mine")), **{"cri+no-such-program": "no-such-program"})
    assert found["cri+no-such-program"].handlers == {SYSTEMD: "no-such-program", CGROUPFS: "no-such-program"}
    assert found["cri+no-such-program"].oci.name == "no-such-program"


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Callable[[bytes | None], str]]:
    """A socket that sends these bytes to everyone and hangs up, or with None sends nothing at all."""
    listener = socket.socket(socket.AF_UNIX)
    kept = []

    def start(said: bytes | None) -> str:
        path = str(tmp_path / "other.sock")
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                if said is not None:
                    connection.sendall(said)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        return path

    yield start
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for connection in kept:
        connection.close()


@pytest.mark.parametrize("said", [b"", b"220 mail ready\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", None])
def test_a_server_without_cri_is_reported_within_the_deadline(
    answering: Callable[..., str], said: bytes | None
) -> None:
    path = answering(said)
    with pytest.raises(UnfitFileError, match=f"--cri-socket: the server on '{path}' does not serve CRI v1: "):
        asked(path, seconds=2.0)


def test_a_missing_or_dead_socket_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnfitFileError, match=r"the machine has no socket '/no/such\.sock'") as told:
        asked("/no/such.sock")
    assert "--guest-unit" in told.value.next_step
    (tmp_path / "file").write_text("")
    with pytest.raises(UnfitFileError, match="has no socket"):
        asked(str(tmp_path / "file"))
    left = str(tmp_path / "left.sock")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(left)
    with pytest.raises(UnfitFileError, match="does not serve CRI v1"):
        asked(left, seconds=5.0)


def test_missing_images_are_pulled_and_a_failed_pull_is_reported(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = Daemon("cri-o", driver=SYSTEMD)
    path = serve(daemon)
    bring_images_served(LocalTarget(), path, deadline=Deadline.after(20))
    assert len(daemon.images) > 1
    monkeypatch.setattr("memqos.place.provisioning.container_image_name", lambda name: f"memqos.local/never-{name}:1")
    with pytest.raises(UnfitFileError, match=r"has no image memqos\.local/never.*cannot pull it: .*no registry has it"):
        bring_images_served(LocalTarget(), path, deadline=Deadline.after(20))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"runtime": "cri+mine"}, r"--runtime: cri\+mine is a handler of the server on --cri-socket"),
        ({"runtime": "oci:runc,crio+crun"}, r"--runtime: crio\+crun: no profile has CRI-O"),
        ({"cri_socket": "run/mine.sock"}, "--cri-socket: 'run/mine.sock' is not the path of a socket"),
        ({"cri_socket": "/run/" + "x" * 100}, "is not the path of a socket"),
        ({"cri_socket": "/run/a b"}, "is not the path of a socket"),
        ({"cri_socket": "/run/a.sock", "runtime": "oci:runc"}, "--cri-socket: none of the runtimes uses a socket"),
    ],
)
def test_a_server_that_no_machine_has_is_refused_before_one_is_booted(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_places(resolve(given, {}))


@pytest.mark.parametrize("runtime", ["cri+", "cri+a/b", "cri+a b"])
def test_what_names_no_handler_is_no_runtime(runtime: str) -> None:
    with pytest.raises(UsageError, match="there is no runtime"):
        resolve({"runtime": runtime, "cri_socket": "/run/a.sock"}, {})


def test_the_servers_socket_is_given_or_known() -> None:
    assert cri_socket(resolve({}, {})) == ""
    assert cri_socket(resolve({"runtime": "crio+crun", "guest_deb": ["a.deb"]}, {})) == "/run/crio/crio.sock"
    given = {"runtime": "containerd+runc,cri+mine", "cri_socket": "/run/mine/cri.sock"}
    settings = resolve(given, {})
    assert cri_socket(settings) == "/run/mine/cri.sock"
    assert settings.runtime == ("containerd+runc", "cri+mine")


def test_a_machine_that_does_not_answer_is_not_taken_for_a_bad_server() -> None:

    def gone(*_: object) -> None:
        raise MachineryError("the machine is dead.")

    target = FakeTarget(commands={("test", "-S"): lambda *_: (0, b"", b""), ("true",): gone})
    with pytest.raises(MachineryError, match="the machine is dead"):
        served_at(target, "/run/a.sock", handlers={}, deadline=Deadline.after(2))
