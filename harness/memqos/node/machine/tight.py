"""A kubelet that keeps most of its node's memory for itself, so that its pods are soon short of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from memqos.catalog.kubelets import KubeletCase
from memqos.errors import UsageError
from memqos.model.node import NodeFacts
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity
from memqos.workload.command import allocated

__all__ = ["tight"]

LEFT = 256 << 20
"""Bytes that pods may use together: what a small machine under emulation fills within seconds."""

ROOM = 64 << 20
"""Bytes beyond what programs take at first: for all else in their pods, and for one of them to begin to grow in."""


def tight(kubelet: KubeletCase, node: NodeFacts, pods: Sequence[Pod] = ()) -> KubeletCase:
    """The same kubelet with so much kubeReserved that kubepods has this memory.max on this node, in bytes.

    It is what the programs of these pods take by their own arguments, and ROOM; LEFT for none.
    UsageError for a node that has no more than that, and for a kubelet that leaves kubepods without a limit.
    """
    left = ROOM + sum(allocated(one.args) for pod in pods for one in pod.containers) if pods else LEFT
    settings = kubelet.settings
    system = (settings.system_reserved or {}).get("memory", Quantity(0))
    reserved = node.memory - left - system.value
    if reserved <= 0:
        raise UsageError(
            f"a node with {node.memory} bytes of memory cannot be made short of it by a reservation.",
            next_step=f"Take a machine with more than {left + system.value} bytes: --topology two-zones has them.",
        )
    if "pods" not in (settings.enforce_node_allocatable or ("pods",)):
        raise UsageError(
            f"the kubelet {kubelet.id} does not enforce what its pods may use together.",
            next_step="Take one whose enforceNodeAllocatable names pods.",
        )
    kube_reserved = {**(settings.kube_reserved or {}), "memory": Quantity.parse(str(reserved))}
    return dataclasses.replace(kubelet, settings=dataclasses.replace(settings, kube_reserved=kube_reserved))
