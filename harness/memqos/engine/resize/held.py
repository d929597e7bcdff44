"""What a pod's cgroup holds as the kubelet reads it back, and as it tells the runtime (UpdatePodSandboxResources).

Source: kubelet `GetPodCgroupConfig`, `mergeResourceConfig`, `subtractOverheadFromResourceConfig`.
"""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.cgroup.cpu import milli_to_quota, milli_to_shares, shares_to_milli, weight_to_shares
from memqos.engine.plan import PlannedPod
from memqos.engine.pod.sums import amount
from memqos.engine.ruling import Rulings
from memqos.model.cri import ContainerResources
from memqos.model.knob import Bytes, CpuMax, Knob, KnobValue, Number
from memqos.model.pod import Pod

__all__ = ["NO_LIMIT", "held_by", "held_number", "merged", "without_overhead"]

NO_LIMIT = -1
"""What the kubelet makes of "max" in memory.max or cpu.max, and of -1 in cpu.cfs_quota_us."""


def held_number(value: KnobValue) -> int:
    """The number in a file: bytes, µs of quota, a weight; NO_LIMIT for the word "max" and for -1."""
    match value:
        case Bytes(count) | Number(count):
            return count
        case CpuMax(quota=int() as quota):
            return quota
        case _:
            return NO_LIMIT


def held_by(pod: PlannedPod) -> ContainerResources:
    """The limits and shares of a pod's cgroup as a message; shares from a weight are not those they were made from."""
    found = ContainerResources()
    for knob, one in pod.cgroup.knobs.items():
        found = _with(found, knob, one.value)
    return found


def merged(held: ContainerResources, rulings: Rulings, shares: int) -> ContainerResources:
    """What is held once these files are written; shares: those behind a weight that is among them."""
    for knob, ruling in rulings.items():
        held = replace(held, cpu_shares=shares) if knob is Knob.CPU_WEIGHT else _with(held, knob, ruling.written)
    return held


def without_overhead(held: ContainerResources, pod: Pod) -> ContainerResources:
    """What is left for the pod's containers; a limit that does not exist (-1) loses the overhead too.

    Fields that are not specified (0) stay so.
    """
    if "cpu" in pod.overhead:
        milli = amount(pod.overhead, "cpu").milli_value
        if held.cpu_period:
            held = replace(held, cpu_quota=held.cpu_quota - milli_to_quota(milli, held.cpu_period))
        if held.cpu_shares:
            held = replace(held, cpu_shares=milli_to_shares(shares_to_milli(held.cpu_shares) - milli))
    if "memory" in pod.overhead and held.memory_limit_in_bytes:
        left = held.memory_limit_in_bytes - amount(pod.overhead, "memory").value
        held = replace(held, memory_limit_in_bytes=left)
    return held


def _with(held: ContainerResources, knob: Knob, value: KnobValue) -> ContainerResources:
    number = held_number(value)
    match knob:
        case Knob.MEMORY_MAX | Knob.MEMORY_LIMIT_IN_BYTES:
            held = replace(held, memory_limit_in_bytes=number)
        case Knob.CPU_WEIGHT:
            held = replace(held, cpu_shares=weight_to_shares(number))
        case Knob.CPU_SHARES:
            held = replace(held, cpu_shares=number)
        case Knob.CPU_MAX | Knob.CPU_CFS_QUOTA_US:
            held = replace(held, cpu_quota=number)
        case Knob.CPU_CFS_PERIOD_US:
            held = replace(held, cpu_period=number)
        case _:
            pass
    return replace(held, cpu_period=value.period) if isinstance(value, CpuMax) else held
