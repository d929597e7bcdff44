"""Findings about requests that a runtime accepted or refused, with the knob `create` or `update`."""

from __future__ import annotations

from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.answer.verdict import VERSION_UNKNOWN
from memqos.engine.translate.requested import RequestedContainer
from memqos.engine.translate.specification import refusal_left_open, without_update
from memqos.errors import RuntimeCallError

__all__ = [
    "NAME",
    "SUBJECT",
    "refused_finding",
    "refused_next",
    "request_finding",
    "taken_finding",
    "taken_next",
    "unobservable_request",
]

NAME = "requested"
"""The name of the requested container."""
SUBJECT = Subject.of_container(NAME)


def refused_finding(
    error: RuntimeCallError, container: RequestedContainer, *, update: bool, why: str = "", subject: Subject = SUBJECT
) -> Finding:
    """A refusal conforms if the request must be refused, and deviates if it must be accepted.

    container: the refused request. why: a reason for refusal other than the runtime's own rules, "" for none.
    """
    must = why or container.refusal
    why_not = "" if must else _refusal_left_open(container, update=update)
    return request_finding(
        Verdict.of(bool(must), why_not),
        subject=subject,
        update=update,
        expected=f"refused: {must}" if must else "taken",
        observed=f"refused: {error.data.get('details') or error}",
        why_not=why_not,
    )


def _refusal_left_open(container: RequestedContainer, *, update: bool) -> str:
    """Why a refusal of a request that the model accepts may be right, "" if it is wrong."""
    oci = container.runtimes.oci
    if update and not oci.modelled:
        return without_update(oci)
    unsure = VERSION_UNKNOWN if container.in_doubt else ""
    return unsure or refusal_left_open(container.held[0].stored, oci, container.host.driver)


def request_finding(
    verdict: Verdict, *, update: bool, expected: str, observed: str, why_not: str = "", subject: Subject = SUBJECT
) -> Finding:
    """A finding about a request."""
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


def taken_finding(must: str, container: RequestedContainer, *, update: bool) -> Finding:
    """A request that must be refused was accepted; not observable if it could not be expressed."""
    inexpressible = " ".join(container.inexpressible.values())
    return request_finding(
        Verdict.NOT_OBSERVABLE if inexpressible else Verdict.DEVIATES,
        update=update,
        expected=f"refused: {must}",
        observed="taken",
        why_not=inexpressible,
    )


def refused_next(error: RuntimeCallError, *, update: bool) -> Finding:
    """The runtime refuses a valid request after a refusal: deviates."""
    details = f"refused: {error.data['details']}"
    return request_finding(Verdict.DEVIATES, update=update, expected="the next request is accepted", observed=details)


def taken_next(*, update: bool) -> Finding:
    """The runtime accepts a valid request after a refusal: conforms."""
    return request_finding(
        Verdict.CONFORMS,
        update=update,
        expected="the next request is accepted",
        observed="the next request is accepted",
    )


def unobservable_request(why_not: str, *, update: bool, expected: str = "refused") -> Finding:
    """A request that is not observable with this runtime, which has no command for it or does not read the field."""
    return request_finding(Verdict.NOT_OBSERVABLE, update=update, expected=expected, observed="", why_not=why_not)
