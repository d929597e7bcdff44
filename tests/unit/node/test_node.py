"""The verbs of the node under test, on fakes: order, failures, reuse, and the way back."""

import contextlib
import dataclasses
import threading
from concurrent.futures import Future

import pytest

from memqos.enactor.patience import Patience
from memqos.engine.answer.finding import Verdict, worst
from memqos.engine.releases.release import Variant
from memqos.engine.translate.versions import TRIXIE, Runtimes, traits_of
from memqos.errors import MachineError, MachineryError, RuntimeCallError, TargetError
from memqos.model.node import ReservationPolicy
from memqos.model.path import CgroupPath
from memqos.model.pod import QosClass
from memqos.model.quantity import Quantity
from memqos.node import NodeUnderTest
from memqos.node.tidying import Tidying
from memqos.node.vital import Vital
from memqos.place.fake_guest import FakeSampler
from tests.unit.node.fakes import FACTS, Bench, kubelet, pod


def test_pods_are_planned_enforced_started_read_and_judged():
    bench = Bench()
    web = pod("web")

    with bench.node.admitted([web], kubelet()) as population:
        findings = population.judge_pod(web)
        app = [finding for finding in findings if finding.subject == "container app of pod default/web"]
        values = {finding.knob: finding.observed for finding in app}

    assert worst(findings) is Verdict.CONFORMS
    # 32Mi + 0.9 * (64Mi - 32Mi) = 63753420.8, whole pages below it: 15564 * 4096
    assert values["memory.high"] == "63750144"
    assert values["memory.min"] == "33554432"
    assert values["memory.max"] == "67108864"
    assert worst(population.judge_class(QosClass.BURSTABLE)) is Verdict.CONFORMS
    assert worst(population.judge_node()) is Verdict.CONFORMS
    assert bench.planned_cgroups == []
    assert len(bench.log.plans) == 1
    assert len(bench.log.readings) == 1


def test_crun_keeps_containers_in_a_cgroup_below_their_scope():
    bench = Bench(runtimes=Runtimes(cri=traits_of("containerd", "1.7.24"), oci=traits_of("crun", "1.21")))
    job = pod("job", init=True)

    with bench.node.admitted([job], kubelet()) as population:
        findings = population.judge_pod(job)
        app = population.path_of(job, "app")

    assert (app.name, app.parent.name[:14], app.parent.name[-6:]) == ("container", "cri-containerd", ".scope")
    assert worst(findings) is Verdict.CONFORMS
    assert {finding.cgroup for finding in findings if finding.subject.startswith("container app")} == {str(app)}
    assert bench.planned_cgroups == []


def test_a_reserved_cgroup_that_exists_is_adopted_and_gets_its_values_back():
    """What a kubelet wants to be there already: /system.slice has processes, limits and an owner of its own."""
    bench = Bench()
    system = CgroupPath.parse("/system.slice")
    bench.cgroups.make(system)
    bench.cgroups.put(system, "memory.max", "1073741824")
    reserved = kubelet(
        system_reserved={"memory": Quantity.parse("100Mi")},
        system_reserved_cgroup="/system",
        enforce_node_allocatable=("pods", "system-reserved"),
    )
    web = pod("web")

    with bench.node.admitted([web], reserved) as population:
        assert worst(population.judge_node()) is Verdict.CONFORMS
        assert bench.cgroups.text(system, "memory.max") == "104857600\n"

    assert bench.cgroups.text(system, "memory.max") == "1073741824\n"


def test_init_containers_run_first_and_are_read_while_they_run():
    bench = Bench()
    job = pod("job", init=True)

    with bench.node.admitted([job], kubelet()) as population:
        findings = population.judge_pod(job)

    init = [finding for finding in findings if finding.subject.startswith("container init")]
    assert {finding.verdict for finding in init} == {Verdict.CONFORMS}
    assert [handle.name for handle in bench.runtime.handles.values()] == ["init", "app"]


def test_an_init_container_that_fails_keeps_its_pod_from_starting():
    bench = Bench()
    bench.runtime.init_exit_code = 3
    job, web = pod("job", init=True), pod("web")

    with bench.node.admitted([job, web], kubelet()) as population:
        with pytest.raises(MachineryError, match="the init container 'init' ended with 3"):
            population.judge_pod(job)
        assert worst(population.judge_pod(web)) is Verdict.CONFORMS
        assert [admitted.pod.name for admitted in population.failures] == ["job"]


def test_a_pod_that_cannot_start_is_an_error_of_its_own_tests_only():
    bench = Bench()
    bench.runtime.broken = {"bad"}
    bad, good = pod("bad"), pod("good")

    with bench.node.admitted([bad, good], kubelet()) as population:
        for _ in range(2):
            with pytest.raises(RuntimeCallError, match="no sandbox for bad"):
                population.judge_pod(bad)
        assert worst(population.judge_pod(good)) is Verdict.CONFORMS

    assert bench.planned_cgroups == []


