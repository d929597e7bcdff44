"""A guest's own view: its hardware, cgroups, and software versions.

Hardware and cgroups are compared with the requested topology and options. A machine that differs would make every
verdict about NUMA nodes, swap or huge pages worthless, so it is checked once, after its boot, and a difference is an
error before anything is judged on it.

Also huge pages of a topology, reserved from inside where the kernel's command line did not do it: powerpc ignores
counts by NUMA node there (arch/powerpc/mm/hugetlbpage.c, hugetlb_node_alloc_supported).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from memqos.clock import Deadline
from memqos.errors import ImageError, MachineError
from memqos.model.node import CgroupVersion
from memqos.model.topology import LOCAL_DISTANCE, REMOTE_DISTANCE, HugePages, Topology, TopologyNode
from memqos.target.base import Target, checked, version_in

__all__ = [
    "Declared",
    "kernel_config_of",
    "packages_in",
    "packages_of",
    "parse_view",
    "place_of",
    "pool_words",
    "read_view",
    "reserve_huge_pages",
    "verify_guest",
    "versions_of",
    "view_differences",
]


NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"
ZSWAP = "/sys/module/zswap/parameters/enabled"
SWAPS = "/proc/swaps"
MOUNTS = "/proc/mounts"

PATTERNS = (
    f"{NODES}/node*/cpulist",
    f"{NODES}/node*/distance",
    f"{NODES}/node*/meminfo",
    f"{NODES}/node*/hugepages/hugepages-*/nr_hugepages",
    f"{CPUS}/cpu[0-9]*/topology/physical_package_id",
    f"{CPUS}/cpu[0-9]*/topology/die_id",
    f"{CPUS}/cpu[0-9]*/topology/thread_siblings_list",
    SWAPS,
    MOUNTS,
    ZSWAP,
)
"""The files that are read: globs of the guest's shell."""

READ_ALL = 'for file; do [ ! -r "$file" ] || grep -H \'\' "$file"; done'
"""Prints PATH:LINE for every line of every existing file."""

PAGE = "pagesize"
PAGE_SIZE = f'echo "{PAGE}:$(getconf PAGESIZE)"'
"""Prints the page size in bytes in the same format."""

KIB = 1 << 10

