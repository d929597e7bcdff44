"""Facts of a node from a YAML or JSON file, and zones from a list of sizes.

The fields: memory, swap (quantities), cpus, pageSize (bytes), hugepageSizes (quantities), cgroup (v1 or v2),
swapController, pids (the lower of kernel.pid_max and kernel.threads-max), swappiness, kernel, zones. A zone: id,
memory, cpus (numbers), distances (to every zone, in the order of ids), hugepages (size to number of pages).
`catalog.node_objects` reads a Node object of Kubernetes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from memqos.catalog.node_objects import node_of
from memqos.catalog.node_values import text
from memqos.catalog.pods import read_text
from memqos.catalog.schema import FieldPath, check, parse_fields, quantity_of
from memqos.catalog.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, parse_documents
from memqos.errors import UsageError
from memqos.model.node import CgroupVersion, NodeFacts, NumaZone
from memqos.model.quantity import Quantity, QuantityError

__all__ = ["CPUS", "PAGE_SIZES", "SWAPPINESS", "facts_of", "load_facts", "zones_of"]

PAGE_SIZES = (4096, 16384, 65536)
CPUS = range(1, 8192 + 1)
SWAPPINESS = range(200 + 1)
_MOST_PIDS = 1 << 22
_NEAR, _FAR = 10, 20
_LARGEST_ID = 1023
_FIELDS = """
Node: memory quantity, swap quantity, cpus int, pageSize int, hugepageSizes []quantity, cgroup string,
  swapController bool, pids int, swappiness int, kernel string, zones []Zone
