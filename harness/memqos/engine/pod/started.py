"""What a container was started with: oom_score_adj is of that moment, whatever is resized in place later.

Source: kubernetes#130657, opencontainers/runc#4669: no runtime changes oom_score_adj of a process that runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.allocated import Allocation
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import pod_level_set
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Gate
from memqos.model.pod import Container, ContainerKind, Pod, QosClass, ResizePolicy

__all__ = ["never_resized", "score_unsure"]

_NODE_CRITICAL = "system-node-critical"
_FIRST = 1


def score_unsure(allocation: Allocation, name: str, scores: Sequence[int], kubelet: Kubelet) -> str:
    """Why the processes of a container may have another score than its resources give it; "" if they cannot.

    scores: by the states of the allocation.
    """
    pod = allocation.desired
    container = next(one for one in pod.all_containers if one.name == name)
    if not _depends(pod, kubelet):
        return ""
    if len(set(scores)) > 1:
        return f"{allocation.why}, and a process keeps the score that it was started with"
    if not enabled(Gate.RESIZE, kubelet.release, kubelet.settings.feature_gates) or never_resized(pod):
        return ""
    if _restarts(pod, container):
        return ""
    return f"a process keeps the score that it was started with, and {_evidence(pod)}"


def _depends(pod: Pod, kubelet: Kubelet) -> bool:
    """Whether a score follows from requests: in other classes, and of node critical pods, it is fixed."""
    if pod.is_critical and pod.priority_class_name == _NODE_CRITICAL:
        return False
    return pod_qos(pod, pod_level=kubelet.pod_level) is QosClass.BURSTABLE


def never_resized(pod: Pod) -> bool:
    """Whether no resize can have been carried out: the spec never changed, or only by the resize that waits."""
    status = pod.status
    if pod.generation == _FIRST or pod.static:
        return True
    waits = status is not None and status.pending and not status.in_progress
    return bool(waits) and status is not None and status.pending_generation == pod.generation == _FIRST + 1


def _restarts(pod: Pod, container: Container) -> bool:
    """Whether a resize of memory makes the container again, and no other container's resize bears on its score."""
    alone = container.kind is not ContainerKind.SIDECAR and not pod_level_set(pod)
    return alone and container.resize_policy.get("memory") is ResizePolicy.RESTART_CONTAINER


def _evidence(pod: Pod) -> str:
    """What the manifest says of earlier resizes, and of the container's start."""
    if pod.generation is None:
        return "the pod may have been resized in place since: its generation is not given"
    return f"the pod may have been resized in place since: its spec has changed (generation {pod.generation})"
