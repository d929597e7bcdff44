"""Loads and validates a topology: fixtures/topologies/NAME.json, or the user's file.

    {
      "purpose": "its purpose",
      "cpus": 2,
      "processors": {"packages": 1, "dies": 1, "cores": 2, "threads": 1},
      "zones": [
        {"memoryMiB": 1024, "cpus": [0], "hugepages": {"2M": 64}},
        {"memoryMiB": 1024, "cpus": [1]}
      ],
      "distances": [[10, 20], [20, 10]],
      "swap": [{"sizeMiB": 512, "priority": 10}],
      "zswap": false
    }

A list instead of an object is in the format of NUMA groups: memqos.catalog.numa_groups.
"""

from __future__ import annotations

from pathlib import Path

from memqos.catalog.data import data_root
from memqos.catalog.numa_groups import parse_groups
from memqos.catalog.numa_nodes import MIB, MOST_CPUS, MOST_ZONES, TopologyFile, ZoneEntry, hugepages_of, memory_of
from memqos.errors import UnknownNameError, UsageError
from memqos.model.topology import LOCAL_DISTANCE, Processors, Topology, Zone
from memqos.plain_file import read_plain
from memqos.validation import CheckedFile

__all__ = ["load_topology", "parse_topology", "topology_names"]

MIN_MEMORY_MIB = 512
MAX_BYTES = 1 << 20
UNREACHABLE = 255


def topology_names(root: Path | None = None) -> list[str]:
    """The available topologies, sorted."""
    return sorted(path.stem for path in _folder(root).glob("*.json"))


def load_topology(name: str, root: Path | None = None) -> Topology:
    """The topology of this name, or in the file of this path: a path ends in .json or has a slash.

    root: the data's folder; None is the one shipped with memqos. Raises UnknownNameError for an unknown name,
    UsageError for an unreadable file, and ManifestError for an invalid one.
    """
    if name.endswith(".json") or "/" in name:
        file = Path(name)
    else:
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
        topology, field = _topology(name, read, read.checked((), TopologyFile)), "zones"
    _check_size(topology, read, field)
    _check_distances(topology, read, "distances" if field else "")
    return topology


def _folder(root: Path | None) -> Path:
    return (root or data_root()) / "fixtures" / "topologies"


def _topology(name: str, file: CheckedFile, found: TopologyFile) -> Topology:
    count = len(found.zones)
    if count > MOST_ZONES:
        raise file.error(f"has {count} NUMA nodes, and QEMU has at most {MOST_ZONES}.", ("zones",), got=count)
    zones = tuple(_zone(file, number, zone, found.cpus) for number, zone in enumerate(found.zones))
    named = sorted(cpu for zone in zones for cpu in zone.cpus)
    if named != list(range(found.cpus)):
        what = f"must name each CPU from 0 to {found.cpus - 1} once (they name {named})."
        raise file.error(what, ("zones",), got=named)
    rows = found.distances
    if rows and (len(rows) != count or any(len(row) != count for row in rows)):
        what = f"must be {count} rows of {count} numbers, one for each NUMA node."
        raise file.error(what, ("distances",), got=rows)
    return Topology(
        name=name,
        cpus=found.cpus,
        zones=zones,
        distances=tuple(map(tuple, rows)),
        swap=tuple(one.device for one in found.swap),
        zswap=found.zswap,
        processors=_processors(file, found),
    )


def _zone(file: CheckedFile, number: int, found: ZoneEntry, cpus: int) -> Zone:
    place = ("zones", number)
    for at, cpu in enumerate(found.cpus):
        if cpu >= cpus:
            what = f"must hold CPU numbers from 0 to {cpus - 1} (got {cpu})."
            raise file.error(what, (*place, "cpus", at), got=cpu)
    memory = memory_of(file, (*place, "memoryMiB"), found.memoryMiB, has_cpus=bool(found.cpus))
    hugepages = hugepages_of(file, (*place, "hugepages"), found.hugepages, memory)
    return Zone(id=number, memory_bytes=memory, cpus=tuple(found.cpus), hugepages=hugepages)


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
