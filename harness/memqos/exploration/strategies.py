"""Hypothesis strategies of Pod manifests, of requests and lifecycles, and of whole admissions, as documents."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from memqos.errors import ManifestError
from memqos.exploration import Document
from memqos.exploration.amounts import (
    MIB,
    MOST_CPU,
    MOST_MEMORY,
    chosen,
    drawn_bytes,
    drawn_cpu,
    drawn_cpu_spelling,
    drawn_spelling,
    once_in,
)
from memqos.exploration.configurations import configurations, placing
from memqos.exploration.examples import ConfiguredKubelet, Verb, containers_in, pod_of, resources_of
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity

__all__ = [
    "ANY_POD",
    "RUNNABLE",
    "PodShape",
    "Situation",
    "admission_objects",
    "cri_requests",
    "lifecycles",
    "manifests",
    "pods",
    "pods_together",
    "requests",
    "resizes",
    "situations",
]


IMAGE = "memqos.local/memload:1"
SECONDS = "2"
"""An init container's program: it runs long enough for its cgroup to be read."""
_HUGE = 2 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShape:
    """Bounds of drawn pods.

    containers, init: the most app containers (>= 1) and init containers (>= 0) of a pod. sidecars, overhead, pod_level,
    huge_pages: whether pods may have them. spelled: whether amounts vary in spelling. fractions: whether amounts may
    have fractions of a byte. memory, cpu: the largest amounts, in bytes and thousandths of a CPU. least_limit,
    least_quota: the smallest memory and CPU limits; 0, which means no limit, is drawn only if they are 0.
    """

    containers: int = 3
    init: int = 2
    sidecars: bool = True
    overhead: bool = True
    pod_level: bool = True
    huge_pages: bool = True
    spelled: bool = True
    fractions: bool = True
    memory: int = MOST_MEMORY
    cpu: int = MOST_CPU
    least_limit: int = 0
    least_quota: int = 0


ANY_POD = PodShape()
RUNNABLE = PodShape(least_limit=32 * MIB, least_quota=500, huge_pages=False)
"""Pods whose containers start on a machine: a limit has room for the runtime's own process during creation."""


def _resources(draw: st.DrawFn, shape: PodShape) -> Document:
    """`resources` of a container: requests, limits, both (equal or not) or none ({}), including zeros."""
    found: Document = {"requests": {}, "limits": {}}
    if once_in(draw, 4):
        # A container of a Guaranteed pod: both limits, and requests that equal them or default to them.
        amounts = {
            "cpu": _amount(draw, shape, "cpu", drawn_cpu(draw, max(shape.least_quota, 1), shape.cpu)),
            "memory": _amount(draw, shape, "memory", drawn_bytes(draw, max(shape.least_limit, 1), shape.memory)),
        }
        found["limits"] = amounts
        found["requests"] = dict(amounts) if once_in(draw, 2) else {}
    else:
        for name in ("memory", "cpu"):
            _put(draw, found, name, shape)
    if shape.huge_pages and (found["limits"] or found["requests"]) and once_in(draw, 5):
        pages = draw(st.integers(1, 64)) * _HUGE
        found["limits"]["hugepages-2Mi"] = _bytes(draw, shape, pages, whole=True)
    return {name: amounts for name, amounts in found.items() if amounts}


def _put(draw: st.DrawFn, found: Document, name: str, shape: PodShape) -> None:
    """Add a request, a limit, both or neither of one resource; a request never exceeds its limit."""
    of_memory = name == "memory"
    least, most = (shape.least_limit, shape.memory) if of_memory else (shape.least_quota, shape.cpu)
    counts = drawn_bytes if of_memory else drawn_cpu
    limit = counts(draw, least, most) if once_in(draw, 2) else None
    request = counts(draw, 0, most if limit is None else limit) if once_in(draw, 2) else None
    for part, count in (("requests", request), ("limits", limit)):
        if count is not None:
            found[part][name] = _amount(draw, shape, name, count, whole=request == limit)


def _amount(draw: st.DrawFn, shape: PodShape, name: str, count: int, *, whole: bool = False) -> int | str:
    if name == "memory":
        return _bytes(draw, shape, count, whole=whole)
    return drawn_cpu_spelling(draw, count) if shape.spelled else f"{count}m"


