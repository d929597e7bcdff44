"""What is said of single containers: what they use (--usage), and other options of the same form."""

from __future__ import annotations

from collections.abc import Iterator

from memqos.cli.node_options import size_of
from memqos.engine.plan import Plan
from memqos.errors import UnknownNameError

__all__ = ["said_of_containers", "usage_of"]


def usage_of(texts: tuple[str, ...], plan: Plan) -> dict[tuple[str, str], int]:
    """What containers use, from texts like "web/app=200Mi"; UnknownNameError for one that the plan does not have."""
    return {key: size_of("--usage", size, least=0) for key, size in said_of_containers(texts, plan, "--usage")}


def said_of_containers(texts: tuple[str, ...], plan: Plan, option: str) -> Iterator[tuple[tuple[str, str], str]]:
    """(pod uid, container name) of each container that is named, and what is said of it; errors as of `usage_of`."""
    known = {
        f"{pod.namespace}/{pod.name}/{container.name}": (pod.uid, container.name)
        for pod in plan.pods
        for container in pod.containers
    }
    for text in texts:
        name, _, said = text.partition("=")
        full = name if name.count("/") > 1 else f"default/{name}"
        if full not in known:
            raise UnknownNameError.of("container", name, list(known), where=option)
        yield known[full], said
