"""Upstream's tables of CRI messages: kuberuntime of 1.33.13, 1.35.6 and 1.36.3.

Not used here: namespaces and supplemental groups (not resources); TestGenerateUpdatePodSandboxResourcesRequest, which
is about a resize (test_resize); exclusive CPUs given through `cpuSets` with the alpha PodLevelResourceManagers.
"""

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.memory_qos.v1_27 import memory_high
from memqos.engine.pod.cgroup import overhead_resources, request_container, sandbox_resources
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import container_limits
from memqos.engine.swap import SwapCase, swap_rule
from memqos.model.node import CgroupVersion, KubeletSettings, NodeFacts, SwapBehavior
from memqos.model.pod import QosClass
from memqos.model.quantity import Quantity
from tests.vectors.tables import amounts, pod, resources, table

NEW = "container_linux_resources.v1.36.3"
OLD = "container_linux_resources.v1.33.13"
MACHINE = 16 << 30


def kubelet(release="1.36", *, v2=True, node=None, **settings):
    return Kubelet.of(
        node=node or NodeFacts(memory=MACHINE, cgroup_version=CgroupVersion.V2 if v2 else CgroupVersion.V1),
        settings=KubeletSettings(**settings),
        release=release,
    )


def classic(sent):
    found = {
        "CpuPeriod": sent.cpu_period,
        "CpuQuota": sent.cpu_quota,
        "CpuShares": sent.cpu_shares,
        "MemoryLimitInBytes": sent.memory_limit_in_bytes,
        "OomScoreAdj": sent.oom_score_adj,
    }
    return {name: value for name, value in found.items() if value}


def nonzero(expected):
    return {name: value for name, value in expected.items() if value and name != "Unified"}


def single(requests=None, limits=None, pod_resources=None, name="foo"):
    spec = {"containers": [{"name": name, "resources": {"requests": requests, "limits": limits}}]}
    if pod_resources is not None:
        spec["resources"] = pod_resources
    return pod({"spec": spec})


def requested(one, under):
    qos = pod_qos(one, pod_level=under.pod_level)
    return request_container(one, one.containers[0], qos, under).resources


@pytest.mark.parametrize(
    "row",
    [
        row
        for name in (NEW, "container_linux_resources.v1.35.6")
        for row in table(name)["tables"]["TestGenerateLinuxContainerConfigResources"]
        if not row.get("cpuSets") or "disabled" in row["name"]
    ],
    ids=lambda row: row["name"],
)
def test_limits_and_requests(row):
    gates = {key.split('"features.')[1].split('"')[0]: on for key, on in row.get("enableFeatures", {}).items()}
    given = row["containerResources"]
    one = single(given.get("Requests"), given.get("Limits"), row.get("podResources"))
    sent = requested(one, kubelet(feature_gates={"PodLevelResources": "podResources" in row} | gates))
    assert {name: value for name, value in classic(sent).items() if name != "OomScoreAdj"} == nonzero(row["expected"])


@pytest.mark.parametrize(
    "row", table(NEW)["tables"]["TestCalculateLinuxResources"], ids=lambda row: f"{row['cgroupVersion']}-{row['name']}"
)
def test_calculated(row):
    def quantity(name):
        return row[name]["args"][0] if name in row else None

    requests = {"cpu": quantity("cpuReq")} if "cpuReq" in row else {}
    one = single(requests, {"cpu": quantity("cpuLim"), "memory": quantity("memLim")})
    under = kubelet(v2=row["cgroupVersion"] == "v2", single_process_oom_kill=row.get("singleProcessOOMKill"))
    sent = requested(one, under)
    assert {name: value for name, value in classic(sent).items() if name != "OomScoreAdj"} == nonzero(row["expected"])
    group = {name: text for name, text in sent.unified.items() if name == "memory.oom.group"}
    assert group == row["expected"].get("Unified", {})


