"""The changes that another release or configuration makes on a recorded node, and their effect at current usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memqos.audits.answer import Audit
from memqos.audits.node_state import NodeState, Threshold, node_state
from memqos.engine.answer.difference import Difference, differences
from memqos.engine.answer.explain import one_line, size
from memqos.engine.cgroup.effective_protection import Effective, Protected, effective
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.resize.takeover import taken_over
from memqos.model.knob import MAX, Bytes, Knob, Max
from memqos.model.path import ROOT, CgroupPath

__all__ = ["Change", "WhatIf", "what_if", "what_if_document", "what_if_text"]

_OF_MESSAGES = "cri "
_PROTECTING = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A changed value. at_once: whether running pods get it, or only recreated pods.

    effect: the effect at the current usage, "" if unknown.
    """

    difference: Difference
    at_once: bool
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """name: the alternative. changes: in the order of the tree.

    protected: bytes of pods' usage that are protected when the node runs short of memory, before and after the change.
    """

    name: str
    changes: tuple[Change, ...]
    protected: tuple[int, int]


def what_if(audit: Audit, other: Kubelet, *, name: str) -> WhatIf:
    """The changes if this kubelet ran the node's pods. name: the alternative's name."""
    state = node_state(audit)
    before, after = expect(audit.present, audit.question.kubelet), expect(audit.present, other)
    kept = taken_over(before, after, audit.present, other, earlier=[audit.question.kubelet])
    at_once = {(one.subject, one.what, one.after) for one in differences(before, kept)}
    uses = {one.cgroup: one for one in state.thresholds}
    by_subject = {one.subject: one for one in uses.values()}
    changes = (
        Change(
            difference=one,
            at_once=(one.subject, one.what, one.after) in at_once,
            effect=_effect(one, by_subject.get(one.subject)),
        )
        for one in differences(before, after)
        if not one.what.startswith(_OF_MESSAGES)
    )
    return WhatIf(
        name=name,
        changes=tuple(changes),
        protected=(_protected(audit, before, state), _protected(audit, after, state)),
    )


def _effect(change: Difference, now: Threshold | None) -> str:
    """The effect of a value on a container at its current usage."""
    if now is None or now.usage is None or not change.after.isdigit():
        return ""
    amount = int(change.after)
    if change.what == Knob.MEMORY_HIGH and now.usage > amount:
        return f"it uses {_shown(now.usage)} now, {_shown(now.usage - amount)} above: it would be throttled"
    if change.what == Knob.MEMORY_HIGH:
        return f"it uses {_shown(now.usage)} now, {_shown(amount - now.usage)} below"
    if change.what == Knob.MEMORY_MAX and now.usage > amount:
        return f"it uses {_shown(now.usage)} now: more than the new limit"
    return ""


def _protected(audit: Audit, plan: Plan, state: NodeState) -> int:
    """Bytes of the pods' usage that this plan protects when the node runs short of memory."""
    cgroups = audit.question.tree.reading.cgroups
    tree: dict[CgroupPath, Protected] = {}
    asked = dict(_asked(audit, plan))
    for path in sorted(cgroups):
        text = cgroups[path].files.get("memory.current")
        usage = int(text) if isinstance(text, str) and text.strip().isdigit() else None
        if path == ROOT or usage is None or (path.parent != ROOT and path.parent not in tree):
            continue
        least, low = asked.get(path, (Bytes(0), Bytes(0)))
        tree[path] = Protected(usage=usage, min=least, low=low)
    found = effective(tree, recursive=state.recursive is not False, page_size=audit.question.kubelet.node.page_size)
    return sum(_covered(found[path]) for path in (pod.cgroup.path for pod in plan.pods) if path in found)


def _covered(one: Effective) -> int:
    return one.hard + one.soft


def _asked(audit: Audit, plan: Plan) -> Iterator[tuple[CgroupPath, tuple[Bytes | Max, Bytes | Max]]]:
    """The requested protection of each planned cgroup, by its recorded path."""
    cgroups = audit.question.tree.reading.cgroups

    def amounts(knobs: Mapping[Knob, Any]) -> tuple[Bytes | Max, Bytes | Max]:
        values = [knobs[knob].value if knob in knobs else Bytes(0) for knob in _PROTECTING]
        least, low = (one if isinstance(one, Bytes) or one is MAX else Bytes(0) for one in values)
        return least, low

    for above in (plan.node, *plan.qos):
        yield above.path, amounts(above.knobs)
    for pod in plan.pods:
        yield pod.cgroup.path, amounts(pod.cgroup.knobs)
        for one in pod.containers:
            id_ = audit.ids.get((pod.uid, one.name))
            if id_ is not None:
                yield plan.layout_of(pod).found(pod.cgroup.path, id_, cgroups), amounts(one.cgroup.knobs)


def what_if_text(found: WhatIf) -> str:
    """The text: by subject, each value before and after the change."""
    if not found.changes:
        return f"{found.name}: nothing changes on this node"
    pods = {one.difference.subject.pod for one in found.changes if one.difference.subject.pod}
    values = "1 value changes" if len(found.changes) == 1 else f"{len(found.changes)} values change"
    lines = [f"{found.name}: {values}, of {len(pods)} pod{'s' if len(pods) != 1 else ''}"]
    last = None
    for one in found.changes:
        if one.difference.subject != last:
            lines += ["", str(one.difference.subject)]
            last = one.difference.subject
        when = "" if one.at_once else " (when the pod is made again)"
        lines.append(f"  {one.difference.what}: {_text(one.difference.before)} -> {_text(one.difference.after)}{when}")
        if one.effect:
            lines.append(f"    {one.effect}")
    now, then = found.protected
    lines += [
        "",
        f"protected part of the pods' usage: {_shown(now)} -> {_shown(then)}, when the node runs short of memory",
    ]
    return "\n".join(lines)


def _text(value: str) -> str:
    return f"{value} ({shown})" if value.isdigit() and (shown := size(Bytes(int(value)))) else one_line(value)


def _shown(amount: int) -> str:
    return size(Bytes(amount)) or f"{amount} bytes"


def what_if_document(found: WhatIf) -> dict[str, Any]:
    """The changes as JSON."""
    return {
        "name": found.name,
        "changes": [
            {
                "subject": str(one.difference.subject),
                "what": one.difference.what,
                "before": one.difference.before,
                "after": one.difference.after,
                "at_once": one.at_once,
                "effect": one.effect,
            }
            for one in found.changes
        ],
        "protected_now": found.protected[0],
        "protected_then": found.protected[1],
    }
