"""What containers use, from --usage."""

from __future__ import annotations

from collections.abc import Iterator

from memqos.cli.node_options import size_of
from memqos.engine.plan import Plan
from memqos.errors import UnknownNameError, UsageError
from memqos.model.node import NodeFacts

__all__ = ["said_of_containers", "usage_of"]


def usage_of(
    texts: tuple[str, ...], plan: Plan, node: NodeFacts, *, is_known: bool = False
) -> dict[tuple[str, str], int]:
    """What containers use, from texts like "web/app=200Mi".

    is_known: whether the size of the node is known. If so, all together must fit on it, else each alone.
    Raises UnknownNameError for a container that the plan does not have, UsageError for a container named twice and for
    more than the node's memory and swap.
    """
    room = node.memory + node.swap
    found: dict[tuple[str, str], int] = {}
    for key, text in said_of_containers(texts, plan, "--usage"):
        found[key] = size_of("--usage", text, least=0)
        used = sum(found.values()) if is_known else found[key]
        if used > room:
            together = "with the containers before it" if used > found[key] else "it"
            raise UsageError(
                f"'{text}': {together} uses {used} bytes, but the node has {room} of memory and swap.",
                where="--usage",
                next_step="Set the node's size with --capacity-memory and --swap.",
            )
    return found


def said_of_containers(texts: tuple[str, ...], plan: Plan, option: str) -> Iterator[tuple[tuple[str, str], str]]:
    """(pod uid, container name) of each named container, and its value.

    Raises UnknownNameError for a container that the plan does not have, UsageError for a container named twice.
    """
    known = {
        f"{pod.namespace}/{pod.name}/{container.name}": (pod.uid, container.name)
        for pod in plan.pods
        for container in pod.containers
    }
    seen: set[str] = set()
    for text in texts:
        name, _, said = text.partition("=")
        full = name if name.count("/") > 1 else f"default/{name}"
        if full not in known:
            raise UnknownNameError.of("container", name, list(known), where=option)
        if full in seen:
            raise UsageError(f"'{name}' is given twice.", where=option)
        seen.add(full)
        yield known[full], said
