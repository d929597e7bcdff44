"""v1 Pod manifests to pods, with the strictness of kubectl and the API server, after API defaulting."""

from __future__ import annotations

import functools
import io
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from memqos.catalog.pod_fields import POD_FIELDS
from memqos.catalog.pod_objects import pod_objects
from memqos.catalog.pod_resources import ResourceReader, check_pod_level
from memqos.catalog.schema import Place, check, parse_fields
from memqos.catalog.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, parse_objects
from memqos.engine.defaulting import in_whole_millis, with_requests
from memqos.errors import ManifestError
from memqos.model.pod import Container, ContainerKind, Pod, ResizePolicy, Resources

__all__ = ["pods_in", "pods_of"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_UID = re.compile(r"[0-9A-Za-z.-]{1,200}", re.ASCII)
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253
_SOURCE = "kubernetes.io/config.source"
_MIRROR = "kubernetes.io/config.mirror"
_UID_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://kubernetes.io/api/v1/pods")


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(POD_FIELDS)


def pods_of(data: bytes, file: str) -> tuple[Pod, ...]:
    """The pods in a text, as `pods_in` finds them."""
    return tuple(pods_in(io.BytesIO(data), file))


def pods_in(stream: BinaryIO, file: str) -> Iterator[Pod]:
    """The pods in a stream of one or several documents: v1 Pods, and v1 Lists or PodLists of them, one by one.

    A pod without metadata.uid gets one made from its namespace and name, always the same. A pod that says that the
    kubelet read it from a file (annotation kubernetes.io/config.source or config.mirror) is static.

    Quantities are exact. The API server rounds them up to whole milli units before it compares them; the engine does so
    for every pod that it is given.

    Raises ManifestError naming file, line and field for whatever kubectl or the API server refuses, as far as it
    concerns the shape of a pod and its resources; and for a text without any pod.
    """
    found = False
    for node, place in pod_objects(parse_objects(stream, file), file):
        found = True
        yield _pod(node, place)
    if not found:
        raise ManifestError.at("there is no object in it.", file=file, next_step="Give a v1 Pod manifest.")


def _pod(node: MappingNode, place: Place) -> Pod:
    check(node, "Pod", _fields(), place)
    meta, meta_place = _section(node, "metadata", place), place.child("metadata")
    name, namespace = _pod_name(meta, meta_place), _text(meta, "namespace") or "default"
    _check_name(namespace, _LABEL, _LONGEST_LABEL, meta_place.child("namespace"), meta.line_of("namespace"))
    spec, spec_place = _section(node, "spec", place), place.child("spec")
    own = spec.get("resources")
    origin = ResourceReader(spec_place)
    annotations = _strings(meta.get("annotations"))
    pod = Pod(
        name=name,
        namespace=namespace,
        uid=_uid(meta, meta_place) or str(uuid.uuid5(_UID_SPACE, f"{namespace}/{name}")),
        containers=tuple(_containers(spec, "containers", spec_place)),
        init_containers=tuple(_containers(spec, "initContainers", spec_place)),
        ephemeral_containers=tuple(_containers(spec, "ephemeralContainers", spec_place)),
        resources=origin.resources(own, spec_place.child("resources"), "resources.")
        if isinstance(own, MappingNode)
        else None,
        overhead=origin.amounts(spec.get("overhead"), spec_place.child("overhead"), "overhead"),
        priority=_whole(spec, "priority"),
        priority_class_name=_text(spec, "priorityClassName"),
        static=annotations.get(_SOURCE, "api") != "api" or _MIRROR in annotations,
        node=_text(spec, "nodeName"),
        phase=_text(status, "phase") if isinstance(status := node.get("status"), MappingNode) else "",
        file=place.file,
        origin=origin.lines,
    )
    _check_pod(pod, spec, spec_place)
    return pod


def _pod_name(meta: MappingNode, place: Place) -> str:
    name = _text(meta, "name")
    if not name and (prefix := _text(meta, "generateName")):
        # What the API server would append is random; the plan needs a name that stays.
        name = f"{prefix}00000"
    if not name:
        raise place.child("name").error("a pod needs a name.", meta.line)
    _check_name(name, _SUBDOMAIN, _LONGEST_SUBDOMAIN, place.child("name"), meta.line_of("name"))
    return name


def _uid(meta: MappingNode, place: Place) -> str:
    """The uid that was given, "" if none was; it becomes part of a cgroup's name."""
    uid = _text(meta, "uid")
    if uid and not _UID.fullmatch(uid):
        raise place.child("uid").error(
            f"'{uid[:80]}' cannot be a part of a cgroup's name.",
            meta.line_of("uid"),
            got=uid[:80],
            next_step="Use letters, digits, '.' and '-', or leave it out.",
        )
    return uid


def _check_name(name: str, form: re.Pattern[str], longest: int, place: Place, line: int) -> None:
    if len(name) > longest or not form.fullmatch(name):
        raise place.error(
            f"'{name[:80]}' is not a name that Kubernetes takes here.",
            line,
            got=name[:80],
            next_step=f"Use at most {longest} small letters, digits and '-'"
            + (", '.'" if form is _SUBDOMAIN else "")
            + ", with a letter or digit at both ends.",
        )


def _section(node: MappingNode, name: str, place: Place) -> MappingNode:
    value = node.get(name)
    if not isinstance(value, MappingNode):
        raise place.child(name).error(f"a pod needs {name}.", node.line_of(name))
    return value


def _text(node: MappingNode, name: str) -> str:
    value = node.get(name)
    return value.value if isinstance(value, ScalarNode) and isinstance(value.value, str) else ""


def _whole(node: MappingNode, name: str) -> int | None:
    value = node.get(name)
    return value.value if isinstance(value, ScalarNode) and isinstance(value.value, int) else None


def _strings(node: Node | None) -> dict[str, str]:
    if not isinstance(node, MappingNode):
        return {}
    return {entry.key: entry.value.text for entry in node.entries if isinstance(entry.value, ScalarNode)}


def _words(node: MappingNode, name: str) -> tuple[str, ...]:
    value = node.get(name)
    if not isinstance(value, SequenceNode):
        return ()
    return tuple(item.text for item in value.items if isinstance(item, ScalarNode))


_KINDS = {"containers": ContainerKind.APP, "ephemeralContainers": ContainerKind.EPHEMERAL}


def _containers(spec: MappingNode, field: str, place: Place) -> Iterator[Container]:
    value = spec.get(field)
    items = value.items if isinstance(value, SequenceNode) else ()
    for index, item in enumerate(items):
        own = place.child(field).item(index)
        if not isinstance(item, MappingNode):
            raise own.error("a container is a mapping of fields.", item.line)
        yield _container(item, field, own)


def _container(node: MappingNode, field: str, place: Place) -> Container:
    name = _text(node, "name")
    if not name:
        raise place.child("name").error("a container needs a name.", node.line)
    _check_name(name, _LABEL, _LONGEST_LABEL, place.child("name"), node.line_of("name"))
    policy = _text(node, "restartPolicy")
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
            image=_text(node, "image"),
            command=_words(node, "command"),
            args=_words(node, "args"),
            resize_policy=_resize_policy(node, place.child("resizePolicy")),
            origin=origins.lines,
        )
    )


def _resize_policy(node: MappingNode, place: Place) -> dict[str, ResizePolicy]:
    given = node.get("resizePolicy")
    found: dict[str, ResizePolicy] = {}
    for index, item in enumerate(given.items if isinstance(given, SequenceNode) else ()):
        if not isinstance(item, MappingNode):
            continue
        here, resource, policy = place.item(index), _text(item, "resourceName"), _text(item, "restartPolicy")
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


def _check_pod(pod: Pod, spec: MappingNode, place: Place) -> None:
    if not pod.containers:
        raise place.child("containers").error("a pod needs at least one container.", spec.line_of("containers"))
    seen: set[str] = set()
    for field in ("initContainers", "containers", "ephemeralContainers"):
        value = spec.get(field)
        for index, item in enumerate(value.items if isinstance(value, SequenceNode) else ()):
            name = _text(item, "name") if isinstance(item, MappingNode) else ""
            if name in seen:
                spot = place.child(field).item(index).child("name")
                raise spot.error(f"another container is called '{name}' too.", item.line, got=name)
            seen.add(name)
    check_pod_level(in_whole_millis(pod), spec, place.child("resources"))
