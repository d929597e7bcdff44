import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.errors import CgroupFileError, DeadlineError, TargetError
from memqos.model.knob import MAX, Bytes, Knob
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


def test_a_tree_is_read_by_one_command(tree: CgroupTree, target: FakeTarget) -> None:
    reading = tree.read_tree(POD, ["memory.min", "memory.nonsense"], deadline=soon())
    assert len(target.ran) == 1
    assert set(reading.cgroups) == {POD, APP}
    assert reading.file(POD, "memory.min") == "12288\n"
    assert reading.file(APP, "memory.min") == "0\n"
    assert reading.file(APP, "memory.nonsense") is NoFile.NO_FILE
    assert reading.file(APP, "memory.max") is None
    assert reading.source == "fake://"


def test_a_tree_that_is_not_there_has_no_cgroups(tree: CgroupTree) -> None:
    assert tree.read_tree(CgroupPath.parse("/gone"), ["memory.min"], deadline=soon()).cgroups == {}


def test_cgroups_that_are_asked_for_are_in_the_reading_even_if_gone(tree: CgroupTree) -> None:
    gone = CgroupPath.parse("/gone")
    reading = tree.read_cgroups([POD, gone], ["memory.min"], deadline=soon())
    assert reading.file(POD, "memory.min") == "12288\n"
    assert reading.file(gone, "memory.min") is NoFile.NO_FILE


def test_a_knob_is_written_and_read(tree: CgroupTree) -> None:
    tree.write(APP, "memory.high", "8191", deadline=soon())
    assert tree.read_knob(APP, Knob.MEMORY_HIGH, deadline=soon()) == Bytes(4096)
    assert tree.read_knob(APP, Knob.MEMORY_MAX, deadline=soon()) is MAX
    assert tree.read_knob(POD.child("gone"), Knob.MEMORY_MAX, deadline=soon()) is NoFile.NO_FILE


def test_a_knob_whose_text_is_no_value(tree: CgroupTree, cgroups: FakeCgroups) -> None:
    cgroups.show(APP, "memory.high", "soon\n")
    with pytest.raises(CgroupFileError, match=r"/sys/fs/cgroup/kubepods/pod:1/app/memory\.high: 'soon'"):
        tree.read_knob(APP, Knob.MEMORY_HIGH, deadline=soon())


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


def test_removing_what_is_not_there_is_no_error_and_no_command(tree: CgroupTree, target: FakeTarget) -> None:
    tree.remove_tree(CgroupPath.parse("/gone"), deadline=soon())
    assert target.ran == []


def test_a_cgroup_that_does_not_go_is_named(cgroups: FakeCgroups, target: FakeTarget) -> None:
    cgroups.show(POD, "cgroup.kill", "")
    target.on(("find",), lambda *_: (1, b"", b"find: cannot remove\n"))
    target.on(("sh", "-c"), lambda *_: (0, b"", b""))
    tree = CgroupTree(_Writable(target), FAKE_HIERARCHY)
    with pytest.raises(DeadlineError, match="the cgroup /kubepods/pod:1 is gone"):
        tree.remove_tree(POD, deadline=Deadline.after(0))


def test_a_target_without_xargs_is_an_error() -> None:
    target = FakeTarget(commands={("env",): lambda *_: (127, b"", b"env: 'xargs': No such file or directory\n")})
    with pytest.raises(TargetError, match="xargs"):
        CgroupTree(target, FAKE_HIERARCHY).read_cgroups([POD], ["memory.min"], deadline=soon())


def test_a_target_without_find_is_an_error(cgroups: FakeCgroups) -> None:
    target = FakeTarget(commands={("sh",): lambda *_: (0, b"\0", b"sh: 3: find: not found\n")})
    with pytest.raises(TargetError, match="find: not found"):
        CgroupTree(target, FAKE_HIERARCHY).read_tree(POD, ["memory.min"], deadline=soon())


class _Writable(FakeTarget):
    """A target on which every write succeeds."""

    def __init__(self, other: FakeTarget) -> None:
        super().__init__()
        self._other = other

    def run(self, argv, *, deadline, stdin=b""):  # type: ignore[no-untyped-def]
        return self._other.run(argv, deadline=deadline, stdin=stdin)

    def list(self, path, *, deadline):  # type: ignore[no-untyped-def]
        return self._other.list(path, deadline=deadline)

    def write(self, path, data, *, deadline, mode=None) -> None:  # type: ignore[no-untyped-def]
        pass
