"""What rigs share: the pods, kubelets and cases that mutants are tried with, and judging a case under a mutant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memqos.cases import Case, CaseKind, cases_of
from memqos.catalog.data import data_root
from memqos.catalog.kubelets import KubeletCase, load_kubelets
from memqos.catalog.pods import load_pod_catalog, load_stored_pods
from memqos.catalog.requests import AnyRequestCase, load_all_requests
from memqos.claims import Asks, Claim, load
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Level as PlanLevel
from memqos.engine.translate.versions import Runtimes
from memqos.errors import UnknownNameError
from memqos.model.pod import Pod
from memqos.mutants.behaviours import behaviour_findings
from memqos.mutants.case_choice import OF_VALUES, Noticing
from memqos.mutants.case_findings import OF_TESTS, findings_of
from memqos.mutants.table import Mutant, PlanFault
from memqos.mutants.trial import Deviation, deviations_of
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.requests.container_requests import Requests

__all__ = ["Catalogue", "UnderAsking", "UnderBehaviour", "UnderPlan"]


@dataclass(frozen=True)
class Catalogue:
    """What mutants are tried with: memqos's own suites and fixtures."""

    @cached_property
    def claims(self) -> Mapping[str, Claim]:
        """All claims, by id."""
        return load(data_root() / "suites")

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        """A case of each claim, by claim id; that of a claim without data is the suites' test of it."""
        tests = {name: Case(claim=claim, kind=CaseKind.VERB, asks=Asks()) for name, claim in self.claims.items()}
        return {**tests, **self._of_data}

    @cached_property
    def _of_data(self) -> Mapping[str, Case]:
        return {case.claim.id: case for case in cases_of(self.claims.values())}

    def is_behaviour(self, mutant: Mutant) -> bool:
        """Whether its claims are shown by the suites' tests, on a node without other pods."""
        data = {*self._of_data, *OF_TESTS, *OF_VALUES}
        return mutant.machine is not None and bool(mutant.claims) and not data & set(mutant.claims)

    @cached_property
    def requests(self) -> Mapping[str, AnyRequestCase]:
        """All requests, by name."""
        return load_all_requests()

    @cached_property
    def kubelets(self) -> Mapping[str, KubeletCase]:
        """All kubelets, by id."""
        return {one.id: one for one in load_kubelets()}

    @cached_property
    def pods(self) -> Mapping[str, Pod]:
        """All pods, by name."""
        behaviour = sorted((data_root() / "fixtures" / "pods" / "behaviour").glob("*.yaml"))
        return {pod.name: pod for pod in (*load_pod_catalog(), *load_stored_pods(behaviour))}

    def pod(self, name: str) -> Pod:
        """A pod; UnknownNameError with those that exist."""
        if name not in self.pods:
            raise UnknownNameError.of("pod", name, sorted(self.pods))
        return self.pods[name]

    def kubelet(self, name: str) -> KubeletCase:
        """A kubelet; UnknownNameError with those that exist."""
        if name not in self.kubelets:
            raise UnknownNameError.of("kubelet", name, list(self.kubelets))
        return self.kubelets[name]

    def noticing(self, runtimes: Runtimes, *, patient: bool = True) -> Noticing:
        """Which cases notice a mutant where these runtimes translate requests; see `Noticing`."""
        return Noticing(self.cases, self.requests, runtimes, patient)


Known = Callable[[Finding, str], Finding]
"""A finding of a claim, as known if it is listed for what runs there."""


class UnderAsking:
    """A system under a mutant of what is below CRI, or of CRI; the cases are carried out in a pod of `asking`."""

    def __init__(self, asking: Requests, catalogue: Catalogue, known: Known) -> None:
        self._asking, self._catalogue, self._known = asking, catalogue, known

    def find(self, case: Case) -> Sequence[Deviation]:
        """What deviates in a case, apart from what is known."""
        found = findings_of(self._asking, case, self._catalogue.requests, self._catalogue.pod("over-limit"))
        told = [self._known(one, case.claim.id) for one in found]
        return deviations_of(case, told, self._asking.pod.planned.cgroup.path)


class UnderPlan:
    """A node whose enactor carries out a wrong plan."""

    def __init__(self, node: NodeUnderTest, fault: PlanFault, catalogue: Catalogue, known: Known) -> None:
        self._node, self._fault, self._catalogue, self._known = node, fault, catalogue, known

    def find(self, case: Case) -> Sequence[Deviation]:
        """What deviates in the values of pods, QoS classes and node, or after each kubelet but the first."""
        pods = [self._catalogue.pod(name) for name in self._fault.pods]
        names = case.asks.kubelets or self._fault.kubelets
        first, *others = [self._catalogue.kubelet(name) for name in names]
        found: list[Finding] = []
        with self._node.admitted(pods, first) as population:
            standing = population
            for kubelet in others:
                standing = self._node.restart_kubelet(standing, kubelet)
                found += standing.judge_all()
            if not others:
                found += standing.judge_node()
                for cgroup in standing.plan.qos:
                    found += standing.judge_class(cgroup.qos) if cgroup.qos is not None else []
                for pod in standing.pods.values():
                    found += standing.judge_pod(pod.pod)
        levels = _LEVELS_OF.get(case.claim.id, frozenset(PlanLevel))
        told = [self._known(one, case.claim.id) for one in found if one.subject.level in levels]
        return deviations_of(case, told, None)


class UnderBehaviour:
    """A machine that is wrong, on which the suites' tests are called."""

    def __init__(self, node: NodeUnderTest, catalogue: Catalogue, known: Known) -> None:
        self._node, self._catalogue, self._known = node, catalogue, known

    def find(self, case: Case) -> Sequence[Deviation]:
        """What deviates in the test of a claim."""
        claim = case.claim.id
        found = behaviour_findings(claim, self._node, self._catalogue.kubelets, self._catalogue)
        return deviations_of(case, [self._known(one, claim) for one in found], None)


_LEVELS_OF: Mapping[str, frozenset[PlanLevel]] = {
    "values/node": frozenset({PlanLevel.NODE, PlanLevel.RESERVED}),
    "values/qos-class": frozenset({PlanLevel.QOS}),
    "values/pod": frozenset({PlanLevel.POD, PlanLevel.CONTAINER}),
}
"""What each claim about values is about."""


def plan_claims(mutant: Mutant) -> tuple[str, ...]:
    """The claims that can notice a wrong plan where its row names none: all about values."""
    return mutant.claims or OF_VALUES


def unlisted(finding: Finding, _claim: str) -> Finding:
    """The finding as it is: nothing is known of a fake."""
    return finding


def deviates(findings: Sequence[Finding]) -> bool:
    """Whether one of these deviates."""
    return any(one.verdict is Verdict.DEVIATES for one in findings)
