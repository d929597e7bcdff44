"""Findings about settings of a cgroup that the plan does not name."""

import pytest

from memqos.engine.answer.finding import Setter, Subject, Verdict
from memqos.engine.answer.unrequested_files import UNNAMED, Unnamed, shown_text, unnamed_findings
from memqos.engine.plan import Level
from memqos.model.path import CgroupPath
from memqos.model.reading import NoFile, Unreadable

FOLDER = CgroupPath.parse("/kubepods/pod1/c")
SCOPE = CgroupPath.parse("/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope")


def found(files, path=FOLDER, **known):
    return unnamed_findings(path, files, Unnamed(**known), subject=Subject.of_container("c"))


def deviating(findings):
    return {one.knob: (one.expected, one.observed) for one in findings if one.verdict is Verdict.DEVIATES}


def test_all_files_with_defaults_are_one_finding():
    [one] = found({"cgroup.freeze": "0\n", "memory.swap.high": "max\n", "misc.max": ""})
    assert (one.verdict, one.knob, one.expected, one.observed) == (Verdict.CONFORMS, UNNAMED, "defaults", "defaults")
    assert one.evidence == {"files": "cgroup.freeze memory.swap.high misc.max"}
    assert one.set_by is Setter.RUNTIME


def test_each_other_file_is_a_separate_finding():
    several = unnamed_findings(
        FOLDER,
        {"cgroup.freeze": "0\n", "cgroup.pressure": "0\n", "memory.zswap.max": "0\n"},
        Unnamed(),
        subject=Subject(level=Level.POD, pod="p"),
        deviates=Setter.OTHER,
        holds=Setter.KERNEL,
    )
    assert deviating(several) == {"cgroup.pressure": ("1", "0"), "memory.zswap.max": ("max", "0")}
    assert [one.set_by for one in several] == [Setter.OTHER, Setter.OTHER, Setter.KERNEL]
    assert several[0].reason.rule == "no request names cgroup.pressure: the kernel's default applies"


def test_planned_and_unread_files_are_skipped():
    files = {
        "memory.max": "4096\n",
        "hugetlb.2MB.rsvd.max": "0\n",
        "hugetlb.1GB.rsvd.max": "0\n",
        "cpu.idle": NoFile.NO_FILE,
        "io.weight": Unreadable("Input/output error"),
    }
    several = found(files, judged={"memory.max"}, begun=("hugetlb.2MB.",))
    assert deviating(several) == {"hugetlb.1GB.rsvd.max": ("max", "0")}
    assert len(several) == 1


def test_a_requested_reservation_of_huge_pages_is_judged():
    files, begun = {"hugetlb.2MB.rsvd.max": "max\n"}, ("hugetlb.2MB.",)
    several = found(files, begun=begun, requested={"hugetlb.2MB.rsvd.max": "4194304"})
    assert deviating(several) == {"hugetlb.2MB.rsvd.max": ("4194304", "max")}
    assert found(files, begun=begun, requested={"hugetlb.2MB.rsvd.max": None}) == []


@pytest.mark.parametrize(
    ("path", "text", "tasks_max", "verdict", "expected"),
    [
        (SCOPE, "2354\n", "2354", Verdict.CONFORMS, "defaults"),
        (SCOPE, "max\n", "2354", Verdict.CONFORMS, "defaults"),
        (SCOPE, "max\n", "", Verdict.CONFORMS, "defaults"),
        (SCOPE, "100\n", "2354", Verdict.DEVIATES, "2354"),
        (SCOPE, "100\n", "infinity", Verdict.DEVIATES, "max"),
        (SCOPE, "100\n", "", Verdict.NOT_OBSERVABLE, ""),
        (FOLDER, "max\n", "", Verdict.CONFORMS, "defaults"),
        (FOLDER, "2354\n", "2354", Verdict.DEVIATES, "max"),
    ],
)
def test_a_scope_has_the_processes_that_systemd_gives_it_or_any_number(path, text, tasks_max, verdict, expected):
    [one] = found({"pids.max": text}, path, tasks_max=tasks_max)
    assert (one.verdict, one.expected) == (verdict, expected)
    assert bool(one.why_not) is (verdict is Verdict.NOT_OBSERVABLE)


def test_an_unknown_file_is_compared_with_a_container_without_requests():
    files = {"memory.tiers.max": "0\n", "memory.tiers.low": "7\n", "cpu.boost": "1\n", "cgroup.freeze": "0\n"}
    several = found(
        files, baseline={"memory.tiers.max": "max\n", "memory.tiers.low": "7\n", "cpu.boost": NoFile.NO_FILE}
    )
    assert deviating(several) == {"memory.tiers.max": ("max", "0")}
    assert several[0].reason.rule.startswith("unknown file differs: ")
    assert several[1].evidence == {"files": "cgroup.freeze memory.tiers.low", "not judged": "cpu.boost"}


def test_a_requested_file_must_have_the_requested_value():
    asked = {"memory.swap.high": "8192", "memory.zswap.max": "0", "io.weight": None}
    several = found(
        {"memory.swap.high": "max\n", "memory.zswap.max": "0\n", "io.weight": "default 5\n"}, requested=asked
    )
    assert deviating(several) == {"memory.swap.high": ("8192", "max")}
    assert several[0].reason.rule == "a request names memory.swap.high"
    assert several[1].evidence == {"files": "memory.zswap.max", "not judged": "io.weight"}


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("memory.swap.high", "8193", "8192"),
        ("memory.swap.high", "max", "max"),
        ("memory.swap.high", "1G", None),
        ("memory.zswap.writeback", "0", "0"),
        ("cgroup.max.depth", "7", "7"),
        ("cpu.idle", "1", "1"),
        ("hugetlb.2MB.rsvd.max", "4194305", None),
        ("io.weight", "200", None),
        ("memory.tiers.max", "4096", None),
    ],
)
def test_the_text_of_a_file_after_a_request(name, text, shown):
    assert shown_text(name, text, 4096) == shown


def test_with_an_unmodelled_runtime_only_requested_files_are_judged():
    asked = {"memory.swap.high": "8192", "memory.zswap.writeback": "0"}
    files = {
        "memory.swap.high": "max\n",
        "memory.zswap.writeback": "0\n",
        "memory.zswap.max": "0\n",
        "pids.max": "max\n",
    }
    several = found(files, requested=asked, unmodelled="youki is not modelled")
    assert deviating(several) == {"memory.swap.high": ("8192", "max")}
    left = [(one.knob, one.verdict, one.why_not, one.evidence) for one in several[1:]]
    assert left == [
        ("memory.zswap.max", Verdict.NOT_OBSERVABLE, "youki is not modelled", {}),
        (UNNAMED, Verdict.CONFORMS, "", {"files": "memory.zswap.writeback"}),
        (UNNAMED, Verdict.NOT_OBSERVABLE, "youki is not modelled", {"files": "pids.max"}),
    ]
