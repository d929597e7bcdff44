"""A node whose pods are soon short of memory: in one NUMA node, or by what its kubelet reserves.

A machine that is short of memory as a whole: most of it is set aside, and nothing but pods can make room.

Huge pages take memory that no program can use and reclaim cannot get at. Everything beside kubepods (sshd, the runtime,
the watch) asks to be protected with all that it uses: it neither makes room nor thrashes, so what is short is what pods
have to give, and the machine goes on answering. khugepaged does not reclaim meanwhile: it would when it pleases, for a
huge page on a zone that is full, and with the multi-generational LRU whatever is protected (mm/vmscan.c, shrink_one).
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

__all__ = ["by_generations", "narrow_zone", "reclaiming", "scarce", "spare", "tight"]

NARROW_SECONDS = 120.0

LEFT_IN_ZONE = 48 << 20
"""Bytes that stay free: what a program under emulation fills within seconds, beside what a pod's start takes."""

SHORT_OF = 96 << 20
"""Bytes by which more may be left than was asked for: others free some beside it, and some is in too small pieces."""

# Huge pages are taken from the zone in which they are asked for, and nothing uses these. Page cache makes room first.
_NARROW = """\
sync
echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
zone=/sys/devices/system/node/node$1
pages=$zone/hugepages/hugepages-2048kB/nr_hugepages
free() { sed -n 's/.*MemFree: *\\([0-9]*\\) kB/\\1/p' "$zone/meminfo"; }
before=$(cat "$pages")
for again in 1 2 3; do
  more=$(( ($(free) - $2 / 1024) / 2048 ))
  [ "$more" -le 0 ] || echo $(($(cat "$pages") + more)) >"$pages"
done
echo "$before $(free)"
"""
_WIDEN = 'echo "$2" >"/sys/devices/system/node/node$1/hugepages/hugepages-2048kB/nr_hugepages"'


@contextlib.contextmanager
def narrow_zone(target: Target, zone: int, *, leaving: int = LEFT_IN_ZONE) -> Iterator[None]:
    """Take all free memory of a zone but `leaving` bytes (> 0), until the context ends.

    Raises MachineryError if more than that stays free, as on a kernel without huge pages of 2 MiB.
    """
    argv = ["sh", "-ec", _NARROW, "memqos-narrow", str(zone), str(leaving)]
    said = checked(target.run(argv, deadline=Deadline.after(NARROW_SECONDS)), where=target.address).text.split()
    before, free = said[0], int(said[1]) * 1024
    try:
        if free > leaving + SHORT_OF:
            raise MachineryError(
                f"NUMA node {zone} of {target.address} still has {free} bytes free instead of {leaving}.",
                next_step="Its memory is fragmented: take a machine that has just been booted.",
            )
        yield
    finally:
        argv = ["sh", "-ec", _WIDEN, "memqos-widen", str(zone), before]
        checked(target.run(argv, deadline=Deadline.after(NARROW_SECONDS)), where=target.address)


LEFT_TO_PODS = 256 << 20
"""Bytes that pods may use together: what a small machine under emulation fills within seconds."""

ROOM = 64 << 20
"""Bytes beyond what programs take at first: for all else in their pods, and for one of them to begin to grow in."""


def tight(kubelet: KubeletCase, node: NodeFacts, pods: Sequence[Pod] = ()) -> KubeletCase:
    """The same kubelet with so much kubeReserved that kubepods has this memory.max on this node, in bytes.

    It is what the programs of these pods take by their own arguments, and ROOM; LEFT_TO_PODS for none.
    UsageError for a node that has no more than that, and for a kubelet that leaves kubepods without a limit.
    """
    left = ROOM + sum(allocated(one.args) for pod in pods for one in pod.containers) if pods else LEFT_TO_PODS
    settings = kubelet.settings
    system = (settings.system_reserved or {}).get("memory", Quantity(0))
    reserved = node.memory - left - system.value
    if reserved <= 0:
        raise UsageError(
            f"a node with {node.memory} bytes of memory cannot be made short of it by a reservation.",
            next_step=f"Take a machine with more than {left + system.value} bytes: --topology two-zones has them.",
        )
    if "pods" not in (settings.enforce_node_allocatable or ("pods",)):
        raise UsageError(
            f"the kubelet {kubelet.id} does not enforce a limit for all pods together.",
            next_step="Take one whose enforceNodeAllocatable names pods.",
        )
    kube_reserved = {**(settings.kube_reserved or {}), "memory": Quantity.parse(str(reserved))}
    return dataclasses.replace(kubelet, settings=dataclasses.replace(settings, kube_reserved=kube_reserved))


