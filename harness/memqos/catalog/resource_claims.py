"""A pod's resource claims (DRA), and what its status says that they take of the node's cpu, memory and huge pages.

Source: Kubernetes API, `PodSpec.resourceClaims`, `PodStatus.nodeAllocatableResourceClaimStatuses` (KEP-5517).
"""

from __future__ import annotations

from collections.abc import Iterator

from memqos.catalog.node_values import strings, text
from memqos.catalog.yaml_nodes import MappingNode, SequenceNode

__all__ = ["claim_names", "claims_of"]

_STATUS = "nodeAllocatableResourceClaimStatuses"


def claim_names(spec: MappingNode) -> tuple[str, ...]:
    """The names of a pod's claims, in their order."""
    return tuple(text(one, "name") for one in _mappings(spec, "resourceClaims"))


def claims_of(names: tuple[str, ...], status: MappingNode) -> tuple[str, ...]:
    """The claims by name, and behind them those that the status tells amounts of: "gpu-x7 (memory 2Gi)"."""
    told = []
    for one in _mappings(status, _STATUS):
        amounts = ", ".join(f"{name} {amount}" for name, amount in strings(one.get("resources")).items())
        told.append(f"{text(one, 'resourceClaimName')} ({amounts})" if amounts else text(one, "resourceClaimName"))
    return (*names, *told)


def _mappings(node: MappingNode, name: str) -> Iterator[MappingNode]:
    value = node.get(name)
    for item in value.items if isinstance(value, SequenceNode) else ():
        if isinstance(item, MappingNode):
            yield item
