"""Command lines of kubelets, in their usual forms."""

import pytest

from memqos.catalog.kubelet_config import load_settings
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupDriver
from memqos.model.quantity import Quantity

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
BASE = HEAD + "kubeReserved: {cpu: 70m, memory: 442Mi}\nfeatureGates: {MemoryQoS: true, NodeSwap: true}\n"


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base.yaml"
    path.write_text(BASE)
    return path


def flagged(*flags, config=None, overrides=()):
    return load_settings(config, overrides, flags)


def notes(*flags, config=None):
    return [(note.field, note.what) for note in flagged(*flags, config=config).notes]


def test_every_flag_about_memory():
    found = flagged(
        "--cgroup-driver=systemd --cgroup-root /pods --cgroups-per-qos --cpu-cfs-quota=false "
        "--cpu-cfs-quota-period=5ms --cpu-manager-policy=static --enforce-node-allocatable=pods,kube-reserved "
        "--eviction-hard=memory.available<5%,nodefs.available<10% --fail-swap-on=false "
        "--feature-gates=MemoryQoS=true,NodeSwap=false --kube-reserved=cpu=100m,memory=1638Mi,pid=1000 "
        "--kube-reserved-cgroup=/runtime --system-reserved memory=1Gi --system-reserved-cgroup=/system "
        "--memory-manager-policy=Static --pod-max-pids=4096 --qos-reserved=memory=50% "
        "--reserved-memory 0:memory=1Gi,hugepages-2Mi=2Gi --reserved-memory 1:memory=512Mi "
        "--topology-manager-policy=restricted --topology-manager-scope=pod "
        "--topology-manager-policy-options=prefer-closest-numa-nodes=true"
    )
    assert found.notes == ()
    assert (found.cgroup_driver, found.cgroup_root, found.cgroups_per_qos) == (CgroupDriver.SYSTEMD, "/pods", True)
    assert (found.cpu_cfs_quota, found.cpu_cfs_quota_period_us, found.cpu_manager_policy) == (False, 5000, "static")
    assert found.enforce_node_allocatable == ("pods", "kube-reserved")
    assert found.eviction_hard == {"memory.available": "5%", "nodefs.available": "10%"}
    assert found.fail_swap_on is False
    assert found.feature_gates == {"MemoryQoS": True, "NodeSwap": False}
    assert found.kube_reserved == {
        "cpu": Quantity.parse("100m"), "memory": Quantity.parse("1638Mi"), "pid": Quantity.parse("1000"),
    }  # fmt: skip
    assert (found.kube_reserved_cgroup, found.system_reserved_cgroup) == ("/runtime", "/system")
    assert found.system_reserved == {"memory": Quantity.parse("1Gi")}
    assert (found.memory_manager_policy, found.pod_pids_limit, found.qos_reserved) == ("Static", 4096, {"memory": 50})
    assert found.reserved_memory == (
        (0, {"memory": Quantity.parse("1Gi"), "hugepages-2Mi": Quantity.parse("2Gi")}),
        (1, {"memory": Quantity.parse("512Mi")}),
    )
    assert (found.topology_manager_policy, found.topology_manager_scope) == ("restricted", "pod")
    assert found.topology_manager_policy_options == {"prefer-closest-numa-nodes": "true"}
    assert found.origin["kubeReserved.memory"] == "--kube-reserved (--kubelet-flags)"


def test_a_flag_replaces_its_field_and_gates_merge(base):
    """Source: server.kubeletConfigFlagPrecedence."""
    found = flagged("--kube-reserved=memory=2Gi --feature-gates=NodeSwap=false", config=base)
    assert found.kube_reserved == {"memory": Quantity.parse("2Gi")}
    assert found.feature_gates == {"MemoryQoS": True, "NodeSwap": False}
    assert found.origin["featureGates.MemoryQoS"] == f"{base}:4"
    assert found.origin["featureGates.NodeSwap"] == "--feature-gates (--kubelet-flags)"


def test_flags_longer_than_the_name_of_a_file():
    """More than 255 bytes: pathlib raises."""
    many = ",".join(f"gate{index}=true" for index in range(40))
    assert flagged(f"--feature-gates={many} --pod-max-pids=7").pod_pids_limit == 7


def test_flags_of_one_name_add_up_and_the_last_scalar_wins():
    found = flagged("--kube-reserved=cpu=1 --kube-reserved=memory=1Gi,cpu=2 --cgroup-root=/a", "--cgroup-root=/b")
    assert found.kube_reserved == {"cpu": Quantity.parse("2"), "memory": Quantity.parse("1Gi")}
    assert found.cgroup_root == "/b"
    found = flagged("--enforce-node-allocatable=pods --enforce-node-allocatable=kube-reserved")
    assert found.enforce_node_allocatable == ("pods", "kube-reserved")


def test_overrides_win_over_flags(base):
    found = flagged("--kube-reserved=memory=2Gi", config=base, overrides=["kubeReserved={memory: 3Gi}"])
    assert found.kube_reserved == {"memory": Quantity.parse("3Gi")}
    assert found.origin["kubeReserved.memory"] == "--set kubeReserved"