@pytest.mark.parametrize(
    "row", table(NEW)["tables"]["TestGenerateLinuxContainerResources"], ids=lambda row: str(row[:1])
)
def test_generated(row):
    _name, limits, requests, single_process, expected, version = row
    under = kubelet(
        v2=version == "v2",
        single_process_oom_kill=single_process,
        cpu_cfs_quota=False,
        # The upstream test's machine has this much memory: 1000 - 1000 * 500Mi / capacity = 970.
        node=NodeFacts(memory=17_179_860_387, cgroup_version=CgroupVersion.V2 if version == "v2" else CgroupVersion.V1),
    )
    sent = requested(single(requests, limits), under)
    assert classic(sent) == nonzero(expected)
    group = {name: text for name, text in sent.unified.items() if name == "memory.oom.group"}
    assert group == expected.get("Unified", {})


@pytest.mark.parametrize(
    "row",
    [row for name in (NEW, OLD) for row in table(name)["tables"]["TestGetHugepageLimitsFromResources"]],
    ids=lambda row: row["name"],
)
def test_hugepage_limits(row):
    sizes = {"2MB": 2 << 20, "1GB": 1 << 30}
    node_sizes = [sizes[one["PageSize"]] for one in row["expected"]]
    base = resources({key.lower(): value for key, value in row.get("podResources", {}).items()}).limits
    own = amounts(row["resources"].get("Limits"))
    found = container_limits(node_sizes, base or None, own)
    assert found == tuple((one["PageSize"], one["Limit"]) for one in row["expected"])


@pytest.mark.parametrize(
    "row",
    [(name, row) for name in (NEW, OLD) for row in table(name)["tables"]["TestGetContainerSwapBehavior"]],
    ids=lambda row: f"{row[0][-7:]}-{row[1]['name']}",
)
def test_swap_behavior(row):
    release, case = "1.36" if row[0] is NEW else "1.33", row[1]
    node = NodeFacts(
        memory=MACHINE,
        swap=4 << 30,
        swap_controller=case.get("isSwapControllerAvailable", True),
        cgroup_version=CgroupVersion(case.get("cgroupVersion", "v2")),
    )
    under = kubelet(
        release,
        node=node,
        feature_gates={"NodeSwap": case.get("nodeSwapFeatureGateEnabled", True)},
        swap_behavior=SwapBehavior(case["configuredMemorySwap"]),
    )
    override = case.get("containerResourceOverride", {}).get("$assign", {})
    requests = override.get("c.Resources.Requests", {"memory": "1Gi"})
    limits = override.get("c.Resources.Limits", {"memory": "2Gi"})
    one = single(requests, limits)
    qos = QosClass(case.get("qosClass", "Burstable"))
    found = swap_rule(under.release)(
        SwapCase(pod=one, qos=qos, container=one.containers[0], kubelet=under, memory_limit=2 << 30)
    )
    limited = case["expected"] == "LimitedSwap"
    assert (found.swap_max not in {"", "0"}) is limited


# The expected values of TestGenerateLinuxContainerResourcesWithSwap are computed in its body: NoSwap is memory.swap.max
# "0" on cgroup v2 and memory+swap equal to the memory limit on v1; LimitedSwap is the proportional formula.
CAPACITY, SWAP = 42949672960, 5368709120


@pytest.mark.parametrize(
    "row",
    [
        (name, row)
        for name in (NEW, OLD)
        for row in table(name)["tables"]["TestGenerateLinuxContainerResourcesWithSwap"]
    ],
    ids=lambda row: f"{row[0][-7:]}-{row[1]['name']}",
)
def test_with_swap(row):
    release, case = "1.36" if row[0] is NEW else "1.33", row[1]
    v2 = case["cgroupVersion"] == "v2"
    node = NodeFacts(
        memory=CAPACITY,
        swap=SWAP,
        swap_controller=not case.get("swapDisabledOnNode", False),
        cgroup_version=CgroupVersion(case["cgroupVersion"]),
    )
    under = kubelet(
        release,
        node=node,
        feature_gates={"NodeSwap": case.get("nodeSwapFeatureGateEnabled", True)},
        swap_behavior=SwapBehavior(case["swapBehavior"]),
    )
    containers = {
        "burstable": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "guaranteed": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        "bare": {},
    }
    if case["qosClass"] == "BestEffort":
        containers = {"bare": {}}
    elif case["qosClass"] == "Guaranteed":
        containers = {"guaranteed": containers["guaranteed"]}
    spec = {"containers": [{"name": name, "resources": given} for name, given in containers.items()]}
    if case.get("isCriticalPod"):
        spec["priority"] = 2000001000
    one = pod({"spec": spec})
    limited = case["swapBehavior"] == "LimitedSwap" and case["qosClass"] == "Burstable" and v2
    limited = limited and case.get("nodeSwapFeatureGateEnabled", True) and not case.get("isCriticalPod")
    for container in one.containers:
        sent = request_container(one, container, QosClass(case["qosClass"]), under).resources
        if case.get("swapDisabledOnNode"):
            assert "memory.swap.max" not in sent.unified
            assert sent.memory_swap_limit_in_bytes == 0
        elif v2:
            expected = "134217728" if limited and container.name == "burstable" else "0"
            assert sent.unified["memory.swap.max"] == expected
        else:
            assert "memory.swap.max" not in sent.unified
            assert sent.memory_swap_limit_in_bytes == sent.memory_limit_in_bytes


