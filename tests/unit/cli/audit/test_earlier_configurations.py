"""Values that an earlier configuration or size has left, and faults that are known of kubelets.

The numbers are those of public measurements of MemoryQoS (128Mi of 256Mi under TieredReservation and a factor of 0.9;
the gate off; 192Mi of 384Mi), and of kubernetes#138760, #142569 and #142572.
"""

import json

import pytest

from memqos.engine.answer.succession import succession
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts, ReservationPolicy
from tests.manifests import pods_of

GI = 1 << 30
ON = {
    "featureGates": {"MemoryQoS": True}, "memoryThrottlingFactor": 0.9, "memoryReservationPolicy": "TieredReservation",
}  # fmt: skip
OFF = {"featureGates": {"MemoryQoS": False}}


def config(fields):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd",
        **fields,
    }  # fmt: skip


def pod(request, limit, *, generation=None, restarts=None, policy=None):
    """The pod web; with a status if restarts are given."""
    amounts = {"requests": {"cpu": "100m", "memory": request}, "limits": {"memory": limit}}
    container = {"name": "app", "image": "x", "resources": amounts}
    found = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "u-1"},
        "spec": {"containers": [container]},
    }  # fmt: skip
    if generation is not None:
        found["metadata"]["generation"] = generation
    if restarts is not None:
        status = {
            "name": "app", "restartCount": restarts, "state": {"running": {"startedAt": "2026-06-01T00:00:00Z"}},
            "allocatedResources": amounts["requests"], "resources": amounts,
        }  # fmt: skip
        found["status"] = {"phase": "Running", "containerStatuses": [status]}
    return found


@pytest.fixture
def node(tmp_path):
    """The tree of a node that holds this release's values for the pod, with these files changed."""

    def make(one, fields, release="1.37", **changed):
        settings = KubeletSettings(
            feature_gates=fields.get("featureGates", {}),
            throttling_factor=fields.get("memoryThrottlingFactor"),
            memory_reservation_policy=ReservationPolicy(fields.get("memoryReservationPolicy", "None")),
        )
        runtimes = Runtimes(cri=traits_of("containerd", "2.1.4"), oci=traits_of("runc", "1.3.3"), systemd=257)
        kubelet = Kubelet.of(
            node=NodeFacts(memory=16 * GI, cpus=4), release=release, settings=settings, driver=CgroupDriver.SYSTEMD,
            runtimes=runtimes,
        )  # fmt: skip
        bare = {name: part for name, part in one.items() if name != "status"}
        plan = expect(pods_of(json.dumps(bare).encode(), "p.json"), kubelet)
        cgroups = {}
        for cgroup in plan.cgroups():
            path = plan.layout.container(cgroup.path, "c1") if cgroup.container else cgroup.path
            cgroups[str(path)] = {knob.value: str(one.value) for knob, one in cgroup.knobs.items()}
        [planned] = plan.pods
        own, container = str(planned.cgroup.path), str(plan.layout.container(planned.cgroup.path, "c1"))
        cgroups[container]["oom_score_adj"] = str(planned.containers[0].oom_score_adj)
        for name, text in changed.items():
            level, _, knob = name.partition("_")
            file = knob if knob == "oom_score_adj" else knob.replace("_", ".", 1)
            cgroups[container if level == "container" else own][file] = text
        tree = {
            "cgroups": cgroups, "containers": {"c1": ["web", "app", "u-1"]}, "kubelet": f"v{release}.0",
            "node": {
                "mem_total_kib": 16 << 20, "swap_total_kib": 0, "cpus": 4, "systemd": "systemd 257",
                "containerd": "containerd github.com/containerd/containerd v2.1.4", "runc": "runc version 1.3.3",
            },
            "config": config(fields), "pods": [one],
        }  # fmt: skip
        file = tmp_path / "tree.json"
        file.write_text(json.dumps(tree))
        return file

    return make


@pytest.fixture
def written(tmp_path):
    def write(name, document):
        file = tmp_path / name
        file.write_text(json.dumps(document))
        return file

    return write


