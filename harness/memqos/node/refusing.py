"""What a request that the runtime takes or refuses says of it, as findings with the knob `create` or `update`."""

from __future__ import annotations

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.setter import Setter
from memqos.engine.translate.requested import RequestedContainer
from memqos.errors import RuntimeCallError

__all__ = ["refused_finding", "request_finding"]


def refused_finding(
    error: RuntimeCallError, container: RequestedContainer, *, subject: str, update: bool, why: str = ""
) -> Finding:
    """What a refusal is: right where it has to be, a deviation where the request is one to take.

    container: with the request that was refused. why: what makes it one to refuse beside the runtime's own rules.
    """
    must = why or container.refusal
    verdict = Verdict.CONFORMS if must else Verdict.NOT_OBSERVABLE if container.in_doubt else Verdict.DEVIATES
    unsure = "versions of the runtime differ here, and which one this is is not known"
    return request_finding(
        verdict,
        subject=subject,
        update=update,
        expected=f"refused: {must}" if must else "taken",
        observed=f"refused: {error.data.get('details') or error}",
        why_not=unsure if verdict is Verdict.NOT_OBSERVABLE else "",
    )


def request_finding(
    verdict: Verdict, *, subject: str, update: bool, expected: str, observed: str, why_not: str = ""
) -> Finding:
    """What became of a request."""
    return Finding(
        verdict=verdict,
        subject=subject,
        cgroup="",
        knob="update" if update else "create",
        set_by=Setter.RUNTIME,
        expected=expected,
        observed=observed,
        why_not=why_not,
    )
