"""From OCI linux.resources to files, by runc of several versions."""

import json
from pathlib import Path

import pytest

from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runtime_rules import files_held, held_after_reload, runtime_writes, scope_held
from memqos.engine.translate.systemd import INFINITY
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver
from tests.unit.engine.translate.samples import (
    CGROUPFS,
    CRUN_1_8_1,
    CRUN_1_28,
    MIB,
    RUNC,
    RUNC_1_1_5,
    RUNC_1_2,
    RUNC_1_3_6,
    RUNC_1_6,
    TYPICAL,
)

ROWS = json.loads((Path(__file__).parents[3] / "vectors" / "runc_conversions.json").read_text())


def test_runc_writes_swap_first_and_unified_last():
    found = runtime_writes(TYPICAL, RUNC)
    assert found.files == (
        ("memory.swap.max", "0"),
        ("memory.max", "268435456"),
        ("cpu.weight", "39"),
        ("cpu.max", "33300 100000"),
        ("cpuset.cpus", "0-1"),
        ("cpuset.mems", "0"),
        ("hugetlb.2MB.max", "4194304"),
        ("hugetlb.2MB.rsvd.max", "4194304"),
        ("memory.high", "248303616"),
        ("memory.min", "134217728"),
        ("memory.oom.group", "1"),
    )
    # No MemorySwapMax: runc never sets a swap limit of exactly zero as a property.
    assert found.properties == {
        "MemoryMax": 268435456,
        "CPUWeight": 39,
        "CPUQuotaPeriodUSec": 100000,
        "CPUQuotaPerSecUSec": 340000,
        "AllowedCPUs": "0-1",
        "AllowedMemoryNodes": "0",
        "MemoryHigh": 248303616,
        "MemoryMin": 134217728,
    }
    assert (found.subgroup, found.refusal) == ("", "")


def test_the_same_files_without_systemd():
    found = runtime_writes(TYPICAL, RUNC, CGROUPFS)
    assert found.files == runtime_writes(TYPICAL, RUNC).files
    assert found.properties is None
    assert held_after_reload(found) == files_held(found) == scope_held(found)


def test_newer_runc():
    texts = runtime_writes(TYPICAL, RUNC_1_3_6).texts
    assert (texts["cpu.weight"], texts["cpu.max"]) == ("100", "34000 100000")
    assert runtime_writes(TYPICAL, RUNC_1_3_6, CGROUPFS).texts["cpu.max"] == "33300 100000"


def test_a_quota_without_a_period_has_the_kernels():
    resources = OciResources(cpu_quota=33_300)
    assert runtime_writes(resources, RUNC).texts == {"cpu.max": "33300 100000"}
    assert runtime_writes(resources, RUNC).properties == {"CPUQuotaPerSecUSec": 340000}
    assert runtime_writes(resources, RUNC_1_3_6).texts == {"cpu.max": "34000 100000"}
    assert held_after_reload(runtime_writes(resources, RUNC)) == {"cpu.max": "34000 100000"}
    assert runtime_writes(OciResources(cpu_quota=1), RUNC).texts == {"cpu.max": "1 100000"}


@pytest.mark.parametrize("traits", [RUNC, CRUN_1_28], ids=str)
def test_a_reservation_is_low(traits):
    found = runtime_writes(OciResources(memory_reservation=MIB), traits)
    assert found.files == (("memory.low", "1048576"),)
    assert found.properties == {"MemoryLow": 1048576}


def test_older_runc_writes_no_reservations_of_huge_pages():
    assert "hugetlb.2MB.rsvd.max" not in runtime_writes(TYPICAL, RUNC_1_1_5).texts
    assert "hugetlb.2MB.rsvd.max" not in runtime_writes(TYPICAL, RUNC, RuntimeHost(hugetlb_reservations=False)).texts


@pytest.mark.parametrize("row", ROWS["cpu_weight"], ids=lambda row: str(row["shares"]))
@pytest.mark.parametrize(
    ("traits", "kind"),
    [(RUNC, "old_linear"), (RUNC_1_3_6, "new"), (traits_of("crun", "1.22"), "old_linear"), (CRUN_1_28, "new")],
    ids=str,
)
def test_weight_by_version(traits, kind, row):
    found = runtime_writes(OciResources(cpu_shares=row["shares"]), traits)
    assert found.files == (("cpu.weight", str(row[kind])),)
    assert found.properties == {"CPUWeight": row[kind]}