Zone: id int, memory quantity, cpus []int, distances []int, hugepages map[int]
"""


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(_FIELDS)


def load_facts(path: str | Path) -> NodeFacts:
    """The facts in a file; UsageError for one that cannot be read, ManifestError for what it must not say."""
    return facts_of(read_text(path, "a file of node facts"), str(path))


def facts_of(data: bytes, file: str) -> NodeFacts:
    """The facts in a document. What is not given has the default of `NodeFacts`; memory is the zones' sum then.

    Raises ManifestError naming file, line and field.
    """
    documents = parse_documents(data, file)
    place = FieldPath(file)
    if len(documents) != 1 or not isinstance(documents[0], MappingNode):
        found = f"{len(documents)} documents" if len(documents) != 1 else "something else"
        raise place.error(f"expected one mapping of facts, got {found}.", 0)
    node = documents[0]
    if text(node, "kind"):
        return node_of(node, place)
    check(node, "Node", _fields(), place)
    zones = tuple(_zones(node, place))
    bare = NodeFacts(memory=0)
    memory = sum(zone.memory for zone in zones) if node.get("memory") is None else _bytes(node, "memory", place)
    if memory < max(1, sum(zone.memory for zone in zones)):
        what = "the NUMA nodes have more memory than the node." if memory else "a node has at least 1 byte of memory."
        raise place.child("memory").error(what, node.line_of("memory"), got=memory)
    sizes = node.get("hugepageSizes")
    return NodeFacts(
        memory=memory,
        swap=_bytes(node, "swap", place),
        cpus=_whole(node, "cpus", place, CPUS, bare.cpus),
        page_size=_whole(node, "pageSize", place, PAGE_SIZES, bare.page_size),
        zones=zones,
        hugepage_sizes=tuple(quantity_of(one, place).value for one in sizes.items)
        if isinstance(sizes, SequenceNode)
        else bare.hugepage_sizes,
        cgroup_version=_version(node, place),
        swap_controller=_flag(node, "swapController", default=bare.swap_controller),
        pids=_pids(node, place),
        swappiness=_whole(node, "swappiness", place, SWAPPINESS, bare.swappiness),
        kernel=_word(node, "kernel"),
        origin=file,
    )


def zones_of(text: str, where: str) -> tuple[NumaZone, ...]:
    """Zones from their sizes, "4Gi,4Gi": ids from 0, distances 10 and 20; UsageError for what is no size."""
    sizes = []
    for part in text.split(","):
        try:
            sizes.append(Quantity.parse(part.strip()).value)
        except QuantityError as error:
            raise UsageError(f"{error}.", where=where, next_step="Write sizes such as 4Gi,4Gi.") from None
        if sizes[-1] < 0:
            raise UsageError(f"'{part}' is less than 0.", where=where, next_step="Write sizes such as 4Gi,4Gi.")
    return tuple(
        NumaZone(id=index, memory=size, distances=_distances(index, len(sizes))) for index, size in enumerate(sizes)
    )


def _distances(index: int, count: int) -> tuple[int, ...]:
    return tuple(_NEAR if other == index else _FAR for other in range(count))


def _zones(node: MappingNode, place: FieldPath) -> Iterator[NumaZone]:
    given = node.get("zones")
    items = given.items if isinstance(given, SequenceNode) else ()
    seen: set[int] = set()
    for index, item in enumerate(items):
        if not isinstance(item, MappingNode):
            continue
        here = place.child("zones").item(index)
        zone_id = _whole(item, "id", here, range(_LARGEST_ID + 1), index)
        if zone_id in seen:
            raise here.child("id").error(f"NUMA node {zone_id} is already defined.", item.line_of("id"), got=zone_id)
        seen.add(zone_id)
        distances = _numbers(item, "distances")
        if distances and len(distances) != len(items):
            what = f"expected {len(items)} distances, one to each NUMA node, got {len(distances)}."
            raise here.child("distances").error(what, item.line_of("distances"), got=list(distances))
        yield NumaZone(
            id=zone_id,
            memory=_bytes(item, "memory", here),
            cpus=_numbers(item, "cpus"),
            distances=distances or _distances(index, len(items)),
            hugepages=dict(_hugepages(item, here)),
        )


def _hugepages(zone: MappingNode, place: FieldPath) -> Iterator[tuple[int, int]]:
    given = zone.get("hugepages")
    for entry in given.entries if isinstance(given, MappingNode) else ():
        here = place.child("hugepages", entry.key)
        try:
            size = Quantity.parse(entry.key).value
        except QuantityError as error:
            raise here.error(f"{error}.", entry.line, next_step="Write a size such as 2Mi.") from None
        count = entry.value.value if isinstance(entry.value, ScalarNode) else None
        if not isinstance(count, int) or count < 0:
            raise here.error("expected a number of pages, 0 or more.", entry.line, got=count)
        yield size, count


def _bytes(node: MappingNode, name: str, place: FieldPath) -> int:
    """An amount of memory in bytes, 0 if it is not given."""
    given = node.get(name)
    if given is None:
        return 0
    size = quantity_of(given, place.child(name)).value
    if size < 0:
        raise place.child(name).error("an amount of memory must not be negative.", given.line, got=size)
    return size


def _whole(node: MappingNode, name: str, place: FieldPath, allowed: range | tuple[int, ...], default: int) -> int:
    given = node.get(name)
    value = given.value if isinstance(given, ScalarNode) else None
    if value is None:
        return default
    if value not in allowed:
        known = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
        raise place.child(name).error(f"{value} is not one of {known}.", node.line_of(name), got=value)
    return int(value)


def _pids(node: MappingNode, place: FieldPath) -> int | None:
    return None if node.get("pids") is None else _whole(node, "pids", place, range(1, _MOST_PIDS + 1), 1)


def _version(node: MappingNode, place: FieldPath) -> CgroupVersion:
    text = _word(node, "cgroup") or CgroupVersion.V2.value
    if text not in {*CgroupVersion}:
        raise place.child("cgroup").error(f"'{text[:40]}' is neither v1 nor v2.", node.line_of("cgroup"), got=text)
    return CgroupVersion(text)


def _flag(node: MappingNode, name: str, *, default: bool) -> bool:
    given = node.get(name)
    return given.value if isinstance(given, ScalarNode) and isinstance(given.value, bool) else default


def _word(node: MappingNode, name: str) -> str:
    given = node.get(name)
    return given.value if isinstance(given, ScalarNode) and isinstance(given.value, str) else ""


def _numbers(node: MappingNode, name: str) -> tuple[int, ...]:
    given: Node | None = node.get(name)
    items = given.items if isinstance(given, SequenceNode) else ()
    return tuple(item.value for item in items if isinstance(item, ScalarNode) and isinstance(item.value, int))
