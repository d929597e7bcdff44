"""Several files of a configuration, merged as in the kubelet's --config-dir, with the place of each field."""

import pytest

from memqos.catalog.kubelet_config import load_settings
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupDriver, SwapBehavior
from memqos.model.quantity import Quantity

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.fixture
def files(tmp_path):
    """Files of configuration with these texts behind the head, in a folder; their paths."""

    def make(*texts, names=None):
        paths = [tmp_path / name for name in names or [f"{index}.conf" for index in range(len(texts))]]
        for path, text in zip(paths, texts, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(HEAD + text)
        return paths

    return make


def test_maps_merge_lists_are_replaced_and_scalars_win(files):
    base = (
        "cgroupDriver: systemd\nkubeReserved: {cpu: 70m, memory: 442Mi}\n"
        "enforceNodeAllocatable: [pods, kube-reserved]\nfeatureGates: {MemoryQoS: true, NodeSwap: true}\n"
    )
    over = (
        "kubeReserved: {memory: 1Gi}\nenforceNodeAllocatable: [pods]\nfeatureGates: {NodeSwap: false}\n"
        "memorySwap: {swapBehavior: LimitedSwap}\n"
    )
    first, second = files(base, over)
    found = load_settings([first, second])
    assert found.cgroup_driver is CgroupDriver.SYSTEMD
    assert found.kube_reserved == {"cpu": Quantity.parse("70m"), "memory": Quantity.parse("1Gi")}
    assert found.enforce_node_allocatable == ("pods",)
    assert found.feature_gates == {"MemoryQoS": True, "NodeSwap": False}
    assert found.swap_behavior is SwapBehavior.LIMITED
    assert found.origin["cgroupDriver"] == f"{first}:3"
    assert found.origin["kubeReserved.cpu"] == f"{first}:4"
    assert found.origin["kubeReserved.memory"] == f"{second}:3"
    assert found.origin["featureGates.MemoryQoS"] == f"{first}:6"
    assert found.origin["featureGates.NodeSwap"] == f"{second}:5"
    assert found.drop_ins == (str(second),)


def test_null_removes_a_field(files):
    base = "cgroupDriver: systemd\nkubeReserved: {cpu: 70m, memory: 442Mi}\nmemoryThrottlingFactor: 0.5\n"
    found = load_settings(files(base, "cgroupDriver: null\nkubeReserved: {cpu: null}\nsystemReserved: {cpu: null}\n"))
    assert found.cgroup_driver is None
    assert found.kube_reserved == {"memory": Quantity.parse("442Mi")}
    assert found.system_reserved == {}
    assert str(found.throttling_factor) == "1/2"


def test_hard_eviction_thresholds_merge_with_the_default(files):
    """server.loadConfigFile fills the default in before drop-ins are merged; one file alone replaces it whole."""
    assert load_settings(files("evictionHard: {nodefs.available: 15%}")).eviction_hard == {"nodefs.available": "15%"}
    merged = load_settings(files("", "evictionHard: {nodefs.available: 15%}")).eviction_hard
    assert (merged["memory.available"], merged["nodefs.available"]) == ("100Mi", "15%")
    own = load_settings(files("evictionHard: {memory.available: 1Gi}", "evictionHard: {nodefs.available: 15%}"))
    assert own.eviction_hard == {"memory.available": "1Gi", "nodefs.available": "15%"}
    assert load_settings(files("", "evictionHard: null")).eviction_hard == {}
    assert load_settings(files("evictionHard: null", "maxPods: 5")).eviction_hard["memory.available"] == "100Mi"


def test_default_thresholds_that_a_field_keeps(files):
    text = "mergeDefaultEvictionSettings: true\nevictionHard: {nodefs.available: 15%}"
    assert load_settings(files(text)).eviction_hard["memory.available"] == "100Mi"


def test_three_files_in_order(files):
    texts = ["memoryThrottlingFactor: 0.1", "memoryThrottlingFactor: 0.2", "memoryThrottlingFactor: 0.3"]
    paths = files(*texts)
    assert float(load_settings(paths).throttling_factor) == 0.3
    assert float(load_settings([paths[2], paths[0], paths[1]]).throttling_factor) == 0.2


def test_a_folder_for_config_dir(files, tmp_path):
    names = ["base.yaml", "d/10-a.conf", "d/20-sub/50.conf", "d/30.conf", "d/9.conf", "d/readme.txt", "d/x.yaml"]
    texts = ["memoryThrottlingFactor: 0.9"] + [f"maxPods: {index}\npodPidsLimit: {index}" for index in range(1, 7)]
    files(*texts, names=names)
    found = load_settings([tmp_path / "base.yaml", tmp_path / "d"])
    # By the bytes of names: 10-a.conf, 20-sub/50.conf, 30.conf, 9.conf.
    assert found.pod_pids_limit == 4
    assert [one.rpartition("/d/")[2] for one in found.drop_ins] == ["10-a.conf", "20-sub/50.conf", "30.conf", "9.conf"]
    [note] = found.notes
    assert note.what == "--config-dir reads files that end in .conf only: skipped readme.txt, x.yaml"
    assert found.origin["podPidsLimit"] == f"{tmp_path}/d/9.conf:4"


def test_a_folder_alone(files, tmp_path):
    files("podPidsLimit: 7", names=["d/1.conf"])
    assert load_settings(tmp_path / "d").pod_pids_limit == 7
    for index in range(8):
        (tmp_path / "d" / f"{index}.bak").write_text("x")
    assert load_settings(tmp_path / "d").notes[0].what.endswith("5.bak and 2 more")


def test_a_folder_that_cannot_be_read(monkeypatch, tmp_path):
    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("memqos.catalog.kubelet_sources.os.scandir", refuse)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        load_settings(tmp_path)


@pytest.mark.parametrize("text", ["kubeReserved: {memory: 1Gi}\n", "kind: KubeletConfiguration\nmaxPods: 3\n"])
def test_a_drop_in_without_a_head_is_refused(files, tmp_path, text):
    [base] = files("maxPods: 1")
    (tmp_path / "other.conf").write_text(text)
    with pytest.raises(ManifestError, match=r"other.conf.*: apiVersion: expected 'kubelet.config.k8s.io/v1beta1'"):
        load_settings([base, tmp_path / "other.conf"])


@pytest.mark.parametrize(("text", "says"), [
    ("kubeReservd: {}", "1.conf:3: kubeReservd: unknown field"),
    ("kubeReserved: {memory: much}", "1.conf:3: kubeReserved.memory: 'much' is not a quantity"),
    ("cgroupDriver: openrc", "1.conf:3: cgroupDriver: 'openrc' is not one of"),
])  # fmt: skip
def test_errors_name_their_file(files, text, says):
    with pytest.raises(ManifestError) as caught:
        load_settings(files("kubeReserved: {memory: 1Gi}", text))
    assert says in str(caught.value)


def test_overrides_win_over_all_files(files):
    found = load_settings(files("podPidsLimit: 1", "podPidsLimit: 2"), ["podPidsLimit=3", "kubeReserved.memory=1Gi"])
    assert found.pod_pids_limit == 3
    assert found.origin["kubeReserved.memory"] == "--set kubeReserved.memory"


def test_reserved_cpus_overwrite_cpu_reservations(files):
    """Source: kubelet `run`: the count goes to systemReserved, and kubeReserved loses its cpu."""
    text = "reservedSystemCPUs: 0-1, 5\nkubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {memory: 2Gi, cpu: 1}\n"
    text = text.replace("0-1, 5", '"0-1, 5"').replace("cpu: 1}", 'cpu: "1"}')
    found = load_settings(files(text))
    assert found.system_reserved == {"memory": Quantity.parse("2Gi"), "cpu": Quantity.parse("3")}
    assert found.kube_reserved == {"memory": Quantity.parse("1Gi")}
    assert load_settings(files('reservedSystemCPUs: "2"')).system_reserved == {"cpu": Quantity.parse("1")}


@pytest.mark.parametrize(("text", "says"), [
    ("reservedSystemCPUs: a-b", "is not a list of CPUs such as 0-3,8"),
    ("reservedSystemCPUs: 3-1", "is not a list of CPUs"),
    ("reservedSystemCPUs: 0-3\nkubeReservedCgroup: /runtime", "it cannot be used with kubeReservedCgroup"),
])  # fmt: skip
def test_reserved_cpus_that_a_kubelet_refuses(files, text, says):
    with pytest.raises(ManifestError, match=says):
        load_settings(files(text))
