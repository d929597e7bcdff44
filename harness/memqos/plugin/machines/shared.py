"""What the tests of a module share: pods, a scene, requests judged ahead of time, and events for several cases.

For one container a runtime runs one program after another, which keeps one CPU busy and leaves the others idle. So the
next cases begin while an earlier one is running. A container, its pod and its ancestors are judged as if they were
alone. A failure next to another case may be caused by that case.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest

from memqos.cases import Case
from memqos.catalog.kubelets import KubeletCase
from memqos.catalog.requests import AnyRequestCase, RequestCase
from memqos.clock import SYSTEM_CLOCK
from memqos.engine.answer.finding import Finding
from memqos.errors import MachineryError, UsageError
from memqos.laboratory.evidence import Folder, Sink
from memqos.laboratory.station import Station
from memqos.model.pod import Pod
from memqos.node.pods.foreign_writes import another
from memqos.node.pods.population import Population
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.verbs import Outcomes, TogetherVerb
from memqos.plugin.collection.parameters import system_of
from memqos.plugin.face.messages import Messenger
from memqos.plugin.keys import CONCURRENT_FAILURE, LANE, RESULTS, SETTINGS_KEY, ConcurrentFailure, claim_of, needs_of
from memqos.plugin.machines.lane import leaves
from memqos.report.words import slug
from memqos.threads import submit

__all__ = [
    "ConcurrentCases",
    "Scene",
    "alike",
    "concurrent_cases",
    "concurrent_findings",
    "found_together",
    "populated",
    "scene_of",
]


Asker = TypeVar("Asker")

Findings = Sequence[Finding]


class ConcurrentCases(Generic[Asker]):
    """Cases by name, in the order in which they will be collected. Created by `concurrent_cases`.

    askers: each judges one case at a time; one that failed is reused last. judge: has an asker judge the case of this
    name. on_failure: called with a case that failed while another one was running, and its error.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        askers: Sequence[Asker],
        upcoming: Sequence[str],
        judge: Callable[[Asker, str], Findings],
        on_failure: Callable[[str, MachineryError], None],
    ) -> None:
        self._pool = pool
        self._askers = deque(askers)
        self._upcoming = deque(upcoming)
        self._reach = 2 * len(askers)
        self._judge = judge
        self._on_failure = on_failure
        self._begun: dict[str, Future[Findings]] = {}
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._accompanied: set[str] = set()

    def findings(self, name: str) -> Findings:
        """The findings of this case, judged now unless done already; raises the MachineryError that ended it."""
        future = self._begun.pop(name, None) or submit(self._pool, self._one, name)
        self._go_ahead(name)
        try:
            return future.result()
        except MachineryError as error:
            if name in self._accompanied:
                self._on_failure(name, error)
            raise

    def _go_ahead(self, name: str) -> None:
        """Begin the cases after this one, as far as useful; skipped cases are not begun any more."""
        if name in self._upcoming:
            while self._upcoming.popleft() != name:
                pass
        for following in list(self._upcoming)[: self._reach]:
            if following not in self._begun:
                self._begun[following] = submit(self._pool, self._one, following)

    def _one(self, name: str) -> Findings:
        asker = self._askers.popleft()
        with self._lock:
            self._under_way.add(name)
            if len(self._under_way) > 1:
                self._accompanied |= self._under_way
        took = self._askers.append
        try:
            found = self._judge(asker, name)
            took = self._askers.appendleft
        finally:
            with self._lock:
                self._under_way.remove(name)
            took(asker)
        return found


@contextlib.contextmanager
def concurrent_cases(
    askers: Sequence[Asker],
    upcoming: Sequence[str],
    judge: Callable[[Asker, str], Findings],
    *,
    on_failure: Callable[[str, MachineryError], None],
    leaves: Callable[[], bool],
) -> Iterator[ConcurrentCases[Asker]]:
    """As many cases at a time as there are askers; when the context ends, running cases finish first.

    on_failure: see `ConcurrentCases`. leaves: whether everything is left in place because the machine is given up.
    """
    pool = ThreadPoolExecutor(max_workers=len(askers), thread_name_prefix="asker")
    try:
        yield ConcurrentCases(pool, askers, upcoming, judge, on_failure)
    finally:
        pool.shutdown(wait=not leaves(), cancel_futures=True)


_PARAMETER = "qos_request"


@contextlib.contextmanager
def concurrent_findings(
    module: pytest.Module,
    pod: Pod,
    kubelet: KubeletCase,
    request: Callable[[str], AnyRequestCase],
) -> Iterator[Callable[[str], Sequence[Finding]]]:
    """Returns the findings of requests by name, which the module's tests have as their parameter `qos_request`.

    `ConcurrentCases` judges them ahead of time. As many cases run at a time as pods are
    started at a time, and one at a time once a case failed next to another. Each keeps its readings in the folder of
    its own test, whichever test is running. What a case reads only later is created before all others.
    """
    config = module.config
    settings = config.stash[SETTINGS_KEY]
    station, telling = config.stash[LANE].station, Messenger(config)
    cases = _cases_of_requests(module, station)
    kept = {name: Folder(config.stash[RESULTS] / "tests" / slug(case.nodeid)) for name, case in cases.items()}
    failed = module.stash.get(CONCURRENT_FAILURE, None)
    begun = {failed.name} if failed else set()

    def judge(requests: Requests, name: str) -> Sequence[Finding]:
        if name in kept and name not in begun:
            # It may have been started on a machine that was given up since.
            kept[name].clear()
            begun.add(name)
        with station.log.to(Sink(kept[name])) if name in kept else contextlib.nullcontext():
            return requests.judge(request(name))

    def on_failure(name: str, error: MachineryError) -> None:
        module.stash[CONCURRENT_FAILURE] = ConcurrentFailure(name=name, error=error)
        telling.line(f"{name} failed next to another case; it and all following cases run alone: {error}")

    upcoming, is_left = [] if failed else list(cases), functools.partial(leaves, config, station.place)
    pods = alike(pod, max(1, min(settings.parallel, len(upcoming))))
    with (
        contextlib.ExitStack() as closing,
        station.node.requests_of_each(pods, kubelet) as askers,
        concurrent_cases(askers, upcoming, judge, on_failure=on_failure, leaves=is_left) as ahead,
    ):
        for folder in kept.values():
            closing.callback(folder.close)
        for name in upcoming:
            if request(name).later:
                # It stays while the other cases are judged, so that nothing waits for it.
                kept[name].clear()
                begun.add(name)
                with station.log.to(Sink(kept[name])):
                    askers[0].stand(request(name))
        yield ahead.findings