def verdicts(out):
    """(subject, knob) of findings that do not conform, to verdict, setter, and remarks."""
    return {
        (one["subject"], one["knob"]): (one["verdict"], one["set_by"], one["evidence"])
        for one in json.loads(out)["findings"] if one["verdict"] != "conforms"
    }  # fmt: skip


POD, CONTAINER = "pod default/web", "container app of pod default/web"
LEFT = {"pod_memory_low": "134217728", "container_memory_low": "134217728", "container_memory_high": "255012864"}


def test_a_rollback_of_memory_qos(told, node, written):
    tree = node(pod("128Mi", "256Mi"), OFF, **LEFT)
    code, out, _ = told("--tree", tree, "--json")
    assert code == 1
    assert set(verdicts(out)) == {(POD, "memory.low"), (CONTAINER, "memory.low"), (CONTAINER, "memory.high")}
    code, out, _ = told("--tree", tree, "--was-config", written("on.json", config(ON)))
    assert (code, " 0 deviate, " in out) == (0, True)
    for name, value, subject in (
        ("memory.low", "134217728", POD), ("memory.low", "134217728", CONTAINER),
        ("memory.high", "255012864", CONTAINER),
    ):  # fmt: skip
        assert f"on.json: the pods ran through the change: left {name} {value} of {subject}" in out


def test_an_earlier_configuration_explains_its_own_values_alone(told, node, written):
    tree = node(pod("128Mi", "256Mi"), OFF, **{**LEFT, "container_memory_high": "255016960"})
    code, out, _ = told("--tree", tree, "--was-config", written("on.json", config(ON)), "--json")
    assert (code, set(verdicts(out))) == (1, {(CONTAINER, "memory.high")})


def test_the_policy_goes_back_to_none(told, node, written):
    fields = {"featureGates": {"MemoryQoS": True}, "memoryThrottlingFactor": 0.9}
    tree = node(pod("128Mi", "256Mi"), fields, pod_memory_low="134217728", container_memory_low="134217728")
    assert told("--tree", tree)[0] == 1
    assert told("--tree", tree, "--was-config", written("on.json", config(ON)))[0] == 0


def test_a_rollback_and_a_resize(told, node, written):
    """192Mi of 384Mi with the gate off: memory.max 402653184 and memory.high max are new, both memory.low are not."""
    now = pod("192Mi", "384Mi")
    tree = node(now, OFF, pod_memory_low="134217728", container_memory_low="134217728", container_oom_score_adj="993")
    found = json.loads(tree.read_text())["cgroups"]
    assert {files["memory.max"] for path, files in found.items() if "podu_1" in path} == {"402653184"}
    before, after = written("on.json", config(ON)), written("old.json", pod("128Mi", "256Mi"))
    assert told("--tree", tree, "--was-config", before)[0] == 1
    code, out, _ = told("--tree", tree, "--was-config", before, "--was-pods", after)
    assert (code, " 0 deviate, 0 not observable" in out) == (0, True)
    assert "old.json: the pods ran through the change: left oom_score_adj 993 of container app" in out


def test_a_resize_alone(told, node, written):
    now = pod("1Gi", "2Gi")
    tree = node(now, {}, container_oom_score_adj="993")
    assert told("--tree", tree)[0] == 1
    assert told("--tree", tree, "--was-pods", written("old.json", pod("128Mi", "256Mi")))[0] == 0
    # A pod without an earlier size is as it is now.
    other = pod("128Mi", "256Mi") | {"metadata": {"name": "other"}}
    assert told("--tree", tree, "--was-pods", written("old.json", other))[0] == 1


@pytest.mark.parametrize(("release", "name", "more"), [
    ("1.37", "kubernetes#142572", {}), ("1.36", "kubernetes#140262", {}),
    ("1.37", "kubernetes#142572", {"generation": 2, "restarts": 0}),
])  # fmt: skip
def test_a_request_that_changed_alone(told, node, release, name, more):
    tree = node(pod("400Mi", "512Mi", **more), ON, release, pod_memory_low="268435456")
    code, out, _ = told("--tree", tree, "--json")
    [(verdict, setter, evidence)] = verdicts(out).values()
    assert (code, verdict, setter, name in evidence["known"]) == (0, "known", "the kubelet", True)
    code, out, _ = told("--tree", tree)
    assert "memory.low of pod default/web is 268435456, known, expected 419430400" in out
    assert out.splitlines()[-1].endswith(" 0 deviate, 1 known, 0 not observable")


