"""Values that running pods keep from an earlier configuration or release of the kubelet.

A pod that runs through a change keeps every value that is not written again (here, and in `engine.resize`): such a
value conforms, and the finding names the change.

The kubelet writes the levels above pods when it starts and every minute, a pod's cgroup when it creates it, and a
container's when the container is created. Where the new rules write nothing, the old value stays. Exceptions: 1.37
resets values by writing zeros, and resets memory.high of containers that are recreated or resized.

With the systemd driver the same values are properties of the units, and systemd writes all of a unit's properties of
one controller again whenever one of them is set, or at a daemon-reload. That restores what the kubelet set last, the
value that stays here anyway, so the plan is the same for both drivers. It undoes values written past systemd by other
programs, which are in no plan, and by kubelets up to 1.31 for a resize (`engine.resize`). Sources: KEP-2570, disabling
and rollback; kubelet podContainerManagerImpl.EnsureExists, qosContainerManagerImpl,
containerManagerImpl.enforceNodeAllocatableCgroups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.answer.verdict import OOM_SCORE_ADJ
from memqos.engine.plan import UNEXPLAINED, Expected, Level, Plan, PlannedCgroup, PlannedContainer, PlannedPod, Reason
from memqos.model.knob import ABSENT, Knob

__all__ = ["LEFT", "Past", "inherited", "is_kept", "succession"]

LEFT = "left by"
"""The evidence name for the change that left a finding's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The plan of a node whose pods ran through a change. name: the change."""

    name: str
    plan: Plan


def inherited(findings: Iterable[Finding], pasts: Sequence[Past]) -> Iterator[Finding]:
    """The findings; a value that one of these pasts left conforms."""
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


def _values(plan: Plan) -> Iterator[tuple[tuple[Subject, str], Expected]]:
    for cgroup in (*plan.reserved, plan.node, *plan.qos):
        yield from (((subject_of(cgroup), one.knob.value), one) for one in cgroup.knobs.values())
    for pod in plan.pods:
        for cgroup in (pod.cgroup, *(container.cgroup for container in pod.containers)):
            yield from (((subject_of(cgroup, pod), one.knob.value), one) for one in cgroup.knobs.values())


def _containers(plan: Plan) -> Iterator[tuple[Subject, PlannedContainer]]:
    yield from ((subject_of(one.cgroup, pod), one) for pod in plan.pods for one in pod.containers)


def _file(finding: Finding, expected: Expected | None) -> Finding | None:
    """The finding as conforming, if the file holds this value."""
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


_SOURCE = "KEP-2570, disabling and rollback; kubelet EnsureExists, UpdateCgroups"
_KEPT = {
    Level.NODE: "the kubelet does not overwrite the value that it wrote before",
    Level.QOS: "the kubelet does not overwrite the value that it wrote before",
    Level.RESERVED: "the kubelet does not overwrite the value that it wrote before",
    Level.POD: "the kubelet writes a pod's cgroup when it creates it, and this one already existed",
    Level.CONTAINER: "a container keeps the values it was created with until it is recreated",
}


def is_kept(reason: Reason | None) -> bool:
    """Whether a value was written by an earlier kubelet than the one that runs; None: no rule computes the value."""
    return reason is not None and reason.source == _SOURCE and reason.rule in _KEPT.values()


