"""Audits of live nodes: two looks before a value deviates, and repeated audits of a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from memqos.audits.answer import Audit
from memqos.audits.motion import PERIOD_SECONDS, awaits_period, confirmed
from memqos.clock import SYSTEM_CLOCK, Clock
from memqos.engine.answer.finding import Finding, Verdict

__all__ = ["WRITER", "Course", "Event", "looked_at", "with_systemd"]

WRITER = "writer"
"""The key of the evidence about a value's writer."""

_PROPERTIES = {
    "memory.min": "MemoryMin",
    "memory.low": "MemoryLow",
    "memory.high": "MemoryHigh",
    "memory.max": "MemoryMax",
    "memory.swap.max": "MemorySwapMax",
    "pids.max": "TasksMax",
    "cpu.weight": "CPUWeight",
}
_UNITS = (".slice", ".scope")

Look = Callable[[], Audit]


def looked_at(look: Look, *, settle: float, waits: bool = True, clock: Clock = SYSTEM_CLOCK) -> Audit:
    """A node's audit. look: collects and judges the node. settle: seconds between two looks.

    A look without a deviation is enough. A deviation needs two equal looks; for a sum above pods these have to be a
    minute apart, since a kubelet sets it once a minute: with a settle of 0, or without `waits`, such sums are not
    observable.
    """
    started = clock.now()
    first = look()
    if not first.of(Verdict.DEVIATES):
        return first
    clock.sleep(settle)
    second = confirmed(first, look(), after=clock.now() - started)
    if not (waits and settle and any(map(awaits_period, second.findings))):
        return second
    clock.sleep(max(0.0, PERIOD_SECONDS - (clock.now() - started)))
    return confirmed(first, look(), after=clock.now() - started)


def with_systemd(audit: Audit, properties: Callable[[tuple[str, ...]], dict[str, dict[str, str]]]) -> Audit:
    """The audit, with systemd's own value as evidence in deviations of systemd units.

    properties: by unit its properties, as `systemctl show` prints them; unknown ones are missing.
    """
    units = tuple(dict.fromkeys(unit for one in audit.findings if _may_drift(one) and (unit := _unit(one))))
    found = properties(units) if units else {}

    def told(finding: Finding) -> Finding:
        held = found.get(_unit(finding), {}).get(_PROPERTIES.get(finding.knob, ""))
        if not _may_drift(finding) or held is None:
            return finding
        return replace(finding, evidence={**finding.evidence, WRITER: _writer(finding, held)})

    return replace(audit, findings=tuple(map(told, audit.findings))) if found else audit


def _may_drift(finding: Finding) -> bool:
    return finding.verdict is Verdict.DEVIATES or awaits_period(finding)


def _unit(finding: Finding) -> str:
    name = finding.cgroup.rpartition("/")[2]
    return name if name.endswith(_UNITS) and finding.knob in _PROPERTIES else ""


def _writer(finding: Finding, held: str) -> str:
    text = "max" if held == "infinity" else held
    name = _PROPERTIES[finding.knob]
    if text == finding.observed:
        return f"systemd's {name} is {held}, as the file: it was set through systemd"
    if text == finding.expected:
        return f"systemd's {name} is {held}, as expected: the file was written past systemd"
    return f"systemd's {name} is {held}: neither the file's value nor the expected one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change between two looks. kind: "drift" for a new deviation, "back" for one that is gone."""

    kind: str
    finding: Finding
    after: float


class Course:
    """The changes of one node's deviations over time. clock: the observer's.

    A sum above pods drifts once all looks of a kubelet's period have seen the same wrong value.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._started = clock.now()
        self._clock = clock
        self._standing: dict[tuple[str, str, str], Finding] = {}
        self._waiting: dict[tuple[str, str, str, str], float] = {}

    def step(self, audit: Audit) -> Iterator[Event]:
        """The events of one more audit; a drifted value that changes again is a new drift."""
        after = self._clock.now() - self._started
        deviating = (*audit.of(Verdict.DEVIATES), *self._overdue(audit, after))
        now = {(one.cgroup, one.knob, one.observed): one for one in deviating}
        unseen = {(one.cgroup, one.knob) for one in audit.of(Verdict.NOT_OBSERVABLE)} - {key[:2] for key in now}
        for key, finding in self._standing.items():
            if key not in now and key[:2] not in unseen:
                yield Event(kind="back", finding=finding, after=after)
        for key, finding in now.items():
            if key not in self._standing:
                yield Event(kind="drift", finding=finding, after=after)
        kept = {key: one for key, one in self._standing.items() if key[:2] in unseen}
        self._standing = {**kept, **now}

    def _overdue(self, audit: Audit, after: float) -> list[Finding]:
        """The sums that have been wrong in the same way for longer than the kubelet's period, as deviations."""
        waiting = {
            (one.cgroup, one.knob, one.observed, one.expected): one for one in audit.findings if awaits_period(one)
        }
        self._waiting = {key: self._waiting.get(key, after) for key in waiting}
        return [
            replace(one, verdict=Verdict.DEVIATES, why_not="")
            for key, one in waiting.items()
            if after - self._waiting[key] >= PERIOD_SECONDS
        ]
