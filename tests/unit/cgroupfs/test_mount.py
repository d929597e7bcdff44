import pytest

from memqos.cgroupfs.hierarchy import CgroupMount, parse_mounts
from memqos.errors import CgroupFileError
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT, CgroupPath

V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n"
MOUNT = CgroupMount(folder="/sys/fs/cgroup", options=frozenset())


def test_mounts_of_both_versions_with_their_options() -> None:
    [memory, unified] = parse_mounts(
        "proc /proc proc rw 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime,nsdelegate 0 0\n"
    )
    assert (memory.folder, memory.version) == ("/sys/fs/cgroup/memory", CgroupVersion.V1)
    assert (unified.folder, unified.version) == ("/sys/fs/cgroup/unified", CgroupVersion.V2)
    assert "memory" in memory.options
    assert "nsdelegate" in unified.options


def test_a_folder_with_white_space() -> None:
    assert [mount.folder for mount in parse_mounts("cgroup2 /mnt/a\\040b cgroup2 rw 0 0\n")] == ["/mnt/a b"]


def test_a_malformed_mount_line_is_named() -> None:
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
    assert not MOUNT.holds("/sys/fs/cgroups/a")
    with pytest.raises(ValueError, match="not below"):
        MOUNT.cgroup_of("/sys/fs/cgroups/a")
