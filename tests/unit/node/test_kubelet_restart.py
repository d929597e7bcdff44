"""The watch on the levels above pods while a kubelet restarts, on an in-memory node."""

import time

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.errors import EnactorNotAbleError, TargetError
from memqos.model.node import ReservationPolicy
from memqos.model.path import CgroupPath
from memqos.node.kubelet import protection_watched
from tests.unit.node.fakes import Bench, kubelet, pod

WEB = pod("web")
TIERED = {"memory_reservation_policy": ReservationPolicy.TIERED}
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice"


@pytest.fixture
def bench():
    return Bench()


def watch_on(bench, population):
    return protection_watched(bench.sampler, bench.node.tree.hierarchy, population.plan)


def watched(bench, population, *values):
    """What a watch finds while memory.low of the class is written, one value after another."""
    [path] = [one for one in bench.cgroups.snapshot() if str(one) == BURSTABLE]
    with watch_on(bench, population) as watch:
        for value in values:
            bench.cgroups.put(path, "memory.low", value)
            time.sleep(0.3)
    found = {(str(one.cgroup), one.knob): one for one in watch.stays()}
    assert found.keys() == {("/kubepods.slice", "memory.min"), (BURSTABLE, "memory.low")}
    assert found["/kubepods.slice", "memory.min"].verdict is Verdict.CONFORMS
    return found[BURSTABLE, "memory.low"]


def test_protection_that_stays_during_a_restart_conforms(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        assert watched(bench, population).verdict is Verdict.CONFORMS


@pytest.mark.parametrize(
    ("values", "observed"), [(["0", "33554432"], "0"), (["0"], "0"), (["4096", "0", "33554432"], "4096, 0")]
)
def test_protection_that_is_lost_during_a_restart_deviates_though_it_comes_back(bench, values, observed):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        found = watched(bench, population, *values)
    assert (found.verdict, found.expected, found.observed) == (Verdict.DEVIATES, "33554432", observed)
    assert str(found.subject) == "kubepods-burstable.slice, while the kubelet restarts"


def test_protection_of_a_class_that_is_removed_during_a_restart_deviates(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        with watch_on(bench, population) as watch:
            bench.cgroups.remove(CgroupPath.parse(BURSTABLE))
            time.sleep(0.3)
        [found] = [one for one in watch.stays() if one.cgroup == BURSTABLE]
    assert (found.verdict, found.observed) == (Verdict.DEVIATES, "no file")


def test_protection_that_was_wrong_before_a_restart_proves_nothing(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        watched(bench, population, "4096")
        found = watched(bench, population, "33554432")
    assert (found.verdict, found.why_not) == (Verdict.NOT_OBSERVABLE, "before the restart memory.low was 4096.")


def test_a_watch_over_a_restart_needs_a_configuration_that_protects(bench):
    with bench.node.admitted([WEB], kubelet("1.36")) as population:
        with watch_on(bench, population) as watch:
            pass
        with pytest.raises(EnactorNotAbleError, match="protects no QoS class"):
            watch.stays()


def test_a_watch_that_breaks_during_a_restart_is_an_error(bench):
    def is_lost(**_):
        raise TargetError("the machine is gone.")

    def watched_without_machine(population):
        with watch_on(bench, population):
            bench.sampler.opened[-1].next = is_lost
            time.sleep(0.3)

    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population, pytest.raises(TargetError, match="gone"):
        watched_without_machine(population)
