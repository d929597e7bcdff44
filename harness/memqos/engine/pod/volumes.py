"""Memory-backed volumes in a resize.

Without the gate InPlacePodVerticalScalingMemoryBackedVolumes (alpha in 1.37) a kubelet sizes a volume once, when it
mounts it. With the gate, a resize may also change the `sizeLimit` of such volumes. Source: KEP-6030; kubernetes#139425.
"""

from __future__ import annotations

from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.table import Gate
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity

__all__ = ["NOT_MODELLED", "volumes_in_resize"]

NOT_MODELLED = (
    "resizes of memory-backed volumes are not modelled. By KEP-6030, a pod whose volume cannot shrink stays in "
    "PodResizeInProgress before its cgroups are written, and cgroup v1 makes the whole resize infeasible"
)


def volumes_in_resize(old: Pod, new: Pod, kubelet: Kubelet) -> str:
    """What is known of the volumes that have another size in the request; "" if there are none."""
    changed = [
        f"{name} ({_size(old.memory_volumes[name])} to {_size(size)})"
        for name, size in new.memory_volumes.items()
        if name in old.memory_volumes and old.memory_volumes[name] != size
    ]
    if not changed:
        return ""
    which = f"volume{'s' if len(changed) > 1 else ''} {', '.join(changed)}"
    if enabled(Gate.RESIZE_VOLUMES, kubelet.release, kubelet.settings.feature_gates):
        return f"{which}: {NOT_MODELLED}"
    why = (
        f"no resize changes a volume in {kubelet.release}"
        if stage(Gate.RESIZE_VOLUMES, kubelet.release) is None
        else f"the feature gate {Gate.RESIZE_VOLUMES} is off"
    )
    return f"{which}: the size stays, since {why}"


def _size(limit: Quantity | None) -> str:
    return "no limit" if limit is None else str(limit)
