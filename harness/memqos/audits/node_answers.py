"""The state of a node as text for operators, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memqos.audits.answer import Audit
from memqos.audits.node_state import InForce, NodeState, Threshold, Worth, least_free, node_state
from memqos.engine.answer.explain import one_line, size
from memqos.model.knob import MAX, Bytes, Max

__all__ = ["described", "state_document", "state_text"]

_MOST = 8
"""The most lines of a list in the text; the JSON has all."""


def state_text(state: NodeState, *, kills: bool = False) -> str:
    """The state for operators. kills: whether to include the kernel's order of OOM kills."""
    parts = ["\n".join(_memory_qos(state)), "\n".join(_protection(state)), "\n".join(_throttling(state))]
    parts += ["\n".join(_stalls(state)), "\n".join(_swap_and_numa(state))]
    parts += ["\n".join(_kills(state))] if kills else []
    parts += [f"besides the kernel, this kills processes: {one_line(one)}" for one in state.killers]
    return "\n\n".join(part for part in parts if part)


def _memory_qos(state: NodeState) -> Iterator[str]:
    one = state.in_force
    yield f"MemoryQoS: {one.force}: {one.why}"
    if one.on:
        yield f"  memoryReservationPolicy {one.policy}; memoryThrottlingFactor {one.factor or 'not set'}"


def _protection(state: NodeState) -> Iterator[str]:
    claiming = [one for one in state.worth if _claims(one)]
    if not claiming:
        return
    how = {True: "with", False: "without", None: "as if with (its mount options were not read)"}[state.recursive]
    yield f"Protection when the node runs short of memory, cgroup2 {how} memory_recursiveprot:"
    short = [one for one in claiming if _covered(one) < min(_claimed(one), one.configured.usage)]
    whole = len(claiming) - len(short)
    yield f"  {whole} of {len(claiming)} cgroups with requested protection are protected up to their request or usage"
    for one in short[:_MOST]:
        yield (
            f"  {one.subject}: requests {_shown(_claimed(one))}, uses {_shown(one.configured.usage)}, "
            f"{_shown(_covered(one))} is protected"
        )
    yield from _more(len(short) - _MOST)
    if state.left_out:
        yield f"  {state.left_out} cgroups are left out: their usage, or that of an ancestor, was not read"


def _claims(one: Worth) -> bool:
    return _claimed(one) > 0


def _claimed(one: Worth) -> int:
    return max(_bytes(one.configured.min, one.configured.usage), _bytes(one.configured.low, one.configured.usage))


def _bytes(amount: Bytes | Max, usage: int) -> int:
    return usage if amount is MAX else amount.count


def _covered(one: Worth) -> int:
    return one.counts.hard + one.counts.soft


def _throttling(state: NodeState) -> Iterator[str]:
    near = least_free(state.thresholds)
    if not near:
        return
    yield f"memory.high: {len(near)} of {len(state.thresholds)} containers have one; nearest to it:"
    for one in near[:_MOST]:
        room = (one.high or 0) - (one.usage or 0)
        where = f"{_shown(room)} below" if room >= 0 else f"{_shown(-room)} above"
        by = "" if one.own == one.high else f" (of {one.by})"
        yield f"  {one.subject}: uses {_shown(one.usage)}, {where} {_shown(one.high)}{by}; {_slows(one)}"
    yield from _more(len(near) - _MOST)


def _slows(one: Threshold) -> str:
    if one.limit is not None and one.stalls is not None and one.stalls > one.limit:
        return f"sleeps from {_shown(one.sleeps)} on, killed at {_shown(one.limit)}"
    return f"sleeps from {_shown(one.sleeps)} on, stalls at {_shown(one.stalls)}"


def _stalls(state: NodeState) -> Iterator[str]:
    if state.stalls:
        yield "Held up now:"
    for one in state.stalls[:_MOST]:
        yield f"  {one.subject} {one.kind}: {one.evidence}"
    yield from _more(len(state.stalls) - _MOST)


def _swap_and_numa(state: NodeState) -> Iterator[str]:
    limits = [one.limit for one in state.swap if one.limit is not None]
    used = sum(one.used for one in state.swap)
    if state.swap_total or state.swap:
        unlimited = sum(one.limit is None for one in state.swap)
        yield (
            f"Swap: {_shown(state.swap_total)} on the node, {_shown(sum(limits))} granted to {len(limits)} containers, "
            f"{unlimited} containers without a limit, {_shown(used)} used by pods"
        )
    if state.bound:
        yield f"NUMA: {len(state.bound)} of the containers are bound to NUMA nodes:"
    for name, mems in list(state.bound.items())[:_MOST]:
        yield f"  {name}: {one_line(mems)}"


def _kills(state: NodeState) -> Iterator[str]:
    if not state.kills:
        return
    yield "When the machine runs out of memory, the kernel kills in this order (a container counts as one process):"
    for number, one in enumerate(state.kills[:_MOST], 1):
        kind = "host: " if one.daemon else ""
        yield f"  {number}. {kind}{one_line(one.name)}: {_shown(one.bytes)}, oom_score_adj {one.oom_score_adj}"
    yield from _more(len(state.kills) - _MOST)


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"  and {count} more (--json has them)"


def _shown(amount: int | None) -> str:
    return "?" if amount is None else size(Bytes(amount)) or f"{amount} bytes"


def described(audit: Audit) -> dict[str, Any]:
    """The state of an audited node as JSON."""
    return state_document(audit, node_state(audit))


def state_document(audit: Audit, state: NodeState) -> dict[str, Any]:
    """The state as JSON; amounts in bytes, null for no limit and for unread values."""
    return {
        "memory_qos": _force_document(state.in_force),
        "recursive": state.recursive,
        "protection": [_worth_document(one) for one in state.worth],
        "containers": [
            {
                "pod": one.subject.pod,
                "container": one.subject.container,
                "uid": one.uid,
                "cgroup": one.cgroup,
                "usage": one.usage,
                "memory_high": one.own,
                "effective_memory_high": one.high,
                "effective_by": one.by,
                "sleeps_from": one.sleeps,
                "stalls_at": one.stalls,
                "effective_memory_max": one.limit,
            }
            for one in state.thresholds
        ],
        "stalls": [
            {"subject": str(one.subject), "cgroup": one.cgroup, "kind": one.kind, "evidence": one.evidence}
            for one in state.stalls
        ],
        "swap": {
            "total": state.swap_total,
            "containers": [{"subject": str(one.subject), "limit": one.limit, "used": one.used} for one in state.swap],
        },
        "numa": {"nodes": dict(state.numa), "bound": dict(state.bound)},
        "kills": [
            {
                "name": one.name,
                "bytes": one.bytes,
                "oom_score_adj": one.oom_score_adj,
                "badness": one.badness,
                "daemon": one.daemon,
                "assumed": one.assumed,
            }
            for one in state.kills
        ],
        "killers": list(state.killers),
        "collected_at": audit.question.tree.collected_at,
    }


def _force_document(force: InForce) -> dict[str, Any]:
    return {
        "on": force.on,
        "force": force.force.value,
        "why": force.why,
        "policy": force.policy,
        "factor": force.factor,
    }


def _worth_document(one: Worth) -> dict[str, Any]:
    return {
        "subject": str(one.subject),
        "cgroup": one.cgroup,
        "usage": one.configured.usage,
        "memory_min": str(one.configured.min),
        "memory_low": str(one.configured.low),
        "effective_min": str(one.counts.min),
        "effective_low": str(one.counts.low),
        "protected": one.counts.hard + one.counts.soft,
        "exposed": one.counts.exposed,
    }
