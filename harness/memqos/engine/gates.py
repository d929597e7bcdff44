"""Feature gates that the rules depend on: from which release they exist, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memqos.engine.release import Release

__all__ = ["Gate", "GateStage", "enabled", "stage"]


class Gate(StrEnum):
    """The gates, spelled as in `featureGates`."""

    MEMORY_QOS = "MemoryQoS"
    NODE_SWAP = "NodeSwap"
    SIDECARS = "SidecarContainers"
    POD_LEVEL_RESOURCES = "PodLevelResources"
    QOS_RESERVED = "QOSReserved"
    CFS_QUOTA_PERIOD = "CustomCPUCFSQuotaPeriod"
    NO_QUOTA_WITH_EXCLUSIVE_CPUS = "DisableCPUQuotaWithExclusiveCPUs"
    MEMORY_MANAGER = "MemoryManager"
    RESIZE = "InPlacePodVerticalScaling"
    RESIZE_EXCLUSIVE_CPUS = "InPlacePodVerticalScalingExclusiveCPUs"
    RESIZE_EXCLUSIVE_MEMORY = "InPlacePodVerticalScalingExclusiveMemory"
    RESIZE_INIT_CONTAINERS = "InPlacePodVerticalScalingInitContainers"
    RESIZE_POD_LEVEL = "InPlacePodLevelResourcesVerticalScaling"


@dataclass(frozen=True, slots=True)
class GateStage:
    """A gate from one minor version on: its default, and whether a configuration may still change it."""

    since: int
    default: bool
    locked: bool = False


_STAGES: Mapping[Gate, tuple[GateStage, ...]] = {
    Gate.MEMORY_QOS: (GateStage(22, default=False), GateStage(37, default=True)),
    Gate.NODE_SWAP: (
        GateStage(22, default=False),
        GateStage(30, default=True),
        GateStage(34, default=True, locked=True),
    ),
    Gate.SIDECARS: (
        GateStage(28, default=False),
        GateStage(29, default=True),
        GateStage(33, default=True, locked=True),
    ),
    Gate.POD_LEVEL_RESOURCES: (GateStage(32, default=False), GateStage(34, default=True)),
    Gate.QOS_RESERVED: (GateStage(11, default=False),),
    Gate.CFS_QUOTA_PERIOD: (GateStage(12, default=False), GateStage(36, default=True)),
    Gate.NO_QUOTA_WITH_EXCLUSIVE_CPUS: (GateStage(33, default=True),),
    Gate.MEMORY_MANAGER: (
        GateStage(21, default=False),
        GateStage(22, default=True),
        GateStage(32, default=True, locked=True),
    ),
    Gate.RESIZE: (
        GateStage(27, default=False),
        GateStage(33, default=True),
        GateStage(35, default=True, locked=True),
    ),
    Gate.RESIZE_EXCLUSIVE_CPUS: (GateStage(32, default=False),),
    Gate.RESIZE_EXCLUSIVE_MEMORY: (GateStage(34, default=False),),
    Gate.RESIZE_INIT_CONTAINERS: (GateStage(36, default=True),),
    Gate.RESIZE_POD_LEVEL: (GateStage(35, default=False), GateStage(36, default=True)),
}


def stage(gate: Gate, release: Release) -> GateStage | None:
    """The gate's stage in a release; None before the release that brought it."""
    passed = [one for one in _STAGES[gate] if one.since <= release.minor]
    return passed[-1] if passed else None


def enabled(gate: Gate, release: Release, given: Mapping[str, bool]) -> bool:
    """Whether the gate is on: as configured, else its default; never on before it exists, always on once locked on."""
    now = stage(gate, release)
    if now is None:
        return False
    if now.locked:
        return now.default
    # AllAlpha and AllBeta are not modelled: a kubelet that sets them is outside of what the rules describe.
    return given.get(gate, now.default)
