"""Values of the fields of a checked mapping; what is missing, or is something else, counts as not given."""

from __future__ import annotations

from memqos.catalog.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode

__all__ = ["mapping", "strings", "text", "text_list", "whole"]


def text(node: MappingNode, name: str) -> str:
    """A string; "" if it was not given."""
    value = node.get(name)
    return value.value if isinstance(value, ScalarNode) and isinstance(value.value, str) else ""


def whole(node: MappingNode, name: str) -> int | None:
    """A whole number."""
    value = node.get(name)
    return value.value if isinstance(value, ScalarNode) and isinstance(value.value, int) else None


def text_list(node: MappingNode, name: str) -> tuple[str, ...]:
    """The strings of a list."""
    value = node.get(name)
    if not isinstance(value, SequenceNode):
        return ()
    return tuple(item.text for item in value.items if isinstance(item, ScalarNode))


def strings(node: Node | None) -> dict[str, str]:
    """The scalars of a mapping."""
    if not isinstance(node, MappingNode):
        return {}
    return {entry.key: entry.value.text for entry in node.entries if isinstance(entry.value, ScalarNode)}


def mapping(node: MappingNode, name: str) -> MappingNode:
    """A mapping; an empty one if it was not given."""
    value = node.get(name)
    return value if isinstance(value, MappingNode) else MappingNode((), node.line_of(name))
