"""The kubelet's own functions, 1.36.3 and 1.32.13, for random pods: every row, every field."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.cgroup import overhead_resources, pod_config, request_container, sandbox_resources
from memqos.engine.pod.qos import pod_qos
from memqos.engine.releases.defaulting import seen_by
from tests.vectors.tables import node_facts, pod, settings, table

RELEASES = {"kubelet_1_36_3": "1.36", "kubelet_1_32_13": "1.32"}
ROWS = [
    pytest.param(row["input"], row[key], release, id=f"{row['input']['name']}-{release}")
    for name in ("kubelet_functions", "kubelet_podlevel")
    for row in table(name)["rows"]
    for key, release in RELEASES.items()
]


def kubelet(row, release):
    return Kubelet.of(node=node_facts(row), settings=settings(row), release=release)


def message(resources):
    """A CRI message as in the recordings, without zero fields."""
    found = {
        "cpu_period": resources.cpu_period,
        "cpu_quota": resources.cpu_quota,
        "cpu_shares": resources.cpu_shares,
        "memory_limit_in_bytes": resources.memory_limit_in_bytes,
        "memory_swap_limit_in_bytes": resources.memory_swap_limit_in_bytes,
        "oom_score_adj": resources.oom_score_adj,
        "hugepage_limits": [
            {"page_size": size, **({"limit": limit} if limit else {})} for size, limit in resources.hugepage_limits
        ],
        "unified": dict(resources.unified),
    }
    return {name: value for name, value in found.items() if value}


@pytest.mark.parametrize(("row", "recorded", "release"), ROWS)
def test_row(row, recorded, release):
    under = kubelet(row, release)
    one = seen_by(pod(row["pod"]), under)
    qos = pod_qos(one, pod_level=under.pod_level)

    assert qos == recorded["qos"]
    assert pod_fields(pod_config(one, qos, under)) == recorded_pod_fields(recorded["podConfig"])
    assert message(sandbox_resources(one, under)) == recorded["sandbox"]
    assert message(overhead_resources(one, under)) == recorded["overhead"]
    requests = {c.name: request_container(one, c, qos, under) for c in one.all_containers}
    assert {name: message(request.resources) for name, request in requests.items()} == {
        name: sent | {"hugepage_limits": in_order(sent["hugepage_limits"])}
        for name, sent in recorded["containers"].items()
    }
    assert {name: request.oom.value for name, request in requests.items()} == recorded["oomScoreAdj"]


@pytest.mark.parametrize(("row", "recorded", "release"), ROWS)
def test_the_plan_agrees(row, recorded, release):
    plan = expect(
        [pod(row["pod"])], Kubelet.of(node=node_facts(row), settings=settings(row), release=release), reasons=False
    )

    (planned,) = plan.pods
    assert planned.qos == recorded["qos"]
    assert message(planned.sandbox_resources) == recorded["sandbox"]
    assert message(planned.sandbox_overhead) == recorded["overhead"]
    assert {one.name: one.resources.unified for one in planned.containers} == {
        name: sent.get("unified", {}) for name, sent in recorded["containers"].items()
    }
    assert {one.name: one.oom_score_adj for one in planned.containers} == recorded["oomScoreAdj"]


def pod_fields(config):
    return {
        "Memory": config.memory,
        "CPUShares": config.cpu_shares,
        "CPUQuota": config.cpu_quota,
        "CPUPeriod": config.cpu_period,
        "HugePageLimit": {str(size): count for size, count in config.hugepages.items()},
        "Unified": config.unified or None,
    }


def recorded_pod_fields(recorded):
    # CPUSet and PidsLimit are outside of these functions: always empty in the recordings.
    assert recorded["CPUSet"] == {}
    assert recorded["PidsLimit"] is None
    return {name: value for name, value in recorded.items() if name not in {"CPUSet", "PidsLimit"}}


def in_order(limits):
    return sorted(limits, key=lambda one: ["2MB", "1GB"].index(one["page_size"]))
