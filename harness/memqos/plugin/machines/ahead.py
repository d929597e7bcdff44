"""Requests of a module's tests, judged ahead of them: in which order, in which pods, and where their evidence goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pytest

from memqos.catalog.kubelets import KubeletCase
from memqos.catalog.requests import AnyRequestCase
from memqos.engine.answer.finding import Finding
from memqos.errors import MachineryError
from memqos.laboratory.evidence import Folder, Sink
from memqos.laboratory.station import Station
from memqos.model.pod import Pod
from memqos.node.pods.binding import another
from memqos.node.requests.ahead import ahead_of
from memqos.node.requests.requesting import Requests
from memqos.plugin.collection.citing import needs_of
from memqos.plugin.collection.collecting import system_of
from memqos.plugin.face.telling import Telling
from memqos.plugin.keys import FAILED_BESIDE, LANE, RESULTS, SETTINGS_KEY, FailedBeside
from memqos.plugin.machines.keeping import leaves
from memqos.report.words import slug

__all__ = ["alike", "asked_ahead", "observable_tests"]

_PARAMETER = "qos_request"


@contextlib.contextmanager
def asked_ahead(
    module: pytest.Module,
    pod: Pod,
    kubelet: KubeletCase,
    request: Callable[[str], AnyRequestCase],
) -> Iterator[Callable[[str], Sequence[Finding]]]:
    """Gives the findings of requests by name, which the module's tests have as their parameter `qos_request`.

    `memqos.node.requests.ahead` says how they are judged before they are asked for.
    As many cases are under way at a time as pods are started at a time, and one from where one failed beside another.
    Each keeps what it is judged by in the folder of its own test, whichever test runs just then. What a case looks at
    later is made before all others.
    """
    config = module.config
    settings = config.stash[SETTINGS_KEY]
    station, telling = config.stash[LANE].station, Telling(config)
    cases = {
        str(item.callspec.params[_PARAMETER]): item
        for item in observable_tests(module, station)
        if _PARAMETER in getattr(item, "fixturenames", ())
    }
    kept = {name: Folder(config.stash[RESULTS] / "tests" / slug(case.nodeid)) for name, case in cases.items()}
    failed = module.stash.get(FAILED_BESIDE, None)
    begun = {failed.name} if failed else set()

    def judge(requests: Requests, name: str) -> Sequence[Finding]:
        if name in kept and name not in begun:
            # It may have been begun on a machine that was given up then.
            kept[name].clear()
            begun.add(name)
        with station.log.to(Sink(kept[name])) if name in kept else contextlib.nullcontext():
            return requests.judge(request(name))

    def beside(name: str, error: MachineryError) -> None:
        module.stash[FAILED_BESIDE] = FailedBeside(name=name, error=error)
        telling.line(f"{name} failed beside another case, and is judged again alone, as what follows is: {error}")

    upcoming = [] if failed else list(cases)
    pods = alike(pod, max(1, min(settings.parallel, len(upcoming))))
    with (
        contextlib.ExitStack() as closing,
        station.node.asking_each(pods, kubelet, Requests) as askers,
        ahead_of(askers, upcoming, judge, beside=beside, leaves=lambda: leaves(config, station.place)) as ahead,
    ):
        for folder in kept.values():
            closing.callback(folder.close)
        for name in upcoming:
            if request(name).later:
                # It stands while the other cases are judged, so that nothing waits for it.
                kept[name].clear()
                begun.add(name)
                with station.log.to(Sink(kept[name])):
                    askers[0].stand(request(name))
        yield ahead.findings


def observable_tests(module: pytest.Module, station: Station) -> Sequence[pytest.Function]:
    """The tests of a module that were chosen, in their order, as far as they run on this station's system.

    Those are left out whose claim needs what the node has not got; when its turn comes, each is told what that is.
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
    """This pod and others like it (number >= 1 in all), each with a name and a uid of its own."""
    return [pod, *(another(pod, str(place)) for place in range(2, number + 1))]
