"""The settings of pods' and containers' cgroups that no plan names, as populations judge them."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.translate.runtimes import TRIXIE
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.place.fake import FakePlace
from memqos.runtime.fake_cgroups import FakeCgroups
from tests.unit.node.asked import CATALOGUE, deviating

POD = CATALOGUE.pod("burstable")
CONTAINER, OF_POD, OTHER = "container", "pod", "other"

Change = Callable[[FakeCgroups, dict[str, CgroupPath]], None]


def judged(change: Change, driver: CgroupDriver = CgroupDriver.SYSTEMD, *, beside: bool = True) -> Sequence[Finding]:
    """The findings on the pod after this change, with a BestEffort pod on the node or not."""
    place = FakePlace()
    node = node_on(place, place.runtime(driver), recorder=NoRecorder(), driver=driver, runtimes=place.versions)
    pods = [POD, *([CATALOGUE.pod("best-effort")] if beside else [])]
    with node.admitted(pods, CATALOGUE.kubelet("v1.36-tiered")) as population:
        paths = {CONTAINER: population.path_of(POD, "app"), OF_POD: population.pods[POD.uid].planned.cgroup.path}
        paths |= {OTHER: population.path_of(pods[-1], "app")}
        change(place.cgroups, paths)
        return dataclasses.replace(population, reading=node.read(population)).judge_pod(POD)


def shows(where: str, name: str, text: str) -> Change:
    return lambda cgroups, paths: cgroups.show(paths[where], name, text)


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_as_a_right_runtime_leaves_them_they_are_one_finding_for_each_cgroup(driver: CgroupDriver) -> None:
    found = judged(lambda _cgroups, _paths: None, driver)
    assert {one.verdict for one in found} == {Verdict.CONFORMS}
    rest = [(str(one.subject), one.set_by) for one in found if one.knob == "unnamed settings"]
    assert rest == [
        ("pod default/burstable", Setter.KERNEL),
        ("container app of pod default/burstable", Setter.RUNTIME),
    ]


@pytest.mark.parametrize(
    ("where", "name", "text", "setter"),
    [
        (CONTAINER, "memory.zswap.max", "0\n", Setter.RUNTIME),
        (CONTAINER, "memory.zswap.writeback", "0\n", Setter.RUNTIME),
        (CONTAINER, "cgroup.pressure", "0\n", Setter.RUNTIME),
        (CONTAINER, "cpuset.cpus.partition", "root\n", Setter.RUNTIME),
        (CONTAINER, "cgroup.subtree_control", "memory\n", Setter.RUNTIME),
        (CONTAINER, "pids.max", "100\n", Setter.RUNTIME),
        (CONTAINER, "misc.max", "sev 3\n", Setter.RUNTIME),
        (OF_POD, "cgroup.pressure", "0\n", Setter.OTHER),
        (OF_POD, "pids.max", "2354\n", Setter.OTHER),
    ],
)
def test_each_that_was_written_is_found(where: str, name: str, text: str, setter: Setter) -> None:
    found = judged(shows(where, name, text))
    assert deviating(found) == {name}
    assert [one.set_by for one in found if one.verdict is Verdict.DEVIATES] == [setter]


def test_a_scope_has_systemds_defaults_and_a_folder_does_not() -> None:
    limits = shows(CONTAINER, "pids.max", "2354\n")
    assert deviating(judged(limits, CgroupDriver.SYSTEMD)) == set()
    assert deviating(judged(limits, CgroupDriver.CGROUPFS)) == {"pids.max"}


def new(text: str) -> Change:
    """A kernel with a setting that memqos does not know."""

    def change(cgroups: FakeCgroups, paths: dict[str, CgroupPath]) -> None:
        for path in (*paths.values(), paths[OTHER].parent):
            cgroups.show(path, "memory.tiers.max", "max\n")
        cgroups.show(paths[CONTAINER], "memory.tiers.max", text)

    return change


def test_an_unknown_file_is_compared_with_a_best_effort_container() -> None:
    assert deviating(judged(new("max\n"))) == set()
    [one] = [one for one in judged(new("0\n")) if one.verdict is Verdict.DEVIATES]
    assert (one.knob, one.expected, one.observed) == ("memory.tiers.max", "max", "0")


def test_without_such_a_container_it_is_not_judged() -> None:
    found = judged(new("0\n"), beside=False)
    assert deviating(found) == set()
    assert {one.evidence.get("not judged") for one in found if one.knob == "unnamed settings"} == {"memory.tiers.max"}


def test_a_pod_with_a_runtime_class_runs_on_the_runtime_under_test() -> None:
    """A run starts every pod with it, and judges the container by this runtime's rules."""
    place, driver = FakePlace(), CgroupDriver.SYSTEMD
    node = node_on(place, place.runtime(driver), recorder=NoRecorder(), driver=driver, runtimes=TRIXIE)
    pods = [CATALOGUE.pod("with-overhead"), CATALOGUE.pod("burstable")]
    assert pods[0].runtime_class_name == "with-overhead"
    with node.admitted(pods, CATALOGUE.kubelet("v1.36-tiered")) as population:
        found = [one for pod in pods for one in population.judge_pod(pod)]
    assert {one.verdict for one in found} == {Verdict.CONFORMS}
