import pytest

from memqos.agent.steps import OURS
from memqos.enforce.steps import Action, steps, steps_between
from memqos.model.knob import ABSENT, MAX, UNLIMITED, Bytes, CpuMax, Knob, Number
from memqos.model.node import CgroupDriver
from tests.unit.enforce.plans import plan

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS


def test_the_kubelets_order_is_kept() -> None:
    found = steps(plan(SYSTEMD, pods={"1": {}, "2": {}}, reserved={}))
    assert [(step.action, step.subject, step.unit) for step in found] == [
        (Action.MAKE, "kubepods", "kubepods.slice"),
        (Action.ADOPT, "reserved /kubeletreserved.slice", "kubeletreserved.slice"),
        (Action.MAKE, "QoS class Burstable", "kubepods-burstable.slice"),
        (Action.MAKE, "pod 1", "kubepods-burstable-pod1.slice"),
        (Action.MAKE, "pod 2", "kubepods-burstable-pod2.slice"),
    ]


def test_every_slice_has_a_description_that_identifies_memqos() -> None:
    [found] = [step for step in steps(plan(SYSTEMD, pods={}, reserved={})) if step.subject == "kubepods"]
    [description] = [one.value for one in found.properties if one.name == "Description"]
    assert description == f"{OURS}kubepods"


def test_what_is_absent_is_not_written_and_the_order_of_writing_is_libcontainers() -> None:
    written = {
        Knob.MEMORY_MIN: Bytes(0),
        Knob.MEMORY_HIGH: MAX,
        Knob.MEMORY_MAX: Bytes(12345),
        Knob.MEMORY_LOW: ABSENT,
        Knob.MEMORY_SWAP_MAX: ABSENT,
        Knob.CPU_MAX: CpuMax(None, 100_000),
        Knob.CPU_WEIGHT: Number(79),
        Knob.HUGETLB_2MB_MAX: Bytes(0),
    }
    step = steps(plan(CGROUPFS, node=written))[0]
    assert step.writes == (
        ("memory.max", "12345"),
        ("cpu.weight", "79"),
        ("cpu.max", "max 100000"),
        ("hugetlb.2MB.max", "0"),
        ("memory.min", "0"),
        ("memory.high", "max"),
    )


def test_files_of_cgroup_v1_are_written_in_libcontainers_order() -> None:
    written = {
        Knob.HUGETLB_2MB_LIMIT_IN_BYTES: Bytes(0),
        Knob.CPU_CFS_QUOTA_US: UNLIMITED,
        Knob.CPU_CFS_PERIOD_US: Number(100_000),
        Knob.CPU_SHARES: Number(2),
        Knob.MEMORY_LIMIT_IN_BYTES: Bytes(4096),
        Knob.MEMORY_OOM_CONTROL: ABSENT,
    }
    step, adoption = steps(plan(CGROUPFS, node=written, reserved=written))[:2]
    assert step.writes == (
        ("memory.limit_in_bytes", "4096"),
        ("cpu.shares", "2"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "-1"),
        ("hugetlb.2MB.limit_in_bytes", "0"),
    )
    # memory.oom_control is never written, and its text could not be written back.
    assert "memory.limit_in_bytes" in adoption.keeps
    assert "memory.oom_control" not in adoption.keeps


def test_with_cgroupfs_nothing_uses_systemd() -> None:
    found = steps(plan(CGROUPFS, node={Knob.MEMORY_MAX: Bytes(4096)}, pods={"1": {}}))
    assert {(step.unit, step.properties) for step in found} == {("", ())}


def test_with_systemd_values_are_both_properties_and_files() -> None:
    step = steps(plan(SYSTEMD, node={Knob.MEMORY_MIN: Bytes(4096)}))[0]
    assert step.writes == (("memory.min", "4096"),)
    assert "MemoryMin" in [item.name for item in step.properties]


def test_nothing_is_done_from_a_plan_to_itself() -> None:
    same = plan(SYSTEMD, node={Knob.MEMORY_MIN: Bytes(4096)}, pods={"1": {}})
    assert steps_between(same, same) == ()


def test_from_one_plan_to_the_next() -> None:
    before = plan(SYSTEMD, qos={Knob.MEMORY_MIN: Bytes(4096)}, pods={"1": {}, "2": {Knob.MEMORY_MAX: MAX}})
    after = plan(SYSTEMD, qos={Knob.MEMORY_MIN: Bytes(8192)}, pods={"2": {Knob.MEMORY_MAX: Bytes(4096)}, "3": {}})
    found = steps_between(before, after)
    assert [(step.action, step.subject, step.writes) for step in found] == [
        (Action.CHANGE, "QoS class Burstable", (("memory.min", "8192"),)),
        (Action.CHANGE, "pod 2", (("memory.max", "4096"),)),
        (Action.MAKE, "pod 3", ()),
        (Action.REMOVE, "pod 1", ()),
    ]
    assert [item.name for item in found[0].properties] == ["MemoryMin"]


def test_an_absent_value_stays_in_the_file_as_with_a_kubelet() -> None:
    before = plan(SYSTEMD, node={Knob.MEMORY_MIN: Bytes(4096), Knob.MEMORY_MAX: Bytes(8192)})
    after = plan(SYSTEMD, node={Knob.MEMORY_MIN: ABSENT, Knob.MEMORY_MAX: Bytes(8192)})
    assert [step.writes for step in steps_between(before, after)] == [(("memory.max", "8192"),)]


def test_the_driver_of_a_living_tree_does_not_change() -> None:
    with pytest.raises(ValueError, match="driver"):
        steps_between(plan(SYSTEMD), plan(CGROUPFS))
