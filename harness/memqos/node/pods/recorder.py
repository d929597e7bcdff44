"""The recorder interface: a node passes it plans and readings to keep as evidence.

Also what memory the runtime itself costs a pod: information for the report, without a verdict.
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
from memqos.probe.sampler import Look, Spoken

__all__ = ["Recorder", "Weight", "weight_of"]

WEIGHING_SECONDS = 20.0

_CURRENT, _PEAK = "memory.current", "memory.peak"

# cat ignores a process that has ended since it was listed; awk would fail to open its file.
_MONITORS = """\
cat /proc/[0-9]*/status 2>/dev/null |
awk '/^Name:/ { name = $2 } /^RssAnon:/ && name ~ /^(containerd-shim|conmon)/ { kib += $2; number++ }
     END { printf "%d %.0f\\n", number, kib * 1024 }'
"""
"""Shims and conmon are outside the pod in most configurations; the kernel truncates their names to 15 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """The cost for one pod, in bytes; None if the machine does not report it.

    beside: charged to the pod outside its containers: its sandbox's process, and a shim or monitor in it. starting: the
    peak charged to its first container before its program ran, including the runtime's own first process. monitors: how
    many shims and monitors the machine has; monitor: the anonymous memory of one, on average.
    """

    beside: int | None
    starting: int | None
    monitors: int
    monitor: int | None

    def document(self) -> dict[str, int]:
        """The JSON of a bundle; unknown values are omitted."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def weight_of(tree: CgroupTree, layout: Layout, population: Population) -> Weight:
    """The cost for a population's only pod, which runs. MachineryError if the machine does not answer."""
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
    """Keeps evidence; every method may be called from any thread."""

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        """Record a plan that is going to be enacted. requested: a further container requested from the runtime."""
        ...

    def reading(self, reading: Reading) -> None:
        """Record a reading that findings are made from."""
        ...

    def weight(self, weight: Weight) -> None:
        """Record what memory the runtime itself takes for a pod."""
        ...

    def look(self, look: Look) -> None:
        """Record a change in a watched cgroup."""
        ...

    def spoken(self, spoken: Spoken) -> None:
        """Record a command for a workload, or a line of its report."""
        ...
