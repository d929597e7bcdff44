import pytest

from memqos.cgroupfs.mount import CgroupMount, find_mount, parse_mounts
from memqos.clock import Deadline
from memqos.errors import CgroupFileError, EnvironmentNotAbleError, TargetError
from memqos.model.path import ROOT, CgroupPath
from memqos.target.fake import FakeTarget

V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n"
V1 = (
    "tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
    "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"
)
MOUNT = CgroupMount(folder="/sys/fs/cgroup", options=frozenset())


def target(mounts: str) -> FakeTarget:
    return FakeTarget(files={"/proc/mounts": mounts.encode()})


def test_the_mount_with_its_options() -> None:
    mount = find_mount(target("proc /proc proc rw 0 0\n" + V2), deadline=Deadline.after(1))
    assert mount.folder == "/sys/fs/cgroup"
    assert {"memory_recursiveprot", "nsdelegate"} <= mount.options


def test_a_folder_with_white_space() -> None:
    mounts, _ = parse_mounts("cgroup2 /mnt/a\\040b cgroup2 rw 0 0\n")
    assert [mount.folder for mount in mounts] == ["/mnt/a b"]


def test_memory_on_cgroup_v1_is_not_able() -> None:
    with pytest.raises(EnvironmentNotAbleError, match="on cgroup v1"):
        find_mount(target(V1), deadline=Deadline.after(1))


def test_no_cgroup_v2_is_not_able() -> None:
    with pytest.raises(EnvironmentNotAbleError, match="no cgroup v2 hierarchy"):
        find_mount(target("proc /proc proc rw 0 0\n"), deadline=Deadline.after(1))


def test_no_proc() -> None:
    with pytest.raises(TargetError, match="/proc is not mounted"):
        find_mount(FakeTarget(), deadline=Deadline.after(1))


def test_a_line_that_is_no_mount_is_named() -> None:
    with pytest.raises(CgroupFileError) as caught:
        parse_mounts(V2 + "nonsense\n")
    assert caught.value.where == "/proc/mounts:2"


def test_paths_below_the_mount() -> None:
    path = CgroupPath.parse("/a.slice/b:c")
    assert MOUNT.file(path, "memory.max") == "/sys/fs/cgroup/a.slice/b:c/memory.max"
    assert MOUNT.file(path) == "/sys/fs/cgroup/a.slice/b:c"
    assert MOUNT.file(ROOT, "cgroup.procs") == "/sys/fs/cgroup/cgroup.procs"
    assert MOUNT.cgroup_of("/sys/fs/cgroup/a.slice/b:c") == path
    assert MOUNT.cgroup_of("/sys/fs/cgroup") == ROOT


def test_a_folder_elsewhere_is_no_cgroup() -> None:
    with pytest.raises(ValueError, match="not below"):
        MOUNT.cgroup_of("/sys/fs/cgroups/a")