def _cases_of_requests(module: pytest.Module, station: Station) -> dict[str, pytest.Function]:
    """The tests that have a request as their parameter, by its name."""
    return {
        str(item.callspec.params[_PARAMETER]): item
        for item in observable_tests(module, station)
        if _PARAMETER in getattr(item, "fixturenames", ())
    }


def observable_tests(module: pytest.Module, station: Station) -> Sequence[pytest.Function]:
    """The selected tests of a module, in order, as far as they run on this station's system.

    Cases whose claim needs what the node lacks are left out; each gets the reason when it is its turn.
    """
    settings, key = module.config.stash[SETTINGS_KEY], station.key
    return [
        item
        for item in module.session.items
        if item.getparent(pytest.Module) is module
        and isinstance(item, pytest.Function)
        and system_of(item, settings) == key
        and not any(station.node.why_not(need) for need in needs_of(item))
    ]


def alike(pod: Pod, number: int) -> Sequence[Pod]:
    """Copies of this pod (number >= 1 in all), each with a name and a uid of its own."""
    return [pod, *(another(pod, str(place)) for place in range(2, number + 1))]


def found_together(
    module: pytest.Module, name: str, verb: TogetherVerb, request: Callable[[str], RequestCase]
) -> Callable[[str], Sequence[Finding]]:
    """Returns the findings of a case by the name of its claim; the verb's event happens for the first one.

    name: of the verb. request: returns a request by its name. The event covers the cases of that verb in all selected
    tests of the module from then on, except those whose claim needs what the node lacks. Each keeps its readings in the
    folder of its own test, and the names of the cases that shared the event in together.json. MachineryError if that
    one case ended in it.
    """
    config = module.config
    station = config.stash[LANE].station
    tests = {case.name: item for item in observable_tests(module, station) if (case := _case(item, name)) is not None}
    outcomes: dict[str, Outcomes] = {}

    def findings(case: str) -> Sequence[Finding]:
        if case not in outcomes:
            order = [*tests]
            if case not in order:
                raise UsageError(f"no test of {module.path.name} has a case '{case}' for {name}.")
            chosen = order[order.index(case) :]
            folders = {one: Folder(config.stash[RESULTS] / "tests" / slug(tests[one].nodeid)) for one in chosen}
            for folder in folders.values():
                # It may have been started on a machine that was given up since.
                folder.clear()
                folder.write("together.json", {"waited": chosen})
            asked = {one: request(_request(tests[one])) for one in chosen}
            found = verb(asked, lambda one: station.log.to(Sink(folders[one])))
            outcomes.update(dict.fromkeys(found, found))
        return outcomes[case][case].result()

    return findings


def _case(item: pytest.Function, verb: str) -> Case | None:
    """The case that a test has as its parameter, None for another verb and for other tests."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("qos_case") if callspec is not None else None
    return case if isinstance(case, Case) and case.asks.verb == verb else None


def _request(item: pytest.Function) -> str:
    """The name of the request of a test's case."""
    case = item.callspec.params["qos_case"]
    assert isinstance(case, Case)  # noqa: S101 - it is one of those of `_case`
    return case.asks.request


@contextlib.contextmanager
def populated(
    config: pytest.Config, station: Station, pods: Sequence[Pod], kubelet: KubeletCase
) -> Iterator[Population]:
    """The pods on the station's node; plan, reading and requests are in populations/MACHINE-KUBELET."""
    telling = Messenger(config)
    folder = Folder(config.stash[RESULTS] / "populations" / slug(f"{station.id}-{kubelet.id}"), shared=True)
    name = f"kubelet {kubelet.id}: {len(pods)} pods"
    telling.start(name)
    began = SYSTEM_CLOCK.now()
    with station.log.to(Sink(folder)), station.node.admitted(pods, kubelet) as population:
        failed = len(population.failures)
        trouble = f", {failed} of them not" if failed else ""
        telling.line(f"{name} admitted{trouble} in {SYSTEM_CLOCK.now() - began:.0f} s")
        yield population


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a module's fixture triggers under one kubelet. claims: those of the tests that look at it."""

    claims: frozenset[str]

    def shows(self, *claims: str) -> bool:
        """Whether a selected test, whose claim is observable on this node, proves one of these ("chapter/name")."""
        return not self.claims.isdisjoint(claims)


def scene_of(module: pytest.Module, station: Station, kubelet: KubeletCase) -> Scene:
    """The scene of a module's tests under this kubelet."""
    tests = observable_tests(module, station)
    return Scene(claims=frozenset(claim_of(one) for one in tests if _kubelet(one, kubelet) == kubelet))


def _kubelet(item: pytest.Function, otherwise: KubeletCase) -> object:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("qos_kubelet", otherwise)
