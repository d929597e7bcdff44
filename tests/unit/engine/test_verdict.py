from dataclasses import replace

import pytest

from memqos.engine.answer.explain import failure, knob_reasons, plan_tree, reason_lines, shown_amount
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, worst
from memqos.engine.answer.verdict import judge, judge_node, judge_pod, judged_files
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Refusal
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import ABSENT, MAX, Bytes, Knob
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, RuntimeFlavour
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, NoFile, Reading, Unreadable
from tests.unit.engine.pods import NODE, ON, container, pod

IDS = {("uid-p", "c"): "0a1b"}
CRUN = Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", "1.21"))
CONTAINER = "/kubepods/burstable/poduid-p/0a1b"


def planned(release="1.27", **more):
    one = pod(container({"memory": "64Mi"}, {"memory": "200Mi"}, origin={"limits.memory": "pod.yaml:12"}))
    return expect([one], Kubelet.of(node=NODE, settings=ON, release=release, **more))


def reading(plan, flavour=RuntimeFlavour.CONTAINERD):
    """A reading with exactly the plan's values."""
    cgroups = {}
    for cgroup in plan.cgroups():
        leaf = "0a1b" if flavour is RuntimeFlavour.CONTAINERD else "crio-0a1b"
        path = cgroup.path.child(leaf) if cgroup.container else cgroup.path
        files = {knob.value: f"{one.value}\n" for knob, one in cgroup.knobs.items()}
        cgroups[path] = CgroupReading(path=path, files=files)
    return Reading(source="test", at=0.0, cgroups=cgroups)


def with_file(seen, path, name, text):
    where = CgroupPath.parse(path)
    files = {**seen.cgroups[where].files, name: text}
    return replace(seen, cgroups={**seen.cgroups, where: CgroupReading(path=where, files=files)})


def only(findings, verdict):
    return [finding for finding in findings if finding.verdict is verdict]


def test_planned_values_conform():
    plan = planned()
    findings = judge(plan, reading(plan), enacted_by=Setter.MEMQOS, ids=IDS)
    assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}
    # kubepods, two classes, the pod, its container: ten knobs each.
    assert len(findings) == 50
    assert worst(findings) is Verdict.CONFORMS


def test_a_container_below_its_scope():
    """crun keeps it there: the scope itself is not judged."""
    plan = planned(driver=CgroupDriver.SYSTEMD, runtimes=CRUN)
    seen = reading(plan)
    pod_path = plan.pods[0].cgroup.path
    own = seen.cgroups[pod_path.child("0a1b")]
    scope = pod_path.child("cri-containerd-0a1b.scope")
    below = scope.child("container")
    cgroups = {
        **seen.cgroups,
        scope: CgroupReading(path=scope, files={**own.files, "memory.max": "max\n"}),
        below: CgroupReading(path=below, files=own.files),
    }
    found = judge(plan, replace(seen, cgroups=cgroups), enacted_by=Setter.MEMQOS, ids=IDS)
    assert {one.verdict for one in found} == {Verdict.CONFORMS}
    elsewhere = planned(driver=CgroupDriver.SYSTEMD)
    [other] = only(
        judge(elsewhere, replace(seen, cgroups=cgroups), enacted_by=Setter.MEMQOS, ids=IDS), Verdict.DEVIATES
    )
    assert (other.knob, other.observed) == ("memory.max", "max")


def test_one_wrong_value():
    plan = planned()
    seen = with_file(reading(plan), CONTAINER, "memory.high", "max\n")
    (wrong,) = only(judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS), Verdict.DEVIATES)
    assert (wrong.knob, wrong.expected, wrong.observed) == ("memory.high", "195452928", "max")
    assert (str(wrong.subject), wrong.cgroup) == ("container c of pod default/p", CONTAINER)
    assert wrong.reason == plan.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_HIGH].reason


@pytest.mark.parametrize(
    ("text", "why_not"),
    [
        (NoFile.NO_FILE, "no such file"),
        (Unreadable("permission denied"), "permission denied"),
        (None, "was not read"),
        ("garbage", "does not parse"),
        ("", "does not parse"),
    ],
)
def test_an_unobservable_value_never_conforms(text, why_not):
    plan = planned()
    seen = with_file(reading(plan), CONTAINER, "memory.high", text)
    (unseen,) = only(judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS), Verdict.NOT_OBSERVABLE)
    assert why_not in unseen.why_not
    assert unseen.expected == "195452928"
    assert worst(judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS)) is Verdict.NOT_OBSERVABLE


