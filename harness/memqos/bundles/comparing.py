"""Compares two runs: findings that are new, missing or changed, by claim and system, and differences of the runs.

A case is the same in both if its id and its system are the same, a finding if subject and interface file are. If each
run has only one system, the systems may differ, so that a runtime can be compared with its next version.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.finding import Finding, Verdict
from memqos.report.bundle import Bundle, Json, as_json
from memqos.report.matrix import without_system, worst_of
from memqos.report.outcome import Outcome, TestResult

__all__ = ["Change", "Comparison", "Differing", "compare", "comparison_lines"]

MOST_LISTED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One finding or case that differs between the runs.

    what: "new" (only in the new run), "gone" (only in the old one) or "changed". knob: "" for a case as a whole.
    before, after: outcome or verdict with the observed value, "" if missing. worse: whether it deviates only in the new
    run.
    """

    what: str
    claim: str
    case: str
    system: str
    subject: str = ""
    knob: str = ""
    before: str = ""
    after: str = ""
    worse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A setting, version or hash that differs. before, after: "" if missing."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All differences. same: number of equal cases. timing: medians of requests in seconds."""

    changes: tuple[Change, ...]
    differences: tuple[Differing, ...]
    timing: tuple[Differing, ...]
    same: int

    @property
    def new_deviations(self) -> tuple[Change, ...]:
        """The changes that are deviations only in the new run."""
        return tuple(change for change in self.changes if change.worse)

    def to_json(self) -> dict[str, Json]:
        """The document `memqos report compare --json` prints."""
        return {"memqos_format": 1, "new_deviations": len(self.new_deviations), "same": self.same} | {
            name: as_json(getattr(self, name)) for name in ("changes", "differences", "timing")
        }


_Key = tuple[str, str]


def compare(old: Bundle, new: Bundle) -> Comparison:
    """The differences of two runs, in the order of the new one's cases, then of the old one's missing cases."""
    alone = all(len({_system(result) for result in one.results if result.profile}) <= 1 for one in (old, new))
    before, after = (_by_case(one.results, alone=alone) for one in (old, new))
    changes: list[Change] = []
    same = 0
    for key, result in after.items():
        found = list(_case_changes(before.get(key), result))
        changes += found
        same += not found
    changes += [change for key, result in before.items() if key not in after for change in _case_changes(result, None)]
    return Comparison(
        changes=tuple(changes),
        differences=tuple(_differing(_described(old), _described(new))),
        timing=tuple(_differing(_timing(old), _timing(new))),
        same=same,
    )


def _system(result: TestResult) -> str:
    return "/".join(filter(None, (result.profile, result.runtime, result.driver)))


def _by_case(results: Sequence[TestResult], *, alone: bool) -> dict[_Key, TestResult]:
    """Each case once: of several in merged results, such as contradictions, the worst."""
    cases: dict[_Key, TestResult] = {}
    for result in results:
        key = (without_system(result), "" if alone else _system(result))
        other = cases.get(key, result)
        is_worse = worst_of({other.outcome.value: 1, result.outcome.value: 1}) is result.outcome
        cases[key] = result if is_worse else other
    return cases


def _case_changes(before: TestResult | None, after: TestResult | None) -> Iterator[Change]:
    result = after or before
    if result is None:
        return
    named: dict[str, Any] = {"claim": result.claim or result.chapter, "case": result.id, "system": _system(result)}
    if before is None or after is None:
        deviates = after is not None and after.outcome is Outcome.DEVIATES
        yield Change(
            what="gone" if after is None else "new",
            before=before.outcome.value if before else "",
            after=after.outcome.value if after else "",
            worse=deviates,
            **named,
        )
        return
    found = list(_finding_changes(_findings(before), _findings(after), named))
    yield from found
    if before.outcome is not after.outcome and not any(change.worse for change in found):
        worse = after.outcome is Outcome.DEVIATES
        yield Change(what="changed", before=_told(before), after=_told(after), worse=worse, **named)


def _told(result: TestResult) -> str:
    return f"{result.outcome.value}: {result.reason}" if result.reason else result.outcome.value


def _findings(result: TestResult) -> dict[tuple[str, str, int], Finding]:
    """The findings by subject, interface file and index among equal ones: a case may judge the same file twice."""
    found: dict[tuple[str, str, int], Finding] = {}
    counted: dict[tuple[str, str], int] = {}
    for finding in result.findings:
        key = (str(finding.subject), finding.knob)
        counted[key] = counted.get(key, 0) + 1
        found[(*key, counted[key])] = finding
    return found


