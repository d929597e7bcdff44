"""The plugin's fixtures for tests. What needs gRPC, YAML or QEMU is imported on first use.

Also the value of `qos_evidence`: a test's evidence folder, and the end of the test.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from memqos.claims import About, unproved
from memqos.config.systems import SystemKey, systems_of
from memqos.config.table import DIRECTLY, direct_prefix
from memqos.engine.answer.finding import Finding, Verdict, worst
from memqos.engine.node.validation import why_not_on
from memqos.engine.releases.release import Release
from memqos.errors import NonconformanceError, UnknownNameError
from memqos.laboratory.evidence import Folder
from memqos.plugin.keys import LANE, NOTES, RESULTS, SCENE, SETTINGS_KEY, Notes, about_of
from memqos.report.summary import finding_line
from memqos.report.words import slug

if TYPE_CHECKING:
    from memqos.cases import Case
    from memqos.catalog.kubelets import KubeletCase
    from memqos.engine.plan import Plan
    from memqos.model.pod import Pod
    from memqos.node import NodeUnderTest, Population
    from memqos.node.requests.cri_calls import CriVerbs
    from memqos.node.requests.lifecycle import LifecycleVerbs
    from memqos.plugin.collection.catalogue import Catalogue
    from memqos.plugin.machines.lane import Lane
    from memqos.plugin.machines.shared import Scene

__all__ = [
    "Evidence",
    "qos_catalog",
    "qos_evidence",
    "qos_expect",
    "qos_fresh_node",
    "qos_kubelet",
    "qos_lane",
    "qos_node",
    "qos_numa_node",
    "qos_population",
    "qos_scene",
    "qos_standing",
]


@pytest.fixture(scope="session")
def qos_lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    """This worker's machines, used by `qos_node` and `qos_fresh_node`."""
    from memqos.plugin.machines.lane import Lane

    with Lane(request.config) as lane:
        request.config.stash[LANE] = lane
        yield lane


@pytest.fixture(scope="module")
def qos_node(request: pytest.FixtureRequest, qos_lane: Lane) -> Iterator[NodeUnderTest]:
    """The node under test: a machine with a runtime, and the verbs to plan, admit, read and judge pods on it.

    Pristine for a module, or used by modules before it that left it as they found it.
    """
    with qos_lane.opened(_system(request)) as station:
        yield station.node


@pytest.fixture
def qos_fresh_node(request: pytest.FixtureRequest, qos_lane: Lane) -> Iterator[NodeUnderTest]:
    """A node like `qos_node`, on a machine that is restored for this one test and thrown away after it."""
    with qos_lane.fresh(_system(request)) as station:
        yield station.node


def _system(request: pytest.FixtureRequest) -> SystemKey:
    """The system of a test's parameter, or else of the settings."""
    chosen: SystemKey = getattr(request, "param", None) or systems_of(request.config.stash[SETTINGS_KEY])[0]
    return chosen


@pytest.fixture(scope="session")
def qos_catalog() -> Catalogue:
    """The pods and kubelets of the catalogue, by name."""
    from memqos.plugin.collection.catalogue import Catalogue

    return Catalogue()


@pytest.fixture(scope="module")
def qos_kubelet(request: pytest.FixtureRequest) -> KubeletCase:
    """Each kubelet of fixtures/kubelets.toml in turn: its release, variant and configuration.

    A claim about a kubelet that would not start on the machines' cgroup version is not observable.
    """
    kubelet: KubeletCase = request.param
    version = request.config.stash[SETTINGS_KEY].cgroup
    if why := why_not_on(version, kubelet.settings, Release.parse(kubelet.release)):
        pytest.skip(why)
    return kubelet


@pytest.fixture(scope="module")
def qos_numa_node(request: pytest.FixtureRequest, qos_node: NodeUnderTest) -> int:
    """A NUMA node of the node: first its first one, then its last one."""
    numa_nodes = qos_node.facts.numa_nodes
    return (numa_nodes[0] if request.param == "first" else numa_nodes[-1]).id


