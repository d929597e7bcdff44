"""Huge pages of a topology, reserved from inside where the kernel's command line did not do it.

powerpc ignores counts by NUMA node on the command line (arch/powerpc/mm/hugetlbpage.c, hugetlb_node_alloc_supported).
"""

from __future__ import annotations

from memqos.clock import Deadline
from memqos.model.topology import Topology
from memqos.target.base import Target, checked
from memqos.vm.guest.view import NODES

__all__ = ["pool_words", "reserve_huge_pages"]

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