NO_CONTROLLER = "no such file: the controller is missing or not enabled there"
NO_NUMBER = "the file does not parse: 'lots' is neither a number nor 'max'"
CORE = {"cgroup.controllers": NoFile.NO_FILE}


@pytest.mark.parametrize(
    ("files", "why_not"),
    [
        (CORE, "the cgroup does not exist"),
        ({}, "no such file: the cgroup does not exist, or has none of the requested controllers"),
        ({"cgroup.controllers": "cpu\n"}, NO_CONTROLLER),
        ({**CORE, "pids.max": "max\n"}, NO_CONTROLLER),
        ({**CORE, "pids.max": Unreadable("permission denied")}, NO_CONTROLLER),
    ],
)
def test_a_removed_cgroup_is_not_a_missing_controller(files, why_not):
    plan, path, none = planned(), CgroupPath.parse(CONTAINER), dict.fromkeys(map(str, Knob), NoFile.NO_FILE)
    cgroups = {**reading(plan).cgroups, path: CgroupReading(path=path, files={**none, **files})}
    found = judge(plan, replace(reading(plan), cgroups=cgroups), enacted_by=Setter.MEMQOS, ids=IDS)
    unseen = [one for one in only(found, Verdict.NOT_OBSERVABLE) if one.knob.startswith("memory.")]
    assert {(str(one.subject), one.why_not) for one in unseen} == {("container c of pod default/p", why_not)}
    assert not only(found, Verdict.DEVIATES)


def test_an_uncertain_value_is_not_observable():
    plan = planned()
    seen = with_file(reading(plan), "/kubepods/burstable", "memory.min", "1\n")
    cut = replace(seen, cgroups={path: one for path, one in seen.cgroups.items() if str(path) != "/kubepods"})
    findings = judge(
        plan,
        cut,
        enacted_by=Setter.MEMQOS,
        ids=IDS,
        unsure=lambda cgroup, knob: "who knows" if knob in cgroup.summed else "",
    )
    unseen = {
        (str(one.subject), one.knob): (one.why_not, one.observed) for one in only(findings, Verdict.NOT_OBSERVABLE)
    }
    assert unseen.pop(("burstable", "memory.min")) == ("who knows", "1")
    assert unseen.pop(("burstable", "cpu.weight")) == ("who knows", "1")
    assert {why for why, _ in unseen.values()} == {"the reading has no such cgroup"}
    assert only(findings, Verdict.DEVIATES) == []


def test_every_finding_names_subject_cgroup_and_knob():
    plan = planned()
    texts = {
        "memory.min": None,
        "memory.low": NoFile.NO_FILE,
        "memory.high": Unreadable("permission denied"),
        "memory.max": "lots",
        "memory.swap.max": "7\n",
        "oom_score_adj": "12\n",
    }
    seen = reading(plan)
    for name, text in texts.items():
        seen = with_file(seen, CONTAINER, name, text)
    found = [one for one in judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS) if one.verdict is not Verdict.CONFORMS]
    own = plan.pods[0].containers[0]
    assert {(str(one.subject), one.cgroup) for one in found} == {("container c of pod default/p", CONTAINER)}
    assert [(one.knob, one.verdict, one.expected, one.observed, one.why_not) for one in found] == [
        ("memory.min", Verdict.NOT_OBSERVABLE, "67108864", "", "the file was not read"),
        ("memory.low", Verdict.NOT_OBSERVABLE, "0", "", NO_CONTROLLER),
        ("memory.high", Verdict.NOT_OBSERVABLE, "195452928", "", "the file could not be read: permission denied"),
        ("memory.max", Verdict.NOT_OBSERVABLE, "209715200", "lots", NO_NUMBER),
        ("memory.swap.max", Verdict.DEVIATES, "0", "7", ""),
        ("oom_score_adj", Verdict.DEVIATES, "993", "12", ""),
    ]
    assert [one.reason for one in found[:5]] == [own.cgroup.knobs[Knob(one.knob)].reason for one in found[:5]]
    assert found[5].reason == own.oom_score_adj_reason
    pod_finding = judge_pod(plan, "uid-p", seen, enacted_by=Setter.MEMQOS, ids=IDS)[0]
    assert (str(pod_finding.subject), pod_finding.cgroup) == ("pod default/p", "/kubepods/burstable/poduid-p")


