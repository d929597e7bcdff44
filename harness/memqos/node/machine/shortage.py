"""Memory shortage on a node: in one NUMA node, by the kubelet's reservation, or of the whole machine.

For the whole machine, most of the memory is set aside in huge pages, which no program can use and reclaim cannot free.
Everything outside kubepods (sshd, the runtime, the watch) gets memory.min for all it uses. So it is not reclaimed and
does not thrash; only pods are reclaimable, and the machine stays responsive. khugepaged is kept from reclaiming
meanwhile: it would reclaim at any time for a huge page on a full NUMA node, and with the multi-generational LRU it
ignores protection (mm/vmscan.c, shrink_one).
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence

from memqos.catalog.kubelets import KubeletCase
from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, MachineryError, UsageError
from memqos.model.node import NodeFacts
from memqos.model.path import ROOT
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity
from memqos.target.base import Target, checked
from memqos.workload.command import allocated

__all__ = ["by_generations", "narrow_numa_node", "reclaiming", "scarce", "spare", "tight"]

NARROW_SECONDS = 120.0

LEFT_IN_NUMA_NODE = 48 << 20
"""Bytes that stay free: what a program under emulation fills within seconds, plus what a pod's start takes."""

SHORT_OF = 96 << 20
"""Bytes by which more may stay free than requested: other programs free some, and some is too fragmented."""

# Huge pages come from the NUMA node that is asked, and nothing uses them. Page cache is dropped first.
_NARROW = """\
sync
echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
node=/sys/devices/system/node/node$1
pages=$node/hugepages/hugepages-2048kB/nr_hugepages
free() { sed -n 's/.*MemFree: *\\([0-9]*\\) kB/\\1/p' "$node/meminfo"; }
before=$(cat "$pages")
for again in 1 2 3; do
  more=$(( ($(free) - $2 / 1024) / 2048 ))
  [ "$more" -le 0 ] || echo $(($(cat "$pages") + more)) >"$pages"
done
echo "$before $(free)"
"""
_WIDEN = 'echo "$2" >"/sys/devices/system/node/node$1/hugepages/hugepages-2048kB/nr_hugepages"'


@contextlib.contextmanager
def narrow_numa_node(target: Target, numa_node: int, *, leaving: int = LEFT_IN_NUMA_NODE) -> Iterator[None]:
    """Take all free memory of a NUMA node but `leaving` bytes (> 0), until the context ends.

    Raises MachineryError if more stays free, as on a kernel without huge pages of 2 MiB.
    """
    argv = ["sh", "-ec", _NARROW, "memqos-narrow", str(numa_node), str(leaving)]
    said = checked(target.run(argv, deadline=Deadline.after(NARROW_SECONDS)), where=target.address).text.split()
    before, free = said[0], int(said[1]) * 1024
    try:
        if free > leaving + SHORT_OF:
            raise MachineryError(
                f"NUMA node {numa_node} of {target.address} still has {free} bytes free instead of {leaving}.",
                next_step="Its memory is fragmented: use a freshly booted machine.",
            )
        yield
    finally:
        argv = ["sh", "-ec", _WIDEN, "memqos-widen", str(numa_node), before]
        checked(target.run(argv, deadline=Deadline.after(NARROW_SECONDS)), where=target.address)


LEFT_TO_PODS = 256 << 20
"""Bytes that pods may use together: what a small machine under emulation fills within seconds."""

ROOM = 64 << 20
"""Bytes beyond the programs' first allocations: for the rest of their pods, and for one of them to start growing."""


def tight(kubelet: KubeletCase, node: NodeFacts, pods: Sequence[Pod] = ()) -> KubeletCase:
    """The same kubelet with a kubeReserved that leaves kubepods this memory.max on this node, in bytes.

    The limit is what these pods' programs allocate by their arguments, plus ROOM; LEFT_TO_PODS without pods. UsageError
    for a node with no more memory than that, and for a kubelet that sets no limit on kubepods.
    """
    left = ROOM + sum(allocated(one.args) for pod in pods for one in pod.containers) if pods else LEFT_TO_PODS
    settings = kubelet.settings
    system = (settings.system_reserved or {}).get("memory", Quantity(0))
    reserved = node.memory - left - system.value
    if reserved <= 0:
        raise UsageError(
            f"a reservation cannot make a node with {node.memory} bytes of memory short of it.",
            next_step=f"Use a machine with more than {left + system.value} bytes, such as --topology two-numa-nodes.",
        )
    if "pods" not in (settings.enforce_node_allocatable or ("pods",)):
        raise UsageError(
            f"the kubelet {kubelet.id} does not enforce a limit for all pods together.",
            next_step="Use one whose enforceNodeAllocatable contains pods.",
        )
    kube_reserved = {**(settings.kube_reserved or {}), "memory": Quantity.parse(str(reserved))}
    return dataclasses.replace(kubelet, settings=dataclasses.replace(settings, kube_reserved=kube_reserved))


LEFT = 448 << 20
"""Bytes left free: for some pods under emulation, and for a neighbour to fill the rest within seconds."""

LEAST_FREE_KIB = 16 << 10
"""vm.min_free_kbytes, kept small so that the start of reclaim is known to within a few MiB."""

SECONDS = 180.0
"""Seconds for setting the pages aside: the kernel clears about 30 a second under emulation."""

ZONES = "/proc/zoneinfo"

