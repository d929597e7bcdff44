"""Upstream's tables of the allocation manager: 1.34.9, 1.35.6 and 1.36.3.

The pods of these tests are built in Go: a node of 4 CPUs and 4 GiB, the resized pod, and two more pods of 1 CPU and 1
GiB each. Rows that differ only in conditions that an earlier resize left behind (resources unchanged, already
allocated) are one case here: nothing to decide.

A file for an older release holds only the tables that differ from the next newer one. Not used of these files:
TestUpdatePodFromAllocation and TestAllocationManagerAddPod (what the kubelet stores in its
checkpoint), TestRecordPodDeferredAcceptedResizes (metrics), TestSortPendingResizes (its pods are calls; the order is in
tests/unit/engine/resize), TestNonAllocatedPodsExcludedFromCapacity_AddPod (references).
"""

from dataclasses import replace

import pytest

from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import status_allocatable
from memqos.engine.pod.cgroup import pod_config, sandbox_resources
from memqos.engine.pod.qos import pod_qos
from memqos.engine.resize.actuation import without_overhead
from memqos.engine.resize.allocation import changes_of, increases_requests, kubelet_decision
from memqos.model.cri import ContainerResources
from memqos.model.node import KubeletSettings, NodeFacts, SwapBehavior
from memqos.model.pod import Container, ContainerKind, Pod, ResizePolicy, Resources
from memqos.model.quantity import Quantity
from tests.vectors.tables import amounts, table
from tests.vectors.tables import pod as parsed

GI = 1 << 30
TABLES = {release: table(f"allocation_manager.v{release}")["tables"] for release in ("1.34.9", "1.35.6", "1.36.3")}


def kubelet(release, swap=0, **settings):
    return Kubelet.of(
        node=NodeFacts(memory=4 * GI, swap=swap, cpus=4),
        settings=KubeletSettings(eviction_hard={}, **settings),
        release=release,
    )


def one(name, requests, limits=None, pod_requests=None, **more):
    own = Resources(requests=amounts(requests), limits=amounts(limits))
    container = Container(name="c1", resources=own, resize_policy=more.pop("resize_policy", {}))
    level = Resources(requests=amounts(pod_requests)) if pod_requests else None
    return Pod(name=name, uid=name, containers=(container,), resources=level, **more)


OTHERS = (one("pod2", {"cpu": "1", "memory": "1Gi"}), one("pod3", {"cpu": "1", "memory": "1Gi"}))


def awaited(row):
    """(outcome, message) of a row."""
    if not row["expectedResize"] or row.get("newResourcesAllocated"):
        return "Unchanged", None
    first = row["expectedResize"][0]
    if first["Type"]["$sel"] == "v1.PodResizeInProgress":
        return "InProgress", None
    return first["Reason"], first["Message"]


def decided(row, old, new, under):
    if row.get("newResourcesAllocated") or old == new:
        return "Unchanged", ""
    found = kubelet_decision(old, new, OTHERS, under)
    return found.outcome.value, found.message


RESIZES = [
    pytest.param(release, row, id=f"{release}-{row['name']}")
    for release, name in (("1.34.9", "TestHandlePodResourcesResize"), ("1.35.6", "TestRetryPendingResizes"))
    for row in TABLES[release][name][0]
]


@pytest.mark.parametrize(("release", "row"), RESIZES)
def test_decision(release, row):
    gates = {"InPlacePodLevelResourcesVerticalScaling": bool(row.get("inPlacePodLevelResizeEnabled"))}
    static = "static pod" in row["name"]
    old, new = (
        one(
            "pod1",
            row[f"{age}Requests"],
            row.get(f"{age}Limits"),
            row.get(f"{age}PodRequests"),
            static=static,
        )
        for age in ("original", "new")
    )
    outcome, message = decided(row, old, new, kubelet(release, feature_gates=gates))
    wanted, said = awaited(row)
    assert outcome == wanted
    if said is not None:
        assert message.startswith(said)
    taken = row["newRequests"] if outcome in {"InProgress", "Unchanged"} else row["originalRequests"]
    assert taken == row["expectedAllocatedReqs"]


def test_there_are_enough_rows():
    assert len(RESIZES) >= 30


PINNED = [
    pytest.param(release, row, id=f"{release}-{row['name'][:60]}")
    for release, name in (
        ("1.34.9", "TestHandlePodResourcesResizeForGuanteedQOSPods"),
        ("1.36.3", "TestRetryPendingResizesGuanteedQOSPods"),
    )
    for row in TABLES[release][name][0]
]


