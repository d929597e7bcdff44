"""Which of the pods that an API server lists are on the node that is planned."""

from __future__ import annotations

from collections.abc import Sequence

from memqos.cli.terminal import say
from memqos.errors import UnknownNameError, UsageError
from memqos.model.pod import Pod

__all__ = ["pods_of_one_node"]


def pods_of_one_node(pods: Sequence[Pod], node: str | None) -> tuple[Pod, ...]:
    """The pods that have cgroups on the node of this name; None: on the one that all of them are taken to be on.

    Pods that have ended are left out, and where others are bound to nodes, so are those that wait for one; notes say
    so. Raises UnknownNameError for a node that no pod is bound to, UsageError where no pod is left.
    """
    nodes = sorted({pod.node for pod in pods if pod.node})
    if node is not None and node not in nodes:
        raise UnknownNameError.of("node with pods", node, nodes, where="--node-name")
    running = [pod for pod in pods if not pod.has_ended]
    placed = [pod for pod in running if not (nodes and pod.waits_for_node)]
    _note(len(pods) - len(running), "ended (status.phase Succeeded or Failed)")
    _note(len(running) - len(placed), "not been bound to a node yet")
    if not placed:
        raise UsageError("no pod is left that has cgroups.", next_step="Give pods that run, or that are to run.")
    if node is not None:
        return tuple(pod for pod in placed if pod.node == node)
    if len(nodes) > 1:
        say(
            f"memqos: note: these pods are bound to {len(nodes)} nodes, and are planned as if they were on one: "
            "--node-name chooses.",
            err=True,
        )
    return tuple(placed)


def _note(count: int, what: str) -> None:
    if count:
        pods = "1 pod has" if count == 1 else f"{count} pods have"
        rest = "is left out: it has no cgroups" if count == 1 else "are left out: they have no cgroups"
        say(f"memqos: note: {pods} {what}, and {rest}.", err=True)
