"""The kernel's parsing of texts."""

import json
from pathlib import Path

import pytest

from memqos.engine.translate.kernel_text import memparse, shows

ROWS = json.loads((Path(__file__).parents[3] / "vectors" / "kernel_readback.json").read_text())["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['written']}-{row.get('page')}")
@pytest.mark.parametrize("name", ["memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max"])
def test_recorded_rows(row, name):
    assert shows(name, str(row["written"]), row.get("page", 4096)) == str(row["read"])


@pytest.mark.parametrize(
    ("name", "text", "page", "shown"),
    [
        ("memory.max", "1G\n", 4096, "1073741824"),
        ("memory.max", "0x1001", 4096, "4096"),
        ("memory.max", "010k", 4096, "8192"),
        ("memory.max", "0", 65536, "0"),
        ("memory.low", "18446744073709551615", 4096, "max"),
        ("memory.max", "16E", 4096, "0"),
        ("memory.max", "9223372036854771711", 4096, "9223372036854767616"),
        ("memory.max", "9223372036854771712", 4096, "max"),
        ("hugetlb.2MB.max", "9223372036852678655", 4096, "9223372036850581504"),
        ("hugetlb.2MB.max", "9223372036852678656", 4096, "max"),
        ("memory.max", "00010", 4096, "0"),
        ("hugetlb.2MB.max", "5000000", 4096, "4194304"),
        ("hugetlb.2MB.rsvd.max", "2097152", 4096, "2097152"),
        ("hugetlb.1GB.max", "4611686018427387904", 4096, "4611686018427387904"),
        ("hugetlb.64KB.max", "100000", 4096, "65536"),
        ("hugetlb.64KB.max", "max", 4096, "max"),
        ("hugetlb.2MB.max", "max", 4096, "max"),
        ("hugetlb.2MB.max", "9223372036854775807", 4096, "max"),
        ("cpu.weight", "39", 4096, "39"),
        ("memory.oom.group", "1", 4096, "1"),
        ("cpu.max", "50000", 4096, "50000 100000"),
        ("cpu.max", "max 50000", 4096, "max 50000"),
        ("cpuset.mems", "0-1", 4096, "0-1"),
        ("memory.swap.high", "12345", 4096, "12345"),
        ("memory.limit_in_bytes", "-1", 4096, "9223372036854771712"),
        ("memory.limit_in_bytes", "-1", 65536, "9223372036854710272"),
        ("memory.memsw.limit_in_bytes", "9223372036854775807", 4096, "9223372036854771712"),
        ("memory.soft_limit_in_bytes", "5000", 4096, "4096"),
        ("hugetlb.2MB.limit_in_bytes", "-1", 4096, "9223372036852678656"),
        ("hugetlb.2MB.limit_in_bytes", "9223372036854775807", 4096, "9223372036852678656"),
        ("hugetlb.2MB.limit_in_bytes", "5000000", 4096, "4194304"),
        ("cpu.cfs_quota_us", "-1", 4096, "-1"),
        ("cpu.shares", "512", 4096, "512"),
    ],
)
def test_texts(name, text, page, shown):
    assert shows(name, text, page) == shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("memory.max", "-1"),
        ("memory.max", ""),
        ("memory.max", "1.5G"),
        ("memory.max", "1GiB"),
        ("memory.max", "08"),
        ("memory.max", "0x"),
        ("memory.max", "\u0661"),
        ("hugetlb.2MB.max", "-1"),
        ("memory.limit_in_bytes", "max"),
        ("hugetlb.2MB.limit_in_bytes", "max"),
        ("cpu.weight", "0"),
        ("cpu.weight", "10001"),
        ("cpu.weight", "max"),
        ("memory.oom.group", "2"),
        ("cpu.max", "half"),
    ],
)
def test_refused_texts(name, text):
    with pytest.raises(ValueError):  # noqa: PT011 - int() words one of them
        shows(name, text, 4096)


def test_amounts_wrap_in_64_bits():
    assert memparse("17179869185G") == 1 << 30


def test_lists_are_accepted_in_any_order_and_shown_ascending():
    """Source: kernel, lib/bitmap-str.c, bitmap_parselist."""
    assert shows("cpuset.mems", "3,2,0\n", 4096) == "0,2-3"
    assert shows("cpuset.cpus", "", 4096) == ""
    with pytest.raises(ValueError, match="near"):
        shows("cpuset.mems", "near", 4096)
