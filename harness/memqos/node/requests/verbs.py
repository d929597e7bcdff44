"""The verbs of `LifecycleVerbs` and `CriVerbs` that a claim may name, and how they run.

An event happens once for all cases that wait for it: each is prepared, the event happens, and each is judged by itself.
A restart takes seconds, whether there is one container or ten. A case is a generator: it yields where it waits for the
others, and returns its findings; the cleanup of its container is in its `with`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from memqos.catalog.requests import RequestCase
from memqos.claims import Asks
from memqos.engine.answer.finding import Finding
from memqos.errors import DeadlineError, MemqosError, NonconformanceError, UnknownNameError

__all__ = [
    "Outcomes",
    "PendingConditions",
    "TogetherVerb",
    "Within",
    "anywhere",
    "is_together",
    "passed",
    "perform",
    "settled",
    "together",
    "verb",
    "verb_of",
    "verbs_of",
]

Findings: TypeAlias = Sequence[Finding]
PendingConditions: TypeAlias = Generator[None, None, Findings]
Outcomes: TypeAlias = Mapping[str, Future[Findings]]
"""The findings of each started case, or the error that ended it, by name; all are finished."""

Within: TypeAlias = Callable[[str], contextlib.AbstractContextManager[None]]
"""The context in which everything about the case of this name runs."""


def settled(findings: Findings) -> Future[Findings]:
    """The outcome of a case that waits for nothing."""
    outcome: Future[Findings] = Future()
    outcome.set_result(findings)
    return outcome


def anywhere(_name: str) -> contextlib.AbstractContextManager[None]:
    """In nothing."""
    return contextlib.nullcontext()


def passed(
    cases: Mapping[str, PendingConditions], *moments: Callable[[], object], within: Within = anywhere
) -> Outcomes:
    """Run these cases through shared moments, one for each time that they yield.

    A case that ends early, in findings or in an error, no longer waits and blocks no other. An event happens only if
    some case waits for it. Its error is that of every case that waited. After a case that does not begin in time no
    further one is begun, since a hanging runtime would delay each; those have no outcome.
    """
    outcomes: dict[str, Future[Findings]] = {}
    try:
        for name in cases:
            outcomes[name] = Future()
            _go_on(name, cases, outcomes, within)
            if outcomes[name].done() and isinstance(outcomes[name].exception(), DeadlineError):
                break
        for happens in moments:
            waiting = [name for name, outcome in outcomes.items() if not outcome.done()]
            try:
                if waiting:
                    happens()
            except MemqosError as error:
                for name in waiting:
                    outcomes[name].set_exception(error)
                break
            for name in waiting:
                _go_on(name, cases, outcomes, within)
    finally:
        for name, case in cases.items():
            # An error while a case is given up must not replace the one that ended it.
            with within(name), contextlib.suppress(NonconformanceError):
                case.close()
    return outcomes


def _go_on(
    name: str, cases: Mapping[str, PendingConditions], outcomes: Mapping[str, Future[Findings]], within: Within
) -> None:
    """Run a case up to its next moment."""
    try:
        with within(name):
            next(cases[name])
    except StopIteration as end:
        outcomes[name].set_result(end.value)
    except MemqosError as error:
        outcomes[name].set_exception(error)


_MARK = "_memqos_verb"
_ALONE, _TOGETHER = "alone", "together"

TogetherVerb: TypeAlias = Callable[[Mapping[str, RequestCase], Within], Outcomes]
"""A verb that has something happen once for several cases."""

Method = TypeVar("Method", bound=Callable[..., Any])


def verb(method: Method) -> Method:
    """Marks a method that a claim may name: it takes a request, or some texts, and returns the claim's findings."""
    setattr(method, _MARK, _ALONE)
    return method


def together(method: Method) -> Method:
    """Marks a method that takes the requests of several claims and shares one event, as a TogetherVerb."""
    setattr(method, _MARK, _TOGETHER)
    return method


def verbs_of(kind: type) -> list[str]:
    """The verbs of `LifecycleVerbs` or `CriVerbs`, in alphabetical order."""
    return [name for name in dir(kind) if hasattr(getattr(kind, name), _MARK)]


def verb_of(asker: object, name: str) -> Callable[..., Any]:
    """The verb of this name; UnknownNameError with the asker's verbs."""
    known = verbs_of(type(asker))
    if name not in known:
        raise UnknownNameError.of("verb", name, known)
    found: Callable[..., Any] = getattr(asker, name)
    return found


def is_together(kind: type, name: str) -> bool:
    """Whether the verb of this name takes the requests of several claims."""
    return getattr(getattr(kind, name, None), _MARK, "") == _TOGETHER


def perform(asker: object, asks: Asks, request: Callable[[str], RequestCase]) -> Sequence[Finding]:
    """Run a claim's verb, alone, and return its findings.

    asker: a `LifecycleVerbs` or a `CriVerbs`. request: returns a request by its name. UnknownNameError for a verb
    that the asker does not have.
    """
    does = verb_of(asker, asks.verb)
    if is_together(type(asker), asks.verb):
        found: Outcomes = does({asks.verb: request(asks.request)})
        return found[asks.verb].result()
    given: list[object] = [request(asks.request)] if asks.request else []
    findings: Sequence[Finding] = does(*given, *asks.of)
    return findings
