"""`status` of a Pod manifest, as `kubectl get -o json` prints it: what the kubelet reports of a pod.

Fields that do not bear on cgroups are not read. Source: Kubernetes API reference, core/v1 PodStatus.
"""

from __future__ import annotations

from collections.abc import Iterator

from memqos.catalog.node_values import mapping, text, whole
from memqos.catalog.pod_resources import ResourceReader
from memqos.catalog.schema import FieldPath
from memqos.catalog.yaml_nodes import MappingNode, ScalarNode, SequenceNode
from memqos.model.pod import ContainerState, ContainerStatus, PodStatus, ResourceList, Resources

__all__ = ["status_of"]

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
    """The two lists of `resources`; unlike those of a spec they need not fit each other."""
    if not _is_given(node, "resources"):
        return None
    own, place = mapping(node, "resources"), place.child("resources")
    return Resources(
        requests=reader.amounts(own.get("requests"), place.child("requests"), "resources.requests"),
        limits=reader.amounts(own.get("limits"), place.child("limits"), "resources.limits"),
    )
