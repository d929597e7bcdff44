"""Annotations that make a CRI runtime write other values, by version and configuration."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.annotations import annotated, annotation_notes, pod_unmodelled, read_annotations
from memqos.engine.translate.runtimes import Allowance, Handler, Runtimes, Workload
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Bytes, Knob, Number, Text
from memqos.model.node import CgroupDriver
from tests.unit.engine.pods import NODE, container, pod

DOT = "io.kubernetes.cri-o.UnifiedCgroup.c"
OLD = "io.kubernetes.cri-o.UnifiedCgroup/c"
NEW = "unified-cgroup.crio.io/c"
BOTH = ("io.kubernetes.cri-o.UnifiedCgroup", "unified-cgroup.crio.io")
SENT = ContainerResources(memory_limit_in_bytes=64 << 20, unified={"memory.oom.group": "1"})


def crio(version, *allowed, cri="cri-o", **more):
    allowance = Allowance(allowed=allowed, **more)
    return Runtimes(cri=traits_of(cri, version), oci=traits_of("crun", "1.21"), allowance=allowance)


def entries(annotations, runtimes):
    return {**annotated(SENT, annotations, "c", runtimes).resources.unified}


@pytest.mark.parametrize(("version", "allowed", "names", "counts"), [
    ("1.24.6", BOTH[:1], (DOT,), DOT),
    ("1.34.11", BOTH[:1], (DOT, NEW, OLD), DOT),
    ("1.34.11", BOTH[:1], (NEW,), None),
    ("1.34.11", (), (DOT,), None),
    # Source: CRI-O 1.35 findV1KeyForContainerSpecific: the older name with a slash, and no more with a dot.
    ("1.35.0", BOTH, (DOT,), None),
    ("1.35.0", BOTH, (OLD,), OLD),
    ("1.36.3", BOTH, (OLD, NEW), NEW),
    ("1.36.3", BOTH[:1], (OLD, NEW), OLD),
    ("1.36.3", BOTH[1:], (OLD, NEW), NEW),
    ("1.36.3", BOTH[1:], (OLD,), None),
])  # fmt: skip
def test_which_name_counts(version, allowed, names, counts):
    given = {name: f"memory.high={number}" for number, name in enumerate(names, 40960)}
    found = annotated(SENT, given, "c", crio(version, *allowed))
    if counts is None:
        assert (found.resources, found.by) == (SENT, {})
    else:
        assert found.resources.unified["memory.high"] == given[counts].partition("=")[2]
        assert found.by == {"memory.high": counts}


@pytest.mark.parametrize(("text", "found"), [
    ("memory.high=8000000;memory.low=100000", {"memory.high": "8000000", "memory.low": "100000"}),
    (";memory.high=max;", {"memory.high": "max"}),
    ("memory.high=ODAwMDAwMA==", {"memory.high": "8000000"}),
    # Eight digits are valid base64, and CRI-O decodes them.
    ("memory.high=10485760", {"memory.high": "\ufffdN<\u7fb4"}),
    ("memory.oom.group=0", {"memory.oom.group": "0"}),
    ("cpu.max=100000 200000", {"cpu.max": "100000 200000"}),
    ("", {}),
])  # fmt: skip
def test_the_entries_of_a_text(text, found):
    assert entries({DOT: text}, crio("1.34.0", *BOTH)) == {**SENT.unified, **found}


def test_an_entry_without_a_value_is_the_runtimes_error():
    assert annotated(SENT, {DOT: "memory.high"}, "c", crio("1.34.0", *BOTH)).refusal == f'invalid annotation "{DOT}"'
    plan = expect([pod(annotations={DOT: "memory.high"})], kubelet("1.34.0"))
    assert plan.pods[0].containers[0].refusal == f'invalid annotation "{DOT}"'
    # The kernel refuses the decoded eight digits.
    plan = expect([pod(annotations={DOT: "memory.high=10485760"})], kubelet("1.34.0"))
    assert plan.pods[0].containers[0].refusal == "invalid value for 'memory.high': \ufffdN<\u7fb4"


def test_of_another_container_or_of_none():
    runtimes = crio("1.34.0", *BOTH)
    assert annotated(SENT, {}, "c", runtimes).resources is SENT
    assert entries({"io.kubernetes.cri-o.UnifiedCgroup.d": "memory.high=1"}, runtimes) == SENT.unified
    notes = dict(annotation_notes({"io.kubernetes.cri-o.UnifiedCgroup.d": "memory.high=1"}, ("c",), runtimes))
    assert notes == {"io.kubernetes.cri-o.UnifiedCgroup.d": "it has no effect: the pod has no container of this name"}


def kubelet(version, *allowed, driver=CgroupDriver.SYSTEMD, **more):
    return Kubelet.of(node=NODE, release="1.34", driver=driver, runtimes=crio(version, *(allowed or BOTH), **more))


@pytest.mark.parametrize("reasons", [True, False])
def test_the_annotation_wins_over_the_kubelet(reasons):
    """The literal values of the bug report that CRI-O's feature came with: whole pages of 4096 bytes."""
    text = "memory.high=8000000;memory.low=100000;memory.oom.group=0;foo.bar=1"
    one = pod(
        container(None, {"memory": "64Mi"}), container(None, {"memory": "64Mi"}, name="d"), annotations={DOT: text}
    )
    plan = expect([one, pod(name="q", annotations={"checksum/config": "1"})], kubelet("1.34.0"), reasons=reasons)
    own, other = (dict(found.cgroup.knobs) for found in plan.pods[0].containers)
    assert (own[Knob.MEMORY_HIGH].value, own[Knob.MEMORY_LOW].value) == (Bytes(7999488), Bytes(98304))
    assert (own[Knob.MEMORY_OOM_GROUP].value, other[Knob.MEMORY_OOM_GROUP].value) == (Number(0), Number(1))
    assert other[Knob.MEMORY_HIGH].written is ABSENT
    [first, second] = plan.pods[0].containers
    assert first.carried_out.unified["memory.high"] == "8000000"
    assert "memory.high" not in first.resources.unified
    assert second.carried_out is second.resources
    if reasons:
        reason = own[Knob.MEMORY_HIGH].reason
        assert "comes from a pod annotation" in reason.rule
        assert (reason.inputs[0].name, reason.inputs[0].value) == (f"annotation {DOT}", text)


