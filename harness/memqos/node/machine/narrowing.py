"""A NUMA zone of which huge pages take most, so that a program of some MiB fills the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from memqos.clock import Deadline
from memqos.errors import MachineryError
from memqos.target.base import Target, checked

__all__ = ["narrow_zone"]

NARROW_SECONDS = 120.0

LEFT = 48 << 20
"""Bytes that stay free: what a program under emulation fills within seconds, beside what a pod's start takes."""

SHORT_OF = 96 << 20
"""Bytes by which more may be left than was asked for: others free some beside it, and some is in too small pieces."""

# Huge pages are taken from the zone in which they are asked for, and nobody uses these. Page cache makes room first.
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
def narrow_zone(target: Target, zone: int, *, leaving: int = LEFT) -> Iterator[None]:
    """Take all free memory of a zone but `leaving` bytes (> 0), until the context ends.

    Raises MachineryError if more than that stays free, as on a kernel without huge pages of 2 MiB.
    """
    argv = ["sh", "-ec", _NARROW, "memqos-narrow", str(zone), str(leaving)]
    said = checked(target.run(argv, deadline=Deadline.after(NARROW_SECONDS)), where=target.address).text.split()
    before, free = said[0], int(said[1]) * 1024
    try:
        if free > leaving + SHORT_OF:
            raise MachineryError(
                f"zone {zone} of {target.address} still has {free} bytes free, and {leaving} were to be left.",
                next_step="Its memory is in pieces: take a machine that has just been booted.",
            )
        yield
    finally:
        argv = ["sh", "-ec", _WIDEN, "memqos-widen", str(zone), before]
        checked(target.run(argv, deadline=Deadline.after(NARROW_SECONDS)), where=target.address)
