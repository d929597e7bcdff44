"""runc's writes on cgroup v1, as literal files: opencontainers/cgroups fs."""

import pytest

from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runtime_rules import runtime_writes
from memqos.model.node import CgroupDriver, CgroupVersion
from tests.unit.engine.translate.samples import CRUN_1_28, RUNC, RUNC_1_3_6

MI = 1 << 20


def written_on(resources, runtime=RUNC, **host):
    return runtime_writes(
        resources, runtime, RuntimeHost(**{"driver": CgroupDriver.CGROUPFS, "cgroup_version": CgroupVersion.V1, **host})
    )


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
    writes = written_on(resources)
    assert (writes.files, writes.refusal, writes.properties, writes.subgroup) == (files, "", None, "")


def test_unified_entries_are_refused():
    writes = written_on(OciResources(memory_limit=MI, unified={"memory.high": "4096"}))
    assert (writes.files, writes.refusal) == ((), "invalid configuration: cannot use unified on cgroup v1")


@pytest.mark.parametrize(("resources", "asked"), [
    (OciResources(memory_limit=64 * MI, memory_swap=64 * MI), "67108864"),
    (OciResources(memory_limit=-1), "-1"),
])  # fmt: skip
def test_without_swap_accounting(resources, asked):
    """runc fails on a requested memory+swap limit; crun continues; neither adds one by itself."""
    crun = written_on(resources, CRUN_1_28, swap_file=False)
    assert (crun.files, crun.refusal) == ((("memory.limit_in_bytes", asked),), "")
    runc = written_on(resources, swap_file=False)
    refusal = "open memory.memsw.limit_in_bytes: no such file or directory" if resources.memory_swap else ""
    assert (runc.refusal, bool(runc.files)) == (refusal, not refusal)


@pytest.mark.parametrize(("driver", "runtime", "quota"), [
    (CgroupDriver.SYSTEMD, RUNC_1_3_6, "34000"),
    (CgroupDriver.SYSTEMD, RUNC, "33300"),
    (CgroupDriver.SYSTEMD, CRUN_1_28, "33300"),
    (CgroupDriver.CGROUPFS, RUNC_1_3_6, "33300"),
])  # fmt: skip
def test_newer_runc_writes_the_quota_that_systemd_rounds_to(driver, runtime, quota):
    found = written_on(OciResources(cpu_quota=33300, cpu_period=100_000), runtime, driver=driver)
    assert found.texts == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": quota}


def test_a_quota_in_whole_percents_uses_its_own_period():
    """24.69 % of a CPU are 25 for systemd, in periods of 50 ms."""
    asked = OciResources(cpu_quota=12_345, cpu_period=50_000)
    writes = written_on(asked, RUNC_1_3_6, driver=CgroupDriver.SYSTEMD)
    assert writes.files == (("cpu.cfs_period_us", "50000"), ("cpu.cfs_quota_us", "12500"))
