"""Runtimes that are not modelled, and sandboxes: expected and undecided files of a container."""

import dataclasses

import pytest

from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import knob_reasons, plan_tree
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import judge_pod
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Allowance, Handler, Runtimes
from memqos.engine.translate.specification import (
    not_modelled,
    refusal_left_open,
    runtime_notes,
    specified_writes,
    stand_in,
    unmodelled,
    without_exec,
)
from memqos.engine.translate.versions import RuntimeName, newer_than_modelled, traits_of, unmodelled_traits
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Bytes, CpuMax, Knob, Number
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts
from memqos.model.reading import CgroupReading, Reading
from tests.unit.engine.pods import NODE, ON, container, pod

YOUKI = unmodelled_traits("youki", "0.6")
POUCH = unmodelled_traits("pouch", "1", cri=True)
RUNC = traits_of("runc", "1.3.6")
BURST = container({"cpu": "64m", "memory": "256Mi"}, {"cpu": "128m", "memory": "512Mi"})


def runtimes(cri="containerd", version="2.1.9", oci=RUNC):
    return Runtimes(cri=traits_of(cri, version) if isinstance(cri, str) else cri, oci=oci)


def knobs(served, *, settings=ON, driver=CgroupDriver.SYSTEMD, reasons=True, runtime_class="", node=NODE):
    of = Kubelet.of(node=node, release="1.34", settings=settings, driver=driver, runtimes=served)
    [planned] = expect([pod(BURST, runtime_class_name=runtime_class)], of, reasons=reasons).pods
    return planned.cgroup.knobs, planned.containers[0].cgroup.knobs


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("cri", ["containerd", "cri-o"])
def test_the_own_cgroup_of_a_container_in_a_sandbox_limits_nothing(reasons, driver, cri):
    """gVisor runsc/container, setupCgroupForSubcontainer: a cgroup with no resources; the pod's is the kubelet's."""
    above, own = knobs(runtimes(cri, "1.30", traits_of("runsc", "20240729")), driver=driver, reasons=reasons)
    assert above[Knob.MEMORY_MAX].value == Bytes(536870912)
    assert all(one.written is ABSENT and not one.unmodelled for one in own.values())
    assert str(own[Knob.MEMORY_MAX].value) == "max"
    assert own[Knob.CPU_WEIGHT].value == Number(100)
    if reasons:
        assert "one sandbox" in own[Knob.MEMORY_MAX].reason.rule


@pytest.mark.parametrize("cri", [BUNDLES, traits_of("docker", "28.0"), traits_of("cri-dockerd", "0.4")])
def test_alone_a_container_of_runsc_has_its_limit(cri):
    _, own = knobs(runtimes(cri, oci=traits_of("runsc", "20260817")))
    assert own[Knob.MEMORY_MAX].written == Bytes(536870912)


def test_kata_has_no_cgroup_on_the_host_for_a_container():
    served = runtimes(oci=traits_of("kata", "3.20"))
    above, own = knobs(served)
    assert above[Knob.MEMORY_MAX].value == Bytes(536870912)
    assert {one.unmodelled for one in own.values()} == {
        "kata 3.20 makes no cgroup on the host for a container: its files are those inside the virtual machine"
    }
    assert list(not_modelled(served)) == ["kata 3.20"]
    assert "virtual machine" in stand_in(served)[0]


@pytest.mark.parametrize("reasons", [True, False])
def test_an_unknown_oci_runtime_follows_the_specification(reasons):
    above, own = knobs(runtimes(oci=YOUKI), reasons=reasons)
    assert not any(one.unmodelled for one in above.values())
    open_ones = {knob.value for knob, one in own.items() if one.unmodelled}
    assert open_ones == {"cpu.weight", "memory.low", "hugetlb.2MB.max", "hugetlb.1GB.max"}
    assert own[Knob.MEMORY_MAX].written == Bytes(536870912)
    assert own[Knob.MEMORY_SWAP_MAX].written == Bytes(0)
    assert own[Knob.MEMORY_MIN].written == Bytes(268435456)
    assert own[Knob.CPU_MAX].written == CpuMax(12800, 100000)
    assert own[Knob.CPU_WEIGHT].unmodelled == (
        "youki 0.6 is not modelled, and the OCI runtime specification does not specify this file"
    )


