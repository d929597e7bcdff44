"""Plain text for the faces: a deviation in three lines, the counts of a row, the progress of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memqos.engine.answer.finding import Finding
from memqos.face.tally import Tally, TallyRow, span
from memqos.report.causes import Cause, causes_of
from memqos.report.outcome import Outcome, TestResult

__all__ = ["case_name", "counts", "far", "ran", "told", "verdict_word"]

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
