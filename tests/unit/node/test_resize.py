"""A resize on a node in memory, and the findings if a step fails."""

import dataclasses

import pytest

from memqos.engine.answer.finding import Verdict, worst
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import EnactorNotAbleError, RuntimeCallError, UsageError
from memqos.model.cri import ContainerResources
from memqos.model.node import ReservationPolicy, SwapBehavior
from memqos.model.pod import Pod, ResizePolicy
from memqos.node.pods.resize import with_resources_of
from memqos.runtime.base import ContainerHandle
from tests.unit.engine.pods import container
from tests.unit.node.fakes import Bench, kubelet

TIERED = {"memory_reservation_policy": ReservationPolicy.TIERED}


def sized(one, other, **more):
    """A pod of two containers, each with a request and a limit in MiB."""
    containers = (
        container({"memory": f"{request}Mi"}, {"memory": f"{limit}Mi"}, name=name, **more)
        for name, (request, limit) in (("one", one), ("other", other))
    )
    return Pod(name="web", uid="11111111", containers=tuple(containers))


SMALL, LARGE, SHIFTED = sized((32, 64), (16, 48)), sized((48, 96), (24, 64)), sized((40, 80), (8, 32))


def resized(before, after, *, release="1.36", bench=None):
    bench = bench or Bench()
    under = kubelet(release, **TIERED)
    with bench.node.admitted([before], under) as population:
        return bench.node.resize(population, before, under, to=after)


@pytest.mark.parametrize(
    ("release", "after", "steps"),
    [
        # The pod's limit grows, with a sandbox update before or after, and both containers; 1.37.0 writes requests too.
        ("1.33", LARGE, 4),
        ("1.36", LARGE, 4),
        ("1.37", LARGE, 4),
        ("1.35", SHIFTED, 2),
        ("1.37", SHIFTED, 2),
    ],
)
def test_every_step_conforms(release, after, steps):
    found = resized(SMALL, after, release=release)
    assert worst(found.judge()) is Verdict.CONFORMS
    assert len(found.moments) == steps
    # Each time the pod and both of its containers.
    assert len({str(one.subject) for one in found.judge() if "after step" in str(one.subject)}) == 3 * steps


@pytest.mark.parametrize("above", [True, False])
def test_the_levels_above_are_judged_unless_they_are_left_out(above):
    bench, under = Bench(), kubelet("1.36", **TIERED)
    with bench.node.admitted([SMALL], under) as population:
        found = bench.node.resize(population, SMALL, under, to=LARGE, above=above).judge()
    assert any(str(one.subject) == "kubepods-burstable.slice" for one in found) is above
    assert len({str(one.subject) for one in found if "step" in str(one.subject)}) == 4 * 3


def test_the_pods_limit_grows_before_its_containers():
    found = resized(SMALL, LARGE).judge()
    limits = [
        (str(one.subject), one.observed) for one in found if one.knob == "memory.max" and "step" in str(one.subject)
    ]
    pod, one = ([text for subject, text in limits if subject.startswith(name)] for name in ("pod", "container one"))
    # 112Mi, then 160Mi from the write on, which follows the runtime's call; 64Mi, then 96Mi.
    assert pod == ["117440512", "167772160", "167772160", "167772160"]
    assert one == ["67108864", "67108864", "100663296", "100663296"]


class ForgetsAPage:
    """A runtime that sets memory.max one page too low in updates."""

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline) -> None:
        wrong = dataclasses.replace(resources, memory_limit_in_bytes=resources.memory_limit_in_bytes - 4096)
        super().update(container, wrong, deadline=deadline)  # type: ignore[misc]


def test_a_limit_one_page_off_deviates_from_its_step_on():
    bench = Bench()
    bench.runtime.__class__ = type("Wrong", (ForgetsAPage, bench.runtime.__class__), {})
    deviating = [one for one in resized(SMALL, LARGE, bench=bench).judge() if one.verdict is Verdict.DEVIATES]
    assert {one.knob for one in deviating} == {"memory.max"}
    assert [str(one.subject).partition(",")[0] for one in deviating] == [
        "container one of pod default/web",
        "container one of pod default/web",
        "container other of pod default/web",
    ]
    assert deviating[0].expected == "100663296"
    assert deviating[0].observed == "100659200"


def test_a_container_that_does_not_survive_deviates():
    bench = Bench()
    update = bench.runtime.update

    def ends_it(container: ContainerHandle, resources: ContainerResources, *, deadline) -> None:
        update(container, resources, deadline=deadline)
        bench.runtime.finish(container, exit_code=137, reason="OOMKilled")

    bench.runtime.update = ends_it
    found = resized(SMALL, sized((48, 96), (16, 48)), bench=bench).judge()
    assert [(str(one.subject), one.observed) for one in found if one.verdict is Verdict.DEVIATES] == [
        ("container one of pod default/web", "exited (OOMKilled)")
    ]


