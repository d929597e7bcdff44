import pytest

from memqos.enforce.steps import Property, kept_properties, slice_properties, unit_of, value_properties
from memqos.model.knob import MAX, UNLIMITED, Bytes, CpuMax, Knob, KnobValue, Number, Text
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath

INFINITY = 18446744073709551615


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        (Knob.MEMORY_MIN, Bytes(0), [("MemoryMin", "t", 0)]),
        (Knob.MEMORY_LOW, Bytes(4096), [("MemoryLow", "t", 4096)]),
        (Knob.MEMORY_HIGH, MAX, [("MemoryHigh", "t", INFINITY)]),
        (Knob.MEMORY_MAX, Bytes(1904234496), [("MemoryMax", "t", 1904234496)]),
        (Knob.MEMORY_SWAP_MAX, Bytes(0), [("MemorySwapMax", "t", 0)]),
        (Knob.CPU_WEIGHT, Number(79), [("CPUWeight", "t", 79)]),
        (Knob.PIDS_MAX, MAX, [("TasksMax", "t", INFINITY)]),
        (Knob.MEMORY_OOM_GROUP, Number(1), []),
        (Knob.HUGETLB_2MB_MAX, Bytes(0), []),
        (
            Knob.CPU_MAX,
            CpuMax(5000, 100_000),
            [("CPUQuotaPeriodUSec", "t", 100000), ("CPUQuotaPerSecUSec", "t", 50000)],
        ),
        (
            Knob.CPU_MAX,
            CpuMax(1500, 100_000),
            [("CPUQuotaPeriodUSec", "t", 100000), ("CPUQuotaPerSecUSec", "t", 20000)],
        ),
        (
            Knob.CPU_MAX,
            CpuMax(None, 100_000),
            [("CPUQuotaPeriodUSec", "t", 100000), ("CPUQuotaPerSecUSec", "t", INFINITY)],
        ),
        (Knob.MEMORY_LIMIT_IN_BYTES, Bytes(4096), [("MemoryLimit", "t", 4096)]),
        (Knob.MEMORY_LIMIT_IN_BYTES, UNLIMITED, [("MemoryLimit", "t", INFINITY)]),
        (Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, Bytes(4096), []),
        (Knob.CPU_SHARES, Number(512), [("CPUShares", "t", 512)]),
        (Knob.CPU_CFS_PERIOD_US, Number(50_000), []),
        (
            Knob.CPU_CFS_QUOTA_US,
            Number(5000),
            [("CPUQuotaPeriodUSec", "t", 100000), ("CPUQuotaPerSecUSec", "t", 50000)],
        ),
        (Knob.CPUSET_MEMS, Text("0-1,9"), [("AllowedMemoryNodes", "ay", (3, 2))]),
        (Knob.CPUSET_CPUS, Text("3"), [("AllowedCPUs", "ay", (8,))]),
        (Knob.CPUSET_CPUS, Text(""), []),
    ],
)
def test_the_property_of_a_knob(
    knob: Knob, value: KnobValue, expected: list[tuple[str, str, int | tuple[int, ...]]]
) -> None:
    assert value_properties({knob: value}) == tuple(Property(*item) for item in expected)


def test_a_quota_of_cgroup_v1_has_its_period_in_another_file() -> None:
    written = {Knob.CPU_CFS_PERIOD_US: Number(50_000), Knob.CPU_CFS_QUOTA_US: UNLIMITED}
    assert value_properties(written) == (
        Property("CPUQuotaPeriodUSec", "t", 50000),
        Property("CPUQuotaPerSecUSec", "t", INFINITY),
    )


def test_exactly_the_settable_properties_of_a_slice_are_saved() -> None:
    assert set(kept_properties(CgroupVersion.V2)) == {
        "MemoryMin", "MemoryLow", "MemoryHigh", "MemoryMax", "MemorySwapMax", "CPUWeight", "TasksMax", "AllowedCPUs",
        "AllowedMemoryNodes", "CPUQuotaPeriodUSec", "CPUQuotaPerSecUSec",
    }  # fmt: skip
    assert set(kept_properties(CgroupVersion.V1)) == {
        "MemoryLimit", "CPUShares", "TasksMax", "AllowedCPUs", "AllowedMemoryNodes", "CPUQuotaPeriodUSec",
        "CPUQuotaPerSecUSec",
    }  # fmt: skip


def test_io_is_accounted_under_its_old_name_on_cgroup_v1() -> None:
    names = [item.name for item in slice_properties(CgroupPath.parse("/kubepods.slice"), "d", CgroupVersion.V1)]
    assert "BlockIOAccounting" in names
    assert "IOAccounting" not in names


def test_a_slice_wants_its_parent() -> None:
    path = CgroupPath.parse("/kubepods.slice/kubepods-burstable.slice")
    assert Property("Wants", "as", ("kubepods.slice",)) in slice_properties(path, "d", CgroupVersion.V2)
    outermost = slice_properties(CgroupPath.parse("/kubepods.slice"), "d", CgroupVersion.V2)
    assert [item.name for item in outermost] == [
        "Description",
        "MemoryAccounting",
        "CPUAccounting",
        "IOAccounting",
        "TasksAccounting",
        "DefaultDependencies",
    ]


def test_what_is_no_slice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'/kubepods' is not a slice"):
        unit_of(CgroupPath.parse("/kubepods"))
