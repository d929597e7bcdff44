"""Audits of live nodes: two looks before a value deviates, and repeated audits of a watch.

A kubelet and a runtime write a cgroup's files one after another, and the sums above pods up to a minute after a pod is
gone. So a value that changes between two looks is not evidence: only a difference in both, with the same values, is a
deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from memqos.audits.answer import Audit
from memqos.catalog.recorded_trees import RecordedTree
from memqos.clock import SYSTEM_CLOCK, Clock
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroups import kubepods_hugetlb_at_start
from memqos.engine.plan import Level, Plan
from memqos.model.pod import Pod

__all__ = ["WRITER", "Course", "Event", "looked_at", "still", "with_systemd"]

PERIOD_SECONDS = 65.0
"""Seconds. A kubelet sets QoS class cgroups every minute (cm/qos_container_manager_linux.go, UpdateCgroups)."""

_Key = tuple[str, str]

_ONCE_A_MINUTE = "a kubelet sets it once a minute"


def still(
    findings: Iterable[Finding], tree: RecordedTree, plan: Plan, pods: Iterable[Pod], kubelet: Kubelet
) -> Iterator[Finding]:
    """The findings of one recording; deviations of values that changed during the reading are not observable."""
    changed = {path: dict(files) for path, files in tree.second_look.changed.items()}
    gone = frozenset(tree.second_look.gone)
    there = {str(path) for path in tree.reading.cgroups}
    moving = _moving(tree, pods)
    summed = summed_files(plan)
    at_start = {(str(plan.node.path), str(file)): str(n) for file, n in kubepods_hugetlb_at_start(kubelet).items()}
    for finding in findings:
        why = ""
        if finding.verdict is Verdict.DEVIATES:
            now = changed.get(finding.cgroup, {}).get(finding.knob)
            if now is not None:
                why = f"it changed while the node was read: {finding.observed}, then {now}"
            elif _is_below(finding.cgroup, gone):
                why = "its cgroup was removed while the node was read"
            elif tree.cut_off and (finding.cgroup not in there or (finding.cgroup, finding.knob) in summed):
                why = "the recording ends in the middle"
            elif tree.cut_off and _is_scope_with_another_below(finding, plan):
                why = "the recording ends in the middle, before the container's own cgroup in this scope"
            elif at_start.get((finding.cgroup, finding.knob)) == finding.observed:
                why = "a kubelet that started less than a minute ago has not updated the QoS cgroups yet"
            elif tree.hugetlb_unknown and _is_huge_page_limit_of_a_container(finding):
                why = "the runtime was not asked whether it passes limits of huge pages on"
            elif moving and (finding.cgroup, finding.knob) in summed:
                why = f"it is computed from what all pods request, and {moving}"
        yield finding.unsure(why) if why else finding


def _is_scope_with_another_below(finding: Finding, plan: Plan) -> bool:
    """Whether a container's file is that of its scope, while its OCI runtime may keep processes in a cgroup below."""
    below = plan.layout.subgroup or not plan.layout.certain
    return bool(below) and finding.subject.level is Level.CONTAINER and finding.cgroup.endswith(".scope")


def _is_huge_page_limit_of_a_container(finding: Finding) -> bool:
    return finding.subject.level is Level.CONTAINER and finding.knob.startswith("hugetlb.")


def summed_files(plan: Plan) -> frozenset[_Key]:
    """(cgroup, file) of the sums over all pods' requests."""
    return frozenset((str(one.path), str(knob)) for one in (plan.node, *plan.qos) for knob in one.summed)


def _is_below(cgroup: str, paths: Collection[str]) -> bool:
    return any(cgroup == path or cgroup.startswith(f"{path}/") for path in paths)


def _moving(tree: RecordedTree, pods: Iterable[Pod]) -> str:
    """Why the sums above pods may be out of date: a pod starts or ends."""
    now = _time(tree.collected_at)
    for pod in pods:
        for one in pod.status.containers.values() if pod.status is not None else ():
            started = _time(one.started)
            if now is not None and started is not None and (now - started).total_seconds() < PERIOD_SECONDS:
                return f"pod {pod.namespace}/{pod.name} has just started"
    if tree.second_look.gone:
        return f"{tree.second_look.gone[0].rpartition('/')[2]} was removed while the node was read"
    if tree.ending:
        return f"the sandbox of pod {tree.ending[0]} has just ended"
    return ""


def _time(text: str) -> datetime | None:
    """The time in an RFC 3339 string; None for another string."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def confirmed(first: Audit, second: Audit, *, after: float) -> Audit:
    """The second look at a node; only a deviation that the first look also has stays one. after: seconds between."""
    before = {_seen(one): one for one in first.of(Verdict.DEVIATES)}
    summed = summed_files(second.plan)

    def judged(finding: Finding) -> Finding:
        if finding.verdict is not Verdict.DEVIATES:
            return finding
        same = before.get(_seen(finding))
        if same is None:
            why = f"only the second of two readings, {after:.0f} s apart, has {finding.observed}: the pod is changing"
        elif same.expected != finding.expected:
            why = f"the expected value changed between two readings: {same.expected}, then {finding.expected}"
        elif (finding.cgroup, finding.knob) in summed and after < PERIOD_SECONDS:
            why = f"{_ONCE_A_MINUTE}, and the two readings were {after:.0f} s apart"
        else:
            return replace(finding, evidence={**finding.evidence, "looks": f"two, {after:.0f} s apart"})
        return finding.unsure(why)

    return replace(second, findings=tuple(map(judged, second.findings)))


def awaits_period(finding: Finding) -> bool:
    """Whether two looks agree on a deviating sum, and only the kubelet's period is not over."""
    return finding.verdict is Verdict.NOT_OBSERVABLE and finding.why_not.startswith(_ONCE_A_MINUTE)


def _seen(finding: Finding) -> tuple[str, str, str, str]:
    return (finding.cgroup, finding.knob, str(finding.subject), finding.observed)


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
