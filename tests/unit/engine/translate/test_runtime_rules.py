"""From OCI linux.resources to files, by runc and crun of several versions."""

import json
from pathlib import Path

import pytest

from memqos.engine.expect import expect
from memqos.engine.translate.oci import create
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.runtime_rules import held, held_after_reload, scope_held, written
from memqos.engine.translate.systemd import INFINITY, Survival, property_number, quota_per_second, survival
from memqos.engine.translate.versions import runtime_traits, traits_of
from memqos.engine.translate.writes import Host
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from tests.unit.engine.pods import NODE, ON, container, equal, pod

MIB = 1 << 20
GIB = 1 << 30
RUNC = traits_of("runc", "1.1.15")
RUNC_1_1_5 = traits_of("runc", "1.1.5")
RUNC_1_2 = traits_of("runc", "1.2.0")
RUNC_1_3_6 = traits_of("runc", "1.3.6")
CRUN_1_8_1 = traits_of("crun", "1.8.1")
CRUN_1_21 = traits_of("crun", "1.21")
CRUN_1_28 = traits_of("crun", "1.28")
CGROUPFS = Host(driver=CgroupDriver.CGROUPFS)
ROWS = json.loads((Path(__file__).parents[3] / "vectors" / "runc_conversions.json").read_text())

TYPICAL = OciResources(
    memory_limit=256 * MIB,
    memory_swap=256 * MIB,
    cpu_shares=1024,
    cpu_quota=33_300,
    cpu_period=100_000,
    cpus="0-1",
    mems="0",
    hugepage_limits=(("2MB", 4 * MIB),),
    unified={"memory.oom.group": "1", "memory.min": "134217728", "memory.high": "248303616"},
)


def test_runc_writes_swap_first_and_unified_last():
    found = written(TYPICAL, RUNC)
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
    # No MemorySwapMax: a swap limit of exactly zero never becomes a property.
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
    found = written(TYPICAL, RUNC, CGROUPFS)
    assert found.files == written(TYPICAL, RUNC).files
    assert found.properties is None
    assert held_after_reload(found) == held(found) == scope_held(found)


def test_newer_runc():
    texts = written(TYPICAL, RUNC_1_3_6).texts
    assert (texts["cpu.weight"], texts["cpu.max"]) == ("100", "34000 100000")
    assert written(TYPICAL, RUNC_1_3_6, CGROUPFS).texts["cpu.max"] == "33300 100000"


def test_a_quota_without_a_period_has_the_kernels():
    resources = OciResources(cpu_quota=33_300)
    assert written(resources, RUNC).texts == {"cpu.max": "33300 100000"}
    assert written(resources, RUNC).properties == {"CPUQuotaPerSecUSec": 340000}
    assert written(resources, RUNC_1_3_6).texts == {"cpu.max": "34000 100000"}
    assert held_after_reload(written(resources, RUNC)) == {"cpu.max": "34000 100000"}
    assert written(OciResources(cpu_quota=1), RUNC).texts == {"cpu.max": "1 100000"}


@pytest.mark.parametrize("traits", [RUNC, CRUN_1_28], ids=str)
def test_a_reservation_is_low(traits):
    found = written(OciResources(memory_reservation=MIB), traits)
    assert found.files == (("memory.low", "1048576"),)
    assert found.properties == {"MemoryLow": 1048576}


def test_older_runc_writes_no_reservations_of_huge_pages():
    assert "hugetlb.2MB.rsvd.max" not in written(TYPICAL, RUNC_1_1_5).texts
    assert "hugetlb.2MB.rsvd.max" not in written(TYPICAL, RUNC, Host(hugetlb_reservations=False)).texts


@pytest.mark.parametrize("row", ROWS["cpu_weight"], ids=lambda row: str(row["shares"]))
@pytest.mark.parametrize(
    ("traits", "kind"),
    [(RUNC, "old_linear"), (RUNC_1_3_6, "new"), (traits_of("crun", "1.22"), "old_linear"), (CRUN_1_28, "new")],
    ids=str,
)
def test_weight_by_version(traits, kind, row):
    found = written(OciResources(cpu_shares=row["shares"]), traits)
    assert found.files == (("cpu.weight", str(row[kind])),)
    assert found.properties == {"CPUWeight": row[kind]}


@pytest.mark.parametrize("row", ROWS["memory_swap_v2"]["rows"], ids=lambda row: f"{row['memsw']},{row['mem']}")
def test_swap_of_runc(row):
    found = written(OciResources(memory_limit=row["mem"], memory_swap=row["memsw"]), traits_of("runc", "1.2.1"))
    assert bool(found.refusal) is bool(row.get("error"))
    if found.refusal:
        assert found.files == ()
        return
    unset = row["memsw"] == 0 and row["mem"] != -1
    expected = None if unset else "max" if row["out"] == -1 else str(row["out"])
    assert found.texts.get("memory.swap.max") == expected
    number = None if unset or row["out"] == 0 else INFINITY if row["out"] == -1 else row["out"]
    assert found.properties.get("MemorySwapMax") == number


