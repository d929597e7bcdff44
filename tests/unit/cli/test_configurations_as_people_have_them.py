"""Configurations, flags and nodes as people have them: what `expect` and `audit` make of each form."""

import json
import shutil
from pathlib import Path

import pytest

from memqos.cli.main import run

CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture
def told(capsys, monkeypatch):
    """Run memqos in a case's folder: the exit code, standard output, standard error."""

    def tell(case, *arguments):
        monkeypatch.chdir(CASES / case)
        code = run([str(one) for one in arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


@pytest.fixture
def planned(told):
    """The plan as JSON, its knobs by the end of the cgroup's path and the container, and what was noted."""

    def plan(case, *arguments):
        code, out, err = told(case, "expect", *arguments, "--json")
        assert code == 0, err
        document = json.loads(out)
        document["by_place"] = {
            (one["path"], one["container"] or ""): {name: knob["value"] for name, knob in one["knobs"].items()}
            for one in document["cgroups"]
        }
        return document, err

    return plan


def container_knobs(document, name):
    [knobs] = [knobs for (_, container), knobs in document["by_place"].items() if container == name]
    return knobs


def test_all_alpha_turns_memory_qos_on_where_it_is_alpha(planned):
    document, _ = planned("allalpha", "pod.yaml", "--kubernetes", "1.36", "--kubelet-config", "alpha.yaml")
    assert container_knobs(document, "app")["memory.high"] == "510025728"


def test_all_beta_turns_memory_qos_off_where_it_is_beta(planned):
    document, _ = planned("allalpha", "pod.yaml", "--kubernetes", "1.37", "--kubelet-config", "nobeta.yaml")
    assert container_knobs(document, "app")["memory.high"] == "max"


def test_pod_level_resources_by_the_stage_of_the_release(planned):
    on, _ = planned("allalpha", "podlevel.yaml", "--kubernetes", "1.32", "--kubelet-config", "alpha.yaml")
    off, _ = planned("allalpha", "podlevel.yaml", "--kubernetes", "1.34", "--kubelet-config", "nobeta.yaml")
    assert [pod["qos"] for pod in on["pods"] + off["pods"]] == ["Burstable", "BestEffort"]
    assert container_knobs(on, "a")["memory.max"] == "536870912"
    assert container_knobs(off, "a")["memory.max"] == "max"


def test_a_named_gate_wins(planned):
    named = ("--set", "featureGates.MemoryQoS=false")
    document, err = planned("allalpha", "pod.yaml", "--kubernetes", "1.36", "--kubelet-config", "alpha.yaml", *named)
    assert container_knobs(document, "app")["memory.high"] == "max"
    assert err == ""


def test_the_driver_that_crio_reports(planned):
    runtime = ("--runtime", "cri-o@1.36+crun@1.21")
    document, err = planned("driver-from-cri", "pod.yaml", "--kubernetes", "1.36", *runtime)
    assert document["driver"] == "systemd"
    assert "memqos: note: cgroupDriver: systemd is assumed" in err
    assert "systemd is assumed" in document["remarks"][0]["what"]
    earlier, err = planned("driver-from-cri", "pod.yaml", "--kubernetes", "1.30", *runtime)
    assert (earlier["driver"], err) == ("cgroupfs", "")
    said, err = planned("driver-from-cri", "pod.yaml", "--kubernetes", "1.36", *runtime, "--driver", "cgroupfs")
    assert (said["driver"], err) == ("cgroupfs", "")


def test_what_is_assumed_of_containerd_is_told(planned):
    document, err = planned(
        "driver-from-cri", "pod.yaml", "--kubernetes", "1.36", "--runtime", "containerd@2.1.4+runc@1.3.3"
    )
    assert document["driver"] == "cgroupfs"
    assert "containerd 2.1.4 reports its SystemdCgroup setting, which is not given here" in err


@pytest.mark.parametrize("tree", ["tree-cgroupfs.json", "tree-nodriver.json"])
def test_a_tree_is_judged_by_the_driver_that_it_shows(told, tree):
    code, out, _ = told("driver-from-cri", "audit", "--tree", tree, "--pods", "pod.yaml")
    assert code == 0
    assert "52 conform, 0 deviate, 0 not observable" in out


def test_a_configuration_that_names_another_driver_is_named(told):
    _, out, err = told("driver-from-cri", "audit", "--tree", "tree-cgroupfs.json", "--pods", "pod.yaml", "--json")
    assert "cgroupfs is configured, and the cgroups of this node have the names that systemd gives" in err
    [remark] = json.loads(out)["remarks"]
    assert remark["about"] == "cgroupDriver"
    _, _, err = told("driver-from-cri", "audit", "--tree", "tree-nodriver.json", "--pods", "pod.yaml")
    assert err == ""


def test_a_person_who_names_another_driver_is_told(told):
    code, _, err = told(
        "driver-from-cri", "audit", "--tree", "tree-nodriver.json", "--pods", "pod.yaml", "--driver", "cgroupfs"
    )
    assert code == 5
    assert "cgroupfs is said, and the cgroups of this node have the names that systemd gives: leave it out" in err


def test_a_factor_with_the_gate_off(told, tmp_path):
    arguments = ("expect", "pod.yaml", "--kubernetes", "1.37", "--kubelet-config")
    code, out, err = told("factor-gate-off-137", *arguments, "kubelet.yaml")
    assert (code, out) == (4, "")
    assert "kubelet.yaml:4: memoryThrottlingFactor: the kubelet of 1.37 does not start with a factor (0.8)" in err
    text = (CASES / "factor-gate-off-137" / "kubelet.yaml").read_text()
    (tmp_path / "former.yaml").write_text(text.replace("0.8", "0.9"))
    code, _, err = told("factor-gate-off-137", *arguments, tmp_path / "former.yaml")
    assert code == 0
    assert "the factor has no effect: MemoryQoS is off" in err
    code, _, _ = told(
        "factor-gate-off-137", "expect", "pod.yaml", "--kubernetes", "1.36", "--kubelet-config", "kubelet.yaml"
    )
    assert code == 0


CLAIMS = """apiVersion: v1
kind: Pod
metadata: {name: web, uid: aaaaaaaa-0000-0000-0000-000000000001}
spec:
  nodeName: node-a
  resourceClaims: [{name: gpu, resourceClaimName: gpu-x7}]
  containers:
  - {name: app, image: nginx, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {memory: 1Gi}}}
status:
  nodeAllocatableResourceClaimStatuses: [{resourceClaimName: gpu-x7, containers: [app], resources: {memory: 2Gi}}]
"""


def test_claims_that_count_are_refused_by_name(told, tmp_path):
    (tmp_path / "pod.yaml").write_text(CLAIMS)
    arguments = ("expect", tmp_path / "pod.yaml", "--kubernetes", "1.37")
    gate = ("--set", "featureGates.DRANodeAllocatableResources=true")
    code, out, err = told("allalpha", *arguments, *gate)
    assert (code, out) == (4, "")
    assert "spec.resourceClaims: pod default/web: the pod has resource claims (gpu, gpu-x7 (memory 2Gi))" in err
    code, _, err = told("allalpha", *arguments)
    assert code == 0
    assert "do not count in its cgroups: the feature gate DRANodeAllocatableResources is off in 1.37" in err


def test_claims_that_count_are_not_observable(told, tmp_path):
    (tmp_path / "pod.yaml").write_text(CLAIMS)
    shutil.copy(CASES / "driver-from-cri" / "tree-nodriver.json", tmp_path / "tree.json")
    gate = ("--set", "featureGates.DRANodeAllocatableResources=true")
    tree = ("audit", "--tree", tmp_path / "tree.json", "--kubernetes", "1.37", "--pods", tmp_path / "pod.yaml")
    _, out, _ = told("allalpha", *tree, *gate, "--json")
    findings = json.loads(out)["findings"]
    of_pod = {one["verdict"] for one in findings if "web" in one["subject"]}
    assert of_pod == {"not observable"}
    assert {"memory.max", "oom_score_adj"} <= {one["knob"] for one in findings if "web" in one["subject"]}
