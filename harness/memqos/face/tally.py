"""The progress of a run: cases by row and by worker, each worker's step, and the time elapsed and left. Pure.

Plain text for the faces: a deviation in three lines, the counts of a row, the progress of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from memqos.engine.answer.finding import Finding
from memqos.report.outcome import Outcome, TestResult
from memqos.report.verdict import Cause, causes_of

__all__ = ["AtWork", "Tally", "TallyRow", "case_name", "counts", "far", "ran", "span", "told"]

_MINUTE, _HOUR = 60, 60
"""Seconds of a minute, minutes of an hour."""

_MEASURED = frozenset({Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN})
"""Outcomes of cases that did their work, so that their time tells how fast the host is today."""


@dataclass(slots=True)
class TallyRow:
    """A chapter, or a system if there are several: its number of cases, and the outcomes of the finished ones."""

    name: str
    total: int = 0
    counts: Counter[Outcome] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """The number of finished cases."""
        return self.counts.total()


@dataclass(slots=True)
class AtWork:
    """A worker: the outcomes of its cases, and its case since `since`, "" for none. step: the current step."""

    name: str
    counts: Counter[Outcome] = field(default_factory=Counter)
    case: str = ""
    since: float = 0.0
    step: str = ""


class Tally:
    """The progress of one run: one thread writes it, others may read it at any time.

    rows: the name of its row by case id; other cases do not count. expected: earlier seconds by id. began: the clock's
    time at the beginning. workers: number of cases at a time, 1 or more.
    """

    def __init__(
        self, rows: Mapping[str, str], *, expected: Mapping[str, float], began: float, workers: int = 1
    ) -> None:
        self._row_of = dict(rows)
        self._expected = expected
        self._began = began
        self.at_a_time = max(1, workers)
        self._left = dict.fromkeys(rows)
        self._taken = self._foretold = 0.0
        """Seconds of the finished cases with earlier times, and their earlier times."""
        self._begun: set[str] = set()
        """Rows; a case that is run again begins none anew."""
        self.rows: dict[str, TallyRow] = {}
        for name in rows.values():
            self.rows.setdefault(name, TallyRow(name)).total += 1
        self.workers: dict[str, AtWork] = {}
        self.all = TallyRow("all", total=len(rows))

    def starts(self, worker: str, case: str, *, now: float) -> TallyRow | None:
        """A worker begins a case; its row if this is the row's first."""
        at_work = self._at_work(worker)
        at_work.case, at_work.since, at_work.step = case, now, ""
        row = self.rows.get(self._row_of.get(case, ""))
        if row is None or row.name in self._begun or case not in self._left:
            return None
        self._begun.add(row.name)
        return row

    def does(self, worker: str, step: str) -> None:
        """Set a worker's step within its case."""
        self._at_work(worker).step = step

    def ends(self, worker: str, case: str, outcome: Outcome, *, seconds: float) -> TallyRow | None:
        """A case is over; its row if that is over, too."""
        at_work = self._at_work(worker)
        at_work.counts[outcome] += 1
        if at_work.case == case:
            at_work.case = at_work.step = ""
        if case not in self._left:
            return None
        del self._left[case]
        row = self.rows[self._row_of[case]]
        for one in (row, self.all):
            one.counts[outcome] += 1
            one.seconds += seconds
        if outcome in _MEASURED and case in self._expected:
            self._taken += seconds
            self._foretold += self._expected[case]
        return row if row.done == row.total else None

    def gone(self, now: float) -> float:
        """Seconds since the beginning."""
        return max(0.0, now - self._began)

    def left(self, now: float) -> float | None:
        """Estimated seconds until the end; None while no remaining case has a time."""
        estimates = [self._estimate(case) for case in list(self._left)]
        known = [seconds for seconds in estimates if seconds is not None]
        if len(known) < len(estimates):
            return None
        running = [one for one in self.running() if one.case in self._left]
        done = sum(min(now - one.since, self._estimate(one.case) or 0.0) for one in running)
        return max(0.0, sum(known) - done) / min(self.at_a_time, max(1, len(known)))

    @property
    def unknown(self) -> int:
        """The number of cases that were never timed."""
        return sum(case not in self._expected for case in self._row_of)

    def running(self) -> Iterator[AtWork]:
        """The workers with a running case."""
        return (one for one in list(self.workers.values()) if one.case)

    @property
    def pace(self) -> float:
        """How long cases take in this run as a part of their earlier times, 1 until those add up to a minute.

        The host may have been busier then, or may be now.
        """
        return self._taken / self._foretold if self._foretold >= _MINUTE else 1.0

    def _at_work(self, worker: str) -> AtWork:
        return self.workers.setdefault(worker, AtWork(worker))

    def _estimate(self, case: str) -> float | None:
        """Expected seconds of a case: its own earlier ones at this run's pace, else its row's mean, or that of all.

        Before the first case ends it is the mean of the earlier seconds of this run's other cases.
        """
        if case in self._expected:
            return self._expected[case] * self.pace
        row = self.rows[self._row_of[case]]
        for like in (row, self.all):
            if like.done:
                return like.seconds / like.done
        known = [self._expected[one] for one in self._row_of if one in self._expected]
        return sum(known) / len(known) if known else None


