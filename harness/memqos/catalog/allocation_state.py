"""The kubelet's checkpoints of pods' resources, `allocated_pods_state` and `actuated_pods_state` (1.33 and later).

What is in them is what the kubelet goes by, limits too; `status` has allocated requests alone, and may be older.
Source: kubelet `allocation/state/checkpoint.go`: `data` is a JSON text with `entries`, by uid either ContainerResources
and PodLevelResources, or a whole podSpec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memqos.catalog.json_fields import parse_json
from memqos.engine.numa.state import fnv1a_32
from memqos.errors import ManifestError
from memqos.model.pod import ContainerStatus, Pod, PodStatus, ResourceList, Resources
from memqos.model.quantity import Quantity, QuantityError

__all__ = ["ACTUATED", "ALLOCATED", "Checkpointed", "checkpointed", "with_checkpoints"]

ALLOCATED, ACTUATED = "allocated_pods_state", "actuated_pods_state"
_STEP = "Keep the kubelet's file as it is, or leave it out."
_RESIZABLE = ("cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """One pod's resources: of its containers, by name. Those of the pod itself are not read: its status has them."""

    containers: Mapping[str, Resources] = field(default_factory=dict)


def checkpointed(document: object, *, file: str, name: str) -> dict[str, Checkpointed]:
    """The pods of a checkpoint, by uid.

    Raises ManifestError for a form that no kubelet from 1.33 on writes, and for a checksum that does not fit: it is
    FNV-1a (32 bits) over Go's picture of `data`, and no kubelet starts with another. A missing one is not checked.
    """
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, str):
        raise _error("expected an object with the text 'data'", file, name)
    given = document.get("checksum") if isinstance(document, dict) else None
    if given is not None and given != fnv1a_32(f"(string){data}".encode("utf-8", "surrogatepass")):
        raise _error("the checksum does not fit its data: the file is damaged, or was edited", file, name)
    parsed = parse_json(data.encode(), file=f"{file} {name}", next_step=_STEP)
    # The form before 1.33 has other entries, of requests alone: what it leaves open is not filled up here.
    older = isinstance(parsed, dict) and "allocationEntries" in parsed
    entries = (parsed.get("entries") or {}) if isinstance(parsed, dict) and not older else None
    if not isinstance(entries, dict):
        raise _error("expected 'entries' in its data", file, name)
    return {str(uid): _pod(entry, file, f"{name}.{str(uid)[:80]}") for uid, entry in entries.items()}


def _error(what: str, file: str, place: str) -> ManifestError:
    return ManifestError.at(f"{what}.", file=file, field=place, next_step=_STEP)


def _pod(entry: Any, file: str, place: str) -> Checkpointed:
    if not isinstance(entry, dict):
        raise _error("expected a pod's resources", file, place)
    spec = entry.get("podSpec")
    if isinstance(spec, dict):
        listed = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        containers = {str(one.get("name")): one.get("resources") for one in listed if isinstance(one, dict)}
    else:
        found = entry.get("ContainerResources")
        containers = found if isinstance(found, dict) else {}
    return Checkpointed(
        containers={name: _resources(one, file, f"{place}.{name[:80]}") for name, one in containers.items()}
    )


def _resources(given: Any, file: str, place: str) -> Resources:
    lists = given if isinstance(given, dict) else {}
    return Resources(
        requests=_amounts(lists.get("requests"), file, f"{place}.requests"),
        limits=_amounts(lists.get("limits"), file, f"{place}.limits"),
    )


def _amounts(given: Any, file: str, place: str) -> ResourceList:
    found = {}
    for name, amount in given.items() if isinstance(given, dict) else ():
        try:
            found[name] = Quantity.parse(str(amount))
        except QuantityError as error:
            raise _error(str(error), file, f"{place}.{name}") from None
    return found


def with_checkpoints(pod: Pod, allocated: Mapping[str, Checkpointed], actuated: Mapping[str, Checkpointed]) -> Pod:
    """The pod with its status as these checkpoints have it; as it is if they do not know it."""
    admitted = allocated.get(pod.uid)
    if admitted is None:
        return pod
    status, done = pod.status or PodStatus(), actuated.get(pod.uid, admitted)
    containers = dict(status.containers)
    for name, resources in admitted.containers.items():
        containers[name] = replace(
            containers.get(name, ContainerStatus(name=name)),
            allocated=resources.requests,
            allocated_limits=resources.limits,
            resources=done.containers.get(name, resources),
        )
    asked = {one.name: one.resources for one in (*pod.init_containers, *pod.containers)}
    waits = any(_differ(asked[name], one) for name, one in admitted.containers.items() if name in asked)
    progress = any(_differ(one, done.containers.get(name, one)) for name, one in admitted.containers.items())
    return replace(
        pod,
        status=replace(
            status,
            resize="",
            pending=(status.pending or "Pending") if waits else "",
            in_progress=progress,
            observed_generation=None,
            containers=containers,
        ),
    )


def _differ(one: Resources, other: Resources) -> bool:
    """Whether two have other amounts of cpu or memory."""
    return any(
        a.get(name) != b.get(name)
        for a, b in ((one.requests, other.requests), (one.limits, other.limits))
        for name in _RESIZABLE
    )
