"""How long cases took in earlier runs on this host: kept in the cache, to tell what a run will take, and for shards."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from memqos.bundles.files import write
from memqos.place.cached import cache_root
from memqos.report.outcome import Outcome, TestResult

__all__ = ["SCHEMA_OF_DURATIONS", "durations_file", "keep_durations", "read_durations", "stored_durations"]

SCHEMA_OF_DURATIONS = "memqos-durations/1"

_TOLD = frozenset({Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN})
"""Outcomes of cases that did what they are for; how long anything else takes says nothing of the next time."""
_MOST = 50_000


def durations_file() -> Path:
    """Where they are kept."""
    return cache_root() / "durations.json"


def stored_durations() -> dict[str, float]:
    """Seconds by the id of a case; nothing where nothing is kept, or what is kept cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return read_durations(durations_file().read_text(encoding="utf-8"))
    return {}


def read_durations(text: str) -> dict[str, float]:
    """The seconds in a file's text; ValueError for one that is none of ours."""
    document = json.loads(text)
    is_ours = isinstance(document, dict) and document.get("schema") == SCHEMA_OF_DURATIONS
    seconds = document.get("seconds") if is_ours else None
    if not isinstance(seconds, dict):
        raise ValueError(f"it is not of the schema {SCHEMA_OF_DURATIONS}")  # noqa: TRY004 - what it holds is wrong
    return {
        case: float(taken)
        for case, taken in seconds.items()
        if isinstance(taken, int | float) and math.isfinite(taken) and taken >= 0
    }


def keep_durations(results: Iterable[TestResult]) -> None:
    """Keep what these cases took, beside what others did; a cache that cannot be written is no matter for a verdict."""
    taken: Mapping[str, float] = {one.id: one.seconds for one in results if one.outcome in _TOLD and one.machine}
    if not taken:
        return
    file, before = durations_file(), stored_durations()
    kept = {**{case: seconds for case, seconds in before.items() if case not in taken}, **taken}
    document = {"schema": SCHEMA_OF_DURATIONS, "seconds": dict(sorted(list(kept.items())[-_MOST:]))}
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, json.dumps(document, indent=0) + "\n")
