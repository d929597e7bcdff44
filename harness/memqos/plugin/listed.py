"""The list of known deviations as a run uses it: vm/known.toml, read when the first deviation is there."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from memqos.catalog.data import data_root
from memqos.engine.answer.finding import Finding
from memqos.known import KnownDeviation, amended, load_known, runtimes_told

if TYPE_CHECKING:
    from memqos.plugin.station import Station

__all__ = ["known_deviations", "known_or_not"]


@lru_cache(maxsize=1)
def known_deviations() -> tuple[KnownDeviation, ...]:
    """The list that is shipped."""
    return load_known(data_root() / "vm" / "known.toml")


def known_or_not(finding: Finding, claim: str, station: Station | None) -> Finding:
    """The finding of a claim on this station, as known if it is listed for what runs there."""
    listed = [entry for entry in known_deviations() if entry.fits(finding, claim)]
    if station is None or not listed:
        return finding
    return amended(finding, claim, listed, runtimes=runtimes_told(station.runtimes), driver=str(station.key.driver))
