"""Topologies in the format of containers/nri-plugins' end-to-end tests: a JSON list of groups of NUMA nodes.

    [
      {"mem": "1G", "cores": 1, "threads": 2, "nodes": 2, "dies": 1, "packages": 2, "dist-same-die": 12},
      {"mem": "512M", "node-dist": {"0": 88, "1": 88, "2": 99, "3": 99}},
      {"purpose": "a far node", "swap": [{"sizeMiB": 512, "priority": 10}], "zswap": true}
    ]

A group has the memory and cores of each of its nodes, the numbers of nodes per die, of dies per package and of
packages, and the distances to others. The defaults are those of that format: one of each, two threads per core,
distance 11 to a node of the same die and 21 to every other. Linux and QEMU number nodes, CPUs and packages in the order
of the list.

Extensions are sizes in MiB ("512M"), "hugepages" in a group, and one separate entry for purpose, swap and zswap.
Rejected by name: persistent memory, hot-plugged memory and CPUs, and CXL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from memqos.catalog.numa_nodes import MOST_ZONES, HugePageCounts, SwapEntry, hugepages_of, memory_of
from memqos.errors import ManifestError
from memqos.model.topology import LOCAL_DISTANCE, Processors, Topology, Zone
from memqos.validation import CheckedFile

__all__ = ["NumaGroup", "NumaMachine", "parse_groups"]

SAME_DIE = 11
ELSEWHERE = 21
THREADS = 2
MOST = MOST_ZONES
"""The largest count."""

_Count = Annotated[int, Meta(ge=1, le=MOST, description="a whole number from 1 to 128")]
_Cores = Annotated[int, Meta(ge=0, le=MOST, description="a whole number from 0 to 128")]
_Size = Annotated[str, Meta(pattern="^(0|[0-9]{1,7}[MGmg])$", description='a size such as "2G" or "512M"')]
_Distance = Annotated[int, Meta(ge=11, le=255, description="a whole number from 11 to 255")]


class NumaMachine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entry of a list of NUMA groups about the whole machine."""

    purpose: str = ""
    swap: list[SwapEntry] = []
    zswap: bool | None = None
    """Missing: the kernel's choice."""


class NumaGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Equal NUMA nodes."""

    mem: _Size = "0"
    """Memory of each node."""
    hugepages: HugePageCounts = HugePageCounts()
    cores: _Cores = 0
    """CPU cores of each node."""
    threads: _Count | None = None
    """Threads of a core; missing: those of other groups, or two."""
    nodes: _Count = 1
    """NUMA nodes of a die."""
    dies: _Count = 1
    """Dies of a package."""
    packages: _Count = 1
    node_dist: dict[str, _Distance] = {}
    """The distance of these nodes to each node, in both directions."""
    dist_all: Annotated[list[list[int]], Meta(min_length=1, description="a list that is not empty")] | None = None
    """All distances; the last group with them counts, as for the next three fields."""
    dist_same_die: _Distance | None = None
    dist_same_package: _Distance | None = None
    dist_other_package: _Distance | None = None
    nvmem: str = "0"
    """Persistent memory: refused."""
    dimm: str = ""
    """Hot-plugged memory: rejected."""
    cpus_present: _Cores = 0
    """Hot-plugged CPUs: rejected."""


_MACHINE = frozenset(field.encode_name for field in msgspec.structs.fields(NumaMachine))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group of equal nodes, with its place in the file and in the list of nodes."""

    file: CheckedFile
    number: int
    entry: NumaGroup
    first: int

    @property
    def ids(self) -> range:
        """The nodes' ids."""
        return range(self.first, self.first + self.entry.nodes * self.entry.dies * self.entry.packages)

    @property
    def cores_per_die(self) -> int:
        """The common properties of a machine's dies."""
        return self.entry.nodes * self.entry.cores

    def error(self, name: str, what: str, got: object) -> ManifestError:
        """An error at one field."""
        return self.file.error(what, (self.number, name) if name else (self.number,), got=got)


def parse_groups(name: str, file: CheckedFile) -> Topology:
    """The topology of a list of groups; raises ManifestError naming the file, the line and the field."""
    groups: list[Group] = []
    machine = NumaMachine()
    for number, item in enumerate(file.document):
        names = item if isinstance(item, dict) else {}
        if "cxl" in names:
            raise file.error("is refused: memqos's machines have no CXL.", (number, "cxl"))
        if names and set(names) <= _MACHINE:
            machine = file.checked((number,), NumaMachine)
        else:
            first = groups[-1].ids.stop if groups else 0
            group = Group(file=file, number=number, entry=file.checked((number,), NumaGroup), first=first)
            _check(group)
            groups.append(group)
    processors = _processors(groups, file)
    return Topology(
        name=name,
        cpus=processors.cpus,
        zones=tuple(_zones(groups, processors.threads)),
        distances=_distances(groups),
        swap=tuple(one.device for one in machine.swap),
        zswap=machine.zswap,
        processors=processors,
    )


