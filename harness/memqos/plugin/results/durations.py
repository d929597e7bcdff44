"""Durations of cases in earlier runs on this host: cached, to estimate a run and to divide it into shards."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memqos.bundles.files import write
from memqos.catalog.profiles import profile_names
from memqos.clock import utc_now
from memqos.config.table import BY_HANDLER, RUNTIMES, runtime_prefix
from memqos.model.node import CgroupDriver
from memqos.plugin.collection.parameters import shared_by
from memqos.plugin.collection.workers import SHARES
from memqos.plugin.keys import SETTINGS_KEY, phase_of, plain_id
from memqos.report.outcome import Outcome, TestResult

__all__ = [
    "SCHEMA_OF_DURATIONS",
    "DurationRecorder",
    "ExpectedDurations",
    "durations_file",
    "durations_for_shards",
    "expected_durations",
    "keep_durations",
    "read_durations",
    "stored_durations",
]

SCHEMA_OF_DURATIONS = "memqos-durations/2"
_ONE_EACH = "memqos-durations/1"
"""The old file, which has only the last run's seconds."""
_RUNS = 3
"""How many runs of a case are kept: the median of three ignores one in which the host was busy."""

_TOLD = frozenset({Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN})
"""Outcomes of cases that did their work; the duration of a failure says nothing about the next run."""
_MOST = 50_000
_HALF_A_DAY = 12 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDurations:
    """Expected durations of cases. seconds: by id; cases without a known duration are left out.

    elsewhere: how many of them have only run on other systems so far.
    """

    seconds: Mapping[str, float]
    elsewhere: int


def expected_durations(
    cases: Iterable[str], before: Mapping[str, float], *, shared_by: Mapping[str, str] | None = None
) -> ExpectedDurations:
    """What each case took before; for one that never ran on its system, the median on others.

    before: seconds by id, of this run's systems and of others. shared_by: for each case, the name of what it shares
    with others; `before` has the duration of that name, which is added to the first case with a known duration.
    """
    cases, shared_by = list(cases), shared_by or {}
    told = _told([*cases, *{shared_by[case] for case in cases if case in shared_by}], before)
    seconds = {case: told[case][0] for case in cases if case in told}
    first = {shared_by[case]: case for case in reversed(seconds) if case in shared_by}
    for shared, case in first.items():
        seconds[case] += told[shared][0] if shared in told else 0.0
    return ExpectedDurations(seconds=seconds, elsewhere=sum(told[case][1] for case in seconds))


def _told(names: Sequence[str], before: Mapping[str, float]) -> Mapping[str, tuple[float, bool]]:
    """The duration by name, and whether it comes from other systems only."""
    own = {name: (before[name], False) for name in names if name in before}
    if len(own) == len(names):
        return own
    without = _without_systems()
    others = defaultdict[str, list[float]](list)
    for name, taken in before.items():
        others[without(name)].append(taken)
    alike = {name: others[without(name)] for name in names if name not in own and without(name) in others}
    return {**own, **{name: (statistics.median(taken), True) for name, taken in alike.items()}}


def _without_systems() -> Callable[[str], str]:
    """Leaves out of an id what names a system (profile, runtime, driver) or one of several rounds."""
    runtimes = [name for name in RUNTIMES if not name.isalnum()]
    names = "|".join(map(re.escape, [*profile_names(), *runtimes, *CgroupDriver]))
    # Other runtime names may have a hyphen: then less of the id is removed, and it has a duration of its own.
    others = "|".join(map(re.escape, dict.fromkeys([BY_HANDLER, *map(runtime_prefix, runtimes)])))
    named = re.compile(rf"(?:^|-)(?:{names}|(?:{others})[^-]+|round\d+)(?=-|$)")

    def without(case: str) -> str:
        head, _, words = case.partition("[")
        words = named.sub("", words.removesuffix("]")).removeprefix("-")
        return f"{head}[{words}]" if words else head

    return without


def durations_for_shards(*, kubelet: bool = False) -> dict[str, float]:
    """The durations that divide a run into parts; all parts started here one after another use the same.

    Other runs keep their durations in between. Half a day after a part was started, the next one uses what is stored
    then. kubelet: see `durations_file`.
    """
    stored = durations_file(kubelet=kubelet)
    file = stored.with_name(f"{stored.stem}-of-shards.json")
    with contextlib.suppress(OSError):
        if _read(file) is None or utc_now().timestamp() - file.stat().st_mtime >= _HALF_A_DAY:
            _write(file, _read(stored) or {})
        os.utime(file)
    kept = _read(file)
    return _medians(kept) if kept is not None else stored_durations(kubelet=kubelet)


def durations_file(*, kubelet: bool = False) -> Path:
    """Where they are kept; kubelet: those of runs with a real kubelet, which takes several times as long as memqos."""
    # What machines need is imported only for a run of suites, not in every project that has the plugin.
    from memqos.place.opening import cache_root

    return cache_root() / ("durations-with-kubelet.json" if kubelet else "durations.json")


def stored_durations(*, kubelet: bool = False) -> dict[str, float]:
    """Seconds by the id of a case, the lower median of its last runs; empty if nothing is stored or readable."""
    return _medians(_read(durations_file(kubelet=kubelet)) or {})