@pytest.mark.parametrize(("release", "row"), PINNED)
def test_pods_with_exclusive_cpus_or_numa_nodes(release, row):
    gates = {
        "InPlacePodVerticalScalingExclusiveCPUs": row["ipprExclusiveCPUsFeatureGate"],
        "InPlacePodVerticalScalingExclusiveMemory": row["ipprExclusiveMemoryFeatureGate"],
    }
    under = kubelet(release, cpu_manager_policy="static", memory_manager_policy="Static", feature_gates=gates)
    old, new = (one("pod1", row[f"{age}Requests"], row[f"{age}Limits"]) for age in ("original", "new"))
    found = kubelet_decision(old, new, (), under)
    outcome, message = awaited(row)
    assert (found.outcome.value, found.message) == (outcome, message or "")


SWAPPED = [
    pytest.param(release, row, id=f"{release}-{row['name']}")
    for release, name in (
        ("1.34.9", "TestHandlePodResourcesResizeWithSwap"),
        ("1.36.3", "TestRetryPendingResizesWithSwap"),
    )
    for row in TABLES[release][name][0]
]


@pytest.mark.parametrize(("release", "row"), SWAPPED)
def test_containers_with_swap(release, row):
    policy = {row["resizePolicy"]["ResourceName"]: ResizePolicy(row["resizePolicy"]["RestartPolicy"])}
    old = one("pod1", {"cpu": "1", "memory": "1Gi"}, resize_policy=policy)
    new = one("pod1", row["newRequests"], resize_policy=policy)
    found = kubelet_decision(old, new, (), kubelet(release, GI, swap_behavior=SwapBehavior(row["swapBehavior"])))
    outcome, message = awaited(row)
    assert found.outcome.value == outcome
    assert found.message.startswith(message or "")


CONDITIONS = [
    pytest.param(release, row, id=f"{release}-{row['name']}")
    for release, name in (
        ("1.34.9", "TestHandlePodResourcesResizeMultipleConditions"),
        ("1.35.6", "TestRetryPendingResizesMultipleConditions"),
        ("1.36.3", "TestRetryPendingResizesMultipleConditions"),
    )
    for row in TABLES[release][name][1]
    # The others revert to the allocation, or change only the generation.
    if row["name"].startswith(("allocated != actuated", "desired !=", "same as", "allocate a new"))
]  # fmt: skip


@pytest.mark.parametrize(("release", "row"), CONDITIONS)
def test_resizes_that_can_never_fit(release, row):
    old = one("pod1", {"cpu": "750m", "memory": "750Mi"})
    found = kubelet_decision(old, one("pod1", {"cpu": row["cpu"], "memory": row["mem"]}), (), kubelet(release))
    pending = [one for one in row["expectedConditions"] if one["Type"]["$sel"] == "v1.PodResizePending"]
    if not pending:
        assert found.outcome.value == "InProgress"
        return
    assert found.outcome.value == pending[0]["Reason"]["$sel"].removeprefix("v1.PodReason")
    assert found.message == pending[0]["Message"]


INCREASES = [
    pytest.param(release, row, id=f"{release}-{row['name']}")
    for release in ("1.34.9", "1.36.3")
    for row in TABLES[release]["TestIsResizeIncreasingRequests"][0]
]


@pytest.mark.parametrize(("release", "row"), INCREASES)
def test_whether_requests_grow(release, row):
    # testPod: two containers of 1 CPU and 1Gi, two without requests; 2500m and 2500Mi at the pod level of 1.36.
    base = [amounts({"cpu": "1", "memory": "1Gi"}), amounts({"cpu": "1", "memory": "1Gi"}), {}, {}]
    wanted = {int(index): amounts(given or {}) for index, given in
              (row.get("newRequests") or row.get("newContRequests") or {}).items()}  # fmt: skip
    level = amounts({"cpu": "2500m", "memory": "2500Mi"}) if row.get("inPlacePodLevelResizeEnabled") else None

    def pod(requests, at_pod):
        containers = tuple(
            Container(name=f"c{index}", resources=Resources(requests=own)) for index, own in enumerate(requests)
        )
        resources = None if at_pod is None else Resources(requests=at_pod)
        return Pod(name="p", uid="p", containers=containers, resources=resources)

    old = pod(base, level)
    new = pod(
        [wanted.get(index, own) for index, own in enumerate(base)],
        amounts(row["newPodRequests"]) if "newPodRequests" in row else level,
    )
    assert increases_requests(old, new, kubelet(release)) is row["expected"]


PROGRESS = TABLES["1.34.9"]["TestCheckPodResizeInProgress"][0]


