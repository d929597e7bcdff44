"""Facts of a node from a YAML or JSON file or its Node object, and NUMA nodes from a list of sizes.

The fields of a file: memory, swap (quantities), cpus, pageSize (bytes), hugepageSizes (quantities), cgroup (v1 or v2),
swapController, pids (the lower of kernel.pid_max and kernel.threads-max), swappiness, kernel, zones. A NUMA node: id,
memory, cpus (numbers), distances (to every NUMA node, in the order of ids), hugepages (size to number of pages).

A Node object is read as `kubectl get node NAME -o json` prints it. Neither it nor a support archive names the size of a
memory page, so that is derived from the kernel's name or from amounts that the kernel counts in pages.

Sources: Kubernetes API v1 Node: status.capacity, status.allocatable, status.nodeInfo. arch/{x86,s390,arm64,powerpc}
Kconfig of Linux; names of kernels as Red Hat, SUSE, Ubuntu, Fedora and Debian give them; glibc, elf/dl-diagnostics.c.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from memqos.catalog.pods import read_text
from memqos.catalog.schema import LARGEST, FieldPath, check, mapping, parse_fields, quantity_of, text
from memqos.catalog.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, parse_documents
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupVersion, NodeFacts, NumaNode
from memqos.model.pod import ResourceList
from memqos.model.quantity import Quantity, QuantityError

__all__ = [
    "PAGE_SIZES",
    "amounts_of",
    "facts_of",
    "load_facts",
    "numa_nodes_of",
    "page_size_in_diagnostics",
    "page_size_of_amounts",
    "page_size_of_kernel",
]


PAGE_SIZES = (4096, 16384, 65536)
"""Bytes of a page on the architectures that memqos has programs for."""

_FIXED = {"x86_64": 4096, "amd64": 4096, "s390x": 4096, "riscv64": 4096}
_FLAVOUR = re.compile(r"[-+](4|16|64)kb?(?![0-9a-z])")
"""5.14.0-570.el9.aarch64+64k, 6.4.0-150600.21-64kb, 6.8.0-31-generic-64k, 6.12.117+deb13-arm64-16k."""
_RHEL_8 = re.compile(r"\.el(7a|8(_\d+)?)\.aarch64$")
_DEBIAN_4K = re.compile(r"\+deb(1[3-9]|[2-9]\d)-powerpc64le$")
_ENOUGH = 8


def page_size_of_kernel(architecture: str, release: str) -> tuple[int, bool]:
    """Bytes of a page, and whether that is certain: the architecture has one size, or the kernel's name says it.

    architecture: as `uname -m` or a Node prints it. release: as `uname -r` prints it. Without a word of either the page
    is taken as 4096 bytes, on ppc64le as 65536, as its distributions build it. Red Hat's kernels for arm64 had 64 KiB
    up to release 8; Debian's for ppc64el has 4 KiB from release 13 on.
    """
    if architecture in _FIXED:
        return _FIXED[architecture], True
    if flavour := _FLAVOUR.search(release.lower()):
        return int(flavour[1]) << 10, True
    if _RHEL_8.search(release):
        return 65536, True
    if _DEBIAN_4K.search(release):
        return 4096, True
    return (65536 if architecture == "ppc64le" else 4096), False


def page_size_in_diagnostics(printed: str) -> int | None:
    """The page that glibc's `ld.so --list-diagnostics` prints; None where it prints none of ours."""
    found = re.search(r"(?m)^dl_pagesize=0x([0-9a-f]{1,8})$", printed)
    size = int(found[1], 16) if found else None
    return size if size in PAGE_SIZES else None


def page_size_of_amounts(amounts: Iterable[int]) -> tuple[int, bool] | None:
    """The largest page of which all amounts are multiples, and whether that excludes every other one.

    amounts: what a kernel counts in pages, in bytes. An amount that is no multiple of a page excludes it: certain for
    4096. A larger page is not certain, yet eight amounts have it by chance once in 65536. None for fewer amounts.
    """
    found = {amount for amount in amounts if amount > 0}
    size = max((one for one in PAGE_SIZES if not any(amount % one for amount in found)), default=None)
    if size is None or (size != PAGE_SIZES[0] and len(found) < _ENOUGH) or not found:
        return None
    return size, size == PAGE_SIZES[0]


