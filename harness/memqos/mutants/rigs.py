"""Shared by all rigs: the pods, kubelets and cases for mutants, and judging a case under a mutant.

Cases run on a node without pytest, one at a time. For claims about behaviour the suites' tests are called as functions:
a test gets plain values in place of the plugin's fixtures, fixtures of its own module are called the same way, and only
the test's own claim counts, as if it were the only one selected.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memqos.cases import Case, CaseKind, cases_of
from memqos.catalog.data import data_root
from memqos.catalog.kubelets import KubeletCase, load_kubelets
from memqos.catalog.pods import load_pod_catalog, load_stored_pods
from memqos.catalog.requests import AnyRequestCase, OciRequestCase, RequestCase, load_all_requests
from memqos.claims import Asks, Claim, load
from memqos.engine.answer.finding import Finding
from memqos.engine.plan import Level as PlanLevel
from memqos.engine.translate.runtimes import Runtimes
from memqos.errors import NonconformanceError, UnknownNameError
from memqos.model.pod import Pod
from memqos.mutants.case_choice import OF_VALUES, CaseChoice
from memqos.mutants.table import Mutant, PlanFault
from memqos.mutants.trial import Deviation, NoEffectError, deviations_of
from memqos.mutants.wrong_enactor import Switch
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.cri_calls import CriVerbs
from memqos.node.requests.lifecycle import LifecycleVerbs
from memqos.node.requests.verbs import perform, verbs_of

__all__ = [
    "BehaviourUnderMutant",
    "Catalogue",
    "Known",
    "PlanUnderMutant",
    "RequestsUnderMutant",
    "behaviour_findings",
    "suite_test_of",
    "unmarked",
]

Function = Callable[..., Any]


@dataclass
class SettledFindings:
    """Replaces the fixture `qos_evidence`: keeps a test's findings."""

    findings: list[Finding] = field(default_factory=list)

    def settle(self, *findings: Finding | Iterable[Finding]) -> None:
        """Keep the findings; the test ends after this call."""
        self.findings += [one for group in findings for one in ([group] if isinstance(group, Finding) else group)]

    def attach(self, name: str, value: object) -> None:
        """Keeps nothing."""


@cache
def _modules(chapter: str) -> tuple[ModuleType, ...]:
    """The modules of a chapter's tests."""
    return tuple(_module(file) for file in sorted((data_root() / "suites" / chapter).glob("test_*.py")))


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"memqos_suite_{file.parent.name}_{file.stem}", file)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a Python file
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def suite_test_of(claim: str) -> Function:
    """The first test of the suites that proves a claim; UnknownNameError if none does."""
    for module in _modules(claim.partition("/")[0]):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and claim in _marked(function, "claim"):
                return function
    raise UnknownNameError.of("test of a claim", claim, [])


def _marked(function: Function, name: str) -> tuple[str, ...]:
    """The arguments of a test's marks of this name."""
    return tuple(str(one) for mark in getattr(function, "pytestmark", ()) if mark.name == name for one in mark.args)


def behaviour_findings(claim: str, node: Any, kubelets: Mapping[str, Any], catalogue: Any) -> list[Finding]:
    """The findings that the test of a claim settles on a node, also those before it became not observable.

    kubelets: the catalogue's, by id. catalogue: gives `pod` and `kubelet` by name.
    """
    function = suite_test_of(claim)
    settled = SettledFindings()
    kubelet = next((kubelets[name] for name in _marked(function, "kubelet") if name in kubelets), None)
    given = {
        "qos_node": node,
        "qos_fresh_node": node,
        "qos_kubelet": kubelet,
        "qos_catalog": catalogue,
        "qos_scene": _scene(claim),
        "qos_numa_node": 1,
        "qos_evidence": settled,
    }
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception), contextlib.ExitStack() as stack:
        _called(function, given, stack)
    return settled.findings


def _scene(claim: str) -> Callable[..., contextlib.AbstractContextManager[SimpleNamespace]]:
    """Replaces the fixture `qos_scene`: runs only the parts that this claim needs."""
    shown = SimpleNamespace(shows=lambda *asked: claim in asked)
    return lambda *_: contextlib.nullcontext(shown)


def _called(function: Function, given: dict[str, Any], stack: contextlib.ExitStack) -> Any:
    """Call a test or fixture with the values and module fixtures that its parameters name."""
    own = inspect.unwrap(function)
    values = {}
    for name in inspect.signature(own).parameters:
        if name not in given:
            fixture = own.__globals__.get(name)
            if fixture is None:
                raise UnknownNameError.of("fixture", name, sorted(given))
            given[name] = _made(inspect.unwrap(fixture), given, stack)
        values[name] = given[name]
    return own(**values)


