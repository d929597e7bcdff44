"""Runs the cases of claims on a node without pytest, one at a time, and returns their findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memqos.cases import Case, CaseKind
from memqos.catalog.requests import AnyRequestCase, OciRequestCase, RequestCase
from memqos.engine.answer.finding import Finding
from memqos.errors import NonconformanceError, UnknownNameError
from memqos.model.pod import Pod
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.cri_calls import Conversation
from memqos.node.requests.lifecycle import Life
from memqos.node.requests.verbs import perform, verbs_of

__all__ = ["OF_TESTS", "findings_of"]


def findings_of(
    asking: Requests, case: Case, requests: Mapping[str, AnyRequestCase], over_limit: Pod
) -> Sequence[Finding]:
    """The findings of a case; for a container outside its cgroup, the finding that ended the case.

    over_limit: the pod whose program exceeds its limit, for the claim about OOM events.
    """
    try:
        return OF_TESTS.get(case.claim.id, _of_data)(asking, case, requests, over_limit)
    except NonconformanceError as error:
        finding = error.data["finding"]
        assert isinstance(finding, Finding)  # noqa: S101 - as `Requests._remove` raises it
        return [finding]


def _of_data(asking: Requests, case: Case, requests: Mapping[str, AnyRequestCase], _: Pod) -> Sequence[Finding]:
    if case.kind is CaseKind.REQUEST:
        return asking.judge(requests[case.asks.request])

    def cri_request(name: str) -> RequestCase:
        found = requests.get(name)
        if not isinstance(found, RequestCase):
            raise UnknownNameError.of("request in CRI's words", name, sorted(requests), where=case.claim.id)
        return found

    kind: type[Life | Conversation] = Life if case.asks.verb in verbs_of(Life) else Conversation
    return perform(kind(asking), case.asks, cri_request)


def _stats(asking: Requests, _: Case, requests: Mapping[str, AnyRequestCase], __: Pod) -> Sequence[Finding]:
    return asking.judge_stats(requests["bundle-reservation-and-limit"])


def _oom_event(asking: Requests, _: Case, requests: Mapping[str, AnyRequestCase], over_limit: Pod) -> Sequence[Finding]:
    request = requests["bundle-no-swap"]
    assert isinstance(request, OciRequestCase)  # noqa: S101 - fixtures/oci.toml has it
    return asking.judge_oom_event(request, over_limit.containers[0])


OF_TESTS: Mapping[str, Callable[[Requests, Case, Mapping[str, AnyRequestCase], Pod], Sequence[Finding]]] = {
    "oci/stats-agree": _stats,
    "oci/oom-event": _oom_event,
}
"""The claims whose test in the suites consists of one call."""
