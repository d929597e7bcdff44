"""The kubelet's checkpoints of pods' resources, in files of its root directory.

The kubelet uses their values; `status` may be older.

From 1.33 on there are `allocated_pods_state` and `actuated_pods_state`, with requests and limits. Source: kubelet
`allocation/state/checkpoint.go`: `data` is a JSON text with `entries`, by uid either ContainerResources and
PodLevelResources, or a whole podSpec.

From 1.27 to 1.32, with the gate InPlacePodVerticalScaling, there is `pod_status_manager_state`: `allocationEntries` by
uid and container, and `resizeStatusEntries` by uid. It has no actuated resources. Its forms:
- 1.27 to 1.31: both are fields of the file itself, and a container has a ResourceList, only its requests;
- builds of 1.32 before its release: both are in the JSON text `data`, a container still has a ResourceList;
- 1.32: in `data`, and a container has ResourceRequirements, so limits too.
Kubelets of 1.33 and later do not read that file and do not remove it.
Sources: kubelet `status/state/checkpoint.go` and its test; kubernetes#126620 for `data`, whose release note tells users
of 1.31 to remove the file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memqos.engine.numa.state import fnv1a_32
from memqos.engine.releases.release import Release
from memqos.errors import ManifestError
from memqos.model.pod import ContainerStatus, Pod, PodStatus, ResourceList, Resources
from memqos.model.quantity import Quantity, QuantityError
from memqos.validation import parse_json

__all__ = [
    "ACTUATED",
    "ALLOCATED",
    "CHECKPOINTS",
    "STATUS_MANAGER",
    "Checkpointed",
    "checkpointed",
    "checkpoints_of",
    "status_manager_state",
    "with_checkpoints",
    "with_status_manager_state",
]

ALLOCATED, ACTUATED = "allocated_pods_state", "actuated_pods_state"
STATUS_MANAGER = "pod_status_manager_state"
CHECKPOINTS = (ALLOCATED, ACTUATED, STATUS_MANAGER)
_FIRST_RESIZES, _FIRST_ALLOCATION_MANAGER = 27, 33
_STEP = "Keep the kubelet's file as it is, or leave it out."
_RESIZABLE = ("cpu", "memory")
_RESIZES = ("", "Proposed", "InProgress", "Deferred", "Infeasible")
_REQUIREMENTS = frozenset({"requests", "limits", "claims"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """The resources of one pod's containers, by name. Pod-level ones are not read: its status has them.

    requests_alone: whether the file has no limits of containers. resize: the entry in `resizeStatusEntries`, "" without
    one. place: the file, for reasons.
    """

    containers: Mapping[str, Resources] = field(default_factory=dict)
    requests_alone: bool = False
    resize: str = ""
    place: str = field(default="", compare=False)


def checkpoints_of(release: Release) -> Collection[str]:
    """The CHECKPOINTS that a kubelet of this release reads; a file of another release is a leftover."""
    if release.minor < _FIRST_RESIZES:
        return ()
    return (ALLOCATED, ACTUATED) if release.minor >= _FIRST_ALLOCATION_MANAGER else (STATUS_MANAGER,)


def checkpointed(document: object, *, file: str, name: str) -> dict[str, Checkpointed]:
    """The pods of `allocated_pods_state` or `actuated_pods_state`, by uid.

    Raises ManifestError for a form that no kubelet from 1.33 on writes, and for a wrong checksum.
    """
    parsed = _data(document, file, name)
    # The form before 1.33 has other entries with only requests.
    older = isinstance(parsed, dict) and "allocationEntries" in parsed
    entries = (parsed.get("entries") or {}) if isinstance(parsed, dict) and not older else None
    if not isinstance(entries, dict):
        raise _error("expected 'entries' in its data", file, name)
    return {str(uid): _pod(entry, file, name, str(uid)) for uid, entry in entries.items()}


def status_manager_state(document: object, *, file: str) -> dict[str, Checkpointed]:
    """The pods of `pod_status_manager_state`, by uid, in each of its three forms.

    Raises ManifestError for another form, and for a wrong checksum of `data`. The checksum of the form without `data`
    is over Go's text form of its quantities, which contains their original spelling. The file lacks that, so kubelets
    themselves fail to recompute it (kubernetes#117589): it is not checked.
    """
    name = STATUS_MANAGER
    if not isinstance(document, dict):
        raise _error("expected an object", file, name)
    parsed = _data(document, file, name) if "data" in document else document
    if not isinstance(parsed, dict) or not _is_status_manager_state(parsed, in_data="data" in document):
        raise _error("expected 'allocationEntries', in it or in its data", file, name)
    allocations, resizes = _entries(parsed, file, name)
    containers = [one for pod in allocations.values() for one in pod.values()]
    whole = any(isinstance(one, dict) and one.keys() & _REQUIREMENTS for one in containers)
    return {
        uid: Checkpointed(
            containers={
                container: _allocated(one, file, f"{name}.{uid[:80]}.{container[:80]}", whole=whole)
                for container, one in allocations.get(uid, {}).items()
            },
            requests_alone=not whole,
            resize=resizes.get(uid, ""),
            place=f"{file} {name}",
        )
        for uid in dict.fromkeys([*allocations, *resizes])
    }


_ALLOCATIONS, _RESIZE_ENTRIES = "allocationEntries", "resizeStatusEntries"


def _is_status_manager_state(parsed: Mapping[str, Any], *, in_data: bool) -> bool:
    """Whether this has entries, or is the file of a kubelet without pods: an empty `data`, or only a checksum."""
    without = not parsed if in_data else "checksum" in parsed
    return without or _ALLOCATIONS in parsed or _RESIZE_ENTRIES in parsed


def _entries(parsed: Mapping[str, Any], file: str, name: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The containers of each pod, none for null, and each pod's resize, if any."""
    allocations, resizes = parsed.get(_ALLOCATIONS) or {}, parsed.get(_RESIZE_ENTRIES) or {}
    pods = allocations.values() if isinstance(allocations, dict) else [()]
    if not isinstance(resizes, dict) or not all(one is None or isinstance(one, dict) for one in pods):
        what = f"expected containers by pod in '{_ALLOCATIONS}', and texts by pod in '{_RESIZE_ENTRIES}'"
        raise _error(what, file, name)
    for uid, resize in resizes.items():
        if resize not in _RESIZES:
            words = ", ".join(_RESIZES[1:])
            raise _error(f"'{str(resize)[:40]}' is not one of {words}", file, f"{name}.{_RESIZE_ENTRIES}.{uid[:80]}")
    return {uid: one or {} for uid, one in allocations.items()}, resizes


def _allocated(given: Any, file: str, place: str, *, whole: bool) -> Resources:
    """One container of `pod_status_manager_state`; null is an empty list. whole: ResourceRequirements."""
    lists = {} if given is None else given
    if not isinstance(lists, dict) or (whole and lists.keys() - _REQUIREMENTS):
        raise _error("expected a container's resources, all in the same form", file, place)
    return _resources(lists, file, place) if whole else Resources(requests=_amounts(lists, file, place))


def _data(document: object, file: str, name: str) -> object:
    """The content of a checkpoint's text `data`.

    Its checksum is FNV-1a (32 bits) over Go's text form of `data`; a kubelet does not start with a wrong one. A missing
    one is not checked.
    """
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, str):
        raise _error("expected an object with the text 'data'", file, name)
    given = document.get("checksum") if isinstance(document, dict) else None
    if given is not None and given != fnv1a_32(f"(string){data}".encode("utf-8", "surrogatepass")):
        raise _error("the checksum does not match its data: the file is damaged, or was edited", file, name)
    return parse_json(data.encode("utf-8", "surrogatepass"), file=f"{file} {name}", next_step=_STEP)