def _made(fixture: Function, given: dict[str, Any], stack: contextlib.ExitStack) -> Any:
    made = _called(fixture, given, stack)
    if not inspect.isgeneratorfunction(fixture):
        return made

    @contextlib.contextmanager
    def lasting() -> Iterator[Any]:
        yield from made

    return stack.enter_context(lasting())


def findings_of(
    pod_requests: Requests, case: Case, requests: Mapping[str, AnyRequestCase], over_limit: Pod
) -> Sequence[Finding]:
    """The findings of a case; for a container outside its cgroup, the finding that ended the case.

    over_limit: the pod whose program exceeds its limit, for the claim about OOM events.
    """
    try:
        return OF_TESTS.get(case.claim.id, _of_data)(pod_requests, case, requests, over_limit)
    except NonconformanceError as error:
        finding = error.data["finding"]
        assert isinstance(finding, Finding)  # noqa: S101 - as `Requests._remove` raises it
        return [finding]


def _of_data(pod_requests: Requests, case: Case, requests: Mapping[str, AnyRequestCase], _: Pod) -> Sequence[Finding]:
    if case.kind is CaseKind.REQUEST:
        return pod_requests.judge(requests[case.asks.request])

    def cri_request(name: str) -> RequestCase:
        found = requests.get(name)
        if not isinstance(found, RequestCase):
            raise UnknownNameError.of("request in CRI's words", name, sorted(requests), where=case.claim.id)
        return found

    kind: type[LifecycleVerbs | CriVerbs] = LifecycleVerbs if case.asks.verb in verbs_of(LifecycleVerbs) else CriVerbs
    return perform(kind(pod_requests), case.asks, cri_request)


def _stats(pod_requests: Requests, _: Case, requests: Mapping[str, AnyRequestCase], __: Pod) -> Sequence[Finding]:
    return pod_requests.judge_stats(requests["bundle-reservation-and-limit"])


def _oom_event(
    pod_requests: Requests, _: Case, requests: Mapping[str, AnyRequestCase], over_limit: Pod
) -> Sequence[Finding]:
    request = requests["bundle-no-swap"]
    assert isinstance(request, OciRequestCase)  # noqa: S101 - fixtures/oci.toml has it
    return pod_requests.judge_oom_event(request, over_limit.containers[0])


OF_TESTS: Mapping[str, Callable[[Requests, Case, Mapping[str, AnyRequestCase], Pod], Sequence[Finding]]] = {
    "oci/stats-agree": _stats,
    "oci/oom-event": _oom_event,
}
"""The claims whose test in the suites consists of one call."""


@dataclass(frozen=True)
class Catalogue:
    """The suites and fixtures of memqos that mutants are tried with. default_run: only cases of the default run."""

    default_run: bool = False

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
        return CaseChoice(self.cases, self.requests, runtimes, patient, self.default_run)


Known = Callable[[Finding, str], Finding]
"""Marks a claim's finding as known if it is listed for the machine's versions."""


class RequestsUnderMutant:
    """A system with a mutant of the CRI server or below; cases run in the pod of `pod_requests`."""

    def __init__(self, pod_requests: Requests, catalogue: Catalogue, known: Known) -> None:
        self.requests, self._catalogue, self._known = pod_requests, catalogue, known

    def find(self, case: Case) -> Sequence[Deviation]:
        """The deviations of a case that are not known."""
        found = findings_of(self.requests, case, self._catalogue.requests, self._catalogue.pod("over-limit"))
        told = [self._known(one, case.claim.id) for one in found]
        return deviations_of(case, told, self.requests.pod.planned.cgroup.path)


class PlanUnderMutant:
    """A node with an enactor that carries out a wrong plan."""

    def __init__(
        self, node: NodeUnderTest, fault: PlanFault, catalogue: Catalogue, known: Known, switch: Switch
    ) -> None:
        self._node, self._fault, self._catalogue, self._known = node, fault, catalogue, known
        self._switch = switch

    def find(self, case: Case) -> Sequence[Deviation]:
        """The deviations in values of pods, QoS classes and node; with several kubelets, after each but the first."""
        self._switch.acts = False
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
        if self._fault.is_wrong and not self._switch.acts:
            what = f"{', '.join(self._fault.pods)} under {', '.join(names)}"
            raise NoEffectError(f"the wrong plan of {what} is the right one: name others with 'pods' and 'kubelets'")
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
