"""The verbs of `Life` and `Conversation` that a claim may ask for by name, and what does as it asks.

What happens once for all that wait for it: each is made ready, it happens, and each is judged by itself.

A restart takes seconds, whether one container stands there or ten do. A case is a generator, which yields where it has
to wait for the others and returns its findings; what a container needs to be removed stands in its `with`.
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
    "TogetherVerb",
    "Waiting",
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
Waiting: TypeAlias = Generator[None, None, Findings]
Outcomes: TypeAlias = Mapping[str, Future[Findings]]
"""By the names of cases that were begun their findings, or the error in which each ended; all are done."""

Within: TypeAlias = Callable[[str], contextlib.AbstractContextManager[None]]
"""In what is done whatever concerns the case of a name."""


def settled(findings: Findings) -> Future[Findings]:
    """The outcome of a case that waits for nothing."""
    outcome: Future[Findings] = Future()
    outcome.set_result(findings)
    return outcome


def anywhere(_name: str) -> contextlib.AbstractContextManager[None]:
    """In nothing."""
    return contextlib.nullcontext()


def passed(cases: Mapping[str, Waiting], *moments: Callable[[], object], within: Within = anywhere) -> Outcomes:
    """Lead these cases through moments that they share, one for each time that they yield.

    A case that ends before, in findings or in an error, waits no longer and blocks no other. Nothing happens that
    no case waits for. An error of what happens is that of every case that waited. After a case that does not begin in
    time none is begun, since a runtime that hangs would do so with each: those have no outcome.
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
            # What is found when a case is given up is no more than what ended it.
            with within(name), contextlib.suppress(NonconformanceError):
                case.close()
    return outcomes


def _go_on(name: str, cases: Mapping[str, Waiting], outcomes: Mapping[str, Future[Findings]], within: Within) -> None:
    """Let a case do what it does up to the next moment."""
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