def test_missing_cgroups_and_containers():
    plan = planned()
    everything = judge(plan, Reading(source="empty", at=0.0), enacted_by=Setter.MEMQOS, ids=IDS)
    assert {finding.verdict for finding in everything} == {Verdict.NOT_OBSERVABLE}
    assert {finding.why_not for finding in everything} == {"the reading has no such cgroup"}
    unstarted = only(judge(plan, reading(plan), enacted_by=Setter.MEMQOS, ids={}), Verdict.NOT_OBSERVABLE)
    assert {finding.why_not for finding in unstarted} == {"no container of this name was started"}
    assert len(unstarted) == 10


@pytest.mark.parametrize(("processes", "wrong"), [("17\n18\n", set()), ("\n", {"cgroup.procs"})])
def test_membership_is_judged_if_it_was_read(processes, wrong):
    plan = planned()
    seen = with_file(reading(plan), CONTAINER, "cgroup.procs", processes)
    found = judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS)
    assert {one.knob for one in found if one.verdict is Verdict.DEVIATES} == wrong
    assert [one.knob for one in found].count("cgroup.procs") == 1


SYSTEMD = {"driver": CgroupDriver.SYSTEMD}
POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_p.slice"
ELSEWHERE = "/system.slice/containerd.service/kubepods-burstable-poduid_p.slice:cri-containerd:0a1b"
OTHER_DRIVER = (
    "the runtime takes the slice for the name of a cgroup: its cgroup driver is cgroupfs, the kubelet's is systemd "
    "(containerd: SystemdCgroup = true in the runtime's options)"
)


def with_cgroup(seen, path, *, without=""):
    where = CgroupPath.parse(path)
    kept = {one: files for one, files in seen.cgroups.items() if not without or without not in str(one)}
    return replace(seen, cgroups={**kept, where: CgroupReading(path=where, files={"cgroup.procs": "9\n"})})


@pytest.mark.parametrize(("where", "cause"), [
    (ELSEWHERE, OTHER_DRIVER),
    ("/system.slice/cri-containerd-0a1b.scope", ""),
    ("/kubepods/burstable/poduid-p/0a1b", ""),
])  # fmt: skip
def test_a_container_in_another_cgroup(where, cause):
    plan = planned(**SYSTEMD)
    seen = with_cgroup(reading(plan), where, without="/0a1b")
    [wrong] = only(judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS), Verdict.DEVIATES)
    assert (wrong.knob, wrong.cgroup, wrong.expected, wrong.observed) == (
        "cgroup", f"{POD}/cri-containerd-0a1b.scope", "there", "none",
    )  # fmt: skip
    told = {"its processes run in": where}
    assert wrong.evidence == ({**told, "the cause": cause} if cause else told)


@pytest.mark.parametrize("where", [
    "/system.slice/crio-conmon-0a1b.scope",
    "/system.slice/run-containerd-0a1b-rootfs.mount",
    "/system.slice/x0a1b",
    "/system.slice/cri-containerd-0a1b.scope/below",
    f"{POD}/crio-0a1b.scope",
])  # fmt: skip
def test_cgroups_that_are_not_a_containers(where):
    plan = planned(**SYSTEMD)
    seen = with_cgroup(reading(plan), where, without="/0a1b")
    assert only(judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS), Verdict.DEVIATES) == []


def test_a_tree_with_other_names_than_planned_shows_no_container_elsewhere():
    plan = planned(**SYSTEMD)
    seen = with_cgroup(Reading(source="empty", at=0.0), ELSEWHERE)
    assert only(judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS), Verdict.DEVIATES) == []