@pytest.fixture
def qos_expect(qos_node: NodeUnderTest, qos_kubelet: KubeletCase) -> Callable[..., Plan]:
    """The engine for this node and kubelet: called with pods, it returns the plan."""
    return lambda *pods: qos_node.plan(pods, qos_kubelet)


@pytest.fixture(scope="module")
def qos_standing(qos_node: NodeUnderTest) -> Iterator[None]:
    """The cgroups that stay between the populations of a module: see memqos.enactor.kubelet_stand_in."""
    with qos_node.keeping_pods():
        yield


@pytest.fixture(scope="module")
def qos_population(
    request: pytest.FixtureRequest,
    qos_standing: None,  # noqa: ARG001 - keeps cgroups between populations
    qos_kubelet: KubeletCase,
    qos_catalog: Catalogue,
) -> Iterator[Population]:
    """The pods of the catalogue on the node under one kubelet, started together and read once.

    All of them, unless only tests of single pods were selected: then the pods of these tests.
    """
    from memqos.plugin.machines.shared import populated

    station = request.config.stash[LANE].station
    pods = _selected(request, qos_catalog.pods, qos_kubelet)
    with populated(request.config, station, pods, qos_kubelet) as population:
        yield population


@pytest.fixture(scope="module")
def qos_scene(
    request: pytest.FixtureRequest,
    qos_node: NodeUnderTest,  # noqa: ARG001 - where it happens
) -> Callable[..., contextlib.AbstractContextManager[Scene]]:
    """`qos_scene(kubelet)`: the context in which a module's fixture triggers what several tests look at afterwards.

    Its evidence belongs to each of them. `qos_scene(kubelet, "NUMA node 1")` names one of several with this kubelet.
    The context's value says which claims are selected: a scene does nothing for any other.
    """
    from memqos.laboratory.evidence import Folder, Sink
    from memqos.plugin.machines.shared import scene_of

    module = request.node

    @contextlib.contextmanager
    def scene(kubelet: KubeletCase, *which: str) -> Iterator[Scene]:
        station = request.config.stash[LANE].station
        name = slug("-".join([station.id, module.nodeid, kubelet.id, *which]))
        folder = Folder(request.config.stash[RESULTS] / "tests" / name, shared=True)
        module.stash[SCENE] = folder.path
        with station.log.to(Sink(folder)):
            yield scene_of(module, station, kubelet)

    return scene


def _selected(request: pytest.FixtureRequest, pods: Sequence[Pod], kubelet: KubeletCase) -> Sequence[Pod]:
    """The pods that the selected tests of this kubelet are about."""
    names: set[str] = set()
    for item in request.session.items:
        params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        if item.path != request.path or params.get("qos_kubelet") != kubelet:
            continue
        if "qos_pod" not in params:
            return pods
        names.add(params["qos_pod"].name)
    return [pod for pod in pods if pod.name in names]


@pytest.fixture(autouse=True)
def _evidence_first(request: pytest.FixtureRequest) -> None:
    """Sets a test's evidence folder before its own fixtures put pods on the node.

    Autouse for all tests; its name does not mark a test as memqos's (`keys.is_ours`).
    """
    for name in ("qos_fresh_node", "qos_evidence"):
        if name in request.fixturenames:
            request.getfixturevalue(name)


@pytest.fixture
def qos_evidence(request: pytest.FixtureRequest) -> Iterator[Evidence]:
    """A test's evidence and findings: qos_evidence.settle(findings) ends every test of a claim."""
    from memqos.laboratory.evidence import Folder, Sink
    from memqos.plugin.collection.known_deviations import amended

    config, item = request.config, request.node
    notes = item.stash.setdefault(NOTES, Notes())
    folder = Folder(config.stash[RESULTS] / "tests" / slug(item.nodeid))
    lane = config.stash.get(LANE, None)
    station = lane.station if lane is not None and "qos_population" not in item.fixturenames else None

    if station is not None and "qos_scene" in item.fixturenames:
        # Its event has happened.
        notes.folder = item.getparent(pytest.Module).stash.get(SCENE, None)
        station = None
    if station is not None:
        # A test that starts pods of its own keeps their plan, readings and calls, whatever its outcome.
        notes.folder = folder.path
    with station.log.to(Sink(folder)) if station is not None else contextlib.nullcontext():
        yield Evidence(notes=notes, folder=folder, amend=functools.partial(amended, item), about=about_of(item))


