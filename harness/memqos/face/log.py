"""A run in a log: a line per event, and every half minute one that says what runs and what is left."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import datetime

from memqos.clock import SYSTEM_CLOCK, Clock, utc_now
from memqos.face.screen import Tone
from memqos.face.services import Service
from memqos.face.stream import Output
from memqos.face.tally import Tally, TallyRow, span
from memqos.face.words import case_name, far, ran

__all__ = ["HEARTBEAT_SECONDS", "LogScreen"]

HEARTBEAT_SECONDS = 30.0


class LogScreen:
    """Lines without any control character but those that a service asks for.

    service: whose log it is. folds: whether rows come one after another, so that each can be a part that folds.
    """

    def __init__(
        self,
        output: Output,
        service: Service,
        *,
        folds: bool,
        every: float = HEARTBEAT_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        wall: Callable[[], datetime] = utc_now,
    ) -> None:
        self._output = output
        self._service = service
        self._folds = folds
        self._every = every
        self._clock = clock
        self._wall = wall
        self._part = ""
        self._over = threading.Event()
        self._beat: threading.Thread | None = None
        self._tally: Callable[[], Tally] | None = None

    def say(self, lines: list[str], tone: Tone = Tone.PLAIN) -> None:
        """Lines; a step has a dot before it."""
        dot = "· " if self._output.speaks_unicode else "- "
        mark = dot if tone in {Tone.STEP, Tone.NOTE} else ""
        self._output.write("".join(f"{mark}{line}\n" for line in lines))

    def open(self, tally: Callable[[], Tally]) -> None:
        """From now on it says every half minute how far it is."""
        self._tally = tally
        if self._beat is None:
            self._beat = threading.Thread(target=self._beats, name="memqos heartbeat", daemon=True)
            self._beat.start()

    def row_begins(self, row: TallyRow) -> None:
        """A part that folds, where the log has such; parts do not lie in one another."""
        self._end_part()
        if self._folds and (opening := self._service.opens(row.name, self._title(row), at=self._now())):
            self._output.write(opening)
            self._part = row.name

    def row_ends(self, row: TallyRow) -> None:
        """The row in one line, below its part."""
        if self._part == row.name:
            self._end_part()
        self.say([ran(row)])

    def close(self) -> None:
        """No line comes after this."""
        self._over.set()
        if self._beat is not None:
            self._beat.join()
            self._beat = None
        with contextlib.suppress(OSError, ValueError):
            self._end_part()

    def heartbeat(self) -> list[str]:
        """How far it is, and what runs since when."""
        if self._tally is None:
            return []
        now, tally = self._clock.now(), self._tally()
        several = len(tally.workers) > 1
        lines = [far(tally, now)]
        for one in tally.running():
            step = f": {one.step}" if one.step else ""
            who = f"[{one.name}] " if several else ""
            lines.append(f"  {who}{case_name(one.case)}, {span(now - one.since)}{step}")
        return lines

    def _beats(self) -> None:
        while not self._over.wait(self._every):
            self.say(self.heartbeat(), Tone.STEP)

    def _title(self, row: TallyRow) -> str:
        return f"{row.name} ({row.total} case{'' if row.total == 1 else 's'})"

    def _end_part(self) -> None:
        if self._part:
            self._output.write(self._service.closes(self._part, at=self._now()))
            self._part = ""

    def _now(self) -> int:
        return int(self._wall().timestamp())