def test_after_three_pods_that_failed_alike_the_rest_of_a_population_is_not_tried():
    bench = Bench()
    pods = [pod(name) for name in "abcdef"]
    bench.runtime.hanging = set("abcdef")

    with bench.node.keeping_pods():
        with bench.node.admitted(pods, kubelet()) as population:
            assert bench.runtime.asked == ["a", "b", "c"]
            told = [admitted.failure.what for admitted in population.failures]
        assert told == ["the runtime hangs."] * 3 + ["as before: the runtime hangs."] * 3
        with bench.node.admitted(pods, kubelet()) as population:
            # The machine is the same, so that one attempt tells that nothing has changed.
            assert bench.runtime.asked == ["a", "b", "c", "a"]
            assert len(population.failures) == 6
        bench.runtime.hanging = set()
        with bench.node.admitted(pods, kubelet()) as population:
            assert population.failures == ()


def test_the_next_machine_gets_one_attempt_where_the_one_before_had_them_all():
    patience = Patience(longest=180)
    asked = []
    for _ in range(2):
        bench = Bench(patience=patience)
        bench.runtime.hanging = set("abcdef")
        with bench.node.admitted([pod(name) for name in "abcdef"], kubelet()) as population:
            assert len(population.failures) == 6
        asked.append(bench.runtime.asked)
    assert asked == [["a", "b", "c"], ["a"]]


def test_failures_that_are_not_in_a_row_are_each_tried():
    bench = Bench()
    bench.runtime.hanging = {"a", "b", "d", "e"}

    with bench.node.admitted([pod(name) for name in "abcdef"], kubelet()) as population:
        assert len(population.failures) == 4
        assert not [one for one in population.failures if "as before" in one.failure.what]


@pytest.mark.parametrize("disposable", [True, False])
@pytest.mark.parametrize("outcome", [pytest.skip, pytest.fail, pytest.xfail])
def test_a_test_that_is_over_while_its_pods_stand_leaves_none(disposable, outcome):
    bench = Bench(disposable=disposable)
    stood = []

    def end_while_pods_stand():
        with bench.node.admitted([pod("web")], kubelet()):
            stood.extend(bench.planned_cgroups)
            outcome("nothing can be said of it")

    with pytest.raises(outcome.Exception):
        end_while_pods_stand()
    assert stood
    assert not bench.planned_cgroups


@pytest.mark.parametrize("disposable", [True, False])
def test_an_interrupt_waits_for_a_runtime_that_hangs_only_where_pods_must_be_removed(monkeypatch, disposable):
    bench = Bench(disposable=disposable)
    asked, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def hang(spec, *, deadline):
        asked.set()
        goes_on.wait(20 if disposable else 1)
        ended.set()
        raise RuntimeCallError("the runtime hung.")

    def interrupted(future):
        asked.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.runtime, "run_sandbox", hang)
    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt), bench.node.admitted([pod("web")], kubelet()):
        pytest.fail("nothing may be admitted")

    assert ended.is_set() is not disposable
    goes_on.set()


def test_removing_is_not_tried_for_ever_either(monkeypatch):
    bench = Bench()
    asked = []

    def hang(sandbox, *, deadline):
        asked.append(sandbox.id)
        raise RuntimeCallError("the runtime hangs.")

    with (
        pytest.raises(RuntimeCallError, match=r"the runtime hangs\."),
        bench.node.admitted([pod(name) for name in ("one", "two", "three", "four", "five")], kubelet()),
    ):
        monkeypatch.setattr(bench.runtime, "remove_sandbox", hang)
    assert len(asked) == 3


def test_a_value_that_the_kernel_refuses_is_machinery_and_leaves_nothing_behind():
    bench = Bench()
    bench.agent.refused = "kubepods-burstable.slice"

    with pytest.raises(TargetError, match="could not make the cgroup"), bench.node.admitted([pod("web")], kubelet()):
        pytest.fail("nothing may be admitted")

    assert bench.planned_cgroups == []


def test_an_error_in_the_test_removes_everything_and_stays_the_error():
    bench = Bench()

    with pytest.raises(ValueError, match="the test"), bench.node.admitted([pod("web")], kubelet()):
        raise ValueError("the test")

    assert bench.planned_cgroups == []


