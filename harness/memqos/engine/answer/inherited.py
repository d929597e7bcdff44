"""What a node has from an earlier configuration, or its pods from an earlier size, and what no kubelet sent.

The plan of now is what a node has that is made anew. A pod that has run through a change keeps what nothing writes
again (`engine.answer.succession`, `engine.resize`): such a value conforms, and says where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, subject
from memqos.engine.plan import Expected, Plan, PlannedContainer
from memqos.model.knob import Knob

__all__ = ["LEFT", "Past", "inherited"]

LEFT = "left by"
"""The name under which a finding's evidence says what left its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a node's cgroups hold if its pods ran through a change. name: what the change was."""

    name: str
    plan: Plan


def inherited(findings: Iterable[Finding], pasts: Sequence[Past]) -> Iterator[Finding]:
    """The findings, of which those conform that hold what one of these pasts has left there."""
    known = [(past, dict(_values(past.plan)), dict(_containers(past.plan))) for past in pasts]
    for finding in findings:
        if finding.verdict is Verdict.CONFORMS or not finding.observed:
            yield finding
            continue
        for past, values, containers in known:
            left = (
                _score(finding, containers.get(finding.subject))
                if finding.knob == OOM_SCORE_ADJ
                else _file(finding, values.get((finding.subject, finding.knob)))
            )
            if left is not None:
                yield replace(left, evidence={**finding.evidence, LEFT: past.name})
                break
        else:
            yield finding


def _values(plan: Plan) -> Iterator[tuple[tuple[str, str], Expected]]:
    for cgroup in (*plan.reserved, plan.node, *plan.qos):
        yield from (((subject(cgroup), one.knob.value), one) for one in cgroup.knobs.values())
    for pod in plan.pods:
        for cgroup in (pod.cgroup, *(container.cgroup for container in pod.containers)):
            yield from (((subject(cgroup, pod), one.knob.value), one) for one in cgroup.knobs.values())


def _containers(plan: Plan) -> Iterator[tuple[str, PlannedContainer]]:
    yield from ((subject(one.cgroup, pod), one) for pod in plan.pods for one in pod.containers)


def _file(finding: Finding, expected: Expected | None) -> Finding | None:
    """The finding as conforming, if the file holds this."""
    if expected is None or finding.verdict is not Verdict.DEVIATES:
        return None
    if Knob(finding.knob).parse(finding.observed) != expected.value:
        return None
    return replace(
        finding, verdict=Verdict.CONFORMS, set_by=Setter.KUBELET, expected=str(expected.value), reason=expected.reason
    )


def _score(finding: Finding, container: PlannedContainer | None) -> Finding | None:
    """The finding as conforming, if the container was started with this score."""
    if container is None or finding.observed != str(container.oom_score_adj):
        return None
    return replace(
        finding, verdict=Verdict.CONFORMS, expected=finding.observed, reason=container.oom_score_adj_reason, why_not=""
    )
