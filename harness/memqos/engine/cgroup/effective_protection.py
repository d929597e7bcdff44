"""Effective protection: the kernel's arithmetic.

A model for claims about behaviour. The kernel distributes protection downwards from the cgroup at which reclaim began,
so a cgroup never gets more than its parent. All arithmetic is the kernel's, in whole pages and 64-bit unsigned
integers. Source: mm/page_counter.c `page_counter_calculate_protection`, mm/vmscan.c `get_scan_count`; the same from
Linux 6.1 to 7.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from memqos.model.knob import MAX, Bytes, Max
from memqos.model.path import ROOT, CgroupPath

__all__ = ["Effective", "Protected", "ProtectionKind", "effective", "settled"]

_ZERO = Bytes(0)
_LONG_MAX = 2**63 - 1
_WORD = 2**64
_Pair = tuple[int, int]

# The least number of pages that one pass of reclaim takes from a cgroup (SWAP_CLUSTER_MAX).
_CLUSTER = 32

# One pass scans this part of a cgroup, like the kernel's model of its protection test; reclaim itself begins with a
# 4096th and doubles it. The result differs by a cluster or two at most.
_PASS = 10


class ProtectionKind(Enum):
    """How reclaim treats a cgroup.

    HARD: skipped, memory.min covers its usage. SOFT: skipped until nothing else is left, memory.low covers its usage;
    then reclaimed with an event `low`. PARTIAL: scanned in proportion to its unprotected part. NONE: scanned.
    """

    HARD = "hard"
    SOFT = "soft"
    PARTIAL = "partial"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """One cgroup: its configured protection and its usage.

    usage: memory.current in bytes, descendants included. min, low: the files; MAX claims all its usage, and an
    unwritten file holds zero.
    """

    usage: int
    min: Bytes | Max = _ZERO
    low: Bytes | Max = _ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """A cgroup's effective protection and its usage: bytes, in whole pages.

    A child of the reclaim's root gets its configured protection, even if it uses less; MAX is the largest amount.
    """

    usage: int
    min: Bytes | Max
    low: Bytes | Max

    @property
    def protection(self) -> ProtectionKind:
        """How reclaim treats it; NONE for a cgroup without usage."""
        if not self.usage:
            return ProtectionKind.NONE
        if self.min is MAX or self.min.count >= self.usage:
            return ProtectionKind.HARD
        if self.low is MAX or self.low.count >= self.usage:
            return ProtectionKind.SOFT
        return ProtectionKind.PARTIAL if self.min.count or self.low.count else ProtectionKind.NONE

    @property
    def hard(self) -> int:
        """Bytes of the usage that memory.min covers."""
        return self.usage if self.min is MAX else min(self.usage, self.min.count)

    @property
    def soft(self) -> int:
        """Bytes of the usage that memory.low covers and memory.min does not."""
        return max(0, (self.usage if self.low is MAX else min(self.usage, self.low.count)) - self.hard)

    @property
    def exposed(self) -> int:
        """Bytes of the usage that nothing protects."""
        return self.usage - self.hard - self.soft


def effective(
    tree: Mapping[CgroupPath, Protected],
    *,
    root: CgroupPath = ROOT,
    recursive: bool = True,
    page_size: int = 4096,
) -> dict[CgroupPath, Effective]:
    """The effective protection of every cgroup below `root`, in the order of their paths.

    root: where reclaim began: the cgroup at its limit, or the root for a node short of memory. It has no protection
    itself, and cgroups outside it are not reclaimed: the answer has neither.
    recursive: whether cgroup2 is mounted with memory_recursiveprot, as systemd does.
    page_size: bytes of a base page; amounts are rounded down to it.
    A cgroup that uses nothing gets zero: the kernel keeps a stale value there, which protects nothing.

    KeyError names a cgroup whose parent, below `root`, is not in the tree.
    """
    pages = _below(tree, root, page_size)
    found = _distribute(pages, root, recursive=recursive)
    limit = _LONG_MAX // page_size
    return {
        path: Effective(
            usage=pages[path].usage * page_size,
            min=MAX if emin >= limit else Bytes(emin * page_size),
            low=MAX if elow >= limit else Bytes(elow * page_size),
        )
        for path, (emin, elow) in found.items()
    }


def settled(
    tree: Mapping[CgroupPath, Protected],
    *,
    root: CgroupPath = ROOT,
    recursive: bool = True,
    page_size: int = 4096,
) -> dict[CgroupPath, int]:
    """The remaining usage of each cgroup below `root`, in bytes, after reclaim took all unprotected memory.

    Assumes that all memory is reclaimable and equally old, that reclaim scans all cgroups in parallel, and that it
    never breaks memory.low. A cgroup's own memory, apart from its children's, shares its protection. Source: the model
    of the kernel's own test (selftests/cgroup/memcg_protection.m), in whole pages.
    KeyError as `effective`.
    """
    pages = _below(tree, root, page_size)
    usage = {path: one.usage for path, one in pages.items()}
    while True:
        now = {path: _Pages(usage=usage[path], min=one.min, low=one.low) for path, one in pages.items()}
        found = _distribute(now, root, recursive=recursive)
        inside: dict[CgroupPath, int] = defaultdict(int)
        for path, count in usage.items():
            inside[path.parent] += count
        taken = {path: _scanned(count - inside[path], count, max(found[path])) for path, count in usage.items()}
        if not any(taken.values()):
            return {path: count * page_size for path, count in usage.items()}
        for path, count in taken.items():
            for cgroup in (path, *(above for above in path.ancestors if above in usage)):
                usage[cgroup] -= count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    """A cgroup in pages."""

    usage: int
    min: int
    low: int


def _below(tree: Mapping[CgroupPath, Protected], root: CgroupPath, page_size: int) -> dict[CgroupPath, _Pages]:
    """The cgroups below the root, in pages, parents before children."""
    pages: dict[CgroupPath, _Pages] = {}
    for path in sorted(tree):
        if path.below(root):
            if path.parent != root and path.parent not in pages:
                raise KeyError(str(path.parent))
            pages[path] = _pages(tree[path], page_size)
    return pages


def _pages(one: Protected, page_size: int) -> _Pages:
    limit = _LONG_MAX // page_size

    def asked(amount: Bytes | Max) -> int:
        return limit if amount is MAX else min(amount.count // page_size, limit)

    return _Pages(usage=one.usage // page_size, min=asked(one.min), low=asked(one.low))


def _distribute(pages: Mapping[CgroupPath, _Pages], root: CgroupPath, *, recursive: bool) -> dict[CgroupPath, _Pair]:
    """Effective min and low of each, in pages; parents come before children."""
    claimed: dict[CgroupPath, list[int]] = defaultdict(lambda: [0, 0])
    for path, one in pages.items():
        claimed[path.parent][0] += min(one.usage, one.min)
        claimed[path.parent][1] += min(one.usage, one.low)
    found: dict[CgroupPath, _Pair] = {}
    for path, one in pages.items():
        if not one.usage:
            found[path] = (0, 0)
        elif path.parent == root:
            found[path] = (one.min, one.low)
        else:
            parent, given, siblings = pages[path.parent].usage, found[path.parent], claimed[path.parent]
            emin, elow = (
                _share(one.usage, asked, parent=parent, given=given[kind], claimed=siblings[kind], recursive=recursive)
                for kind, asked in enumerate((one.min, one.low))
            )
            found[path] = (emin, elow)
    return found


def _share(usage: int, asked: int, *, parent: int, given: int, claimed: int, recursive: bool) -> int:
    """One cgroup's share of its parent's effective protection.

    claimed: the sum of min(configured, used) over it and its siblings. Claims beyond the parent's protection are
    reduced in proportion; with memory_recursiveprot, unclaimed protection goes to cgroups that use more than they
    claim.
    """
    own = min(usage, asked)
    if claimed > given:
        return own * given % _WORD // claimed
    if not recursive or given == claimed or parent <= claimed or usage <= own:
        return own
    # A product beyond 64 bits wraps as in the kernel, for example if a parent has memory.low "max".
    return own + (given - claimed) * (usage - own) % _WORD // (parent - claimed)


def _scanned(own: int, usage: int, protection: int) -> int:
    """The pages that one pass takes from a cgroup itself: the protected part of its usage shortens the scan."""
    if own <= 0 or usage <= protection:
        return 0
    part = -(-own // _PASS)
    return min(own, max(part - part * protection // (usage + 1), _CLUSTER))