def _error(what: str, file: str, place: str) -> ManifestError:
    return ManifestError.at(f"{what}.", file=file, field=place, next_step=_STEP)


def _pod(entry: Any, file: str, name: str, uid: str) -> Checkpointed:
    place = f"{name}.{uid[:80]}"
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
        containers={one: _resources(given, file, f"{place}.{one[:80]}") for one, given in containers.items()},
        place=f"{file} {name}",
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
    """The pod with its status from the checkpoints of 1.33 and later; unchanged if they do not contain it."""
    admitted = allocated.get(pod.uid)
    if admitted is None:
        return pod
    status, done = pod.status or PodStatus(), actuated.get(pod.uid, admitted)
    containers = dict(status.containers)
    for name, resources in admitted.containers.items():
        told = containers.get(name, ContainerStatus(name=name))
        containers[name] = replace(_admitted(told, resources, admitted), resources=done.containers.get(name, resources))
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
            checkpoint=admitted.place,
        ),
    )


def with_status_manager_state(pod: Pod, allocated: Mapping[str, Checkpointed]) -> Pod:
    """The pod with its status from `pod_status_manager_state`; unchanged if that does not contain it.

    Containers' actual resources are only in the pod's status. If the file has no limits, the status's limits apply if
    it has the same allocated requests. `status.resize` wins over the entry in `resizeStatusEntries`. A waiting resize
    in the status is older than the file, and admitted since, if the spec equals the allocation.
    """
    admitted = allocated.get(pod.uid)
    if admitted is None:
        return pod
    status, alone = pod.status or PodStatus(), admitted.requests_alone
    asked = {one.name: one.resources for one in (*pod.init_containers, *pod.containers)}
    shared = {name: one for name, one in admitted.containers.items() if name in asked}
    waits = any(_differ(asked[name], one, requests_alone=alone) for name, one in shared.items())
    containers = dict(status.containers)
    progress = "InProgress" in {status.resize, admitted.resize}
    for name, resources in admitted.containers.items():
        told = containers.get(name, ContainerStatus(name=name))
        older = told.allocated is not None and _differ(
            Resources(requests=told.allocated), resources, requests_alone=True
        )
        # Limits of another moment may differ from the allocated ones.
        reported = None if alone and waits and older else told.resources
        limits = resources.limits if not alone else asked[name].limits if name in asked and not waits else {}
        progress = progress or _is_behind(limits, reported)
        containers[name] = replace(_admitted(told, resources, admitted), resources=reported)
    resize = status.resize or admitted.resize
    if not waits and resize:
        resize = "InProgress" if admitted.containers else resize
    return replace(
        pod,
        status=replace(
            status,
            resize=resize,
            in_progress=status.in_progress or progress,
            observed_generation=None,
            containers=containers,
            checkpoint=admitted.place,
        ),
    )


def _admitted(told: ContainerStatus, resources: Resources, pod: Checkpointed) -> ContainerStatus:
    """A container's status with its allocation from a checkpoint, and the place."""
    keys = ("allocated", *(() if pod.requests_alone else ("resources.limits",)))
    return replace(
        told,
        allocated=resources.requests,
        allocated_limits=None if pod.requests_alone else resources.limits,
        origin={**told.origin, **{f"{key}.{name}": pod.place for key in keys for name in _RESIZABLE}},
    )


def _is_behind(limits: ResourceList, reported: Resources | None) -> bool:
    """Whether a container reports a memory limit other than this one; a missing one may be unreported."""
    seen, wanted = (reported.limits if reported is not None else {}).get("memory"), limits.get("memory")
    return seen is not None and wanted is not None and seen != wanted


def _differ(one: Resources, other: Resources, *, requests_alone: bool = False) -> bool:
    """Whether two differ in cpu or memory."""
    pairs = [(one.requests, other.requests), *([] if requests_alone else [(one.limits, other.limits)])]
    return any(a.get(name) != b.get(name) for a, b in pairs for name in _RESIZABLE)