def test_an_unknown_cri_server_is_judged_by_the_plain_fields():
    _, own = knobs(runtimes(POUCH))
    assert own[Knob.MEMORY_MAX].written == Bytes(536870912)
    assert not own[Knob.CPU_WEIGHT].unmodelled
    for knob in (Knob.MEMORY_MIN, Knob.MEMORY_HIGH, Knob.MEMORY_SWAP_MAX, Knob.MEMORY_OOM_GROUP):
        assert own[knob].unmodelled == "pouch 1 is not modelled, and CRI does not specify this file"


def test_both_unknown():
    _, own = knobs(runtimes(POUCH, oci=YOUKI))
    assert {knob.value for knob, one in own.items() if not one.unmodelled} == {"memory.max", "cpu.max"}


def test_cgroup_v1():
    node = NodeFacts(memory=8 << 30, cpus=4, cgroup_version=CgroupVersion.V1)
    _, own = knobs(runtimes(oci=YOUKI), node=node, settings=KubeletSettings())
    assert own[Knob.MEMORY_LIMIT_IN_BYTES].written == Bytes(536870912)
    assert not own[Knob.CPU_SHARES].unmodelled
    assert own[Knob.MEMORY_SOFT_LIMIT_IN_BYTES].unmodelled


@pytest.mark.parametrize(("asked", "files"), [
    (OciResources(), {}),
    (OciResources(memory_limit=-1), {"memory.max": "max"}),
    (OciResources(memory_limit=8192), {"memory.max": "8192"}),
    (OciResources(memory_limit=8192, memory_swap=12288), {"memory.max": "8192", "memory.swap.max": "4096"}),
    (OciResources(memory_limit=8192, memory_swap=8192), {"memory.max": "8192", "memory.swap.max": "0"}),
    (OciResources(memory_limit=8192, memory_swap=4096), {"memory.max": "8192"}),
    (OciResources(memory_limit=8192, memory_swap=0), {"memory.max": "8192"}),
    (OciResources(memory_limit=-1, memory_swap=8192), {"memory.max": "max"}),
    (OciResources(memory_swap=8192), {}),
    (OciResources(memory_limit=8192, memory_swap=-1), {"memory.max": "8192", "memory.swap.max": "max"}),
    (OciResources(memory_limit=-1, memory_swap=-1), {"memory.max": "max", "memory.swap.max": "max"}),
    (OciResources(cpu_quota=5000), {"cpu.max": "5000 100000"}),
    (OciResources(cpu_period=50000), {"cpu.max": "max 50000"}),
    (OciResources(cpus="0-1", mems="0"), {"cpuset.cpus": "0-1", "cpuset.mems": "0"}),
    (OciResources(cpu_shares=1024, hugepage_limits=(("2MB", 0),)), {}),
    (OciResources(memory_limit=8192, unified={"memory.high": "4096"}), {"memory.max": "8192", "memory.high": "4096"}),
])  # fmt: skip
def test_files_that_every_oci_runtime_writes(asked, files):
    assert specified_writes(asked, YOUKI, RuntimeHost()).texts == files


@pytest.mark.parametrize(("asked", "driver", "words"), [
    (OciResources(), "systemd", ""),
    (OciResources(memory_limit=8192), "systemd", ""),
    (OciResources(memory_limit=8192, memory_swap=8192), "cgroupfs", ""),
    (OciResources(memory_limit=8192, memory_swap=-1), "cgroupfs", ""),
    (OciResources(memory_limit=8192, memory_swap=8191), "cgroupfs", "no value of memory.swap.max"),
    (OciResources(memory_limit=8192, memory_swap=0), "systemd", "no value of memory.swap.max"),
    (OciResources(memory_swap=8192), "systemd", "no value of memory.swap.max"),
    (OciResources(memory_limit=-1, memory_swap=8192), "systemd", "no value of memory.swap.max"),
    (OciResources(unified={"memory.high": "48M"}), "systemd", "no suffixes"),
    (OciResources(unified={"memory.high": "48M"}), "cgroupfs", ""),
    (OciResources(unified={"memory.high": "max", "cpu.max": "5000 10000", "cpuset.cpus": "0-1"}), "systemd", ""),
])  # fmt: skip
def test_what_a_runtime_may_refuse(asked, driver, words):
    """runtime-spec config-linux.md: memory.swap is the limit of memory and swap together, of cgroup v1."""
    why = refusal_left_open(asked, YOUKI, CgroupDriver(driver))
    assert words in why
    assert bool(why) is bool(words)
    assert refusal_left_open(asked, RUNC, CgroupDriver(driver)) == ""


def test_no_exec_is_specified():
    assert without_exec(YOUKI) == "youki 0.6 is not modelled, and the OCI runtime specification has no exec"
    assert without_exec(RUNC) == ""


