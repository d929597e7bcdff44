"""PURE translation between memqos' values and CRI v1 messages; `cri` sends them.

Proto3 does not distinguish a zero from an unset number, so 0, "" and empty mean "not specified" on both sides (see
`ContainerResources`).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from memqos.engine.translate.versions import Feature, RuntimeName, traits_of
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime.base import (
    OF_BUNDLES,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    RuntimeVersion,
    SandboxHandle,
    SandboxSpec,
)
from memqos.runtime.proto import cri_pb2

__all__ = [
    "MADE_BY_LABEL",
    "capabilities_of",
    "cgroup_driver_from_wire",
    "configuration_from_wire",
    "container_handle",
    "container_state_from_wire",
    "create_request",
    "log_name",
    "message_json",
    "pid_from_info",
    "resources_from_wire",
    "resources_to_wire",
    "running_from_wire",
    "sandbox_config",
    "sandbox_request",
    "status_from_wire",
    "update_request",
    "version_from_wire",
]

_SCALARS = (
    "cpu_period",
    "cpu_quota",
    "cpu_shares",
    "memory_limit_in_bytes",
    "memory_swap_limit_in_bytes",
    "oom_score_adj",
    "cpuset_cpus",
    "cpuset_mems",
)

MADE_BY_LABEL = "memqos.local/made-by"
"""The label of all sandboxes and containers that memqos creates."""

_STATES: dict[int, ContainerState] = {
    cri_pb2.CONTAINER_CREATED: ContainerState.CREATED,
    cri_pb2.CONTAINER_RUNNING: ContainerState.RUNNING,
    cri_pb2.CONTAINER_EXITED: ContainerState.EXITED,
    cri_pb2.CONTAINER_UNKNOWN: ContainerState.UNKNOWN,
}


def resources_to_wire(resources: ContainerResources) -> cri_pb2.LinuxContainerResources:
    """The message of these resources; hugepage limits keep their order."""
    message = cri_pb2.LinuxContainerResources(**{name: getattr(resources, name) for name in _SCALARS})
    for page_size, limit in resources.hugepage_limits:
        message.hugepage_limits.add(page_size=page_size, limit=limit)
    message.unified.update(resources.unified)
    return message


def resources_from_wire(message: cri_pb2.LinuxContainerResources) -> ContainerResources:
    """The resources of this message."""
    return ContainerResources(
        **{name: getattr(message, name) for name in _SCALARS},
        hugepage_limits=tuple((limit.page_size, limit.limit) for limit in message.hugepage_limits),
        unified=dict(message.unified),
    )


def sandbox_config(spec: SandboxSpec) -> cri_pb2.PodSandboxConfig:
    """The sandbox config as CreateContainer repeats it.

    seccomp and AppArmor are off, so that no filter of a distribution affects what a memory test observes.
    """
    return cri_pb2.PodSandboxConfig(
        metadata=cri_pb2.PodSandboxMetadata(name=spec.name, uid=spec.uid, namespace=spec.namespace),
        log_directory=spec.log_directory,
        labels=_labels(spec),
        linux=cri_pb2.LinuxPodSandboxConfig(
            cgroup_parent=spec.cgroup_parent,
            security_context=cri_pb2.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(), seccomp=_unconfined(), apparmor=_unconfined()
            ),
            overhead=resources_to_wire(spec.overhead),
            resources=resources_to_wire(spec.resources),
        ),
    )


def sandbox_request(spec: SandboxSpec, handler: str) -> cri_pb2.RunPodSandboxRequest:
    """RunPodSandbox; a handler of "" is the runtime's default one."""
    return cri_pb2.RunPodSandboxRequest(config=sandbox_config(spec), runtime_handler=handler)


def create_request(sandbox: SandboxHandle, spec: ContainerSpec) -> cri_pb2.CreateContainerRequest:
    """CreateContainer for a container of this sandbox."""
    config = cri_pb2.ContainerConfig(
        metadata=cri_pb2.ContainerMetadata(name=spec.name),
        image=cri_pb2.ImageSpec(image=spec.image),
        command=spec.command,
        args=spec.args,
        labels=_labels(sandbox.spec) | {"io.kubernetes.container.name": spec.name},
        log_path=log_name(spec),
        linux=cri_pb2.LinuxContainerConfig(
            resources=resources_to_wire(spec.resources),
            security_context=cri_pb2.LinuxContainerSecurityContext(
                namespace_options=_namespaces(), seccomp=_unconfined(), apparmor=_unconfined()
            ),
        ),
    )
    for mount in spec.mounts:
        config.mounts.add(container_path=mount.container_path, host_path=mount.host_path, readonly=mount.readonly)
    return cri_pb2.CreateContainerRequest(
        pod_sandbox_id=sandbox.id, config=config, sandbox_config=sandbox_config(sandbox.spec)
    )


def container_handle(sandbox: SandboxHandle, spec: ContainerSpec, container_id: str) -> ContainerHandle:
    """The handle of a container from CreateContainer's answer."""
    return ContainerHandle(
        id=container_id,
        name=spec.name,
        sandbox=sandbox,
        log_path=posixpath.join(sandbox.spec.log_directory, log_name(spec)),
    )


def log_name(spec: ContainerSpec) -> str:
    """The container's log below the sandbox's log directory."""
    return spec.log or f"{spec.name}.log"


