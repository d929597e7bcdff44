import re

import pytest

from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, MAX, UNLIMITED, Bytes, CpuMax, Knob, Number, Text, knobs_of
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT, CgroupPath
from memqos.model.pod import Pod
from memqos.model.reading import CgroupReading, NoFile, Reading, Unreadable, read_back


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
        (Knob.MEMORY_MAX, "18446744073709551615", Bytes(2**64 - 1)),
        (Knob.CPUSET_CPUS, "0,2-3,5,7-8191\n", Text("0,2-3,5,7-8191")),
        (Knob.CPUSET_CPUS, "0,1", Text("0,1")),
    ],
)
def test_parse(knob, text, value):
    assert knob.parse(text) == value
    assert str(value) == text.strip()


@pytest.mark.parametrize(
    ("knob", "text"),
    [(Knob.MEMORY_MAX, ""), (Knob.MEMORY_MAX, "1Gi"), (Knob.MEMORY_MAX, "-1"), (Knob.MEMORY_MAX, "1 2"),
     (Knob.CPU_MAX, "max"), (Knob.CPU_MAX, "1 2 3"), (Knob.CPU_WEIGHT, "idle"), (Knob.MEMORY_MIN, "9" * 21),
     (Knob.MEMORY_MAX, "18446744073709551616"), (Knob.MEMORY_MAX, "1\u06612"), (Knob.MEMORY_MAX, "12\x1c"),
     (Knob.MEMORY_MAX, "\u00a012"), (Knob.MEMORY_MAX, "12\r\n"), (Knob.MEMORY_MAX, "12\t"), (Knob.MEMORY_MAX, "12\0"),
     (Knob.CPU_MAX, "5000 100000\x0b"), (Knob.CPU_MAX, "9" * 21 + " 1"), (Knob.CPU_MAX, "max\u2003100000"),
     (Knob.CPUSET_CPUS, "0-\u0661"), (Knob.CPUSET_MEMS, "0\x00"), (Knob.CPUSET_MEMS, "0-1\x07"),
     (Knob.CPUSET_CPUS, "0-"), (Knob.CPUSET_CPUS, "-1"), (Knob.CPUSET_CPUS, "3-1"), (Knob.CPUSET_CPUS, "0-3,2"),
     (Knob.CPUSET_CPUS, "1-1"), (Knob.CPUSET_CPUS, "0,"), (Knob.CPUSET_CPUS, ",0"), (Knob.CPUSET_CPUS, "5,2"),
     (Knob.CPUSET_CPUS, "0 1"), (Knob.CPUSET_CPUS, "all"), (Knob.CPUSET_MEMS, "0x3"), (Knob.CPUSET_MEMS, "9999999")],
)  # fmt: skip
def test_text_that_the_kernel_never_prints(knob, text):
    with pytest.raises(ValueError, match=r"is not|neither|is empty"):
        knob.parse(text)


def test_absent_zero_and_max_differ():
    assert len({ABSENT, Bytes(0), MAX}) == 3
    assert [str(value) for value in (ABSENT, Bytes(0), MAX)] == ["absent", "0", "max"]


def test_defaults_are_the_initial_values():
    assert {knob.value: str(knob.kernel_default) for knob in Knob} == {
        "memory.min": "0", "memory.low": "0", "memory.high": "max", "memory.max": "max", "memory.swap.max": "max",
        "memory.oom.group": "0", "cpu.weight": "100", "cpu.max": "max 100000", "cpuset.cpus": "", "cpuset.mems": "",
        "pids.max": "max", "hugetlb.2MB.max": "max", "hugetlb.1GB.max": "max", "memory.limit_in_bytes": "-1",
        "memory.memsw.limit_in_bytes": "-1", "memory.soft_limit_in_bytes": "-1", "memory.swappiness": "60",
        "memory.oom_control": "0", "cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000",
        "hugetlb.2MB.limit_in_bytes": "-1", "hugetlb.1GB.limit_in_bytes": "-1",
    }  # fmt: skip


# The initial values of cgroup v1 on pages of 4 KiB and of 64 KiB.
@pytest.mark.parametrize(("knob", "shown", "on_large_pages"), [
    (Knob.MEMORY_LIMIT_IN_BYTES, "9223372036854771712", "9223372036854710272"),
    (Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, "9223372036854771712", "9223372036854710272"),
    (Knob.HUGETLB_2MB_LIMIT_IN_BYTES, "9223372036852678656", "9223372036852678656"),
    (Knob.HUGETLB_1GB_LIMIT_IN_BYTES, "9223372035781033984", "9223372035781033984"),
    (Knob.CPU_CFS_QUOTA_US, "-1", "-1"),
    (Knob.CPU_SHARES, "1024", "1024"),
])  # fmt: skip
def test_no_limit_on_cgroup_v1(knob, shown, on_large_pages):
    for page, text in ((4096, shown), (65536, on_large_pages)):
        value = read_back(knob, knob.kernel_default, page)
        assert str(value) == text
        assert knob.parse(text) == value
        assert knob.is_default(value)
    assert not knob.is_default(Bytes(4096))


