"""The mounts of cgroups in either version; the mount tables are those of Debian 12 and 13."""

import subprocess
import sys
from pathlib import Path

import pytest

from memqos.cgroupfs.hierarchy import CgroupMount, Hierarchy, Legacy, Unified, find_hierarchy, hierarchy_of
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, TargetError
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.target.fake import FakeTarget

POD = CgroupPath.parse("/kubepods/pod1")
PLAIN = "proc /proc proc rw 0 0\n"
V2 = PLAIN + "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n"
V1 = PLAIN + (
    "tmpfs /sys/fs/cgroup tmpfs ro,nosuid,nodev,noexec,size=4096k,nr_inodes=1024,mode=755,inode64 0 0\n"
    "cgroup /sys/fs/cgroup/systemd cgroup rw,nosuid,nodev,noexec,relatime,xattr,name=systemd 0 0\n"
    "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,nodev,noexec,relatime,cpu,cpuacct 0 0\n"
    "cgroup /sys/fs/cgroup/cpuset cgroup rw,nosuid,nodev,noexec,relatime,cpuset 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,nosuid,nodev,noexec,relatime,memory 0 0\n"
    "cgroup /sys/fs/cgroup/pids cgroup rw,nosuid,nodev,noexec,relatime,pids 0 0\n"
)
HYBRID = V1 + "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n"


def found(mounts: str) -> Hierarchy:
    return find_hierarchy(FakeTarget(files={"/proc/mounts": mounts.encode()}), deadline=Deadline.after(1))


def test_one_hierarchy_has_every_file() -> None:
    hierarchy = found(V2)
    assert hierarchy.version is CgroupVersion.V2
    assert hierarchy.mounts == {"": "/sys/fs/cgroup"}
    assert hierarchy.file(POD, "memory.max") == "/sys/fs/cgroup/kubepods/pod1/memory.max"
    assert hierarchy.folders(POD) == (hierarchy.folder(POD),) == ("/sys/fs/cgroup/kubepods/pod1",)
    assert hierarchy.cgroup_of("/sys/fs/cgroup/kubepods/pod1") == POD


@pytest.mark.parametrize("mounts", [V1, HYBRID])
def test_a_file_is_in_the_hierarchy_of_its_controller(mounts: str) -> None:
    hierarchy = found(mounts)
    assert hierarchy.version is CgroupVersion.V1
    files = ("memory.limit_in_bytes", "cpu.shares", "cpuset.mems", "pids.max", "cgroup.procs", "hugetlb.2MB.failcnt")
    assert [hierarchy.file(POD, name) for name in files] == [
        "/sys/fs/cgroup/memory/kubepods/pod1/memory.limit_in_bytes",
        "/sys/fs/cgroup/cpu,cpuacct/kubepods/pod1/cpu.shares",
        "/sys/fs/cgroup/cpuset/kubepods/pod1/cpuset.mems",
        "/sys/fs/cgroup/pids/kubepods/pod1/pids.max",
        "/sys/fs/cgroup/memory/kubepods/pod1/cgroup.procs",
        # hugetlb is not mounted: the file will be missing, and the error says so.
        "/sys/fs/cgroup/memory/kubepods/pod1/hugetlb.2MB.failcnt",
    ]
    assert hierarchy.folder(POD) == "/sys/fs/cgroup/memory/kubepods/pod1"
    assert hierarchy.folders(POD) == tuple(
        f"/sys/fs/cgroup/{name}/kubepods/pod1" for name in ("memory", "systemd", "cpu,cpuacct", "cpuset", "pids")
    )
    assert hierarchy.mounts["cpuacct"] == "/sys/fs/cgroup/cpu,cpuacct"
    assert {hierarchy.cgroup_of(folder) for folder in hierarchy.folders(POD)} == {POD}
    with pytest.raises(ValueError, match="in no hierarchy"):
        hierarchy.cgroup_of("/sys/fs/cgroup/unified/kubepods")


