"""Forms of configurations, flags and nodes that users have: how `expect` and `audit` read each."""

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


def test_an_assumption_about_containerd_is_noted(planned):
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
    assert "cgroupfs is configured, but the cgroups of this node have the names that systemd gives" in err
    [remark] = json.loads(out)["remarks"]
    assert remark["about"] == "cgroupDriver"
    _, _, err = told("driver-from-cri", "audit", "--tree", "tree-nodriver.json", "--pods", "pod.yaml")
    assert err == ""


def test_an_option_for_another_driver_is_noted(told):
    code, _, err = told(
        "driver-from-cri", "audit", "--tree", "tree-nodriver.json", "--pods", "pod.yaml", "--driver", "cgroupfs"
    )
    assert code == 5
    assert "cgroupfs is given, but the cgroups of this node have the names that systemd gives: leave it out" in err


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


def kubepods(document):
    [cgroup] = [knobs for (path, _), knobs in document["by_place"].items() if path.count("/") == 1]
    return cgroup


FORMS = ("pod.yaml", "--kubernetes", "1.34")


def test_files_merge_as_drop_ins_do(planned):
    """EKS nodeadm: systemd of the first file; kubeReserved of both: cpu 70m and memory 1Gi; swap of the second."""
    files = ("--kubelet-config", "eks-base.json", "--kubelet-config", "eks-40-user.conf")
    document, err = planned("config-forms", *FORMS, *files, "--swap", "4Gi")
    assert (document["driver"], err) == ("systemd", "")
    assert kubepods(document)["memory.max"] == "7516192768"
    assert kubepods(document)["cpu.weight"] == "154"
    # 256Mi of 8Gi of memory, of 4Gi of swap.
    assert container_knobs(document, "app")["memory.swap.max"] == "134217728"
    reasons = [one["reason"] for one in document["cgroups"][0]["knobs"].values()]
    assert "eks-40-user.conf:1" in json.dumps(reasons)


def test_a_folder_of_drop_ins(planned, tmp_path):
    shutil.copy(CASES / "config-forms" / "eks-40-user.conf", tmp_path / "40-user.conf")
    (tmp_path / "40-user.conf.bak").write_text("not read")
    files = ("--kubelet-config", "eks-base.json", "--kubelet-config", tmp_path)
    document, err = planned("config-forms", *FORMS, *files)
    assert kubepods(document)["memory.max"] == "7516192768"
    assert "skipped 40-user.conf.bak" in err


@pytest.mark.parametrize("option", ["--kubelet-flags", "--kubelet-config"])
def test_flags_of_aks(planned, option):
    document, err = planned("config-forms", *FORMS, option, "aks-flags.txt")
    assert (document["driver"], err) == ("systemd", "")
    assert kubepods(document)["memory.max"] == str((8192 - 1638) << 20)


def test_flags_win_over_files(planned):
    files = ("--kubelet-config", "eks-base.json", "--kubelet-flags", "--kube-reserved=memory=2Gi --frobnicate")
    document, err = planned("config-forms", *FORMS, *files)
    assert kubepods(document)["memory.max"] == str(6 << 30)
    assert kubepods(document)["cpu.weight"] == "157"
    assert "--frobnicate: memqos does not know this flag" in err
    assert "--frobnicate" in [one["about"] for one in document["remarks"]]


def test_configz(planned, told):
    document, err = planned("config-forms", *FORMS, "--kubelet-config", "configz.json", "--capacity-memory", "64Gi")
    assert (document["driver"], err) == ("systemd", "")
    assert kubepods(document)["memory.max"] == str((65536 - 8362) << 20)
    code, _, err = told("config-forms", "expect", *FORMS, "--kubelet-config", "configz.json")
    assert code == 4
    assert "more memory is reserved" in err


def test_kubeadm_and_the_release_that_it_names(planned):
    document, err = planned("config-forms", "pod.yaml", "--kubelet-config", "kubeadm.yaml")
    assert (document["release"], document["driver"], err) == ("1.34", "systemd", "")
    assert kubepods(document)["memory.max"] == str((8192 - 1500) << 20)


def test_a_node_object(planned):
    """Its release and capacity are taken, its allocatable is compared, and its runtime reports the driver."""
    files = ("--kubelet-config", "eks-base.json", "--kubelet-config", "eks-40-user.conf")
    document, err = planned("config-forms", "pod.yaml", "--node", "node.json", *files)
    assert document["release"] == "1.34"
    assert kubepods(document)["memory.max"] == str((8039796 << 10) - (1 << 30))
    assert "node.json: status.allocatable.memory: the Node reports 6888564Ki, this configuration leaves " in err
    assert "containerd 2.1.4 reports its SystemdCgroup setting" in err
    assert "status.allocatable.cpu" not in err


def test_a_node_object_in_the_place_of_a_configuration(told):
    code, _, err = told("config-forms", "expect", *FORMS, "--kubelet-config", "node.json")
    assert code == 4
    assert "this is a Node, not a KubeletConfiguration" in err
    assert "Give it with --node." in err


def test_no_release_at_all(told):
    code, _, err = told("config-forms", "expect", "pod.yaml", "--kubelet-config", "eks-base.json")
    assert code == 4
    assert "Missing option '--kubernetes'" in err


def test_a_configuration_named_by_flags_is_required(told):
    code, _, err = told("config-forms", "expect", *FORMS, "--kubelet-flags", "--config=/var/lib/kubelet/config.yaml")
    assert code == 4
    assert "Give that file with --kubelet-config." in err


def test_a_difference_between_sets_of_files(told):
    both = ("--kubelet-config", "eks-base.json", "--diff-config", "eks-base.json", "--diff-config", "eks-40-user.conf")
    code, out, _ = told("config-forms", "expect", *FORMS, *both)
    assert code == 0
    assert out.startswith("1.34 with eks-base.json -> 1.34 with eks-base.json, eks-40-user.conf: ")


def test_an_audit_takes_flags_and_several_files(told):
    tree = ("audit", "--tree", "tree-nodriver.json", "--pods", "pod.yaml")
    code, out, _ = told("driver-from-cri", *tree, "--kubelet-flags", "--system-reserved=memory=1Gi")
    assert code == 1
    assert "memory.max of kubepods.slice is 17179869184, expected 16106127360" in out
    eks = CASES / "config-forms"
    files = ("--kubelet-config", eks / "eks-base.json", "--kubelet-config", eks / "eks-40-user.conf")
    code, out, _ = told("driver-from-cri", *tree, *files)
    assert "memory.max of kubepods.slice is 17179869184, expected 16106127360" in out
