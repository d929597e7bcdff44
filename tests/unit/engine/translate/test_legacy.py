"""What runc writes on cgroup v1, as literal files: opencontainers/cgroups fs."""

import pytest

from memqos.engine.translate.legacy import written_on_v1
from memqos.engine.translate.resources import OciResources

MI = 1 << 20


@pytest.mark.parametrize(
    ("resources", "files"),
    [
        (OciResources(), ()),
        (OciResources(memory_limit=0, cpu_shares=0, cpu_quota=0, cpus="", mems=""), ()),
        (OciResources(memory_limit=64 * MI), (("memory.limit_in_bytes", "67108864"),)),
        (
            OciResources(memory_limit=64 * MI, memory_swap=80 * MI, memory_reservation=32 * MI),
            (
                ("memory.limit_in_bytes", "67108864"),
                ("memory.memsw.limit_in_bytes", "83886080"),
                ("memory.soft_limit_in_bytes", "33554432"),
            ),
        ),
        (
            OciResources(memory_limit=64 * MI, memory_swap=-1),
            (("memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", "67108864")),
        ),
        (
            OciResources(memory_limit=-1),
            (("memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", "-1")),
        ),
        (
            OciResources(cpu_shares=512, cpu_quota=-1, cpu_period=100_000),
            (("cpu.shares", "512"), ("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "-1")),
        ),
        (
            OciResources(cpus="0-1", mems="0", hugepage_limits=(("2MB", 0), ("1GB", 1 << 30))),
            (
                ("cpuset.cpus", "0-1"),
                ("cpuset.mems", "0"),
                ("hugetlb.2MB.limit_in_bytes", "0"),
                ("hugetlb.1GB.limit_in_bytes", "1073741824"),
            ),
        ),
    ],
)
def test_files_in_order(resources, files):
    writes = written_on_v1(resources)
    assert (writes.files, writes.refusal, writes.properties, writes.subgroup) == (files, "", None, "")


def test_unified_entries_are_refused():
    writes = written_on_v1(OciResources(memory_limit=MI, unified={"memory.high": "4096"}))
    assert (writes.files, writes.refusal) == ((), "invalid configuration: cannot use unified on cgroup v1")
