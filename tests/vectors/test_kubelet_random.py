"""Random pods through the functions of eight kubelets, unchanged: every row, every field.

Unlike kubelet_functions.json these pods have odd amounts (fractions of bytes, exponents), explicit zeros, sidecars in
every position, other quota periods and page sizes, and are not defaulted: defaulting is part of the comparison.
"""

from dataclasses import replace

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.cgroup import overhead_resources, pod_config, request_container, sandbox_resources
from memqos.engine.pod.qos import pod_qos
from memqos.engine.releases.defaulting import seen_by
from tests.vectors.tables import node_facts, pod, settings, table
from tests.vectors.test_kubelet_functions import message, pod_fields

KUBELETS = ("v1.25.10", "v1.27.7", "v1.28.3", "v1.30.1", "v1.32.13", "v1.33.13", "v1.34.9", "v1.36.3")
ROWS = [
    pytest.param(row["input"], row["kubelet"], release, id=f"{release}-{row['input']['name']}")
    for release in KUBELETS
    for row in table(f"kubelet_random.{release}")["rows"]
]


def kubelet(row, release):
    given = settings(row)
    if "cfsPeriodUs" in row:
        given = replace(given, cpu_cfs_quota_period_us=row["cfsPeriodUs"])
    return Kubelet.of(
        node=replace(node_facts(row), page_size=row.get("pageSize", 4096)), settings=given, release=release
    )


def container_message(resources):
    """In the rows' form: huge page limits by size, without zeros; oom_score_adj is separate."""
    found = message(resources)
    limits = {one["page_size"]: one["limit"] for one in found.pop("hugepage_limits", []) if "limit" in one}
    found.pop("oom_score_adj", None)
    return found | ({"hugepage_limits": limits} if limits else {})


def given_fields(config):
    return {name: value for name, value in pod_fields(config).items() if value not in (None, {})}


@pytest.mark.parametrize(("row", "recorded", "release"), ROWS)
def test_row(row, recorded, release):
    under = kubelet(row, release)
    one = seen_by(pod(row["pod"]), under)
    qos = pod_qos(one, pod_level=under.pod_level)
    requests = {c.name: request_container(one, c, qos, under) for c in one.all_containers}

    assert {
        "qos": qos,
        "podConfig": given_fields(pod_config(one, qos, under)),
        "sandbox": message(sandbox_resources(one, under)),
        "overhead": message(overhead_resources(one, under)),
        "containers": {name: container_message(request.resources) for name, request in requests.items()},
        "oomScoreAdj": {name: request.oom.value for name, request in requests.items()},
    } == recorded


@pytest.mark.parametrize(
    ("release", "cpu", "memory", "sent"),
    [
        ("1.36", "1T", "10Pi", (7766279631452241, 6538216)),
        ("1.32", "1k", "10Pi", (100000000, 6538216)),
        ("1.27", "1T", "8Pi", (7766279631452241, 3)),
    ],
)
def test_absurd_amounts_overflow_as_in_the_kubelet(release, cpu, memory, sent):
    row = {"machineMemory": 1 << 40, "machineSwap": 0, "swapController": False, "memoryQoS": False, "cpuCFSQuota": True}
    under = kubelet(row | {"swapBehavior": "", "throttlingFactor": 0.9}, release)
    given = {"containers": [{"name": "c", "resources": {"limits": {"cpu": cpu}, "requests": {"memory": memory}}}]}
    one = seen_by(pod({"spec": given}), under)
    found = request_container(one, one.containers[0], pod_qos(one, pod_level=under.pod_level), under).resources
    assert (found.cpu_quota, found.oom_score_adj) == sent
