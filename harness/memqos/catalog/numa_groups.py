"""Topologies in the format of containers/nri-plugins' end-to-end tests: a JSON list of groups of NUMA nodes.

    [
      {"mem": "1G", "cores": 1, "threads": 2, "nodes": 2, "dies": 1, "packages": 2, "dist-same-die": 12},
      {"mem": "512M", "node-dist": {"0": 88, "1": 88, "2": 99, "3": 99}},
      {"purpose": "a far node", "swap": [{"sizeMiB": 512, "priority": 10}], "zswap": true}
    ]

A group says what each of its nodes has (mem, cores), how many nodes a die, dies a package and packages there are, and
how far they are from others. Its defaults are those of that format: one of each, two threads per core, distance 11 to a
node of the same die and 21 to every other. What Linux and QEMU number, they number in the order of the list.

Added to it are sizes in MiB ("512M"), "hugepages" in a group, and one entry of its own for purpose, swap and zswap.
Refused, by name: persistent memory, memory and CPUs that are plugged in later, and CXL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memqos.catalog.json_fields import JsonFields
from memqos.catalog.zone_fields import MOST_ZONES, hugepages_of, memory_of, swap_of
from memqos.errors import ManifestError
from memqos.model.topology import LOCAL_DISTANCE, Processors, SwapDevice, Topology, Zone

__all__ = ["parse_groups"]

MACHINE = ("purpose", "swap", "zswap")
COUNTS = ("nodes", "dies", "packages")
DISTANCES = ("node-dist", "dist-all", "dist-same-die", "dist-same-package", "dist-other-package")
NODE = ("mem", "hugepages", "cores", "threads", *COUNTS, *DISTANCES, "nvmem", "dimm", "cpus-present")

SAME_DIE = 11
ELSEWHERE = 21
THREADS = 2
MOST = MOST_ZONES
"""Nothing that is counted here can be more."""

SIZE = re.compile(r"(\d{1,7})([MG])", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group of nodes that are alike, with its place in the list of nodes."""

    fields: JsonFields
    first: int
    nodes: int
    dies: int
    packages: int
    cores: int

    @property
    def count(self) -> int:
        """How many nodes it has."""
        return self.nodes * self.dies * self.packages

    @property
    def ids(self) -> range:
        """The nodes' ids."""
        return range(self.first, self.first + self.count)

    @property
    def cores_per_die(self) -> int:
        """What the dies of one machine must have in common."""
        return self.nodes * self.cores


def parse_groups(name: str, document: Sequence[object], *, file: str) -> Topology:
    """The topology that a list of groups says; raises ManifestError naming the file, the entry and the field."""
    groups: list[Group] = []
    swap: tuple[SwapDevice, ...] = ()
    zswap = None
    for number, item in enumerate(document):
        place = f"[{number}]"
        names = item if isinstance(item, dict) else {}
        if "cxl" in names:
            raise ManifestError.at("is refused: memqos's machines have no CXL.", file=file, field=f"{place}.cxl")
        if names and set(names) <= set(MACHINE):
            entry = JsonFields(item, file, place, MACHINE)
            swap, zswap = swap_of(entry), entry.flag("zswap")
        else:
            first = groups[-1].ids.stop if groups else 0
            groups.append(_group(JsonFields(item, file, place, NODE), first=first))
    processors = _processors(groups, file=file)
    return Topology(
        name=name,
        cpus=processors.cpus,
        zones=tuple(_zones(groups, processors.threads)),
        distances=_distances(groups),
        swap=swap,
        zswap=zswap,
        processors=processors,
    )


def _group(fields: JsonFields, *, first: int) -> Group:
    """A group, without what memqos's machines do not have."""
    if fields.text("nvmem", absent="0") not in {"0", "0G", "0M"}:
        raise fields.error("nvmem", "is refused: memqos's machines have no persistent memory.", fields.get("nvmem"))
    if fields.text("dimm"):
        raise fields.error("dimm", "is refused: all memory is present at boot.", fields.get("dimm"))
    if fields.number("cpus-present", low=0, high=MOST, absent=0):
        raise fields.error("cpus-present", "is refused: all CPUs are present at boot.", fields.get("cpus-present"))
    cores = fields.number("cores", low=0, high=MOST, absent=0)
    if not cores and "threads" in fields.names:
        raise fields.error("threads", "must not be set for a group without cores.", fields.get("threads"))
    counts = {name: fields.number(name, low=1, high=MOST, absent=1) for name in COUNTS}
    group = Group(fields=fields, first=first, cores=cores, **counts)
    if group.ids.stop > MOST_ZONES:
        raise fields.error("", f"makes {group.ids.stop} nodes, and QEMU has at most {MOST_ZONES}.", group.ids.stop)
    return group


