"""Huge pages: resource names, page sizes, and the limits that containers and cgroups get.

Sources: kubelet `GetHugepageLimitsFromResources`, `cm.HugePageLimits`, `cgroupManagerImpl.toResources`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from memqos.model.pod import ResourceList
from memqos.model.quantity import Quantity, QuantityError

__all__ = ["PREFIX", "UNBOUNDED", "container_limits", "cri_name", "limits_by_size", "page_size_of"]

PREFIX = "hugepages-"

UNBOUNDED = 1 << 62
"""What the kubelet writes where a level must not limit huge pages."""


@lru_cache(maxsize=256)
def page_size_of(resource: str) -> int | None:
    """Bytes of one page of a resource like "hugepages-2Mi"; None if the name is not one of a huge page."""
    if not resource.startswith(PREFIX):
        return None
    try:
        size = Quantity.parse(resource.removeprefix(PREFIX)).value
    except QuantityError:
        return None
    return size if size > 0 else None


@cache
def cri_name(page_size: int) -> str:
    """A page size as CRI and the kernel's file names spell it: 2MB, 1GB (in steps of 1024)."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if page_size % size == 0:
            return f"{page_size // size}{unit}"
    return f"{page_size}B"


def limits_by_size(amounts: ResourceList) -> dict[int, int]:
    """Page size in bytes to bytes allowed, of the huge page resources in a list; spellings of one size add up."""
    found: dict[int, int] = {}
    for name, amount in amounts.items():
        size = page_size_of(name)
        if size is not None:
            found[size] = found.get(size, 0) + amount.value
    return found


def container_limits(
    node_sizes: Iterable[int], pod_limits: ResourceList | None, own: ResourceList
) -> tuple[tuple[str, int], ...]:
    """CRI hugepage_limits of one container: every page size of the node, 0 where nothing was given.

    pod_limits: pod-level limits from the release on that uses them as the base, else None; the container's own
    limit for the same size wins. Sizes that the node does not have are left out.
    """
    given = limits_by_size(pod_limits) if pod_limits is not None else {}
    given |= limits_by_size(own)
    return tuple([(cri_name(size), given.get(size, 0)) for size in node_sizes])