UNIT = r"""# /etc/systemd/system/kubelet.service.d/10-kubeadm.conf
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_EXTRA_ARGS=--kube-reserved=memory=1Gi --v=2" 'OTHER=x'
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS ${KUBELET_EXTRA_ARGS} $KUBELET_CONFIG_ARGS \
  --cgroup-driver=systemd
"""
FORMS = {
    "environment": 'KUBELET_EXTRA_ARGS="--kube-reserved=memory=1Gi --cgroup-driver=systemd"\n',
    "exported": "export KUBELET_KUBEADM_ARGS='--kube-reserved=memory=1Gi --cgroup-driver systemd'\n",
    "cmdline": "/usr/bin/kubelet\0--kube-reserved=memory=1Gi\0--cgroup-driver\0systemd\0",
    "ps": "root 812 1 2 Nov20 ? 01:02:03 /usr/bin/kubelet --kube-reserved=memory=1Gi --cgroup-driver=systemd\n",
    "lines": "--kube-reserved=memory=1Gi\n# a comment\n--cgroup_driver=systemd\n",
    "continued": "--kube-reserved=memory=1Gi \\\n  --cgroup-driver=systemd\n",
    "json": '["--kube-reserved=memory=1Gi", "--cgroup-driver=systemd"]',
    "yaml": "- --kube-reserved=memory=1Gi\n- --cgroup-driver=systemd\n",
    "k3s": "debug: true\nkubelet-arg:\n- kube-reserved=memory=1Gi\nkubelet-arg+: --cgroup-driver=systemd\n",
    "unit": UNIT,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("option", ["flags", "config"])
def test_forms(form, option, tmp_path):
    path = tmp_path / f"{form}.txt"
    path.write_text(FORMS[form])
    found = flagged(str(path)) if option == "flags" else flagged(config=path)
    assert found.kube_reserved == {"memory": Quantity.parse("1Gi")}
    assert found.cgroup_driver is CgroupDriver.SYSTEMD
    assert found.origin["cgroupDriver"].startswith("--cgroup-driver (")
    assert str(path) in found.origin["cgroupDriver"]


def test_references_of_a_unit_to_other_files():
    told = dict(notes(UNIT))
    assert "give its text as a further --kubelet-flags" in told["EnvironmentFile=-/etc/default/kubelet"]
    assert "give the file that sets it" in told["$KUBELET_CONFIG_ARGS"]
    assert len(told) == 2


def test_k3s_has_its_own_settings():
    [(field, what)] = notes("kubelet-arg:\n- max-pods=50\n")
    assert field == "kubelet-arg"
    assert "/configz of the node has all of them" in what


def test_unrelated_flags_have_no_note():
    assert notes("--node-ip=10.0.0.7 --v 2 --rotate-certificates --hostname-override=x --kubeconfig /a") == []


@pytest.mark.parametrize(("flags", "field", "says"), [
    ("--kube-reservd=memory=1Gi", "--kube-reservd", "did you mean --kube-reserved?"),
    ("--frobnicate 3 --v=2", "--frobnicate", "'unknown flag: --frobnicate'"),
    ("--cgroups-per-qos false", "'false'", "it belongs to no flag: the kubelet refuses it"),
    ("--experimental-allocatable-ignore-eviction", "--experimental-allocatable-ignore-eviction (--kubelet-flags)",
     "do not count in the node's allocatable"),
    ("--config-dir=/etc/kubelet.d", "--config-dir", "the drop-ins in /etc/kubelet.d are not read from here"),
])  # fmt: skip
def test_flags_with_a_note(flags, field, says):
    [(named, what)] = notes(flags)
    assert named == field
    assert says in what


def test_a_configuration_file_named_in_flags(base):
    with pytest.raises(UsageError, match=r"the kubelet has its configuration in /var/lib/kubelet/config\.yaml"):
        flagged("--config=/var/lib/kubelet/config.yaml")
    assert notes("--config=/var/lib/kubelet/config.yaml", config=base) == []


@pytest.mark.parametrize(("flags", "says"), [
    ("--kube-reserved", "the flag needs a value"),
    ("--kube-reserved=memory", "'memory' is not name=value"),
    ("--kube-reserved=memory=much", "'much' is not a quantity"),
    ("--eviction-hard=memory.available=1Gi", "is not name<value"),
    ("--feature-gates=MemoryQoS=on", "'on' is neither true nor false"),
    ("--cgroups-per-qos=ja", "'ja' is neither true nor false"),
    ("--pod-max-pids=many", "'many' is not a whole number"),
    ("--reserved-memory=memory=1Gi", "is not NODE:memory=AMOUNT"),
    ("--cgroup-driver=openrc", "'openrc' is not one of"),
    ("--kube-reserved='memory=1Gi", "the flags do not end"),
])  # fmt: skip
def test_values_that_a_kubelet_refuses(flags, says):
    with pytest.raises(ManifestError) as caught:
        flagged(flags)
    assert says in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_texts_without_flags(tmp_path, base):
    with pytest.raises(UsageError, match="Give it with --kubelet-config"):
        flagged(str(base))
    with pytest.raises(UsageError, match="no such file"):
        flagged(str(tmp_path / "missing.txt"))
    (tmp_path / "empty").write_text("")
    for text in ("", "kube-reserved=memory=1Gi", "{a: =1}", "\0x", str(tmp_path / "empty")):
        with pytest.raises(UsageError, match="it contains no kubelet flags"):
            flagged(text)
    assert flagged("-v=2").notes == ()
    assert flagged("- --=3\n- --v=1, \n- '-'\n--kube-reserved=,cpu=1,\n--enforce-node-allocatable=").kube_reserved == {
        "cpu": Quantity.parse("1"),
    }  # fmt: skip
