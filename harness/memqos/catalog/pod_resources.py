"""Resource lists of a Pod manifest: amounts with their lines, checked as in the API server.

Also its `status`, the kubelet's report, as `kubectl get -o json` prints it.

Fields without effect on cgroups are not read. Source: Kubernetes API reference, core/v1 PodStatus.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from memqos.catalog.schema import FieldPath, known_quantity, mapping, quantity_of, text, whole
from memqos.catalog.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode
from memqos.engine.pod.sums import PREFIX, aggregate, page_size_of, supported_at_pod_level
from memqos.engine.swap import SWAP
from memqos.errors import ManifestError
from memqos.model.pod import ContainerState, ContainerStatus, Pod, PodStatus, QosClass, ResourceList, Resources
from memqos.model.quantity import ZERO, Quantity

__all__ = ["ResourceReader", "check_pod_level", "status_of"]

_STANDARD = ("cpu", "memory", "ephemeral-storage")


class ResourceReader:
    """Reads resource lists and keeps the place of each amount."""

    def __init__(self, place: FieldPath) -> None:
        self._file = place.file
        self.lines: dict[str, str] = {}

    def resources(self, node: MappingNode, place: FieldPath, prefix: str) -> Resources:
        """Both lists, checked one by one and, rounded as in the API server, against each other."""
        requests = self.amounts(node.get("requests"), place.child("requests"), f"{prefix}requests")
        limits = self.amounts(node.get("limits"), place.child("limits"), f"{prefix}limits")
        for name, request in requests.items():
            limit = limits.get(name)
            fixed = name.startswith(PREFIX) or _is_extended(name)
            kind = "huge pages" if name.startswith(PREFIX) else "extended resources"
            if limit is None:
                if fixed:
                    raise self._request_error(node, place, name, f"{kind} need a limit as well as a request.")
            elif limit.milli_value < request.milli_value:
                what = f"the request {request} is above the limit {limit}."
                raise self._request_error(node, place, name, what, got=str(request))
            elif fixed and request.milli_value != limit.milli_value:
                what = f"{kind} cannot be overcommitted: the request {request} must equal the limit {limit}."
                raise self._request_error(node, place, name, what)
        for name, amount in limits.items():
            what = ""
            if name.startswith(PREFIX) and not _is_whole(name, amount):
                what = f"{amount} is not a whole number of huge pages of this size."
            elif _is_extended(name) and amount.milli_value % 1000:
                what = f"an extended resource is counted: {amount} is not a whole number."
            if what:
                line = int(self.lines[f"{prefix}limits.{name}"].rpartition(":")[2])
                raise place.child("limits", name).error(what, line)
        return Resources(requests=requests, limits=limits)

    def _request_error(
        self, node: MappingNode, place: FieldPath, name: str, what: str, *, got: str | None = None
    ) -> ManifestError:
        section = node.get("requests")
        line = section.line_of(name) if isinstance(section, MappingNode) else node.line
        return place.child("requests", name).error(what, line, got=got)

    def amounts(self, node: Node | None, place: FieldPath, prefix: str) -> dict[str, Quantity]:
        """One resource list: known names, amounts of at least zero, and their lines kept under `prefix.name`."""
        if not isinstance(node, MappingNode):
            return {}
        found = {}
        for entry in node.entries:
            if entry.key not in _STANDARD:
                _check_resource(entry.key, place.child(entry.key), entry.line)
            if isinstance(entry.value, ScalarNode) and entry.value.value is None:
                # Kubernetes decodes null as the zero quantity.
                quantity = ZERO
            else:
                # Only errors need the place, and most amounts of a cluster are one of a few texts.
                quantity = known_quantity(entry.value) or quantity_of(entry.value, place.child(entry.key))
            if quantity < ZERO:
                what = f"an amount must not be negative, got {quantity}."
                raise place.child(entry.key).error(what, entry.line, got=str(quantity))
            found[entry.key] = quantity
            self.lines[f"{prefix}.{entry.key}"] = f"{self._file}:{entry.value.line}"
        return found


def _is_extended(name: str) -> bool:
    """Whether the API server counts a resource in whole units and does not overcommit it, as nvidia.com/gpu.

    Source: pkg/apis/core/v1/helper IsExtendedResourceName, validation.validateContainerResourceRequirements.
    """
    return "/" in name and "kubernetes.io/" not in name


def _is_whole(name: str, amount: Quantity) -> bool:
    """Whether an amount is a multiple of the page size in the resource's name; no amount is one of an invalid size."""
    size = page_size_of(name)
    return size is not None and amount.value % size == 0


def _check_resource(name: str, place: FieldPath, line: int) -> None:
    """Accepts standard names, huge pages, and names with a domain; any other name is an error."""
    if name.startswith(PREFIX) or "/" in name or name == SWAP:
        return
    near = difflib.get_close_matches(name[:80], _STANDARD, n=1, cutoff=0.5)
    raise place.error(
        f"'{name[:80]}' is not a resource of containers.",
        line,
        got=name[:80],
        next_step=f"Did you mean '{near[0]}'?" if near else "Known: cpu, memory, ephemeral-storage, hugepages-<size>.",
    )