def span(seconds: float) -> str:
    """A duration as text: 48 s, 3 min, 1 h 20 min; below a minute in seconds, below an hour in minutes."""
    if round(seconds) < _MINUTE:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE)
    if minutes < _HOUR:
        return f"{minutes} min"
    hours, rest = divmod(minutes, _HOUR)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


_WORDS: Mapping[Outcome, str] = {
    Outcome.CONFORMS: "conform",
    Outcome.DEVIATES: "deviate",
    Outcome.KNOWN: "known",
    Outcome.NOT_OBSERVABLE: "not observable",
    Outcome.MACHINERY: "machinery",
    Outcome.USAGE: "usage",
}


def counts(row_counts: Mapping[Outcome, int]) -> list[tuple[Outcome, str]]:
    """The outcomes that occur, each with its number and word; "57 conform", "1 deviates"."""
    return [
        (outcome, f"{number} {verdict_word(outcome, number)}")
        for outcome, number in ((outcome, row_counts.get(outcome, 0)) for outcome in Outcome)
        if number
    ]


def verdict_word(outcome: Outcome, number: int) -> str:
    """The word for so many cases with an outcome."""
    return outcome.value if number == 1 else _WORDS[outcome]


def ran(row: TallyRow) -> str:
    """A finished row in one line."""
    return f"{row.name}: {', '.join(text for _, text in counts(row.counts)) or 'nothing'}, in {span(row.seconds)}"


def far(tally: Tally, now: float) -> str:
    """The progress of a run in one line."""
    parts = [f"{tally.all.done} of {tally.all.total}"]
    parts += [text for outcome, text in counts(tally.all.counts) if outcome is not Outcome.CONFORMS]
    parts.append(f"{span(tally.gone(now))} elapsed")
    left = tally.left(now)
    if left == 0 and tally.all.done < tally.all.total:
        parts.append("longer than expected")
    elif left is not None:
        parts.append(f"about {span(left)} left")
    return ", ".join(parts)


def case_name(case: str) -> str:
    """A case without its file."""
    return case.rpartition("/")[2].partition("::")[2] or case


def told(result: TestResult, causes: Mapping[object, int]) -> Iterator[tuple[Cause, list[str]]]:
    """Each cause of a case in three lines: what; expected and observed; why.

    causes: number of earlier cases by the cause's key; a cause is printed once.
    """
    for cause in causes_of([result]):
        if cause.key not in causes:
            yield cause, [cause.headline, *_beneath(cause, result)]


def _beneath(cause: Cause, result: TestResult) -> Iterator[str]:
    finding = cause.example
    if finding is None:
        yield from (f"  {line}" for line in result.text.strip().splitlines()[1:2])
        yield f"  in {result.id}"
        return
    alike = f", and {len(cause.findings) - 1} more alike" if len(cause.findings) > 1 else ""
    yield f"  expected {finding.expected}, observed {finding.observed}{alike}"
    yield f"  {_why(finding, result)}"


def _why(finding: Finding, result: TestResult) -> str:
    """The rule behind an expected value with its revision, and the hop that lost the value, if known."""
    reason = finding.reason
    why = f"because {reason.rule}" if reason is not None and reason.rule else f"by the claim {result.claim}"
    if reason is not None and reason.revision:
        why += f" ({reason.revision})"
    lost = f"; first lost by {finding.lost.by}" if finding.lost is not None and finding.lost.by else ""
    return why + lost