LEFT = 448 << 20
"""Bytes that are left free: for some pods under emulation, and for a neighbour that is to fill the rest in seconds."""

LEAST_FREE_KIB = 16 << 10
"""What the kernel keeps free (vm.min_free_kbytes): little, so that where shortage begins is known to a few MiB."""

SECONDS = 180.0
"""To set the pages aside: the kernel clears each of them, at about 30 a second under emulation."""

ZONES = "/proc/zoneinfo"

KHUGEPAGED = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag"
"""Whether khugepaged reclaims to make a huge page; missing from a kernel without them."""

GENERATIONS = "/sys/kernel/mm/lru_gen/enabled"
"""A mask in hexadecimal, of which the lowest bit is the LRU itself."""

_HUGE = 2 << 20
_ZONE = re.compile(r"^Node +\d+, zone +\w+$", re.MULTILINE)
_FREE = re.compile(r"^ +pages free +(\d+)$", re.MULTILINE)
_LOW = re.compile(r"^ +low +(\d+)$", re.MULTILINE)
_KEPT = re.compile(r"^ +protection: \(([\d, ]+)\)$", re.MULTILINE)
_AT_HAND = re.compile(r"^ +count: +(\d+)$", re.MULTILINE)

# What there was before is written in the way in which it is put back.
_TAKE = """\
cd "$1"
free=$(awk '/^MemFree:/ {print $2}' /proc/meminfo)
for file in /proc/sys/vm/min_free_kbytes /proc/sys/vm/nr_hugepages "$4" */memory.min; do
  [ -e "$file" ] || continue
  case $file in kubepods*) ;; *) printf '%s\t%s\n' "$(cat "$file")" "$file" ;; esac
done
for file in */memory.min; do
  case $file in kubepods*) ;; *) echo max > "$file" ;; esac
done
[ ! -e "$4" ] || echo 0 > "$4"
echo "$2" > /proc/sys/vm/min_free_kbytes
echo 3 > /proc/sys/vm/drop_caches
pages=$(( (free - $3) / 2048 ))
[ "$pages" -le 0 ] || echo "$pages" > /proc/sys/vm/nr_hugepages
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
    """Until the context ends, this machine has no more than LEFT bytes free, and all that is not a pod's is protected.

    EnvironmentNotAbleError for a kernel that has no huge pages to take the memory with.
    """
    if target.read("/proc/sys/vm/nr_hugepages", deadline=Deadline.after(SECONDS)) is None:
        raise EnvironmentNotAbleError(
            "the machine cannot be made short of memory: its kernel has no huge pages.",
            where=target.address,
            next_step="Take a kernel with CONFIG_HUGETLBFS.",
        )
    folder = hierarchy.folder(ROOT)
    words = ("memqos", folder, str(LEAST_FREE_KIB), str(LEFT >> 10), KHUGEPAGED)
    before = checked(target.run(["sh", "-ec", _TAKE, *words], deadline=Deadline.after(SECONDS)), where=target.address)
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

    A kernel that has only the classic one (before 6.1, or built without) goes on with that.
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
    """Bytes that can be taken before the kernel begins to reclaim.

    That is what is free in each zone above its low watermark and above what the zone keeps for allocations that can use
    no other (vm.lowmem_reserve_ratio), with what each CPU has at hand, which the zone does not count as free. A guess,
    and reclaim does more than it has to: in 57 runs on three kernels others lost 7 MiB less to 41 MiB more than was
    short.
    """
    text = (target.read(ZONES, deadline=Deadline.after(SECONDS)) or b"").decode()
    return sum(map(_free_pages, _ZONE.split(text)[1:])) * page_size


def _free_pages(zone: str) -> int:
    """Pages of a zone that can be taken, by its part of /proc/zoneinfo."""
    free, at_hand, low = (sum(_numbers(pattern, zone)) for pattern in (_FREE, _AT_HAND, _LOW))
    return max(0, free + at_hand - low - max(_numbers(_KEPT, zone), default=0))


def _numbers(pattern: re.Pattern[str], text: str) -> list[int]:
    return [int(number) for found in pattern.findall(text) for number in found.split(",")]
