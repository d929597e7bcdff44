"""A container that its runtime put outside its pod's cgroup, as a runtime with the other cgroup driver does."""

import json

from memqos.catalog.data import data_root

CASE = data_root() / "tests" / "cases" / "other-driver"
PLACE = (
    "/system.slice/containerd.service/kubepods-burstable-podaaaaaaaa_0000_0000_0000_000000000001.slice:cri-containerd:"
)


def test_the_container_deviates_with_its_place_and_the_cause(told):
    code, out, _ = told("--tree", CASE / "mismatch.json", "--pods", CASE / "pod.yaml")
    assert code == 1
    assert "cgroup of container app of pod default/web is none, expected there" in out
    assert f"its processes run in: {PLACE}" in out
    assert "its cgroup driver is cgroupfs, the kubelet's is systemd (containerd: SystemdCgroup = true" in out
    assert "41 conform, 1 deviate, 10 not observable" in out


def test_a_container_without_any_cgroup_is_not_observable(told, tmp_path):
    tree = json.loads((CASE / "mismatch.json").read_text())
    tree["cgroups"] = {path: files for path, files in tree["cgroups"].items() if not path.startswith("/system.slice")}
    (tmp_path / "tree.json").write_text(json.dumps(tree))
    code, out, _ = told("--tree", tmp_path / "tree.json", "--pods", CASE / "pod.yaml")
    assert code == 0
    assert "41 conform, 0 deviate, 10 not observable" in out


def test_another_root_is_named_with_the_option_that_sets_it(told):
    tree = ("--tree", CASE / "below-kubelet.json", "--pods", CASE / "pod.yaml")
    code, out, err = told(*tree)
    assert code == 5
    assert "0 conform, 0 deviate, 51 not observable" in out
    assert (
        "cgroupRoot: kubepods is /kubelet.slice/kubelet-kubepods.slice on this node, so its kubelet has cgroupRoot "
        "/kubelet: give --set cgroupRoot=/kubelet"
    ) in err
    code, out, err = told(*tree, "--set", "cgroupRoot=/kubelet")
    assert code == 0
    assert "52 conform, 0 deviate, 0 not observable" in out
    assert "cgroupRoot" not in err


def test_the_default_root_of_a_node_whose_configuration_names_one(told):
    tree = data_root() / "tests" / "cases" / "driver-from-cri" / "tree-nodriver.json"
    _, _, err = told("--tree", tree, "--pods", CASE / "pod.yaml", "--set", "cgroupRoot=/kubelet")
    assert "kubepods is /kubepods.slice on this node, so its kubelet has cgroupRoot /: give --set cgroupRoot=/" in err
