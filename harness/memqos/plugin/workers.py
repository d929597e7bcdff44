"""How many xdist workers a run of suites gets: those that are fastest, and no more than machines fit on this host."""

from __future__ import annotations

import pytest

from memqos.errors import MemqosError
from memqos.place.room import room_for
from memqos.plugin.given import settings_given

__all__ = ["limit_workers"]


def limit_workers(config: pytest.Config, asked: int | str) -> tuple[int, str]:
    """How many of the workers that were asked for there can be, and one line that says so.

    asked: a number, of which as many are started as fit, or xdist's words "auto" and "logical" for as many as are
    fastest; 0 is this process alone. Settings that cannot be resolved are left for pytest_configure to refuse.
    """
    try:
        room = room_for(settings_given(config))
    except MemqosError:
        return (asked, "") if isinstance(asked, int) else (0, "")
    most, best = room.most, room.best
    if not isinstance(asked, int):
        # One worker would only add a process: this one does its work as well.
        number = best.machines if best.machines > 1 else 0
        return number, f"memqos: {_machines(best.machines)} at a time: {best.reason}"
    if asked > most.machines:
        said = f"memqos: {_machines(most.machines)} at a time instead of {asked}: {most.reason}"
    else:
        said = f"memqos: {_machines(asked)} at a time"
    number = min(asked, most.machines)
    if number > best.machines:
        said += f"; {best.machines} would be faster (-n auto): {best.reason}"
    return number, said


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"