def test_runc_1_1_refuses_swap_beside_unlimited_memory():
    found = written(OciResources(memory_limit=-1, memory_swap=300), RUNC)
    assert found.refusal == "unable to set swap limit without memory limit"


def test_to_runc_zero_is_absent_and_minus_one_is_max():
    zero = OciResources(
        memory_limit=0, memory_reservation=0, memory_swap=0, cpu_shares=0, cpu_quota=0, cpus="", mems=""
    )
    assert written(zero, RUNC).files == ()
    assert written(zero, RUNC).properties == {}
    found = written(OciResources(memory_limit=-1, memory_reservation=-1, cpu_quota=-1), RUNC)
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
    found = written(resources, traits, Host(driver=CgroupDriver.CGROUPFS, swap_file=False))
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
    assert written(OciResources(unified=unified), RUNC).properties == properties


def test_unified_wins_over_the_field():
    resources = OciResources(memory_limit=100 * MIB, memory_swap=100 * MIB, unified={"memory.max": str(200 * MIB)})
    found = written(resources, RUNC)
    assert held(found)["memory.max"] == "209715200"
    assert found.properties["MemoryMax"] == 209715200


@pytest.mark.parametrize("traits", [RUNC, CRUN_1_28], ids=str)
@pytest.mark.parametrize(
    ("unified", "words"),
    [({"../memory.max": "0"}, "no slashes"), ({"memory.min": "1G"}, "memory.min"), ({"memory.high": "-1"}, "-1")],
)
def test_entries_that_are_refused(traits, unified, words):
    found = written(OciResources(memory_limit=100, unified=unified), traits)
    assert words in found.refusal
    assert found.files == ()


@pytest.mark.parametrize(
    "unified",
    [{"memory": "0"}, {".max": "0"}, {".": "0"}, {"cpuset.cpus": "a-b"}, {"cpu.max": "a b"}, {"cpu.max": "1 x"}],
)
def test_entries_that_runc_refuses_with_systemd(unified):
    assert written(OciResources(unified=unified), RUNC).refusal
    assert not written(OciResources(unified=unified), RUNC, CGROUPFS).refusal


@pytest.mark.parametrize("traits", [RUNC, CRUN_1_28], ids=str)
def test_kernel_suffixes_pass_without_systemd_only(traits):
    resources = OciResources(unified={"memory.high": "1G"})
    assert held(written(resources, traits, CGROUPFS)) == {"memory.high": "1073741824"}
    assert written(resources, traits).refusal


def test_runc_refuses_what_is_no_list_with_systemd_only():
    resources = OciResources(mems="all")
    assert "cpuset.mems" in written(resources, RUNC).refusal
    assert written(resources, RUNC, CGROUPFS).texts == {"cpuset.mems": "all"}


def test_old_runc_hands_systemd_cpu_sets_in_the_wrong_order():
    resources = OciResources(cpus="8-9", mems="0")
    found = written(resources, RUNC_1_1_5)
    assert (held(found)["cpuset.cpus"], held_after_reload(found)["cpuset.cpus"]) == ("8-9", "0-1")
    assert held_after_reload(written(resources, RUNC))["cpuset.cpus"] == "8-9"


def test_a_daemon_reload_undoes_what_is_no_property():
    found = written(TYPICAL, RUNC)
    assert held(found) == {
        "memory.swap.max": "0",
        "memory.max": "268435456",
        "cpu.weight": "39",
        "cpu.max": "33300 100000",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
        "hugetlb.2MB.max": "4194304",
        "hugetlb.2MB.rsvd.max": "4194304",
        "memory.high": "248303616",
        "memory.min": "134217728",
        "memory.oom.group": "1",
    }
    assert held_after_reload(found) == {
        "memory.swap.max": "max",
        "memory.max": "268435456",
        "cpu.weight": "39",
        "cpu.max": "34000 100000",
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
        "hugetlb.2MB.max": "4194304",
        "hugetlb.2MB.rsvd.max": "4194304",
        "memory.high": "248303616",
        "memory.min": "134217728",
        "memory.oom.group": "0",
    }


def test_swap_that_the_kubelet_turns_off_survives_a_daemon_reload():
    resources = OciResources(memory_limit=MIB, memory_swap=MIB, unified={"memory.swap.max": "0"})
    assert held_after_reload(written(resources, RUNC))["memory.swap.max"] == "0"


def test_files_below_a_scope_show_whole_pages_after_a_daemon_reload_too():
    found = written(OciResources(memory_limit=100_000), traits_of("crun", "1.21"))
    assert held_after_reload(found, page_size=65536)["memory.max"] == "65536"


