"""Known deviations on a station: vm/known.toml and further lists, matched with the station's runtime versions.

Separate from `station`: the pytest plugin imports this in every project and must not load the code for machines.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from memqos.catalog.data import data_root
from memqos.engine.answer.finding import Finding
from memqos.known import KnownDeviation, amended, load_all, runtime_versions

if TYPE_CHECKING:
    from memqos.laboratory.station import Station

__all__ = ["known_deviations", "known_fault_or_not", "known_or_not"]


@lru_cache(maxsize=1)
def known_deviations(lists: tuple[Path, ...] = ()) -> tuple[KnownDeviation, ...]:
    """The entries of the shipped list and of these lists; errors as `memqos.known.load_all`."""
    return load_all([data_root() / "vm" / "known.toml", *lists])


def known_or_not(finding: Finding, claim: str, station: Station | None, lists: tuple[Path, ...] = ()) -> Finding:
    """The finding, marked as known if a list has it for this claim and the station's versions.

    claim: an id such as "values/pod". station: None matches no entry. Errors as `known_deviations`.
    """
    listed = [entry for entry in known_deviations(lists) if entry.fits(finding, claim)]
    if station is None or not listed:
        return finding
    runtimes = runtime_versions(station.runtimes_behind(finding), kernel=station.node.facts.kernel)
    return amended(finding, claim, listed, runtimes=runtimes, driver=str(station.key.driver))


def known_fault_or_not(
    finding: Finding, chapters: Collection[str], station: Station, lists: tuple[Path, ...] = ()
) -> Finding:
    """The finding, marked as known if a list has the file for a claim of these chapters and the station's versions.

    For findings without a claim, such as those about random pods. Errors as `known_deviations`.
    """
    runtimes = runtime_versions(station.runtimes_behind(finding), kernel=station.node.facts.kernel)
    for entry in known_deviations(lists):
        if entry.claim.partition("/")[0] in chapters and entry.fits(finding, entry.claim):
            told = amended(finding, entry.claim, [entry], runtimes=runtimes, driver=str(station.key.driver))
            if told is not finding:
                return told
    return finding