OWN_SHARE = 0.12
OWN_BYTES = 160 << 20
"""What kernel, page tables and firmware may reserve of a NUMA node's memory: a fraction plus a constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declared guest: its topology, the hierarchy with the memory controller, and that one's option."""

    topology: Topology
    cgroup: CgroupVersion = CgroupVersion.V2
    recursiveprot: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One active swap device: its usable bytes, and its priority."""

    size_bytes: int
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestView:
    """The guest's view: NUMA nodes with resources, distances, swap by device name, zswap, and CPU topology.

    page_size: page size in bytes; the first page of a swap device holds its header and is not usable. zswap: None if
    the kernel has none. places: for each CPU its package, its die, and its core's threads. cgroup: the hierarchy with
    the memory controller, None if none has it. recursiveprot: memory_recursiveprot of v2.
    """

    numa_nodes: tuple[TopologyNode, ...]
    distances: tuple[tuple[int, ...], ...]
    swap: tuple[Swap, ...]
    zswap: bool | None
    places: tuple[tuple[int, int, int], ...]
    cgroup: CgroupVersion | None
    recursiveprot: bool
    page_size: int


class _Hierarchy(TypedDict):
    cgroup: CgroupVersion | None
    recursiveprot: bool


def read_view(target: Target, *, deadline: Deadline) -> GuestView:
    """Query a guest; one command."""
    script = f"set -- {' '.join(PATTERNS)}\n{READ_ALL}\n{PAGE_SIZE}"
    return parse_view(checked(target.run(["sh", "-c", script], deadline=deadline), where=target.address).text)


def verify_guest(target: Target, declared: Declared, *, deadline: Deadline) -> None:
    """Raise MachineError, naming each difference, if the guest is not as declared."""
    found = list(view_differences(declared, read_view(target, deadline=deadline)))
    if found:
        name = declared.topology.name
        raise MachineError(
            f"the guest differs from the topology '{name}' and the options: {'; '.join(found)}.",
            where=target.address,
            next_step="Change the topology's file, or report a bug: this QEMU or this kernel provides another machine.",
            data={"topology": name, "differences": found},
        )


def parse_view(text: str) -> GuestView:
    """The view from lines of PATH:LINE."""
    files: dict[str, str] = {}
    for line in text.splitlines():
        path, _, content = line.partition(":")
        files[path] = files.get(path, "") + content + "\n"
    ids = sorted({int(match[1]) for path in files if (match := re.match(rf"{NODES}/node(\d+)/", path))})
    return GuestView(
        numa_nodes=tuple(_numa_node(files, numa) for numa in ids),
        distances=tuple(tuple(map(int, files.get(f"{NODES}/node{numa}/distance", "").split())) for numa in ids),
        swap=tuple(_swaps(files.get(SWAPS, ""))),
        zswap=files[ZSWAP].strip() == "Y" if ZSWAP in files else None,
        places=tuple(_places(files)),
        **_hierarchy(files.get(MOUNTS, "")),
        page_size=int(files[PAGE]),
    )


def _numa_node(files: Mapping[str, str], numa: int) -> TopologyNode:
    folder = f"{NODES}/node{numa}"
    total = re.search(r"MemTotal:\s+(\d+) kB", files.get(f"{folder}/meminfo", ""))
    sizes = {
        int(match[1]) * KIB: int(content)
        for path, content in files.items()
        if (match := re.match(rf"{folder}/hugepages/hugepages-(\d+)kB/", path)) and int(content)
    }
    return TopologyNode(
        id=numa,
        memory_bytes=int(total[1]) * KIB if total else 0,
        cpus=tuple(_numbers(files.get(f"{folder}/cpulist", ""))),
        hugepages=tuple(HugePages(size_bytes=size, count=count) for size, count in sorted(sizes.items())),
    )


def _hierarchy(mounts: str) -> _Hierarchy:
    """Which hierarchy has the memory controller: the v1 mount that names it, else v2 if it is mounted."""
    types = {(words[2], tuple(words[3].split(","))) for line in mounts.splitlines() if (words := line.split())}
    v1 = any(kind == "cgroup" and "memory" in options for kind, options in types)
    v2 = [options for kind, options in types if kind == "cgroup2"]
    if v1:
        return {"cgroup": CgroupVersion.V1, "recursiveprot": False}
    recursiveprot = any("memory_recursiveprot" in options for options in v2)
    return {"cgroup": CgroupVersion.V2 if v2 else None, "recursiveprot": recursiveprot}


def _swaps(text: str) -> Iterator[Swap]:
    for line in sorted(text.splitlines()[1:]):
        words = line.split()
        yield Swap(size_bytes=int(words[2]) * KIB, priority=int(words[4]))


def _places(files: Mapping[str, str]) -> Iterator[tuple[int, int, int]]:
    cpu = 0
    while (folder := f"{CPUS}/cpu{cpu}/topology") and f"{folder}/physical_package_id" in files:
        package, die = (int(files.get(f"{folder}/{name}", "0")) for name in ("physical_package_id", "die_id"))
        yield package, die, len(list(_numbers(files.get(f"{folder}/thread_siblings_list", ""))))
        cpu += 1


def _numbers(text: str) -> Iterator[int]:
    """The kernel's list format: "0-1,4"."""
    for span in text.strip().split(",") if text.strip() else ():
        first, _, last = span.partition("-")
        yield from range(int(first), int(last or first) + 1)