@pytest.mark.parametrize("name", [NEW, OLD])
def test_memory_qos_enforced(name):
    # The expected values are Go expressions: floor(request + (limit - request) * 0.9) / page * page, with the limit
    # replaced by the node's allocatable memory of 34359738368 for the second row.
    with_limit, without_limit = table(name)["tables"]["TestGenerateContainerConfigWithMemoryQoSEnforced"]
    assert (with_limit["expected"][1], without_limit["expected"][1]) == (134217728, 134217728)
    assert memory_high(134217728, 268435456, 0.9, 4096) == 255012864
    assert memory_high(134217728, 34359738368, 0.9, 4096) == 30937186304
    node = NodeFacts(memory=34359738368)
    under = kubelet("1.36" if name is NEW else "1.33", node=node, feature_gates={"MemoryQoS": True})
    for row, high in ((with_limit, "255012864"), (without_limit, "30937186304")):
        sent = requested(pod(row["pod"]), under)
        assert sent.unified["memory.high"] == high
        # 1.36 protects nothing by default.
        assert sent.unified["memory.min"] == ("0" if name is NEW else "134217728")


@pytest.mark.parametrize(
    ("row", "given", "overhead"),
    [
        (0, {"requests": {"memory": "128Mi"}, "limits": {"memory": "256Mi"}}, None),
        (1, {"requests": {"memory": "128Mi", "cpu": "2"}, "limits": {"memory": "256Mi", "cpu": "4"}},
         {"cpu": "1", "memory": "128Mi"}),
    ],
)  # fmt: skip
def test_sandbox_resources(row, given, overhead):
    # getPodWithoutOverhead and getPodWithOverhead of the upstream test.
    expected = table("kuberuntime_sandbox_linux.v1.36.3")["tables"]["TestApplySandboxResources"][row]
    one = pod({"spec": {"containers": [{"resources": given}], "overhead": overhead}})
    under = kubelet(v2=expected["cgroupVersion"] == "v2")
    for sent, wanted in (
        (sandbox_resources(one, under), expected["expectedResource"]),
        (overhead_resources(one, under), expected["expectedOverhead"]),
    ):
        assert classic(sent) == nonzero(wanted)
        assert sent.unified == wanted.get("Unified", {})


def test_pod_level_hugepages_are_the_base_from_134_on():
    own = {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}
    one = single({"memory": "1Mi"}, {"memory": "1Mi"}, own)
    gates = {"PodLevelResources": True}
    assert requested(one, kubelet("1.33", feature_gates=gates)).hugepage_limits == (("2MB", 0), ("1GB", 0))
    assert requested(one, kubelet("1.34", feature_gates=gates)).hugepage_limits == (("2MB", 4194304), ("1GB", 0))


def test_zero_cpu_request_falls_back_to_the_limit_up_to_125():
    one = single({"cpu": "0"}, {"cpu": "2"})
    assert requested(one, kubelet("1.25")).cpu_shares == 2048
    assert requested(one, kubelet("1.26")).cpu_shares == 2
    assert one.containers[0].resources.requests["cpu"] == Quantity.parse("0")
