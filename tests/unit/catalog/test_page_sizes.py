"""A node's page size out of its kernel's name, of glibc's diagnostics, and of amounts that are counted in pages."""

from __future__ import annotations

import pytest

from memqos.catalog.node_facts import (
    amounts_of,
    page_size_in_diagnostics,
    page_size_of_amounts,
    page_size_of_kernel,
)

KIB = 1 << 10


@pytest.mark.parametrize(
    ("architecture", "release", "expected"),
    [
        ("x86_64", "5.14.0-570.el9.x86_64", (4096, True)),
        ("amd64", "", (4096, True)),
        ("s390x", "5.14.0-570.el9.s390x", (4096, True)),
        ("aarch64", "5.14.0-570.el9.aarch64", (4096, False)),
        ("aarch64", "5.14.0-570.el9.aarch64+64k", (65536, True)),
        ("aarch64", "5.14.0-570.el9.aarch64+64k-debug", (65536, True)),
        ("arm64", "6.8.0-31-generic-64k", (65536, True)),
        ("arm64", "6.4.0-150600.21-64kb", (65536, True)),
        ("arm64", "6.6.3-411.asahi.fc39.aarch64+16k", (16384, True)),
        ("arm64", "6.12.117+deb13-arm64-16k", (16384, True)),
        ("arm64", "6.12.117+deb13-arm64", (4096, False)),
        ("aarch64", "4.18.0-553.el8.aarch64", (65536, True)),
        ("aarch64", "4.18.0-553.el8_10.aarch64", (65536, True)),
        ("aarch64", "6.1.0-64kit", (4096, False)),
        ("ppc64le", "5.14.0-570.el9.ppc64le", (65536, False)),
        ("ppc64le", "6.8.0-31-generic", (65536, False)),
        ("ppc64le", "6.12.117+deb13-powerpc64le", (4096, True)),
        ("ppc64le", "6.12.117+deb13-powerpc64le-64k", (65536, True)),
        ("ppc64le", "6.1.0-50-powerpc64le", (65536, False)),
        ("", "", (4096, False)),
    ],
)
def test_a_kernels_name_says_its_page(architecture: str, release: str, expected: tuple[int, bool]) -> None:
    assert page_size_of_kernel(architecture, release) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dl_minsigstacksize=0x1000\ndl_pagesize=0x10000\ndl_platform=\n", 65536),
        ("dl_pagesize=0x1000\n", 4096),
        ("dl_pagesize=0x2000\n", None),
        ("ld.so: unrecognized option\n", None),
    ],
)
def test_glibc_prints_the_page(text: str, expected: int | None) -> None:
    assert page_size_in_diagnostics(text) == expected


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([64 * KIB * one for one in range(1, 9)], (65536, False)),
        ([16 * KIB * one for one in range(1, 9)], (16384, False)),
        ([64 * KIB * one for one in range(1, 8)], None),
        ([64 * KIB] * 20, None),
        ([64 * KIB, 4 * KIB], (4096, True)),
        ([64 * KIB * one for one in range(1, 9)] + [0], (65536, False)),
        ([4097], None),
        ([0], None),
        ([], None),
    ],
)
def test_an_amount_that_is_no_multiple_excludes_a_page(amounts: list[int], expected: tuple[int, bool] | None) -> None:
    assert page_size_of_amounts(amounts) == expected


def test_amounts_are_what_the_kernel_counts_in_pages() -> None:
    """KernelStack is counted in KiB: 16 of them where a page has 64."""
    meminfo = "MemTotal:        2048 kB\nActive(anon):       8 kB\nActive:         128 kB\nKernelStack:      16 kB\n"
    used = ["65536\n", "?", ""]
    assert sorted(amounts_of(meminfo, used)) == [65536, 128 * KIB, 2048 * KIB]