def _bytes(draw: st.DrawFn, shape: PodShape, count: int, *, whole: bool = False) -> int | str:
    """Bytes in a manifest's spelling. whole: without fractions of a byte, so that sums still cover it."""
    if shape.fractions and not whole and count and once_in(draw, 16):
        return chosen(draw, [f"{count - 1}.5", f"{count * 1000 - 1}m", f"{count - 1}.000000001"])
    return drawn_spelling(draw, count, plain=not shape.spelled)


def _container(draw: st.DrawFn, name: str, shape: PodShape, *, policy: str = "", init: bool = False) -> Document:
    """A container. policy: its restartPolicy, "Always" for a sidecar, "" for none. init: whether its program ends."""
    found: Document = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": ["hold", SECONDS] if init else ["hold"],
    }
    if resources := _resources(draw, shape):
        found["resources"] = resources
    if policy:
        found["restartPolicy"] = policy
    return found


@st.composite
def manifests(draw: st.DrawFn, shape: PodShape = ANY_POD, *, name: str = "p") -> Document:
    """A v1 Pod manifest. name: the pod's."""
    init = []
    for number in range(draw(st.integers(0, shape.init))):
        sidecar = shape.sidecars and once_in(draw, 2)
        init.append(_container(draw, f"i{number}", shape, policy="Always" if sidecar else "", init=not sidecar))
    apps = [_container(draw, f"c{number}", shape) for number in range(draw(st.integers(1, shape.containers)))]
    spec: Document = {"hostNetwork": True, "terminationGracePeriodSeconds": 0}
    spec |= {"initContainers": init, "containers": apps} if init else {"containers": apps}
    if shape.overhead and once_in(draw, 4):
        spec |= {"runtimeClassName": "explored", "overhead": _overhead(draw, shape)}
    found: Document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    if shape.pod_level and once_in(draw, 4):
        _put_pod_level(draw, found, shape)
    return found


def _overhead(draw: st.DrawFn, shape: PodShape) -> Document:
    """`overhead` of memory, CPU or both, including zero."""
    found: Document = {}
    which = chosen(draw, (("memory",), ("cpu",), ("memory", "cpu")))
    if "memory" in which:
        found["memory"] = _bytes(draw, shape, drawn_bytes(draw, 0, min(shape.memory, 1 << 30)))
    if "cpu" in which:
        found["cpu"] = _amount(draw, shape, "cpu", drawn_cpu(draw, 0, min(shape.cpu, 500)))
    return found


def _put_pod_level(draw: st.DrawFn, manifest: Document, shape: PodShape) -> None:
    """Add `spec.resources` that cover the containers' sums; none if those exceed the largest amounts."""
    pod = pod_of(manifest)
    found: Document = {"requests": {}, "limits": {}}
    for name, most, least in (("memory", shape.memory, shape.least_limit), ("cpu", shape.cpu, shape.least_quota)):
        parts = [one.resources for one in pod.all_containers]
        asked = sum(_whole(one.requests, name) for one in parts)
        top = max([least, asked, *(_whole(one.limits, name) for one in parts)])
        if top > most or once_in(draw, 3):
            continue
        counts = drawn_bytes if name == "memory" else drawn_cpu
        kind = chosen(draw, ("limits", "requests", "both", "equal"))
        limit = counts(draw, top, most)
        if kind in {"both", "limits"}:
            found["limits"][name] = _amount(draw, shape, name, limit, whole=True)
        if kind in {"both", "requests"}:
            found["requests"][name] = _amount(draw, shape, name, counts(draw, asked, limit), whole=True)
        if kind == "equal":
            found["limits"][name] = found["requests"][name] = _amount(draw, shape, name, limit, whole=True)
    if resources := {part: amounts for part, amounts in found.items() if amounts}:
        manifest["spec"]["resources"] = resources


def _whole(amounts: Mapping[str, Quantity], name: str) -> int:
    """An amount in bytes or thousandths of a CPU, rounded up; 0 for none."""
    if name not in amounts:
        return 0
    return amounts[name].milli_value if name == "cpu" else amounts[name].value


