import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.errors import TargetError
from memqos.model.path import CgroupPath
from memqos.model.reading import NoFile
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY, FakeCgroups
from memqos.target.fake import FakeTarget

POD = CgroupPath.parse("/kubepods/pod:1")
APP = POD.child("app")
MOUNTS = {"/proc/mounts": b"cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"}


@pytest.fixture
def cgroups() -> FakeCgroups:
    cgroups = FakeCgroups()
    cgroups.make(APP)
    cgroups.put(POD, "memory.min", "12345")
    return cgroups


@pytest.fixture
def target(cgroups: FakeCgroups) -> FakeTarget:
    return FakeTarget(files=MOUNTS, mounts={"/sys/fs/cgroup": cgroups}, commands=cgroups.commands())


@pytest.fixture
def tree(target: FakeTarget) -> CgroupTree:
    return CgroupTree.of(target, deadline=soon())


def soon() -> Deadline:
    return Deadline.after(5)


def test_cgroups_are_read_by_one_command(tree: CgroupTree, target: FakeTarget) -> None:
    reading = tree.read_cgroups([POD, APP], ["memory.min", "memory.nonsense"], deadline=soon())
    assert len(target.ran) == 1
    assert set(reading.cgroups) == {POD, APP}
    assert reading.file(POD, "memory.min") == "12288\n"
    assert reading.file(APP, "memory.min") == "0\n"
    assert reading.file(APP, "memory.nonsense") is NoFile.NO_FILE
    assert reading.file(APP, "memory.max") is None
    assert reading.source == "fake://"


def test_what_is_named_twice_is_read_once(tree: CgroupTree) -> None:
    reading = tree.read_cgroups([POD, POD], ["memory.min", "memory.min"], deadline=soon())
    assert reading.cgroups[POD].files == {"memory.min": "12288\n"}


def test_requested_cgroups_are_in_the_reading_even_if_missing(tree: CgroupTree) -> None:
    gone = CgroupPath.parse("/gone")
    reading = tree.read_cgroups([POD, gone], ["memory.min"], deadline=soon())
    assert reading.file(POD, "memory.min") == "12288\n"
    assert reading.file(gone, "memory.min") is NoFile.NO_FILE


def test_a_knob_is_written_and_read(tree: CgroupTree) -> None:
    tree.write(APP, "memory.high", "8191", deadline=soon())
    assert tree.read_text(APP, "memory.high", deadline=soon()) == "4096\n"
    assert tree.read_text(POD.child("gone"), "memory.max", deadline=soon()) is NoFile.NO_FILE


def test_a_value_that_the_kernel_refuses(tree: CgroupTree) -> None:
    with pytest.raises(TargetError, match="Invalid argument"):
        tree.write(APP, "memory.high", "-1", deadline=soon())


def test_the_cgroup_of_a_process(cgroups: FakeCgroups) -> None:
    files = MOUNTS | {
        "/proc/7/cgroup": b"1:name=systemd:/x\n0::/kubepods/pod:1/app\n",
        "/proc/8/cgroup": b"0::/ (deleted)\n",
    }
    tree = CgroupTree(FakeTarget(files=files), FAKE_HIERARCHY)
    assert tree.cgroup_of(7, deadline=soon()) == APP
    with pytest.raises(TargetError, match="process 9"):
        tree.cgroup_of(9, deadline=soon())


def test_the_processes_of_a_cgroup(tree: CgroupTree, cgroups: FakeCgroups) -> None:
    cgroups.show(APP, "cgroup.procs", "7\n11\n")
    assert tree.processes(APP, deadline=soon()) == (7, 11)
    assert tree.processes(POD.child("gone"), deadline=soon()) == ()


def test_a_target_without_xargs_is_an_error() -> None:
    target = FakeTarget(commands={("env",): lambda *_: (127, b"", b"env: 'xargs': No such file or directory\n")})
    with pytest.raises(TargetError, match="xargs"):
        CgroupTree(target, FAKE_HIERARCHY).read_cgroups([POD], ["memory.min"], deadline=soon())
