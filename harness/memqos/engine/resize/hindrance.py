"""Why the kubelet fails to carry out a resize that it has allocated: limits below what is used, or missing ones.

Source: kubelet `doPodResizeAction` (up to 1.33), `validateMemoryResizeAction` (1.34 and later).
"""

from __future__ import annotations

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import PlannedPod
from memqos.engine.pod.cgroup import PodConfig, pod_config
from memqos.engine.releases.table import Novelty
from memqos.engine.resize.changes import Changes
from memqos.engine.resize.held import held_number
from memqos.engine.resize.outcome import Usage
from memqos.model.pod import Pod, QosClass

__all__ = ["hindrance"]


def hindrance(new: Pod, *, qos: QosClass, before: PlannedPod, changes: Changes, usage: Usage, kubelet: Kubelet) -> str:
    """Why the kubelet fails to carry the resize out, in its words; "" if nothing is known that speaks against it.

    A use that is not given speaks against nothing.
    """
    config, name = pod_config(new, qos, kubelet), f'"{new.name}_{new.namespace}({new.uid})"'
    release = kubelet.release
    if not release.has(Novelty.RESIZE_WITHOUT_LIMITS):
        if changes.touches("memory") and config.memory is None:
            return f"podResources.Memory is nil for pod {new.name}"
        if changes.touches("cpu") and config.cpu_quota is None:
            return f"podResources.CPUQuota or podResources.CPUShares is nil for pod {new.name}"
    if not changes.touches("memory"):
        return ""
    if release.has(Novelty.RESIZE_DECREASES):
        return _decreases(config, before, changes, usage, kubelet)
    if usage.pod is not None and config.memory is not None and usage.pod >= config.memory:
        subject = name if release.has(Novelty.RESIZE_FULL_NAME) else new.name
        return f"aborting attempt to set pod memory limit less than current memory usage for pod {subject}"
    return ""


def _decreases(config: PodConfig, before: PlannedPod, changes: Changes, usage: Usage, kubelet: Kubelet) -> str:
    """1.34 and later: a limit that shrinks, or that a container gets, must be above what is used."""
    found = []
    now = held_number(before.cgroup.knobs[kubelet.files.memory_limit].value)
    wanted = config.memory
    if wanted is not None and wanted < now and usage.pod is not None and usage.pod >= wanted:
        found.append(f"attempting to set pod memory limit ({wanted}) below current usage ({usage.pod})")
    for change in changes.updated["memory"]:
        name, new, old = change.container.name, change.desired.memory_limit, change.current.memory_limit
        used = usage.containers.get(name)
        if new and (old == 0 or new < old) and used is not None and used >= new:
            # The kubelet prints the pod's use here, and means the container's.
            shown = used if usage.pod is None else usage.pod
            found.append(f'attempting to set container "{name}" memory limit ({new}) below current usage ({shown})')
    if not found:
        return ""
    return "cannot decrease memory limits: " + (found[0] if len(found) == 1 else f"[{', '.join(found)}]")