def test_oom_score_adj_is_judged_if_it_was_read():
    plan = planned()
    right = with_file(reading(plan), CONTAINER, "oom_score_adj", "993\n")
    assert len(judge(plan, right, enacted_by=Setter.MEMQOS, ids=IDS)) == 51
    (wrong,) = only(
        judge(plan, with_file(right, CONTAINER, "oom_score_adj", "0"), enacted_by=Setter.MEMQOS, ids=IDS),
        Verdict.DEVIATES,
    )
    assert (wrong.knob, wrong.expected, wrong.observed) == ("oom_score_adj", "993", "0")
    (unseen,) = only(
        judge(plan, with_file(right, CONTAINER, "oom_score_adj", "?"), enacted_by=Setter.MEMQOS, ids=IDS),
        Verdict.NOT_OBSERVABLE,
    )
    assert (unseen.knob, unseen.why_not) == ("oom_score_adj", "the file does not parse: it holds no number")


def test_parts():
    plan = planned()
    seen = reading(plan)
    assert len(judge_node(plan, seen, enacted_by=Setter.MEMQOS)) == 30
    assert len(judge_pod(plan, "uid-p", seen, enacted_by=Setter.MEMQOS, ids=IDS)) == 20
    with pytest.raises(KeyError):
        judge_pod(plan, "other", seen, enacted_by=Setter.MEMQOS, ids=IDS)


def test_cri_o_names_its_cgroups_itself():
    plan = planned(runtimes=Runtimes(cri=traits_of("cri-o", "1.36"), oci=TRIXIE.oci))
    seen = reading(plan, RuntimeFlavour.CRIO)
    found = judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS)
    assert {finding.verdict for finding in found} == {Verdict.CONFORMS}


def test_the_cgroup_below_a_scope_is_judged_if_the_reading_has_it():
    plans = {
        runtimes.oci.subgroup: planned(driver=CgroupDriver.SYSTEMD, runtimes=runtimes) for runtimes in (TRIXIE, CRUN)
    }
    [own] = [cgroup for cgroup in plans[""].cgroups() if cgroup.container]
    scope = own.path.child("cri-containerd-0a1b.scope")

    def found(*paths, subgroup):
        files = {knob.value: f"{one.value}\n" for knob, one in own.knobs.items()}
        seen = Reading(source="t", at=0.0, cgroups={path: CgroupReading(path=path, files=files) for path in paths})
        judged = judge_pod(plans[subgroup], "uid-p", seen, enacted_by=Setter.MEMQOS, ids=IDS)
        return {finding.cgroup for finding in judged if finding.verdict is Verdict.CONFORMS}

    inside = scope.child("container")
    assert found(scope, inside, subgroup="container") == {str(inside)}
    assert found(scope, inside, subgroup="") == {str(scope)}
    # A container in its scope is found there.
    assert found(scope, subgroup="container") == {str(scope)}


def test_a_deviation_decides_over_everything():
    conforms, deviates, known, unseen = (
        Finding(
            verdict=verdict,
            subject=Subject.of_machine("s"),
            cgroup="/",
            knob="k",
            set_by=Setter.KERNEL,
            expected="1",
            observed="1",
        )
        for verdict in Verdict
    )
    assert worst([conforms, unseen, deviates]) is Verdict.DEVIATES
    assert worst([conforms, known, unseen, deviates]) is Verdict.DEVIATES
    assert worst([conforms, known, unseen]) is Verdict.KNOWN
    assert worst([conforms, unseen]) is Verdict.NOT_OBSERVABLE
    assert worst([conforms]) is Verdict.CONFORMS
    assert worst([]) is Verdict.NOT_OBSERVABLE


def test_a_reason_why_not_decides_over_what_was_seen():
    assert [Verdict.of(True), Verdict.of(False), Verdict.of(True, "gone"), Verdict.of(False, "gone")] == [
        "conforms",
        "deviates",
        "not observable",
        "not observable",
    ]
    found = Finding(
        verdict=Verdict.DEVIATES,
        subject=Subject.of_pod("default", "p"),
        cgroup="/p",
        knob="memory.min",
        set_by=Setter.KUBELET,
        expected="1",
        observed="0",
    )
    assert found.unseen("gone") == replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="", why_not="gone")
    assert found.unsure("moved") == replace(found, verdict=Verdict.NOT_OBSERVABLE, observed="0", why_not="moved")


