"""Judges several requests at a time, ahead of their cases, each in a pod of its own.

For one container a runtime runs one program after another, which keeps one CPU busy and leaves the others idle. So the
next cases begin while an earlier one is running. A container, its pod and its ancestors are judged as if they were
alone. A failure next to another case may be caused by that case.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from memqos.engine.answer.finding import Finding
from memqos.errors import MachineryError
from memqos.threads import submit

__all__ = ["ConcurrentCases", "concurrent_cases"]

Asker = TypeVar("Asker")

Findings = Sequence[Finding]


class ConcurrentCases(Generic[Asker]):
    """Cases by name, in the order in which they will be collected. Created by `concurrent_cases`.

    askers: each judges one case at a time; one that failed is reused last. judge: has an asker judge the case of this
    name. on_failure: called with a case that failed while another one was running, and its error.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        askers: Sequence[Asker],
        upcoming: Sequence[str],
        judge: Callable[[Asker, str], Findings],
        on_failure: Callable[[str, MachineryError], None],
    ) -> None:
        self._pool = pool
        self._askers = deque(askers)
        self._upcoming = deque(upcoming)
        self._reach = 2 * len(askers)
        self._judge = judge
        self._on_failure = on_failure
        self._begun: dict[str, Future[Findings]] = {}
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._accompanied: set[str] = set()

    def findings(self, name: str) -> Findings:
        """The findings of this case, judged now unless done already; raises the MachineryError that ended it."""
        future = self._begun.pop(name, None) or submit(self._pool, self._one, name)
        self._go_ahead(name)
        try:
            return future.result()
        except MachineryError as error:
            if name in self._accompanied:
                self._on_failure(name, error)
            raise

    def _go_ahead(self, name: str) -> None:
        """Begin the cases after this one, as far as useful; skipped cases are not begun any more."""
        if name in self._upcoming:
            while self._upcoming.popleft() != name:
                pass
        for following in list(self._upcoming)[: self._reach]:
            if following not in self._begun:
                self._begun[following] = submit(self._pool, self._one, following)

    def _one(self, name: str) -> Findings:
        asker = self._askers.popleft()
        with self._lock:
            self._under_way.add(name)
            if len(self._under_way) > 1:
                self._accompanied |= self._under_way
        took = self._askers.append
        try:
            found = self._judge(asker, name)
            took = self._askers.appendleft
        finally:
            with self._lock:
                self._under_way.remove(name)
            took(asker)
        return found


@contextlib.contextmanager
def concurrent_cases(
    askers: Sequence[Asker],
    upcoming: Sequence[str],
    judge: Callable[[Asker, str], Findings],
    *,
    on_failure: Callable[[str, MachineryError], None],
    leaves: Callable[[], bool],
) -> Iterator[ConcurrentCases[Asker]]:
    """As many cases at a time as there are askers; when the context ends, running cases finish first.

    on_failure: see `ConcurrentCases`. leaves: whether everything is left in place because the machine is given up.
    """
    pool = ThreadPoolExecutor(max_workers=len(askers), thread_name_prefix="asker")
    try:
        yield ConcurrentCases(pool, askers, upcoming, judge, on_failure)
    finally:
        pool.shutdown(wait=not leaves(), cancel_futures=True)
