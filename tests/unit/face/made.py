"""Results and a clock for faces, and a screen that records its calls."""

from __future__ import annotations

import io

from memqos.engine.answer.finding import Verdict
from memqos.engine.plan import Reason
from memqos.face.run_face import Tone
from memqos.face.text import Output
from memqos.report.outcome import Outcome
from tests.unit.report.sample import finding, result

REASON = Reason(rule="the limit is the sum of the containers'", revision="pod sums v1.22", source="kubelet")


class Remembering:
    """A screen that writes nothing."""

    def __init__(self) -> None:
        self.said: list[tuple[Tone, str]] = []
        self.rows: list[str] = []
        self.opened = self.closed = 0

    def say(self, lines, tone=Tone.PLAIN):
        self.said += [(tone, line) for line in lines]

    def open(self, tally):
        self.tally = tally
        self.opened += 1

    def row_begins(self, row):
        self.rows.append(f"{row.name} begins")

    def row_ends(self, row):
        self.rows.append(f"{row.name} ends")

    def close(self):
        self.closed += 1


def in_memory() -> tuple[io.StringIO, Output]:
    stream = io.StringIO()
    return stream, Output(stream)


def deviating(name: str, **changes: object):
    one = finding(Verdict.DEVIATES, reason=REASON, **changes)
    return result(name, Outcome.DEVIATES, findings=(one,), text="the whole text\nof it")