def test_a_files_text_stays_in_one_line():
    finding = Finding(
        verdict=Verdict.DEVIATES,
        subject=Subject.of_machine("web"),
        cgroup="/a",
        knob="memory.max",
        set_by=Setter.RUNTIME,
        expected="1",
        observed="max\nall is well",
    )
    assert failure(finding).splitlines()[0] == "memory.max of web is max\\nall is well, expected 1"


def test_the_text_of_a_failure():
    plan = planned()
    seen = with_file(reading(plan), CONTAINER, "memory.high", "max\n")
    (wrong,) = only(judge(plan, seen, enacted_by=Setter.MEMQOS, ids=IDS), Verdict.DEVIATES)
    assert failure(replace(wrong, evidence={"exit code": "137"})) == (
        "memory.high of container c of pod default/p is max, expected 195452928\n"
        "  cgroup   /kubepods/burstable/poduid-p/0a1b\n"
        "  set by   the runtime under test\n"
        "  memory.high is the request plus the throttling factor's share of the distance to the memory limit\n"
        "    source   memory-qos v1.27 shipped; KEP-2570 (2023), container level; "
        "kubelet 1.27 generateLinuxContainerResources\n"
        "    given    requests.memory = 67108864  [given]\n"
        "    given    limits.memory = 209715200  [pod.yaml:12]\n"
        "    given    memoryThrottlingFactor = 0.9  [default]\n"
        "    given    page size = 4096  [node]\n"
        "    sum      67108864 + (209715200 - 67108864) * 0.9 = 195454566.4; "
        "floor / 4096 * 4096 = 195452928 > 67108864\n"
        "    rounding IEEE double in the kubelet's order; floor of the sum, then down to whole pages\n"
        "  seen     exit code: 137\n"
        "  look     cat /sys/fs/cgroup/kubepods/burstable/poduid-p/0a1b/memory.high"
    )


def test_the_text_of_other_verdicts():
    plan = planned()
    unseen = only(judge(plan, reading(plan), enacted_by=Setter.MEMQOS, ids={}), Verdict.NOT_OBSERVABLE)[0]
    text = failure(unseen, mount="/mnt")
    assert "memory.min of container c of pod default/p could not be observed: no container of this name" in text
    assert "expected 67108864" in text
    assert "cat /mnt/kubepods/burstable/poduid-p/memory.min" in text
    fine = judge(plan, reading(plan), enacted_by=Setter.MEMQOS, ids=IDS)[0]
    assert failure(fine) == "memory.min of kubepods is 67108864, as expected\n  cgroup   /kubepods"
    behaviour = Finding(
        verdict=Verdict.DEVIATES,
        subject=Subject.of_machine("s"),
        cgroup="",
        knob="throttling",
        set_by=Setter.KERNEL,
        expected="1",
        observed="0",
    )
    assert failure(behaviour) == "throttling of s is 0, expected 1\n  cgroup   \n  set by   the kernel"


def test_plan_as_text():
    plan = planned("1.36", driver=CgroupDriver.SYSTEMD)
    text = plan_tree(replace(plan, refusals=(
        Refusal(pod="default/x", reason_name="TopologyAffinityError", message="no",
                reason=Reason(rule="r", revision="", source="")),)))  # fmt: skip
    lines = text.splitlines()
    assert lines[0] == "Kubernetes 1.36, cgroup driver systemd, below /sys/fs/cgroup"
    assert "pod default/p (Burstable)" in lines
    assert "  memory.max        209715200  200 MiB" in lines
    assert "  container c of pod default/p, oom_score_adj 993" in lines
    assert "    memory.high       195452928  186.4 MiB" in lines
    assert "  hugetlb.2MB.max   4611686018427387904  2^62, no limit" in lines
    assert any(line.startswith("    not written: ") for line in lines)
    assert lines[-2:] == ["pod default/x is refused: TopologyAffinityError: no", "  r"]


def test_reasons_of_one_knob():
    text = knob_reasons(planned(), Knob.MEMORY_MAX)
    assert "memory.max of container c of pod default/p: 209715200 (200 MiB)" in text
    assert "memory.max of burstable: not written, reads max" in text
    assert "limits add up over the containers" in text
    assert knob_reasons(planned(), Knob.CPUSET_MEMS).startswith("cpuset.mems is not planned: the Memory Manager ")
    assert knob_reasons(expect([], Kubelet.of(node=NODE, release="1.27"), reasons=False), Knob.CPUSET_MEMS) == ""


