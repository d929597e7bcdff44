"""Figures of a bench: what was measured, in which unit, and what it has to hold."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure. to_hold: the bound, at most it if `at_most`, else at least it; None for none."""

    name: str
    value: float
    unit: str
    to_hold: float | None = None
    at_most: bool = True


def processor_seconds(work: Callable[[], object], rounds: int) -> float:
    """The median of several rounds, in seconds of this process's processor time; a first round is not counted."""
    work()
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return statistics.median(found)