def _processors(groups: Sequence[Group], *, file: str) -> Processors:
    """How the CPUs are put together; every package is the same, since QEMU can make no other machine."""
    with_cpus = [group for group in groups if group.cores]
    if not with_cpus:
        raise ManifestError.at("has no CPUs: at least one group must give the number of cores of its nodes.", file=file)
    model = with_cpus[0]
    threads = model.fields.number("threads", low=1, high=MOST, absent=THREADS)
    for group in with_cpus[1:]:
        if (group.dies, group.cores_per_die) != (model.dies, model.cores_per_die):
            what = (
                f"makes packages of {group.dies} dies with {group.cores_per_die} cores, and those of "
                f"{model.fields.place} have {model.dies} with {model.cores_per_die}: QEMU makes all packages alike."
            )
            raise group.fields.error("cores", what, group.cores)
        own = group.fields.number("threads", low=1, high=MOST, absent=threads)
        if own != threads:
            what = f"must be {threads} as in {model.fields.place}: all cores have the same number of threads."
            raise group.fields.error("threads", what, own)
    return Processors(
        packages=sum(group.packages for group in with_cpus),
        dies=model.dies,
        cores=model.cores_per_die,
        threads=threads,
    )


def _zones(groups: Sequence[Group], threads: int) -> Iterator[Zone]:
    cpu = 0
    for group in groups:
        memory = memory_of(group.fields, "mem", _mib(group.fields), has_cpus=group.cores > 0)
        hugepages = hugepages_of(group.fields, memory)
        for node in group.ids:
            cpus = tuple(range(cpu, cpu + group.cores * threads))
            cpu += len(cpus)
            yield Zone(id=node, memory_bytes=memory, cpus=cpus, hugepages=hugepages)


def _mib(fields: JsonFields) -> int:
    """The memory of each node in MiB; "0" and absent are none."""
    text = fields.text("mem", absent="0")
    if text == "0":
        return 0
    match = SIZE.fullmatch(text)
    if not match:
        raise fields.error("mem", f'must be a size such as "2G" or "512M" (got "{text}").', text)
    return int(match[1]) * (1024 if match[2] in "Gg" else 1)


def _distances(groups: Sequence[Group]) -> tuple[tuple[int, ...], ...]:
    """The distance from every node to every node: the one given for two nodes, else for their places."""
    count = groups[-1].ids.stop
    said = [group for group in groups if "dist-all" in group.fields.names]
    if said:
        return _matrix(said[-1].fields, count)
    same_die = _default(groups, "dist-same-die", SAME_DIE)
    same_package = _default(groups, "dist-same-package", ELSEWHERE)
    elsewhere = _default(groups, "dist-other-package", ELSEWHERE)
    places = _places(groups)
    table = [[elsewhere] * count for _ in range(count)]
    for source, (package, die) in enumerate(places):
        for target, (other_package, other_die) in enumerate(places):
            if source == target:
                table[source][target] = LOCAL_DISTANCE
            elif package == other_package:
                table[source][target] = same_die if die == other_die else same_package
    for group in groups:
        others = group.fields.child("node-dist", [str(node) for node in range(count)])
        for source in group.ids:
            for name in others.names:
                target = int(name)
                if target != source:
                    table[source][target] = table[target][source] = others.number(name, low=11, high=255)
    return tuple(tuple(row) for row in table)


def _places(groups: Sequence[Group]) -> list[tuple[int, int]]:
    """Package and die of each node, in the order of the nodes; a group without CPUs counts as packages of its own."""
    places, package = [], 0
    for group in groups:
        for _ in range(group.packages):
            places += [(package, die) for die in range(group.dies) for _ in range(group.nodes)]
            package += 1
    return places


def _default(groups: Sequence[Group], name: str, absent: int) -> int:
    """A distance that counts for all groups; the last one that says it decides."""
    for group in reversed(groups):
        if name in group.fields.names:
            return group.fields.number(name, low=11, high=255)
    return absent


def _matrix(fields: JsonFields, count: int) -> tuple[tuple[int, ...], ...]:
    rows = fields.items("dist-all")
    if len(rows) != count or any(not isinstance(row, list) or len(row) != count for row in rows):
        raise fields.error("dist-all", f"must be {count} rows of {count} numbers, one for each node.", rows)
    return tuple(tuple(row) for row in rows if isinstance(row, list))
