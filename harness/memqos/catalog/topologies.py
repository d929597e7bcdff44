"""Loads and validates a topology: fixtures/topologies/NAME.json, or the user's file.

    {
      "purpose": "its purpose",
      "cpus": 2,
      "processors": {"packages": 1, "dies": 1, "cores": 2, "threads": 1},
      "numaNodes": [
        {"memoryMiB": 1024, "cpus": [0], "hugepages": {"2M": 64}},
        {"memoryMiB": 1024, "cpus": [1]}
      ],
      "distances": [[10, 20], [20, 10]],
      "swap": [{"sizeMiB": 512, "priority": 10}],
      "zswap": false
    }

A list instead of an object is in the format of containers/nri-plugins' end-to-end tests, groups of NUMA nodes:

    [
      {"mem": "1G", "cores": 1, "threads": 2, "nodes": 2, "dies": 1, "packages": 2, "dist-same-die": 12},
      {"mem": "512M", "node-dist": {"0": 88, "1": 88, "2": 99, "3": 99}},
      {"purpose": "a far node", "swap": [{"sizeMiB": 512, "priority": 10}], "zswap": true}
    ]

A group has the memory and cores of each of its nodes, the numbers of nodes per die, of dies per package and of
packages, and the distances to others. The defaults are those of that format: one of each, two threads per core,
distance 11 to a node of the same die and 21 to every other. Linux and QEMU number nodes, CPUs and packages in the order
of the list.

What memqos adds to that format, and what it rejects by name, is in docs/reference/topologies.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from memqos.catalog.data import data_root
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.topology import (
    LOCAL_DISTANCE,
    HugePages,
    Processors,
    SwapDevice,
    Topology,
    TopologyNode,
    topology_name,
)
from memqos.plain_file import read_plain
from memqos.validation import CheckedFile, Place

__all__ = ["load_topology", "parse_topology", "topology_names"]

MIB = 1 << 20
GIB = 1 << 30

MIN_NUMA_MIB = 64
"""Less memory is not enough for a NUMA node's page tables and the kernel's share."""

MOST_NUMA_NODES = 128
"""QEMU's limit of NUMA nodes."""

MOST_CPUS = 64

_Mib = Annotated[int, Meta(ge=0, le=1 << 20, description="a whole number from 0 to 1048576")]
_Count = Annotated[int, Meta(ge=1, le=1 << 20, description="a whole number from 1 to 1048576")]
_Cpu = Annotated[int, Meta(ge=0, le=MOST_CPUS - 1, description="a CPU's number, from 0 to 63")]
_Cpus = Annotated[int, Meta(ge=1, le=MOST_CPUS, description="a whole number from 1 to 64")]
_Priority = Annotated[int, Meta(ge=0, le=32767, description="a whole number from 0 to 32767")]


class HugePageCounts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Huge pages that a NUMA node reserves at boot, by size."""

    two_mib: _Count | None = msgspec.field(name="2M", default=None)
    one_gib: _Count | None = msgspec.field(name="1G", default=None)

    @property
    def pages(self) -> tuple[HugePages, ...]:
        """The same, smaller ones first."""
        counts = ((2 * MIB, self.two_mib), (GIB, self.one_gib))
        return tuple(HugePages(size_bytes=size, count=count) for size, count in counts if count is not None)


class SwapEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A swap device."""

    sizeMiB: _Count  # noqa: N815 - as the file has it
    priority: _Priority | None = None
    """swapon's; missing: the kernel's choice."""

    @property
    def device(self) -> SwapDevice:
        """The same in bytes."""
        return SwapDevice(size_bytes=self.sizeMiB * MIB, priority=self.priority)


class ProcessorCounts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The CPU topology: the number of units in one unit of the previous level."""

    packages: _Cpus = 1
    dies: _Cpus = 1
    cores: _Cpus = 1
    threads: _Cpus = 1


class TopologyNodeEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A NUMA node. Without memory (0 MiB) it has only CPUs, without CPUs only memory."""

    memoryMiB: _Mib  # noqa: N815 - as the file has it
    cpus: list[_Cpu] = []
    hugepages: HugePageCounts = HugePageCounts()


_NumaNodes = Annotated[list[TopologyNodeEntry], Meta(min_length=1, description="a list that is not empty")]


class TopologyFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine's hardware, as `--topology FILE` reads it."""

    cpus: _Cpus
    numa_nodes: _NumaNodes = msgspec.field(name="numaNodes", default_factory=list)
    """The NUMA nodes by id; each CPU is in one."""
    zones: _NumaNodes = []
    """The former name of numaNodes."""
    purpose: str = ""
    processors: ProcessorCounts | None = None
    """Missing: one package of cores with one thread each."""
    distances: list[list[int]] = []
    """A row for each NUMA node, in the units of ACPI's SLIT; missing: the firmware's."""
    swap: list[SwapEntry] = []
    zswap: bool | None = None
    """Missing: the kernel's choice."""


def memory_of(file: CheckedFile, place: Place, mib: int, *, has_cpus: bool) -> int:
    """A NUMA node's memory in bytes; raises ManifestError for too little."""
    if mib == 0 and not has_cpus:
        what = "must not be 0 in a NUMA node without CPUs: nothing would be left of it."
        raise file.error(what, place, got=0)
    if 0 < mib < MIN_NUMA_MIB:
        raise file.error(f"must be 0, or {MIN_NUMA_MIB} MiB or more (got {mib} MiB).", place, got=mib)
    return mib * MIB


def hugepages_of(file: CheckedFile, place: Place, counts: HugePageCounts, memory: int) -> tuple[HugePages, ...]:
    """A NUMA node's huge pages; raises ManifestError if they do not fit into its memory."""
    wanted = sum(page.size_bytes * page.count for page in counts.pages)
    if counts.pages and wanted > memory - MIN_NUMA_MIB * MIB:
        what = (
            f"take {wanted // MIB} MiB, and the NUMA node's {memory // MIB} MiB must keep {MIN_NUMA_MIB} MiB "
            "for everything else."
        )
        raise file.error(what, place, got=wanted)
    return counts.pages


# ---- groups of NUMA nodes

SAME_DIE = 11
ELSEWHERE = 21
THREADS = 2

