"""systemd's texts for a runtime's properties, and the effect of a daemon-reload."""

import pytest

from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runtime_rules import files_held, held_after_reload, runtime_writes
from memqos.engine.translate.systemd import INFINITY, Survival, property_number, quota_property, survival
from memqos.engine.translate.versions import traits_of
from tests.unit.engine.translate.samples import CRUN_1_21, MIB, RUNC, TYPICAL


def test_a_daemon_reload_undoes_files_without_a_property():
    found = runtime_writes(TYPICAL, RUNC)
    assert files_held(found) == {
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
    assert held_after_reload(runtime_writes(resources, RUNC))["memory.swap.max"] == "0"


def test_files_below_a_scope_show_whole_pages_after_a_daemon_reload_too():
    found = runtime_writes(OciResources(memory_limit=100_000), traits_of("crun", "1.21"))
    assert held_after_reload(found, page_size=65536)["memory.max"] == "65536"


def test_limits_that_are_max_survive_a_daemon_reload():
    resources = OciResources(cpu_period=50_000, unified={"memory.high": "max", "memory.zswap.max": "0"})
    assert held_after_reload(runtime_writes(resources, RUNC)) == {
        "cpu.max": "max 50000",
        "memory.high": "max",
        "memory.zswap.max": "max",
    }


def test_a_daemon_reload_resets_even_without_properties():
    found = runtime_writes(OciResources(unified={"memory.oom.group": "1"}), RUNC)
    assert found.properties == {}
    assert held_after_reload(found) == {"memory.oom.group": "0"}


@pytest.mark.parametrize(
    ("name", "properties", "fate"),
    [
        ("memory.min", {"MemoryMin": 5}, Survival.KEPT),
        ("memory.min", {}, Survival.RESET),
        ("memory.oom.group", {}, Survival.RESET),
        ("memory.oom.group", {"OOMPolicy": "kill"}, Survival.KEPT),
        ("memory.limit_in_bytes", {}, Survival.UNKNOWN),
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
    assert quota_property(quota, period) == number


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
    """An unknown property is not set, and its file is not written."""
    writes = runtime_writes(TYPICAL, RUNC, RuntimeHost(systemd=version))
    newer = {"CPUQuotaPeriodUSec", "AllowedCPUs", "AllowedMemoryNodes"}
    assert newer & writes.properties.keys() == known
    found = held_after_reload(writes, systemd=version)
    assert {name: found[name] for name in reloaded} == reloaded


def test_zswap_is_systemds_from_253_on():
    wish = OciResources(unified={"memory.zswap.max": "4096"})
    old, new = (runtime_writes(wish, CRUN_1_21, RuntimeHost(systemd=version, subgroup="")) for version in (252, 253))
    assert ("MemoryZSwapMax" in old.properties, "MemoryZSwapMax" in new.properties) == (False, True)
    assert held_after_reload(old, systemd=252) == {"memory.zswap.max": "4096"}
    assert survival("memory.zswap.max", {}, 252) is Survival.UNKNOWN


@pytest.mark.parametrize("text", ["", "1k", "\u0661", "-1"])
def test_values_that_are_not_properties(text):
    with pytest.raises(ValueError, match=r"memory\.min"):
        property_number("memory.min", text)