def check_pod_level(pod: Pod, spec: MappingNode, place: FieldPath) -> None:
    """Pod-level resources: supported names, requests that cover the containers', limits that no container exceeds."""
    if pod.resources is None:
        return
    line = spec.line_of("resources")
    for name in (*pod.resources.requests, *pod.resources.limits):
        if not supported_at_pod_level(name):
            raise place.error(f"'{name}' cannot be given for a whole pod: cpu, memory and huge pages can.", line)
    asked = aggregate(pod)
    for name, request in pod.resources.requests.items():
        if name in asked and request < asked[name]:
            raise place.child("requests", name).error(
                f"the pod's request {request} is below the {asked[name]} that its containers request together.",
                _at(pod, f"resources.requests.{name}", line),
            )
    for name, limit in pod.resources.limits.items():
        spot = _at(pod, f"resources.limits.{name}", line)
        if name not in pod.resources.requests and name in asked and limit < asked[name]:
            raise place.child("limits", name).error(
                f"the pod's limit {limit} is below the {asked[name]} that its containers request together.", spot
            )
        for container in pod.init_containers + pod.containers:
            if name in container.resources.limits and limit < container.resources.limits[name]:
                raise place.child("limits", name).error(
                    f"the pod's limit {limit} is below the limit {container.resources.limits[name]} "
                    f"of its container '{container.name}'.",
                    spot,
                )


def _at(pod: Pod, key: str, otherwise: int) -> int:
    """The line of an amount in the file."""
    return int(pod.origin[key].rpartition(":")[2]) if key in pod.origin else otherwise


_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def status_of(pod: MappingNode, place: FieldPath) -> PodStatus | None:
    """The status in a pod's manifest; None if the manifest has none, or an empty one.

    Raises ManifestError for an amount that is no quantity.
    """
    node = pod.get("status")
    if not isinstance(node, MappingNode) or not node.entries:
        return None
    place = place.child("status")
    conditions = {text(one, "type"): one for one in _mappings(node, "conditions") if text(one, "status") == "True"}
    pending = conditions.get("PodResizePending")
    progress = conditions.get("PodResizeInProgress")
    reader = ResourceReader(place)
    return PodStatus(
        reason=text(node, "reason"),
        qos=next((one for one in QosClass if one == text(node, "qosClass")), None),
        resize=text(node, "resize"),
        pending="" if pending is None else text(pending, "reason") or "Pending",
        in_progress=progress is not None,
        since="" if progress is None else text(progress, "lastTransitionTime"),
        error="" if progress is None else text(progress, "message"),
        observed_generation=whole(node, "observedGeneration"),
        pending_generation=None if pending is None else whole(pending, "observedGeneration"),
        containers={one.name: one for field in _LISTS for one in _containers(node, field, place)},
        allocated=_amounts(node, "allocatedResources", reader, place),
        resources=_resources(node, reader, place),
    )


def _containers(node: MappingNode, field: str, place: FieldPath) -> Iterator[ContainerStatus]:
    for index, one in enumerate(_mappings(node, field)):
        own = place.child(field).item(index)
        reader = ResourceReader(own)
        states = mapping(one, "state")
        state = next((state for state in ContainerState if isinstance(states.get(state), MappingNode)), None)
        said = mapping(states, state) if state else states
        yield ContainerStatus(
            name=text(one, "name"),
            id=text(one, "containerID").rpartition("://")[2],
            state=state,
            reason=text(said, "reason"),
            started=text(said, "startedAt") if state is ContainerState.RUNNING else "",
            restarts=whole(one, "restartCount") or 0,
            allocated=_amounts(one, "allocatedResources", reader, own),
            resources=_resources(one, reader, own),
            origin=reader.lines,
        )


def _mappings(node: MappingNode, name: str) -> Iterator[MappingNode]:
    value = node.get(name)
    items = value.items if isinstance(value, SequenceNode) else ()
    yield from (one for one in items if isinstance(one, MappingNode))


def _is_given(node: MappingNode, name: str) -> bool:
    value = node.get(name)
    return value is not None and not (isinstance(value, ScalarNode) and value.value is None)


def _amounts(node: MappingNode, name: str, reader: ResourceReader, place: FieldPath) -> ResourceList | None:
    if not _is_given(node, name):
        return None
    return reader.amounts(node.get(name), place.child(name), "allocated")


def _resources(node: MappingNode, reader: ResourceReader, place: FieldPath) -> Resources | None:
    """The two lists of `resources`; unlike in a spec they may contradict each other."""
    if not _is_given(node, "resources"):
        return None
    own, place = mapping(node, "resources"), place.child("resources")
    return Resources(
        requests=reader.amounts(own.get("requests"), place.child("requests"), "resources.requests"),
        limits=reader.amounts(own.get("limits"), place.child("limits"), "resources.limits"),
    )
