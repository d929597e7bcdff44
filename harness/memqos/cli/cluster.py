"""Selects the pods on the planned node from those that an API server lists."""

from __future__ import annotations

from collections.abc import Sequence

from memqos.cli.terminal import say
from memqos.errors import UnknownNameError, UsageError
from memqos.model.pod import Pod

__all__ = ["pods_of_one_node"]


def pods_of_one_node(pods: Sequence[Pod], node: str | None) -> tuple[Pod, ...]:
    """The pods that have cgroups on the node of this name. None: all pods are taken to be on one node.

    Pods that have ended are left out. If any pod is bound to a node, unbound pods are left out too. Notes report both.
    Raises UnknownNameError for a node without bound pods, UsageError if no pod is left.
    """
    nodes = sorted({pod.node for pod in pods if pod.node})
    if node is not None and node not in nodes:
        raise UnknownNameError.of("node with pods", node, nodes, where="--node-name")
    running = [pod for pod in pods if not pod.has_ended]
    placed = [pod for pod in running if not (nodes and pod.waits_for_node)]
    _note(len(pods) - len(running), "ended (status.phase Succeeded or Failed)")
    _note(len(running) - len(placed), "not been bound to a node yet")
    if not placed:
        raise UsageError("none of the pods has cgroups.", next_step="Give pods that are running or pending.")
    if node is not None:
        return tuple(pod for pod in placed if pod.node == node)
    if len(nodes) > 1:
        say(
            f"memqos: note: these pods are bound to {len(nodes)} nodes and are planned as if they were on one; "
            "--node-name selects one.",
            err=True,
        )
    return tuple(placed)


def _note(count: int, what: str) -> None:
    if count:
        pods = "1 pod has" if count == 1 else f"{count} pods have"
        rest = "is left out: it has no cgroups" if count == 1 else "are left out: they have no cgroups"
        say(f"memqos: note: {pods} {what}, and {rest}.", err=True)
