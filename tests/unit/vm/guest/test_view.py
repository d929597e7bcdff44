"""The guest's own view against the declared one: a machine that agrees, and each possible difference."""

from dataclasses import replace

import pytest

from memqos.clock import Deadline
from memqos.errors import MachineError
from memqos.model.node import CgroupVersion
from memqos.model.topology import HugePages, Processors, SwapDevice, Topology, TopologyNode
from memqos.target.fake import FakeTarget
from memqos.vm.guest.view import Declared, parse_view, verify_guest, view_differences

MIB = 1 << 20

TOPOLOGY = Topology(
    name="mine",
    cpus=2,
    numa_nodes=(
        TopologyNode(id=0, memory_bytes=1024 * MIB, cpus=(0,), hugepages=(HugePages(size_bytes=2 * MIB, count=8),)),
        TopologyNode(id=1, memory_bytes=1024 * MIB, cpus=(1,)),
        TopologyNode(id=2, memory_bytes=64 * MIB),
    ),
    distances=((10, 20, 40), (20, 10, 40), (40, 40, 10)),
    swap=(SwapDevice(size_bytes=64 * MIB, priority=10), SwapDevice(size_bytes=128 * MIB)),
    zswap=True,
    processors=Processors(packages=2),
)

TEXT = """\
/sys/devices/system/node/node0/cpulist:0
/sys/devices/system/node/node1/cpulist:1
/sys/devices/system/node/node2/cpulist:
/sys/devices/system/node/node0/distance:10 20 40
/sys/devices/system/node/node1/distance:20 10 40
/sys/devices/system/node/node2/distance:40 40 10
/sys/devices/system/node/node0/meminfo:Node 0 MemTotal:         990000 kB
/sys/devices/system/node/node0/meminfo:Node 0 MemFree:          860000 kB
/sys/devices/system/node/node1/meminfo:Node 1 MemTotal:        1030000 kB
/sys/devices/system/node/node2/meminfo:Node 2 MemTotal:          60000 kB
/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages:8
/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages:0
/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages:0
/sys/devices/system/cpu/cpu0/topology/physical_package_id:0
/sys/devices/system/cpu/cpu1/topology/physical_package_id:1
/sys/devices/system/cpu/cpu0/topology/die_id:0
/sys/devices/system/cpu/cpu1/topology/die_id:0
/sys/devices/system/cpu/cpu0/topology/thread_siblings_list:0
/sys/devices/system/cpu/cpu1/topology/thread_siblings_list:1
/proc/swaps:Filename                                Type            Size            Used            Priority
/proc/swaps:/dev/vdb                                partition       65532           0               10
/proc/swaps:/dev/vdc                                partition       131068          0               -2
/proc/mounts:/dev/root / ext4 rw,noatime 0 0
/proc/mounts:cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate,memory_recursiveprot 0 0
/sys/module/zswap/parameters/enabled:Y
pagesize:4096
"""

V1 = """\
/proc/mounts:cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0
/proc/mounts:cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
/proc/mounts:cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
"""


def found(old="", new="", topology=TOPOLOGY, **options):
    assert old in TEXT
    return list(
        view_differences(Declared(topology=topology, **options), parse_view(TEXT.replace(old, new) if old else TEXT))
    )


def test_a_guest_as_declared_has_no_differences():
    assert found() == []