@pytest.mark.parametrize("row", ROWS["memory_swap_v2"]["rows"], ids=lambda row: f"{row['memsw']},{row['mem']}")
def test_swap_of_runc(row):
    found = runtime_writes(OciResources(memory_limit=row["mem"], memory_swap=row["memsw"]), traits_of("runc", "1.2.1"))
    assert bool(found.refusal) is bool(row.get("error"))
    if found.refusal:
        assert found.files == ()
        return
    unset = row["memsw"] == 0 and row["mem"] != -1
    expected = None if unset else "max" if row["out"] == -1 else str(row["out"])
    assert found.texts.get("memory.swap.max") == expected
    number = None if unset or row["out"] == 0 else INFINITY if row["out"] == -1 else row["out"]
    assert found.properties.get("MemorySwapMax") == number


def test_runc_1_1_refuses_swap_with_unlimited_memory():
    found = runtime_writes(OciResources(memory_limit=-1, memory_swap=300), RUNC)
    assert found.refusal == "unable to set swap limit without memory limit"


def test_runc_treats_zero_as_absent_and_minus_one_as_max():
    zero = OciResources(
        memory_limit=0, memory_reservation=0, memory_swap=0, cpu_shares=0, cpu_quota=0, cpus="", mems=""
    )
    assert runtime_writes(zero, RUNC).files == ()
    assert runtime_writes(zero, RUNC).properties == {}
    found = runtime_writes(OciResources(memory_limit=-1, memory_reservation=-1, cpu_quota=-1), RUNC)
    assert found.files == (
        ("memory.swap.max", "max"),
        ("memory.max", "max"),
        ("memory.low", "max"),
        ("cpu.max", "max 100000"),
    )
    assert found.properties == {
        "MemoryMax": INFINITY,
        "MemoryLow": INFINITY,
        "MemorySwapMax": INFINITY,
        "CPUQuotaPerSecUSec": INFINITY,
    }


@pytest.mark.parametrize(
    ("traits", "limit", "both", "refused"),
    [
        (RUNC, 100, 100, True),
        (RUNC_1_2, 100, 100, False),
        (RUNC_1_2, 100, -1, False),
        (RUNC_1_2, 100, 101, True),
        (RUNC, 100, 0, False),
        (CRUN_1_8_1, 100, 101, False),
    ],
    ids=str,
)
def test_without_a_swap_file(traits, limit, both, refused):
    resources = OciResources(memory_limit=limit, memory_swap=both)
    found = runtime_writes(resources, traits, RuntimeHost(driver=CgroupDriver.CGROUPFS, swap_file=False))
    assert bool(found.refusal) is refused
    if not refused:
        assert found.files == (("memory.max", "100"),)


@pytest.mark.parametrize(
    ("unified", "properties"),
    [
        ({"memory.low": "max"}, {"MemoryLow": INFINITY}),
        ({"memory.swap.max": " 0\n"}, {"MemorySwapMax": 0}),
        ({"pids.max": "0"}, {"TasksMax": 1}),
        ({"cpu.weight": "50"}, {"CPUWeight": 50}),
        ({"cpu.max": "50000"}, {"CPUQuotaPeriodUSec": 100000, "CPUQuotaPerSecUSec": 500000}),
        ({"cpu.max": "max 50000"}, {"CPUQuotaPeriodUSec": 50000, "CPUQuotaPerSecUSec": INFINITY}),
        ({"cpuset.mems": "0-1"}, {"AllowedMemoryNodes": "0-1"}),
        ({"memory.oom.group": "1"}, {}),
        ({"memory.swap.high": "4096"}, {}),
        ({"hugetlb.2MB.max": "0"}, {}),
    ],
)
def test_unified_entries_as_properties_of_runc(unified, properties):
    assert runtime_writes(OciResources(unified=unified), RUNC).properties == properties


def test_unified_wins_over_the_field():
    resources = OciResources(memory_limit=100 * MIB, memory_swap=100 * MIB, unified={"memory.max": str(200 * MIB)})
    found = runtime_writes(resources, RUNC)
    assert files_held(found)["memory.max"] == "209715200"
    assert found.properties["MemoryMax"] == 209715200


