"""The xdist workers of a run of suites: as many as are fastest and fit on this host, or others on other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memqos.errors import MemqosError, UsageError
from memqos.place.room import room_for
from memqos.plugin.given import settings_given

__all__ = ["check_copied", "limit_workers"]


def check_copied(config: pytest.Config, specs: Sequence[Any]) -> None:
    """What names tests on other hosts is copied there. specs: of the workers, as execnet has them.

    xdist takes every word of the command that is a path here for tests, be it what an option was given. Raises
    UsageError for one that is in none of the folders that it copies.
    """
    if all(spec.popen and not spec.chdir for spec in specs):
        return
    copied = [Path(folder).resolve() for folder in (*config.option.rsyncdir, *config.getini("rsyncdirs"))]
    for word in map(str, config.invocation_params.args):
        place = Path(word.partition("::")[0])
        if place.exists() and not any(place.is_relative_to(folder) for folder in copied):
            raise UsageError(
                f"'{place}' is outside of the folders that are copied to the hosts.",
                next_step="Name tests by their whole path below a folder of --rsyncdir, and write an option and its "
                "value as one word, such as --memqos-results=FOLDER.",
            )


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
