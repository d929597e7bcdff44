"""The v1 Pods among the objects of a manifest's file: documents of their own, and elements of lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memqos.catalog.schema import Place
from memqos.catalog.yaml_nodes import Item, MappingNode, Node, ScalarNode, SequenceNode
from memqos.errors import ManifestError

__all__ = ["pod_objects"]

_LISTS = ("List", "PodList")


def pod_objects(parts: Iterable[Item | Node], file: str) -> Iterator[tuple[MappingNode, Place]]:
    """The pods with their places, lists opened; ManifestError for what is neither a pod nor a list of pods."""
    place = Place(file)
    nameless: tuple[MappingNode, Place] | None = None
    for part in parts:
        if isinstance(part, Item):
            own = place.child("items").item(part.index)
            mapping = _object(part.node, own)
            if part.kind not in {"", *_LISTS}:
                raise _not_wanted(part.kind, "v1", place, part.node.line)
            if mapping.get("kind") is None:
                # Only a PodList says it for all of its items, and perhaps behind them.
                nameless = nameless or (mapping, own)
                yield mapping, own
            else:
                yield _wanted(mapping, own), own
            continue
        node = _object(part, place)
        kind = _word(node, "kind", place)
        if kind in _LISTS and _word(node, "apiVersion", place) == "v1":
            if not isinstance(node.get("items"), SequenceNode):
                raise place.child("items").error("expected a list of Pods.", node.line)
            if kind == "List" and nameless is not None:
                _wanted(*nameless)
        else:
            yield _wanted(node, place), place
        nameless = None


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
        raise _not_wanted(kind, version, place, node.line_of("kind"))
    return node


def _not_wanted(kind: str, version: str, place: Place, line: int) -> ManifestError:
    return place.child("kind").error(
        f"a {kind} of {version} is not a Pod of v1.",
        line,
        got=kind,
        next_step="memqos plans Pods: give the pod that this object would make."
        if kind != "Pod"
        else "The API version of a Pod is v1.",
    )
