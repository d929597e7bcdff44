"""PURE: requests to the Docker Engine, and the meaning of its answers; documents of its API, 1.41 and later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.engine.translate.docker import HostConfig
from memqos.errors import EnvironmentNotAbleError, MachineryError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.runtime.base import (
    Capability,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    RuntimeVersion,
    SandboxHandle,
    Traces,
)
from memqos.runtime.cri_wire import MADE_BY_LABEL

__all__ = [
    "CAPABILITIES",
    "SANDBOX_LABEL",
    "Engine",
    "cgroup_driver_of",
    "check_driver",
    "create_document",
    "docker_traces",
    "engine_from",
    "entry_of",
    "status_from",
    "update_document",
    "version_from",
]

CAPABILITIES = frozenset(
    {
        Capability.UPDATE,
        Capability.CPUSET_MEMS,
        Capability.SWAP_LIMIT,
        Capability.OOM_REASON,
        Capability.HOST_CONFIG,
    }
)
"""Docker's capabilities: HostConfig has no fields for interface files, and an engine has no RuntimeConfig."""

OF_PODMAN = CAPABILITIES - {Capability.HOST_CONFIG}
"""Podman takes a HostConfig as it sees fit: the claims about that are about the Docker Engine."""

PODMAN = "podman"

SANDBOX_LABEL = "memqos.sandbox"
"""The label that identifies the containers of a pod: Docker has no pods."""

_STATES = {
    "created": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "paused": ContainerState.RUNNING,
    "exited": ContainerState.EXITED,
    "dead": ContainerState.EXITED,
    "initialized": ContainerState.CREATED,
    "stopped": ContainerState.EXITED,
}
"""The last two are Podman's own: not started yet, and ended but not cleaned up (libpod/define/containerstate.go)."""
_NOT_IN_UPDATES = "OomScoreAdj"


def create_document(
    sandbox: SandboxHandle, spec: ContainerSpec, config: HostConfig, *, driver: CgroupDriver, oci_runtime: str
) -> dict[str, object]:
    """The body of `POST /containers/create`: without a network, and confined only by its cgroup.

    config: the resource fields of HostConfig. oci_runtime: as the daemon knows it.
    """
    parent = CgroupPath.parse(sandbox.spec.cgroup_parent)
    host_config: dict[str, object] = {
        **config,
        "CgroupParent": parent.name if driver is CgroupDriver.SYSTEMD else str(parent),
        "Runtime": oci_runtime,
        "NetworkMode": "none",
        "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"],
        "LogConfig": {"Type": "json-file", "Config": {}},
        "Binds": [_bind(one.host_path, one.container_path, readonly=one.readonly) for one in spec.mounts],
    }
    document: dict[str, object] = {
        "Image": spec.image,
        "Cmd": list(spec.args),
        "Labels": {
            SANDBOX_LABEL: sandbox.id,
            "io.kubernetes.pod.name": sandbox.spec.name,
            "io.kubernetes.pod.namespace": sandbox.spec.namespace,
            "io.kubernetes.pod.uid": sandbox.spec.uid,
            "io.kubernetes.container.name": spec.name,
        },
        "HostConfig": host_config,
    }
    return {**document, "Entrypoint": list(spec.command)} if spec.command else document


def _bind(host_path: str, container_path: str, *, readonly: bool) -> str:
    return f"{host_path}:{container_path}:{'ro' if readonly else 'rw'}"


def update_document(config: HostConfig) -> dict[str, object]:
    """The body of `POST /containers/ID/update`, which has no oom_score_adj."""
    return {name: value for name, value in config.items() if name != _NOT_IN_UPDATES}


