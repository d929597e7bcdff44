"""The size of a node's memory page out of what a Node object or a support archive has: no file of them names it.

Source: arch/{x86,s390,arm64,powerpc} Kconfig of Linux; names of kernels as Red Hat, SUSE, Ubuntu, Fedora and Debian
give them; glibc, elf/dl-diagnostics.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["PAGE_SIZES", "amounts_of", "page_size_in_diagnostics", "page_size_of_amounts", "page_size_of_kernel"]

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


def page_size_in_diagnostics(text: str) -> int | None:
    """The page that glibc's `ld.so --list-diagnostics` prints; None where it prints none of ours."""
    found = re.search(r"(?m)^dl_pagesize=0x([0-9a-f]{1,8})$", text)
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
    for text in map(str.strip, used):
        if text.isascii() and text.isdigit():
            yield int(text)
