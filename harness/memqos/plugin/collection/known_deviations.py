"""Known deviations of a run: those of vm/known.toml and of the user's lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from memqos.bundles import files
from memqos.catalog.data import data_root
from memqos.clock import utc_now
from memqos.config.files import line_of
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import UnknownNameError
from memqos.known import (
    EVIDENCE,
    Accepted,
    KnownDeviation,
    accepted_or_not,
    known_deviations,
    known_or_not,
    load_baseline,
    load_known,
    runtime_versions,
)
from memqos.plugin.keys import LANE, SETTINGS_KEY, claim_of, claims_below
from memqos.report.outcome import Outcome, TestResult
from memqos.report.summary import programs_of

__all__ = ["amended", "check_claims_of_lists", "known_gone", "not_seen"]


def known_gone(
    results: Sequence[TestResult], machines: Iterable[Mapping[str, Any]], known: Iterable[KnownDeviation]
) -> tuple[str, ...]:
    """One line for each entry and version whose knob conforms in the claim and deviates nowhere.

    A claim may also conform without a finding about the knob: then the entry names a knob that the claim does not have.
    Entries with `sometimes`, and entries that no case checked, have no line.
    """
    told = {
        str(machine.get("id")): runtime_versions(_programs(machine), kernel=str(machine.get("kernel", "")))
        for machine in machines
    }
    return tuple(line for entry in known if not entry.sometimes for line in _gone(entry, results, told))


def _programs(machine: Mapping[str, Any]) -> Sequence[str]:
    """Without the kubelets of an upgrade: a result does not say which of them wrote a value."""
    return programs_of(machine) if len(machine.get("kubelets", ())) == 1 else machine.get("runtimes", ())


def _gone(entry: KnownDeviation, results: Sequence[TestResult], told: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    seen: dict[str, set[Verdict]] = {}
    silent: set[str] = set()
    for result in results:
        runtimes = told.get(result.machine, {})
        if result.claim != entry.claim or not entry.is_of(runtimes, result.driver):
            continue
        if result.outcome is Outcome.CONFORMS and all(one.knob != entry.knob for one in result.findings):
            silent.add(runtimes[entry.runtime])
        for finding in result.findings:
            is_other = finding.verdict is Verdict.KNOWN and not finding.evidence[EVIDENCE].startswith(f"{entry.name}:")
            if finding.knob == entry.knob and not is_other:
                seen.setdefault(runtimes[entry.runtime], set()).add(finding.verdict)
    for version, verdicts in seen.items():
        if verdicts == {Verdict.CONFORMS}:
            runtime = f"{entry.runtime} {version or 'of unknown version'}"
            yield f"{runtime} sets {entry.knob} correctly in {entry.claim}: {entry}"
    if silent and not seen:
        yield f"{entry.claim} conforms without a finding about {entry.knob}: {entry}"


def check_claims_of_lists(lists: tuple[Path, ...], root: Path) -> None:
    """Check that every entry has a claim below this root or of memqos; UnknownNameError with the line if not."""
    claims = {*claims_below(root), *claims_below(data_root() / "suites")}
    for file in lists:
        for entry in load_known(file):
            if entry.claim and entry.claim not in claims:
                text = file.read_text(encoding="utf-8")
                line = next(filter(None, (line_of(text, entry.name, key) for key in ("claim", "where", ""))), 0)
                where = f"{file}:{line}: {entry.name}"
                raise UnknownNameError.of("claim", entry.claim, sorted(claims), where=where)


def not_seen(results: Sequence[TestResult], folder: Path, lists: tuple[Path, ...]) -> tuple[str, ...]:
    """Known deviations of this run's runtimes that were checked and not seen; see `known_gone`."""
    return known_gone(results, files.machines(folder), known_deviations(lists))


_ACCEPTED = pytest.StashKey[tuple[Accepted, ...]]()


def amended(item: pytest.Item, finding: Finding) -> Finding:
    """A finding of a test: as plugins amend it, and marked as known if a list or this run's baseline has it."""
    config, claim, lane = item.config, claim_of(item), item.config.stash.get(LANE, None)
    other: Finding | None = config.hook.pytest_memqos_finding(finding=finding, item=item)
    station = lane.station if lane is not None else None
    told = known_or_not(other or finding, claim, station, config.stash[SETTINGS_KEY].known)
    return _accepted_by(config, told, claim)


def _accepted_by(config: pytest.Config, finding: Finding, claim: str) -> Finding:
    """The finding of a claim marked as known, if this run's baseline accepts it today."""
    file = config.stash[SETTINGS_KEY].baseline
    if file is None:
        return finding
    if _ACCEPTED not in config.stash:
        config.stash[_ACCEPTED] = load_baseline(file)
    accepted: tuple[Accepted, ...] = config.stash[_ACCEPTED]
    return accepted_or_not(finding, claim, accepted, today=utc_now().date())
