"""Upstream's tables of the pod's cgroup: `cm.ResourceConfigForPod` of 1.34.9, 1.35.6 and 1.36.3.

In the tables of 1.35 and older that enforce memory QoS only `Unified` is compared upstream, and the CPUQuota expected
for a period of 5 ms is stale there; it is compared here where the table's own test does.
"""

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.cgroup import has_exclusive_cpus, pod_config, sandbox_resources
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import limits_by_size
from memqos.model.node import KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.pod import QosClass
from memqos.model.quantity import Quantity
from tests.vectors.tables import pod, table


def rows(file, name, *, reachable=False):
    listed = table(file)["tables"][name]
    named = listed.items() if isinstance(listed, dict) else [(row["description"], row) for row in listed]
    return [
        pytest.param(row, file.rpartition(".v")[2], id=f"{file[-6:]}-{title}")
        for title, row in named
        # These tables run with CustomCPUCFSQuotaPeriod off, where a kubelet accepts only a period of 100 ms: no kubelet
        # writes their quota for another period.
        if not reachable or row["quotaPeriod"] == 100_000 or row["expected"].get("CPUQuota", -1) == -1
    ]


def kubelet(row, release, **more):
    settings = KubeletSettings(
        feature_gates={
            "PodLevelResources": row.get("podLevelResourcesEnabled", False),
            "CustomCPUCFSQuotaPeriod": True,
            **more.pop("gates", {}),
        },
        cpu_cfs_quota=row["enforceCPULimits"],
        cpu_cfs_quota_period_us=row["quotaPeriod"],
        **more,
    )
    return Kubelet.of(node=NodeFacts(memory=8 << 30), settings=settings, release=release)


def configured(row, under):
    one = pod(row["pod"])
    return pod_config(one, pod_qos(one, pod_level=under.pod_level), under)


def fields(config):
    found = {
        "CPUShares": config.cpu_shares,
        "CPUQuota": config.cpu_quota,
        "CPUPeriod": config.cpu_period,
        "Memory": config.memory,
    }
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("row", "release"),
    [
        *rows("cm_helpers_linux.v1.36.3", "TestResourceConfigForPod"),
        *rows("cm_helpers_linux.v1.35.6", "TestResourceConfigForPod", reachable=True),
        *rows("cm_helpers_linux.v1.34.9", "TestResourceConfigForPod", reachable=True),
        *rows("cm_helpers_linux.v1.35.6", "TestResourceConfigForPodWithCustomCPUCFSQuotaPeriod"),
    ],
)
def test_without_memory_qos(row, release):
    config = configured(row, kubelet(row, release))
    assert fields(config) == row["expected"]
    assert config.unified == {}


@pytest.mark.parametrize(
    ("row", "release"), rows("cm_helpers_linux.v1.36.3", "TestResourceConfigForPodWithEnforceMemoryQoS")
)
def test_with_tiered_memory_qos(row, release):
    under = kubelet(row, release, gates={"MemoryQoS": True}, memory_reservation_policy=ReservationPolicy.TIERED)
    config = configured(row, under)
    assert config.unified == row["expected"].get("Unified", {})
    assert fields(config) == {name: value for name, value in row["expected"].items() if name != "Unified"}


@pytest.mark.parametrize(
    ("row", "release"), rows("cm_helpers_linux.v1.35.6", "TestResourceConfigForPodWithEnforceMemoryQoS")
)
def test_with_memory_qos_of_old(row, release):
    config = configured(row, kubelet(row, release, gates={"MemoryQoS": True}))
    assert config.unified == row["expected"].get("Unified", {})


@pytest.mark.parametrize(
    "row", table("cm_helpers_linux.v1.36.3")["tables"]["TestHugePageLimits"], ids=lambda row: row["name"]
)
def test_huge_page_limits(row):
    given = {one["key"]: Quantity.parse(one["input"]) for one in row["inputs"]}
    assert {str(size): count for size, count in limits_by_size(given).items()} == row["expected"]


def test_exclusive_cpus_take_the_quota_away_from_133_on():
    row = {"enforceCPULimits": True, "quotaPeriod": 100_000}
    whole = {"cpu": "2", "memory": "1Gi"}
    part = {"cpu": "500m", "memory": "1Gi"}
    one = pod(
        {
            "spec": {
                "containers": [
                    {"name": "whole", "resources": {"requests": whole, "limits": whole}},
                    {"name": "part", "resources": {"requests": part, "limits": part}},
                ]
            }
        }
    )
    for release, exclusive, quota in (("1.32", False, 250_000), ("1.33", True, -1)):
        under = kubelet(row, release, cpu_manager_policy="static")
        assert has_exclusive_cpus(one, one.containers[0], QosClass.GUARANTEED, under) is exclusive
        assert has_exclusive_cpus(one, one.containers[1], QosClass.GUARANTEED, under) is False
        assert has_exclusive_cpus(one, one.containers[0], QosClass.BURSTABLE, under) is False
        assert pod_config(one, QosClass.GUARANTEED, under).cpu_quota == quota
        assert sandbox_resources(one, under).cpu_quota == quota
