"""The API object that a kubelet gets for a pod of the engine's model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memqos.enactor.base import MemoryVolume
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.runtime.base import Mount

__all__ = ["NODE_NAME", "RUNTIME_CLASS", "pod_manifest"]

NODE_NAME = "memqos"
RUNTIME_CLASS = "memqos"
"""The RuntimeClass whose handler is the runtime under test."""


def pod_manifest(
    pod: Pod, qos_class: str, mounts: Mapping[str, Sequence[Mount]], memory: Sequence[MemoryVolume] = ()
) -> dict[str, Any]:
    """The object. mounts: by container name. memory: for all containers.

    Pods use the host's network, since the machine has no network plugin, and restartPolicy Never. Priority and overhead
    are those of the admitted pod.
    """
    spec: dict[str, Any] = {
        "nodeName": NODE_NAME,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {},
        "runtimeClassName": RUNTIME_CLASS,
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container(one, mounts.get(one.name, ()), memory) for one in pod.containers],
        "volumes": [*_volumes(mounts), *map(_memory_volume, memory)],
    }
    if pod.init_containers:
        spec["initContainers"] = [_container(one, mounts.get(one.name, ()), memory) for one in pod.init_containers]
    if pod.resources is not None:
        spec["resources"] = _resources(pod.resources)
    if pod.overhead:
        spec["overhead"] = {name: str(amount) for name, amount in pod.overhead.items()}
    if pod.priority is not None:
        spec["priority"] = pod.priority
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "annotations": dict(pod.annotations)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": qos_class},
    }


def _container(container: Container, mounts: Sequence[Mount], memory: Sequence[MemoryVolume]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": "Never",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": _resources(container.resources),
        "volumeMounts": [
            *({"name": _volume_name(one), "mountPath": one.container_path, "readOnly": one.readonly} for one in mounts),
            *({"name": one.name, "mountPath": one.container_path} for one in memory),
        ],
    }
    if container.command:
        found["command"] = list(container.command)
    if container.args:
        found["args"] = list(container.args)
    if container.resize_policy:
        found["resizePolicy"] = [
            {"resourceName": name, "restartPolicy": str(policy)} for name, policy in container.resize_policy.items()
        ]
    if container.kind is ContainerKind.SIDECAR:
        found["restartPolicy"] = "Always"
    return found


def _resources(resources: Resources) -> dict[str, dict[str, str]]:
    lists = {"requests": resources.requests, "limits": resources.limits}
    return {name: {key: str(amount) for key, amount in found.items()} for name, found in lists.items() if found}


def _volumes(mounts: Mapping[str, Sequence[Mount]]) -> Iterator[dict[str, Any]]:
    unique = {_volume_name(one): one for several in mounts.values() for one in several}
    for name, mount in unique.items():
        yield {"name": name, "hostPath": {"path": mount.host_path, "type": ""}}


def _memory_volume(volume: MemoryVolume) -> dict[str, Any]:
    size = {"sizeLimit": volume.size_limit} if volume.size_limit else {}
    return {"name": volume.name, "emptyDir": {"medium": "Memory", **size}}


def _volume_name(mount: Mount) -> str:
    """A DNS label made from a path."""
    return "host" + "".join(one if one.isalnum() else "-" for one in mount.host_path.lower()).rstrip("-")