def test_which_version_has_a_file():
    v1, v2 = knobs_of(CgroupVersion.V1), knobs_of(CgroupVersion.V2)
    assert {*v1} | {*v2} == {*Knob}
    assert {*v1} & {*v2} == {Knob.PIDS_MAX, Knob.CPUSET_CPUS, Knob.CPUSET_MEMS}
    assert (Knob.MEMORY_LIMIT_IN_BYTES in v1, Knob.MEMORY_MAX in v1) == (True, False)
    assert Knob.HUGETLB_2MB_LIMIT_IN_BYTES.controller == "hugetlb"


def test_texts_of_cgroup_v1():
    assert Knob.MEMORY_OOM_CONTROL.parse("oom_kill_disable 1\nunder_oom 0\noom_kill 3\n") == Number(1)
    assert Knob.PIDS_MAX.parse("max") is MAX
    with pytest.raises(ValueError, match="neither a number nor '-1'"):
        Knob.MEMORY_LIMIT_IN_BYTES.parse("max")
    with pytest.raises(ValueError, match="neither a number nor '-1'"):
        Knob.CPU_SHARES.parse("-1")
    assert str(UNLIMITED) == "-1"
    assert read_back(Knob.MEMORY_LIMIT_IN_BYTES, Bytes(5000), 4096) == Bytes(4096)
    assert read_back(Knob.HUGETLB_2MB_LIMIT_IN_BYTES, Bytes(0), 4096) == Bytes(0)


@pytest.mark.parametrize(
    ("knob", "text", "why"),
    [
        (Knob.MEMORY_MAX, "", "it is empty"),
        (Knob.CPU_MAX, "\n", "it is empty"),
        (Knob.MEMORY_MAX, "0\r\n", r"'0\r' is neither a number nor 'max'"),
        (Knob.MEMORY_MAX, "\0max\n7", r"'\x00max\n7' is neither a number nor 'max'"),
        (Knob.MEMORY_HIGH, "9" * 61, f"'{'9' * 60}…' is neither a number nor 'max'"),
        (Knob.CPU_MAX, "7" * 60, f"'{'7' * 60}' is not a quota and a period"),
    ],
)
def test_a_damaged_text_is_shown_in_one_short_line(knob: Knob, text: str, why: str):
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        knob.parse(text)


def test_the_largest_amounts_read_back_to_the_byte():
    """2^63 - 1 in whole pages, and in whole huge pages; cgroup v2 has "max" for it."""
    most = Bytes((1 << 63) - 1)
    assert str(read_back(Knob.MEMORY_LIMIT_IN_BYTES, UNLIMITED, 4096)) == "9223372036854771712"
    assert str(read_back(Knob.MEMORY_LIMIT_IN_BYTES, most, 65536)) == "9223372036854710272"
    assert str(read_back(Knob.HUGETLB_2MB_LIMIT_IN_BYTES, UNLIMITED, 4096)) == "9223372036852678656"
    assert str(read_back(Knob.HUGETLB_1GB_LIMIT_IN_BYTES, UNLIMITED, 4096)) == "9223372035781033984"
    assert str(read_back(Knob.MEMORY_MAX, most, 4096)) == "max"


def test_read_back_rounds_only_pages():
    assert read_back(Knob.MEMORY_HIGH, Bytes(12345), 4096) == Bytes(12288)
    assert read_back(Knob.MEMORY_HIGH, MAX, 4096) is MAX
    assert read_back(Knob.HUGETLB_2MB_MAX, Bytes(12345), 4096) == Bytes(0)
    assert read_back(Knob.HUGETLB_2MB_MAX, Bytes(5 << 20), 4096) == Bytes(4 << 20)
    assert read_back(Knob.HUGETLB_1GB_MAX, Bytes(2**63 - 1), 4096) is MAX
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
def test_impossible_names(name):
    with pytest.raises(ValueError, match="cannot be the name"):
        CgroupPath((name,))


def test_missing_and_unrequested_files():
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


@pytest.mark.parametrize(
    ("phase", "node", "ended", "waits"),
    [
        ("", "", False, False),
        ("Pending", "", False, True),
        ("Pending", "node7", False, False),
        ("Running", "node7", False, False),
        ("Succeeded", "node7", True, False),
        ("Failed", "", True, False),
    ],
)
def test_whether_a_pod_has_ended_or_is_unscheduled(phase, node, ended, waits):
    pod = Pod(name="web", uid="1", containers=(), phase=phase, node=node)

    assert (pod.has_ended, pod.waits_for_node) == (ended, waits)


def test_the_words_for_a_missing_text() -> None:
    assert str(NoFile.NO_FILE) == "no such file"
    assert str(Unreadable("Permission denied")) == "Permission denied"


def test_a_later_request_keeps_what_it_does_not_name():
    first = ContainerResources(
        cpu_shares=2, memory_limit_in_bytes=1 << 20, oom_score_adj=5, unified={"memory.min": "1", "memory.low": "2"}
    )
    later = ContainerResources(memory_limit_in_bytes=2 << 20, oom_score_adj=7, unified={"memory.low": "3"})
    assert later.over(first) == ContainerResources(
        cpu_shares=2, memory_limit_in_bytes=2 << 20, oom_score_adj=5, unified={"memory.min": "1", "memory.low": "3"}
    )
