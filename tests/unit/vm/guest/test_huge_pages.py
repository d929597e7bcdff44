"""Pools of huge pages that the kernel's command line did not reserve are reserved from inside, and only those."""

import subprocess

from memqos.clock import Deadline
from memqos.model.topology import HugePages, Topology, TopologyNode
from memqos.target.fake import FakeTarget
from memqos.vm.guest.view import RESERVE, reserve_huge_pages

MIB = 1 << 20
POOLS = (
    TopologyNode(id=0, memory_bytes=1024 * MIB, cpus=(0,), hugepages=(HugePages(size_bytes=2 * MIB, count=64),)),
    TopologyNode(
        id=1,
        memory_bytes=3072 * MIB,
        cpus=(1,),
        hugepages=(HugePages(size_bytes=2 * MIB, count=32), HugePages(size_bytes=1024 * MIB, count=1)),
    ),
)


def asked(nodes):
    """What is run in the machine for a topology of these NUMA nodes."""
    target, calls = FakeTarget(), []
    target.on(("sh", "-c"), lambda argv, *_: (calls.append(argv), (0, b"", b""))[1])
    topology = Topology(name="pools", cpus=2, numa_nodes=nodes)
    reserve_huge_pages(target, topology, deadline=Deadline.after(5))
    return calls


def test_each_pool_is_asked_for_by_its_file():
    [(_, _, script, _, *words)] = asked(POOLS)
    assert script == RESERVE
    assert words == [
        "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages=64",
        "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages=32",
        "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages=1",
    ]


def test_nothing_is_run_without_pools():
    assert asked((TopologyNode(id=0, memory_bytes=1024 * MIB, cpus=(0, 1)),)) == []


def test_only_a_pool_with_another_count_is_written(tmp_path):
    right, missing = tmp_path / "right", tmp_path / "missing"
    right.write_text("64\n")
    missing.write_text("0\n")
    before = right.stat().st_mtime_ns
    words = [f"{right}=64", f"{missing}=32", f"{tmp_path}/nowhere/pool=1"]
    subprocess.run(["sh", "-c", RESERVE, "sh", *words], check=True, capture_output=True)
    assert (right.stat().st_mtime_ns, missing.read_text()) == (before, "32\n")