def pods(shape: PodShape = ANY_POD, *, name: str = "p") -> st.SearchStrategy[Pod]:
    """Pods as the API server stores them."""
    return manifests(shape, name=name).map(pod_of)


def pods_together(least: int = 1, most: int = 3, shape: PodShape = ANY_POD) -> st.SearchStrategy[tuple[Pod, ...]]:
    """Several pods of one node, with distinct names and uids."""
    return st.integers(least, most).flatmap(
        lambda count: st.tuples(*(pods(shape, name=f"p{number}") for number in range(count)))
    )


LEAST_LIMIT = 32 * MIB
"""The least memory limit with which a container starts, in bytes."""
LEAST_HIGH = 48 * MIB
"""The least memory.high that does not throttle the runtime's own process during creation, in bytes."""
_MOST_PROTECTED = 1 << 36
_PERIODS = (100_000, 50_000, 10_000, 200_000)
_NUMA_NODES = ("", "", "0", "1", "0-1")


@st.composite
def requests(
    draw: st.DrawFn, *, least_limit: int = LEAST_LIMIT, numa_nodes: Sequence[str] = _NUMA_NODES, update: bool = False
) -> Document:
    """Valid CRI LinuxContainerResources as a document; {} is an empty request.

    least_limit: the smallest memory limit. numa_nodes: lists of NUMA nodes and CPUs, "" for none. update: whether it
    updates a running container: the limit then stays above its usage, and oom_score_adj is not set.
    """
    found: Document = {}
    if not once_in(draw, 3):
        limit = drawn_bytes(draw, least_limit, 1 << 33)
        found["memory_limit_in_bytes"] = limit
        if once_in(draw, 2):
            found["memory_swap_limit_in_bytes"] = chosen(draw, (limit, limit + drawn_bytes(draw, 0, 1 << 32), -1))
    if once_in(draw, 2):
        found["cpu_shares"] = draw(st.integers(2, 262144))
    if once_in(draw, 2):
        period = chosen(draw, _PERIODS)
        found |= {"cpu_period": period, "cpu_quota": draw(st.integers(period // 2, period * 4))}
    if not update and once_in(draw, 2):
        found["oom_score_adj"] = draw(st.integers(-997, 1000))
    for field in ("cpuset_cpus", "cpuset_mems"):
        if (text := chosen(draw, numa_nodes)) and once_in(draw, 2):
            found[field] = text
    if unified := _unified(draw):
        found["unified"] = unified
    return found


def _unified(draw: st.DrawFn) -> Document:
    found: Document = {}
    for name, least, most in (
        ("memory.min", 0, _MOST_PROTECTED),
        ("memory.low", 0, _MOST_PROTECTED),
        ("memory.high", LEAST_HIGH, _MOST_PROTECTED),
    ):
        if once_in(draw, 2):
            found[name] = str(drawn_bytes(draw, least, most))
    if once_in(draw, 6):
        found["memory.oom.group"] = chosen(draw, ("1", "0"))
    return found


def cri_requests(*, update: bool = False) -> st.SearchStrategy[ContainerResources]:
    """The CRI messages of `requests`."""
    return requests(update=update).map(resources_of)


_USUAL = (Verb.EXEC, Verb.STATS, Verb.RESTART, Verb.UPDATE, Verb.UPDATE, Verb.UPDATE)


@st.composite
def lifecycles(draw: st.DrawFn, *, most: int = 5, node_wide: bool = True) -> list[Document]:
    """A container's lifecycle as a list of steps; the first creates it.

    most: the number of later steps. node_wide: whether to include steps that affect the whole machine.
    """
    steps: list[Document] = [{Verb.CREATE.value: draw(requests())}]
    count = draw(st.integers(0, most))
    reloads = node_wide and once_in(draw, 6)
    if once_in(draw, 6):
        steps += [{Verb.UPDATE.value: draw(requests(update=True))}, {Verb.START.value: {}}]
    for _ in range(count):
        verb = chosen(draw, (*_USUAL, Verb.RELOAD) if reloads else _USUAL)
        steps.append({verb.value: draw(requests(update=True)) if verb is Verb.UPDATE else {}})
    return steps


_MOST = 1 << 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A node with a kubelet, new pods, and the cluster's objects that the API server admits them with.

    pods, objects: documents as kubectl accepts them; pods in the order of their admission.
    """

    node: NodeFacts
    driver: CgroupDriver
    kubelet: ConfiguredKubelet
    pods: Sequence[Document]
    objects: Sequence[Document]


@st.composite
def admission_objects(draw: st.DrawFn) -> list[Document]:
    """Any of LimitRange, PriorityClass, RuntimeClass and ResourceQuota."""
    found: list[Document] = []
    if once_in(draw, 2):
        found.append(_limit_range(draw))
    if once_in(draw, 3):
        value = chosen(draw, (0, 1000, -10, 1000000000))
        found.append(_object("scheduling.k8s.io/v1", "PriorityClass", value=value, globalDefault=draw(st.booleans())))
    if once_in(draw, 3):
        hard = {"limits.memory": str(drawn_bytes(draw, 0, _MOST)), "requests.cpu": f"{drawn_cpu(draw, 0, 8000)}m"}
        found.append(_object("v1", "ResourceQuota", spec={"hard": {name: hard[name] for name in _some(draw, hard)}}))
    return found


def runtime_class(overhead: Document) -> Document:
    """The RuntimeClass of a pod that has this overhead."""
    return _object("node.k8s.io/v1", "RuntimeClass", handler="runc", overhead={"podFixed": overhead})


def _limit_range(draw: st.DrawFn) -> Document:
    least, most = sorted(drawn_bytes(draw, 0, _MOST) for _ in range(2))
    request, default = sorted(max(least, min(most, drawn_bytes(draw, 0, _MOST))) for _ in range(2))
    fields = {"min": least, "defaultRequest": request, "default": default, "max": most}
    item = {name: {"memory": str(fields[name])} for name in _some(draw, fields)}
    return _object("v1", "LimitRange", spec={"limits": [{"type": "Container", **item}]})


def _some(draw: st.DrawFn, names: Document | dict[str, int]) -> list[str]:
    chosen_ones = [name for name in names if draw(st.booleans())]
    return chosen_ones or [next(iter(names))]


def _object(version: str, kind: str, **fields: object) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "explored"}, **fields}


@st.composite
def resizes(draw: st.DrawFn, manifest: Document, shape: PodShape = ANY_POD) -> Document:
    """The manifest with other amounts in its existing memory and CPU fields, and with the same QoS class."""
    found = copy.deepcopy(manifest)
    before = pod_of(manifest)
    for container in containers_in(found):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name, counts, least in (
            ("memory", drawn_bytes, max(shape.least_limit, 1)),
            ("cpu", drawn_cpu, max(shape.least_quota, 1)),
        ):
            unit = "m" if name == "cpu" else ""
            most = shape.cpu if name == "cpu" else shape.memory
            equal = name in requests and requests.get(name) == limits.get(name)
            if name in limits:
                limit = counts(draw, least, most)
                limits[name] = f"{limit}{unit}"
                most = limit
            if name in requests:
                requests[name] = limits[name] if equal else f"{counts(draw, 1, most)}{unit}"
    try:
        after = pod_of(found)
    except ManifestError:
        return manifest
    return found if after.name == before.name else manifest


@st.composite
def situations(
    draw: st.DrawFn, *, kubernetes: str | None = None, shape: PodShape = ANY_POD, most: int = 4, node: NodeFacts
) -> Situation:
    """A kubelet, objects of admission, and up to `most` new pods, admitted one after another.

    kubernetes: the release, None for any.
    """
    driver = chosen(draw, tuple(CgroupDriver))
    kubelet = draw(configurations(kubernetes=kubernetes, node=node, driver=driver))
    if once_in(draw, 3):
        kubelet = draw(placing(kubelet, node))
    objects = draw(admission_objects())
    found: list[Document] = []
    for number in range(draw(st.integers(1, most))):
        one = draw(manifests(shape, name=f"p{number}"))
        if overhead := one["spec"].pop("overhead", None):
            own = runtime_class(overhead)
            own["metadata"] = {"name": f"explored-{number}"}
            one["spec"]["runtimeClassName"] = f"explored-{number}"
            objects.append(own)
        else:
            one["spec"].pop("runtimeClassName", None)
        found.append(one)
    return Situation(node=node, driver=driver, kubelet=kubelet, pods=found, objects=objects)
