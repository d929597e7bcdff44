"""Upstream's tables of pod sums: component-helpers `resource` of 1.32.13 and 1.36.3.

Not used here: rows with UseStatusResources, which are about a resize in progress (cgroups follow the allocated spec),
and claims on node-allocatable resources of DRA, an alpha that no rule here reads.
"""

import pytest

from memqos.engine.pod.sums import (
    aggregate,
    pod_level_limits_set,
    pod_level_set,
    pod_limits,
    pod_requests,
    supported_at_pod_level,
)
from tests.vectors.tables import amounts, pod, table

FILES = ("pod_resource_helpers.v1.36.3", "pod_resource_helpers.v1.32.13")


def rows(name, files=FILES):
    return list(usable(name, files))


def usable(name, files):
    for file in files:
        for row in table(file)["tables"][name]:
            options = row.get("options") or row.get("opts") or {}
            if not options.get("UseStatusResources"):
                yield pytest.param(row, options, id=f"{file[-7:]}-{row.get('description') or row.get('name')}")


def made_of(row):
    spec = {key: row[key] for key in ("containers", "initContainers", "overhead") if key in row}
    # An empty Go literal in the table is an empty container.
    for key in ("containers", "initContainers"):
        spec[key] = [one or {} for one in spec.get(key, [])]
    if "podResources" in row:
        spec["resources"] = row["podResources"]
    return pod({"spec": spec})


@pytest.mark.parametrize(("row", "options"), rows("TestPodResourceRequests"))
def test_requests(row, options):
    found = pod_requests(made_of(row), pod_level=True, overhead=not options.get("ExcludeOverhead", False))
    assert found == amounts(row["expectedRequests"])


@pytest.mark.parametrize(("row", "options"), rows("TestPodResourceLimits"))
def test_limits(row, options):
    found = pod_limits(made_of(row), pod_level=True, overhead=not options.get("ExcludeOverhead", False))
    assert found == amounts(row["expectedLimits"])


@pytest.mark.parametrize(("row", "options"), rows("TestPodLevelResourceRequests"))
def test_pod_level_requests(row, options):
    found = pod_requests(made_of(row), pod_level=not options.get("SkipPodLevelResources", False))
    assert found == amounts(row["expectedRequests"])


@pytest.mark.parametrize(("row", "options"), rows("TestAggregateContainerRequestsAndLimits"))
def test_aggregate(row, options):
    assert aggregate(made_of(row)) == amounts(row["expectedRequests"])
    assert aggregate(made_of(row), limits=True) == amounts(row["expectedLimits"])


@pytest.mark.parametrize(("row", "options"), rows("TestPodRequestsAndLimitsWithoutOverhead", FILES[:1]))
def test_without_overhead(row, options):
    one = pod(row["pod"])
    assert pod_requests(one, pod_level=True, overhead=False) == amounts(row["expectedRequests"])
    assert pod_limits(one, pod_level=True, overhead=False) == amounts(row["expectedLimits"])


@pytest.mark.parametrize("row", table(FILES[0])["tables"]["TestPodRequestsAndLimits"], ids=lambda row: row["cName"])
def test_requests_and_limits_with_overhead(row):
    # getPod(name, resources) of the upstream test: one container and an overhead.
    given = row["pod"]["args"][1]
    lists = {
        part: {name: given[f"{name}{part}"] for name in ("cpu", "memory") if f"{name}{part}" in given}
        for part in ("Request", "Limit", "Overhead")
    }
    resources = {"requests": lists["Request"], "limits": lists["Limit"]}
    one = pod({"spec": {"containers": [{"resources": resources}], "overhead": lists["Overhead"]}})
    assert pod_requests(one, pod_level=True) == amounts(row["expectedRequests"])
    assert pod_limits(one, pod_level=True) == amounts(row["expectedLimits"])


@pytest.mark.parametrize(("row", "options"), rows("TestIsPodLevelResourcesSet", FILES[:1]))
def test_pod_level_set(row, options):
    assert pod_level_set(made_of(row)) is row["expected"]


@pytest.mark.parametrize(("row", "options"), rows("TestIsPodLevelLimitsSet", FILES[:1]))
def test_pod_level_limits_set(row, options):
    assert pod_level_limits_set(made_of(row)) is row["expected"]


@pytest.mark.parametrize(
    "row", table(FILES[0])["tables"]["TestIsSupportedPodLevelResource"], ids=lambda row: row["resource"]
)
def test_supported_at_pod_level(row):
    assert supported_at_pod_level(row["resource"]) is row["expected"]