@pytest.mark.parametrize("traits", [RUNC, CRUN_1_28], ids=str)
@pytest.mark.parametrize(
    ("unified", "words"),
    [({"../memory.max": "0"}, "no slashes"), ({"memory.min": "1G"}, "memory.min"), ({"memory.high": "-1"}, "-1")],
)
def test_refused_entries(traits, unified, words):
    found = runtime_writes(OciResources(memory_limit=100, unified=unified), traits)
    assert words in found.refusal
    assert found.files == ()


@pytest.mark.parametrize(
    "unified",
    [{"memory": "0"}, {".max": "0"}, {".": "0"}, {"cpuset.cpus": "a-b"}, {"cpu.max": "a b"}, {"cpu.max": "1 x"}],
)
def test_entries_that_runc_refuses_with_systemd(unified):
    assert runtime_writes(OciResources(unified=unified), RUNC).refusal
    assert not runtime_writes(OciResources(unified=unified), RUNC, CGROUPFS).refusal


@pytest.mark.parametrize("traits", [RUNC, CRUN_1_28], ids=str)
def test_kernel_suffixes_pass_without_systemd_only(traits):
    resources = OciResources(unified={"memory.high": "1G"})
    assert files_held(runtime_writes(resources, traits, CGROUPFS)) == {"memory.high": "1073741824"}
    assert runtime_writes(resources, traits).refusal


def test_runc_refuses_an_invalid_list_only_with_systemd():
    resources = OciResources(mems="all")
    assert "cpuset.mems" in runtime_writes(resources, RUNC).refusal
    assert runtime_writes(resources, RUNC, CGROUPFS).texts == {"cpuset.mems": "all"}


def test_old_runc_hands_systemd_cpu_sets_in_the_wrong_order():
    resources = OciResources(cpus="8-9", mems="0")
    found = runtime_writes(resources, RUNC_1_1_5)
    assert (files_held(found)["cpuset.cpus"], held_after_reload(found)["cpuset.cpus"]) == ("8-9", "0-1")
    assert held_after_reload(runtime_writes(resources, RUNC))["cpuset.cpus"] == "8-9"


@pytest.mark.parametrize(
    ("text", "policy"),
    [("0", "continue"), ("1", "kill"), ("01", "kill"), ("2", None), ("18446744073709551616", None)],
)
def test_oom_group_is_the_scopes_oom_policy(text, policy):
    """opencontainers/cgroups 0.0.8, systemd/v2.go: UnifiedManager.Apply, TestOOMPolicyApply."""
    found = runtime_writes(OciResources(unified={"memory.oom.group": text}), RUNC_1_6)
    assert found.properties == ({"OOMPolicy": policy} if policy else {})
    assert found.texts == {"memory.oom.group": text}


@pytest.mark.parametrize("text", ["invalid", "", " 1", "1\n", "0x1", "-1", "\u0661"])
def test_only_a_creation_reads_oom_group_as_a_decimal_number(text):
    wish = OciResources(unified={"memory.oom.group": text})
    assert "memory.oom.group" in runtime_writes(wish, RUNC_1_6).refusal
    for writes in (
        runtime_writes(wish, RUNC_1_6, stored=OciResources()),
        runtime_writes(wish, RUNC_1_6, CGROUPFS),
        runtime_writes(wish, RUNC_1_6, RuntimeHost(systemd=252)),
        runtime_writes(wish, RUNC_1_3_6),
    ):
        assert (writes.refusal, writes.texts) == ("", {"memory.oom.group": text})


def test_oom_group_survives_a_daemon_reload_as_it_was_created():
    wish = OciResources(unified={"memory.oom.group": "1"})
    for traits, systemd, text in (
        (RUNC_1_3_6, 257, "0"),
        (RUNC_1_6, 257, "1"),
        (RUNC_1_6, 253, "1"),
        (RUNC_1_6, 252, "0"),
    ):
        writes = runtime_writes(wish, traits, RuntimeHost(systemd=systemd))
        assert held_after_reload(writes, systemd=systemd) == {"memory.oom.group": text}
    off = runtime_writes(OciResources(unified={"memory.oom.group": "0"}), RUNC_1_6)
    assert held_after_reload(off) == {"memory.oom.group": "0"}
    assert runtime_writes(wish, RUNC_1_6, stored=OciResources()).properties == {}