_COUNTED = ("MemTotal", "MemFree", "Buffers", "Cached", "Active", "Inactive", "AnonPages", "Mapped", "Shmem")
"""Fields of /proc/meminfo that the kernel counts in pages (fs/proc/meminfo.c)."""


def amounts_of(meminfo: str, used: Iterable[str]) -> Iterable[int]:
    """Bytes of what a node's kernel counts in pages: of /proc/meminfo, and memory.current of its cgroups.

    used: the texts of memory.current; one that is no amount is left out.
    """
    for name in _COUNTED:
        if found := re.search(rf"(?m)^{name}: +(\d+) kB$", meminfo):
            yield int(found[1]) << 10
    for amount in map(str.strip, used):
        if amount.isascii() and amount.isdigit():
            yield int(amount)


_HUGE = "hugepages-"
_LISTS = {"List", "NodeList"}
_ONE = "Give one Node: kubectl get node NAME -o json."
_MOST_CPUS = 8192


def node_of(node: MappingNode, place: FieldPath) -> NodeFacts:
    """The facts in a Node object, or in a list of one; missing facts have the defaults of `NodeFacts`.

    A Node names neither its NUMA nodes nor its page size: that one follows from its architecture and its kernel's name.
    Raises ManifestError naming file and field for another object, several Nodes, a node that runs Windows, and one
    without memory and CPUs.
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
        page_size=page_size_of_kernel(text(info, "architecture"), text(info, "kernelVersion"))[0],
        numa_nodes=_numa_nodes(memory, huge),
        hugepage_sizes=tuple(sorted(huge)) or bare.hugepage_sizes,
        kernel=text(info, "kernelVersion"),
        kubelet=text(info, "kubeletVersion"),
        runtime=text(info, "containerRuntimeVersion"),
        allocatable=_amounts(status, "allocatable", own) or None,
        user_namespace=_in_user_namespace(node, info),
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
    # cAdvisor counts whole CPUs.
    return int(found.amount)


def _in_user_namespace(node: MappingNode, info: MappingNode) -> bool:
    """nodeInfo.runningInUserNamespace (1.37 and later), or a label that operators may set."""
    label = text(mapping(mapping(node, "metadata"), "labels"), "node.kubernetes.io/running-in-user-namespace")
    told = info.get("runningInUserNamespace")
    return label == "true" or (isinstance(told, ScalarNode) and told.value is True)


def _swap(info: MappingNode, place: FieldPath) -> int:
    """nodeInfo.swap.capacity (1.33 and later), in bytes; 0 if missing."""
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


def _numa_nodes(memory: int, huge: dict[int, int]) -> tuple[NumaNode, ...]:
    """With huge pages, one NUMA node for the whole machine: a Node object has no more detail."""
    pages = {size: amount // size for size, amount in huge.items() if size and amount // size}
    return (NumaNode(id=0, memory=memory, distances=(10,), hugepages=pages),) if pages else ()


CPUS = range(1, 8192 + 1)
SWAPPINESS = range(200 + 1)
_MOST_PIDS = 1 << 22
_NEAR, _FAR = 10, 20
_LARGEST_ID = 1023
_FIELDS = """
Node: memory quantity, swap quantity, cpus int, pageSize int, hugepageSizes []quantity, cgroup string,
  swapController bool, pids int, swappiness int, kernel string, numaNodes []NumaNode,
  zones []NumaNode