KHUGEPAGED = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag"
"""Whether khugepaged may reclaim to make a huge page; missing on a kernel without them."""

GENERATIONS = "/sys/kernel/mm/lru_gen/enabled"
"""A hexadecimal mask; its lowest bit is the LRU itself."""

POOLS = "/sys/kernel/mm/hugepages"
"""Has a folder for each size of huge page. That of nr_hugepages is 32 MiB on arm64 with 16 KiB pages."""

_ZONE = re.compile(r"^Node +\d+, zone +\w+$", re.MULTILINE)
_FREE = re.compile(r"^ +pages free +(\d+)$", re.MULTILINE)
_LOW = re.compile(r"^ +low +(\d+)$", re.MULTILINE)
_KEPT = re.compile(r"^ +protection: \(([\d, ]+)\)$", re.MULTILINE)
_AT_HAND = re.compile(r"^ +count: +(\d+)$", re.MULTILINE)

# The smallest huge pages, in KiB.
SMALLEST_POOL = """\
size=
for folder in "$5"/hugepages-*kB; do
  kib=${folder##*-}
  kib=${kib%kB}
  [ -n "$size" ] && [ "$size" -le "$kib" ] || size=$kib
done
pool=$5/hugepages-${size}kB/nr_hugepages
"""
# Records the old values in the format in which they are written back.
_TAKE = """\
cd "$1"
free=$(awk '/^MemFree:/ {print $2}' /proc/meminfo)
for file in /proc/sys/vm/min_free_kbytes "$pool" "$4" */memory.min; do
  [ -e "$file" ] || continue
  case $file in kubepods*) ;; *) printf '%s\t%s\n' "$(cat "$file")" "$file" ;; esac
done
for file in */memory.min; do
  case $file in kubepods*) ;; *) echo max > "$file" ;; esac
done
[ ! -e "$4" ] || echo 0 > "$4"
echo "$2" > /proc/sys/vm/min_free_kbytes
echo 3 > /proc/sys/vm/drop_caches
pages=$(( (free - $3) / size ))
[ "$pages" -le 0 ] || echo "$pages" > "$pool"
"""

_GIVE_BACK = """\
cd "$1"
tab=$(printf '\t')
while IFS="$tab" read -r value file; do
  [ ! -e "$file" ] || echo "$value" > "$file"
done
"""


@contextlib.contextmanager
def scarce(target: Target, hierarchy: Hierarchy) -> Iterator[None]:
    """Until the context ends, this machine has at most LEFT bytes free, and everything outside pods is protected.

    EnvironmentNotAbleError for a kernel without huge pages, which are needed to set memory aside.
    """
    if target.read("/proc/sys/vm/nr_hugepages", deadline=Deadline.after(SECONDS)) is None:
        raise EnvironmentNotAbleError(
            "the machine's kernel has no huge pages, which memqos needs to make memory short.",
            where=target.address,
            next_step="Use a kernel with CONFIG_HUGETLBFS.",
        )
    folder = hierarchy.folder(ROOT)
    words = ("memqos", folder, str(LEAST_FREE_KIB), str(LEFT >> 10), KHUGEPAGED, POOLS)
    argv = ["sh", "-ec", SMALLEST_POOL + _TAKE, *words]
    before = checked(target.run(argv, deadline=Deadline.after(SECONDS)), where=target.address)
    try:
        yield
    finally:
        back = target.run(
            ["sh", "-ec", _GIVE_BACK, "memqos", folder], stdin=before.stdout, deadline=Deadline.after(SECONDS)
        )
        checked(back, where=target.address)


@contextlib.contextmanager
def reclaiming(target: Target, *, generations: bool) -> Iterator[None]:
    """Until the context ends, the kernel reclaims by the multi-generational LRU, or by the classic one.

    A kernel that only has the classic one (before 6.1, or built without) keeps it.
    """
    before = target.read(GENERATIONS, deadline=Deadline.after(SECONDS))
    if before is None:
        yield
        return
    target.write(GENERATIONS, b"y\n" if generations else b"n\n", deadline=Deadline.after(SECONDS))
    try:
        yield
    finally:
        target.write(GENERATIONS, before, deadline=Deadline.after(SECONDS))


def by_generations(target: Target) -> bool:
    """Whether the kernel reclaims by the multi-generational LRU."""
    text = target.read(GENERATIONS, deadline=Deadline.after(SECONDS))
    return text is not None and int(text, 16) & 1 == 1


def spare(target: Target, page_size: int) -> int:
    """Bytes that can be allocated before the kernel begins to reclaim.

    The sum over memory zones of free pages above the low watermark and above the lowmem reserve
    (vm.lowmem_reserve_ratio), plus the pages in per-CPU lists, which do not count as free. An estimate, and reclaim
    does more than it must: in 57 runs on three kernels others lost between 7 MiB less and 41 MiB more than was short.
    """
    text = (target.read(ZONES, deadline=Deadline.after(SECONDS)) or b"").decode()
    return sum(map(_free_pages, _ZONE.split(text)[1:])) * page_size


def _free_pages(zone: str) -> int:
    """Allocatable pages of a memory zone, from its part of /proc/zoneinfo."""
    free, at_hand, low = (sum(_numbers(pattern, zone)) for pattern in (_FREE, _AT_HAND, _LOW))
    return max(0, free + at_hand - low - max(_numbers(_KEPT, zone), default=0))


def _numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    return [int(number) for found in pattern.findall(text) for number in found.split(",")]