def view_differences(declared: Declared, view: GuestView) -> Iterator[str]:
    """The differences, each as a clause: what the guest has, and what is declared."""
    yield from _hierarchy_differences(declared, view)
    topology = declared.topology
    if len(view.numa_nodes) != len(topology.numa_nodes):
        yield f"it has {len(view.numa_nodes)} NUMA nodes, declared are {len(topology.numa_nodes)}"
        return
    for wanted, numa in zip(topology.numa_nodes, view.numa_nodes, strict=True):
        yield from _node_differences(wanted, numa)
    yield from _distance_differences(topology, view.distances)
    yield from _swap_differences(topology, view)
    yield from _place_differences(topology, view.places)


def _hierarchy_differences(declared: Declared, view: GuestView) -> Iterator[str]:
    if view.cgroup is not declared.cgroup:
        seen = f"cgroup {view.cgroup}" if view.cgroup else "no cgroup hierarchy"
        yield f"{seen} has the memory controller, declared is {declared.cgroup}"
    elif declared.cgroup is CgroupVersion.V2 and view.recursiveprot is not declared.recursiveprot:
        words = {True: "on", False: "off"}
        yield f"memory_recursiveprot is {words[view.recursiveprot]}, declared is {words[declared.recursiveprot]}"


def _node_differences(declared: TopologyNode, numa: TopologyNode) -> Iterator[str]:
    if numa.cpus != tuple(sorted(declared.cpus)):
        yield f"NUMA node {numa.id} has the CPUs {list(numa.cpus)}, declared are {sorted(declared.cpus)}"
    least = max(int(declared.memory_bytes * (1 - OWN_SHARE)) - OWN_BYTES, 1 if declared.memory_bytes else 0)
    if not least <= numa.memory_bytes <= declared.memory_bytes:
        yield f"NUMA node {numa.id} has {numa.memory_bytes >> 20} MiB, declared are {declared.memory_bytes >> 20}"
    if numa.hugepages != declared.hugepages:
        yield f"NUMA node {numa.id} has huge pages {_pages(numa)}, declared are {_pages(declared)}"


def _pages(numa: TopologyNode) -> str:
    return ", ".join(f"{pages.count} of {pages.size_bytes >> 20} MiB" for pages in numa.hugepages) or "none"


def _distance_differences(topology: Topology, seen: Sequence[Sequence[int]]) -> Iterator[str]:
    count = len(topology.numa_nodes)
    usual = [[LOCAL_DISTANCE if row == column else REMOTE_DISTANCE for column in range(count)] for row in range(count)]
    for source, (declared, row) in enumerate(zip(topology.distances or usual, seen, strict=True)):
        if list(declared) != list(row):
            yield f"NUMA node {source} has the distances {list(row)}, declared are {list(declared)}"


def _swap_differences(topology: Topology, view: GuestView) -> Iterator[str]:
    if len(view.swap) != len(topology.swap):
        yield f"it has {len(view.swap)} swap devices, declared are {len(topology.swap)}"
        return
    for number, (declared, device) in enumerate(zip(topology.swap, view.swap, strict=True)):
        usable = declared.size_bytes - view.page_size
        if device.size_bytes != usable:
            yield f"swap device {number} has {device.size_bytes} usable bytes, declared are {usable}"
        chosen = declared.priority if declared.priority is not None else min(device.priority, -1)
        if device.priority != chosen:
            wanted = "a negative one" if declared.priority is None else str(chosen)
            yield f"swap device {number} has the priority {device.priority}, declared is {wanted}"
    if topology.zswap is not None and view.zswap is not topology.zswap:
        seen = {None: "not in its kernel", True: "on", False: "off"}[view.zswap]
        yield f"zswap is {seen}, declared is {'on' if topology.zswap else 'off'}"


def _place_differences(topology: Topology, places: Sequence[tuple[int, int, int]]) -> Iterator[str]:
    """The CPU topology; checked only if it is declared."""
    if topology.processors is None:
        return
    declared = topology.processors
    packages = len({package for package, _, _ in places})
    dies = len({(package, die) for package, die, _ in places})
    threads = max((threads for _, _, threads in places), default=0)
    seen = (packages, dies, threads)
    wanted = (declared.packages, declared.packages * declared.dies, declared.threads)
    if seen != wanted:
        shown, meant = "it has {} packages, {} dies and {} threads per core", "declared are {}, {} and {}"
        yield f"{shown.format(*seen)}, {meant.format(*wanted)}"


