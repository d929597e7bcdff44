"""Memory QoS, KEP-2570: one module per revision, chosen by release and gate."""

from __future__ import annotations

from functools import cache

from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos import v1_22, v1_27, v1_36, v1_37
from memqos.engine.memory_qos.base import ContainerCase, NodeCase, PodCase, ReservedCase, Revision, nothing
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import Novelty

__all__ = ["ContainerCase", "NodeCase", "PodCase", "ReservedCase", "Revision", "memory_qos"]

_ON = {
    Novelty.HIGH_BETWEEN: v1_27.REVISION,
    Novelty.RESERVATION_POLICY: v1_36.REVISION,
    Novelty.MEMORY_QOS_BETA: v1_37.REVISION,
}
_NOTHING = Revision(container=nothing, pod=nothing, burstable=nothing, kubepods=nothing, reserved=nothing)
_OFF = {Novelty.MEMORY_QOS_BETA: v1_37.OFF}


def memory_qos(kubelet: Kubelet) -> Revision:
    """The rules in force: the release's revision, or with the gate off the release's behaviour without it."""
    return _revision(kubelet.release, on=kubelet.memory_qos, v2=kubelet.v2)


@cache
def _revision(release: Release, *, on: bool, v2: bool) -> Revision:
    if on:
        return release.newest(v1_22.REVISION, _ON)
    return release.newest(_NOTHING, _OFF) if v2 else _NOTHING
