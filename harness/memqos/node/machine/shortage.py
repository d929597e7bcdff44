"""A node whose pods are soon short of memory: in one NUMA zone, or by what its kubelet reserves."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from memqos.catalog.kubelets import KubeletCase
from memqos.clock import Deadline
from memqos.errors import MachineryError, UsageError
from memqos.model.node import NodeFacts
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity
from memqos.target.base import Target, checked
from memqos.workload.command import allocated

__all__ = ["narrow_zone", "tight"]

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
