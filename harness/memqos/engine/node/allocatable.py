"""Capacity, reservations, and what is left of them: the "allocatable" that the kubelet's own rules use.

Inside the rules allocatable is capacity minus system-reserved minus kube-reserved, never below zero. The hard
eviction threshold is not subtracted, unlike in Node.status.allocatable. Source: kubelet
`getNodeAllocatableInternalAbsolute`.
"""

from __future__ import annotations

from memqos.engine.pod.sums import amount
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import ResourceList
from memqos.model.quantity import ZERO, Quantity

__all__ = ["allocatable", "node_capacity"]


def node_capacity(node: NodeFacts) -> dict[str, Quantity]:
    """What the machine has: memory in bytes, cpu in whole CPUs, pid in processes and threads where that is known."""
    found = {"memory": Quantity.of_bytes(node.memory), "cpu": Quantity.of_bytes(node.cpus)}
    return found if node.pids is None else {**found, "pid": Quantity.of_bytes(node.pids)}


def allocatable(node: NodeFacts, settings: KubeletSettings) -> dict[str, Quantity]:
    """What is left for pods after both reservations; zero where more is reserved than there is."""
    left = {}
    for name, whole in node_capacity(node).items():
        rest = whole - _reserved(settings.system_reserved, name) - _reserved(settings.kube_reserved, name)
        left[name] = rest if rest > ZERO else ZERO
    return left


def _reserved(reservation: ResourceList | None, name: str) -> Quantity:
    return amount(reservation, name) if reservation else ZERO