def _medians(runs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {case: statistics.median_low(seconds) for case, seconds in runs.items()}


def _read(file: Path) -> dict[str, list[float]] | None:
    with contextlib.suppress(OSError, ValueError):
        return read_durations(file.read_text(encoding="utf-8"))
    return None


def read_durations(text: str) -> dict[str, list[float]]:
    """The seconds of each case's last runs in a file's text, oldest first; ValueError for another format."""
    document = json.loads(text)
    schema = document.get("schema") if isinstance(document, dict) else None
    runs = document.get("seconds") if schema in {SCHEMA_OF_DURATIONS, _ONE_EACH} else None
    if not isinstance(runs, dict):
        raise ValueError(f"it is not of the schema {SCHEMA_OF_DURATIONS}")  # noqa: TRY004 - what it holds is wrong
    lists = {case: taken if isinstance(taken, list) else [taken] for case, taken in runs.items()}
    return {case: [float(seconds) for seconds in taken] for case, taken in lists.items() if _are_seconds(taken)}


def _are_seconds(taken: list[Any]) -> bool:
    return bool(taken) and all(isinstance(one, int | float) and math.isfinite(one) and one >= 0 for one in taken)


def keep_durations(
    results: Iterable[TestResult],
    *,
    around: Mapping[str, float],
    shared: Mapping[str, float],
    is_whole: bool,
    kubelet: bool = False,
) -> None:
    """Store what these cases took, with their earlier runs and those of others; errors are ignored.

    A not observable case counts only if nothing else is known of it: it mostly needs another kind of machine. around:
    by case, the time spent on what it shares with others. shared: the duration of that, by its name; a run without all
    cases (is_whole false) stores only unknown ones, since it may share less. kubelet: see `durations_file`.
    """
    file = durations_file(kubelet=kubelet)
    before = _read(file) or {}
    told = [one for one in results if one.machine and _is_told(one, before)]
    taken = {one.id: max(0.0, one.seconds - around.get(one.id, 0.0)) for one in told}
    if not taken:
        return
    taken |= {name: seconds for name, seconds in shared.items() if is_whole or name not in before}
    kept = {case: runs for case, runs in before.items() if case not in taken}
    kept |= {case: [*before.get(case, []), seconds][-_RUNS:] for case, seconds in taken.items()}
    with contextlib.suppress(OSError):
        _write(file, dict(sorted(list(kept.items())[-_MOST:])))


def _is_told(result: TestResult, before: Container[str]) -> bool:
    return result.outcome in _TOLD or (result.outcome is Outcome.NOT_OBSERVABLE and result.id not in before)


def _write(file: Path, runs: Mapping[str, Sequence[float]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, json.dumps({"schema": SCHEMA_OF_DURATIONS, "seconds": runs}) + "\n")


class DurationRecorder:
    """Stores the durations of a run of suites for the next; registered in the controller.

    What several cases share, such as a population of pods, is created in the setup of the first one and removed after
    the last. It does not count for these cases: in another run others may be first and last.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shared_by: dict[str, str] = {}
        self._around: dict[str, float] = defaultdict(float)
        self._before: Mapping[str, tuple[float, bool]] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """What the cases of this process share."""
        self._shared_by.update(shared_by(session.items, self._config.stash[SETTINGS_KEY]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """What workers' cases share; all workers report the same."""
        self._shared_by.update(getattr(report, SHARES, {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The time around a case that shares something; known before the case's result is made."""
        case = plain_id(report.nodeid)
        if report.when in {"setup", "teardown"} and case in self._shared_by and phase_of(report) is not None:
            self._around[case] += report.duration

    def expected(self, cases: Iterable[str]) -> ExpectedDurations:
        """The expected duration of these cases together; shared parts count for the first case."""
        return expected_durations(cases, stored_durations(kubelet=self._kubelet), shared_by=self._shared_by)

    @property
    def _kubelet(self) -> bool:
        return self._config.stash[SETTINGS_KEY].kubelet_binary is not None

    def before(self, case: str, *, among: Iterable[str]) -> float | None:
        """The expected duration of a case that has just ended in seconds, None if unknown. among: the run's cases.

        Of the time around it, as much is expected as what it shares with others took before: another case may have been
        first and last then.
        """
        if self._before is None:
            self._before = _told([*among, *set(self._shared_by.values())], stored_durations(kubelet=self._kubelet))
        if case not in self._before:
            return None
        around = self._around.get(case, 0.0)
        shared = self._before.get(self._shared_by.get(case, ""))
        return self._before[case][0] + (around if shared is None else min(around, shared[0]))

    def keep(self, results: Sequence[TestResult]) -> None:
        """Store the durations in this run's results."""
        shared: dict[str, float] = defaultdict(float)
        for case, seconds in self._around.items():
            shared[self._shared_by[case]] += seconds
        option = self._config.option
        is_whole = not (option.keyword or option.markexpr or any("::" in word for word in self._config.args))
        keep_durations(results, around=self._around, shared=shared, is_whole=is_whole, kubelet=self._kubelet)
