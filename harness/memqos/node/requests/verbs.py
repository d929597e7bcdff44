"""The verbs of `Life` and `Conversation` that a claim may ask for by name, and what does as it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from memqos.catalog.requests import RequestCase
from memqos.claims import Asks
from memqos.engine.answer.finding import Finding
from memqos.errors import UnknownNameError
from memqos.node.requests.moment import Outcomes, Within

__all__ = ["TogetherVerb", "is_together", "perform", "together", "verb", "verb_of", "verbs_of"]

_MARK = "_memqos_verb"
_ALONE, _TOGETHER = "alone", "together"

TogetherVerb: TypeAlias = Callable[[Mapping[str, RequestCase], Within], Outcomes]
"""A verb that lets something happen once for several cases."""

Method = TypeVar("Method", bound=Callable[..., Any])


def verb(method: Method) -> Method:
    """Marks a method that a claim may ask for: it takes a request, or some texts, and gives the claim's findings."""
    setattr(method, _MARK, _ALONE)
    return method


def together(method: Method) -> Method:
    """Marks one that takes the requests of several claims and lets something happen once for all, as TogetherVerb."""
    setattr(method, _MARK, _TOGETHER)
    return method


def verbs_of(kind: type) -> list[str]:
    """The verbs of `Life` or `Conversation`, in alphabetical order."""
    return [name for name in dir(kind) if hasattr(getattr(kind, name), _MARK)]


def verb_of(asker: object, name: str) -> Callable[..., Any]:
    """The verb of this name; UnknownNameError with those that the asker has."""
    known = verbs_of(type(asker))
    if name not in known:
        raise UnknownNameError.of("verb", name, known)
    found: Callable[..., Any] = getattr(asker, name)
    return found


def is_together(kind: type, name: str) -> bool:
    """Whether the verb of this name takes the requests of several claims."""
    return getattr(getattr(kind, name, None), _MARK, "") == _TOGETHER


def perform(asker: object, asks: Asks, request: Callable[[str], RequestCase]) -> Sequence[Finding]:
    """Do what a claim asks for, alone, and give its findings.

    asker: a `Life` or a `Conversation`. request: gives a request by its name. UnknownNameError for a verb that the
    asker has not.
    """
    does = verb_of(asker, asks.verb)
    if is_together(type(asker), asks.verb):
        found: Outcomes = does({asks.verb: request(asks.request)})
        return found[asks.verb].result()
    given: list[object] = [request(asks.request)] if asks.request else []
    findings: Sequence[Finding] = does(*given, *asks.of)
    return findings
