"""Shared by all rigs: the pods, kubelets and cases for mutants, and judging a case under a mutant."""

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
from memqos.mutants.case_choice import OF_VALUES, CaseChoice
from memqos.mutants.case_findings import OF_TESTS, findings_of
from memqos.mutants.table import Mutant, PlanFault
from memqos.mutants.trial import Deviation, deviations_of
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.requests.container_requests import Requests

__all__ = ["BehaviourUnderMutant", "Catalogue", "PlanUnderMutant", "RequestsUnderMutant"]


@dataclass(frozen=True)
class Catalogue:
    """The suites and fixtures of memqos that mutants are tried with."""

    @cached_property
    def claims(self) -> Mapping[str, Claim]:
        """All claims, by id."""
        return load(data_root() / "suites")

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        """A case of each claim, by claim id; for a claim without case data, the suites' test."""
        tests = {name: Case(claim=claim, kind=CaseKind.VERB, asks=Asks()) for name, claim in self.claims.items()}
        return {**tests, **self._of_data}

    @cached_property
    def _of_data(self) -> Mapping[str, Case]:
        return {case.claim.id: case for case in cases_of(self.claims.values())}

    def is_behaviour(self, mutant: Mutant) -> bool:
        """Whether its claims are proved by the suites' tests, on a node without other pods."""
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
        """A pod by name; UnknownNameError lists the existing ones."""
        if name not in self.pods:
            raise UnknownNameError.of("pod", name, sorted(self.pods))
        return self.pods[name]

    def kubelet(self, name: str) -> KubeletCase:
        """A kubelet by name; UnknownNameError lists the existing ones."""
        if name not in self.kubelets:
            raise UnknownNameError.of("kubelet", name, list(self.kubelets))
        return self.kubelets[name]

    def case_choice(self, runtimes: Runtimes, *, patient: bool = True) -> CaseChoice:
        """The selection of cases for these runtimes; see `CaseChoice`."""
        return CaseChoice(self.cases, self.requests, runtimes, patient)


Known = Callable[[Finding, str], Finding]
"""Marks a claim's finding as known if it is listed for the machine's versions."""


class RequestsUnderMutant:
    """A system with a mutant of the CRI server or below; cases run in the pod of `asking`."""

    def __init__(self, asking: Requests, catalogue: Catalogue, known: Known) -> None:
        self._asking, self._catalogue, self._known = asking, catalogue, known

    def find(self, case: Case) -> Sequence[Deviation]:
        """The deviations of a case that are not known."""
        found = findings_of(self._asking, case, self._catalogue.requests, self._catalogue.pod("over-limit"))
        told = [self._known(one, case.claim.id) for one in found]
        return deviations_of(case, told, self._asking.pod.planned.cgroup.path)


class PlanUnderMutant:
    """A node with an enactor that carries out a wrong plan."""

    def __init__(self, node: NodeUnderTest, fault: PlanFault, catalogue: Catalogue, known: Known) -> None:
        self._node, self._fault, self._catalogue, self._known = node, fault, catalogue, known

    def find(self, case: Case) -> Sequence[Deviation]:
        """The deviations in values of pods, QoS classes and node; with several kubelets, after each but the first."""
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


class BehaviourUnderMutant:
    """A wrong machine, on which the suites' tests are called."""

    def __init__(self, node: NodeUnderTest, catalogue: Catalogue, known: Known) -> None:
        self._node, self._catalogue, self._known = node, catalogue, known

    def find(self, case: Case) -> Sequence[Deviation]:
        """The deviations that the test of a claim finds."""
        claim = case.claim.id
        found = behaviour_findings(claim, self._node, self._catalogue.kubelets, self._catalogue)
        return deviations_of(case, [self._known(one, claim) for one in found], None)


_LEVELS_OF: Mapping[str, frozenset[PlanLevel]] = {
    "values/node": frozenset({PlanLevel.NODE, PlanLevel.RESERVED}),
    "values/qos-class": frozenset({PlanLevel.QOS}),
    "values/pod": frozenset({PlanLevel.POD, PlanLevel.CONTAINER}),
}
"""The level that each claim about values checks."""


def unmarked(finding: Finding, _claim: str) -> Finding:
    """The finding unchanged: the lists have no entries about fakes."""
    return finding


def deviates(findings: Sequence[Finding]) -> bool:
    """Whether one of these deviates."""
    return any(one.verdict is Verdict.DEVIATES for one in findings)
