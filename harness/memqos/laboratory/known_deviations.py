"""Known deviations on a station: those of vm/known.toml and of further lists, matched with what runs there.

Apart from the stations: pytest's plugin imports this in every project, and must not load what machines need.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from memqos.catalog.data import data_root
from memqos.engine.answer.finding import Finding
from memqos.known import KnownDeviation, amended, load_all, runtimes_told

if TYPE_CHECKING:
    from memqos.laboratory.station import Station

__all__ = ["known_deviations", "known_fault_or_not", "known_or_not"]


@lru_cache(maxsize=1)
def known_deviations(lists: tuple[Path, ...] = ()) -> tuple[KnownDeviation, ...]:
    """The shipped list and these; errors are as of `memqos.known.load_all`."""
    return load_all([data_root() / "vm" / "known.toml", *lists])


def known_or_not(finding: Finding, claim: str, station: Station | None, lists: tuple[Path, ...] = ()) -> Finding:
    """The finding of a claim on this station, as known if the list has it for the versions that run there.

    claim: its id, as "values/pod". station: None matches nothing. Errors are as of `known_deviations`.
    """
    listed = [entry for entry in known_deviations(lists) if entry.fits(finding, claim)]
    if station is None or not listed:
        return finding
    runtimes = runtimes_told(station.runtimes, kernel=station.node.facts.kernel)
    return amended(finding, claim, listed, runtimes=runtimes, driver=str(station.key.driver))


def known_fault_or_not(
    finding: Finding, chapters: Collection[str], station: Station, lists: tuple[Path, ...] = ()
) -> Finding:
    """The finding as known if a claim of one of these chapters has such a deviation listed for what runs there.

    It is for findings of no claim, such as those about random pods: the same file deviates by the same fault. Errors
    are as of `known_deviations`.
    """
    runtimes = runtimes_told(station.runtimes, kernel=station.node.facts.kernel)
    for entry in known_deviations(lists):
        if entry.claim.partition("/")[0] in chapters and entry.fits(finding, entry.claim):
            told = amended(finding, entry.claim, [entry], runtimes=runtimes, driver=str(station.key.driver))
            if told is not finding:
                return told
    return finding