NumaNode: id int, memory quantity, cpus []int, distances []int, hugepages map[int]
"""


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(_FIELDS)


def load_facts(path: str | Path) -> NodeFacts:
    """The facts in a file; UsageError for an unreadable one, ManifestError for invalid content."""
    return facts_of(read_text(path, "a file of node facts"), str(path))


def facts_of(data: bytes, file: str) -> NodeFacts:
    """The facts in a document. Missing facts have the defaults of `NodeFacts`; missing memory is the NUMA nodes' sum.

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
    if node.get("Name") is not None and node.get("Capacity") is not None:
        raise place.error("this is the text of kubectl describe node.", 1, next_step=_ONE)
    check(node, "Node", _fields(), place)
    numa_nodes = tuple(_listed_numa_nodes(node, place))
    bare = NodeFacts(memory=0)
    memory = sum(numa.memory for numa in numa_nodes) if node.get("memory") is None else _bytes(node, "memory", place)
    if memory < max(1, sum(numa.memory for numa in numa_nodes)):
        what = "the NUMA nodes have more memory than the node." if memory else "a node has at least 1 byte of memory."
        raise place.child("memory").error(what, node.line_of("memory"), got=memory)
    sizes = node.get("hugepageSizes")
    return NodeFacts(
        memory=memory,
        swap=_bytes(node, "swap", place),
        cpus=_number(node, "cpus", place, CPUS, bare.cpus),
        page_size=_number(node, "pageSize", place, PAGE_SIZES, bare.page_size),
        numa_nodes=numa_nodes,
        hugepage_sizes=tuple(quantity_of(one, place).value for one in sizes.items)
        if isinstance(sizes, SequenceNode)
        else bare.hugepage_sizes,
        cgroup_version=_version(node, place),
        swap_controller=_flag(node, "swapController", default=bare.swap_controller),
        pids=_pids(node, place),
        swappiness=_number(node, "swappiness", place, SWAPPINESS, bare.swappiness),
        kernel=_word(node, "kernel"),
        origin=file,
    )


def numa_nodes_of(text: str, where: str) -> tuple[NumaNode, ...]:
    """NUMA nodes from their sizes, "4Gi,4Gi": ids from 0, distances 10 and 20; UsageError for an invalid size."""
    sizes = []
    for part in text.split(","):
        try:
            sizes.append(Quantity.parse(part.strip()).value)
        except QuantityError as error:
            raise UsageError(f"{error}.", where=where, next_step="Write sizes such as 4Gi,4Gi.") from None
        if sizes[-1] < 0:
            raise UsageError(f"'{part}' is less than 0.", where=where, next_step="Write sizes such as 4Gi,4Gi.")
    return tuple(
        NumaNode(id=index, memory=size, distances=_distances(index, len(sizes))) for index, size in enumerate(sizes)
    )


def _distances(index: int, count: int) -> tuple[int, ...]:
    return tuple(_NEAR if other == index else _FAR for other in range(count))


def _listed_numa_nodes(node: MappingNode, place: FieldPath) -> Iterator[NumaNode]:
    name = "zones" if node.get("numaNodes") is None else "numaNodes"
    if name == "numaNodes" and node.get("zones") is not None:
        raise place.child("zones").error(
            "this is the former name of numaNodes: give one of them.", node.line_of("zones")
        )
    given = node.get(name)
    items = given.items if isinstance(given, SequenceNode) else ()
    seen: set[int] = set()
    for index, item in enumerate(items):
        if not isinstance(item, MappingNode):
            continue
        here = place.child(name).item(index)
        numa_id = _number(item, "id", here, range(_LARGEST_ID + 1), index)
        if numa_id in seen:
            raise here.child("id").error(f"NUMA node {numa_id} is already defined.", item.line_of("id"), got=numa_id)
        seen.add(numa_id)
        distances = _numbers(item, "distances")
        if distances and len(distances) != len(items):
            what = f"expected {len(items)} distances, one to each NUMA node, got {len(distances)}."
            raise here.child("distances").error(what, item.line_of("distances"), got=list(distances))
        yield NumaNode(
            id=numa_id,
            memory=_bytes(item, "memory", here),
            cpus=_numbers(item, "cpus"),
            distances=distances or _distances(index, len(items)),
            hugepages=dict(_hugepages(item, here)),
        )


def _hugepages(numa: MappingNode, place: FieldPath) -> Iterator[tuple[int, int]]:
    given = numa.get("hugepages")
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
    """An amount of memory in bytes, 0 if missing."""
    given = node.get(name)
    if given is None:
        return 0
    size = quantity_of(given, place.child(name)).value
    if size < 0:
        raise place.child(name).error("an amount of memory must not be negative.", given.line, got=size)
    return size


def _number(node: MappingNode, name: str, place: FieldPath, allowed: range | tuple[int, ...], default: int) -> int:
    given = node.get(name)
    value = given.value if isinstance(given, ScalarNode) else None
    if value is None:
        return default
    if value not in allowed:
        known = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
        raise place.child(name).error(f"{value} is not one of {known}.", node.line_of(name), got=value)
    return int(value)


def _pids(node: MappingNode, place: FieldPath) -> int | None:
    return None if node.get("pids") is None else _number(node, "pids", place, range(1, _MOST_PIDS + 1), 1)


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