def test_kept_sandboxes_are_used_again_and_hold_nothing_of_the_plan_before():
    bench = Bench()
    web = pod("web")
    tiered = kubelet("1.36", memory_reservation_policy=ReservationPolicy.TIERED)
    none = kubelet("1.36", memory_reservation_policy=ReservationPolicy.NONE)

    with bench.node.keeping_pods():
        for case in (kubelet("1.27"), tiered, none, kubelet("1.22", throttling_factor=None)):
            with bench.node.admitted([web], case) as population:
                findings = [*population.judge_pod(web), *population.judge_class(QosClass.BURSTABLE)]
                assert [f for f in findings if f.verdict is not Verdict.CONFORMS] == []

    assert bench.runtime.sandboxes == ["web"]
    assert bench.planned_cgroups == []


def test_a_sandbox_is_killed_with_its_containers_and_only_where_it_is_removed():
    bench, web = Bench(), pod("web")
    other = kubelet("1.22", throttling_factor=None)

    with bench.node.keeping_pods():
        for case in (kubelet("1.27"), other):
            with bench.node.admitted([web], case) as population:
                admitted = population.pods[web.uid]
            if case is not other:
                first = admitted.containers["app"].id
        assert bench.killed == [first]
        last, sandbox = admitted.containers["app"].id, admitted.sandbox.id
    assert bench.killed == [first, last, sandbox]


def test_a_container_that_is_made_again_has_a_log_of_its_own():
    """Runtimes append: a watch would take what the container before it reported for its own."""
    bench, web, logs = Bench(), pod("web"), []

    for _ in range(2):
        with bench.node.admitted([web], kubelet()) as population:
            logs.append(population.pods[web.uid].containers["app"].log_path)

    assert len(set(logs)) == 2
    assert all("/app-" in log and log.endswith(".log") for log in logs)


def test_containers_are_made_anew_unless_the_runtime_would_be_asked_for_the_same():
    bench = Bench()
    web, best = pod("web", init=True), pod("best", request="", limit="")
    documented = dataclasses.replace(kubelet("1.27"), variant=Variant.DOCUMENTED)

    with bench.node.keeping_pods():
        with bench.node.admitted([web, best], kubelet("1.27")) as population:
            before = population.ids
        # Only BestEffort has another memory.high where the enhancement and the kubelet differ.
        with bench.node.admitted([web, best], documented) as population:
            after = population.ids
            assert worst(population.judge_pod(web)) is Verdict.CONFORMS
            assert worst(population.judge_pod(best)) is Verdict.CONFORMS

    assert {key for key in before if before[key] == after[key]} == {("uid-web", "init"), ("uid-web", "app")}
    assert before["uid-best", "app"] != after["uid-best", "app"]
    assert bench.planned_cgroups == []


def test_a_pod_whose_place_changes_gets_a_new_sandbox():
    bench = Bench()

    with bench.node.keeping_pods():
        with bench.node.admitted([pod("web")], kubelet()):
            pass
        with bench.node.admitted([pod("web", request="", limit="")], kubelet()) as population:
            assert worst(population.judge_pod(pod("web"))) is Verdict.CONFORMS

    assert bench.runtime.sandboxes == ["web", "web"]


def test_a_pod_that_failed_does_not_keep_its_sandbox():
    bench = Bench()
    bench.runtime.init_exit_code = 1
    job = pod("job", init=True)

    with bench.node.keeping_pods():
        with bench.node.admitted([job], kubelet()) as population:
            assert population.failures
        bench.runtime.init_exit_code = 0
        with bench.node.admitted([job], kubelet()) as population:
            assert not population.failures

    assert bench.runtime.sandboxes == ["job", "job"]


def test_pods_are_bound_to_a_zone_through_the_runtime():
    bench = Bench()

    with bench.node.admitted([pod("web")], kubelet(), zone=1) as population:
        path = population.path_of(pod("web"), "app")
        assert bench.cgroups.text(path, "cpuset.mems") == "1\n"


def test_a_broken_machine_is_told_instead_of_what_follows_from_it():
    bench = Bench()
    broken = MachineError("QEMU ended with status 1.")
    state: list[MachineError] = []

    def check_alive() -> None:
        if state:
            raise state[0]

    node = NodeUnderTest(
        target=bench.target,
        runtime=bench.runtime,
        enactor=bench.enactor,
        sampler=FakeSampler(bench.cgroups, bench.target),
        facts=Bench().node._facts,
        recorder=bench.log,
        vital=Vital(check=check_alive),
    )

    def lose_it() -> None:
        with node.admitted([pod("web")], kubelet()):
            state.append(broken)
            raise TargetError("the connection is lost.")

    with pytest.raises(MachineError, match="QEMU ended with status 1") as told:
        lose_it()
    assert told.value is broken


