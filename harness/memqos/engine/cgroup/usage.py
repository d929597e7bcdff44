"""Containers' memory usage, given or assumed, as the basis of answers, and containers without an answer.

Two kinds of containers have no answer: those of a runtime, or with an annotation, that is not modelled
(`Expected.unmodelled`), and those that share a sandbox (gVisor, Kata Containers), whose processes are not in the
container's own cgroup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.finding import Subject, subject_of
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup, PlannedContainer
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.specification import stand_in
from memqos.engine.translate.versions import SANDBOXED, RuntimeName
from memqos.model.knob import Bytes, Knob
from memqos.model.pod import ContainerKind

__all__ = [
    "ContainerUsage",
    "Unanswered",
    "in_sandbox",
    "knobs_unmodelled",
    "known_usage",
    "unanswered",
    "unanswered_document",
    "unanswered_text",
    "use_of",
    "why_unanswered",
]

ContainerUsage = Mapping[tuple[str, str], int]
"""(pod uid, container name) to the bytes that the container uses."""


def known_usage(plan: Plan, usage: ContainerUsage | None) -> ContainerUsage:
    """The given usage; KeyError names a container that the plan does not have."""
    known = {(pod.uid, one.name) for pod in plan.pods for one in pod.containers}
    for key in usage or ():
        if key not in known:
            raise KeyError("/".join(key))
    return dict(usage or {})


def use_of(one: PlannedContainer, given: int | None) -> tuple[int, str]:
    """A container's usage in bytes, and its source: "given", or "assumed: ..."."""
    if given is not None:
        return given, "given"
    if one.kind is ContainerKind.INIT:
        return 0, "assumed: nothing, since an init container has ended"
    for knob in (Knob.MEMORY_MAX, Knob.MEMORY_MIN, Knob.MEMORY_LOW):
        expected = one.cgroup.knobs.get(knob)
        if expected is not None and isinstance(expected.value, Bytes) and expected.value.count:
            return expected.value.count, f"assumed: all of its {knob}"
    if one.resources.memory_limit_in_bytes > 0:
        # In a sandbox a container's own cgroup does not have the limit; in other such cases it is not modelled.
        return one.resources.memory_limit_in_bytes, "assumed: all of its memory limit"
    return 0, "assumed: nothing, since it has neither limit nor protection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """One container without an answer. path: its pod's cgroup, as in the plan. why: one clause without a full stop."""

    subject: Subject
    path: str
    why: str


def in_sandbox(runtimes: Runtimes) -> str:
    """Why a container's own cgroup does not hold its processes with these runtimes, "" if it does."""
    kata = runtimes.oci.runtime is RuntimeName.KATA
    return stand_in(runtimes)[0] if runtimes.oci.runtime in SANDBOXED and (kata or runtimes.sandboxed) else ""


def knobs_unmodelled(cgroup: PlannedCgroup, knobs: Iterable[Knob]) -> str:
    """Those of these files that are not modelled, with the reason: "memory.high: …"; "" if all are modelled."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for knob in knobs:
        expected = cgroup.knobs.get(knob)
        if expected is not None and expected.unmodelled:
            reasons[expected.unmodelled].append(knob.value)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())


def unanswered(plan: Plan, kubelet: Kubelet, knobs: Sequence[Knob]) -> tuple[Unanswered, ...]:
    """The containers of this kubelet's plan for which these files give no answer, in the plan's order."""
    return tuple(_unanswered(plan, kubelet, knobs))


def _unanswered(plan: Plan, kubelet: Kubelet, knobs: Sequence[Knob]) -> Iterator[Unanswered]:
    for pod in plan.pods:
        sandbox = in_sandbox(pod.runtimes or kubelet.runtimes)
        for one in pod.containers:
            why = "" if one.refusal else why_unanswered(one, sandbox, knobs)
            if why:
                yield Unanswered(subject=subject_of(one.cgroup, pod), path=str(one.cgroup.path), why=why)


def why_unanswered(one: PlannedContainer, sandbox: str, knobs: Sequence[Knob]) -> str:
    """Why there is no answer about a container, "" if there is; sandbox: that of `in_sandbox` for its pod."""
    return sandbox or knobs_unmodelled(one.cgroup, knobs)


def unanswered_document(found: Iterable[Unanswered]) -> list[dict[str, Any]]:
    """As JSON: subject, path and not_modelled, the reason for the missing answer."""
    return [{"subject": str(one.subject), "path": one.path, "not_modelled": one.why} for one in found]


def unanswered_text(found: Iterable[Unanswered]) -> Iterator[str]:
    """As text: the containers grouped by reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for one in found:
        by_reason[one.why].append(str(one.subject))
    for why, subjects in by_reason.items():
        yield ""
        yield from subjects
        yield f"  not modelled: {why}"
