"""The part of its cases that a run has: one of several shards, or those that failed last time."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memqos.config.settings import Settings
from memqos.errors import UsageError
from memqos.plugin.collection.parameters import kubelet_id, shared_by, system_of
from memqos.plugin.keys import SETTINGS_KEY, SHARD, USAGE, is_ours
from memqos.report.outcome import Outcome

__all__ = ["CaseSelection", "divided", "last_failed"]

_UNKNOWN_SECONDS = 1.0
"""The assumed seconds of a case if no case was ever timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The cases of each shard, in order. seconds: the expected time of each shard.

    name: identifies the division; jobs with differently named divisions do not fit together.
    """

    shards: tuple[tuple[str, ...], ...]
    seconds: tuple[float, ...]
    name: str


def divided(cases: Sequence[tuple[str, Hashable]], into: int, *, seconds: Mapping[str, float]) -> Division:
    """Divide cases among this many shards (1 or more) of nearly equal time.

    cases: each id with the group that must stay together. seconds: what cases took before; a missing one counts as the
    median of the others. The longest go first, each to the shard with the least so far (Graham 1969, LPT: at most a
    third longer than the optimum). With more shards than groups, some are empty.
    """
    known = [seconds[case] for case, _ in cases if case in seconds]
    usual = statistics.median(known) if known else _UNKNOWN_SECONDS
    units: dict[Hashable, list[str]] = {}
    for case, unit in cases:
        units.setdefault(unit, []).append(case)
    weights = [(sum(seconds.get(case, usual) for case in members), members) for members in units.values()]
    loads, chosen = [0.0] * into, [set[str]() for _ in range(into)]
    for weight, members in sorted(weights, key=lambda one: -one[0]):  # a stable order: the suites' own
        least = min(range(into), key=lambda shard: (loads[shard], len(chosen[shard]), shard))
        loads[least] += weight
        chosen[least].update(members)
    shards = tuple(tuple(case for case, _ in cases if case in one) for one in chosen)
    return Division(shards=shards, seconds=tuple(loads), name=_name(shards))


def _name(shards: Sequence[Sequence[str]]) -> str:
    """A short hash of the division."""
    text = "\n\n".join("\n".join(shard) for shard in shards)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


TIMES, FAILED, SHARD_OUTPUT = "memqos_times", "memqos_failed", "memqos_shard"
"""The key of a message from the controller to a worker, and of the answer."""

_FAILED = frozenset({Outcome.DEVIATES, Outcome.MACHINERY, Outcome.USAGE})


class CaseSelection:
    """Deselects what is not in this run; registered in every process of a partial run.

    All workers follow their controller's division, because the times of earlier runs may change while they collect.
    Raises UsageError without an earlier run, or if nothing failed in it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._settings = config.stash[SETTINGS_KEY]
        told: dict[str, Any] | None = getattr(config, "workerinput", None)
        if told is None:
            told = {TIMES: _times(self._settings), FAILED: _failed(config, self._settings)}
        self._times: dict[str, float] = told[TIMES]
        self._failed: list[str] = told[FAILED]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass the division to a worker."""
        node.workerinput |= {TIMES: self._times, FAILED: self._failed}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over a worker's division; all workers have the same."""
        told = (getattr(node, "workeroutput", None) or {}).get(SHARD_OUTPUT)
        if told:
            self._config.stash[SHARD] = dict(told)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """After -k and -m: keep the cases that failed, and of these the shard."""
        kept = items
        if self._settings.last_failed:
            kept = [item for item in kept if item.nodeid in set(self._failed)]
            if not kept and items:
                self._refuse(f"this run contains none of the {len(self._failed)} cases that failed last time.")
        if self._settings.shard is not None:
            kept = self._shard_of(kept)
        if len(kept) < len(items):
            chosen = set(kept)
            self._config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
            items[:] = kept

    def pytest_sessionfinish(self) -> None:
        """A worker reports its division to the controller."""
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None and SHARD in self._config.stash:
            told: Mapping[str, Any] = self._config.stash[SHARD]
            output[SHARD_OUTPUT] = dict(told)

    def _shard_of(self, items: list[pytest.Item]) -> list[pytest.Item]:
        from memqos.plugin.collection.selection import divided
        from memqos.plugin.results.durations import expected_durations

        shard = self._settings.shard
        if shard is None:
            return items
        cases = [(item.nodeid, _unit(item, self._settings)) for item in items]
        names = [case for case, _ in cases]
        expected = expected_durations(names, self._times, shared_by=shared_by(items, self._settings))
        division = divided(cases, shard.of, seconds=expected.seconds)
        own = set(division.shards[shard.number - 1])
        self._config.stash[SHARD] = {
            "number": shard.number, "of": shard.of, "cases": len(cases), "division": division.name
        }  # fmt: skip
        return [item for item in items if item.nodeid in own]

    def _refuse(self, what: str) -> None:
        error = UsageError(what, where=self._settings.origins["last_failed"])
        if not hasattr(self._config, "workerinput"):
            raise pytest.UsageError(str(error))
        self._config.stash[USAGE] = error


def _times(settings: Settings) -> dict[str, float]:
    from memqos.plugin.results.durations import durations_for_shards

    with_kubelet = settings.kubelet_binary is not None
    return durations_for_shards(kubelet=with_kubelet) if settings.shard is not None else {}


def _failed(config: pytest.Config, settings: Settings) -> list[str]:
    if not settings.last_failed:
        return []
    here = config.invocation_params.dir
    return list(last_failed(settings, here))


def last_failed(settings: Settings, here: Path) -> Iterable[str]:
    """The ids of the cases that failed in the previous run: in the folder of --results, or else the latest.

    here: the current folder. Raises UsageError without such a run, or if nothing failed in it.
    """
    from memqos.bundles.reading import read_results

    where = settings.origins["last_failed"]
    folder = _latest(here / settings.results if settings.results is not None else None, here / "results")
    if folder is None:
        raise UsageError(
            "found no results of an earlier run.", where=where, next_step="Run without --last-failed first."
        )
    found = [result.id for result in read_results(folder).bundle.results if result.outcome in _FAILED]
    if not found:
        raise UsageError(f"nothing failed in '{folder}'.", where=where, next_step="Run without --last-failed.")
    return found


def _latest(named: Path | None, folder: Path) -> Path | None:
    """The named results folder if it has results, or else the one that was last written to."""
    places = [named] if named is not None else []
    for place in places:
        if any((place / name).is_file() for name in ("bundle.json", "findings.jsonl")):
            return place
    files = [file for name in ("bundle.json", "findings.jsonl") for file in folder.glob(f"*/{name}")]
    newest = max(files, key=lambda file: (file.stat().st_mtime_ns, str(file)), default=None)
    return newest.parent if newest is not None else None


def _unit(item: pytest.Item, settings: Settings) -> Hashable:
    """What keeps a case with others: the population that it looks at, or the group that it names."""
    if (marker := item.get_closest_marker("xdist_group")) is not None:
        return ("group", str([*marker.args, *marker.kwargs.values()]))
    if is_ours(item) and "qos_population" in getattr(item, "fixturenames", ()):
        return (str(system_of(item, settings)), str(item.path), kubelet_id(item))
    return item.nodeid
