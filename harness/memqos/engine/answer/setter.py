"""Who set it: who made the value that a finding observed, so that nobody's work is taken for somebody else's.

A plan is made true by several: a runtime writes containers' files, a kubelet, or memqos in its place, those above.
What memqos wrote itself and reads back says that the plan was enacted, and nothing about a runtime.
"""

from __future__ import annotations

from enum import StrEnum

from memqos.engine.plan import Expected, Level
from memqos.model.knob import ABSENT, Knob
from memqos.model.path import CgroupPath

__all__ = ["Setter", "setter_of"]


class Setter(StrEnum):
    """Who made an observed value; where it deviates, who was to make another one.

    MEMQOS wrote what it holds. A file above containers that holds something else than memqos wrote there is OTHER's:
    nobody knows who changed it.
    """

    RUNTIME = "the runtime under test"
    KUBELET = "the kubelet"
    MEMQOS = "memqos in the kubelet's place"
    SYSTEMD = "systemd"
    KERNEL = "the kernel"
    OTHER = "somebody else"


_UNITS = (".slice", ".scope")

_WRITTEN_BY_SYSTEMD = frozenset(
    {
        Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.CPU_WEIGHT,
        Knob.CPU_MAX, Knob.PIDS_MAX, Knob.MEMORY_LIMIT_IN_BYTES, Knob.CPU_SHARES, Knob.CPU_CFS_QUOTA_US,
        Knob.CPU_CFS_PERIOD_US,
    }
)  # fmt: skip
"""Files that systemd writes in the cgroup of each unit, with its own default where no property is set.

Source: systemd, src/core/cgroup.c, cgroup_context_apply. Those of hugetlb and cpuset it leaves alone.
"""


def setter_of(
    expected: Expected, level: Level, path: CgroupPath, *, enacted_by: Setter, deviates: bool = False
) -> Setter:
    """Who made what a file of the cgroup at this path holds.

    A runtime's files are its own also where it lets systemd write them, as properties of the scope that it asks for;
    so are those of whoever enacts the plan. What nobody asked for is systemd's in a unit's cgroup, else the kernel's.
    enacted_by: who makes the plan true above containers. deviates: whether the file holds something else.
    """
    asked = Setter.RUNTIME if level is Level.CONTAINER else enacted_by
    if deviates:
        return Setter.OTHER if asked is Setter.MEMQOS else asked
    if expected.written is not ABSENT or expected.undecided:
        return asked
    is_unit = path.name.endswith(_UNITS)
    return Setter.SYSTEMD if is_unit and expected.knob in _WRITTEN_BY_SYSTEMD else Setter.KERNEL