def test_limits_that_are_max_survive_a_daemon_reload():
    resources = OciResources(cpu_period=50_000, unified={"memory.high": "max", "memory.zswap.max": "0"})
    assert held_after_reload(written(resources, RUNC)) == {
        "cpu.max": "max 50000",
        "memory.high": "max",
        "memory.zswap.max": "max",
    }


def test_a_daemon_reload_resets_even_without_properties():
    found = written(OciResources(unified={"memory.oom.group": "1"}), RUNC)
    assert found.properties == {}
    assert held_after_reload(found) == {"memory.oom.group": "0"}


@pytest.mark.parametrize(
    ("name", "properties", "fate"),
    [
        ("memory.min", {"MemoryMin": 5}, Survival.KEPT),
        ("memory.min", {}, Survival.RESET),
        ("memory.oom.group", {}, Survival.RESET),
        ("hugetlb.2MB.max", {}, Survival.UNKNOWN),
        ("memory.swap.high", {}, Survival.UNKNOWN),
    ],
)
def test_survival(name, properties, fate):
    assert survival(name, properties) is fate


@pytest.mark.parametrize(
    ("quota", "period", "number"),
    [
        (33_300, 100_000, 340_000),
        (34_000, 100_000, 340_000),
        (3_200_000, 100_000, 32_000_000),
        (1, 1_000_000, 10_000),
        (12_345, 50_000, 250_000),
        (-1, 100_000, INFINITY),
        (0, 1_000, INFINITY),
    ],
)
def test_quota_as_a_property(quota, period, number):
    assert quota_per_second(quota, period) == number


@pytest.mark.parametrize(
    ("version", "known", "reloaded"),
    [
        (241, set(), {"memory.oom.group": "1", "cpuset.mems": "0", "cpu.max": "34000 100000"}),
        (242, {"CPUQuotaPeriodUSec"}, {"memory.oom.group": "1", "cpuset.mems": "0"}),
        (243, {"CPUQuotaPeriodUSec"}, {"memory.oom.group": "0", "cpuset.mems": "0"}),
        (244, {"CPUQuotaPeriodUSec", "AllowedCPUs", "AllowedMemoryNodes"}, {"memory.oom.group": "0"}),
    ],
)
def test_older_systemd_knows_fewer_properties(version, known, reloaded):
    """What it does not know is not set, and the file behind it is left alone."""
    writes = written(TYPICAL, RUNC, Host(systemd=version))
    newer = {"CPUQuotaPeriodUSec", "AllowedCPUs", "AllowedMemoryNodes"}
    assert newer & writes.properties.keys() == known
    found = held_after_reload(writes, systemd=version)
    assert {name: found[name] for name in reloaded} == reloaded


def test_zswap_is_systemds_from_253_on():
    wish = OciResources(unified={"memory.zswap.max": "4096"})
    old, new = (written(wish, CRUN_1_21, Host(systemd=version, subgroup="")) for version in (252, 253))
    assert ("MemoryZSwapMax" in old.properties, "MemoryZSwapMax" in new.properties) == (False, True)
    assert held_after_reload(old, systemd=252) == {"memory.zswap.max": "4096"}
    assert survival("memory.zswap.max", {}, 252) is Survival.UNKNOWN


@pytest.mark.parametrize("text", ["", "1k", "\u0661", "-1"])
def test_what_is_no_property(text):
    with pytest.raises(ValueError, match=r"memory\.min"):
        property_number("memory.min", text)


def test_crun_keeps_files_below_the_scope():
    found = written(TYPICAL, CRUN_1_28)
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
    assert held_after_reload(found) == held(found)
    # The scope's swap limit is memory and swap together.
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
    assert scope_held(written(TYPICAL, traits_of("crun", version))) == scope


def test_properties_of_crun_by_version():
    assert written(TYPICAL, traits_of("crun", "1.15")).properties["MemoryLimit"] == 268435456
    assert "MemoryLimit" not in written(TYPICAL, traits_of("crun", "1.16")).properties
    assert written(TYPICAL, traits_of("crun", "1.16")).properties["MemoryMax"] == 268435456
    assert "MemoryLimit" not in written(OciResources(cpu_shares=2), traits_of("crun", "1.15")).properties
    entries = OciResources(unified={"memory.max": "max", "memory.low": "5", "cpu.weight": "7", "pids.max": "9"})
    assert written(entries, CRUN_1_21).properties == {
        "MemoryMax": INFINITY,
        "MemoryLow": 5,
        "CPUWeight": 7,
        "TasksMax": 9,
    }


def test_a_shares_field_of_zero_hides_the_unified_weight_from_the_scope():
    resources = OciResources(cpu_shares=0, unified={"cpu.weight": "7"})
    found = written(resources, CRUN_1_28)
    assert found.properties == {}
    assert held(found) == {"cpu.weight": "7"}


