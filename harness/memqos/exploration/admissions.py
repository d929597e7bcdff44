"""Hypothesis strategies of objects that admission plugins read, of resizes, and of whole admissions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from memqos.errors import ManifestError
from memqos.exploration.amounts import chosen, drawn_bytes, drawn_cpu, once_in
from memqos.exploration.configurations import configurations, placing
from memqos.exploration.documents import ConfiguredKubelet, Document, containers_in, pod_of
from memqos.exploration.manifests import ANY_POD, PodShape, manifests
from memqos.model.node import CgroupDriver, NodeFacts

__all__ = ["Situation", "admission_objects", "resizes", "situations"]

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