@pytest.mark.parametrize(
    ("page_size", "first", "second"),
    [(16384, 65520, 131056), (65536, 65472, 131008)],
)
def test_a_swap_device_has_a_header_of_one_page_of_the_guest(page_size, first, second):
    text = TEXT.replace("pagesize:4096", f"pagesize:{page_size}")
    text = text.replace(" 65532 ", f" {first} ").replace("131068", str(second))
    assert list(view_differences(Declared(topology=TOPOLOGY), parse_view(text))) == []
    [word] = view_differences(Declared(topology=TOPOLOGY), parse_view(text.replace(f" {first} ", " 65532 ")))
    assert word == f"swap device 0 has 67104768 usable bytes, declared are {first << 10}"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("node1/cpulist:1", "node1/cpulist:0-1", "NUMA node 1 has the CPUs [0, 1], declared are [1]"),
        ("990000", "700000", "NUMA node 0 has 683 MiB, declared are 1024"),
        ("1030000", "1050000", "NUMA node 1 has 1025 MiB, declared are 1024"),
        ("60000 kB", "0 kB", "NUMA node 2 has 0 MiB, declared are 64"),
        ("nr_hugepages:8", "nr_hugepages:7", "NUMA node 0 has huge pages 7 of 2 MiB, declared are 8 of 2 MiB"),
        (
            "hugepages-1048576kB/nr_hugepages:0",
            "hugepages-1048576kB/nr_hugepages:1",
            "NUMA node 0 has huge pages 8 of 2 MiB, 1 of 1024 MiB, declared are 8 of 2 MiB",
        ),
        (
            "distance:20 10 40",
            "distance:20 10 30",
            "NUMA node 1 has the distances [20, 10, 30], declared are [20, 10, 40]",
        ),
        ("65532", "65536", "swap device 0 has 67108864 usable bytes, declared are 67104768"),
        ("0               10\n", "0               11\n", "swap device 0 has the priority 11, declared is 10"),
        ("-2\n", "5\n", "swap device 1 has the priority 5, declared is a negative one"),
        ("enabled:Y", "enabled:N", "zswap is off, declared is on"),
        ("/sys/module/zswap/parameters/enabled:Y\n", "", "zswap is not in its kernel, declared is on"),
        (
            "cpu1/topology/physical_package_id:1",
            "cpu1/topology/physical_package_id:0",
            "it has 1 packages, 1 dies and 1 threads per core, declared are 2, 2 and 1",
        ),
    ],
)
def test_each_difference_is_named_with_both_sides(old, new, words):
    assert found(old, new) == [words]


def test_missing_numa_nodes_and_swap_devices_are_counted():
    assert found(topology=replace(TOPOLOGY, numa_nodes=TOPOLOGY.numa_nodes[:1])) == [
        "it has 3 NUMA nodes, declared are 1"
    ]
    assert found(topology=replace(TOPOLOGY, swap=())) == ["it has 2 swap devices, declared are 0"]


def test_what_is_not_declared_is_linux_own_choice():
    quiet = replace(TOPOLOGY, distances=(), zswap=None, processors=None)
    assert found("enabled:Y", "enabled:N", topology=quiet)[0].startswith("NUMA node 0 has the distances [10, 20, 40]")
    usual = TEXT.replace("10 20 40", "10 20 20").replace("20 10 40", "20 10 20").replace("40 40 10", "20 20 10")
    assert list(view_differences(Declared(topology=quiet), parse_view(usual))) == []


def test_the_hierarchy_is_the_requested_one():
    v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate,memory_recursiveprot"
    assert found(cgroup=CgroupVersion.V1) == ["cgroup v2 has the memory controller, declared is v1"]
    assert found(recursiveprot=False) == ["memory_recursiveprot is on, declared is off"]
    assert found(",memory_recursiveprot") == ["memory_recursiveprot is off, declared is on"]
    assert found(",memory_recursiveprot", recursiveprot=False) == []
    assert found(f"/proc/mounts:{v2} 0 0\n") == ["no cgroup hierarchy has the memory controller, declared is v2"]
    assert found(f"/proc/mounts:{v2} 0 0\n", V1) == ["cgroup v1 has the memory controller, declared is v2"]
    assert found(f"/proc/mounts:{v2} 0 0\n", V1, cgroup=CgroupVersion.V1) == []


def test_a_guest_that_differs_is_no_machine():
    text = TEXT.replace("enabled:Y", "enabled:N").encode()
    target = FakeTarget(commands={("sh",): lambda *_: (0, text, b"")})
    with pytest.raises(MachineError, match="the topology 'mine' and the options: zswap is off") as caught:
        verify_guest(target, Declared(topology=TOPOLOGY), deadline=Deadline.after(5))
    assert caught.value.data["differences"] == ["zswap is off, declared is on"]