def _finding_changes(
    before: Mapping[tuple[str, str, int], Finding], after: Mapping[tuple[str, str, int], Finding], named: dict[str, Any]
) -> Iterator[Change]:
    for key in dict.fromkeys([*after, *before]):
        old, new = before.get(key), after.get(key)
        if old is not None and new is not None and _is_same(old, new):
            continue
        deviates = new is not None and new.verdict is Verdict.DEVIATES
        yield Change(
            what="new" if old is None else "gone" if new is None else "changed",
            subject=key[0],
            knob=key[1],
            before=_said(old) if old else "",
            after=_said(new) if new else "",
            worse=deviates and (old is None or old.verdict is not Verdict.DEVIATES),
            **named,
        )


def _is_same(old: Finding, new: Finding) -> bool:
    """The text that is compared. Conforming values count as equal, since no two runs count the same events."""
    return old.verdict is new.verdict and (new.verdict is Verdict.CONFORMS or _said(old) == _said(new))


def _said(finding: Finding) -> str:
    if finding.verdict is Verdict.NOT_OBSERVABLE:
        return f"{finding.verdict.value}: {finding.why_not}"
    return f"{finding.verdict.value}: {finding.observed}, expected {finding.expected}"


_OF_ONE_BOOT = frozenset({"id", "timing", "restore_seconds", "kept"})


def _described(bundle: Bundle) -> dict[str, str]:
    """Settings, versions and hashes by name; of each machine, without what differs in every boot."""
    settings = {name: setting["value"] for name, setting in bundle.settings.items() if name != "results"}
    found = dict(_flat(settings, "setting"))
    found |= dict(_flat(bundle.host, "host"))
    found |= {f"version of {name}": version for name, version in bundle.versions.items()}
    for machine in bundle.machines:
        kept = {name: value for name, value in machine.items() if name not in _OF_ONE_BOOT}
        # The machines of a run differ only in their number.
        for name, text in _flat(kept, f"machine {machine.get('profile', '')}".strip()):
            found.setdefault(name, text)
    return found


def _flat(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Each value below this one by the path of names to it; an entry of a list of objects has its index."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _flat(one, f"{name} {key}")
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        for index, one in enumerate(value):
            yield from _flat(one, f"{name}[{index}]")
    else:
        yield name, _plain(value)


def _plain(value: object) -> str:
    """A value without parts as text; "" for none."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _timing(bundle: Bundle) -> dict[str, str]:
    """The median over the machines of each step's time."""
    seconds: dict[str, list[float]] = {}
    for machine in bundle.machines:
        timing = machine.get("timing")
        for step, told in timing.items() if isinstance(timing, Mapping) else ():
            if isinstance(told, Mapping) and isinstance(told.get("median"), int | float):
                seconds.setdefault(step, []).append(float(told["median"]))
    found = {step: f"{statistics.median(each):.3f} s" for step, each in seconds.items()}
    return {**found, "all cases": f"{sum(result.seconds for result in bundle.results):.1f} s"}


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Differing]:
    for name in dict.fromkeys([*before, *after]):
        if before.get(name, "") != after.get(name, ""):
            yield Differing(name=name, before=before.get(name, ""), after=after.get(name, ""))


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """The comparison as text: new deviations first, then other changes, differences, timing, and a last sentence."""
    worse = comparison.new_deviations
    yield from _section("new deviations", [line for change in worse for line in _change_lines(change)])
    others = [change for change in comparison.changes if not change.worse]
    yield from _section("other changes", [line for change in others for line in _change_lines(change)])
    yield from _section("what differs between the runs", [_difference_line(one) for one in comparison.differences])
    yield from _section("timing (medians, for information)", [_difference_line(one) for one in comparison.timing])
    cases = len({(change.case, change.system) for change in comparison.changes})
    gone = sum(change.what == "gone" and not change.knob for change in comparison.changes)
    yield (
        f"comparison: {len(worse)} new {'deviation' if len(worse) == 1 else 'deviations'}, "
        f"{cases} cases differ, {comparison.same} are the same{f'; {gone} are not in NEW' if gone else ''}"
    )


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:MOST_LISTED])
        if len(lines) > MOST_LISTED:
            yield f"  … and {len(lines) - MOST_LISTED} more lines: --json prints all"
        yield ""


def _change_lines(change: Change) -> Iterator[str]:
    thing = f"{change.knob} of {change.subject}" if change.knob else "the case"
    yield f"{change.claim}: {thing} is {change.what}"
    yield f"  {change.case}{f' on {change.system}' if change.system else ''}"
    yield f"  before: {change.before or 'none'}; now: {change.after or 'none'}"


def _difference_line(one: Differing) -> str:
    return f"{one.name}: {one.before or 'none'} → {one.after or 'none'}"