def test_without_known_configuration_either_value_is_possible():
    unsure = crio("1.36.3", known=False)
    found = annotated(SENT, {NEW: "memory.high=40960"}, "c", unsure)
    assert found.by == {}
    assert found.unmodelled == {
        Knob.MEMORY_HIGH: f"the annotation {NEW} sets it, and it is unknown whether the runtime handler allows that: "
        "it would be 40960"
    }
    assert list(annotation_notes({NEW: "memory.high=40960"}, ("c",), unsure)) == []
    plan = expect([pod(annotations={NEW: "memory.high=40960"})], Kubelet.of(node=NODE, release="1.36", runtimes=unsure))
    high = plan.pods[0].containers[0].cgroup.knobs[Knob.MEMORY_HIGH]
    assert (high.written, high.shown) == (ABSENT, "not modelled")


@pytest.mark.parametrize(("runtimes", "name", "what"), [
    (crio("1.34.0"), DOT, ("it has no effect: cri-o 1.34.0 acts on it only where the runtime handler allows "
     "io.kubernetes.cri-o.UnifiedCgroup (allowed_annotations)")),
    (crio("1.35.1", *BOTH), DOT, f"it has no effect: cri-o 1.35.1 looks for {NEW}"),
    (crio("1.34.0", *BOTH), NEW, f"it has no effect: cri-o 1.34.0 looks for {DOT}"),
    (crio("", *BOTH), DOT, None),
    (crio("1.36.0"), "cpu-quota.crio.io", ("it has no effect: cri-o 1.36.0 acts on it only where the runtime handler "
     "allows cpu-quota.crio.io (allowed_annotations)")),
    (crio("1.36.0", "cpu-quota.crio.io"), "cpu-quota.crio.io", None),
    (crio("2.1.9", cri="containerd"), NEW, "it has no effect: containerd 2.1.9 does not read it"),
    (crio("2.1.9", cri="containerd"), "cpu-quota.crio.io", "it has no effect: containerd 2.1.9 does not read it"),
    (crio("2.1.9", cri="containerd"), "org.systemd.property.MemoryHigh", ("it has no effect: containerd 2.1.9 "
     "passes it on only if pod_annotations of the runtime allow it")),
    (crio("2.1.9", "org.systemd.*", cri="containerd"), "org.systemd.property.MemoryHigh", None),
    (crio("28.0.0", cri="docker"), "org.systemd.property.MemoryHigh", ("it has no effect: docker 28.0.0 does not read "
     "it")),
    (crio("1.36.0"), "blockio.resources.beta.kubernetes.io/pod", ("it selects a blockio class, which sets io "
     "files: a plan has none")),
    (crio("1.36.0"), "checksum/config", None),
])  # fmt: skip
def test_notes(runtimes, name, what):
    assert dict(annotation_notes({name: "x"}, ("c",), runtimes)) == ({} if what is None else {name: what})