def test_crun_without_the_cgroup_below():
    found = written(TYPICAL, CRUN_1_28, Host(subgroup=""))
    assert found.subgroup == ""
    assert scope_held(found) == held(found)
    after = held_after_reload(found)
    assert (after["memory.swap.max"], after["memory.oom.group"]) == ("268435456", "0")
    assert written(TYPICAL, CRUN_1_28, Host(subgroup="inner")).subgroup == "inner"
    assert written(TYPICAL, CRUN_1_28, CGROUPFS).subgroup == ""
    assert scope_held(written(TYPICAL, CRUN_1_28, CGROUPFS)) == held(written(TYPICAL, CRUN_1_28))


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
    found = written(OciResources(memory_limit=limit, memory_swap=both), traits, CGROUPFS)
    assert list(found.files) == files
    assert found.refusal == refusal


def test_a_reservation_without_limit_overflows_in_crun():
    found = written(OciResources(memory_reservation=-1), CRUN_1_28)
    assert found.files == (("memory.low", "18446744073709551615"),)
    assert held(found) == {"memory.low": "max"}
    assert scope_held(found) == {"memory.low": "max"}


def test_what_the_kernel_refuses_is_named():
    found = written(OciResources(memory_limit=-2), CRUN_1_8_1, CGROUPFS)
    with pytest.raises(ValueError, match=r"memory\.max: the kernel refuses '-2'"):
        held(found)


def test_empty_entries_and_quota_of_crun():
    assert written(OciResources(unified={"memory.high": ""}), CRUN_1_28, CGROUPFS).files == ()
    assert written(OciResources(cpu_quota=5_000), CRUN_1_28).texts == {"cpu.max": "5000 100000"}
    assert written(OciResources(cpu_quota=5_000), CRUN_1_28).properties == {}
    assert written(OciResources(cpu_quota=-1), CRUN_1_28).files == ()
    assert written(OciResources(cpu_quota=1), CRUN_1_28).texts == {"cpu.max": "1 100000"}
    assert written(OciResources(cpu_period=1), CRUN_1_28).texts == {"cpu.max": "max 1"}
    assert written(OciResources(cpu_quota=1, cpu_period=100_000), CRUN_1_28).properties == {
        "CPUQuotaPerSecUSec": 10000,
        "CPUQuotaPeriodUSec": 100000,
    }
    assert written(OciResources(cpu_period=100_000), CRUN_1_28).properties == {}
    assert written(OciResources(cpu_quota=-1, cpu_period=50_000), CRUN_1_28).texts == {"cpu.max": "max 50000"}


@pytest.mark.parametrize(("page_size", "high"), [(4096, "248303616"), (16384, "248299520"), (65536, "248250368")])
def test_page_sizes(page_size, high):
    found = written(OciResources(unified={"memory.high": "248304500"}), RUNC, CGROUPFS)
    assert held(found, page_size=page_size) == {"memory.high": high}


def test_only_oci_runtimes_write_files():
    with pytest.raises(ValueError, match="cri-o writes no control files"):
        written(TYPICAL, traits_of("cri-o", "1.36.3"))


PODS = [
    pod(equal("1", "256Mi"), name="guaranteed"),
    pod(container({"cpu": "250m", "memory": "128Mi"}, {"cpu": "333m", "memory": "256Mi"}), name="burstable"),
    pod(container({"memory": "128Mi"}), name="requests-only"),
    pod(container({}, {"memory": "1234567"}), name="odd"),
    pod(name="besteffort"),
]


@pytest.mark.parametrize("release", ["1.22", "1.27", "1.30", "1.36"])
@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize(("cri", "oci"), [(("containerd", "1.7.24"), RUNC), (("containerd", "2.1.9"), RUNC_1_3_6)])
def test_files_agree_with_the_plan(release, driver, cri, oci):
    cri = traits_of(*cri)
    plan = expect(
        PODS, node=NODE, settings=ON, release=release, driver=driver, traits=runtime_traits(cri, oci, hugetlb=True)
    )
    assert len(plan.pods) == 5
    for planned in plan.pods:
        for one in planned.containers:
            translated = create(one.resources, cri, hugetlb=True)
            files = held(written(translated.resources, oci, Host(driver=driver)))
            for knob, expected in one.cgroup.knobs.items():
                assert files.get(knob, str(knob.kernel_default)) == str(expected.value), (planned.name, knob)
            assert set(files) - set(one.cgroup.knobs) <= {"hugetlb.2MB.rsvd.max", "hugetlb.1GB.rsvd.max"}
            assert translated.oom_score_adj == one.oom_score_adj
            assert Knob.MEMORY_MAX in one.cgroup.knobs
