"""What happens once for all that wait for it: each is made ready, it happens, and each is judged by itself.

A restart takes seconds, whether one container stands there or ten do. A case is a generator, which yields where it has
to wait for the others and returns its findings; what a container needs to be removed stands in its `with`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeAlias

from memqos.engine.answer.finding import Finding
from memqos.errors import DeadlineError, MemqosError, NonconformanceError

__all__ = ["Outcomes", "Waiting", "Within", "anywhere", "passed", "settled"]

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
