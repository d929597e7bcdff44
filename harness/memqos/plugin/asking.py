"""The fixtures by which tests ask the runtime itself. What needs gRPC or YAML is imported when it is first used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from memqos.engine.answer.finding import Finding
from memqos.errors import UnknownNameError

if TYPE_CHECKING:
    from memqos.cases import Case
    from memqos.node import NodeUnderTest
    from memqos.node.requests.containers import Containers
    from memqos.node.requests.conversing import Conversation
    from memqos.node.requests.living import Life
    from memqos.plugin.collection.catalogue import Catalogue

__all__ = [
    "qos_cases",
    "qos_conversation",
    "qos_kubelets_in_turn",
    "qos_life",
    "qos_requests",
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
def qos_cases(
    request: pytest.FixtureRequest, qos_node: NodeUnderTest, qos_catalog: Catalogue
) -> Iterator[Callable[[Case], Sequence[Finding]]]:
    """Does what claims ask for by a verb: called with a case, `qos_case`, it gives the findings.

    The verbs are those of `qos_life` and `qos_conversation`. One that takes several cases happens once, for all
    selected tests of the module that ask for it.
    """
    from memqos.node.requests.conversing import Conversation
    from memqos.node.requests.living import Life
    from memqos.node.requests.verbs import is_together, perform, verb_of, verbs_of
    from memqos.plugin.machines.waiting import found_together

    pod, kubelet = qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none")
    several: dict[str, Callable[[str], Sequence[Finding]]] = {}
    with contextlib.ExitStack() as opened:
        asker: Containers | None = None

        def findings(case: Case) -> Sequence[Finding]:
            nonlocal asker
            verb, kind = case.asks.verb, Life if case.asks.verb in verbs_of(Life) else Conversation
            if verb not in verbs_of(kind):
                known = sorted([*verbs_of(Life), *verbs_of(Conversation)])
                raise UnknownNameError.of("verb", verb, known, where=case.claim.id)
            if not isinstance(asker, kind):
                opened.close()
                asker = opened.enter_context(qos_node.asking(pod, kubelet, kind))
            if not is_together(kind, verb):
                return perform(asker, case.asks, qos_catalog.request)
            if verb not in several:
                several[verb] = found_together(request.node, verb, verb_of(asker, verb), qos_catalog.request)
            return several[verb](case.name)

        yield findings


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
