"""The cases of suites that are rows of data: a request, a verb, or kubelets in turn, each for the claim that it proves.

One list for everything that runs them. What a claim says of behaviour over time is a test of a suite, and no row here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from memqos.catalog.requests import load_all_requests
from memqos.claims import Asks, Claim
from memqos.errors import UnknownNameError

__all__ = ["Case", "CaseKind", "cases_of"]


class CaseKind(StrEnum):
    """What a case does.

    REQUEST: makes the request of the claim's name of the runtime, and judges the container. VERB: has one of
    `memqos.node.requests` do what is in the claim's `asks`. KUBELETS: runs one kubelet after the other over the same
    pods.
    """

    REQUEST = "request"
    VERB = "verb"
    KUBELETS = "kubelets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: the claim that it proves, and what it asks for."""

    claim: Claim
    kind: CaseKind
    asks: Asks

    @property
    def name(self) -> str:
        """The name of its claim in its chapter."""
        return self.claim.name


def cases_of(known: Iterable[Claim]) -> list[Case]:
    """The cases of these claims: of each that is a request or says what it asks for.

    UnknownNameError for a request that is not there.
    """
    names = load_all_requests()
    found = []
    for claim in known:
        asks = claim.asks
        if asks is not None:
            if asks.request and asks.request not in names:
                raise UnknownNameError.of("request", asks.request, sorted(names), where=claim.id)
            kind = CaseKind.KUBELETS if asks.kubelets else CaseKind.VERB
            found.append(Case(claim=claim, kind=kind, asks=asks))
        elif claim.name in names:
            found.append(Case(claim=claim, kind=CaseKind.REQUEST, asks=Asks(request=claim.name)))
    return found
