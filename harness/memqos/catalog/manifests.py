"""v1 Pod manifests to pods, with the strictness of kubectl and the API server, after API defaulting."""

from __future__ import annotations

import difflib
import functools
import re
import uuid
from collections.abc import Iterator, Mapping

from memqos.catalog.pod_fields import POD_FIELDS
from memqos.catalog.schema import Place, check, parse_fields, quantity_of
from memqos.catalog.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, parse_documents
from memqos.engine.defaulting import container_defaults
from memqos.engine.sums import aggregate, supported_at_pod_level
from memqos.errors import ManifestError
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity

__all__ = ["pods_of"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_SOURCE = "kubernetes.io/config.source"
_MIRROR = "kubernetes.io/config.mirror"
_UID_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://kubernetes.io/api/v1/pods")


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(POD_FIELDS)


def pods_of(data: bytes, file: str) -> tuple[Pod, ...]:
    """The pods in a text of one or several documents: v1 Pods, and v1 Lists or PodLists of them.

    A pod without metadata.uid gets one made from its namespace and name, always the same. A pod that says that the
    kubelet read it from a file (annotation kubernetes.io/config.source or config.mirror) is static.

    Raises ManifestError naming file, line and field for whatever kubectl or the API server refuses, as far as it
    concerns the shape of a pod and its resources; and for a text without any pod.
    """
    pods = tuple(_pod(node, place) for node, place in _objects(parse_documents(data, file), file))
    if not pods:
        raise ManifestError.at("there is no object in it.", file=file, next_step="Give a v1 Pod manifest.")
    return pods


def _objects(documents: tuple[Node, ...], file: str) -> Iterator[tuple[MappingNode, Place]]:
    """The Pod objects in documents, with lists opened."""
    for document in documents:
        place = Place(file)
        node = _object(document, place)
        kind = _word(node, "kind", place)
        if kind in {"List", "PodList"} and _word(node, "apiVersion", place) == "v1":
            items = node.get("items")
            if not isinstance(items, SequenceNode):
                raise place.child("items").error("expected a list of Pods.", node.line)
            for index, item in enumerate(items.items):
                one = place.child("items").item(index)
                mapping = _object(item, one)
                if kind == "PodList" and mapping.get("kind") is None:
                    yield mapping, one
                else:
                    yield _wanted(mapping, one), one
        else:
            yield _wanted(node, place), place


def _object(node: Node, place: Place) -> MappingNode:
    if not isinstance(node, MappingNode):
        raise place.error(
            "expected an object with apiVersion and kind.", node.line, next_step="Give a v1 Pod manifest."
        )
    return node


def _word(node: MappingNode, name: str, place: Place) -> str:
    """A required word of an object's head."""
    value = node.get(name)
    if not isinstance(value, ScalarNode) or not isinstance(value.value, str) or not value.value:
        line = value.line if value is not None else node.line
        raise place.child(name).error(
            f"{name} is not set.", line, next_step='A pod has apiVersion "v1" and kind "Pod".'
        )
    return value.value


def _wanted(node: MappingNode, place: Place) -> MappingNode:
    version, kind = _word(node, "apiVersion", place), _word(node, "kind", place)
    if (version, kind) != ("v1", "Pod"):
        raise place.child("kind").error(
            f"a {kind} of {version} is not a Pod of v1.",
            node.line_of("kind"),
            got=kind,
            next_step="memqos plans Pods: give the pod that this object would make."
            if kind != "Pod"
            else "The API version of a Pod is v1.",
        )
    return node


def _pod(node: MappingNode, place: Place) -> Pod:
    check(node, "Pod", _fields(), place)
    meta, meta_place = _section(node, "metadata", place), place.child("metadata")
    name, namespace = _pod_name(meta, meta_place), _text(meta, "namespace") or "default"
    _check_name(namespace, _LABEL, _LONGEST_LABEL, meta_place.child("namespace"), meta.line_of("namespace"))
    spec, spec_place = _section(node, "spec", place), place.child("spec")
    own = spec.get("resources")
    origin = _Origins(spec_place)
    annotations = _strings(meta.get("annotations"))
    pod = Pod(
        name=name,
        namespace=namespace,
        uid=_text(meta, "uid") or str(uuid.uuid5(_UID_SPACE, f"{namespace}/{name}")),
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


class _Origins:
    """Reads resource lists and remembers where each amount was written."""

    def __init__(self, place: Place) -> None:
        self._file = place.file
        self.lines: dict[str, str] = {}

    def resources(self, node: MappingNode, place: Place, prefix: str) -> Resources:
        """Both lists, checked one by one and against each other."""
        requests = self.amounts(node.get("requests"), place.child("requests"), f"{prefix}requests")
        limits = self.amounts(node.get("limits"), place.child("limits"), f"{prefix}limits")
        for name, request in requests.items():
            limit = limits.get(name)
            line = self._line(node, "requests", name)
            if limit is None:
                if name.startswith("hugepages-"):
                    raise place.child("requests", name).error("huge pages need a limit as well as a request.", line)
                continue
            if limit < request:
                raise place.child("requests", name).error(
                    f"the request {request} is above the limit {limit}.", line, got=str(request)
                )
            if name.startswith("hugepages-") and request != limit:
                raise place.child("requests", name).error(
                    f"huge pages cannot be overcommitted: the request {request} must equal the limit {limit}.", line
                )
        return Resources(requests=requests, limits=limits)

    def _line(self, node: MappingNode, part: str, name: str) -> int:
        section = node.get(part)
        return section.line_of(name) if isinstance(section, MappingNode) else node.line

    def amounts(self, node: Node | None, place: Place, prefix: str) -> dict[str, Quantity]:
        """One resource list: known names, amounts of at least zero, and their lines kept under `prefix.name`."""
        if not isinstance(node, MappingNode):
            return {}
        found = {}
        for entry in node.entries:
            own = place.child(entry.key)
            _check_resource(entry.key, own, entry.line)
            if isinstance(entry.value, ScalarNode) and entry.value.value is None:
                # Kubernetes decodes null as the zero quantity.
                quantity = Quantity.of_bytes(0)
            else:
                quantity = quantity_of(entry.value, own)
            if quantity.amount < 0:
                raise own.error(f"an amount must not be negative, got {quantity}.", entry.line, got=str(quantity))
            found[entry.key] = quantity
            self.lines[f"{prefix}.{entry.key}"] = f"{self._file}:{entry.value.line}"
        return found


def _check_resource(name: str, place: Place, line: int) -> None:
    """Standard names, huge pages, and names with a domain; everything else is a slip of the pen."""
    if name in _STANDARD or name.startswith("hugepages-") or "/" in name:
        return
    near = difflib.get_close_matches(name[:80], _STANDARD, n=1, cutoff=0.5)
    raise place.error(
        f"'{name[:80]}' is not a resource of containers.",
        line,
        got=name[:80],
        next_step=f"Did you mean '{near[0]}'?" if near else "Known: cpu, memory, ephemeral-storage, hugepages-<size>.",
    )


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
    origins = _Origins(place)
    own = node.get("resources")
    resources = origins.resources(own, place.child("resources"), "") if isinstance(own, MappingNode) else Resources()
    if kind is ContainerKind.EPHEMERAL and (resources.requests or resources.limits):
        raise place.child("resources").error("an ephemeral container has no resources.", node.line_of("resources"))
    return container_defaults(
        Container(
            name=name,
            kind=kind,
            resources=resources,
            image=_text(node, "image"),
            command=_words(node, "command"),
            args=_words(node, "args"),
            origin=origins.lines,
        )
    )


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
    _check_pod_level(pod, spec, place.child("resources"))


def _check_pod_level(pod: Pod, spec: MappingNode, place: Place) -> None:
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
    """The line of an amount that was written down."""
    return int(pod.origin[key].rpartition(":")[2]) if key in pod.origin else otherwise
