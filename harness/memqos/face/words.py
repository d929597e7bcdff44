"""What the faces say, in plain text: a deviation in three lines, the counts of a row, how far a run is."""

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
    """The outcomes that there are, each with its number and word; "57 conform", "1 deviates"."""
    return [
        (outcome, f"{number} {verdict_word(outcome, number)}")
        for outcome, number in ((outcome, row_counts.get(outcome, 0)) for outcome in Outcome)
        if number
    ]


def verdict_word(outcome: Outcome, number: int) -> str:
    """The word for so many cases with an outcome."""
    return outcome.value if number == 1 else _WORDS[outcome]


def ran(row: TallyRow) -> str:
    """A row that is over, in one line."""
    return f"{row.name}: {', '.join(text for _, text in counts(row.counts)) or 'nothing'}, in {span(row.seconds)}"


def far(tally: Tally, now: float) -> str:
    """How far a run is, in one line."""
    parts = [f"{tally.all.done} of {tally.all.total}"]
    parts += [text for outcome, text in counts(tally.all.counts) if outcome is not Outcome.CONFORMS]
    parts.append(f"{span(tally.gone(now))} gone")
    left = tally.left(now)
    if left == 0 and tally.all.done < tally.all.total:
        parts.append("longer than expected")
    elif left is not None:
        parts.append(f"about {span(left)} left")
    return ", ".join(parts)


def case_name(case: str) -> str:
    """A case without the file that it is in."""
    return case.rpartition("/")[2].partition("::")[2] or case


def told(result: TestResult, causes: Mapping[object, int]) -> Iterator[tuple[Cause, list[str]]]:
    """Each thing that went wrong with a case in three lines: what; expected and observed; why.

    causes: how many cases each cause has had before, by its key: what was told before is not told again.
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
    """The rule behind an expectation with its revision, and who lost the value if that is known."""
    reason = finding.reason
    why = f"because {reason.rule}" if reason is not None and reason.rule else f"as the claim {result.claim} says"
    if reason is not None and reason.revision:
        why += f" ({reason.revision})"
    lost = f"; first lost by {finding.lost.by}" if finding.lost is not None and finding.lost.by else ""
    return why + lost
