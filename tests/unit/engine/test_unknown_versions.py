"""Differences between versions of a runtime are not expected if the version is unknown, and never conform."""

from dataclasses import replace

from memqos.engine.answer.difference import differences
from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import knob_reasons, plan_tree
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import judge
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import resize_pods
from memqos.engine.resize.outcome import resize_document, resize_reasons, resize_text
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import ABSENT, MAX, Bytes, CpuMax, Knob, Number
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.reading import CgroupReading, Reading
from tests.unit.engine.pods import NODE, container, pod

UNKNOWN = Runtimes(cri=traits_of("containerd", ""), oci=traits_of("runc", ""))
POD = pod(container({"cpu": "1"}, {"cpu": "333m", "memory": "1Gi"}))


def planned(one=POD, driver=CgroupDriver.SYSTEMD, runtimes=UNKNOWN, node=NODE):
    return expect([one], Kubelet.of(node=node, release="1.27", driver=driver, runtimes=runtimes))


def own(plan):
    return plan.pods[0].containers[0].cgroup.knobs


def test_with_differing_versions_both_values_are_planned_and_none_expected():
    knobs = own(planned())
    assert knobs[Knob.CPU_WEIGHT].undecided == (Number(100), Number(39))
    assert knobs[Knob.CPU_MAX].undecided == (CpuMax(34000, 100000), CpuMax(33300, 100000))
    assert knobs[Knob.MEMORY_SWAP_MAX].undecided == (Bytes(0), MAX)
    assert knobs[Knob.CPU_WEIGHT].shown == "100 or 39"
    assert "in older versions the linear" in knobs[Knob.CPU_WEIGHT].reason.rule
    assert "older versions do not change swap" in knobs[Knob.MEMORY_SWAP_MAX].reason.rule


def test_a_value_common_to_all_versions_is_expected():
    assert own(planned())[Knob.MEMORY_MAX].undecided == ()
    assert own(planned(driver=CgroupDriver.CGROUPFS))[Knob.CPU_MAX].undecided == ()
    small = planned(pod(container({"cpu": "1m"}, {"cpu": "340m"})))
    assert own(small)[Knob.CPU_WEIGHT].undecided == ()
    assert own(small)[Knob.CPU_WEIGHT].shown == "1"
    assert own(small)[Knob.CPU_MAX].undecided == ()
    assert own(small)[Knob.MEMORY_SWAP_MAX].written is ABSENT


def test_on_cgroup_v1_too():
    knobs = own(planned(node=replace(NODE, cgroup_version=CgroupVersion.V1)))
    assert knobs[Knob.CPU_CFS_QUOTA_US].undecided == (Number(34000), Number(33300))
    assert knobs[Knob.CPU_CFS_PERIOD_US].undecided == ()
    assert [str(value) for value in knobs[Knob.MEMORY_MEMSW_LIMIT_IN_BYTES].undecided] == [
        "1073741824",
        "9223372036854771712",
    ]
    assert knobs[Knob.CPU_SHARES].undecided == ()


def test_the_kubelets_cgroups_are_certain():
    """Except a quota, which systemd may have rounded in a pod's slice (up to 1.33)."""
    plan = planned()
    undecided = {
        one.knob for cgroup in plan.cgroups() if not cgroup.container for one in cgroup.knobs.values() if one.undecided
    }
    assert undecided <= {Knob.CPU_MAX}


def test_whatever_the_file_holds_it_is_not_observable():
    plan = planned()
    path = plan.pods[0].cgroup.path.child("cri-containerd-0a1b.scope")
    for weight in ("100", "39", "7"):
        files = {Knob.CPU_WEIGHT.value: f"{weight}\n", Knob.MEMORY_MAX.value: "1073741824\n"}
        reading = Reading(source="test", at=0.0, cgroups={path: CgroupReading(path=path, files=files)})
        findings = {
            one.knob: one
            for one in judge(plan, reading, enacted_by=Setter.KUBELET, ids={("uid-p", "c"): "0a1b"})
            if one.cgroup == str(path)
        }
        found = findings["cpu.weight"]
        assert (found.verdict, found.expected, found.observed) == (Verdict.NOT_OBSERVABLE, "100 or 39", weight)
        assert found.why_not == "versions of the runtime differ here, and this one's version is not known"
        assert findings["memory.max"].verdict is Verdict.CONFORMS


def test_it_is_shown_as_such():
    plan = planned()
    assert "    cpu.weight        100 or 39\n" in plan_tree(plan)
    assert "cpu.weight of container c of pod default/p: 100 or 39\n" in knob_reasons(plan, Knob.CPU_WEIGHT)
    documents = {one["container"]: one["knobs"] for one in plan_document(plan)["cgroups"]}
    assert documents["c"]["cpu.weight"]["undecided"] == ["100", "39"]
    assert "undecided" not in documents["c"]["memory.max"]
    changes = differences(planned(runtimes=replace(UNKNOWN, oci=traits_of("runc", "1.3.1"))), plan)
    assert [(one.what, one.before, one.after) for one in changes] == [
        ("cpu.weight", "39", "100 or 39"),
        ("cpu.max", "33300 100000", "34000 100000 or 33300 100000"),
    ]


def test_a_resize_has_both_values_too():
    bigger = pod(container({"cpu": "2"}, {"cpu": "2333m", "memory": "1Gi"}))
    plan = resize_pods(
        [POD], [bigger], Kubelet.of(node=NODE, release="1.35", driver=CgroupDriver.SYSTEMD, runtimes=UNKNOWN)
    )
    assert "cpu.weight=174 or 79" in resize_text(plan)
    assert "cpu.weight 174 or 79" in resize_reasons(plan, Knob.CPU_WEIGHT)
    knobs = [step["knobs"] for step in resize_document(plan)["resizes"][0]["steps"] if "knobs" in step]
    assert ["174", "79"] in [one["cpu.weight"].get("undecided") for one in knobs if "cpu.weight" in one]
