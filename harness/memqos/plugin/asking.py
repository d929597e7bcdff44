"""The fixtures by which tests ask the runtime itself. What needs gRPC or YAML is imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from memqos.engine.answer.finding import Finding

if TYPE_CHECKING:
    from memqos.node import NodeUnderTest
    from memqos.node.requests.conversing import Conversation
    from memqos.node.requests.living import Life
    from memqos.plugin.collection.catalogue import Catalogue
    from memqos.plugin.machines.waiting import Verb

__all__ = [
    "qos_conversation",
    "qos_kubelets_in_turn",
    "qos_life",
    "qos_requests",
    "qos_together",
    "qos_told_oom",
    "qos_told_stats",
]


@pytest.fixture(scope="module")
def qos_conversation(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[Conversation]:
    """What only one who speaks CRI can ask of the runtime; its verbs give findings."""
    from memqos.node.requests.conversing import Conversation

    with qos_node.asking(qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none"), Conversation) as asking:
        yield asking


@pytest.fixture(scope="module")
def qos_life(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[Life]:
    """What may happen to a container that stands, and must change nothing; its verbs give findings."""
    from memqos.node.requests.living import Life

    with qos_node.asking(qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none"), Life) as asking:
        yield asking


@pytest.fixture(scope="module")
def qos_together(
    request: pytest.FixtureRequest,
    qos_node: NodeUnderTest,  # noqa: ARG001 - where it happens
    qos_catalog: Catalogue,
) -> Callable[[Verb, Mapping[str, str]], Callable[[str], Sequence[Finding]]]:
    """Lets happen once what several tests of the module wait for.

    Called with a verb of `qos_life` that takes several cases, and with the names of requests by those of the claims
    that wait, it gives a function, which called with the name of a claim gives its findings.
    """
    from memqos.plugin.machines.waiting import found_together

    def together(verb: Verb, requests: Mapping[str, str]) -> Callable[[str], Sequence[Finding]]:
        cases = {claim: qos_catalog.request(name) for claim, name in requests.items()}
        return found_together(request.node, verb, cases)

    return together


@pytest.fixture
def qos_kubelets_in_turn(
    qos_node: NodeUnderTest,
    qos_standing: None,  # noqa: ARG001 - what stands between one turn and the next
    qos_catalog: Catalogue,
) -> Callable[..., Sequence[Finding]]:
    """One kubelet after another over the same pods, one of each QoS class.

    Called with their names; the findings are of every level, after each kubelet but the first.
    """

    def in_turn(first: str, *others: str) -> Sequence[Finding]:
        pods = [qos_catalog.pod(name) for name in ("guaranteed-one", "burstable", "best-effort")]
        findings: list[Finding] = []
        with qos_node.admitted(pods, qos_catalog.kubelet(first)) as admitted:
            population = admitted
            for name in others:
                population = qos_node.restart_kubelet(population, qos_catalog.kubelet(name))
                findings += population.judge_all()
        return findings

    return in_turn


@pytest.fixture(scope="module")
def qos_requests(
    request: pytest.FixtureRequest,
    qos_node: NodeUnderTest,  # noqa: ARG001 - where they are made
    qos_catalog: Catalogue,
) -> Iterator[Callable[[str], Sequence[Finding]]]:
    """Asks the runtime itself: called with the name of a request it gives the findings.

    Requests are in CRI's words in fixtures/requests.toml, in Docker's in docker.toml, in those of OCI runtimes in
    oci.toml.
    The containers are made in pods that ask for nothing, under a kubelet whose rules are about none of it. The requests
    of the tests that come next are made as well, side by side.
    """
    from memqos.plugin.machines.ahead import asked_ahead

    pod, kubelet = qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none")
    with asked_ahead(request.node, pod, kubelet, qos_catalog.any_request) as findings:
        yield findings


@pytest.fixture
def qos_told_stats(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[Callable[[str], Sequence[Finding]]]:
    """Called with the name of a request, makes a container that holds memory, and gives what is told of its use."""
    with qos_node.requests(qos_catalog.pod("one-zone"), qos_catalog.kubelet("v1.36-none")) as requests:
        yield lambda name: requests.judge_stats(qos_catalog.any_request(name))


@pytest.fixture
def qos_told_oom(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[Callable[[str], Sequence[Finding]]]:
    """Called with the name of a request of fixtures/oci.toml, gives what the runtime's events tell of an OOM kill.

    The container that is made with it asks for 96 MiB.
    """
    program = qos_catalog.pod("over-limit").containers[0]
    with qos_node.requests(qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none")) as requests:
        yield lambda name: requests.judge_oom_event(qos_catalog.oci_request(name), program)