VERSIONS: dict[str, tuple[str, ...]] = {
    "kernel": ("uname", "-r"),
    "systemd": ("systemctl", "--version"),
    "containerd": ("containerd", "--version"),
    "runc": ("runc", "--version"),
    "crun": ("crun", "--version"),
}
"""Component to the command whose first line has its version."""

ADDED: dict[str, tuple[str, ...]] = {"runsc": ("runsc", "--version")}
"""The same for components that only some images have."""

NOT_FOUND = 127

KERNEL_CONFIG = ("CONFIG_CPUSETS_V1", "CONFIG_LRU_GEN_ENABLED", "CONFIG_MEMCG_V1", "CONFIG_PSI", "CONFIG_ZSWAP")
"""The kernel options that affect machines and results; recorded with the image."""


def place_of(target: Target, name: str, *, deadline: Deadline) -> str:
    """The path of a program in a guest, "" if it has none."""
    return target.run(["sh", "-c", 'command -v "$1"', "sh", name], deadline=deadline).text.strip()


def versions_of(target: Target, *, deadline: Deadline) -> dict[str, str]:
    """Version by component.

    Raises TargetError for a command that fails, ImageError for an answer without a version.
    """
    versions = {}
    for name, argv in (VERSIONS | ADDED).items():
        result = target.run(argv, deadline=deadline)
        if name in ADDED and result.status == NOT_FOUND:
            continue
        told = checked(result, where=target.address).text
        version = version_in(told)
        if version is None:
            raise ImageError(f"found no version in '{told.strip()[:200]}'.", where=target.address)
        versions[name] = version
    return versions


def kernel_config_of(target: Target, release: str, *, deadline: Deadline) -> dict[str, str]:
    """The configuration of an installed kernel: name to "y" or "m", "n" for disabled options.

    Older kernels have no option for what they always do, such as CONFIG_MEMCG_V1: that is "n" as well. Raises
    TargetError for a kernel whose configuration is neither in /boot nor beside its modules.
    """
    told = target.run(["cat", f"/boot/config-{release}"], deadline=deadline)
    if told.status != 0:
        told = target.run(["cat", f"/usr/lib/modules/{release}/config"], deadline=deadline)
    text = checked(told, where=target.address).text
    said = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name: said.get(name, "n") for name in KERNEL_CONFIG}


def packages_of(target: Target, *, deadline: Deadline) -> dict[str, str]:
    """Package to version, of all installed packages."""
    return packages_in(checked(target.run(["dpkg-query", "-W"], deadline=deadline), where=target.address).text)


def packages_in(text: str) -> dict[str, str]:
    """Package to version, from dpkg-query's lines."""
    pairs = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {name: version for name, version in pairs}  # noqa: C416 - a dict of pairs reads worse to a type checker


RESERVE = r"""
for word; do
    count=
    read -r count <"${word%%=*}" || :
    [ "$count" = "${word#*=}" ] || echo "${word#*=}" >"${word%%=*}" || :
done
"""
"""Writes each FILE=COUNT whose file holds another count."""


def pool_words(topology: Topology) -> list[str]:
    """FILE=COUNT for each pool of huge pages of each NUMA node."""
    return [
        f"{NODES}/node{numa.id}/hugepages/hugepages-{pages.size_bytes >> 10}kB/nr_hugepages={pages.count}"
        for numa in topology.numa_nodes
        for pages in numa.hugepages
    ]


def reserve_huge_pages(target: Target, topology: Topology, *, deadline: Deadline) -> None:
    """Reserve the pools that are missing, by one command; what cannot be reserved is a difference of `verify_guest`."""
    words = pool_words(topology)
    if words:
        checked(target.run(["sh", "-c", RESERVE, "sh", *words], deadline=deadline), where=target.address)
