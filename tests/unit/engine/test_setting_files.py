"""The settings of cgroup v2 and their initial values (kernel, cgroup-v2.rst)."""

import pytest

from memqos.engine.cgroup.interface_files import default_text, is_unknown_file, setting_names, shows_default

LISTED = [
    "cgroup.controllers",
    "cgroup.events",
    "cgroup.freeze",
    "cgroup.kill",
    "cgroup.max.depth",
    "cgroup.max.descendants",
    "cgroup.pressure",
    "cgroup.procs",
    "cgroup.stat",
    "cgroup.subtree_control",
    "cgroup.threads",
    "cgroup.type",
    "cpu.idle",
    "cpu.max",
    "cpu.max.burst",
    "cpu.pressure",
    "cpu.stat",
    "cpu.stat.local",
    "cpu.weight",
    "cpu.weight.nice",
    "cpuset.cpus",
    "cpuset.cpus.effective",
    "cpuset.cpus.exclusive",
    "cpuset.cpus.exclusive.effective",
    "cpuset.cpus.partition",
    "cpuset.mems",
    "cpuset.mems.effective",
    "dmem.current",
    "dmem.low",
    "dmem.max",
    "dmem.min",
    "hugetlb.2MB.current",
    "hugetlb.2MB.events",
    "hugetlb.2MB.events.local",
    "hugetlb.2MB.max",
    "hugetlb.2MB.numa_stat",
    "hugetlb.2MB.rsvd.current",
    "hugetlb.2MB.rsvd.max",
    "io.max",
    "io.pressure",
    "io.prio.class",
    "io.stat",
    "io.weight",
    "irq.pressure",
    "memory.current",
    "memory.events",
    "memory.events.local",
    "memory.high",
    "memory.low",
    "memory.max",
    "memory.min",
    "memory.numa_stat",
    "memory.oom.group",
    "memory.peak",
    "memory.pressure",
    "memory.reclaim",
    "memory.stat",
    "memory.swap.current",
    "memory.swap.events",
    "memory.swap.high",
    "memory.swap.max",
    "memory.swap.peak",
    "memory.zswap.current",
    "memory.zswap.max",
    "memory.zswap.writeback",
    "misc.current",
    "misc.events",
    "misc.max",
    "misc.peak",
    "pids.current",
    "pids.events",
    "pids.events.local",
    "pids.max",
    "pids.peak",
    "rdma.current",
    "rdma.max",
]
"""Debian's kernels 6.12 and 7.2."""


def test_settings_are_files_that_neither_count_nor_act():
    assert setting_names(LISTED) == [
        "cgroup.freeze",
        "cgroup.max.depth",
        "cgroup.max.descendants",
        "cgroup.pressure",
        "cgroup.subtree_control",
        "cgroup.type",
        "cpu.idle",
        "cpu.max",
        "cpu.max.burst",
        "cpu.weight",
        "cpuset.cpus",
        "cpuset.cpus.exclusive",
        "cpuset.cpus.partition",
        "cpuset.mems",
        "dmem.low",
        "dmem.max",
        "dmem.min",
        "hugetlb.2MB.max",
        "hugetlb.2MB.rsvd.max",
        "io.max",
        "io.prio.class",
        "io.weight",
        "memory.high",
        "memory.low",
        "memory.max",
        "memory.min",
        "memory.oom.group",
        "memory.swap.high",
        "memory.swap.max",
        "memory.zswap.max",
        "memory.zswap.writeback",
        "misc.max",
        "pids.max",
        "rdma.max",
    ]
    assert not [name for name in LISTED if is_unknown_file(name)]


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("memory.tiers.max", True),
        ("gpu.max", True),
        ("memory.tiers.current", False),
        ("gpu.events.local", False),
        ("cpu.weight.nice", False),
        ("cri-containerd-0123.scope", False),
        ("kubepods-pod1.slice", False),
        ("container", False),
        ("0123456789abcdef", False),
    ],
)
def test_an_unknown_file_may_be_a_setting_unless_it_counts(name, unknown):
    assert is_unknown_file(name) is unknown
    assert setting_names([name]) == ([name] if unknown else [])


@pytest.mark.parametrize(
    ("name", "text", "is_default"),
    [
        ("memory.max", "max\n", True),
        ("memory.min", "0\n", True),
        ("memory.min", "4096\n", False),
        ("memory.zswap.max", "max\n", True),
        ("memory.zswap.max", "0\n", False),
        ("memory.zswap.writeback", "0\n", False),
        ("cgroup.pressure", "1\n", True),
        ("cgroup.pressure", "0\n", False),
        ("cgroup.type", "domain threaded\n", False),
        ("cpu.uclamp.min", "0.00\n", True),
        ("cpuset.mems", "\n", True),
        ("io.weight", "default 100\n", True),
        ("io.weight", "default 100\n8:0 50\n", False),
        ("io.max", "", True),
        ("io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=max\n", False),
        ("hugetlb.64KB.max", "max\n", True),
        ("hugetlb.1GB.rsvd.max", "0\n", False),
        ("rdma.max", "mlx4_0 hca_handle=max hca_object=max\n", True),
        ("rdma.max", "mlx4_0 hca_handle=2 hca_object=max\n", False),
        ("misc.max", "", True),
        ("misc.max", "sev max\nsev_es 3\n", False),
        ("dmem.min", "drm/0000:03:00.0/vram0 0\n", True),
        ("dmem.low", "drm/0000:03:00.0/vram0 4096\n", False),
    ],
)
def test_the_initial_value_of_a_setting(name, text, is_default):
    assert shows_default(name, text) is is_default


def test_an_unknown_file_has_no_default():
    assert default_text("memory.tiers.max") is None
    assert default_text("hugetlb.2MB.max") == "max"
    assert default_text("hugetlb.2MB.current") is None
