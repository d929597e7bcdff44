import textwrap
from fractions import Fraction

import pytest

from memqos.catalog.kubelet_config import load_settings, settings_of
from memqos.errors import ManifestError, UsageError
from memqos.model.node import CgroupDriver, KubeletSettings, ReservationPolicy, SwapBehavior
from memqos.model.quantity import Quantity

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def settings(text):
    return settings_of((HEAD + textwrap.dedent(text)).encode(), "k.yaml")


def test_nothing_given():
    found = settings("")
    assert found == KubeletSettings()
    assert found.throttling_factor is None
    assert found.enforce_node_allocatable is None


def test_all_fields_that_rules_use():
    found = settings(
        """\
        featureGates: {MemoryQoS: true, NodeSwap: false}
        cgroupDriver: systemd
        cgroupRoot: /custom
        cgroupsPerQOS: true
        cpuCFSQuota: false
        cpuCFSQuotaPeriod: 5ms
        cpuManagerPolicy: static
        enforceNodeAllocatable: [pods, system-reserved]
        evictionHard: {memory.available: 5%}
        failSwapOn: false
        kubeReserved: {memory: 60Mi}
        kubeReservedCgroup: /kube
        systemReserved: {cpu: 100m}
        systemReservedCgroup: /sys
        memoryManagerPolicy: Static
        memoryReservationPolicy: TieredReservation
        podPidsLimit: 100
        qosReserved: {memory: 50%}
        reservedMemory: [{numaNode: 1, limits: {memory: 110Mi}}]
        singleProcessOOMKill: true
        memorySwap: {swapBehavior: LimitedSwap}
        memoryThrottlingFactor: 0.29
        topologyManagerPolicy: restricted
        topologyManagerScope: pod
        topologyManagerPolicyOptions: {max-allowable-numa-nodes: "8"}
        """
    )
    assert found == KubeletSettings(
        feature_gates={"MemoryQoS": True, "NodeSwap": False},
        cgroup_driver=CgroupDriver.SYSTEMD,
        cgroup_root="/custom",
        cgroups_per_qos=True,
        cpu_cfs_quota=False,
        cpu_cfs_quota_period_us=5000,
        cpu_manager_policy="static",
        enforce_node_allocatable=("pods", "system-reserved"),
        eviction_hard={"memory.available": "5%"},
        fail_swap_on=False,
        kube_reserved={"memory": Quantity.parse("60Mi")},
        kube_reserved_cgroup="/kube",
        system_reserved={"cpu": Quantity.parse("100m")},
        system_reserved_cgroup="/sys",
        memory_manager_policy="Static",
        memory_reservation_policy=ReservationPolicy.TIERED,
        pod_pids_limit=100,
        qos_reserved={"memory": 50},
        reserved_memory=((1, {"memory": Quantity.parse("110Mi")}),),
        single_process_oom_kill=True,
        swap_behavior=SwapBehavior.LIMITED,
        throttling_factor=Fraction(29, 100),
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
        topology_manager_policy_options={"max-allowable-numa-nodes": "8"},
    )
    assert found.origin["memoryThrottlingFactor"] == "k.yaml:24"
    assert found.origin["featureGates.MemoryQoS"] == "k.yaml:3"
    assert found.origin["memorySwap.swapBehavior"] == "k.yaml:23"


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("100ms", 100_000), ("1s", 1_000_000), ("1m0.5s", 60_500_000), ("5000us", 5000), ("5000µs", 5000), ("1500ns", 1),
     ("-5ms", -5000), ("'0'", 0), ("1h", 3_600_000_000)],
)  # fmt: skip
def test_durations(text, microseconds):
    assert settings(f"cpuCFSQuotaPeriod: {text}").cpu_cfs_quota_period_us == microseconds


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("memoryThrottlngFactor: 0.9", "k.yaml:3: memoryThrottlngFactor", "Did you mean 'memoryThrottlingFactor'"),
        (
            "kubeReserved: {memry: 1Gi}",
            "k.yaml:3: kubeReserved.memry",
            "'memry' is no resource that a kubelet reserves.",
        ),
        ("systemReserved: {memry: 1Gi}", "k.yaml:3: systemReserved.memry", "Did you mean 'memory'?"),
        ("kubeReserved: {hugepages-2Mi: 1Gi}", "k.yaml:3", "Known: cpu, memory, ephemeral-storage, pid."),
        ("evictionHard: {memory.availabel: 1Gi}", "k.yaml:3: evictionHard", "Did you mean 'memory.available'?"),
        ("evictionSoft: {memry.available: 1Gi}", "k.yaml:3: evictionSoft", "Did you mean 'memory.available'?"),
        ("memoryThrottlingFactor: '0.9'", "k.yaml:3: memoryThrottlingFactor", "expected a number, got '0.9'"),
        ("memoryThrottlingFactor: 0x1", "k.yaml:3: memoryThrottlingFactor", "not a decimal number"),
        (f"memoryThrottlingFactor: 0.{'9' * 50}", "k.yaml:3", "not a decimal number"),
        ("memorySwap: {swapBehaviour: x}", "k.yaml:3: memorySwap.swapBehaviour", "Did you mean 'swapBehavior'"),
        ("memorySwap:\n  swapBehavior: Some", "k.yaml:4: memorySwap.swapBehavior", "'LimitedSwap'"),
        ("memoryReservationPolicy: Tiered", "k.yaml:3: memoryReservationPolicy", "'TieredReservation'"),
        ("cgroupDriver: docker", "k.yaml:3: cgroupDriver", "'systemd', 'cgroupfs'"),
        ("featureGates: {MemoryQoS: 'true'}", "k.yaml:3: featureGates.MemoryQoS", "expected true or false"),
        ("systemReserved: {memory: 1q}", "k.yaml:3: systemReserved.memory", "suffix"),
        ("systemReserved:\n  memory: -1Gi", "k.yaml:4: systemReserved.memory", "must not be negative"),
        ("systemReserved: {memory: 100}", "k.yaml:3: systemReserved.memory", "expected a string, got '100'"),
        ("qosReserved: {cpu: 50%}", "k.yaml:3: qosReserved.cpu", "only memory"),
        ("qosReserved: {memory: 101%}", "k.yaml:3: qosReserved.memory", "0% to 100%"),
        ("qosReserved: {memory: '50'}", "k.yaml:3: qosReserved.memory", "0% to 100%"),
        ("cpuCFSQuotaPeriod: 5 ms", "k.yaml:3: cpuCFSQuotaPeriod", "not a duration"),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: x}}]",
            "k.yaml:3: reservedMemory[0].limits.memory",
            "quantity",
        ),
        ("enforceNodeAllocatable: pods", "k.yaml:3: enforceNodeAllocatable", "expected a list"),
        ("a: 1\na: 2", "k.yaml:4: a", "is a duplicate of"),
        ("---\na: 1", "k.yaml", "got 2 documents"),
    ],
)
def test_refused(text, where, says):
    with pytest.raises(ManifestError, match=says) as caught:
        settings(text)
    assert caught.value.where.startswith(where)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: KubeletConfiguration", "expected 'kubelet.config.k8s.io/v1beta1', got 'nothing'"),
        ("apiVersion: v1\nkind: Pod", "got 'v1'"),
        ("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: [x]", "expected 'KubeletConfiguration'"),
        ("- 1", "expected one KubeletConfiguration"),
        ("", "got 0 documents"),
    ],
)
def test_other_objects(text, says):
    with pytest.raises(ManifestError, match=says):
        settings_of(text.encode(), "k.yaml")


def test_files(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text(f"{HEAD}memoryThrottlingFactor: 0.8\n")
    assert load_settings(path).throttling_factor == Fraction(4, 5)
    with pytest.raises(UsageError, match="no such file"):
        load_settings(tmp_path / "missing.yaml")
    (tmp_path / "empty").mkdir()
    [note] = load_settings(tmp_path / "empty").notes
    assert note.what == "it is empty; nothing is configured by this folder"
