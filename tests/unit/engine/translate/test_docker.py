"""CRI to Docker's HostConfig."""

import pytest

from memqos.engine.translate.docker import host_config
from memqos.model.cri import ContainerResources

MIB = 1 << 20


def unsaid(found):
    return [(left.knob, left.value) for left in found.unsayable]


def test_a_burstable_container():
    found = host_config(
        ContainerResources(
            cpu_period=100_000,
            cpu_quota=50_000,
            cpu_shares=256,
            cpuset_cpus="0-1",
            cpuset_mems="0",
            memory_limit_in_bytes=256 * MIB,
            oom_score_adj=984,
            hugepage_limits=(("2MB", 0),),
            unified={
                "memory.high": "248303616",
                "memory.min": "134217728",
                "memory.oom.group": "1",
                "memory.swap.max": "67108864",
            },
        )
    )
    assert found.host_config == {
        "Memory": 268435456,
        "MemorySwap": 335544320,
        "CpuShares": 256,
        "CpuQuota": 50000,
        "CpuPeriod": 100000,
        "CpusetCpus": "0-1",
        "CpusetMems": "0",
        "OomScoreAdj": 984,
    }
    assert unsaid(found) == [
        ("hugetlb.2MB.max", "0"),
        ("memory.high", "248303616"),
        ("memory.min", "134217728"),
        ("memory.oom.group", "1"),
    ]
    assert found.unsayable[1].why == "HostConfig has no field for memory.high."
    assert found.annotations == {
        "org.systemd.property.MemoryHigh": "uint64 248303616",
        "org.systemd.property.MemoryMin": "uint64 134217728",
    }


def test_an_empty_request_has_no_fields():
    assert host_config(ContainerResources()).host_config == {}
    defaults = {"memory.high": "max", "memory.min": "0", "memory.oom.group": "0", "pids.max": "max", "memory.low": "0"}
    found = host_config(ContainerResources(unified=defaults))
    assert (found.host_config, found.unsayable, found.annotations) == ({}, (), {})


@pytest.mark.parametrize(
    ("fields", "more", "said", "left"),
    [
        # Docker would allow 256 MiB of swap if MemorySwap were left out.
        ({}, {}, 256 * MIB, []),
        ({}, {"swap_follows_memory": False}, -1, []),
        ({}, {"swap_controller": False}, None, []),
        ({"memory_swap_limit_in_bytes": 300 * MIB}, {}, 300 * MIB, []),
        ({"memory_swap_limit_in_bytes": -1}, {}, -1, []),
        ({"unified": {"memory.swap.max": "0"}}, {}, 256 * MIB, []),
        ({"unified": {"memory.swap.max": "max"}}, {}, -1, []),
        ({"memory_limit_in_bytes": 0, "unified": {"memory.swap.max": "0"}}, {}, None, [("memory.swap.max", "0")]),
        ({"memory_swap_limit_in_bytes": 256 * MIB}, {}, 256 * MIB, []),
        # Docker refuses it.
        ({"memory_swap_limit_in_bytes": 32 * MIB}, {}, 32 * MIB, []),
        ({"memory_swap_limit_in_bytes": 256 * MIB - 1}, {}, 256 * MIB - 1, []),
        ({"memory_limit_in_bytes": -1}, {}, None, []),
        ({"memory_limit_in_bytes": 0, "memory_swap_limit_in_bytes": 1}, {}, None, [("memory.swap.max", "1")]),
        ({"memory_limit_in_bytes": 0, "memory_swap_limit_in_bytes": 5}, {}, None, [("memory.swap.max", "5")]),
        ({"memory_limit_in_bytes": 0}, {}, None, []),
    ],
)
def test_swap(fields, more, said, left):
    sent = ContainerResources(**{"memory_limit_in_bytes": 256 * MIB, **fields})
    found = host_config(sent, **more)
    assert found.host_config.get("MemorySwap") == said
    assert unsaid(found) == left


@pytest.mark.parametrize(
    ("limit", "unified", "memory", "reservation", "left"),
    [
        (6 * MIB, {}, 6 * MIB, None, []),
        (6 * MIB - 1, {}, None, None, [("memory.max", "6291455"), ("memory.swap.max", "0")]),
        (64 * MIB, {"memory.max": "32M"}, 32 * MIB, None, []),
        (64 * MIB, {"memory.max": "max", "memory.swap.max": "max"}, None, None, []),
        (0, {"memory.max": "0"}, None, None, [("memory.max", "0")]),
        (0, {"memory.low": "16777216"}, None, 16 * MIB, []),
        (64 * MIB, {"memory.low": "67108864"}, 64 * MIB, 64 * MIB, []),
        (64 * MIB, {"memory.low": "67108865"}, 64 * MIB, None, [("memory.low", "67108865")]),
        (64 * MIB, {"memory.low": "6291455"}, 64 * MIB, None, [("memory.low", "6291455")]),
        (0, {"memory.low": "max"}, None, None, [("memory.low", "max")]),
    ],
)
def test_limit_and_reservation(limit, unified, memory, reservation, left):
    found = host_config(ContainerResources(memory_limit_in_bytes=limit, unified=unified))
    assert found.host_config.get("Memory") == memory
    assert found.host_config.get("MemoryReservation") == reservation
    assert unsaid(found) == left


@pytest.mark.parametrize(
    ("fields", "said", "left"),
    [
        ({"cpu_quota": -1, "cpu_period": 100_000}, {"CpuQuota": -1, "CpuPeriod": 100000}, []),
        ({"cpu_quota": 1000, "cpu_period": 1000}, {"CpuQuota": 1000, "CpuPeriod": 1000}, []),
        ({"cpu_quota": 1000, "cpu_period": 1_000_000}, {"CpuQuota": 1000, "CpuPeriod": 1000000}, []),
        ({"cpu_quota": 1, "cpu_period": 1000}, {}, [("cpu.max", "1 1000")]),
        ({"cpu_period": 999}, {}, [("cpu.max", "max 999")]),
        ({"cpu_quota": 999, "cpu_period": 100_000}, {}, [("cpu.max", "999 100000")]),
        ({"cpu_quota": 999}, {}, [("cpu.max", "999 100000")]),
        ({"cpu_quota": -1, "cpu_period": 999}, {}, [("cpu.max", "max 999")]),
        ({"cpu_quota": 5000, "cpu_period": 1_000_001}, {}, [("cpu.max", "5000 1000001")]),
        ({"unified": {"cpu.max": "20000 50000"}}, {"CpuQuota": 20000, "CpuPeriod": 50000}, []),
        ({"unified": {"cpu.max": "max"}}, {"CpuQuota": -1, "CpuPeriod": 100000}, []),
        ({"cpuset_mems": "0", "unified": {"cpuset.mems": "1"}}, {"CpusetMems": "1"}, []),
        ({"unified": {"pids.max": "100"}}, {"PidsLimit": 100}, []),
        ({"unified": {"cpu.weight": "50"}}, {}, [("cpu.weight", "50")]),
        ({"unified": {"memory.swap.high": "1"}}, {}, [("memory.swap.high", "1")]),
    ],
)
def test_cpu_and_other_entries(fields, said, left):
    found = host_config(ContainerResources(**fields))
    assert found.host_config == said
    assert unsaid(found) == left


def test_an_entry_without_an_amount_is_an_error():
    with pytest.raises(ValueError, match="plenty"):
        host_config(ContainerResources(unified={"memory.low": "plenty"}))


def test_all_memory_protected():
    found = host_config(ContainerResources(unified={"memory.min": "max"}))
    assert found.annotations == {"org.systemd.property.MemoryMin": "uint64 18446744073709551615"}
