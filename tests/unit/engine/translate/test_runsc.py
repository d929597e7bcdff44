"""From OCI linux.resources to files and properties, by runsc of several versions."""

from dataclasses import replace

import pytest

from memqos.engine.translate.container import created, updated
from memqos.engine.translate.oci import oci_for_create
from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runsc import as_read
from memqos.engine.translate.runtime_rules import held_after_reload, runtime_writes, source
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.systemd import INFINITY
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from tests.unit.engine.translate.samples import CGROUPFS, GIB, MIB, TYPICAL

DEBIAN = traits_of("runsc", "0.0~20240729.0")
UNIFIED = traits_of("runsc", "release-20260413.0")
NEWEST = traits_of("runsc", "release-20260817.0")
READ = replace(TYPICAL, hugepage_limits=(), unified={})
SYSTEMD = RuntimeHost()


def test_with_systemd_it_only_sets_properties():
    found = runtime_writes(READ, DEBIAN)
    assert found.properties == {
        "MemorySwapMax": 0,
        "MemoryMax": 268435456,
        "CPUWeight": 39,
        "CPUQuotaPeriodUSec": 100000,
        "CPUQuotaPerSecUSec": 340000,
        "AllowedCPUs": "0-1",
        "AllowedMemoryNodes": "0",
    }
    assert found.texts == {
        "memory.max": "268435456",
        "memory.swap.max": "0",
        "cpu.weight": "39",
        "cpu.max": "34000 100000",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
    }
    assert held_after_reload(found) == found.texts


def test_without_systemd_it_writes_the_files():
    found = runtime_writes(READ, DEBIAN, CGROUPFS)
    assert found.properties is None
    assert found.files == (
        ("memory.swap.max", "0"),
        ("memory.max", "268435456"),
        ("cpu.weight", "39"),
        ("cpu.max", "33300 100000"),
        ("cpuset.cpus", "0-1"),
        ("cpuset.mems", "0"),
    )


@pytest.mark.parametrize(
    ("limit", "both", "systemd", "cgroupfs"),
    [
        (256 * MIB, 384 * MIB, {"MemorySwapMax": 134217728, "MemoryMax": 268435456}, {"memory.swap.max": "134217728"}),
        (256 * MIB, -1, {"MemorySwapMax": INFINITY, "MemoryMax": 268435456}, {"memory.swap.max": "max"}),
        # Zero is no swap for systemd, and not set for the files.
        (256 * MIB, 0, {"MemorySwapMax": 0, "MemoryMax": 268435456}, {}),
        (-1, 0, {"MemorySwapMax": INFINITY, "MemoryMax": INFINITY}, {"memory.swap.max": "max"}),
    ],
)
def test_swap_is_memory_swap_less_memory(limit, both, systemd, cgroupfs):
    asked = OciResources(memory_limit=limit, memory_swap=both)
    shown = "max" if limit == -1 else "268435456"
    assert runtime_writes(asked, DEBIAN).properties == systemd
    assert runtime_writes(asked, DEBIAN, CGROUPFS).texts == {**cgroupfs, "memory.max": shown}


@pytest.mark.parametrize(
    ("limit", "both", "refusal"),
    [
        (256 * MIB, 128 * MIB, "memory+swap limit should be >= memory limit"),
        (-1, GIB, "unable to set swap limit without memory limit"),
    ],
)
def test_a_wrong_pair_of_limits_is_refused_and_was_ignored_without_systemd(limit, both, refusal):
    asked = OciResources(memory_limit=limit, memory_swap=both, memory_reservation=MIB, cpu_shares=1024)
    assert runtime_writes(asked, DEBIAN).refusal == refusal
    assert runtime_writes(asked, DEBIAN, CGROUPFS).files == (("cpu.weight", "39"),)
    assert runtime_writes(asked, NEWEST, CGROUPFS).refusal == refusal


def test_swap_alone_is_refused_in_two_ways():
    asked = OciResources(memory_swap=MIB)
    assert runtime_writes(asked, DEBIAN).refusal == "misconfigured resource spec"
    assert runtime_writes(asked, DEBIAN, CGROUPFS).refusal == "cgroup: Memory.Swap is set without Memory.Limit"


def test_a_reservation_is_memory_low():
    asked = OciResources(memory_reservation=64 * MIB)
    assert runtime_writes(asked, DEBIAN).texts == {"memory.low": "67108864"}
    assert runtime_writes(asked, DEBIAN, CGROUPFS).texts == {"memory.low": "67108864"}


