"""Verbs about a real kubelet's evictions, on an in-memory node: right kubelets conform, wrong ones are found."""

import json
from fractions import Fraction

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import EnactorNotAbleError
from memqos.model.node import ReservationPolicy
from memqos.node.eviction import EvictionVerbs
from tests.unit.node.fakes import Bench, kubelet, pod

OVER, WITHIN = pod("over", "16Mi", ""), pod("within")
TIERED = {"memory_reservation_policy": ReservationPolicy.TIERED}
RUNNING, EVICTED = {"phase": "Running"}, {"phase": "Failed", "reason": "Evicted"}
MIB = 1 << 20


class Answers:
    """A kubelet's answers. phases: by pod name. available: bytes of the node; each answer is 15 seconds later."""

    def __init__(self, phases=None, available=1 << 30):
        self.phases, self.available, self.looks = phases or {}, available, 0

    def objects(self, version, resource):
        assert (version, resource) == ("v1", "pods")
        return [{"metadata": {"uid": one.uid}, "status": self.phases.get(one.name, RUNNING)} for one in (OVER, WITHIN)]

    def fetched(self, url, *, seconds):
        assert url.endswith("/stats/summary")
        assert seconds > 0
        minutes, seconds = divmod(15 * self.looks, 60)
        self.looks += 1
        time = f"2026-11-29T20:{minutes:02}:{seconds:02}Z"
        return json.dumps({"node": {"memory": {"time": time, "availableBytes": self.available}}})


@pytest.fixture
def bench():
    return Bench()


def verbs(bench, population, **told):
    return EvictionVerbs(
        answers=Answers(**told),
        tree=bench.node.tree,
        population=population,
        seconds=8.0,
        every=0.01,
    )


@pytest.mark.parametrize(("phase", "verdict"), [(RUNNING, Verdict.CONFORMS), (EVICTED, Verdict.DEVIATES)])
def test_a_pod_above_its_memory_high_must_run_on(bench, phase, verdict):
    with bench.node.admitted([WITHIN], kubelet("1.36", **TIERED)) as population:
        bench.cgroups.show(population.path_of(WITHIN, "app"), "memory.events", "low 0\nhigh 7\nmax 0\n")
        [found] = verbs(bench, population, phases={"within": phase}).nothing_at_high()
    assert (found.verdict, found.observed) == (verdict, " ".join(phase.values()))


@pytest.mark.parametrize(
    ("events", "settings", "told", "why"),
    [
        ("high 0\n", TIERED, {}, "came above its memory.high in time"),
        ("high 7\n", {"throttling_factor": Fraction(1)}, {}, "no container has a memory.high"),
        ("high 7\n", TIERED, {"available": 100 << 20}, "less memory available than its eviction threshold"),
    ],
)
def test_a_look_that_shows_nothing_of_memory_high_is_not_observable(bench, events, settings, told, why):
    with bench.node.admitted([WITHIN], kubelet("1.36", **settings)) as population:
        path = population.path_of(WITHIN, "app")
        bench.cgroups.show(path, "memory.events", events)
        if "throttling_factor" in settings:
            bench.cgroups.put(path, "memory.high", "max")
        eviction = verbs(bench, population, **told)
        with pytest.raises(EnactorNotAbleError, match=why):
            (short(eviction) if events == "high 0\n" else eviction).nothing_at_high()


def used(bench, population, kills=0, **anon):
    bench.cgroups.show(population.plan.node.path, "memory.events", f"low 0\noom 0\noom_kill {kills}\n")
    for one in (OVER, WITHIN):
        bench.cgroups.show(population.path_of(one, "app"), "memory.stat", f"anon {anon[one.name]}\nfile 0\n")


RIGHT = {"phases": {"over": EVICTED}, "kills": 3, "over": 0, "within": 48 * MIB}
"""After a right kubelet's eviction."""


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        ({}, []),
        # Each of two CPUs may charge 64 pages ahead.
        ({"within": 48 * MIB - (512 << 10)}, []),
        ({"phases": {}}, ["phase of pod default/over"]),
        ({"phases": {"over": {"phase": "Failed", "reason": "Error"}}}, ["phase of pod default/over"]),
        ({"phases": {"over": EVICTED, "within": EVICTED}}, ["phase of pod default/within"]),
        ({"kills": 4}, ["memory.events oom_kill of kubepods.slice"]),
        ({"within": 40 * MIB}, ["memory.stat anon of container app of pod default/within"]),
    ],
)
def test_the_pod_over_its_request_is_evicted_and_nothing_else_happens(bench, after, wrong):
    after = {**RIGHT, **after}
    phases = after.pop("phases")
    with bench.node.admitted([OVER, WITHIN], kubelet("1.36", **TIERED)) as population:
        used(bench, population, kills=3, over=256 * MIB, within=48 * MIB)
        before = verbs(bench, population).before(OVER, uses="256Mi")
        assert before.threshold == (1 << 30) + 96 * MIB
        used(bench, population, **after)
        eviction = verbs(bench, population, phases=phases)
        found = (eviction if phases else short(eviction)).only(OVER, before)
    assert [f"{one.knob} of {one.subject}" for one in found if one.verdict is Verdict.DEVIATES] == wrong
    assert len(found) == 4


def short(eviction):
    """The same verbs, with less patience."""
    return EvictionVerbs(
        answers=eviction.answers,
        tree=eviction.tree,
        population=eviction.population,
        seconds=0.0,
        every=0.01,
    )


def test_a_pod_that_does_not_use_its_memory_shows_nothing(bench):
    with bench.node.admitted([OVER, WITHIN], kubelet("1.36", **TIERED)) as population:
        used(bench, population, over=MIB, within=48 * MIB)
        with pytest.raises(EnactorNotAbleError, match="over did not come to use 256Mi in time"):
            short(verbs(bench, population)).before(OVER, uses="256Mi")


def test_the_threshold_is_the_kubelets(bench):
    """Written as bytes in evictionHard."""
    case = kubelet("1.36", **TIERED).with_eviction(1 << 30)
    assert bench.node.kubelet(case).settings.eviction_hard == {"memory.available": "1073741824"}


def test_without_a_kubelet_evictions_are_not_observable(bench):
    with (
        bench.node.admitted([WITHIN], kubelet("1.36", **TIERED)) as population,
        pytest.raises(EnactorNotAbleError, match="give --kubelet-binary PATH"),
    ):
        bench.node.eviction_verbs(population)
