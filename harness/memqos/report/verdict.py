"""The verdict on a run: one sentence, and the findings by writer of the observed value.

Deviations and errors grouped by cause: one fault in many pods is one cause. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memqos.config.table import direct_prefix
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.errors import ExitCode
from memqos.report.bundle import Bundle
from memqos.report.outcome import Outcome, TestResult
from memqos.report.words import how_many, known_count, plain

__all__ = ["CONTRADICTS_ITSELF", "Cause", "causes_of", "setter_lines", "verdict_line"]

CONTRADICTS_ITSELF = "the results contradict themselves"
_SET_BY = "findings, by writer"


def verdict_line(bundle: Bundle) -> str:
    """The run in one sentence."""
    tests = bundle.outcomes
    known = tests[Outcome.KNOWN.value]
    observed = tests[Outcome.CONFORMS.value] + tests[Outcome.DEVIATES.value] + known
    partly = sum(result.observed_in_part for result in bundle.results)
    said = {
        ExitCode.CONFORMS: "conforms" if observed or not partly else "conforms as far as observed",
        ExitCode.DEVIATES: "deviates" if tests[Outcome.DEVIATES.value] else "known deviations were not observed",
        ExitCode.INTERRUPTED: "interrupted",
        ExitCode.MACHINERY: "machinery failed; this says nothing about the system under test",
        ExitCode.USAGE: "usage error",
        ExitCode.NOTHING_OBSERVED: "nothing was observed",
        ExitCode.ENVIRONMENT: "this host cannot run it",
        ExitCode.CLOSED_PIPE: "ended early, because the reader closed the output",
    }[ExitCode(bundle.exit_code)]
    if bundle.inconsistencies:
        said = f"{CONTRADICTS_ITSELF}; {said}" if tests[Outcome.DEVIATES.value] else CONTRADICTS_ITSELF
    in_part = f", {partly} observed in part" if partly else ""
    untried = sum(result.untried for result in bundle.results)
    missing = f", {untried} given up without an attempt" if untried else ""
    missing += f", {bundle.not_run} not run" if bundle.not_run else ""
    cases = (
        f"{how_many(observed, 'case')} observed{in_part}, {tests[Outcome.DEVIATES.value]} deviate"
        f"{known_count(known)}{missing}"
    )
    unseen = bundle.verdicts[Verdict.NOT_OBSERVABLE.value]
    not_seen = [f"{how_many(unseen, 'finding')} not observable"] if partly else []
    return f"verdict: {said} ({'; '.join([cases, *_told_apart(bundle), *not_seen])})"


def _told_apart(bundle: Bundle) -> Iterator[str]:
    """The number of findings by writer: values that memqos wrote say nothing about a runtime."""
    for setter, verdicts in bundle.set_by.items():
        count, deviate = sum(verdicts.values()), verdicts[Verdict.DEVIATES.value]
        if setter == Setter.RUNTIME:
            for name, own in _by_runtime(bundle).items():
                total = how_many(sum(own.values()), "finding")
                known = known_count(own[Verdict.KNOWN.value])
                yield f"{total} about {name}, {own[Verdict.DEVIATES.value]} deviate{known}"
        elif count:
            yield f"{count} {_NOT_THE_RUNTIMES[Setter(setter)]}" + (f", {deviate} deviate" if deviate else "")


_NOT_THE_RUNTIMES = {
    Setter.KUBELET: "about the kubelet",
    Setter.MEMQOS: "about memqos's own writes",
    Setter.SYSTEMD: "about systemd's own writes",
    Setter.KERNEL: "about the kernel",
    Setter.OTHER: "from an unknown writer",
}


def _by_runtime(bundle: Bundle) -> dict[str, Counter[str]]:
    """The findings about runtimes, by the runtime of each finding's machine."""
    names = {str(machine.get("id")): _runtime_name(machine) for machine in bundle.machines}
    told = dict.fromkeys(filter(None, names.values()))
    whole = next(iter(told)) if len(told) == 1 else Setter.RUNTIME.value
    found: dict[str, Counter[str]] = {name: Counter() for name in told or [whole]}
    for result in bundle.results:
        own = [finding.verdict.value for finding in result.findings if finding.set_by is Setter.RUNTIME]
        if own:
            found.setdefault(names.get(result.machine) or whole, Counter()).update(own)
    return found


