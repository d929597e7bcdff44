"""Cgroup paths: the kubelet's names, and the path of a name under each cgroup driver.

A name is a tuple of components, ("kubepods", "burstable", "pod<uid>"). The cgroupfs driver joins them; the systemd
driver makes slices, in which "-" separates components, so "-" inside a component becomes "_".
Sources: kubelet `CgroupName`, `ToSystemd`, `ParseSystemdToCgroupName`; libcontainer `ExpandSlice`; containerd, CRI-O
and moby `WithCgroups` for the container's own name.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from memqos.model.node import CgroupDriver, RuntimeFlavour
from memqos.model.path import CgroupPath
from memqos.model.pod import QosClass

__all__ = [
    "CRUN_SUBGROUP",
    "CgroupName",
    "Layout",
    "cgroup_path",
    "expand_slice",
    "kubepods_name",
    "name_of_path",
    "pod_name",
    "pod_uid",
    "qos_name",
    "reserved_path",
    "root_name",
]

CgroupName = tuple[str, ...]
CRUN_SUBGROUP = "container"
"""The cgroup below a container's scope in which crun keeps the processes."""

_SLICE = ".slice"
_CLASS_NAMES = {QosClass.BURSTABLE: "burstable", QosClass.BEST_EFFORT: "besteffort"}


def kubepods_name(cgroup_root: str, *, cgroups_per_qos: bool = True) -> CgroupName:
    """The parent of all pods: `cgroupRoot` ("" is the root), with "kubepods" below it unless cgroupsPerQOS is off."""
    root = root_name(cgroup_root)
    return (*root, "kubepods") if cgroups_per_qos else root


def root_name(configured: str) -> CgroupName:
    """The name in `cgroupRoot`; no components mean the root."""
    return tuple(part for part in configured.split("/") if part)


def qos_name(kubepods: CgroupName, qos: QosClass) -> CgroupName:
    """The parent of a class's pods; Guaranteed pods are directly below kubepods."""
    return (*kubepods, _CLASS_NAMES[qos]) if qos in _CLASS_NAMES else kubepods


def pod_name(kubepods: CgroupName, qos: QosClass, uid: str) -> CgroupName:
    """A pod's cgroup; for a static pod `uid` is the configuration's hash."""
    return (*qos_name(kubepods, qos), f"pod{uid}")


def pod_uid(name: CgroupName, kubepods: CgroupName) -> str:
    """The uid in the name of a pod's cgroup below `kubepods`; "" for any other name.

    Source: kubelet `podContainerManagerImpl.IsPodCgroup`.
    """
    parents = [qos_name(kubepods, qos) for qos in (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)]
    if not name or name[:-1] not in parents:
        return ""
    prefix, _, uid = name[-1].partition("pod")
    return uid if not prefix and "pod" not in uid else ""


def cgroup_path(name: CgroupName, driver: CgroupDriver) -> CgroupPath:
    """The path of a name under a driver; no components mean the root."""
    if driver is CgroupDriver.CGROUPFS:
        return CgroupPath(name)
    if not name:
        return CgroupPath()
    return expand_slice("-".join(part.replace("-", "_") for part in name) + _SLICE)


def expand_slice(unit: str) -> CgroupPath:
    """The path of a slice: "a-b.slice" is /a.slice/a-b.slice, "-.slice" is the root.

    ValueError for an invalid name: without the suffix, with "/", or with empty parts between dashes.
    """
    if not unit.endswith(_SLICE) or len(unit) <= len(_SLICE) or "/" in unit:
        raise ValueError(f"'{unit}' is not the name of a slice")
    stem = unit.removesuffix(_SLICE)
    if stem == "-":
        return CgroupPath()
    parts = stem.split("-")
    if not all(parts):
        raise ValueError(f"'{unit}' is not the name of a slice: no dash at either end, and no two in a row")
    return CgroupPath(tuple("-".join(parts[: depth + 1]) + _SLICE for depth in range(len(parts))))


def name_of_path(path: CgroupPath, driver: CgroupDriver) -> CgroupName:
    """The kubelet's name of a path: the inverse of `cgroup_path`."""
    if driver is CgroupDriver.CGROUPFS or not path.parts:
        return path.parts
    return tuple(part.replace("_", "-") for part in path.name.removesuffix(_SLICE).split("-"))


def reserved_path(configured: str, driver: CgroupDriver) -> CgroupPath:
    """The cgroup behind `systemReservedCgroup` or `kubeReservedCgroup`: with systemd "/sysres" is /sysres.slice."""
    return cgroup_path(name_of_path(CgroupPath.parse(configured), driver), driver)


_PREFIXES = {
    RuntimeFlavour.CONTAINERD: ("cri-containerd-", ""),
    RuntimeFlavour.CRIO: ("crio-", "crio-"),
    RuntimeFlavour.DOCKER: ("docker-", ""),
    RuntimeFlavour.PODMAN: ("libpod-", "libpod-"),
    RuntimeFlavour.BUNDLES: ("memqos-", "memqos-"),
    RuntimeFlavour.OTHER: ("", ""),
}
"""The prefixes of a container's id in the names of its scope and of its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The cgroups of containers below the pod's cgroup, as a node's runtimes name them.

    driver: the cgroup driver. flavour: the CRI runtime whose naming applies. subgroup: the cgroup below a systemd scope
    in which the OCI runtime keeps the processes and writes the files ("container" for crun); "" is the scope itself.
    certain: whether the runtimes are modelled; if not, names are the most common ones, and `found` searches for others.
    sandboxed: whether all containers of a pod run in one sandbox, so that no process is in a container's own cgroup.
    """

    driver: CgroupDriver
    flavour: RuntimeFlavour = RuntimeFlavour.CONTAINERD
    subgroup: str = ""
    certain: bool = True
    sandboxed: bool = False

    def container(self, pod: CgroupPath, container_id: str) -> CgroupPath:
        """The cgroup that holds the processes of the container (or sandbox) of this id."""
        whole = self.whole(pod, container_id)
        return whole.child(self.subgroup) if self.subgroup and self.driver is CgroupDriver.SYSTEMD else whole

    def whole(self, pod: CgroupPath, container_id: str) -> CgroupPath:
        """The cgroup created for the container: a scope of the pod's slice, or a folder below the pod's."""
        scope, folder = _PREFIXES[self.flavour]
        if self.driver is CgroupDriver.SYSTEMD:
            return pod.child(f"{scope}{container_id}.scope")
        return pod.child(f"{folder}{container_id}")

    def found(self, pod: CgroupPath, container_id: str, there: Collection[CgroupPath]) -> CgroupPath:
        """The cgroup with the container's files among the existing ones; `container` if none matches.

        If the cgroup below the scope does not exist, the scope itself. For runtimes that are not modelled, the cgroup
        below the pod whose name contains the id, or its only child with crun's name.
        """
        path, whole = self.container(pod, container_id), self.whole(pod, container_id)
        if self.certain:
            return whole if path not in there and whole in there else path
        named = [one for one in there if one.parts and one.parent == pod and container_id in one.name]
        whole = min(named, key=lambda one: len(one.name), default=whole)
        below = whole.child(CRUN_SUBGROUP)
        return below if below in there else whole
