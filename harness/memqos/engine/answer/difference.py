"""Differences between two plans for the same pods, by knob, message and pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.document import reason_document
from memqos.engine.answer.finding import Subject, subject_of
from memqos.engine.plan import Expected, Level, Plan, PlannedCgroup, PlannedPod, Reason
from memqos.engine.translate.explain import cri_document
from memqos.model.knob import ABSENT

__all__ = ["Difference", "differences", "differences_document", "differences_text"]

NOTHING = "nothing"
"""Stands for a cgroup, field or pod that only the other plan has."""

_Key = tuple[Level, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference.

    subject: the pod, container or cgroup. what: an interface file, "qos class", "admission", "creation",
    "oom_score_adj", or a field of a message ("cri cpu_shares").
    before, after: as text; an unwritten file reads "not written (max)". A reason is None where nothing is planned.
    """

    subject: Subject
    what: str
    before: str
    after: str
    reason_before: Reason | None = None
    reason_after: Reason | None = None


def differences(before: Plan, after: Plan) -> tuple[Difference, ...]:
    """Every change in the order of the second plan, then subjects of the first plan alone.

    A pod keeps its identity (uid) when its QoS class changes, and with it the place of its cgroup.
    """
    return (*_cgroups(before, after), *_pods(before, after))


def differences_text(changes: tuple[Difference, ...], before: str, after: str) -> str:
    """Changes as text, by subject; `before` and `after` name the two sides."""
    if not changes:
        return f"{before} -> {after}: nothing changes"
    lines = [f"{before} -> {after}: {len(changes)} changes"]
    last = None
    for change in changes:
        if change.subject != last:
            lines += ["", str(change.subject)]
            last = change.subject
        lines.append(f"  {change.what}: {change.before} -> {change.after}")
        for name, reason in (("before", change.reason_before), ("after ", change.reason_after)):
            if reason is not None and reason.rule:
                revision = f" [{reason.revision}]" if reason.revision else ""
                lines.append(f"    {name} {reason.rule}{revision}")
    return "\n".join(lines)


def differences_document(changes: tuple[Difference, ...], before: str, after: str) -> dict[str, Any]:
    """Changes as JSON: memqos_format (1), before, after, changes (each with both values and their reasons)."""
    return {
        "memqos_format": 1,
        "before": before,
        "after": after,
        "changes": [
            {
                "subject": str(one.subject),
                "what": one.what,
                "before": one.before,
                "after": one.after,
                "reason_before": reason_document(one.reason_before) if one.reason_before else None,
                "reason_after": reason_document(one.reason_after) if one.reason_after else None,
            }
            for one in changes
        ],
    }


def _by_key(plan: Plan) -> dict[_Key, tuple[Subject, PlannedCgroup]]:
    pods = {pod.uid: pod for pod in plan.pods}
    found = {}
    for cgroup in plan.cgroups():
        # The paths of the levels above pods are fixed; a pod's path follows its QoS class.
        place = "" if cgroup.pod else str(cgroup.path)
        found[cgroup.level, place, cgroup.pod, cgroup.container] = (subject_of(cgroup, pods.get(cgroup.pod)), cgroup)
    return found


def _cgroups(before: Plan, after: Plan) -> Iterator[Difference]:
    old, new = _by_key(before), _by_key(after)
    for key in (*new, *(key for key in old if key not in new)):
        name = (new.get(key) or old[key])[0]
        was = old[key][1].knobs if key in old else {}
        now = new[key][1].knobs if key in new else {}
        for knob in (*now, *(knob for knob in was if knob not in now)):
            one, other = was.get(knob), now.get(knob)
            if _text(one) != _text(other):
                yield Difference(
                    subject=name,
                    what=knob.value,
                    before=_text(one),
                    after=_text(other),
                    reason_before=one.reason if one else None,
                    reason_after=other.reason if other else None,
                )


def _text(expected: Expected | None) -> str:
    if expected is None:
        return NOTHING
    if expected.written is ABSENT:
        return f"not written ({expected.value})"
    return expected.shown if expected.undecided else str(expected.written)


def _pods(before: Plan, after: Plan) -> Iterator[Difference]:
    old, new = {pod.uid: pod for pod in before.pods}, {pod.uid: pod for pod in after.pods}
    refused = [{one.pod: one for one in plan.refusals} for plan in (before, after)]
    for uid in (*new, *(uid for uid in old if uid not in new)):
        pod = new.get(uid) or old[uid]
        name = Subject.of_pod(pod.namespace, pod.name)
        if uid in old and uid in new:
            yield from _pod(name, old[uid], new[uid])
            continue
        reasons = [side[uid].reason if uid in side else None for side in refused]
        texts = [
            "admitted" if uid in plan else f"refused: {side[uid].reason_name}" if uid in side else NOTHING
            for plan, side in zip((old, new), refused, strict=True)
        ]
        yield Difference(
            subject=name, what="admission", before=texts[0], after=texts[1],
            reason_before=reasons[0], reason_after=reasons[1],
        )  # fmt: skip


def _pod(name: Subject, old: PlannedPod, new: PlannedPod) -> Iterator[Difference]:
    if old.qos is not new.qos:
        yield Difference(
            subject=name, what="qos class", before=old.qos.value, after=new.qos.value,
            reason_before=old.qos_reason, reason_after=new.qos_reason,
        )  # fmt: skip
    was = {container.name: container for container in old.containers}
    for container in new.containers:
        one = was[container.name]
        own = subject_of(container.cgroup, new)
        if one.oom_score_adj != container.oom_score_adj:
            yield Difference(
                subject=own, what="oom_score_adj", before=str(one.oom_score_adj), after=str(container.oom_score_adj),
                reason_before=one.oom_score_adj_reason, reason_after=container.oom_score_adj_reason,
            )  # fmt: skip
        if one.refusal != container.refusal:
            texts = [f"refused: {side.refusal}" if side.refusal else "made" for side in (one, container)]
            yield Difference(subject=own, what="creation", before=texts[0], after=texts[1])
        yield from _messages(own, "cri", cri_document(one.resources), cri_document(container.resources))
    for what in ("sandbox_resources", "sandbox_overhead"):
        sides = (cri_document(getattr(old, what)), cri_document(getattr(new, what)))
        yield from _messages(name, what.replace("_", " "), *sides)


def _messages(name: Subject, kind: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """The fields that differ, those of `unified` one by one; oom_score_adj has its own line already."""
    flat = [
        {key: value for key, value in side.items() if key not in {"unified", "oom_score_adj"}}
        | {f"unified {key}": value for key, value in side.get("unified", {}).items()}
        for side in (was, now)
    ]
    for key in (*flat[1], *(key for key in flat[0] if key not in flat[1])):
        texts = [str(side[key]) if key in side else NOTHING for side in flat]
        if texts[0] != texts[1]:
            yield Difference(subject=name, what=f"{kind} {key}", before=texts[0], after=texts[1])
