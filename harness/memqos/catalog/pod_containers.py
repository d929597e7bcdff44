"""The containers of a pod's spec, with the strictness of the API server, after API defaulting."""

from __future__ import annotations

from collections.abc import Iterator

from memqos.catalog.node_values import text, text_list
from memqos.catalog.object_names import check_label
from memqos.catalog.pod_resources import ResourceReader
from memqos.catalog.schema import FieldPath
from memqos.catalog.yaml_nodes import MappingNode, SequenceNode
from memqos.engine.releases.defaulting import with_requests
from memqos.model.pod import Container, ContainerKind, ResizePolicy, Resources

__all__ = ["check_names", "containers_of"]

_KINDS = {"containers": ContainerKind.APP, "ephemeralContainers": ContainerKind.EPHEMERAL}


def containers_of(spec: MappingNode, field: str, place: FieldPath) -> Iterator[Container]:
    """The containers in one of a pod's three lists (`field`), after API defaulting."""
    value = spec.get(field)
    items = value.items if isinstance(value, SequenceNode) else ()
    for index, item in enumerate(items):
        own = place.child(field).item(index)
        if not isinstance(item, MappingNode):
            raise own.error("a container is a mapping of fields.", item.line)
        yield _container(item, field, own)


def _container(node: MappingNode, field: str, place: FieldPath) -> Container:
    name = text(node, "name")
    if not name:
        raise place.child("name").error("a container needs a name.", node.line)
    check_label(name, place.child("name"), node.line_of("name"))
    policy = text(node, "restartPolicy")
    if policy not in {"", "Always", "OnFailure", "Never"}:
        raise place.child("restartPolicy").error(
            f"'{policy[:80]}' is not a restart policy: Always, OnFailure or Never.", node.line_of("restartPolicy")
        )
    if field == "initContainers":
        kind = ContainerKind.SIDECAR if policy == "Always" else ContainerKind.INIT
    else:
        kind = _KINDS[field]
    origins = ResourceReader(place)
    own = node.get("resources")
    resources = origins.resources(own, place.child("resources"), "") if isinstance(own, MappingNode) else Resources()
    if kind is ContainerKind.EPHEMERAL and (resources.requests or resources.limits):
        raise place.child("resources").error("an ephemeral container has no resources.", node.line_of("resources"))
    return with_requests(
        Container(
            name=name,
            kind=kind,
            resources=resources,
            image=text(node, "image"),
            command=text_list(node, "command"),
            args=text_list(node, "args"),
            resize_policy=_resize_policy(node, place.child("resizePolicy")),
            origin=origins.lines,
        )
    )


def _resize_policy(node: MappingNode, place: FieldPath) -> dict[str, ResizePolicy]:
    given = node.get("resizePolicy")
    found: dict[str, ResizePolicy] = {}
    for index, item in enumerate(given.items if isinstance(given, SequenceNode) else ()):
        if not isinstance(item, MappingNode):
            continue
        here, resource, policy = place.item(index), text(item, "resourceName"), text(item, "restartPolicy")
        if resource not in {"cpu", "memory"}:
            what = f"'{resource[:80]}' cannot be resized: cpu and memory can."
            raise here.child("resourceName").error(what, item.line, got=resource[:80])
        if policy not in {*ResizePolicy}:
            what = f"'{policy[:80]}' is not a resize policy: {', '.join(ResizePolicy)}."
            raise here.child("restartPolicy").error(what, item.line, got=policy[:80])
        if resource in found:
            raise here.child("resourceName").error(f"{resource} has a policy already.", item.line, got=resource)
        found[resource] = ResizePolicy(policy)
    return found


def check_names(spec: MappingNode, place: FieldPath) -> None:
    """Raise ManifestError for a pod without a container, and for two containers of one name."""
    required = spec.get("containers")
    if not isinstance(required, SequenceNode) or not required.items:
        raise place.child("containers").error("a pod needs at least one container.", spec.line_of("containers"))
    seen: set[str] = set()
    for field in ("initContainers", "containers", "ephemeralContainers"):
        value = spec.get(field)
        for index, item in enumerate(value.items if isinstance(value, SequenceNode) else ()):
            name = text(item, "name") if isinstance(item, MappingNode) else ""
            if name in seen:
                spot = place.child(field).item(index).child("name")
                raise spot.error(f"another container is called '{name}' too.", item.line, got=name)
            seen.add(name)
