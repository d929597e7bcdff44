"""The objects in a manifest's file: documents of their own, and elements of lists; which make pods, or change them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from memqos.catalog.cluster_objects import CLUSTER_KINDS
from memqos.catalog.node_values import text
from memqos.catalog.schema import FieldPath
from memqos.catalog.workloads import KINDS
from memqos.catalog.yaml_nodes import Item, MappingNode, Node, ScalarNode, SequenceNode

__all__ = ["Found", "objects_in"]

_LIST = "List"
_VERSIONS = {"Pod": ("v1",), **{kind: one.versions for kind, one in KINDS.items()}}
_READ = {**_VERSIONS, **CLUSTER_KINDS}
_GROUPS = {"", "apps", "batch", "extensions"}
"""Those that objects with pods are in, or were in."""

_OTHERS = {
    "v1": (
        "Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange", "List", "Namespace", "Node",
        "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "Secret", "Service", "ServiceAccount",
    ),
    "apps/v1": ("ControllerRevision",),
    "batch/v1": (),
}  # fmt: skip
"""What else there is in the versions that objects with pods are in."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object of this kind and API version; "" for a document that is no object, and where a list leaves it out."""

    kind: str
    node: MappingNode
    place: FieldPath
    version: str = ""

    @property
    def makes_pods(self) -> bool:
        """Whether it is a pod, or has a template of pods."""
        return self.kind in _VERSIONS

    @property
    def is_read(self) -> bool:
        """Whether it is a pod, makes pods, or is read by admission."""
        return self.kind in _READ


_NO_OBJECT = MappingNode((), 0)


def objects_in(parts: Iterable[Item | Node], file: str, *, strict: bool) -> Iterator[Found]:
    """The objects with their places, lists opened.

    strict: what has no apiVersion and kind is an error; else it is found as what it is, no object. Raises ManifestError
    for a kind that its API version does not have.
    """
    place = FieldPath(file)
    nameless: Found | None = None
    for part in parts:
        if isinstance(part, Item):
            for found in _element(part, place, strict=strict):
                if found.node.get("kind") is None and part.kind == "" and found.kind:
                    nameless = nameless or found
                yield found
            continue
        if not strict and not _is_object(part):
            yield Found("", _NO_OBJECT, place)
        else:
            yield from _opened(_object(part, place), place, nameless)
        nameless = None


def _element(part: Item, place: FieldPath, *, strict: bool) -> Iterator[Found]:
    """An element of the `items` of a document that has not ended: what that is may not be known yet."""
    own = place.child("items").item(part.index)
    if part.kind and not part.kind.endswith(_LIST):
        if part.kind in _VERSIONS:
            raise place.child("items").error("unknown field 'items'.", part.node.line, got="items")
        return
    node = part.node
    if isinstance(node, MappingNode) and node.get("kind") is None and part.kind != _LIST and (strict or part.kind):
        # The typed list that an API server answers says the kind for all of its items, and perhaps behind them.
        yield Found(part.kind.removesuffix(_LIST) or "Pod", node, own)
    elif strict or part.kind or _is_object(node):
        yield from _opened(_object(node, own), own, None)
    # Else the document as a whole is no object, which its end says.


def _opened(node: MappingNode, place: FieldPath, nameless: Found | None) -> Iterator[Found]:
    """An object, or those in a list. nameless: an element of it that was taken for a pod."""
    kind, version = _word(node, "kind", place), _word(node, "apiVersion", place)
    if not kind.endswith(_LIST):
        yield Found(_known(kind, version, node, place), node, place, version)
        return
    items = node.get("items")
    if isinstance(items, ScalarNode) and items.value is None:
        items = SequenceNode((), node.line)
    if not isinstance(items, SequenceNode):
        raise place.child("items").error("expected a list of objects.", node.line)
    _known(kind if kind == _LIST else kind.removesuffix(_LIST), version, node, place)
    if nameless is not None and kind != "PodList":
        _word(nameless.node, "kind", nameless.place)
    for index, item in enumerate(items.items):
        own = place.child("items").item(index)
        yield from _opened(_object(item, own), own, None)


def _is_object(node: Node) -> bool:
    return isinstance(node, MappingNode) and bool(text(node, "kind") and text(node, "apiVersion"))


def _object(node: Node, place: FieldPath) -> MappingNode:
    if not isinstance(node, MappingNode):
        step = "Give a v1 Pod, or an object that makes pods."
        raise place.error("expected an object with apiVersion and kind.", node.line, next_step=step)
    return node


def _word(node: MappingNode, name: str, place: FieldPath) -> str:
    """A required word of an object's head."""
    found = text(node, name)
    if not found:
        value = node.get(name)
        line = value.line if value is not None else node.line
        step = 'A pod has apiVersion "v1" and kind "Pod".'
        raise place.child(name).error(f"{name} is not set.", line, next_step=step)
    return found


def _known(kind: str, version: str, node: MappingNode, place: FieldPath) -> str:
    """What this kind is called here; ManifestError if its version, one that memqos knows whole, has no such kind."""
    versions = _READ.get(kind, ())
    if version in versions:
        return kind
    spot, line = place.child("kind"), node.line_of("kind")
    if kind in _VERSIONS and version.rpartition("/")[0] in _GROUPS:
        step = f"The API version of a {kind} is {versions[0]}."
        raise spot.error(f"there is no {kind} in {version}.", line, got=kind, next_step=step)
    if version in _OTHERS and kind not in _OTHERS[version]:
        known = [*_OTHERS[version], *(one for one, all_ in _VERSIONS.items() if version in all_)]
        near = difflib.get_close_matches(kind[:80], known, n=1, cutoff=0.5)
        step = f"Did you mean '{near[0]}'?" if near else ""
        raise spot.error(f"there is no {kind[:80]} in {version}.", line, got=kind[:80], next_step=step)
    return f"{kind} of {version}" if versions else kind
