"""Memory QoS, KEP-2570: one module a revision, and the choice among them by release and gate."""

from __future__ import annotations

from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos import v1_22, v1_27, v1_36, v1_37
from memqos.engine.memory_qos.base import ContainerCase, NodeCase, PodCase, ReservedCase, Revision, nothing

__all__ = ["ContainerCase", "NodeCase", "PodCase", "ReservedCase", "Revision", "memory_qos"]

_OFF = Revision(container=nothing, pod=nothing, burstable=nothing, kubepods=nothing, reserved=nothing)


def memory_qos(kubelet: Kubelet) -> Revision:
    """The rules in force: the release's revision, or with the gate off what that release does then."""
    release = kubelet.release
    if not kubelet.memory_qos:
        return v1_37.OFF if release.since(37) and kubelet.v2 else _OFF
    if release.since(37):
        return v1_37.REVISION
    if release.since(36):
        return v1_36.REVISION
    return v1_27.REVISION if release.since(27) else v1_22.REVISION
