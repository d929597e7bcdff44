"""Whom a node tells what it plans and reads, so that it is kept as evidence.

What memory a runtime itself costs a pod: information that is shown side by side, and no verdict.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.cgroup.layout import Layout
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.model.path import CgroupPath
from memqos.model.reading import Reading
from memqos.node.pods.population import Population
from memqos.probe.looks import Look, Spoken

__all__ = ["Recorder", "Weight", "weight_of"]

WEIGHING_SECONDS = 20.0

_CURRENT, _PEAK = "memory.current", "memory.peak"

# A process that has ended since it was listed is no error to cat; it ends an awk that is to open its file.
_MONITORS = """\
cat /proc/[0-9]*/status 2>/dev/null |
awk '/^Name:/ { name = $2 } /^RssAnon:/ && name ~ /^(containerd-shim|conmon)/ { kib += $2; number++ }
     END { printf "%d %.0f\\n", number, kib * 1024 }'
"""
"""A shim or conmon is in no pod with most configurations; the kernel cuts their names to 15 signs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Of one pod, in bytes; None for what the machine does not tell.

    beside: charged to the pod and to none of its containers: its sandbox's process, and a shim or monitor in it.
    starting: the most that was charged to its first container until it ran, the runtime's own first process included.
    monitors: how many shims and monitors there are on the machine; monitor: the anonymous memory of one, on average.
    """

    beside: int | None
    starting: int | None
    monitors: int
    monitor: int | None

    def document(self) -> dict[str, int]:
        """As a bundle has it: what is not known is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def weight_of(tree: CgroupTree, layout: Layout, population: Population) -> Weight:
    """The weight of a population's only pod, which runs. MachineryError if the machine does not answer."""
    [pod] = population.pods.values()
    deadline = Deadline.after(WEIGHING_SECONDS)
    above = pod.planned.cgroup.path
    inside = [layout.whole(above, handle.id) for handle in pod.containers.values()]
    shown = tree.read_cgroups([above, *inside], [_CURRENT, _PEAK], deadline=deadline)

    def number(path: CgroupPath, name: str) -> int | None:
        text = str(shown.cgroups[path].files.get(name, "")).strip()
        return int(text) if text.isdecimal() else None

    whole, parts = number(above, _CURRENT), [number(path, _CURRENT) for path in inside]
    beside = None if whole is None or None in parts else max(0, whole - sum(part or 0 for part in parts))
    told = tree.target.run(["sh", "-c", _MONITORS], deadline=deadline).text.split()
    monitors, size = (int(word) if word.isdecimal() else 0 for word in [*told, "", ""][:2])
    return Weight(
        beside=beside,
        starting=number(inside[0], _PEAK) if inside else None,
        monitors=monitors,
        monitor=size // monitors if monitors else None,
    )


class Recorder(Protocol):
    """Who keeps evidence; every method may be called from any thread."""

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        """A plan that is going to be enforced. requested: a further container, which the runtime was asked for."""
        ...

    def reading(self, reading: Reading) -> None:
        """A reading that findings are made from."""
        ...

    def weight(self, weight: Weight) -> None:
        """What memory the runtime itself takes for a pod."""
        ...

    def look(self, look: Look) -> None:
        """What changed in a cgroup that is watched."""
        ...

    def spoken(self, spoken: Spoken) -> None:
        """What a workload was told, or said."""
        ...
