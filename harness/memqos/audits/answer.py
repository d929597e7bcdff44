"""The result of an audit, with its text and its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from memqos.audits.question import Question
from memqos.engine.answer.document import FORMAT, finding_document, remark_document
from memqos.engine.answer.explain import failure, one_line
from memqos.engine.answer.finding import Finding, Verdict, subject_of
from memqos.engine.answer.succession import LEFT
from memqos.engine.plan import Plan, Remark
from memqos.engine.releases.release import titled
from memqos.errors import ExitCode
from memqos.model.pod import ContainerKind, Pod

__all__ = ["Audit", "State", "state_of"]


class State(StrEnum):
    """The states of kubernetes#141286: whether the requested values are in force."""

    FULFILLED = "FULFILLED"
    DRIFTED = "DRIFTED"
    INSUFFICIENT_EVIDENCE = "INSUFFICIENT_EVIDENCE"


_MEMORY = frozenset({"memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max", "admission"})
"""Without these files there is not enough evidence about a pod."""


def state_of(findings: Iterable[Finding]) -> State:
    """The state for several findings: drift has precedence, and the other states need every memory file observed."""
    given = tuple(findings)
    if any(one.verdict in {Verdict.DEVIATES, Verdict.KNOWN} for one in given):
        return State.DRIFTED
    unseen = any(one.verdict is Verdict.NOT_OBSERVABLE and one.knob in _MEMORY for one in given)
    seen = any(one.verdict is Verdict.CONFORMS for one in given)
    return State.FULFILLED if seen and not unseen else State.INSUFFICIENT_EVIDENCE


_JUDGED = (Verdict.CONFORMS, Verdict.DEVIATES, Verdict.KNOWN, Verdict.NOT_OBSERVABLE)


def _undescribed(audit: Audit) -> dict[str, Any]:  # noqa: ARG001 - nothing is known of it
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The findings about one recorded node, and the pods that were not judged.

    question: the audited recording and options. plan: the expected values; its remarks are the notes. strangers: pods
    in the tree that were not given. elsewhere, ended: how many given pods are bound to another node or to none yet, and
    how many are Succeeded or Failed and gone. ids: (pod uid, container name) to the runtime's id, of the containers in
    the tree. present: the planned pods. describe: the current state of memory QoS on the node, as JSON.
    """

    question: Question
    plan: Plan
    findings: tuple[Finding, ...]
    strangers: tuple[str, ...]
    elsewhere: int
    ended: int
    ids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    present: tuple[Pod, ...] = ()
    describe: Callable[[Audit], dict[str, Any]] = field(default=_undescribed, compare=False, repr=False)

    @property
    def notes(self) -> tuple[Remark, ...]:
        """Notes about the configuration and the node."""
        return self.plan.remarks

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of findings by verdict, including 0."""
        return {verdict: len(self.of(verdict)) for verdict in _JUDGED}

    def of(self, verdict: Verdict) -> tuple[Finding, ...]:
        """The findings with one verdict."""
        return tuple(finding for finding in self.findings if finding.verdict is verdict)

    @property
    def state(self) -> State:
        """The state of the node as a whole."""
        return state_of(self._of_what_runs)

    @property
    def _of_what_runs(self) -> tuple[Finding, ...]:
        """The findings without those about init containers that have ended, whose cgroups no longer exist."""
        init = {
            subject_of(one.cgroup, pod)
            for pod in self.plan.pods
            for one in pod.containers
            if one.kind is ContainerKind.INIT
        }
        return tuple(
            one for one in self.findings if one.verdict is not Verdict.NOT_OBSERVABLE or one.subject not in init
        )

    @property
    def pods(self) -> Mapping[str, State]:
        """The audited pods by "namespace/name"."""
        found: dict[str, list[Finding]] = {}
        for one in self._of_what_runs:
            if one.subject.pod:
                found.setdefault(one.subject.pod, []).append(one)
        return {name: state_of(own) for name, own in found.items()}

    @property
    def exit_code(self) -> ExitCode:
        """The exit code: 1 for any deviation; a tree without any observed value is not judged."""
        if self.of(Verdict.DEVIATES):
            return ExitCode.DEVIATES
        if self.question.tree.cut_off:
            return ExitCode.MACHINERY
        observed = self.of(Verdict.CONFORMS) or self.of(Verdict.KNOWN)
        return ExitCode.CONFORMS if observed else ExitCode.NOTHING_OBSERVED

    def text(self) -> str:
        """The result as text: deviations with reasons, values that were not observable, and counts."""
        parts = [failure(finding) for finding in (*self.of(Verdict.DEVIATES), *self.of(Verdict.KNOWN))]
        parts += [
            one_line(f"{one.evidence[LEFT]}: left {one.knob} {one.observed} of {one.subject}")
            for one in self.of(Verdict.CONFORMS)
            if LEFT in one.evidence
        ]
        unseen: dict[tuple[str, str], list[str]] = {}
        for finding in self.of(Verdict.NOT_OBSERVABLE):
            unseen.setdefault((str(finding.subject), finding.why_not), []).append(finding.knob)
        parts += [
            one_line(f"not observable: {', '.join(knobs)} of {name}: {why}") for (name, why), knobs in unseen.items()
        ]
        if self.strangers:
            parts.append(f"not judged, since no manifest was given: pods {one_line(', '.join(self.strangers))}")
        if self.elsewhere:
            parts.append(f"{_pods(self.elsewhere)} given that no scheduler bound to this node: not looked for")
        if self.ended:
            parts.append(f"{_pods(self.ended)} given whose phase is Succeeded or Failed: not looked for")
        runtimes = self.question.kubelet.runtimes
        unknown = [str(one) for one in (runtimes.cri, runtimes.oci) if not one.version and one.in_doubt]
        if unknown:
            parts.append(
                f"assumed to run on {' and '.join(unknown)}: what differs between versions is not judged; "
                "--runtime names them"
            )
        counts = ", ".join(
            f"{len(self.of(verdict))} {_plural(verdict)}"
            for verdict in _JUDGED
            if verdict is not Verdict.KNOWN or self.of(verdict)
        )
        parts.append(f"{self.question.tree.source}: Kubernetes {titled(self.plan.release)}: {counts}")
        return "\n\n".join(parts)

    def document(self) -> dict[str, object]:
        """The result as JSON with all findings; docs/reference/recorded-trees.md describes its fields."""
        kubelet = self.question.kubelet
        return {
            "memqos_format": FORMAT,
            "tree": self.question.tree.source,
            "release": self.plan.release,
            "driver": self.plan.driver.value,
            "variant": kubelet.variant.value,
            "runtimes": [str(kubelet.runtimes.cri), str(kubelet.runtimes.oci)],
            **({"not_modelled": list(self.plan.not_modelled)} if self.plan.not_modelled else {}),
            "state": self.state.value,
            "pods": [{"pod": name, "state": state.value} for name, state in self.pods.items()],
            "counts": {verdict.value: count for verdict, count in self.counts.items()},
            "findings": [finding_document(one) for one in self.findings],
            "not_judged": list(self.strangers),
            "node": self.describe(self),
            "remarks": [remark_document(one) for one in self.plan.remarks],
        }


def _plural(verdict: Verdict) -> str:
    return {Verdict.CONFORMS: "conform", Verdict.DEVIATES: "deviate"}.get(verdict, verdict.value)


def _pods(count: int) -> str:
    return "1 pod was" if count == 1 else f"{count} pods were"