def test_restart_policy_recreates_the_container():
    policy = {"memory": ResizePolicy.RESTART_CONTAINER}
    before, after = (sized(*sizes, resize_policy=policy) for sizes in (((32, 64), (16, 48)), ((48, 96), (16, 48))))
    bench = Bench()
    found = resized(before, after, bench=bench)
    assert worst(found.judge()) is Verdict.CONFORMS
    assert [str(one.subject) for one in found.running] == ["container other of pod default/web"]
    assert [handle.name for handle in bench.runtime.handles.values()] == ["one", "other", "one"]


def test_up_to_131_files_are_written_past_systemd():
    bench = Bench()
    under = kubelet("1.30", feature_gates={"InPlacePodVerticalScaling": True})
    with bench.node.admitted([SMALL], under) as population:
        found = bench.node.resize(population, SMALL, under, to=LARGE)
    writes = [one.step for one in found.moments if one.step.message is None]
    assert [one.past_driver for one in writes] == [True]
    assert worst(found.judge()) is Verdict.CONFORMS


def test_what_the_kubelet_does_not_do_is_not_observable():
    with pytest.raises(EnactorNotAbleError, match="does not carry the resize out: Deferred"):
        resized(SMALL, sized((3000, 3000), (3000, 3000)))


def test_a_resize_that_the_configuration_excludes_is_not_observable_and_another_is_done():
    """Kubelets resize no memory request of a container that may swap (1.33 and later)."""
    bench = Bench()
    swapping = kubelet("1.36", swap_behavior=SwapBehavior.LIMITED, **TIERED)
    with (
        bench.node.admitted([SMALL], swapping) as population,
        pytest.raises(EnactorNotAbleError, match="Infeasible, In-place resize of containers with swap"),
    ):
        bench.node.resize(population, SMALL, swapping, to=LARGE)
    under = swapping.without_swap()
    with bench.node.admitted([SMALL], under) as population:
        assert worst(bench.node.resize(population, SMALL, under, to=LARGE).judge()) is Verdict.CONFORMS


def test_a_change_that_is_no_resize_is_a_usage_error():
    with pytest.raises(UsageError, match="does not carry this resize out: Unchanged"):
        resized(SMALL, SMALL)


def test_an_unknown_pod():
    bench = Bench()
    under = kubelet("1.36", **TIERED)
    with bench.node.admitted([SMALL], under) as population:
        pass
    with pytest.raises(UsageError, match="'web' is not on the node"):
        bench.node.resize(population, SMALL, under, to=LARGE)


def test_sizes_are_taken_by_the_containers_names():
    assert with_resources_of(SMALL, LARGE).containers[0].resources == LARGE.containers[0].resources
    with pytest.raises(UsageError, match="containers of 'web' are not those"):
        with_resources_of(SMALL, dataclasses.replace(LARGE, containers=LARGE.containers[:1]))


@pytest.mark.parametrize(("code", "raised"), [("UNIMPLEMENTED", False), ("UNKNOWN", True)])
def test_a_runtime_without_sandbox_updates(code, raised):
    bench = Bench(runtimes=TRIXIE)

    def answers(*_: object, **__: object) -> None:
        raise RuntimeCallError("no.", data={"method": "UpdatePodSandboxResources", "code": code, "details": "no"})

    bench.runtime.update_sandbox = answers
    if raised:
        with pytest.raises(RuntimeCallError):
            resized(SMALL, LARGE, bench=bench)
    else:
        assert worst(resized(SMALL, LARGE, bench=bench).judge()) is Verdict.CONFORMS


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((("1.27", {}), ("1.36", TIERED))),
        ((("1.36", TIERED), ("1.36", {"memory_reservation_policy": ReservationPolicy.NONE}))),
    ],
)
def test_a_resize_after_a_takeover_keeps_the_first_kubelets_values(first, second):
    """The first kubelet's values of the pod and of its containers stay, except those that the resize writes."""
    bench = Bench()
    before, later = (kubelet(release, **settings) for release, settings in (first, second))
    with bench.node.admitted([SMALL], before) as population:
        restarted = bench.node.restart_kubelet(population, later)
        resized = bench.node.resize(restarted, SMALL, later, to=LARGE)
    found = resized.judge()
    assert [(one.cgroup, one.knob, one.expected) for one in found if one.verdict is Verdict.DEVIATES] == []
    assert [one for one in found if one.knob == "memory.max"]