def update_request(container_id: str, resources: ContainerResources) -> cri_pb2.UpdateContainerResourcesRequest:
    """UpdateContainerResources; unspecified ones stay."""
    return cri_pb2.UpdateContainerResourcesRequest(container_id=container_id, linux=resources_to_wire(resources))


def version_from_wire(message: cri_pb2.VersionResponse) -> RuntimeVersion:
    """The runtime's name and version."""
    return RuntimeVersion(
        name=message.runtime_name, version=message.runtime_version, api_version=message.runtime_api_version
    )


def container_state_from_wire(state: int) -> ContainerState:
    """A CRI state; a number that CRI v1 does not know is UNKNOWN."""
    return _STATES.get(state, ContainerState.UNKNOWN)


def status_from_wire(message: cri_pb2.ContainerStatusResponse) -> ContainerStatus:
    """The runtime's status; the exit code is None until the container exited, resources None if not reported."""
    status = message.status
    state = container_state_from_wire(status.state)
    said = status.HasField("resources") and status.resources.HasField("linux")
    return ContainerStatus(
        state=state,
        exit_code=status.exit_code if state is ContainerState.EXITED else None,
        reason=status.reason,
        message=status.message,
        resources=resources_from_wire(status.resources.linux) if said else None,
        info=dict(message.info),
    )


def pid_from_info(status: ContainerStatus) -> int:
    """The first process of a container, from the verbose answer's "info" document.

    Raises RuntimeCallError if there is none: the answer was not verbose, or the container does not run.
    """
    try:
        pid = json.loads(status.info["info"])["pid"]
    except (KeyError, TypeError, ValueError) as error:
        raise RuntimeCallError(
            "the runtime's verbose ContainerStatus has no pid.", data={"info": dict(status.info)}
        ) from error
    if not isinstance(pid, int) or pid <= 0:
        raise RuntimeCallError(f"the runtime's verbose ContainerStatus gives pid {pid!r}.", data={"pid": pid})
    return pid


def cgroup_driver_from_wire(message: cri_pb2.RuntimeConfigResponse) -> CgroupDriver:
    """The driver that the runtime reports; an answer without it means systemd, by proto3's rules."""
    return CgroupDriver.CGROUPFS if message.linux.cgroup_driver == cri_pb2.CGROUPFS else CgroupDriver.SYSTEMD


def capabilities_of(version: RuntimeVersion, *, reports_driver: bool) -> frozenset[Capability]:
    """What a CRI runtime of this name and version supports; an unknown one is assumed to implement all of CRI v1."""
    able = set(Capability) - {Capability.HOST_CONFIG, *OF_BUNDLES}
    if not reports_driver:
        able.discard(Capability.CGROUP_DRIVER_REPORT)
    crio = traits_of(RuntimeName.CRIO, version.version) if version.name == RuntimeName.CRIO else None
    if crio is not None and not crio.has(Feature.UPDATE_KEEPS_UNIFIED):
        able.discard(Capability.UPDATE_UNIFIED)
    return frozenset(able)


def message_json(message: Message) -> dict[str, object]:
    """A message for evidence: CRI's own field names, without unset fields."""
    return dict(MessageToDict(message, preserving_proto_field_name=True))


def _labels(spec: SandboxSpec) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": spec.name,
        "io.kubernetes.pod.namespace": spec.namespace,
        "io.kubernetes.pod.uid": spec.uid,
        MADE_BY_LABEL: "memqos",
    }


def _namespaces() -> cri_pb2.NamespaceOption:
    """The node's own network, so that a sandbox needs no CNI plug-in, and its IPC; PID namespaces are per container.

    A kubelet also separates containers' processes unless the pod says otherwise. With the node's PID namespace
    containerd's shim kills all of a container once more after its end (ShouldKillAllOnExit), which costs a run under
    emulation a twentieth of its time.
    """
    return cri_pb2.NamespaceOption(network=cri_pb2.NODE, pid=cri_pb2.CONTAINER, ipc=cri_pb2.NODE)


def _unconfined() -> cri_pb2.SecurityProfile:
    return cri_pb2.SecurityProfile(profile_type=cri_pb2.SecurityProfile.Unconfined)


def running_from_wire(
    sandboxes: cri_pb2.ListPodSandboxResponse, containers: cri_pb2.ListContainersResponse
) -> dict[str, tuple[str, str, str]]:
    """By id the pod's name, the container's ("" for a sandbox) and the pod's uid, of all that have not ended."""
    pods = {one.id: (one.metadata.name, one.metadata.uid) for one in sandboxes.items}
    found = {one.id: one for one in sandboxes.items if one.state == cri_pb2.SANDBOX_READY}
    running = {id_: (pods[id_][0], "", pods[id_][1]) for id_ in found}
    for one in containers.containers:
        if one.pod_sandbox_id in pods and one.state in {cri_pb2.CONTAINER_RUNNING, cri_pb2.CONTAINER_CREATED}:
            pod, uid = pods[one.pod_sandbox_id]
            running[one.id] = (pod, one.metadata.name, uid)
    return running


def configuration_from_wire(reply: cri_pb2.StatusResponse) -> Mapping[str, Any]:
    """A daemon's configuration from a verbose status; empty if it is not reported."""
    try:
        told = json.loads(reply.info.get("config", "{}"))
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def default_handler(configuration: Mapping[str, Any]) -> str:
    """The default handler of containers, and of containerd's RuntimeConfig; "" if not reported."""
    containerd = configuration.get("containerd")
    return str(containerd.get("defaultRuntimeName") or "") if isinstance(containerd, dict) else ""