def test_the_cgroup_of_a_process() -> None:
    v1 = "12:pids:/other\n4:cpu,cpuacct:/other\n3:memory:/kubepods/pod1 (deleted)\n1:name=systemd:/x\n0::/y\n"
    assert found(V2).membership("1:name=systemd:/x\n0::/kubepods/pod1\n") == POD
    assert found(V1).membership(v1) == POD
    assert found(V1).membership("0::/kubepods/pod1\n") is None
    assert found(V2).membership("") is None


def test_neither_version_has_the_memory_controller() -> None:
    with pytest.raises(EnvironmentNotAbleError, match="neither cgroup v2 nor the memory controller of cgroup v1"):
        found("cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n")
    assert hierarchy_of([]) is None


def test_no_proc() -> None:
    with pytest.raises(TargetError, match="/proc is not mounted"):
        find_hierarchy(FakeTarget(), deadline=Deadline.after(1))


@pytest.fixture
def sleeper() -> subprocess.Popen[bytes]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def test_what_runs_in_a_cgroup_v1_is_killed_by_signals(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """By this host's own shell, on a folder that looks like the memory controller's hierarchy."""
    legacy = Legacy({"memory": CgroupMount(folder=str(tmp_path), options=frozenset(), version=CgroupVersion.V1)})
    inner = tmp_path / "kubepods" / "pod1" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "cgroup.procs").write_text("0\n")
    (inner / "cgroup.procs").write_text(f"{sleeper.pid}\n")
    done = subprocess.run(legacy.kill_command([POD, CgroupPath.parse("/gone")]), check=False, timeout=30)
    assert (done.returncode, sleeper.wait(timeout=5)) == (0, -9)


def test_a_cgroup_v2_is_killed_by_its_own_file() -> None:
    assert found(V2).kill_command([POD])[-1] == "/sys/fs/cgroup/kubepods/pod1/cgroup.kill"
    assert found(V2).kill_files([POD]) == ("/sys/fs/cgroup/kubepods/pod1/cgroup.kill",)
    assert found(V1).kill_files([POD]) == ()


DELEGATED = CgroupPath.parse("/user.slice/user-1000.slice/user@1000.service")


def test_a_part_of_the_hierarchy_has_paths_of_its_own() -> None:
    whole = Unified(CgroupMount(folder="/sys/fs/cgroup", options=frozenset({"memory_recursiveprot"})))
    part = whole.within(DELEGATED)
    pod = CgroupPath.parse("/kubepods/pod1")
    assert part.file(pod, "memory.max") == (
        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/kubepods/pod1/memory.max"
    )
    assert part.is_recursive
    assert part.above == DELEGATED
    assert part.within(CgroupPath.parse("/a")).above == CgroupPath((*DELEGATED.parts, "a"))


def test_a_process_is_in_a_cgroup_of_the_part_or_elsewhere() -> None:
    part = Unified(CgroupMount(folder="/sys/fs/cgroup", options=frozenset())).within(DELEGATED)
    assert part.membership(f"0::{DELEGATED}/kubepods/pod1\n") == CgroupPath.parse("/kubepods/pod1")
    assert part.membership("0::/kubepods/pod1/c\n") == CgroupPath.parse("/(not delegated)/kubepods/pod1/c")
    assert part.membership(f"0::{DELEGATED}\n") == CgroupPath(("(not delegated)", *DELEGATED.parts))
    assert part.membership("1:name=systemd:/\n") is None


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("hugetlb.2MB.max", True), ("io.max", True), ("memory.min", False), ("cgroup.procs", False)],
)
def test_a_part_lacks_the_files_of_controllers_that_are_not_delegated(name: str, lacks: bool) -> None:
    whole = Unified(CgroupMount(folder="/sys/fs/cgroup", options=frozenset()))
    assert whole.within(DELEGATED, frozenset({"memory", "pids"})).lacks(name) is lacks
    assert not whole.lacks(name)
