"""PURE: an OCI bundle's config.json, as container managers make it for a pod's container, and requests to a runtime.

What is asked of memory and CPU is `linux.resources`; all else is the least that programs of container images need, and
the same for every container. Source: the OCI runtime specification 1.0.2, config.md and config-linux.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memqos.engine.translate.resources import OciResources
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.runtime.base import Mount

__all__ = ["PREFIX", "bundle_config", "cgroups_path"]

PREFIX = "memqos"
"""What the names of scopes begin with, as those of containerd do with cri-containerd."""

_CAPABILITIES = tuple(
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
)  # fmt: skip
"""What containerd and Docker leave to a container of root."""

_NAMESPACES = ("pid", "ipc", "uts", "mount", "cgroup")
"""Not the network: no claim is about it, and a namespace of it takes a kernel long to remove."""

_MOUNTS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("/proc", "proc", "proc", ("nosuid", "noexec", "nodev")),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/shm", "tmpfs", "shm", ("nosuid", "noexec", "nodev", "mode=1777", "size=65536k")),  # noqa: S108 - a place in the container
    ("/sys/fs/cgroup", "cgroup", "cgroup", ("nosuid", "noexec", "nodev", "relatime", "ro")),
)


def cgroups_path(parent: CgroupPath, container_id: str, driver: CgroupDriver) -> str:
    """`linux.cgroupsPath`: "SLICE:memqos:ID" for the systemd driver, a folder below the parent for cgroupfs."""
    if driver is CgroupDriver.SYSTEMD:
        return f"{parent.name}:{PREFIX}:{container_id}"
    return str(parent.child(f"{PREFIX}-{container_id}"))


def bundle_config(
    *,
    args: Sequence[str],
    cgroups_path: str,
    resources: OciResources,
    oom_score_adj: int,
    mounts: Sequence[Mount] = (),
    annotations: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """config.json of a container whose root file system is the bundle's folder `rootfs`.

    args: the program and its arguments. oom_score_adj: of its process, -1000 to 1000; always said, since a process
    would else have that of whoever starts it.
    """
    resources_document: dict[str, object] = {"devices": [{"allow": False, "access": "rwm"}], **resources.document()}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(args),
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/",
            "capabilities": {kind: list(_CAPABILITIES) for kind in ("bounding", "effective", "permitted")},
            "noNewPrivileges": True,
            "oomScoreAdj": oom_score_adj,
        },
        "root": {"path": "rootfs"},
        "hostname": PREFIX,
        "mounts": [
            *(
                {"destination": place, "type": kind, "source": source, "options": list(options)}
                for place, kind, source, options in _MOUNTS
            ),
            *(_bind(mount) for mount in mounts),
        ],
        "annotations": dict(annotations or {}),
        "linux": {
            "cgroupsPath": cgroups_path,
            "resources": resources_document,
            "namespaces": [{"type": name} for name in _NAMESPACES],
        },
    }


def _bind(mount: Mount) -> dict[str, object]:
    return {
        "destination": mount.container_path,
        "type": "bind",
        "source": mount.host_path,
        "options": ["rbind", "rprivate", "ro" if mount.readonly else "rw"],
    }
