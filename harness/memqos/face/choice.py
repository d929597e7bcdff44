"""Chooses the face for a run's output, and makes the text before the first case."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memqos.clock import SYSTEM_CLOCK, Clock, utc_now
from memqos.face.live import LiveScreen
from memqos.face.run_face import ClaimPlaces, Face, NoService, Screen, Service, Tone, service_of
from memqos.face.tally import Tally, TallyRow, case_name, far, ran, span
from memqos.face.text import Output

__all__ = ["LogScreen", "opened_face", "outlook"]

HEARTBEAT_SECONDS = 30.0


class LogScreen:
    """Lines without control characters, except those of a service.

    service: the owner of the log. folds: whether rows come one after another, so that each can fold.
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
        """Start to print the progress every half minute."""
        self._tally = tally
        if self._beat is None:
            self._beat = threading.Thread(target=self._beats, name="memqos heartbeat", daemon=True)
            self._beat.start()

    def row_begins(self, row: TallyRow) -> None:
        """Begin a folding part, if the log has these; parts do not nest."""
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
        """Print no line after this."""
        self._over.set()
        if self._beat is not None:
            self._beat.join()
            self._beat = None
        with contextlib.suppress(OSError, ValueError):
            self._end_part()

    def heartbeat(self) -> list[str]:
        """The progress, and each running case with its time."""
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


_DUMB = frozenset({"", "dumb", "unknown"})


def opened_face(
    output: Output,
    environment: Mapping[str, str],
    *,
    verbosity: int,
    is_plain: bool,
    several: bool,
    places: ClaimPlaces,
) -> Face:
    """Rows on a terminal that can show them, and lines everywhere else.

    environment: TERM and the variables of CI services count. is_plain: lines on any output. several: whether cases run
    at the same time.
    """
    service = service_of(environment, here=Path.cwd())
    is_live = output.isatty() and service is None and not is_plain and environment.get("TERM", "") not in _DUMB
    screen: Screen = LiveScreen(output) if is_live else LogScreen(output, service or NoService(), folds=not several)
    return Face(screen, verbosity=verbosity, service=service, places=places)


def outlook(tally: Tally, *, chapters: int, machines: Sequence[str], workers: int, elsewhere: int = 0) -> list[str]:
    """The plan of a run: number of cases, machines, and expected time.

    machines: each sort once. elsewhere: number of cases whose expected time comes from other systems.
    """
    cases = tally.all.total
    if not cases:
        return ["no case to run"]
    at_a_time = f", {workers} at a time" if workers > 1 else ""
    counted = f"{cases} case{'' if cases == 1 else 's'} in {chapters} chapter{'' if chapters == 1 else 's'}"
    left = tally.left(SYSTEM_CLOCK.now())
    if tally.unknown == cases or left is None:
        time = "its duration is not known yet"
    else:
        time = f"about {span(left)}{_resting_on(cases, unknown=tally.unknown, elsewhere=elsewhere)}"
    return [f"{counted} on {', '.join(machines)}{at_a_time}; {time}"]


def _resting_on(cases: int, *, unknown: int, elsewhere: int) -> str:
    """The reason why a time is uncertain."""
    if elsewhere == cases:
        return ", estimated from other systems: none of them ran on this one before"
    if not unknown:
        return f"; {elsewhere} ran only on other systems before" if elsewhere else ""
    return f"; {unknown} never ran here before" + (f" and {elsewhere} only on other systems" if elsewhere else "")
