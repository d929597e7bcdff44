"""What containers use, as --usage says it."""

from __future__ import annotations

from memqos.cli.node_options import size_of
from memqos.engine.plan import Plan
from memqos.errors import UnknownNameError

__all__ = ["usage_of"]


def usage_of(texts: tuple[str, ...], plan: Plan) -> dict[tuple[str, str], int]:
    """What containers use, from texts like "web/app=200Mi"; UnknownNameError for one that the plan does not have."""
    known = {
        f"{pod.namespace}/{pod.name}/{container.name}": (pod.uid, container.name)
        for pod in plan.pods
        for container in pod.containers
    }
    found: dict[tuple[str, str], int] = {}
    for text in texts:
        name, _, size = text.partition("=")
        full = name if name.count("/") > 1 else f"default/{name}"
        if full not in known:
            raise UnknownNameError.of("container", name, list(known), where="--usage")
        found[known[full]] = size_of("--usage", size, least=0)
    return found
