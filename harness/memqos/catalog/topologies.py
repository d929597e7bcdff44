"""Loads a topology, refusing what could not be a machine: fixtures/topologies/NAME.json, or a file of one's own.

    {
      "purpose": "why it is there",
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

Only cpus and zones must be there. A zone without memory (0 MiB) has CPUs alone, one without cpus memory alone. What is
left out: one package of cores with one thread each, the firmware's distances, no swap, the kernel's choice of zswap.

A list instead of an object is in the format of NUMA groups: memqos.catalog.numa_groups.
"""

from __future__ import annotations

from pathlib import Path

from memqos.catalog.data import data_root
from memqos.catalog.json_fields import JsonFields, parse_json
from memqos.catalog.numa_groups import parse_groups
from memqos.catalog.zone_fields import MIB, MOST_ZONES, hugepages_of, memory_of, swap_of
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.topology import LOCAL_DISTANCE, Processors, Topology, Zone
from memqos.plain_file import read_plain

__all__ = ["load_topology", "parse_topology", "topology_names"]

FIELDS = ("purpose", "cpus", "processors", "zones", "distances", "swap", "zswap")
MIN_MEMORY_MIB = 512
MAX_BYTES = 1 << 20
MAX_CPUS = 64
UNREACHABLE = 255


def topology_names(root: Path | None = None) -> list[str]:
    """The topologies that are there, sorted."""
    return sorted(path.stem for path in _folder(root).glob("*.json"))


def load_topology(name: str, root: Path | None = None) -> Topology:
    """The topology of this name, or in the file of this path: what ends in .json or has a slash is a path.

    root: the data's folder; None is the one that travels with memqos.
    Raises UnknownNameError for a name that is none, UsageError for a file that cannot be read, and ManifestError for
    one that says something wrong.
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
    """A topology's JSON; raises ManifestError naming the file and the field."""
    document = parse_json(content, file=file)
    if isinstance(document, list):
        topology, field = parse_groups(name, document, file=file), ""
    else:
        topology, field = _topology(name, JsonFields(document, file, "", FIELDS)), "zones"
    _check_size(topology, file=file, field=field)
    _check_distances(topology, file=file, field="distances" if field else "")
    return topology


def _folder(root: Path | None) -> Path:
    return (root or data_root()) / "fixtures" / "topologies"


def _topology(name: str, top: JsonFields) -> Topology:
    cpus = top.number("cpus", low=1, high=MAX_CPUS)
    listed = top.items("zones")
    if len(listed) > MOST_ZONES:
        raise top.error("zones", f"has {len(listed)} NUMA nodes, and QEMU has at most {MOST_ZONES}.", len(listed))
    zones = tuple(
        _zone(number, JsonFields(item, top.file, f"zones[{number}]", ("memoryMiB", "cpus", "hugepages")), cpus)
        for number, item in enumerate(listed)
    )
    named = sorted(cpu for zone in zones for cpu in zone.cpus)
    if named != list(range(cpus)):
        raise top.error("zones", f"must name each CPU from 0 to {cpus - 1} once (they name {named}).", named)
    return Topology(
        name=name,
        cpus=cpus,
        zones=zones,
        distances=_distances(top, len(zones)),
        swap=swap_of(top),
        zswap=top.flag("zswap"),
        processors=_processors(top, cpus),
    )


def _zone(number: int, fields: JsonFields, cpus: int) -> Zone:
    own = fields.items("cpus", absent=[])
    for cpu in own:
        if isinstance(cpu, bool) or not isinstance(cpu, int) or not 0 <= cpu < cpus:
            raise fields.error("cpus", f"must hold CPU numbers from 0 to {cpus - 1} (got {cpu!r}).", cpu)
    memory = memory_of(fields, "memoryMiB", fields.number("memoryMiB", low=0, high=1 << 20), has_cpus=bool(own))
    return Zone(
        id=number,
        memory_bytes=memory,
        cpus=tuple(int(str(cpu)) for cpu in own),
        hugepages=hugepages_of(fields, memory),
    )


def _processors(top: JsonFields, cpus: int) -> Processors | None:
    if top.get("processors") is None:
        return None
    levels = ("packages", "dies", "cores", "threads")
    fields = top.child("processors", levels)
    processors = Processors(**{level: fields.number(level, low=1, high=MAX_CPUS, absent=1) for level in levels})
    if processors.cpus != cpus:
        raise top.error("processors", f"must multiply to {cpus} CPUs (they are {processors.cpus}).", processors.cpus)
    return processors


def _distances(top: JsonFields, zones: int) -> tuple[tuple[int, ...], ...]:
    rows = top.items("distances", absent=[])
    if rows and (len(rows) != zones or any(not isinstance(row, list) or len(row) != zones for row in rows)):
        raise top.error("distances", f"must be {zones} rows of {zones} numbers, one for each NUMA node.", rows)
    return tuple(tuple(row) for row in rows if isinstance(row, list))


def _check_size(topology: Topology, *, file: str, field: str) -> None:
    total = topology.memory_bytes // MIB
    if total < MIN_MEMORY_MIB:
        what = f"must have {MIN_MEMORY_MIB} MiB together, or Linux does not boot ({total} MiB)."
        raise ManifestError.at(what, file=file, field=field, got=total)
    if topology.cpus > MAX_CPUS:
        what = f"has {topology.cpus} CPUs, and a machine has at most {MAX_CPUS}."
        raise ManifestError.at(what, file=file, field=field, got=topology.cpus)


def _check_distances(topology: Topology, *, file: str, field: str) -> None:
    """Distances as ACPI's SLIT can say them, which is also what QEMU takes."""
    for source, row in enumerate(topology.distances):
        for target, distance in enumerate(row):
            low = LOCAL_DISTANCE if source == target else LOCAL_DISTANCE + 1
            high = LOCAL_DISTANCE if source == target else UNREACHABLE
            if isinstance(distance, bool) or not isinstance(distance, int) or not low <= distance <= high:
                place = f"{field}[{source}][{target}]" if field else f"distance from node {source} to {target}"
                what = f"must be from {low} to {high} (got {distance!r})."
                raise ManifestError.at(what, file=file, field=place, got=distance)