def succession(before: Plan, after: Plan, *, remade: Collection[tuple[str, str]] = ()) -> Plan:
    """The plan of `after` for pods that were started under `before` and still run.

    remade: (pod uid, container name) of the containers recreated since; their cgroups are planned as in `after`. So is
    a pod that is not in `before` or whose cgroup path changed; a pod that only `before` has is gone. Where a value
    stays, `written` is ABSENT, `value` is the old value, and the reason names the change.
    """
    old = {pod.uid: pod for pod in before.pods}
    above = {(cgroup.level, cgroup.path): cgroup for cgroup in (before.node, *before.qos, *before.reserved)}
    now = {cgroup.path for cgroup in after.reserved}
    found = replace(
        after,
        node=_over(above.get((Level.NODE, after.node.path)), after.node),
        qos=tuple(_over(above.get((Level.QOS, one.path)), one) for one in after.qos),
        reserved=(
            *(_over(above.get((Level.RESERVED, one.path)), one) for one in after.reserved),
            *(_over(one, replace(one, knobs=_nothing(one))) for one in before.reserved if one.path not in now),
        ),
        pods=tuple(_pod(old[pod.uid], pod, remade) if pod.uid in old else pod for pod in after.pods),
    )
    return found if before.cgroup_version is not after.cgroup_version else _with_unnamed(before, found)


def _with_unnamed(before: Plan, after: Plan) -> Plan:
    """The plan with pod values that the new configuration no longer writes: pids.max of podPidsLimit."""
    was = {pod.cgroup.path: pod.cgroup for pod in before.pods}

    def named(pod: PlannedPod) -> PlannedPod:
        old, knobs = was.get(pod.cgroup.path), pod.cgroup.knobs
        gone = {} if old is None else {knob: one for knob, one in old.knobs.items() if knob not in knobs}
        kept = {knob: _kept(pod.cgroup, one, one) for knob, one in gone.items() if one.value != knob.kernel_default}
        return replace(pod, cgroup=replace(pod.cgroup, knobs={**knobs, **kept})) if kept else pod

    return replace(after, pods=tuple(map(named, after.pods)))


def _nothing(cgroup: PlannedCgroup) -> dict[Knob, Expected]:
    """The knobs of a cgroup that the new kubelet does not write."""
    return {
        knob: replace(expected, written=ABSENT, value=knob.kernel_default) for knob, expected in cgroup.knobs.items()
    }


def _over(old: PlannedCgroup | None, new: PlannedCgroup) -> PlannedCgroup:
    """A cgroup whose old values are overwritten."""
    if old is None:
        return new
    kept = {knob: _kept(old, old.knobs[knob], one) for knob, one in new.knobs.items() if _stays(old.knobs, one)}
    return replace(new, knobs={**new.knobs, **kept})


def _stays(old: Mapping[Knob, Expected], new: Expected) -> bool:
    return new.written is ABSENT and new.knob in old and old[new.knob].value != new.value


def _untouched(old: PlannedCgroup, new: PlannedCgroup) -> PlannedCgroup:
    """A cgroup that is not written again."""
    kept = {
        knob: _kept(old, old.knobs[knob], one)
        for knob, one in new.knobs.items()
        if knob in old.knobs and old.knobs[knob].value != one.value
    }
    return replace(new, knobs={**new.knobs, **kept})


def _kept(cgroup: PlannedCgroup, old: Expected, new: Expected) -> Expected:
    if new.reason is UNEXPLAINED:
        return replace(old, written=ABSENT)
    reason = Reason(rule=_KEPT[cgroup.level], revision=new.reason.revision, source=_SOURCE, because=(old.reason,))
    return replace(old, written=ABSENT, reason=reason)


def _pod(old: PlannedPod, new: PlannedPod, remade: Collection[tuple[str, str]]) -> PlannedPod:
    if old.cgroup.path != new.cgroup.path:
        return new
    was = {container.name: container for container in old.containers}
    return replace(
        new,
        cgroup=_untouched(old.cgroup, new.cgroup),
        containers=tuple(
            one if (new.uid, one.name) in remade else _container(was[one.name], one) for one in new.containers
        ),
    )


def _container(old: PlannedContainer, new: PlannedContainer) -> PlannedContainer:
    return replace(
        new,
        resources=old.resources,
        cgroup=_untouched(old.cgroup, new.cgroup),
        oom_score_adj=old.oom_score_adj,
        explain_oom_score_adj=old.explain_oom_score_adj,
    )