@pytest.fixture(scope="module")
def qos_cri(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[CriVerbs]:
    """Verbs that only CRI offers; each returns findings."""
    from memqos.node.requests.cri_calls import CriVerbs

    with qos_node.requests_as(qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none"), CriVerbs) as verbs:
        yield verbs


@pytest.fixture(scope="module")
def qos_lifecycle(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[LifecycleVerbs]:
    """Events that must not change a running container; each verb returns findings."""
    from memqos.node.requests.lifecycle import LifecycleVerbs

    with qos_node.requests_as(
        qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none"), LifecycleVerbs
    ) as verbs:
        yield verbs


@pytest.fixture(scope="module")
def qos_cases(
    request: pytest.FixtureRequest, qos_node: NodeUnderTest, qos_catalog: Catalogue
) -> Iterator[Callable[[Case], Sequence[Finding]]]:
    """Runs the verbs of claims: called with a case, `qos_case`, it returns the findings.

    The verbs are those of `qos_lifecycle` and `qos_cri`. A verb that takes several cases runs once for all selected
    tests of the module that name it.
    """
    from memqos.node.requests.cri_calls import CriVerbs
    from memqos.node.requests.lifecycle import LifecycleVerbs
    from memqos.node.requests.verbs import is_together, perform, verb_of, verbs_of
    from memqos.plugin.machines.shared import found_together

    pod, kubelet = qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none")
    several: dict[str, Callable[[str], Sequence[Finding]]] = {}
    with contextlib.ExitStack() as opened:
        asker: LifecycleVerbs | CriVerbs | None = None

        def findings(case: Case) -> Sequence[Finding]:
            nonlocal asker
            verb = case.asks.verb
            kind: type[LifecycleVerbs | CriVerbs] = LifecycleVerbs if verb in verbs_of(LifecycleVerbs) else CriVerbs
            if verb not in verbs_of(kind):
                known = sorted([*verbs_of(LifecycleVerbs), *verbs_of(CriVerbs)])
                raise UnknownNameError.of("verb", verb, known, where=case.claim.id)
            if not isinstance(asker, kind):
                opened.close()
                asker = kind(opened.enter_context(qos_node.requests(pod, kubelet)))
            if not is_together(kind, verb):
                return perform(asker, case.asks, qos_catalog.request)
            if verb not in several:
                several[verb] = found_together(request.node, verb, verb_of(asker, verb), qos_catalog.request)
            return several[verb](case.name)

        yield findings


@pytest.fixture
def qos_kubelets_in_turn(
    qos_node: NodeUnderTest,
    qos_standing: None,  # noqa: ARG001 - keeps cgroups between turns
    qos_catalog: Catalogue,
) -> Callable[..., Sequence[Finding]]:
    """Several kubelets in turn over the same pods, one of each QoS class.

    Called with their names; returns findings of every level, after each kubelet but the first.
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
    """Makes requests of the runtime: called with the name of a request, it returns the findings.

    Requests are in CRI's words in fixtures/requests.toml, in Docker's in docker.toml, in those of OCI runtimes in
    oci.toml. The containers run in pods without requests, under a kubelet whose rules do not apply to them. The
    requests of the next tests run at the same time.
    """
    from memqos.plugin.machines.shared import concurrent_findings

    pod, kubelet = qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none")
    with concurrent_findings(request.node, pod, kubelet, qos_catalog.any_request) as findings:
        yield findings


@pytest.fixture
def qos_compared(
    request: pytest.FixtureRequest, qos_node: NodeUnderTest, qos_catalog: Catalogue
) -> Callable[[], Sequence[Finding]]:
    """Called, makes every CRI request of this runtime and of another one on the machine, and compares.

    Skips if the machine has no other OCI runtime that memqos drives directly.
    """
    from memqos.node.requests.differential import compared, made
    from memqos.plugin.machines.lane import turned_station

    station = request.config.stash[LANE].station
    mine = station.key.runtime
    prefix = direct_prefix(mine) or DIRECTLY
    other = next((one for one in sorted(station.place.runtimes) if one.startswith(prefix) and one != mine), None)
    if other is None:
        pytest.skip(f"the machine has no OCI runtime other than {mine} to compare with")
    pod, kubelet = qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none")

    def makes(node: NodeUnderTest) -> Mapping[str, Sequence[Finding]]:
        with node.requests(pod, kubelet) as requests:
            return made(requests.judge, qos_catalog.plain_requests)

    def findings() -> Sequence[Finding]:
        of_mine = makes(qos_node)
        with turned_station(request.config, station, station.key._replace(runtime=other)) as turned:
            return compared(of_mine, makes(turned.node), (mine, other))

    return findings


@pytest.fixture
def qos_stats_findings(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[Callable[[str], Sequence[Finding]]]:
    """Called with a request's name, creates a container that uses memory; returns findings on the reported usage."""
    with qos_node.requests(qos_catalog.pod("one-numa-node"), qos_catalog.kubelet("v1.36-none")) as requests:
        yield lambda name: requests.judge_stats(qos_catalog.any_request(name))


@pytest.fixture
def qos_oom_findings(qos_node: NodeUnderTest, qos_catalog: Catalogue) -> Iterator[Callable[[str], Sequence[Finding]]]:
    """Called with the name of a request of fixtures/oci.toml, returns findings on the runtime's OOM events.

    The container requests 96 MiB.
    """
    program = qos_catalog.pod("over-limit").containers[0]
    with qos_node.requests(qos_catalog.pod("best-effort"), qos_catalog.kubelet("v1.36-none")) as requests:
        yield lambda name: requests.judge_oom_event(qos_catalog.oci_request(name), program)


class Evidence:
    """The value of the fixture `qos_evidence`: places for evidence, and the end of the test."""

    def __init__(
        self, *, notes: Notes, folder: Folder, amend: Callable[[Finding], Finding], about: About | None
    ) -> None:
        self._notes = notes
        self._folder = folder
        self._amend = amend
        self._about = about

    @property
    def folder(self) -> Folder:
        """This test's own folder in the results."""
        self._notes.folder = self._folder.path
        return self._folder

    def attach(self, name: str, value: object) -> None:
        """Attach something to the findings: text, bytes, or any JSON value."""
        self.folder.write(slug(name), value)

    def settle(self, *findings: Finding | Iterable[Finding]) -> None:
        """Judge the test by these findings: the end of every test that proves a claim.

        Raises NonconformanceError if one deviates. If none deviates and one is not observable, the test is not
        observable, with the reason; so it is if no finding is set by the subject of the claim.
        """
        flat = [
            self._amend(finding) for group in findings for finding in ([group] if isinstance(group, Finding) else group)
        ]
        self._notes.findings += flat
        for one in flat:
            for name, text in one.lost.documents.items() if one.lost is not None else ():
                self.attach(name, text)
        verdict = worst(flat)
        if verdict is Verdict.DEVIATES:
            deviating = [finding for finding in flat if finding.verdict is Verdict.DEVIATES]
            raise NonconformanceError(finding_line(deviating[0]), data={"findings": len(deviating)})
        if verdict is Verdict.NOT_OBSERVABLE:
            reasons = dict.fromkeys(f"{finding.subject}: {finding.why_not}" for finding in flat if finding.why_not)
            pytest.skip("; ".join(reasons) or "nothing was judged")
        if self._about is not None and (why := unproved(self._about, flat)):
            pytest.skip(why)
