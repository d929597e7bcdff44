"""From OCI linux.resources to files, by crun of several versions."""

import pytest

from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runtime_rules import files_held, held_after_reload, runtime_writes, scope_held
from memqos.engine.translate.systemd import INFINITY
from memqos.engine.translate.versions import traits_of
from tests.unit.engine.translate.samples import CGROUPFS, CRUN_1_8_1, CRUN_1_21, CRUN_1_28, TYPICAL


def test_crun_keeps_files_below_the_scope():
    found = runtime_writes(TYPICAL, CRUN_1_28)
    assert found.subgroup == "container"
    assert found.files == (
        ("memory.max", "268435456"),
        ("memory.swap.max", "0"),
        ("cpu.weight", "100"),
        ("cpu.max", "33300 100000"),
        ("cpuset.cpus", "0-1"),
        ("cpuset.mems", "0"),
        ("hugetlb.2MB.max", "4194304"),
        ("memory.oom.group", "1"),
        ("memory.min", "134217728"),
        ("memory.high", "248303616"),
    )
    assert held_after_reload(found) == files_held(found)
    # The scope's swap limit is memory plus swap.
    assert scope_held(found) == {
        "memory.min": "134217728",
        "memory.high": "248303616",
        "memory.max": "268435456",
        "memory.swap.max": "268435456",
        "cpu.weight": "100",
        "cpu.max": "34000 100000",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
    }


@pytest.mark.parametrize(
    ("version", "scope"),
    [
        ("1.8.1", {"cpu.weight": "39"}),
        ("1.8.5", {"cpu.weight": "39", "memory.max": "268435456"}),
        (
            "1.11",
            {
                "cpu.weight": "39",
                "memory.max": "268435456",
                "cpu.max": "34000 100000",
                "cpuset.cpus": "0-1",
                "cpuset.mems": "0",
            },
        ),
    ],
)
def test_the_scope_of_older_crun_has_no_protection(version, scope):
    assert scope_held(runtime_writes(TYPICAL, traits_of("crun", version))) == scope


def test_properties_of_crun_by_version():
    assert runtime_writes(TYPICAL, traits_of("crun", "1.15")).properties["MemoryLimit"] == 268435456
    assert "MemoryLimit" not in runtime_writes(TYPICAL, traits_of("crun", "1.16")).properties
    assert runtime_writes(TYPICAL, traits_of("crun", "1.16")).properties["MemoryMax"] == 268435456
    assert "MemoryLimit" not in runtime_writes(OciResources(cpu_shares=2), traits_of("crun", "1.15")).properties
    entries = OciResources(unified={"memory.max": "max", "memory.low": "5", "cpu.weight": "7", "pids.max": "9"})
    assert runtime_writes(entries, CRUN_1_21).properties == {
        "MemoryMax": INFINITY,
        "MemoryLow": 5,
        "CPUWeight": 7,
        "TasksMax": 9,
    }


def test_a_shares_field_of_zero_hides_the_unified_weight_from_the_scope():
    resources = OciResources(cpu_shares=0, unified={"cpu.weight": "7"})
    found = runtime_writes(resources, CRUN_1_28)
    assert found.properties == {}
    assert files_held(found) == {"cpu.weight": "7"}


def test_crun_without_the_cgroup_below():
    found = runtime_writes(TYPICAL, CRUN_1_28, RuntimeHost(subgroup=""))
    assert found.subgroup == ""
    assert scope_held(found) == files_held(found)
    after = held_after_reload(found)
    assert (after["memory.swap.max"], after["memory.oom.group"]) == ("268435456", "0")
    assert runtime_writes(TYPICAL, CRUN_1_28, RuntimeHost(subgroup="inner")).subgroup == "inner"
    assert runtime_writes(TYPICAL, CRUN_1_28, CGROUPFS).subgroup == ""
    assert scope_held(runtime_writes(TYPICAL, CRUN_1_28, CGROUPFS)) == files_held(runtime_writes(TYPICAL, CRUN_1_28))


@pytest.mark.parametrize(
    ("traits", "limit", "both", "files", "refusal"),
    [
        (CRUN_1_28, 0, None, [("memory.max", "0")], ""),
        (CRUN_1_28, -1, -1, [("memory.max", "max"), ("memory.swap.max", "max")], ""),
        (CRUN_1_28, -2, None, [("memory.max", "max")], ""),
        (CRUN_1_28, 100, 0, [("memory.max", "100"), ("memory.swap.max", "0")], ""),
        (CRUN_1_28, None, 0, [("memory.swap.max", "0")], ""),
        (CRUN_1_28, 100, 150, [("memory.max", "100"), ("memory.swap.max", "50")], ""),
        (CRUN_1_28, -1, 300, [("memory.max", "max"), ("memory.swap.max", "301")], ""),
        (CRUN_1_28, None, 1, [], "cannot set swap limit without the memory limit"),
        (CRUN_1_28, None, 150, [], "cannot set swap limit without the memory limit"),
        (CRUN_1_28, 200, 150, [], "cannot set memory+swap limit less than the memory limit"),
        (CRUN_1_8_1, 100, 0, [], "cannot set memory+swap limit less than the memory limit"),
        (CRUN_1_8_1, None, -1, [("memory.swap.max", "max")], ""),
    ],
)
def test_memory_of_crun(traits, limit, both, files, refusal):
    found = runtime_writes(OciResources(memory_limit=limit, memory_swap=both), traits, CGROUPFS)
    assert list(found.files) == files
    assert found.refusal == refusal


def test_a_reservation_without_limit_overflows_in_crun():
    found = runtime_writes(OciResources(memory_reservation=-1), CRUN_1_28)
    assert found.files == (("memory.low", "18446744073709551615"),)
    assert files_held(found) == {"memory.low": "max"}
    assert scope_held(found) == {"memory.low": "max"}


def test_empty_entries_and_quota_of_crun():
    assert runtime_writes(OciResources(unified={"memory.high": ""}), CRUN_1_28, CGROUPFS).files == ()
    assert runtime_writes(OciResources(cpu_quota=5_000), CRUN_1_28).texts == {"cpu.max": "5000 100000"}
    assert runtime_writes(OciResources(cpu_quota=5_000), CRUN_1_28).properties == {}
    assert runtime_writes(OciResources(cpu_quota=-1), CRUN_1_28).files == ()
    assert runtime_writes(OciResources(cpu_quota=1), CRUN_1_28).texts == {"cpu.max": "1 100000"}
    assert runtime_writes(OciResources(cpu_period=1), CRUN_1_28).texts == {"cpu.max": "max 1"}
    assert runtime_writes(OciResources(cpu_quota=1, cpu_period=100_000), CRUN_1_28).properties == {
        "CPUQuotaPerSecUSec": 10000,
        "CPUQuotaPeriodUSec": 100000,
    }
    assert runtime_writes(OciResources(cpu_period=100_000), CRUN_1_28).properties == {}
    assert runtime_writes(OciResources(cpu_quota=-1, cpu_period=50_000), CRUN_1_28).texts == {"cpu.max": "max 50000"}
