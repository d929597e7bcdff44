"""Container lifecycles as data: requests to a runtime, one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from memqos.errors import UsageError
from memqos.model.cri import ContainerResources

__all__ = ["Verb", "check_lifecycle", "is_node_wide", "resources_of", "verb_of"]


class Verb(StrEnum):
    """A step of a lifecycle.

    CREATE: create the container with this request; always the first step. START: start it; without this step the first
    step that is not an update starts it. UPDATE: update it with this request. EXEC: run a program in it. STATS: get its
    stats and status. RESTART: kill it and create it again with the first request. RELOAD: systemctl daemon-reload.
    """

    CREATE = "create"
    START = "start"
    UPDATE = "update"
    EXEC = "exec"
    STATS = "stats"
    RESTART = "restart"
    RELOAD = "reload"


NODE_WIDE = frozenset({Verb.RELOAD})
"""Steps that affect all containers of the machine."""


def verb_of(step: Mapping[str, Any]) -> tuple[Verb, Mapping[str, Any]]:
    """A step's verb and request; UsageError for anything else."""
    try:
        [(name, request)] = step.items()
        verb = Verb(name)
    except ValueError:
        known = ", ".join(Verb)
        raise UsageError(f"a step has one of these verbs: {known}; got {step!r:.80}.", where="lifecycle") from None
    if not isinstance(request, Mapping) or (request and verb not in {Verb.CREATE, Verb.UPDATE}):
        raise UsageError(f"the step '{verb}' takes no request.", where="lifecycle")
    return verb, request


def check_lifecycle(steps: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError for an impossible order of steps."""
    verbs = [verb_of(step)[0] for step in steps]
    if verbs[:1] != [Verb.CREATE] or Verb.CREATE in verbs[1:]:
        raise UsageError("the first step must create the container, and no later step may.", where="lifecycle")
    if Verb.START in verbs and (verbs.count(Verb.START) > 1 or {*verbs[1 : verbs.index(Verb.START)]} - {Verb.UPDATE}):
        raise UsageError("a container is started once, and only updates may come before that.", where="lifecycle")
    for step in steps:
        resources_of(verb_of(step)[1])


def is_node_wide(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a step affects all containers of the machine, so that no other lifecycle may run meanwhile."""
    return any(verb_of(step)[0] in NODE_WIDE for step in steps)


def resources_of(request: Mapping[str, Any]) -> ContainerResources:
    """The CRI message of a request; UsageError for a field that CRI does not define."""
    pages = request.get("hugepage_limits", {})
    try:
        return ContainerResources(**{**request, "hugepage_limits": tuple(dict(pages).items())})
    except TypeError as error:
        raise UsageError(f"{error}.", where="lifecycle") from None