def of_table(given):
    """[cpu request, cpu limit, memory request, memory limit], or the same by name; cpu in thousandths."""
    if isinstance(given, list):
        given = dict(zip(("cpuReq", "cpuLim", "memReq", "memLim"), given, strict=True))
    units = {"cpuReq": "cpu", "cpuLim": "cpu", "memReq": "memory", "memLim": "memory"}
    lists = {"Req": {}, "Lim": {}}
    for name, value in given.items():
        unit = "m" if units[name] == "cpu" else ""
        lists[name[3:]][units[name]] = Quantity.parse(f"{value}{unit}")
    return Resources(requests=lists["Req"], limits=lists["Lim"])


@pytest.mark.parametrize("row", PROGRESS, ids=lambda row: row["name"])
def test_whether_a_resize_is_in_progress(row):
    """A running container with other resources than allocated; a container that does not run is not resized."""
    pods = {"actuated": Pod(name="p", uid="p"), "allocated": Pod(name="p", uid="p")}
    for index, given in enumerate(row["containers"]):
        if not given.get("isRunning"):
            continue
        kind = ContainerKind.SIDECAR if given.get("sidecar") else ContainerKind.APP
        kind = ContainerKind.INIT if given.get("nonSidecarInit") else kind
        field = "containers" if kind is ContainerKind.APP else "init_containers"
        for age, pod in pods.items():
            own = Container(name=f"c{index}", kind=kind, resources=of_table(given.get(age, given["allocated"])))
            pods[age] = replace(pod, **{field: (*getattr(pod, field), own)})
    changes = changes_of(pods["actuated"], pods["allocated"], kubelet("1.34"))
    assert any(changes.updated.values()) is row["expectHasResize"]


OVERHEAD = table("kuberuntime_helpers_linux.v1.36.3")["tables"]["TestSubtractOverheadFromResourceConfig"]
FIELDS = {
    "Memory": "memory_limit_in_bytes", "CPUShares": "cpu_shares", "CPUPeriod": "cpu_period", "CPUQuota": "cpu_quota",
}  # fmt: skip


def message(config):
    return ContainerResources(**{FIELDS[name]: value for name, value in config.items()})


@pytest.mark.parametrize("row", OVERHEAD, ids=lambda row: row["name"])
def test_overhead_is_subtracted(row):
    assert without_overhead(message(row["cfgInput"]), parsed(row["pod"])) == message(row["expected"])


SANDBOXES = table("container_linux_resources.v1.36.3")["tables"]["TestGenerateUpdatePodSandboxResourcesRequest"]


@pytest.mark.parametrize("row", SANDBOXES, ids=lambda row: row["name"])
def test_a_pod_without_its_overhead_is_its_sandbox(row):
    """Upstream's assertion: the pod's configuration less its overhead equals the sandbox's request."""
    pod, under = parsed(row["pod"]), kubelet("1.36.3")
    qos = pod_qos(pod, pod_level=True)
    assert qos.value == row["qosClass"]
    config = pod_config(pod, qos, under)
    held = ContainerResources(
        memory_limit_in_bytes=config.memory or 0,
        cpu_shares=config.cpu_shares,
        cpu_quota=config.cpu_quota or 0,
        cpu_period=config.cpu_period or 0,
    )
    sent = replace(sandbox_resources(pod, under), unified={})
    assert without_overhead(held, pod) == (sent if config.cpu_period else replace(sent, cpu_period=0))


RESERVATIONS = table("node_container_manager.v1.36.3")["tables"]["TestNodeAllocatableReservationForScheduling"][0]


@pytest.mark.parametrize("row", [row for row in RESERVATIONS if "memory" in row["capacity"]])
def test_status_allocatable_excludes_the_reservation(row):
    """The kubelet up to 1.33 compares a resize with Node.status.allocatable: capacity less this reservation."""
    threshold = row.get("hardThreshold", {})
    text = threshold.get("Quantity") or (f"{threshold['Percentage']:.0%}" if threshold else None)
    settings = KubeletSettings(
        kube_reserved=amounts(row["kubeReserved"]),
        system_reserved=amounts(row["systemReserved"]),
        eviction_hard={"memory.available": text} if text else {},
    )
    node = NodeFacts(memory=Quantity.parse(row["capacity"]["memory"]).value, cpus=10)
    under = Kubelet.of(node=node, settings=settings, release="1.33")  # fmt: skip
    left, kept = status_allocatable(under), amounts(row["expected"])
    zero = Quantity.of_bytes(0)
    assert left["memory"].value == node.memory - kept.get("memory", zero).value
    assert left["cpu"].milli_value == 10_000 - kept.get("cpu", zero).milli_value
