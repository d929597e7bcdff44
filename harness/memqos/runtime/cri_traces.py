"""PURE: where the daemons behind CRI keep what was asked of a container, by the name with which they answer.

Sources: containerd, core/runtime/v2 (bundle.go) and cmd/containerd-shim-runc-v2 (RuncRoot, below which every OCI
runtime has its `--root`, and log.json); CRI-O, its storage's folder of containers and its default runtime_root.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from memqos.runtime.base import ContainerStatus, Traces

__all__ = ["traces_of"]

_TASK = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/ID"

_PLACES: Mapping[str, Traces] = {
    "containerd": Traces(
        config=(f"{_TASK}/config.json",),
        state=("/run/containerd/runc/k8s.io/ID/state.json",),
        log=(f"{_TASK}/log.json",),
    ),
    "cri-o": Traces(
        config=tuple(f"{root}/containers/storage/overlay-containers/ID/userdata/config.json"
                     for root in ("/run", "/var/lib")),
        state=("/run/runc/ID/state.json",),
    ),
}  # fmt: skip


def traces_of(daemon: str, container_id: str, status: ContainerStatus) -> Traces:
    """A container's traces. status: a verbose answer, which may have the stored specification in its "info"."""
    try:
        spec = json.loads(status.info["info"])["runtimeSpec"]
    except (KeyError, TypeError, ValueError):
        spec = None
    known = _PLACES.get(daemon, Traces())
    return Traces(
        spec=spec if isinstance(spec, dict) else None,
        config=_of(container_id, known.config),
        state=_of(container_id, known.state),
        log=_of(container_id, known.log),
    )


def _of(container_id: str, places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(place.replace("ID", container_id) for place in places)
