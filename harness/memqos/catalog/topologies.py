"""Loads fixtures/topologies/NAME.json into a Topology, refusing what could not be a machine.

    {
      "purpose": "why it is there",
      "cpus": 2,
      "zones": [{"memoryMiB": 1024, "cpus": [0]}, {"memoryMiB": 1024, "cpus": [1]}],
      "distances": [[10, 20], [20, 10]],
      "swap": [{"sizeMiB": 512, "priority": 10}]
    }

distances and swap may be left out: the firmware's distances, and a machine without swap.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from memqos.catalog.data import data_root
from memqos.errors import ManifestError, UnknownNameError
from memqos.model.topology import LOCAL_DISTANCE, SwapDevice, Topology, Zone

__all__ = ["DEFAULT_TOPOLOGY", "load_topology", "parse_topology", "topology_names"]

DEFAULT_TOPOLOGY = "two-zones"

MIB = 1 << 20

MIN_ZONE_MIB = 64
"""Below this a zone cannot even hold its own page tables and the kernel's share."""

MIN_MEMORY_MIB = 512
MAX_CPUS = 64
MAX_PRIORITY = 32767
UNREACHABLE = 255


def topology_names(root: Path | None = None) -> list[str]:
    """The topologies that are there, sorted."""
    return sorted(path.stem for path in _folder(root).glob("*.json"))


def load_topology(name: str, root: Path | None = None) -> Topology:
    """The topology of this name.

    root: the data's folder; None is the one that travels with memqos.
    Raises UnknownNameError for a name that is none, ManifestError for a file that says something wrong.
    """
    known = topology_names(root)
    if name not in known:
        raise UnknownNameError.of("topology", name, known)
    file = _folder(root) / f"{name}.json"
    return parse_topology(name, file.read_bytes(), file=str(file))


def parse_topology(name: str, content: bytes, *, file: str) -> Topology:
    """A topology's JSON; raises ManifestError naming the file and the field."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError.at(f"is not JSON: {error}.", file=file) from error
    top = Fields(document, file=file, place="", known={"purpose", "cpus", "zones", "distances", "swap"})
    cpus = top.number("cpus", low=1, high=MAX_CPUS)
    zones = tuple(
        _zone(number, Fields(item, file=file, place=f"zones[{number}]", known={"memoryMiB", "cpus"}), cpus)
        for number, item in enumerate(top.items("zones"))
    )
    _check_zones(top, zones, cpus)
    swap = tuple(
        _swap(Fields(item, file=file, place=f"swap[{number}]", known={"sizeMiB", "priority"}))
        for number, item in enumerate(top.items("swap", absent=[]))
    )
    return Topology(name=name, cpus=cpus, zones=zones, distances=_distances(top, len(zones)), swap=swap)


def _folder(root: Path | None) -> Path:
    return (root or data_root()) / "fixtures" / "topologies"


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object of the file, its fields taken with their checks."""

    value: object
    file: str
    place: str
    known: set[str]

    def __init__(self, value: object, *, file: str, place: str, known: set[str]) -> None:
        for name, given in (("value", value), ("file", file), ("place", place), ("known", known)):
            object.__setattr__(self, name, given)
        if not isinstance(value, dict):
            raise self.error("", f"must be an object (got {json.dumps(value)[:80]}).", value)
        for name in value:
            if name not in known:
                raise self.error(name, f"is not known here. Known: {', '.join(sorted(known))}.", name)

    def error(self, name: str, what: str, got: object) -> ManifestError:
        """An error at one field of this object."""
        field = ".".join(part for part in (self.place, name) if part)
        return ManifestError.at(what, file=self.file, field=field, got=got)

    def get(self, name: str) -> object:
        """The field as it stands there, or None."""
        return self.value.get(name) if isinstance(self.value, dict) else None

    def number(self, name: str, *, low: int, high: int) -> int:
        """A whole number from low to high."""
        got = self.get(name)
        if isinstance(got, bool) or not isinstance(got, int) or not low <= got <= high:
            raise self.error(name, f"must be a whole number from {low} to {high} (got {json.dumps(got)}).", got)
        return got

    def items(self, name: str, *, absent: list[object] | None = None) -> list[object]:
        """A list; not empty, unless it may be left out."""
        got = self.get(name)
        if got is None and absent is not None:
            return absent
        if not isinstance(got, list) or (absent is None and not got):
            raise self.error(name, f"must be a list that is not empty (got {json.dumps(got)[:80]}).", got)
        return got


def _zone(number: int, fields: Fields, cpus: int) -> Zone:
    memory = fields.number("memoryMiB", low=MIN_ZONE_MIB, high=1 << 20)
    own = fields.items("cpus", absent=[])
    for cpu in own:
        if isinstance(cpu, bool) or not isinstance(cpu, int) or not 0 <= cpu < cpus:
            raise fields.error("cpus", f"must hold CPU numbers from 0 to {cpus - 1} (got {json.dumps(cpu)}).", cpu)
    return Zone(id=number, memory_bytes=memory * MIB, cpus=tuple(int(str(cpu)) for cpu in own))


def _check_zones(top: Fields, zones: tuple[Zone, ...], cpus: int) -> None:
    named = sorted(cpu for zone in zones for cpu in zone.cpus)
    if named != list(range(cpus)):
        raise top.error("zones", f"must name each CPU from 0 to {cpus - 1} once (they name {named}).", named)
    total = sum(zone.memory_bytes for zone in zones) // MIB
    if total < MIN_MEMORY_MIB:
        raise top.error(
            "zones", f"must have {MIN_MEMORY_MIB} MiB together, or Linux does not boot ({total} MiB).", total
        )


def _swap(fields: Fields) -> SwapDevice:
    size = fields.number("sizeMiB", low=1, high=1 << 20)
    priority = None if fields.get("priority") is None else fields.number("priority", low=0, high=MAX_PRIORITY)
    return SwapDevice(size_bytes=size * MIB, priority=priority)


def _distances(top: Fields, zones: int) -> tuple[tuple[int, ...], ...]:
    rows = top.items("distances", absent=[])
    if not rows:
        return ()
    if len(rows) != zones or any(not isinstance(row, list) or len(row) != zones for row in rows):
        raise top.error("distances", f"must be {zones} rows of {zones} numbers, one for each zone.", rows)
    table = []
    for source, row in enumerate(rows):
        if not isinstance(row, list):
            raise top.error("distances", "must be rows of numbers.", row)
        for target, distance in enumerate(row):
            low = LOCAL_DISTANCE if source == target else LOCAL_DISTANCE + 1
            high = LOCAL_DISTANCE if source == target else UNREACHABLE
            if isinstance(distance, bool) or not isinstance(distance, int) or not low <= distance <= high:
                place = f"distances[{source}][{target}]"
                raise top.error(place, f"must be from {low} to {high} (got {json.dumps(distance)}).", distance)
        table.append(tuple(row))
    return tuple(table)