@pytest.mark.parametrize("is_broken", [True, False])
def test_what_is_left_as_it_is_is_not_touched_and_fails_nobody(is_broken, monkeypatch):
    """On a machine that broke, tidying up could only fail again, in the name of whatever is tested next."""
    bench = Bench()
    node = NodeUnderTest(
        target=bench.target,
        runtime=bench.runtime,
        enactor=bench.enactor,
        sampler=FakeSampler(bench.cgroups, bench.target),
        facts=bench.node._facts,
        recorder=bench.log,
        tidying=Tidying(leaves=lambda: is_broken),
    )

    def gone(*_, **__):
        raise TargetError("the connection is lost.")

    ending = contextlib.nullcontext() if is_broken else pytest.raises(TargetError, match="the connection is lost")
    with ending, node.keeping_pods(), node.admitted([pod("web")], kubelet()):
        monkeypatch.setattr(bench.runtime, "stop", gone)
        monkeypatch.setattr(bench.runtime, "remove_sandbox", gone)

    assert bench.runtime.handles


class Wish:
    """Whether somebody may want to look at the pods, and whether somebody does."""

    def __init__(self):
        self.may, self.does = True, False
        self.bench = Bench()
        self.node = NodeUnderTest(
            target=self.bench.target,
            runtime=self.bench.runtime,
            enactor=self.bench.enactor,
            sampler=FakeSampler(self.bench.cgroups, self.bench.target),
            facts=self.bench.node._facts,
            recorder=self.bench.log,
            tidying=Tidying(leaves=lambda: self.does, lingers=lambda: self.may),
        )

    @property
    def pods(self):
        return len(self.bench.runtime._sandboxes)


def test_pods_linger_until_the_node_is_used_again():
    wish = Wish()
    with wish.node.admitted([pod("web")], kubelet()):
        pass
    assert wish.pods == 1
    with wish.node.admitted([pod("db"), pod("cache")], kubelet()):
        assert wish.pods == 2
    assert wish.pods == 2
    assert wish.node.leftovers() == ()
    assert wish.pods == 0


def test_pods_that_somebody_wants_to_look_at_stay():
    """A test is told to have failed after its pods' context has ended, by an error or without one."""
    wish = Wish()
    with pytest.raises(AssertionError), wish.node.admitted([pod("web")], kubelet()):
        raise AssertionError
    wish.may, wish.does = False, True
    wish.node.leftovers()
    assert wish.pods == 1


def test_pods_that_stand_between_populations_linger_with_them():
    wish = Wish()
    with wish.node.keeping_pods():
        with wish.node.admitted([pod("web")], kubelet()):
            pass
        with wish.node.admitted([pod("web"), pod("db")], kubelet()):
            pass
    assert wish.pods == 2
    with wish.node.keeping_pods():
        assert wish.pods == 0


@pytest.mark.parametrize(
    ("facts", "need", "why"),
    [
        ({}, "swap", ""),
        ({}, "zones", ""),
        ({}, "psi", ""),
        ({}, "unified", ""),
        ({"pressure": False}, "psi", "the kernel does not measure the pressure of cgroups"),
    ],
)
def test_what_a_node_lacks_has_a_reason(facts, need, why):
    assert Bench(**facts).node.why_not(need) == why


@pytest.mark.parametrize(
    ("oci", "version", "why"),
    [
        ("runc", "1.1.15", "fake keeps no containers below a scope without protection"),
        ("crun", "1.17", ""),
        ("crun", "1.18", "fake keeps no containers below a scope without protection"),
    ],
)
def test_scopes_are_bare_below_an_old_crun(oci, version, why):
    node = Bench(runtimes=Runtimes(cri=TRIXIE.cri, oci=traits_of(oci, version))).node
    assert node.why_not("bare scope") == why
    other = "" if why else "fake keeps containers below a scope without protection"
    assert node.why_not("no bare scope") == other


def test_a_small_node_lacks_swap_and_zones():
    node = Bench(node=dataclasses.replace(FACTS, swap=0, zones=FACTS.zones[:1])).node

    assert node.why_not("swap") == "the machine has no swap"
    assert node.why_not("zones") == "the machine has one NUMA zone"


@pytest.mark.parametrize(
    ("need", "topology"),
    [
        ("swap", "two-zones"),
        ("small swap", "small-swaps"),
        ("zones", "two-zones"),
        ("far zone", "far-memory"),
        ("three zones", "four-zones"),
    ],
)
def test_a_machine_of_our_own_says_the_topology_that_would_do(need, topology):
    small = dataclasses.replace(FACTS, swap=0, zones=FACTS.zones[:1])
    there, own = Bench(node=small).node, Bench(node=small, disposable=True).node

    assert own.why_not(need) == f"{there.why_not(need)}: try --topology {topology}"
    assert "topology" not in there.why_not(need)


def test_a_cgroup_path_is_the_runtimes_for_the_container():
    bench = Bench()
    with bench.node.admitted([pod("web")], kubelet()) as population:
        path = population.path_of(pod("web"), "app")

    assert path.parent == CgroupPath.parse(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_web.slice"
    )
    assert path.name.startswith("cri-containerd-")
