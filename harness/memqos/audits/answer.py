"""What an audit answers: a value, with its text and its JSON."""

from __future__ import annotations

from dataclasses import dataclass

from memqos.audits.question import Question
from memqos.engine.answer.document import FORMAT, finding_document, remark_document
from memqos.engine.answer.explain import failure, one_line
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.succession import LEFT
from memqos.engine.plan import Plan, Remark
from memqos.engine.releases.release import titled
from memqos.errors import ExitCode

__all__ = ["Audit"]


_JUDGED = (Verdict.CONFORMS, Verdict.DEVIATES, Verdict.KNOWN, Verdict.NOT_OBSERVABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The findings about one recorded node, and what was not judged.

    question: what was judged. plan: what was expected; its remarks are the notes. strangers: pods of the tree that were
    not given. elsewhere, ended: how many of the given pods are bound to another node or to none yet, and how many are
    Succeeded or Failed and gone.
    """

    question: Question
    plan: Plan
    findings: tuple[Finding, ...]
    strangers: tuple[str, ...]
    elsewhere: int
    ended: int

    @property
    def notes(self) -> tuple[Remark, ...]:
        """What an engineer should know about the configuration and the node besides the findings."""
        return self.plan.remarks

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many findings have each verdict; 0 where none has."""
        return {verdict: len(self.of(verdict)) for verdict in _JUDGED}

    def of(self, verdict: Verdict) -> tuple[Finding, ...]:
        """The findings with one verdict."""
        return tuple(finding for finding in self.findings if finding.verdict is verdict)

    @property
    def exit_code(self) -> ExitCode:
        """Deviating outweighs conforming, known or not; a tree of which nothing was observed is not judged at all."""
        if self.of(Verdict.DEVIATES):
            return ExitCode.DEVIATES
        observed = self.of(Verdict.CONFORMS) or self.of(Verdict.KNOWN)
        return ExitCode.CONFORMS if observed else ExitCode.NOTHING_OBSERVED

    def text(self) -> str:
        """The answer for people: what deviates and why, what could not be observed, and how many of each."""
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
            parts.append(f"not judged, since they were not given: pods {one_line(', '.join(self.strangers))}")
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
        """The answer as JSON, its findings one by one; docs/reference/recorded-trees.md names its fields."""
        kubelet = self.question.kubelet
        return {
            "memqos_format": FORMAT,
            "tree": self.question.tree.source,
            "release": self.plan.release,
            "driver": self.plan.driver.value,
            "variant": kubelet.variant.value,
            "runtimes": [str(kubelet.runtimes.cri), str(kubelet.runtimes.oci)],
            **({"not_modelled": list(self.plan.not_modelled)} if self.plan.not_modelled else {}),
            "counts": {verdict.value: count for verdict, count in self.counts.items()},
            "findings": [finding_document(one) for one in self.findings],
            "not_judged": list(self.strangers),
            "remarks": [remark_document(one) for one in self.plan.remarks],
        }


def _plural(verdict: Verdict) -> str:
    return {Verdict.CONFORMS: "conform", Verdict.DEVIATES: "deviate"}.get(verdict, verdict.value)


def _pods(count: int) -> str:
    return "1 pod was" if count == 1 else f"{count} pods were"
