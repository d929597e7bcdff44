"""Files with a kubelet's configuration in them: /configz, kubeadm, ConfigMap, nodeadm, OpenShift."""

import json

import pytest

from memqos.catalog.kubelet_config import settings_of
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupDriver
from memqos.model.quantity import Quantity

INIT = """apiVersion: kubeadm.k8s.io/v1beta3
kind: InitConfiguration
nodeRegistration:
  kubeletExtraArgs: {system-reserved: memory=1Gi, node-ip: 10.0.0.1}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.34.2
"""
JOIN = """apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
nodeRegistration:
  kubeletExtraArgs:
  - {name: cgroup-driver, value: cgroupfs}
  - {name: kube-reserved, value: "memory=2Gi"}
"""
KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
kubeReserved: {memory: 1Gi}
"""
PROXY = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"


def read(text):
    return settings_of(text.encode(), "f.yaml")


def test_configz_has_the_effective_settings():
    text = json.dumps({"kubeletconfig": {"cgroupDriver": "systemd", "memoryThrottlingFactor": 0.9}})
    found = read(text)
    assert (found.cgroup_driver, found.effective) == (CgroupDriver.SYSTEMD, True)
    [note] = read(json.dumps({"kubeletconfig": {"cgroupDrivr": "systemd"}})).notes
    assert (note.field, note.origin) == ("cgroupDrivr", "f.yaml:1")
    assert note.what == "memqos does not know this field of a running kubelet, and assumes that it changes nothing"


def test_kubeadm_in_several_documents():
    found = read(f"{INIT}---\n{PROXY}---\n{KUBELET}")
    assert found.kube_reserved == {"memory": Quantity.parse("1Gi")}
    assert found.system_reserved == {"memory": Quantity.parse("1Gi")}
    assert found.origin["systemReserved"] == "--system-reserved (f.yaml:4)"
    assert found.kubernetes == "v1.34.2"
    assert (found.cgroup_driver, found.origin["cgroupDriver"]) == (CgroupDriver.SYSTEMD, "kubeadm's default")
    assert not found.effective


def test_kubeadm_without_a_kubelet_configuration():
    found = read(JOIN)
    assert found.cgroup_driver is CgroupDriver.CGROUPFS
    assert found.kube_reserved == {"memory": Quantity.parse("2Gi")}
    assert read(INIT).cgroup_driver is CgroupDriver.SYSTEMD


def test_kubeadm_with_a_driver_of_the_kubelets():
    found = read(f"{INIT}---\n{KUBELET}cgroupDriver: cgroupfs\n")
    assert (found.cgroup_driver, found.origin["cgroupDriver"]) == (CgroupDriver.CGROUPFS, "f.yaml:13")


def test_the_config_map_of_kubeadm():
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubelet-config"}}
    found = read(json.dumps({**data, "data": {"kubelet": KUBELET}}))
    assert found.kube_reserved == {"memory": Quantity.parse("1Gi")}
    assert found.origin["kubeReserved"] == "f.yaml data.kubelet:3"


def test_nodeadm():
    found = read(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n"
        "    config: {kubeReserved: {memory: 1Gi}}\n    flags: [--system-reserved=memory=2Gi]\n"
    )
    assert (found.kube_reserved, found.system_reserved) == (
        {"memory": Quantity.parse("1Gi")}, {"memory": Quantity.parse("2Gi")},
    )  # fmt: skip
    assert "nodeadm merges this onto a configuration of its own" in found.notes[0].what
    assert (found.cgroup_driver, found.origin["cgroupDriver"]) == (CgroupDriver.SYSTEMD, "nodeadm's default")


def test_openshift():
    found = read(
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\n"
        "spec: {kubeletConfig: {systemReserved: {memory: 3Gi}}}\n"
    )
    assert found.system_reserved == {"memory": Quantity.parse("3Gi")}
    assert "Machine Config Operator" in found.notes[0].what
    assert (found.cgroup_driver, found.origin["cgroupDriver"]) == (CgroupDriver.SYSTEMD, "OpenShift's default")


@pytest.mark.parametrize(("text", "says"), [
    (f"{KUBELET}---\n{KUBELET}", "expected one KubeletConfiguration, got 2 documents"),
    ("", "got 0 documents"),
    ("- a\n- b\n", "something else than a mapping of fields"),
    ("- {a: 1}\n", "something else than a mapping of fields"),
    ("maxPods: 3\n", "apiVersion: expected 'kubelet.config.k8s.io/v1beta1', got 'nothing'"),
    (f"{PROXY}---\nmaxPods: 3\n", "got 2 documents"),
    ("kubeletconfig: 3\n", "expected 'kubelet.config.k8s.io/v1beta1'"),
])  # fmt: skip
def test_files_without_a_configuration(text, says):
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert says in str(caught.value)


def test_a_file_of_kube_proxy_alone_configures_nothing():
    assert read(PROXY).origin == {}


def test_malformed_kubeadm_arguments_are_ignored():
    text = JOIN.replace("  - {name: cgroup-driver, value: cgroupfs}\n", "  - {value: x}\n  - plain\n  - {name: v}\n")
    assert read(text).kube_reserved == {"memory": Quantity.parse("2Gi")}
    assert read(INIT.replace("node-ip: 10.0.0.1", "node-ip: [1]")).system_reserved == {"memory": Quantity.parse("1Gi")}


@pytest.mark.parametrize("kind", ["Node", "NodeList"])
def test_nodes_belong_to_another_option(kind):
    with pytest.raises(UsageError, match="Give it with --node"):
        read(f"apiVersion: v1\nkind: {kind}\n")


def test_an_error_of_the_api_server_is_shown_as_one():
    """`kubectl get --raw …/configz > configz.json` of a node that does not exist."""
    with pytest.raises(
        UsageError, match=r'an answer of the API server and no KubeletConfiguration: nodes "n7" not found\.'
    ):
        read('{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes \\"n7\\" not found","code":404}')


def test_a_field_of_openshifts_spec_is_no_slip_of_a_kubelets():
    text = (
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\n"
        "spec:\n  kubeletConfig:\n    autoSizingReserved: true\n"
    )
    with pytest.raises(ManifestError, match=r":5: spec\.kubeletConfig\.autoSizingReserved: it is a field of spec"):
        read(text)


@pytest.mark.parametrize(("line", "step"), [
    ('memoryThrottlingFactor: "0.9"', "Write it without quotes: 0.9."),
    ('featureGates: {MemoryQoS: "true"}', "Write it without quotes: true."),
    ('podPidsLimit: "100"', "Write it without quotes: 100."), ('podPidsLimit: "many"', ""),
])  # fmt: skip
def test_a_value_in_quotes_is_a_text(line, step):
    """The kubelet does not start with these: a string is no number and no bool to its decoder."""
    with pytest.raises(ManifestError) as caught:
        read(f"{KUBELET}{line}\n")
    assert caught.value.next_step == step
