import pytest

from memqos.model.knob import ABSENT, MAX, Bytes, CpuMax, Knob, Number, Text, read_back
from memqos.model.path import ROOT, CgroupPath
from memqos.model.pod import Pod
from memqos.model.reading import CgroupReading, NoFile, Reading


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [
        (Knob.MEMORY_MIN, "0\n", Bytes(0)),
        (Knob.MEMORY_HIGH, "max\n", MAX),
        (Knob.MEMORY_MAX, "104857600", Bytes(104857600)),
        (Knob.MEMORY_OOM_GROUP, "1\n", Number(1)),
        (Knob.CPU_WEIGHT, "100", Number(100)),
        (Knob.CPU_MAX, "max 100000", CpuMax(None, 100000)),
        (Knob.CPU_MAX, "5000 100000\n", CpuMax(5000, 100000)),
        (Knob.CPUSET_MEMS, "0-1\n", Text("0-1")),
        (Knob.CPUSET_MEMS, "\n", Text("")),
        (Knob.HUGETLB_2MB_MAX, "4611686018427387904", Bytes(1 << 62)),
    ],
)
def test_parse(knob, text, value):
    assert knob.parse(text) == value
    assert str(value) == text.strip()


@pytest.mark.parametrize(
    ("knob", "text"),
    [(Knob.MEMORY_MAX, ""), (Knob.MEMORY_MAX, "1Gi"), (Knob.MEMORY_MAX, "-1"), (Knob.MEMORY_MAX, "1 2"),
     (Knob.CPU_MAX, "max"), (Knob.CPU_MAX, "1 2 3"), (Knob.CPU_WEIGHT, "idle"), (Knob.MEMORY_MIN, "9" * 21)],
)  # fmt: skip
def test_text_that_no_kernel_prints(knob, text):
    with pytest.raises(ValueError, match=r"is not|neither"):
        knob.parse(text)


def test_absent_zero_and_max_are_three_things():
    assert len({ABSENT, Bytes(0), MAX}) == 3
    assert [str(value) for value in (ABSENT, Bytes(0), MAX)] == ["absent", "0", "max"]


def test_defaults_are_what_a_new_cgroup_shows():
    assert {knob.value: str(knob.kernel_default) for knob in Knob} == {
        "memory.min": "0", "memory.low": "0", "memory.high": "max", "memory.max": "max", "memory.swap.max": "max",
        "memory.oom.group": "0", "cpu.weight": "100", "cpu.max": "max 100000", "cpuset.cpus": "", "cpuset.mems": "",
        "pids.max": "max", "hugetlb.2MB.max": "max", "hugetlb.1GB.max": "max",
    }  # fmt: skip


def test_read_back_leaves_everything_but_pages_alone():
    assert read_back(Knob.MEMORY_HIGH, Bytes(12345), 4096) == Bytes(12288)
    assert read_back(Knob.MEMORY_HIGH, MAX, 4096) is MAX
    assert read_back(Knob.HUGETLB_2MB_MAX, Bytes(12345), 4096) == Bytes(12345)
    assert read_back(Knob.CPU_WEIGHT, Number(7), 4096) == Number(7)


def test_paths():
    path = CgroupPath.parse("/a/b//c/")
    assert (str(path), path.name, str(path.parent)) == ("/a/b/c", "c", "/a/b")
    assert [str(one) for one in path.ancestors] == ["/a/b", "/a"]
    assert path.below(CgroupPath.parse("a"))
    assert path.below(ROOT)
    assert not path.below(path)
    assert not path.below(CgroupPath.parse("/a/x"))
    assert path.child("d") == CgroupPath(("a", "b", "c", "d"))
    assert (str(ROOT), ROOT.name, ROOT.ancestors) == ("/", "", ())
    with pytest.raises(ValueError, match="no parent"):
        _ = ROOT.parent


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_names_that_no_cgroup_has(name):
    with pytest.raises(ValueError, match="cannot be the name"):
        CgroupPath((name,))


def test_files_that_are_missing_or_were_not_asked_for():
    path = CgroupPath(("a",))
    reading = Reading(
        source="x", at=0.0, cgroups={path: CgroupReading(path=path, files={"memory.max": "max", "b": NoFile.NO_FILE})}
    )
    assert reading.file(path, "memory.max") == "max"
    assert reading.file(path, "b") is NoFile.NO_FILE
    assert reading.file(path, "memory.min") is None
    assert reading.file(ROOT, "memory.max") is None


def test_containers_of_a_pod_without_any():
    assert Pod(name="p", uid="u").all_containers == ()


@pytest.mark.parametrize(("written", "shown"), [
    ("0", "0"), ("0,1", "0-1"), ("1,3", "1,3"), ("0,1,2,5", "0-2,5"), ("5,0-2", "0-2,5"), ("2-2", "2"), ("", ""),
    ("none", "none"), ("0-99999999999", "0-99999999999"),
])  # fmt: skip
def test_lists_read_back_as_ranges(written, shown):
    assert read_back(Knob.CPUSET_MEMS, Text(written), 4096) == Text(shown)
