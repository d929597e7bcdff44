"""Compares two looks at a node: only a difference in both, with the same values, is a deviation.

A kubelet and a runtime write a cgroup's files one after another, and the sums above pods up to a minute after a pod is
gone. So a value that changes between two looks is not evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from memqos.audits.answer import Audit
from memqos.catalog.recorded_trees import RecordedTree
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroups import kubepods_hugetlb_at_start
from memqos.engine.plan import Level, Plan
from memqos.model.pod import Pod

__all__ = ["PERIOD_SECONDS", "awaits_period", "confirmed", "still", "summed_files"]

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
            elif at_start.get((finding.cgroup, finding.knob)) == finding.observed:
                why = "a kubelet that started less than a minute ago has not updated the QoS cgroups yet"
            elif tree.hugetlb_unknown and _is_huge_page_limit_of_a_container(finding):
                why = "the runtime was not asked whether it passes limits of huge pages on"
            elif moving and (finding.cgroup, finding.knob) in summed:
                why = f"it is computed from what all pods request, and {moving}"
        yield replace(finding, verdict=Verdict.NOT_OBSERVABLE, why_not=why) if why else finding


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
        return replace(finding, verdict=Verdict.NOT_OBSERVABLE, why_not=why)

    return replace(second, findings=tuple(map(judged, second.findings)))


def awaits_period(finding: Finding) -> bool:
    """Whether two looks agree on a deviating sum, and only the kubelet's period is not over."""
    return finding.verdict is Verdict.NOT_OBSERVABLE and finding.why_not.startswith(_ONCE_A_MINUTE)


def _seen(finding: Finding) -> tuple[str, str, str, str]:
    return (finding.cgroup, finding.knob, str(finding.subject), finding.observed)
