"""Known deviations that a run looked for and did not see any more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memqos.engine.answer.finding import Verdict
from memqos.known import EVIDENCE, KnownDeviation, runtimes_told
from memqos.report.outcome import Outcome, TestResult

__all__ = ["known_gone"]


def known_gone(
    results: Sequence[TestResult], machines: Iterable[Mapping[str, Any]], known: Iterable[KnownDeviation]
) -> tuple[str, ...]:
    """One line for each entry and version of which the knob conforms in the claim, and is nowhere known to deviate.

    The claim may also conform without a word about such a knob: then the entry names one that there is none. Nothing is
    said of an entry that deviates only sometimes, and of one that no case could tell.
    """
    told = {
        str(machine.get("id")): runtimes_told(machine.get("runtimes", ()), kernel=str(machine.get("kernel", "")))
        for machine in machines
    }
    return tuple(line for entry in known if not entry.sometimes for line in _gone(entry, results, told))


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
            yield f"{entry.runtime} {version or 'of unknown version'} has {entry.knob} right in {entry.claim}: {entry}"
    if silent and not seen:
        yield f"{entry.claim} conforms, and says nothing of {entry.knob}: {entry}"