def _runtime_name(machine: Mapping[str, Any]) -> str:
    """A machine's runtimes by name: "containerd+crun", "oci:runc"; "" for none."""
    name = "+".join(str(one).split(" ")[0] for one in machine.get("runtimes", ()))
    return plain(f"{direct_prefix(str(machine.get('runtime', '')))}{name}")


def setter_lines(bundle: Bundle) -> Iterator[str]:
    """The table of findings by writer; empty without findings."""
    rows: dict[str, Mapping[str, int]] = {}
    for setter, verdicts in bundle.set_by.items():
        if setter == Setter.RUNTIME:
            rows |= _by_runtime(bundle)
        else:
            rows[setter] = verdicts
    rows = {name: verdicts for name, verdicts in rows.items() if any(verdicts.values())}
    if not rows:
        return
    width = max(len(name) for name in (_SET_BY, *rows))
    yield f"{_SET_BY:<{width}}  {'  '.join(f'{verdict.value:>8}' for verdict in Verdict)}"
    for name, verdicts in rows.items():
        cells = (f"{verdicts.get(verdict.value, 0):>{max(len(verdict.value), 8)}}" for verdict in Verdict)
        yield f"{name:<{width}}  {'  '.join(cells)}"
    yield ""


_WRONG = frozenset({Outcome.DEVIATES, Outcome.MACHINERY, Outcome.USAGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause.

    key: for findings the knob, the rule of the expected value (or the value itself), and the hop that lost it; for a
    case without findings its outcome and reason. results: its cases in order, at least one. findings: those of all its
    cases; none for a cause without findings.
    """

    key: tuple[str, ...]
    outcome: Outcome
    results: tuple[TestResult, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def example(self) -> Finding | None:
        """Its first finding."""
        return self.findings[0] if self.findings else None

    @property
    def headline(self) -> str:
        """A short description."""
        if self.example is not None:
            return f"{self.example.knob} of {self.example.subject} deviates"
        return f"{self.outcome}: {self.results[0].reason or self.results[0].id}"


def causes_of(results: Iterable[TestResult]) -> tuple[Cause, ...]:
    """Every cause, in order of first occurrence; a case can have several."""
    cases: dict[tuple[str, ...], dict[int, TestResult]] = {}
    findings: dict[tuple[str, ...], list[Finding]] = {}
    for result in results:
        if result.outcome not in _WRONG:
            continue
        deviating = [one for one in result.findings if one.verdict is Verdict.DEVIATES]
        if result.outcome is not Outcome.DEVIATES or not deviating:
            cases.setdefault((result.outcome.value, result.reason), {})[id(result)] = result
        for finding in deviating if result.outcome is Outcome.DEVIATES else ():
            key = _key(finding, result)
            cases.setdefault(key, {})[id(result)] = result
            findings.setdefault(key, []).append(finding)
    return tuple(
        Cause(
            key=key,
            outcome=next(iter(of_key.values())).outcome,
            results=tuple(of_key.values()),
            findings=tuple(findings.get(key, ())),
        )
        for key, of_key in cases.items()
    )


def _key(finding: Finding, result: TestResult) -> tuple[str, ...]:
    """The key without a rule: equal for the same expected text within a chapter; an amount only within its claim."""
    rule = finding.reason.rule if finding.reason is not None else ""
    if not rule:
        has_amount = any(letter.isdigit() for letter in finding.expected)
        rule = result.claim if has_amount else f"{result.chapter}: {finding.expected}"
    lost = finding.lost.by if finding.lost is not None else ""
    return (finding.knob, rule, str(lost))
