"""Which face fits where a run writes to, and what it says before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from memqos.clock import SYSTEM_CLOCK
from memqos.face.live import LiveScreen
from memqos.face.log import LogScreen
from memqos.face.screen import Screen
from memqos.face.services import NoService, service_of
from memqos.face.showing import ClaimPlaces, Face
from memqos.face.stream import Output
from memqos.face.tally import Tally, span

__all__ = ["opened_face", "outlook"]

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

    environment: of which TERM and the variables of CI services count. is_plain: lines whatever it is. several: whether
    cases run at the same time.
    """
    service = service_of(environment, here=Path.cwd())
    is_live = output.isatty() and service is None and not is_plain and environment.get("TERM", "") not in _DUMB
    screen: Screen = LiveScreen(output) if is_live else LogScreen(output, service or NoService(), folds=not several)
    return Face(screen, verbosity=verbosity, service=service, places=places)


def outlook(tally: Tally, *, chapters: int, machines: Sequence[str], workers: int, elsewhere: int = 0) -> list[str]:
    """What is going to run: how many cases, on what, and how long that takes.

    machines: their sorts, each once. elsewhere: how many cases are expected to take what they took on other systems.
    """
    cases = tally.all.total
    if not cases:
        return ["no case is to be run"]
    at_a_time = f", {workers} at a time" if workers > 1 else ""
    counted = f"{cases} case{'' if cases == 1 else 's'} in {chapters} chapter{'' if chapters == 1 else 's'}"
    left = tally.left(SYSTEM_CLOCK.now())
    if tally.unknown == cases or left is None:
        time = "how long it takes is not known yet"
    else:
        time = f"about {span(left)}{_resting_on(cases, unknown=tally.unknown, elsewhere=elsewhere)}"
    return [f"{counted} on {', '.join(machines)}{at_a_time}; {time}"]


def _resting_on(cases: int, *, unknown: int, elsewhere: int) -> str:
    """What makes a time an estimate."""
    if elsewhere == cases:
        return ", as long as on other systems: none of them ran on this one before"
    if not unknown:
        return f", though {elsewhere} ran only on other systems before" if elsewhere else ""
    return f", though {unknown} never ran here before" + (
        f" and {elsewhere} only on other systems" if elsewhere else ""
    )
