"""What of a pod's manifest decides whether a Linux node gets it: node selectors and affinity by operating system."""

from __future__ import annotations

from collections.abc import Iterator

from memqos.catalog.node_values import mapping, strings, text, text_list
from memqos.catalog.yaml_nodes import MappingNode, SequenceNode

__all__ = ["OS_LABEL", "not_on_linux"]

OS_LABEL = "kubernetes.io/os"
_OS_LABELS = (OS_LABEL, "beta.kubernetes.io/os")
"""Labels that every kubelet gives its own node, with the name of its operating system."""

_LINUX = "linux"


def not_on_linux(spec: MappingNode) -> str:
    """What of a pod's spec no Linux node matches, as text; "" where Linux nodes match."""
    selector = strings(spec.get("nodeSelector"))
    for label in _OS_LABELS:
        if selector.get(label, _LINUX) != _LINUX:
            return f"spec.nodeSelector {label}={selector[label]}"
    affinity = mapping(mapping(spec, "affinity"), "nodeAffinity")
    required = mapping(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = required.get("nodeSelectorTerms")
    excluding = [
        next(_excluding_linux(term), "")
        for term in (terms.items if isinstance(terms, SequenceNode) else ())
        if isinstance(term, MappingNode)
    ]
    # One of the terms must match, and all expressions of a term.
    return f"spec.affinity.nodeAffinity {excluding[0]}" if excluding and all(excluding) else ""


def _excluding_linux(term: MappingNode) -> Iterator[str]:
    """The expressions of a term that no Linux node matches."""
    expressions = term.get("matchExpressions")
    for one in expressions.items if isinstance(expressions, SequenceNode) else ():
        if not isinstance(one, MappingNode) or text(one, "key") not in _OS_LABELS:
            continue
        operator, values = text(one, "operator"), text_list(one, "values")
        matches = {"In": _LINUX in values, "NotIn": _LINUX not in values, "DoesNotExist": False}.get(operator, True)
        if not matches:
            yield " ".join((text(one, "key"), operator, *values))