def test_a_quota_without_a_period_and_a_period_without_a_quota():
    quota, period = OciResources(cpu_quota=50_000), OciResources(cpu_quota=-1, cpu_period=50_000)
    assert runtime_writes(quota, DEBIAN).texts == {"cpu.max": "50000 100000"}
    assert runtime_writes(quota, DEBIAN, CGROUPFS).texts == {"cpu.max": "50000 100000"}
    assert runtime_writes(period, DEBIAN).texts == {"cpu.max": "max 50000"}
    assert runtime_writes(period, DEBIAN, CGROUPFS).texts == {"cpu.max": "max 50000"}
    assert runtime_writes(OciResources(), DEBIAN).texts == {}


def test_systemd_is_given_the_bytes_of_a_set_in_the_wrong_order():
    asked = OciResources(cpus="8-9")
    assert runtime_writes(asked, DEBIAN).texts == {"cpuset.cpus": "0-1"}
    assert runtime_writes(asked, DEBIAN, CGROUPFS).texts == {"cpuset.cpus": "8-9"}
    assert "misconfigured resource spec: 'x' is not a number" in runtime_writes(OciResources(mems="x"), DEBIAN).refusal


@pytest.mark.parametrize(
    ("oci", "driver", "reads"),
    [
        (DEBIAN, CgroupDriver.SYSTEMD, False),
        (DEBIAN, CgroupDriver.CGROUPFS, False),
        (UNIFIED, CgroupDriver.SYSTEMD, False),
        (UNIFIED, CgroupDriver.CGROUPFS, True),
        (TRIXIE.oci, CgroupDriver.SYSTEMD, True),
    ],
)
def test_unified_is_read_late_and_without_systemd_only(oci, driver, reads):
    asked = oci_for_create(ContainerResources(unified={"memory.high": "67108864"}), BUNDLES)
    read = as_read(asked, oci, driver)
    assert read.resources.unified == ({"memory.high": "67108864"} if reads else {})
    assert [(left.knob, left.value, left.wordless) for left in read.unsayable] == (
        [] if reads else [("memory.high", "67108864", True)]
    )


def test_unified_is_written_last():
    asked = OciResources(memory_limit=GIB, unified={"memory.high": "67108864"})
    assert runtime_writes(asked, UNIFIED, CGROUPFS).files == (("memory.max", "1073741824"), ("memory.high", "67108864"))
    wrong = OciResources(unified={"a/b": "1"})
    assert "must be a file name" in runtime_writes(wrong, UNIFIED, CGROUPFS).refusal


def test_values_that_it_does_not_read_are_wordless_and_not_refused():
    runtimes = Runtimes(cri=BUNDLES, oci=DEBIAN, hugetlb=True)
    sent = ContainerResources(
        memory_limit_in_bytes=GIB, hugepage_limits=(("2MB", 4 * MIB),), unified={"memory.min": "67108864"}
    )
    translation, writes = created(sent, runtimes, SYSTEMD)
    assert [(left.knob, left.why) for left in translation.unsayable] == [
        ("hugetlb.2MB.max", "runsc sets no huge page limit on cgroup v2."),
        ("memory.min", "runsc reads no linux.resources.unified before 20260413."),
    ]
    assert writes.texts == {"memory.max": "1073741824", "memory.swap.max": "0"}
    _, again = updated(sent, runtimes, SYSTEMD, stored=translation.resources)
    assert again.texts == writes.texts


def test_values_of_other_fields_or_the_kernels_default_are_not_listed():
    sent = ContainerResources(
        memory_limit_in_bytes=GIB, unified={"memory.swap.max": "0", "memory.min": "0", "pids.max": "9"}
    )
    read = as_read(oci_for_create(sent, BUNDLES), DEBIAN, CgroupDriver.SYSTEMD)
    assert [left.knob for left in read.unsayable] == ["pids.max"]
    unlimited = as_read(oci_for_create(replace(sent, memory_limit_in_bytes=0), BUNDLES), DEBIAN, CgroupDriver.SYSTEMD)
    assert [left.knob for left in unlimited.unsayable] == ["memory.swap.max", "pids.max"]


def test_newer_runsc_names_the_driver_as_the_cause():
    asked = oci_for_create(ContainerResources(unified={"memory.high": "67108864"}), BUNDLES)
    [left] = as_read(asked, NEWEST, CgroupDriver.SYSTEMD).unsayable
    assert left.why == "runsc reads no linux.resources.unified with the systemd driver."


def test_its_sources_are_named():
    assert source(DEBIAN, Knob.MEMORY_MAX) == "gVisor memory2"
