"""What containers use, as --usage says it."""

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

    is_known: whether the size of the node is known: then all together have room on it, else each of them.
    Raises UnknownNameError for a container that the plan does not have, UsageError for one that is named twice, and for
    more than the node's memory and swap.
    """
    room = node.memory + node.swap
    found: dict[tuple[str, str], int] = {}
    for key, text in said_of_containers(texts, plan, "--usage"):
        found[key] = size_of("--usage", text, least=0)
        used = sum(found.values()) if is_known else found[key]
        if used > room:
            together = "with those before it they use" if used > found[key] else "it uses"
            raise UsageError(
                f"'{text}': {together} {used} bytes, and the node has {room} of memory and swap.",
                where="--usage",
                next_step="--capacity-memory and --swap say how much the node has.",
            )
    return found


def said_of_containers(texts: tuple[str, ...], plan: Plan, option: str) -> Iterator[tuple[tuple[str, str], str]]:
    """(pod uid, container name) of each container that is named, and what is said of it.

    Raises UnknownNameError for a container that the plan does not have, UsageError for one that is named twice.
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
            raise UsageError(f"'{name}' is there twice.", where=option)
        seen.add(full)
        yield known[full], said