def test_digits_that_are_base64_are_named():
    runtimes = crio("1.36.0", *BOTH)
    notes = dict(annotation_notes({NEW: "memory.high=10485760;memory.low=100000"}, ("c",), runtimes))
    what = "write the amount with a different number of digits, or in base64"
    assert notes == {NEW: f"CRI-O decodes memory.high=10485760 as base64: {what}"}
    assert list(annotation_notes({NEW: "memory.high=ODAwMDAwMA==;x"}, ("c",), runtimes)) == []


def test_the_newer_name_wins():
    given = {NEW: "memory.high=1", OLD: "memory.high=2"}
    assert dict(annotation_notes(given, ("c",), crio("1.36.0", *BOTH))) == {
        OLD: f"it has no effect: {NEW} takes precedence"
    }
    assert dict(annotation_notes(given, ("c",), crio("1.36.0", BOTH[0]))).keys() == {NEW}


def test_properties_of_the_scope_are_not_modelled():
    name = "org.systemd.property.MemoryHigh"
    text = {name: "uint64 4096", "org.systemd.property.TimeoutStopUSec": "uint64 1"}
    for runtimes in (crio("1.36.0", "org.systemd.property."), crio("2.1", "org.systemd.property.*", cri="containerd")):
        found = annotated(SENT, text, "c", runtimes)
        assert found.unmodelled == {
            Knob.MEMORY_HIGH: f"the annotation {name} sets a property of the scope, which is not modelled"
        }
    assert annotated(SENT, text, "c", crio("1.36.0")).unmodelled == {}
    assert annotated(SENT, text, "c", crio("28", cri="docker")).unmodelled == {}


@pytest.mark.parametrize(("annotations", "of_the_pod", "of_the_container"), [
    ({"cpu-quota.crio.io": "disable"}, True, True),
    ({"cpu-quota.crio.io": "enable"}, False, False),
    ({"cpu-quota.crio.io/c": "true"}, True, True),
    ({"cpu-quota.crio.io/d": "true"}, True, False),
    ({"cpu-shared.crio.io/c": "enable"}, True, True),
    ({"checksum": "1"}, False, False),
    ({}, False, False),
])  # fmt: skip
def test_annotations_that_remove_the_quota(annotations, of_the_pod, of_the_container):
    runtimes = crio("1.36.0", "cpu-quota.crio.io", "cpu-shared.crio.io")
    assert (Knob.CPU_MAX in pod_unmodelled(annotations, runtimes)) is of_the_pod
    assert (Knob.CPU_MAX in annotated(SENT, annotations, "c", runtimes).unmodelled) is of_the_container
    assert pod_unmodelled(annotations, crio("2.1", cri="containerd")) == {}
    settings = Kubelet.of(node=NODE, release="1.36", runtimes=runtimes)
    plan = expect([pod(container({"cpu": "1"}, {"cpu": "2"}), annotations=annotations)], settings)
    assert bool(plan.pods[0].cgroup.knobs[Knob.CPU_MAX].unmodelled) is of_the_pod
    assert bool(plan.pods[0].containers[0].cgroup.knobs[Knob.CPU_MAX].unmodelled) is of_the_container


MANAGEMENT = Workload(
    name="management", activation="target.workload.openshift.io/management", prefix="resources.workload.openshift.io",
    cpus="0-1", allowed=("unified-cgroup.crio.io",),
)  # fmt: skip
ACTIVE = {MANAGEMENT.activation: "{}"}