def test_a_unified_entry_is_a_file_name():
    assert "no slashes" in specified_writes(OciResources(unified={"a/b": "1"}), YOUKI, RuntimeHost()).refusal


def test_sets_of_cpus_and_nodes():
    sent = ContainerResources(cpuset_cpus="0", cpuset_mems="1")
    asked = OciResources(cpus="0", mems="1")
    for knob in (Knob.CPUSET_CPUS, Knob.CPUSET_MEMS):
        assert unmodelled(knob, sent, asked, runtimes(POUCH, oci=YOUKI)) == ""
        assert unmodelled(knob, ContainerResources(), asked, runtimes(POUCH)) != ""
    assert unmodelled(Knob.CPU_WEIGHT, ContainerResources(), asked, runtimes()) == ""


BY_OCI = (
    "not modelled: its containers are judged only by the OCI runtime specification (limits, sets of CPUs and "
    "nodes, and unified entries), all else is not observable"
)
BY_CRI = (
    "not modelled: its containers are judged only by the fields of CRI (limits of memory and CPU and sets of CPUs "
    "and nodes), all else is not observable"
)
NEWER = "newer than 1.5, the newest modelled release: memqos assumes the same behaviour"


@pytest.mark.parametrize(("served", "said"), [
    (TRIXIE, []),
    (runtimes(oci=YOUKI), [("youki 0.6", BY_OCI)]),
    (runtimes(oci=unmodelled_traits("runcc", "1")), [("runcc 1", f"{BY_OCI}; did you mean 'runc'?")]),
    (runtimes(POUCH), [("pouch 1", BY_CRI)]),
    (runtimes(oci=traits_of("runc", "1.9.0")), [("runc 1.9.0", NEWER)]),
])  # fmt: skip
def test_notes(served, said):
    assert list(runtime_notes(served)) == said


@pytest.mark.parametrize(("name", "version", "newest"), [
    ("runc", "1.5.9", ""), ("runc", "1.6.0-rc.1", "1.5"), ("runc", "2", "1.5"), ("runc", "", ""), ("runc", "1", ""),
    ("crun", "1.29.1", ""), ("crun", "1.30", "1.29"), ("runsc", "release-20270101.0", "20260817"),
    ("runsc", "20260817", ""), ("cri-o", "1.37.0", "1.36"), ("docker", "29.0", "28"), ("other OCI runtime", "9", ""),
])  # fmt: skip
def test_newer_than_the_modelled_releases(name, version, newest):
    assert newer_than_modelled(traits_of(name, version)) == newest


NAMED = Runtimes(
    cri=traits_of("containerd", "2.1.9"), oci=traits_of("runc", "1.3.6"),
    handlers={"untrusted": Handler(oci=traits_of("runsc", "20240729"))},
)  # fmt: skip


@pytest.mark.parametrize(("runtime_class", "oci"), [
    ("", "runc 1.3.6"),
    ("untrusted", "runsc 20240729"),
    ("gvisor", "runsc of unknown version"),
    ("kata-qemu", "kata of unknown version"),
    ("runc", "runc 1.3.6"),
    ("crun", "crun of unknown version"),
    ("nvidia", "the runtime of RuntimeClass nvidia"),
])  # fmt: skip
def test_a_runtime_class_has_its_own_runtime(runtime_class, oci):
    assert str(NAMED.of_class(runtime_class).oci) == oci
    plan = expect([pod(BURST, runtime_class_name=runtime_class)], Kubelet.of(node=NODE, release="1.34", runtimes=NAMED))
    [planned] = plan.pods
    assert str((planned.runtimes or NAMED).oci) == oci
    assert plan.layout_of(planned).subgroup == ("container" if "crun" in oci else "")


@pytest.mark.parametrize(("handler", "oci"), [
    ("runsc", "runsc of unknown version"), ("kata-fc", "kata of unknown version"), ("untrusted", "runsc 20240729"),
    ("other", "the runtime of RuntimeClass secure"), ("", "the runtime of RuntimeClass secure"),
])  # fmt: skip
def test_the_handler_of_a_class_names_its_runtime(handler, oci):
    assert str(NAMED.of_class("secure", handler).oci) == oci


def test_a_handler_without_an_allowance_of_its_own_has_the_default_ones():
    allows = Allowance(allowed=("io.example",))
    own = Allowance(allowed=())
    served = dataclasses.replace(
        NAMED,
        allowance=allows,
        handlers={"plain": Handler(oci=NAMED.oci), "strict": Handler(oci=NAMED.oci, allowance=own)},
    )
    assert served.of_class("plain").allowance == allows
    assert served.of_class("strict").allowance == own


