"""What `memqos audit` answers, as text and as JSON."""

from __future__ import annotations

from memqos.cli.auditing import Audit, Question
from memqos.engine.answer.document import FORMAT, finding_document, remark_document
from memqos.engine.answer.explain import failure, one_line
from memqos.engine.answer.finding import Verdict
from memqos.engine.answer.succession import LEFT
from memqos.engine.releases.release import titled

__all__ = ["answer_document", "answer_text"]


_JUDGED = (Verdict.CONFORMS, Verdict.DEVIATES, Verdict.KNOWN, Verdict.NOT_OBSERVABLE)


def answer_text(question: Question, answer: Audit) -> str:
    """The answer for people: what deviates and why, what could not be observed, and how many of each."""
    parts = [failure(finding) for finding in (*answer.of(Verdict.DEVIATES), *answer.of(Verdict.KNOWN))]
    parts += [
        one_line(f"{one.evidence[LEFT]}: left {one.knob} {one.observed} of {one.subject}")
        for one in answer.of(Verdict.CONFORMS)
        if LEFT in one.evidence
    ]
    unseen: dict[tuple[str, str], list[str]] = {}
    for finding in answer.of(Verdict.NOT_OBSERVABLE):
        unseen.setdefault((finding.subject, finding.why_not), []).append(finding.knob)
    parts += [one_line(f"not observable: {', '.join(knobs)} of {name}: {why}") for (name, why), knobs in unseen.items()]
    if answer.strangers:
        parts.append(f"not judged, since they were not given: pods {one_line(', '.join(answer.strangers))}")
    if answer.elsewhere:
        parts.append(f"{_pods(answer.elsewhere)} given that no scheduler bound to this node: not looked for")
    if answer.ended:
        parts.append(f"{_pods(answer.ended)} given whose phase is Succeeded or Failed: not looked for")
    runtimes = question.kubelet.runtimes
    unknown = [str(one) for one in (runtimes.cri, runtimes.oci) if not one.version and one.in_doubt]
    if unknown:
        parts.append(
            f"taken to run on {' and '.join(unknown)}: what versions do differently is not judged; --runtime names them"
        )
    counts = ", ".join(
        f"{len(answer.of(verdict))} {_plural(verdict)}"
        for verdict in _JUDGED
        if verdict is not Verdict.KNOWN or answer.of(verdict)
    )
    parts.append(f"{question.tree.source}: Kubernetes {titled(answer.plan.release)}: {counts}")
    return "\n\n".join(parts)


def _plural(verdict: Verdict) -> str:
    return {Verdict.CONFORMS: "conform", Verdict.DEVIATES: "deviate"}.get(verdict, verdict.value)


def answer_document(question: Question, answer: Audit) -> dict[str, object]:
    """The answer as JSON, its findings one by one; docs/reference/recorded-trees.md names its fields."""
    kubelet = question.kubelet
    return {
        "memqos_format": FORMAT,
        "tree": question.tree.source,
        "release": answer.plan.release,
        "driver": answer.plan.driver.value,
        "variant": kubelet.variant.value,
        "runtimes": [str(kubelet.runtimes.cri), str(kubelet.runtimes.oci)],
        **({"not_modelled": list(answer.plan.not_modelled)} if answer.plan.not_modelled else {}),
        "counts": {verdict.value: len(answer.of(verdict)) for verdict in _JUDGED},
        "findings": (finding_document(one) for one in answer.findings),
        "not_judged": list(answer.strangers),
        "remarks": [remark_document(one) for one in answer.plan.remarks],
    }


def _pods(count: int) -> str:
    return "1 pod was" if count == 1 else f"{count} pods were"