def test_a_workload_overrides_cpu():
    runtimes = crio("1.36.0", workloads=(MANAGEMENT,))
    own = {**ACTIVE, "resources.workload.openshift.io/c": '{"cpushares": 400, "cpulimit": 250}'}
    assert read_annotations({**own, "a": "b"}, runtimes) == tuple(sorted(own.items()))
    assert read_annotations({"resources.workload.openshift.io/c": "{}"}, runtimes) == ()
    found = annotated(SENT, own, "c", runtimes).resources
    assert (found.cpu_shares, found.cpu_quota, found.cpu_period, found.cpuset_cpus) == (400, 25000, 0, "0-1")
    found = annotated(SENT, ACTIVE, "c", runtimes)
    assert (found.resources.cpu_shares, found.resources.cpuset_cpus) == (0, "0-1")
    assert found.by == {"cpuset.cpus": MANAGEMENT.activation}
    plan = expect([pod(annotations=own)], Kubelet.of(node=NODE, release="1.36", runtimes=runtimes))
    weight = plan.pods[0].containers[0].cgroup.knobs[Knob.CPU_WEIGHT]
    # crun 1.21 converts linearly: 1 + (400 - 2) * 9999 / 262142.
    assert (weight.value, weight.reason.source) == (Number(16), "CRI-O MutateSpecGivenAnnotations")
    # The workload's allowance counts only for its pods.
    assert entries({**ACTIVE, NEW: "memory.high=1"}, runtimes)["memory.high"] == "1"
    assert entries({NEW: "memory.high=1"}, runtimes) == SENT.unified
    small = annotated(SENT, {**ACTIVE, "resources.workload.openshift.io/c": '{"cpulimit": 1, "cpuperiod": 50000, '
                             '"cpuset": "3"}'}, "c", runtimes).resources  # fmt: skip
    assert (small.cpu_quota, small.cpu_period, small.cpuset_cpus) == (1000, 50000, "3")


@pytest.mark.parametrize("text", ["[]", "x", '{"cpushares": "400"}', '{"cpuquota": true}', '{"cpuset": 1}'])
def test_a_malformed_workload_annotation_is_refused(text):
    own = {**ACTIVE, "resources.workload.openshift.io/c": text}
    refusal = annotated(SENT, own, "c", crio("1.36.0", workloads=(MANAGEMENT,))).refusal
    assert refusal.startswith('invalid annotation "resources.workload.openshift.io/c": ')


def test_a_handler_has_its_own_allowance():
    mine = Handler(oci=traits_of("crun", ""), allowance=Allowance(allowed=BOTH))
    runtimes = Runtimes(cri=traits_of("cri-o", "1.36.0"), oci=traits_of("crun", "1.21"), handlers={"mine": mine})
    one = pod(annotations={NEW: "memory.high=40960"})
    other = pod(name="q", runtime_class_name="mine", annotations={NEW: "memory.high=40960"})
    plan = expect([one, other], Kubelet.of(node=NODE, release="1.36", runtimes=runtimes))
    high = {found.name: found.containers[0].cgroup.knobs[Knob.MEMORY_HIGH].value for found in plan.pods}
    assert high["q"] == Bytes(40960)
    assert high["p"] != Bytes(40960)
    assert [one.field for one in plan.ignored] == [f"annotation {NEW} of pod default/p"]


def test_a_cpuset_by_annotation_is_planned_only_with_the_file():
    plan = expect([pod(annotations={NEW: "cpuset.cpus=1"})], kubelet("1.36.0"))
    assert Knob.CPUSET_CPUS not in plan.pods[0].containers[0].cgroup.knobs
    assert Text("1") != ABSENT


def test_no_annotations_are_none():
    assert read_annotations({}, crio("1.36.0")) == ()


def test_a_text_that_the_kernel_refuses_is_the_runtimes_error():
    plan = expect([pod(annotations={DOT: "memory.high=10485760"})], kubelet("1.34.0", driver=CgroupDriver.CGROUPFS))
    assert "memory.high" in plan.pods[0].containers[0].refusal


def test_a_workloads_annotation_without_a_limit_keeps_the_quota():
    own = {**ACTIVE, "resources.workload.openshift.io/c": '{"cpushares": 400}'}
    found = annotated(SENT, own, "c", crio("1.36.0", workloads=(MANAGEMENT,))).resources
    assert (found.cpu_shares, found.cpu_quota) == (400, 0)