_GroupCount = Annotated[int, Meta(ge=1, le=MOST_NUMA_NODES, description="a whole number from 1 to 128")]
_Cores = Annotated[int, Meta(ge=0, le=MOST_NUMA_NODES, description="a whole number from 0 to 128")]
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
    threads: _GroupCount | None = None
    """Threads of a core; missing: those of other groups, or two."""
    nodes: _GroupCount = 1
    """NUMA nodes of a die."""
    dies: _GroupCount = 1
    """Dies of a package."""
    packages: _GroupCount = 1
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
    processors = _group_processors(groups, file)
    return Topology(
        name=name,
        cpus=processors.cpus,
        numa_nodes=tuple(_numa_nodes(groups, processors.threads)),
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
    if group.ids.stop > MOST_NUMA_NODES:
        raise group.error("", f"makes {group.ids.stop} nodes, and QEMU has at most {MOST_NUMA_NODES}.", group.ids.stop)


def _group_processors(groups: Sequence[Group], file: CheckedFile) -> Processors:
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


def _numa_nodes(groups: Sequence[Group], threads: int) -> Iterator[TopologyNode]:
    cpu = 0
    for group in groups:
        entry = group.entry
        memory = memory_of(group.file, (group.number, "mem"), _mib(entry.mem), has_cpus=entry.cores > 0)
        hugepages = hugepages_of(group.file, (group.number, "hugepages"), entry.hugepages, memory)
        for node in group.ids:
            cpus = tuple(range(cpu, cpu + entry.cores * threads))
            cpu += len(cpus)
            yield TopologyNode(id=node, memory_bytes=memory, cpus=cpus, hugepages=hugepages)


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


# ---- a topology of either format

MIN_MEMORY_MIB = 512
MAX_BYTES = 1 << 20
UNREACHABLE = 255


def topology_names(root: Path | None = None) -> list[str]:
    """The available topologies, sorted."""
    return sorted(path.stem for path in _folder(root).glob("*.json"))


def load_topology(name: str, root: Path | None = None) -> Topology:
    """The topology of this name, former ones too, or in the file of this path: a path ends in .json or has a slash.

    root: the data's folder; None is the one shipped with memqos. Raises UnknownNameError for an unknown name,
    UsageError for an unreadable file, and ManifestError for an invalid one.
    """
    if name.endswith(".json") or "/" in name:
        file = Path(name)
    else:
        name = topology_name(name)
        known = topology_names(root)
        if name not in known:
            raise UnknownNameError.of("topology", name, known)
        file = _folder(root) / f"{name}.json"
    try:
        content = read_plain(file, most=MAX_BYTES)
    except OSError as error:
        raise UsageError(f"the topology cannot be read: {error.strerror}.", where=str(file)) from error
    return parse_topology(file.stem, content, file=str(file))


def parse_topology(name: str, content: bytes, *, file: str) -> Topology:
    """A topology's JSON; raises ManifestError naming the file, the line and the field."""
    read = CheckedFile.json(file, content)
    if isinstance(read.document, list):
        topology, field = parse_groups(name, read), ""
    else:
        found = read.checked((), TopologyFile)
        field, numa_nodes = _numa_nodes_of(read, found)
        topology = _topology(name, read, found, field, numa_nodes)
    _check_size(topology, read, field)
    _check_distances(topology, read, "distances" if field else "")
    return topology


def _folder(root: Path | None) -> Path:
    return (root or data_root()) / "fixtures" / "topologies"


def _numa_nodes_of(file: CheckedFile, found: TopologyFile) -> tuple[str, list[TopologyNodeEntry]]:
    """The NUMA nodes, with the name of their field."""
    if not found.zones:
        if not found.numa_nodes:
            raise file.error("missing required field 'numaNodes'.", ())
        return "numaNodes", found.numa_nodes
    if found.numa_nodes:
        raise file.error("is the former name of numaNodes: give one of them.", ("zones",))
    return "zones", found.zones


def _topology(
    name: str, file: CheckedFile, found: TopologyFile, field: str, entries: list[TopologyNodeEntry]
) -> Topology:
    count = len(entries)
    if count > MOST_NUMA_NODES:
        raise file.error(f"has {count} NUMA nodes, and QEMU has at most {MOST_NUMA_NODES}.", (field,), got=count)
    numa_nodes = tuple(_numa_node(file, (field, number), one, found.cpus) for number, one in enumerate(entries))
    named = sorted(cpu for numa in numa_nodes for cpu in numa.cpus)
    if named != list(range(found.cpus)):
        what = f"must name each CPU from 0 to {found.cpus - 1} once (they name {named})."
        raise file.error(what, (field,), got=named)
    rows = found.distances
    if rows and (len(rows) != count or any(len(row) != count for row in rows)):
        what = f"must be {count} rows of {count} numbers, one for each NUMA node."
        raise file.error(what, ("distances",), got=rows)
    return Topology(
        name=name,
        cpus=found.cpus,
        numa_nodes=numa_nodes,
        distances=tuple(map(tuple, rows)),
        swap=tuple(one.device for one in found.swap),
        zswap=found.zswap,
        processors=_processors(file, found),
    )


def _numa_node(file: CheckedFile, place: tuple[str, int], found: TopologyNodeEntry, cpus: int) -> TopologyNode:
    for at, cpu in enumerate(found.cpus):
        if cpu >= cpus:
            what = f"must hold CPU numbers from 0 to {cpus - 1} (got {cpu})."
            raise file.error(what, (*place, "cpus", at), got=cpu)
    memory = memory_of(file, (*place, "memoryMiB"), found.memoryMiB, has_cpus=bool(found.cpus))
    hugepages = hugepages_of(file, (*place, "hugepages"), found.hugepages, memory)
    return TopologyNode(id=place[1], memory_bytes=memory, cpus=tuple(found.cpus), hugepages=hugepages)


def _processors(file: CheckedFile, found: TopologyFile) -> Processors | None:
    if (levels := found.processors) is None:
        return None
    processors = Processors(packages=levels.packages, dies=levels.dies, cores=levels.cores, threads=levels.threads)
    if processors.cpus != found.cpus:
        what = f"must multiply to {found.cpus} CPUs (they are {processors.cpus})."
        raise file.error(what, ("processors",), got=processors.cpus)
    return processors


def _check_size(topology: Topology, file: CheckedFile, field: str) -> None:
    place = (field,) if field else ()
    total = topology.memory_bytes // MIB
    if total < MIN_MEMORY_MIB:
        what = f"must have {MIN_MEMORY_MIB} MiB together, or Linux does not boot ({total} MiB)."
        raise file.error(what, place, got=total)
    if topology.cpus > MOST_CPUS:
        what = f"has {topology.cpus} CPUs, and a machine has at most {MOST_CPUS}."
        raise file.error(what, place, got=topology.cpus)


def _check_distances(topology: Topology, file: CheckedFile, field: str) -> None:
    """Distances in the range of ACPI's SLIT, which QEMU accepts too."""
    for source, row in enumerate(topology.distances):
        for target, distance in enumerate(row):
            low = LOCAL_DISTANCE if source == target else LOCAL_DISTANCE + 1
            high = LOCAL_DISTANCE if source == target else UNREACHABLE
            if not low <= distance <= high:
                place = (field, source, target) if field else ()
                called = None if field else f"distance from node {source} to {target}"
                what = f"must be from {low} to {high} (got {distance})."
                raise file.error(what, place, field=called, got=distance)