def test_a_request_that_was_raised_to_its_limit(told, node):
    tree = node(pod("512Mi", "512Mi"), ON, container_memory_high="510025728")
    code, out, _ = told("--tree", tree, "--json")
    [(verdict, setter, evidence)] = verdicts(out).values()
    assert (code, verdict, setter, "kubernetes#142569" in evidence["known"]) == (0, "known", "the kubelet", True)


@pytest.mark.parametrize(
    ("sizes", "held"), [(("1536Mi", "1610612736"), "183500800"), (("5153960729", ""), "255066112")]
)
@pytest.mark.parametrize("more", [{}, {"generation": 3, "restarts": 4}])
def test_a_pod_whose_container_did_not_run(told, node, sizes, held, more):
    tree = node(pod(sizes[0], sizes[0], **more), {}, "1.34", pod_memory_max=held)
    code, out, _ = told("--tree", tree, "--json")
    [(verdict, setter, evidence)] = verdicts(out).values()
    assert (code, verdict, setter, "kubernetes#138760" in evidence["known"]) == (0, "known", "the kubelet", True)


@pytest.mark.parametrize("case", [
    # Never resized, or running all the time.
    ("1.34", pod("1536Mi", "1536Mi", generation=1, restarts=4), {}, {"pod_memory_max": "183500800"}, "the kubelet"),
    ("1.34", pod("1536Mi", "1536Mi", generation=3, restarts=0), {}, {"pod_memory_max": "183500800"}, "the kubelet"),
    ("1.37", pod("400Mi", "512Mi", generation=1, restarts=0), ON, {"pod_memory_low": "268435456"}, "the kubelet"),
    # In these releases nothing is resized.
    ("1.26", pod("1536Mi", "1536Mi"), {}, {"pod_memory_max": "183500800"}, "the kubelet"),
    # A value that no size of the pod has.
    ("1.37", pod("512Mi", "512Mi"), ON, {"container_memory_high": "536870912"}, "unknown writer"),
    ("1.37", pod("512Mi", "512Mi", generation=1), ON, {"container_memory_high": "510025728"}, "unknown writer"),
    ("1.37", pod("400Mi", "512Mi"), ON, {"pod_memory_low": "0"}, "the kubelet"),
])  # fmt: skip
def test_what_no_fault_of_a_kubelet_explains(told, node, case):
    release, one, fields, changed, setter = case
    code, out, _ = told("--tree", node(one, fields, release, **changed), "--json")
    [(verdict, found, evidence)] = verdicts(out).values()
    assert (code, verdict, found) == (1, "deviates", setter)
    # The current plan cannot show which program left a memory QoS value there.
    memory_qos = not any(name.endswith("max") for name in changed)
    assert ("--was-config" in evidence.get("perhaps", "")) is memory_qos


def test_succession_is_what_expect_prints():
    """The same rules: `expect --diff-config --running` keeps these three values, too."""
    one = pods_of(json.dumps(pod("128Mi", "256Mi")).encode(), "p.json")
    before, after = (
        Kubelet.of(node=NodeFacts(memory=16 * GI, cpus=4), release="1.37", settings=settings)
        for settings in (
            KubeletSettings(
                feature_gates={"MemoryQoS": True}, throttling_factor=0.9,
                memory_reservation_policy=ReservationPolicy.TIERED,
            ),
            KubeletSettings(feature_gates={"MemoryQoS": False}),
        )
    )  # fmt: skip
    [found] = succession(expect(one, before), expect(one, after)).pods
    assert str(found.cgroup.knobs["memory.low"].value) == LEFT["pod_memory_low"]