def test_values_that_differ_when_read_back():
    one = pod(container({"memory": "63488001"}, {"memory": "159457281"}))
    text = plan_tree(expect([one], Kubelet.of(node=NODE, settings=ON, release="1.27")))
    assert "memory.max        159457281 (152.1 MiB), reads 159457280 (152.1 MiB)" in text


def test_a_tree_of_cgroup_v1():
    node = replace(NODE, cgroup_version=CgroupVersion.V1)
    lines = plan_tree(expect([pod()], Kubelet.of(node=node, release="1.34"))).splitlines()
    assert lines[0] == (
        "Kubernetes 1.34, cgroup driver cgroupfs, below /sys/fs/cgroup/<controller> "
        "(cgroup v1: the first word of a file's name is its hierarchy)"
    )
    assert lines[-4:-1] == [
        "  container c of pod default/p, oom_score_adj 1000",
        "    cpu.shares        2",
        "    cpu.cfs_period_us 100000",
    ]


def test_a_cgroup_that_is_not_the_kubelets_own():
    settings = KubeletSettings(cgroups_per_qos=False, enforce_node_allocatable=("none",))
    lines = plan_tree(expect([], Kubelet.of(node=NODE, settings=settings, release="1.36"))).splitlines()
    assert lines[3:] == ["root", "  /"]


def test_where_a_file_of_cgroup_v1_is():
    node = replace(NODE, cgroup_version=CgroupVersion.V1)
    plan = expect([], Kubelet.of(node=node, release="1.34"))
    files = {"memory.limit_in_bytes": "1", "cpu.shares": "4096"}
    reading = Reading(source="x", at=0.0, cgroups={plan.node.path: CgroupReading(path=plan.node.path, files=files)})
    wrong, right = (
        next(
            one
            for one in judge(plan, reading, enacted_by=Setter.MEMQOS, ids={})
            if one.knob == knob and one.cgroup == "/kubepods"
        )
        for knob in files
    )
    assert failure(wrong).splitlines()[-1] == "  look     cat /sys/fs/cgroup/memory/kubepods/memory.limit_in_bytes"
    assert right.verdict is Verdict.CONFORMS


def test_empty_reason_has_no_lines():
    assert reason_lines(Reason(rule="", revision="", source="")) == []
    nested = Reason(rule="a", revision="", source="s", because=(
        Reason(rule="b", revision="r", source="", inputs=(Input("n", "1", "o"),)),))  # fmt: skip
    assert reason_lines(nested) == [
        "a", "  source   s", "  because", "    b", "      source   r", "      given    n = 1  [o]"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(Bytes(0), "0"), (Bytes(1 << 30), "1073741824 (1024 MiB)"), (Bytes(4096), "4096 (4 KiB)"), (Bytes(4097), "4097"),
     (Bytes(255012864), "255012864 (243.2 MiB)"),
     (MAX, "max"), (ABSENT, "absent"), (Bytes(1 << 62), "4611686018427387904 (2^62, no limit)")],
)  # fmt: skip
def test_amounts(value, text):
    assert shown_amount(value) == text


def test_a_reading_needs_the_files_that_the_kernel_has():
    assert {"memory.high", "cpuset.mems", "cgroup.controllers"} <= set(judged_files(CgroupVersion.V2))
    assert "memory.limit_in_bytes" not in judged_files(CgroupVersion.V2)
    assert {"memory.limit_in_bytes", "cpuset.mems", "cgroup.clone_children"} <= set(judged_files(CgroupVersion.V1))


def test_needed_files_depend_on_the_cgroup_version():
    v1, v2 = (set(judged_files(version)) for version in (CgroupVersion.V1, CgroupVersion.V2))
    assert {"memory.max", "memory.high", "cpu.weight"} <= v2
    assert {"memory.limit_in_bytes", "cpu.shares"} <= v1
    assert not {"memory.max", "cpu.weight"} & v1
    assert "memory.limit_in_bytes" not in v2