def entry_of(program: str) -> Sequence[str]:
    """The changes that turn a root file system into the image of a program; a label marks it as memqos's."""
    return [f'ENTRYPOINT ["/{program}"]', "WORKDIR /", f"LABEL {MADE_BY_LABEL}=memqos"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What an engine says of itself. data_root: the folder of its containers. driver: of its storage."""

    is_podman: bool = False
    data_root: str = ""
    driver: str = ""

    def log_path(self, container_id: str) -> str:
        """Where the log driver json-file keeps a container's output, which is Podman's k8s-file by another name."""
        if self.is_podman:
            return f"{self._podmans(container_id)}/ctr.log"
        return f"{self.data_root}/containers/{container_id}/{container_id}-json.log"

    def traces(self, container_id: str, *, driver: CgroupDriver, oci_runtime: str) -> Traces:
        """Where the bundle and the OCI runtime's state may be."""
        if self.is_podman:
            return Traces(config=(f"{self._podmans(container_id)}/config.json",))
        return docker_traces(container_id, driver=driver, oci_runtime=oci_runtime)

    def _podmans(self, container_id: str) -> str:
        return f"{self.data_root}/{self.driver}-containers/{container_id}/userdata"


def engine_from(version: RuntimeVersion, info: Mapping[str, Any]) -> Engine:
    """The engine that answers `GET /version` and `GET /info` like this."""
    return Engine(
        is_podman=version.name == PODMAN,
        data_root=str(info.get("DockerRootDir", "")),
        driver=str(info.get("Driver", "")),
    )


def docker_traces(container_id: str, *, driver: CgroupDriver, oci_runtime: str) -> Traces:
    """Where the bundle and the OCI runtime's state may be: for an engine of memqos's images, or for a stock one."""
    engines = ((f"/run/memqos-docker/{driver}", f"memqos-{driver}"), ("/run/docker", "moby"))
    bundles = [f"/run/containerd/io.containerd.runtime.v2.task/{namespace}/{container_id}" for _, namespace in engines]
    return Traces(
        config=tuple(f"{bundle}/config.json" for bundle in bundles),
        state=tuple(
            f"{folder}/runtime-{oci_runtime}/{namespace}/{container_id}/state.json" for folder, namespace in engines
        ),
        log=tuple(f"{bundle}/log.json" for bundle in bundles),
    )


def version_from(document: Mapping[str, Any]) -> RuntimeVersion:
    """The engine's identity, from `GET /version`; Podman is known by its component "Podman Engine"."""
    components = [str(one.get("Name", "")) for one in document.get("Components") or () if isinstance(one, dict)]
    return RuntimeVersion(
        name=PODMAN if "Podman Engine" in components else "docker",
        version=str(document.get("Version", "")),
        api_version=str(document.get("ApiVersion", "")),
    )


def cgroup_driver_of(document: Mapping[str, Any]) -> str:
    """The daemon's cgroup driver from `GET /info`, "" if not reported."""
    return str(document.get("CgroupDriver", ""))


def check_driver(document: Mapping[str, Any], driver: CgroupDriver, *, name: str) -> None:
    """Check the daemon's cgroup driver; EnvironmentNotAbleError for another. name: the daemon's name in reports."""
    if (found := cgroup_driver_of(document)) != driver:
        raise EnvironmentNotAbleError(
            f"{name} runs with the cgroup driver '{found}', but {driver} is required.",
            next_step="Start dockerd with --exec-opt native.cgroupdriver=…, podman with --cgroup-manager=…, or use "
            "--driver.",
        )


def status_from(document: Mapping[str, Any]) -> ContainerStatus:
    """The status in `GET /containers/ID/json`; MachineryError for an answer without a state.

    The reason is OOMKilled if the daemon reports it, else derived from the exit code with containerd's names.
    """
    said = document.get("State")
    if not isinstance(said, dict):
        raise MachineryError("Docker's answer about a container has no state.", data={"answer": dict(document)})
    state = _STATES.get(str(said.get("Status")), ContainerState.UNKNOWN)
    exit_code = int(said.get("ExitCode", 0)) if state is ContainerState.EXITED else None
    if exit_code is not None and exit_code < 0:
        # Podman's -1: conmon recorded no exit (libpod waitForExitFileAndSync).
        state, exit_code = ContainerState.UNKNOWN, None
    reason = "" if exit_code is None else "Error" if exit_code else "Completed"
    return ContainerStatus(
        state=state,
        exit_code=exit_code,
        reason="OOMKilled" if exit_code is not None and said.get("OOMKilled") else reason,
        message=str(said.get("Error", "")),
        resources=_resources_from(document.get("HostConfig") or {}),
        info={"pid": str(said.get("Pid", 0))},
    )


def _resources_from(config: Mapping[str, Any]) -> ContainerResources:
    """The resources that the daemon reports as requested, as CRI fields."""
    reservation = int(config.get("MemoryReservation") or 0)
    return ContainerResources(
        cpu_period=int(config.get("CpuPeriod") or 0),
        cpu_quota=int(config.get("CpuQuota") or 0),
        cpu_shares=int(config.get("CpuShares") or 0),
        memory_limit_in_bytes=int(config.get("Memory") or 0),
        memory_swap_limit_in_bytes=int(config.get("MemorySwap") or 0),
        oom_score_adj=int(config.get("OomScoreAdj") or 0),
        cpuset_cpus=str(config.get("CpusetCpus") or ""),
        cpuset_mems=str(config.get("CpusetMems") or ""),
        unified={Knob.MEMORY_LOW.value: str(reservation)} if reservation else {},
    )
