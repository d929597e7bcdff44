import pytest

from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, TargetError
from memqos.model.node import CgroupVersion, NodeFacts, NumaNode
from memqos.probe.facts import parse_facts, target_facts
from memqos.target.fake import FakeTarget

FILES = {
    "/proc/meminfo": "MemTotal:        2023428 kB\nMemFree:         1500000 kB\nSwapTotal:        524284 kB\n",
    "/proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate,memory_recursiveprot 0 0\n",
    "/proc/sys/kernel/osrelease": "6.12.107+deb13-cloud-amd64\n",
    "/proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "/sys/devices/system/cpu/online": "0-1,3\n",
    "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
    "/sys/fs/cgroup/system.slice/memory.swap.max": "max\n",
    "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:         992880 kB\nNode 0 MemFree:          10 kB\n",
    "/sys/devices/system/node/node0/cpulist": "0-1\n",
    "/sys/devices/system/node/node0/distance": "10 20 40\n",
    "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "8\n",
    "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:        1030548 kB\n",
    "/sys/devices/system/node/node1/cpulist": "3\n",
    "/sys/devices/system/node/node1/distance": "20 10 30\n",
    "/sys/devices/system/node/node10/meminfo": "Node 10 MemTotal:              0 kB\n",
    "/sys/devices/system/node/node10/cpulist": "\n",
    "/sys/devices/system/node/node10/distance": "40 30 10\n",
    "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "8\n",
}
NOT_THERE = b"grep: /sys/fs/cgroup/unified/cgroup.controllers: No such file or directory\n"


def printed(files: dict[str, str], page_size: str = "4096") -> bytes:
    """The command's output on a machine with these files."""
    listing = "".join(f"f {path}\0" for path in files)
    contents = "".join(f"{path}\0{line}\n" for path, text in files.items() for line in text.splitlines())
    return f"{page_size}\n{listing}\0{contents}".encode()


def without(*paths: str) -> dict[str, str]:
    return {path: text for path, text in FILES.items() if path not in paths}


def test_a_machine_with_numa_nodes_of_every_kind() -> None:
    facts = parse_facts(printed(FILES), NOT_THERE, origin="vm://x")
    assert facts.node == NodeFacts(
        memory=2071990272,
        swap=536866816,
        cpus=3,
        page_size=4096,
        numa_nodes=(
            NumaNode(id=0, memory=1016709120, cpus=(0, 1), distances=(10, 20, 40), hugepages={2097152: 8}),
            NumaNode(id=1, memory=1055281152, cpus=(3,), distances=(20, 10, 30)),
            NumaNode(id=10, memory=0, cpus=(), distances=(40, 30, 10)),
        ),
        hugepage_sizes=(2097152, 1073741824),
        cgroup_version=CgroupVersion.V2,
        swap_controller=True,
        kernel="6.12.107+deb13-cloud-amd64",
    )
    assert facts.node.origin == "vm://x"
    assert facts.pressure
    assert facts.controllers == {"cpuset", "cpu", "io", "memory", "hugetlb", "pids"}
    assert facts.hierarchy.mounts == {"": "/sys/fs/cgroup"}


def test_a_kernel_without_numa_swap_controller_and_pressure() -> None:
    bare = {path: text for path, text in FILES.items() if "/node/" not in path and "/hugepages/" not in path}
    del bare["/proc/pressure/memory"], bare["/sys/fs/cgroup/system.slice/memory.swap.max"]
    facts = parse_facts(printed(bare), b"", origin="vm://x")
    assert (facts.node.numa_nodes, facts.node.hugepage_sizes, facts.node.swap_controller) == ((), (), False)
    assert not facts.pressure


@pytest.mark.parametrize("files", [("max",), ("max", "writeback")])
def test_zswap_files_of_cgroups_are_known(files: tuple[str, ...]) -> None:
    paths = [f"/sys/fs/cgroup/{cgroup}/memory.zswap.{file}" for cgroup in ("a.slice", "b.slice") for file in files]
    facts = parse_facts(printed({**FILES, **dict.fromkeys(paths, "max\n")}), b"", origin="vm://x")
    assert facts.zswap == {f"memory.zswap.{file}" for file in files}
    assert parse_facts(printed(FILES), b"", origin="vm://x").zswap == frozenset()


@pytest.mark.parametrize(("says", "is_on"), [({"enabled": "Y\n"}, True), ({"enabled": "N\n"}, False), ({}, False)])
def test_whether_zswap_is_on_is_known(says: dict[str, str], is_on: bool) -> None:
    files = {f"/sys/module/zswap/parameters/{name}": text for name, text in says.items()}
    assert parse_facts(printed({**FILES, **files}), b"", origin="vm://x").zswap_is_on is is_on


def test_disabled_pressure_is_off() -> None:
    errors = b"grep: /proc/pressure/memory: Operation not supported\n"
    listed = printed(FILES).replace(b"/proc/pressure/memory\0some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", b"")
    assert not parse_facts(listed, errors, origin="vm://x").pressure


def test_large_pages() -> None:
    assert parse_facts(printed(FILES, "65536"), b"", origin="vm://x").node.page_size == 65536


@pytest.mark.parametrize(
    "path", ["/proc/meminfo", "/proc/mounts", "/proc/sys/kernel/osrelease", "/sys/devices/system/cpu/online"]
)
def test_a_missing_required_file_is_named(path: str) -> None:
    with pytest.raises(TargetError, match=path):
        parse_facts(printed(without(path)), b"", origin="vm://x")


def test_what_is_not_understood_is_named() -> None:
    with pytest.raises(TargetError, match="MemTotal"):
        parse_facts(printed(FILES | {"/proc/meminfo": "MemTotal: lots\n"}), b"", origin="vm://x")
    with pytest.raises(TargetError, match="'many' should be a number"):
        parse_facts(printed(FILES | {"/sys/devices/system/cpu/online": "0-many\n"}), b"", origin="vm://x")
    with pytest.raises(TargetError, match="'PAGESIZE' should be a number"):
        parse_facts(printed(FILES, "PAGESIZE"), b"", origin="vm://x")


LEGACY = without("/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/system.slice/memory.swap.max") | {
    "/proc/mounts": "cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n",
    "/proc/sys/vm/swappiness": "10\n",
}


def test_a_cgroup_v1_machine() -> None:
    facts = parse_facts(printed(LEGACY), b"", origin="vm://x")
    assert (facts.node.cgroup_version, facts.node.swappiness) == (CgroupVersion.V1, 10)
    assert facts.controllers == {"memory", "cpu", "cpuacct"}
    # The machine has PSI; its cgroups have not.
    assert not facts.pressure
    assert not facts.node.swap_controller
    counting = LEGACY | {"/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "9223372036854771712\n"}
    assert parse_facts(printed(counting), b"", origin="vm://x").node.swap_controller


def test_a_machine_without_the_memory_controller_is_not_able() -> None:
    with pytest.raises(EnvironmentNotAbleError, match="memory controller"):
        parse_facts(printed(FILES | {"/proc/mounts": "tmpfs /tmp tmpfs rw 0 0\n"}), b"", origin="vm://x")


def test_one_command_is_enough() -> None:
    target = FakeTarget(commands={("sh", "-c"): lambda *_: (0, printed(FILES), NOT_THERE)})
    target_facts(target, deadline=Deadline.after(1))
    assert len(target.ran) == 1