def test_pods_of_one_class_are_planned_alike_without_reasons():
    of = Kubelet.of(node=NODE, release="1.34", runtimes=NAMED)
    pods = [pod(BURST, name=str(number), runtime_class_name="gvisor" if number % 2 else "") for number in range(4)]
    found = [one.containers[0].cgroup.knobs[Knob.MEMORY_MAX].value for one in expect(pods, of, reasons=False).pods]
    assert [str(value) for value in found] == ["536870912", "max"] * 2


def test_an_unknown_runtime_stays_itself_for_an_unknown_class():
    served = runtimes(oci=YOUKI)
    assert str(served.of_class("nvidia").oci) == "the runtime of RuntimeClass nvidia"
    assert RuntimeName.OTHER_OCI not in {one.runtime for one in (served.of_class("crun").oci,)}


def judged(served, files, *, path):
    of = Kubelet.of(node=NODE, release="1.34", driver=CgroupDriver.SYSTEMD, runtimes=served)
    plan = expect([pod(BURST)], of)
    own = plan.pods[0].cgroup.path
    cgroups = {own.child(path[0]) if len(path) == 1 else own.child(path[0]).child(path[1]): files}
    reading = Reading(
        source="test",
        at=0.0,
        cgroups={where: CgroupReading(path=where, files=texts) for where, texts in cgroups.items()},
    )
    ids = {("uid-p", "c"): "0a1b"}
    found = judge_pod(plan, "uid-p", reading, enacted_by=Setter.KUBELET, ids=ids)
    return {one.knob: one for one in found if str(one.subject).startswith("container")}


def test_an_audit_judges_an_unknown_runtime_by_the_specification_alone():
    files = {"memory.max": "1048576\n", "memory.low": "4096\n", "cpu.weight": "77\n", "memory.oom.group": "1\n"}
    # By the id, whatever the name of its scope.
    for path in (["cri-containerd-0a1b.scope"], ["youki-0a1b.scope"], ["cri-containerd-0a1b.scope", "container"]):
        found = judged(runtimes(oci=YOUKI), files, path=path)
        assert found["memory.max"].verdict is Verdict.DEVIATES
        assert found["memory.oom.group"].verdict is Verdict.CONFORMS
        for knob in ("memory.low", "cpu.weight"):
            assert found[knob].verdict is Verdict.NOT_OBSERVABLE
            assert "youki 0.6 is not modelled" in found[knob].why_not
            assert found[knob].expected == "not modelled"


def test_an_audit_of_a_sandbox_does_not_judge_the_own_cgroup():
    files = {"memory.max": "max\n", "cpu.weight": "100\n", "cgroup.procs": "", "oom_score_adj": "-998\n"}
    found = judged(runtimes(oci=traits_of("runsc", "20240729")), files, path=["cri-containerd-0a1b.scope"])
    assert found["memory.max"].verdict is Verdict.CONFORMS
    assert "cgroup.procs" not in found
    assert "oom_score_adj" not in found
    limited = judged(
        runtimes(oci=traits_of("runsc", "20240729")), {"memory.max": "536870912\n"}, path=["cri-containerd-0a1b.scope"]
    )
    assert limited["memory.max"].verdict is Verdict.DEVIATES
    found = judged(runtimes(oci=traits_of("kata", "3.20")), files, path=["cri-containerd-0a1b.scope"])
    assert {one.verdict for one in found.values()} == {Verdict.NOT_OBSERVABLE}


def test_unmodelled_values_are_marked():
    of = Kubelet.of(node=NODE, release="1.34", driver=CgroupDriver.SYSTEMD, runtimes=runtimes(oci=YOUKI))
    plan = expect([pod(BURST)], of)
    document = plan_document(plan)
    assert document["not_modelled"] == ["youki 0.6"]
    weight = document["cgroups"][-1]["knobs"]["cpu.weight"]
    assert (weight["value"], weight["not_modelled"]) == (None, weight["reason"]["rule"])
    assert any(
        line.startswith("    not observable: ") and "cpu.weight" in line for line in plan_tree(plan).splitlines()
    )
    assert "not observable" in knob_reasons(plan, Knob.CPU_WEIGHT)


def test_a_class_has_no_effect_if_one_runtime_runs_every_class():
    served = Runtimes(cri=TRIXIE.cri, oci=RUNC, every_class=True)
    assert served.of_class("kata", "kata-fc") is served
    assert served.of_class("") is served