def _check(group: Group) -> None:
    """Reject devices that memqos's machines do not have."""
    entry = group.entry
    if entry.nvmem not in {"0", "0G", "0M"}:
        raise group.error("nvmem", "is refused: memqos's machines have no persistent memory.", entry.nvmem)
    if entry.dimm:
        raise group.error("dimm", "is refused: all memory is present at boot.", entry.dimm)
    if entry.cpus_present:
        raise group.error("cpus-present", "is refused: all CPUs are present at boot.", entry.cpus_present)
    if not entry.cores and entry.threads is not None:
        raise group.error("threads", "must not be set for a group without cores.", entry.threads)
    if group.ids.stop > MOST_ZONES:
        raise group.error("", f"makes {group.ids.stop} nodes, and QEMU has at most {MOST_ZONES}.", group.ids.stop)


def _processors(groups: Sequence[Group], file: CheckedFile) -> Processors:
    """The CPU topology; all packages are equal, since QEMU supports no other machine."""
    with_cpus = [group for group in groups if group.entry.cores]
    if not with_cpus:
        raise file.error("has no CPUs: at least one group must give the number of cores of its nodes.", ())
    model = with_cpus[0]
    dies, threads = model.entry.dies, model.entry.threads or THREADS
    for group in with_cpus[1:]:
        if (group.entry.dies, group.cores_per_die) != (dies, model.cores_per_die):
            what = (
                f"makes packages of {group.entry.dies} dies with {group.cores_per_die} cores, and those of "
                f"[{model.number}] have {dies} with {model.cores_per_die}: QEMU makes all packages alike."
            )
            raise group.error("cores", what, group.entry.cores)
        if (group.entry.threads or threads) != threads:
            what = f"must be {threads} as in [{model.number}]: all cores have the same number of threads."
            raise group.error("threads", what, group.entry.threads)
    return Processors(
        packages=sum(group.entry.packages for group in with_cpus),
        dies=dies,
        cores=model.cores_per_die,
        threads=threads,
    )


def _zones(groups: Sequence[Group], threads: int) -> Iterator[Zone]:
    cpu = 0
    for group in groups:
        entry = group.entry
        memory = memory_of(group.file, (group.number, "mem"), _mib(entry.mem), has_cpus=entry.cores > 0)
        hugepages = hugepages_of(group.file, (group.number, "hugepages"), entry.hugepages, memory)
        for node in group.ids:
            cpus = tuple(range(cpu, cpu + entry.cores * threads))
            cpu += len(cpus)
            yield Zone(id=node, memory_bytes=memory, cpus=cpus, hugepages=hugepages)


def _mib(text: str) -> int:
    """A size in MiB; "0" is none."""
    size = text.strip().upper()
    return int(size.rstrip("MG")) * (1024 if size.endswith("G") else 1)


def _distances(groups: Sequence[Group]) -> tuple[tuple[int, ...], ...]:
    """The distance from every node to every node: the given one, else by their dies and packages."""
    count = groups[-1].ids.stop
    for group in reversed(groups):
        if (rows := group.entry.dist_all) is not None:
            if len(rows) != count or any(len(row) != count for row in rows):
                raise group.error("dist-all", f"must be {count} rows of {count} numbers, one for each node.", rows)
            return tuple(map(tuple, rows))
    table = _by_places(groups)
    for group in groups:
        for name, distance in group.entry.node_dist.items():
            if name not in map(str, range(count)):
                what = f"there is no node '{name[:80]}': the nodes are 0 to {count - 1}."
                raise group.file.error(what, (group.number, "node-dist", name))
            for source in set(group.ids) - {int(name)}:
                table[source][int(name)] = table[int(name)][source] = distance
    return tuple(map(tuple, table))


def _by_places(groups: Sequence[Group]) -> list[list[int]]:
    """The distances of nodes by their dies and packages."""
    entries = [group.entry for group in reversed(groups)]
    same_die = next((one.dist_same_die for one in entries if one.dist_same_die), SAME_DIE)
    same_package = next((one.dist_same_package for one in entries if one.dist_same_package), ELSEWHERE)
    elsewhere = next((one.dist_other_package for one in entries if one.dist_other_package), ELSEWHERE)
    places = _places(groups)
    table = [[elsewhere] * len(places) for _ in places]
    for source, (package, die) in enumerate(places):
        for target, (other_package, other_die) in enumerate(places):
            if source == target:
                table[source][target] = LOCAL_DISTANCE
            elif package == other_package:
                table[source][target] = same_die if die == other_die else same_package
    return table


def _places(groups: Sequence[Group]) -> list[tuple[int, int]]:
    """Package and die of each node, in the order of the nodes; a group without CPUs counts as packages of its own."""
    places, package = [], 0
    for group in groups:
        for _ in range(group.entry.packages):
            places += [(package, die) for die in range(group.entry.dies) for _ in range(group.entry.nodes)]
            package += 1
    return places
