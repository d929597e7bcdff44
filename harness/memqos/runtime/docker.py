"""The adapter of the Docker Engine: its SDK over a local UNIX socket; `docker_wire` builds the requests.

Only this module imports the SDK. Docker has no pods: a pod is a cgroup parent and a label. `engine.translate.docker`
turns a CRI request into a HostConfig; fields without a counterpart are not requested.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import docker
from memqos.clock import Deadline
from memqos.engine.translate import docker as dockerd
from memqos.engine.translate.docker import HostConfig
from memqos.engine.translate.podman import podman_created, podman_request, podman_updated
from memqos.engine.translate.resources import OciResources
from memqos.errors import MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime import base, docker_wire
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
    usable_id,
)

__all__ = ["DockerRuntime", "connect_docker"]


def in_memqos_terms(error: Exception, *, method: str, runtime: str, deadline: Deadline) -> MachineryError:
    """Translates the SDK's errors to memqos's; the only place that knows them."""
    if isinstance(error, docker.errors.APIError):
        return refusal(runtime, method, error.status_code or 0, str(error.explanation or error))
    data = {"method": method, "code": type(error).__name__, "details": str(error)}
    if deadline.expired:
        return base.late(runtime, method, deadline, data=data)
    return base.gone(runtime, method, str(error), data=data)


@contextlib.contextmanager
def passing_over(status: int) -> Iterator[None]:
    """Treat this answer as: nothing to do."""
    try:
        yield
    except RuntimeCallError as error:
        if error.data["code"] != str(status):
            raise


def refusal(runtime: str, method: str, code: object, details: str) -> RuntimeCallError:
    """The error for an answer of the engine, or of memqos in its place, that is no success."""
    return RuntimeCallError(
        f"{runtime} answered {code}: {details}",
        where=method,
        data={"method": method, "code": str(code), "details": details},
    )


Answer = TypeVar("Answer")

_NOT_FOUND, _CONFLICT, _NOT_MODIFIED = 404, 409, 304
_LEAST_SECONDS = 0.001
"""The SDK cannot take a timeout of zero."""


@contextlib.contextmanager
def connect_docker(
    socket: Path,
    *,
    name: str,
    oci_runtime: str,
    driver: CgroupDriver,
    record: CallRecorder = keep_none,
    deadline: Deadline,
) -> Iterator[DockerRuntime]:
    """A Docker Engine behind this local socket, until the context ends.

    name: its name in reports. oci_runtime: the runtime that creates its containers. driver: the cgroup driver that it
    must have. Raises MachineryError if nothing answers, EnvironmentNotAbleError for an engine with another driver.
    """
    runtime = DockerRuntime(socket, name=name, oci_runtime=oci_runtime, driver=driver, record=record)
    runtime.greet(deadline=deadline)
    yield runtime


class DockerRuntime:
    """The Runtime port over Docker's API, and the verbs that only Docker has. Created by `connect_docker`.

    Several threads may use one: each call has a client of its own.
    """

    def __init__(
        self, socket: Path, *, name: str, oci_runtime: str, driver: CgroupDriver, record: CallRecorder
    ) -> None:
        self._socket = socket
        self._name = name
        self._oci_runtime = oci_runtime
        self._driver = driver
        self._calls = RecordedCalls(record)
        self._api = "auto"
        self._engine = docker_wire.Engine()
        self._asked: dict[str, OciResources] = {}

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self._name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What an engine supports."""
        return docker_wire.OF_PODMAN if self._engine.is_podman else docker_wire.CAPABILITIES

    def greet(self, *, deadline: Deadline) -> None:
        """Query the API's version, and check that the engine is the expected one."""
        version, info = self.version(deadline=deadline), self.info(deadline=deadline)
        self._api = version.api_version
        self._engine = docker_wire.engine_from(version, info)
        docker_wire.check_driver(info, self._driver, name=self._name)

    def info(self, *, deadline: Deadline) -> Mapping[str, Any]:
        """GET /info: the cgroup driver and the runtimes of the engine, among much else."""
        answer: Mapping[str, Any] = self._call("SystemInfo", {}, lambda client: client.info(), deadline)
        return answer

    def version(self, *, deadline: Deadline) -> RuntimeVersion:
        """GET /version."""
        return docker_wire.version_from(self._call("SystemVersion", {}, lambda client: client.version(), deadline))

    def has_image(self, image: str, *, deadline: Deadline) -> bool:
        """Whether the engine's store has an image of this name."""
        found = self._call("ImageList", {"image": image}, lambda client: client.images(name=image), deadline)
        return bool(found)

    def import_image(self, image: str, program: str, root: bytes, *, deadline: Deadline) -> None:
        """Create an image from a root file system, a tar with a program in it; nothing is pulled."""
        repository, _, tag = image.rpartition(":")
        self._call(
            "ImageCreate",
            {"image": image, "bytes": len(root)},
            lambda client: client.import_image_from_data(
                root, repository=repository, tag=tag, changes=docker_wire.entry_of(program)
            ),
            deadline,
        )

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:  # noqa: ARG002 - nothing is run
        """Only names it: no process is needed for a pod whose containers share no network."""
        return SandboxHandle(id=uuid.uuid4().hex, spec=spec)

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """POST /containers/create, with the fields that HostConfig has."""
        asked = self._words("ContainerCreate", spec.resources, None)
        handle = self.create_as(sandbox, spec, asked, deadline=deadline)
        is_podman = self._engine.is_podman
        self._asked[handle.id] = podman_created(asked) if is_podman else dockerd.docker_created(asked).resources
        return handle

    def create_as(
        self, sandbox: SandboxHandle, spec: ContainerSpec, config: HostConfig, *, deadline: Deadline
    ) -> ContainerHandle:
        """The same with these fields of HostConfig instead of the spec's resources."""
        document = docker_wire.create_document(
            sandbox, spec, config, driver=self._driver, oci_runtime=self._oci_runtime
        )
        answer = self._call(
            "ContainerCreate", document, lambda client: client.create_container_from_config(document), deadline
        )
        container_id = usable_id(self.name, "ContainerCreate", str(answer["Id"]))
        log_path = self._engine.log_path(container_id)
        return ContainerHandle(id=container_id, name=spec.name, sandbox=sandbox, log_path=log_path)

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """POST /containers/ID/start; for a running container "not modified", an error here."""
        status = self._post("ContainerStart", container, "start", None, deadline)
        if status == _NOT_MODIFIED:
            raise refusal(self._name, "ContainerStart", status, "the container runs already")

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """POST /containers/ID/update with everything requested so far, as containerd does."""
        before = self._asked.get(container.id, OciResources())
        asked = self._words("ContainerUpdate", resources, before)
        self.update_as(container, asked, deadline=deadline)
        is_podman = self._engine.is_podman
        after = podman_updated(before, asked) if is_podman else dockerd.docker_updated({}, asked).resources
        self._asked[container.id] = after

    def update_as(self, container: ContainerHandle, config: HostConfig, *, deadline: Deadline) -> None:
        """The same with only these fields of HostConfig."""
        self._post("ContainerUpdate", container, "update", docker_wire.update_document(config), deadline)

    def update_sandbox(
        self,
        sandbox: SandboxHandle,
        *,
        overhead: ContainerResources,  # noqa: ARG002 - a sandbox is a name alone
        resources: ContainerResources,  # noqa: ARG002
        deadline: Deadline,  # noqa: ARG002
    ) -> None:
        """Docker has no pods."""
        raise refusal(self._name, "UpdatePodSandboxResources", "UNIMPLEMENTED", f"there is no sandbox {sandbox.id}")

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:
        """GET /containers/ID/json."""
        request = {"id": container.id}
        answer = self._call(
            "ContainerInspect", request, lambda client: client.inspect_container(container.id), deadline
        )
        return docker_wire.status_from(answer)

    def traces(self, container: ContainerHandle, *, deadline: Deadline) -> Traces:  # noqa: ARG002 - no call is made
        """The bundle that was created for the engine, and the OCI runtime's state."""
        return self._engine.traces(container.id, driver=self._driver, oci_runtime=self._oci_runtime)

    def exec(
        self, container: ContainerHandle, argv: tuple[str, ...], *, deadline: Deadline
    ) -> tuple[int, bytes, bytes]:
        """POST /containers/ID/exec, and its result."""

        def run(client: Any) -> Mapping[str, Any]:
            made = client.exec_create(container.id, list(argv))["Id"]
            stdout, stderr = client.exec_start(made, demux=True)
            return {"code": client.exec_inspect(made)["ExitCode"], "stdout": stdout or b"", "stderr": stderr or b""}

        answer = self._call("ContainerExec", {"id": container.id, "argv": list(argv)}, run, deadline)
        return int(answer["code"]), answer["stdout"], answer["stderr"]

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """GET /containers/ID/stats, one reading without a wait, with Docker's field names."""
        answer: Mapping[str, object] = self._call(
            "ContainerStats",
            {"id": container.id},
            lambda client: client.stats(container.id, stream=False, one_shot=True),
            deadline,
        )
        return answer

    def stop(self, container: ContainerHandle, *, grace: int, deadline: Deadline) -> None:
        """POST /containers/ID/stop: TERM, then KILL after `grace` seconds; an immediate KILL is another call."""
        if grace:
            self._call(
                "ContainerStop",
                {"id": container.id, "t": grace},
                lambda client: client.stop(container.id, timeout=grace),
                deadline,
            )
            return
        with passing_over(_CONFLICT):
            self._call("ContainerKill", {"id": container.id}, lambda client: client.kill(container.id), deadline)
        self._call("ContainerWait", {"id": container.id}, lambda client: client.wait(container.id), deadline)

    def remove(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """DELETE /containers/ID with force; a missing container is not an error."""
        self._remove(container.id, deadline=deadline)

    def remove_sandbox(self, sandbox: SandboxHandle, *, deadline: Deadline) -> None:
        """The same for all containers with its label."""
        label = f"{docker_wire.SANDBOX_LABEL}={sandbox.id}"
        found: Sequence[Mapping[str, Any]] = self._call(
            "ContainerList",
            {"label": label},
            lambda client: client.containers(all=True, filters={"label": label}),
            deadline,
        )
        for one in found:
            self._remove(str(one["Id"]), deadline=deadline)

    def close(self) -> None:
        """Nothing stays open."""

    def _remove(self, container_id: str, *, deadline: Deadline) -> None:
        with passing_over(_NOT_FOUND):
            self._call(
                "ContainerDelete",
                {"id": container_id},
                lambda client: client.remove_container(container_id, force=True, v=True),
                deadline,
            )
        self._asked.pop(container_id, None)

    def _post(
        self, method: str, container: ContainerHandle, verb: str, body: Mapping[str, object] | None, deadline: Deadline
    ) -> int:
        """A call whose status the SDK does not return, or whose body it cannot express."""

        def post(client: Any) -> Mapping[str, Any]:
            url = f"{client.base_url}/v{client.api_version}/containers/{container.id}/{verb}"
            response = client.post(url, json=body, timeout=client.timeout)
            try:
                response.raise_for_status()
            except OSError as error:
                docker.errors.create_api_error_from_http_exception(error)
            return {"status": response.status_code, "body": response.text}

        return int(self._call(method, {"id": container.id, **(body or {})}, post, deadline)["status"])

    def _client(self, deadline: Deadline) -> Any:
        timeout = max(deadline.remaining, _LEAST_SECONDS)
        return docker.APIClient(base_url=f"unix://{self._socket}", version=self._api, timeout=timeout)

    def _call(
        self, method: str, request: Mapping[str, object], act: Callable[[Any], Answer], deadline: Deadline
    ) -> Answer:
        """One call, with its record: request and answer."""
        with self._calls.call(method, request, deadline) as call:
            try:
                with contextlib.closing(self._client(deadline)) as client:
                    answer = act(client)
            except (docker.errors.DockerException, OSError) as error:
                raise in_memqos_terms(error, method=method, runtime=self._name, deadline=deadline) from error
            call.reply = {"answer": answer}
        return answer

    def _words(self, method: str, resources: ContainerResources, stored: OciResources | None) -> HostConfig:
        """A CRI request as a HostConfig. stored: what reached the OCI runtime until now, None for a creation."""
        try:
            if self._engine.is_podman:
                return podman_request(resources, stored=stored).host_config
            return dockerd.docker_request(resources, stored=stored or OciResources()).host_config
        except ValueError as error:
            raise refusal("memqos", method, "INVALID_ARGUMENT", str(error)) from error
