"""Facts of a node from its Node object, as `kubectl get node NAME -o json` prints it.

Source: Kubernetes API v1 Node: status.capacity, status.allocatable, status.nodeInfo.
"""

from __future__ import annotations

from memqos.catalog.node_values import mapping, text
from memqos.catalog.schema import LARGEST, FieldPath, quantity_of
from memqos.catalog.yaml_nodes import MappingNode, ScalarNode, SequenceNode
from memqos.errors import ManifestError
from memqos.model.node import NodeFacts, NumaZone
from memqos.model.pod import ResourceList
from memqos.model.quantity import Quantity, QuantityError

__all__ = ["node_of"]

_HUGE = "hugepages-"
_LISTS = {"List", "NodeList"}
_ONE = "Give one Node: kubectl get node NAME -o json."
_MOST_CPUS = 8192


def node_of(node: MappingNode, place: FieldPath) -> NodeFacts:
    """The facts in a Node object, or in a list of one; what a Node does not tell has the default of `NodeFacts`.

    A Node tells neither its NUMA nodes nor its page size, 4096 on amd64. Raises ManifestError naming file and field for
    another object, several Nodes, a node that runs Windows, and one without memory and CPUs.
    """
    kind = text(node, "kind")
    if kind in _LISTS:
        items = node.get("items")
        found = items.items if isinstance(items, SequenceNode) else ()
        if len(found) != 1 or not isinstance(found[0], MappingNode):
            raise place.child("items").error(f"expected one Node, got {len(found)}.", node.line, next_step=_ONE)
        node, place = found[0], place.child("items").item(0)
        kind = text(node, "kind") or ("Node" if kind == "NodeList" else "")
    if kind != "Node":
        raise place.child("kind").error(f"expected a Node, got '{kind[:80]}'.", node.line_of("kind"), next_step=_ONE)
    status, own = mapping(node, "status"), place.child("status")
    info = mapping(status, "nodeInfo")
    if text(info, "operatingSystem") not in {"", "linux"}:
        raise own.child("nodeInfo", "operatingSystem").error("memqos supports Linux nodes only.", info.line)
    capacity = _amounts(status, "capacity", own)
    memory, cpus = _whole(capacity, "memory", status, own), _whole(capacity, "cpu", status, own)
    if cpus > _MOST_CPUS:
        raise own.child("capacity", "cpu").error(f"{cpus} CPUs are more than {_MOST_CPUS}.", status.line, got=cpus)
    bare = NodeFacts(memory=0)
    huge = {_page_size(name, own, status): one.value for name, one in capacity.items() if name.startswith(_HUGE)}
    return NodeFacts(
        memory=memory,
        cpus=cpus,
        swap=_swap(info, own),
        zones=_zones(memory, huge),
        hugepage_sizes=tuple(sorted(huge)) or bare.hugepage_sizes,
        kernel=text(info, "kernelVersion"),
        kubelet=text(info, "kubeletVersion"),
        runtime=text(info, "containerRuntimeVersion"),
        allocatable=_amounts(status, "allocatable", own) or None,
        origin=place.file,
    )


def _amounts(status: MappingNode, name: str, place: FieldPath) -> ResourceList:
    return {
        entry.key: quantity_of(entry.value, place.child(name, entry.key)) for entry in mapping(status, name).entries
    }


def _whole(capacity: ResourceList, name: str, status: MappingNode, place: FieldPath) -> int:
    found = capacity.get(name)
    if found is None or found.value < 1:
        got = "nothing" if found is None else str(found)
        what = f"expected the node's {name}, got {got}."
        raise place.child("capacity", name).error(what, status.line_of("capacity"), got=got, next_step=_ONE)
    # cAdvisor counts whole CPUs; a part of one would be rounded down by all that divides work among them.
    return int(found.amount)


def _swap(info: MappingNode, place: FieldPath) -> int:
    """nodeInfo.swap.capacity (1.33 and later), in bytes; 0 where a Node does not tell."""
    value = mapping(info, "swap").get("capacity")
    if not isinstance(value, ScalarNode) or value.value is None:
        return 0
    where = place.child("nodeInfo", "swap", "capacity")
    found = quantity_of(value, where).value
    if not 0 <= found <= LARGEST:
        raise where.error("swap must not be negative.", value.line, got=found)
    return found


def _page_size(name: str, place: FieldPath, status: MappingNode) -> int:
    try:
        return Quantity.parse(name.removeprefix(_HUGE)).value
    except QuantityError as error:
        raise _bad_size(place, name, status, error) from None


def _bad_size(place: FieldPath, name: str, status: MappingNode, error: QuantityError) -> ManifestError:
    return place.child("capacity", name).error(f"{error}.", status.line_of("capacity"), got=name)


def _zones(memory: int, huge: dict[int, int]) -> tuple[NumaZone, ...]:
    """Where huge pages are set aside they are all in one zone, which is the whole node: a Node tells no more."""
    pages = {size: amount // size for size, amount in huge.items() if size and amount // size}
    return (NumaZone(id=0, memory=memory, distances=(10,), hugepages=pages),) if pages else ()
