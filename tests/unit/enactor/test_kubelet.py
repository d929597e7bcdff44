"""The enactor that is a kubelet, with a stand-in for the kubelet: its input, and its pods."""

import contextlib
import dataclasses
import json
import subprocess

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.base import Steering
from memqos.enactor.contract import EnactorCase, check_enactor_contract
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.succession import succession
from memqos.engine.answer.verdict import judged_files
from memqos.engine.plan import Refusal
from memqos.engine.releases.release import Variant
from memqos.engine.resize import resize_pods
from memqos.errors import EnactorNotAbleError
from memqos.model.knob import Knob
from memqos.model.node import ReservationPolicy
from memqos.model.path import ROOT
from memqos.model.quantity import Quantity
from memqos.node.behaviour.watch import kubelets_refusal
from memqos.runtime.base import Mount
from tests.unit.enactor.kubelets import LARGER, OTHER, TIERED, WEB, enactor_on, order_of, wrong_files
from tests.unit.node.fakes import Bench, kubelet, pod

CLASSES = ("besteffort", "burstable")


def test_a_kubelet_gets_everything_the_plan_was_made_of():
    """The stand-in plans from the files and objects alone, so a field lost on the way is a wrong value."""
    bench = Bench()
    order = order_of(bench)
    with enactor_on(bench) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
        assert [one.failure for one in admitted.values()] == [None, None]
        assert not wrong_files(bench, order, admitted)
        assert {one.sandbox.id for one in admitted.values()} == {f"sandbox-{WEB.uid}", f"sandbox-{OTHER.uid}"}


@pytest.mark.parametrize(
    ("level", "knob"),
    [
        ("/kubepods.slice", Knob.MEMORY_MIN),
        ("/kubepods.slice/kubepods-burstable.slice", Knob.MEMORY_LOW),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{WEB.uid.replace('-', '_')}.slice",
            Knob.MEMORY_MAX,
        ),
    ],
)
def test_a_kubelet_that_writes_one_level_wrong_is_found_with_its_level_and_knob(level, knob):
    bench = Bench()
    order = order_of(bench)

    def wrong(path, written, text):
        return "8192" if (str(path), written) == (level, knob) else text

    with enactor_on(bench, wrong=wrong) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
        found = wrong_files(bench, order, admitted)
        assert (level, knob) in found
        assert {name for name, _ in found} == {level}


def test_the_port_s_contract():
    bench = Bench()
    with enactor_on(bench) as enactor:
        tree = CgroupTree(bench.target, bench.cgroups.hierarchy)
        files = judged_files(tree.hierarchy.version)
        order = order_of(bench)
        case = EnactorCase(
            enactor=enactor,
            order=order,
            other=order_of(bench, memory_reservation_policy=ReservationPolicy.NONE),
            resized=resize_pods((WEB, OTHER), [LARGER], bench.node.kubelet(kubelet("1.36", **TIERED))),
            desired=LARGER,
            keeps=frozenset({"/kubepods.slice", *(f"/kubepods.slice/kubepods-{one}.slice" for one in CLASSES)}),
            read=lambda: tree.read_cgroups(bench.cgroups.below([ROOT]), files, deadline=Deadline.after(10)),
        )
        check_enactor_contract(lambda: contextlib.nullcontext(case))


def test_a_pod_that_the_kubelet_rejects_has_its_reason_and_the_other_runs():
    bench = Bench()
    order = order_of(bench)
    with enactor_on(bench, refuses={"other": "UnexpectedAdmissionError"}) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
    assert admitted[WEB.uid].failure is None
    assert "UnexpectedAdmissionError" in str(admitted[OTHER.uid].failure)


def test_the_runtime_is_given_a_network_so_that_the_node_becomes_ready():
    """Without one a kubelet asks the runtime ten times a second for its first two minutes."""
    bench = Bench()
    with enactor_on(bench):
        network = json.loads(bench.target.take("/etc/cni/net.d/99-memqos.conflist"))
        plugin = bench.target.take("/opt/cni/bin/memqos")
    assert (network["name"], [one["type"] for one in network["plugins"]]) == ("memqos", ["memqos"])
    answer = subprocess.run(["sh"], input=plugin, capture_output=True, check=True).stdout
    assert network["cniVersion"] in json.loads(answer)["supportedVersions"]


def test_objects_are_read_again_only_where_they_have_changed():
    bench = Bench()
    services = [{"metadata": {"namespace": "default", "name": name}, "spec": {"port": 1}} for name in ("a", "b", "c")]

    def ports():
        return {one["metadata"]["name"]: one["spec"]["port"] for one in enactor.session.objects("v1", "services")}

    with enactor_on(bench) as enactor:
        session, sent = enactor.session, []
        assert ports() == {}
        session.put("v1", "services", services)
        assert ports() == {"a": 1, "b": 1, "c": 1}
        session.put(
            "v1", "services", [services[1] | {"spec": {"port": 2}}, {"metadata": {"name": "a"}, "spec": {"port": 3}}]
        )
        assert [one["spec"]["port"] for one in session.objects("v1", "services")] == [1, 2, 1, 3]
        asked = session.order
        session.order = lambda *words, **more: sent.append(answer := asked(*words, **more)) or answer
        session.put("v1", "services", [services[2] | {"spec": {"port": 4}}])
        assert [one["spec"]["port"] for one in session.objects("v1", "services")] == [1, 2, 4, 3]
        assert [one["metadata"]["name"] for one in sent[-1]["items"]] == ["c"]
        session.objects("v1", "services")
        assert sent[-1]["items"] == []


def test_a_kubelet_that_starts_none_of_its_pods_is_given_no_more():
    """It took 4 minutes for each four of them, and a chapter of 17 pods seemed to hang."""
    bench = Bench()
    pods = [pod(f"web{number}") for number in range(7)]
    order = order_of(bench, pods=pods)
    with enactor_on(bench, mute=True) as enactor:
        enactor.pod_seconds = 0.3
        enacted = enactor.begin("test")
        enacted.bring(order)
        admitted = enacted.admit(order, appears=lambda _: None)
        given = [one["metadata"]["name"] for one in enactor.session.objects("v1", "pods")]
    assert given == ["web0", "web1", "web2", "web3"]
    assert {"not in time: all containers have been started" in str(one.failure) for one in admitted.values()} == {True}


def test_the_next_pod_is_given_when_one_has_started():
    """Four are started at a time; three that hang do not hold up the others, and fail alone."""
    bench = Bench()
    pods = [pod(f"web{number}") for number in range(8)]
    order = order_of(bench, pods=pods)
    appeared = []
    with enactor_on(bench, hangs=("web0", "web2", "web3")) as enactor:
        enactor.pod_seconds = 6.0
        enacted = enactor.begin("test")
        enacted.bring(order)
        admitted = enacted.admit(order, appears=lambda planned: appeared.append(planned.name))
    failed = {one.planned.name: str(one.failure) for one in admitted.values() if one.failure is not None}
    assert set(failed) == {"web0", "web2", "web3"}
    assert all("not in time: all containers have been started" in why for why in failed.values())
    assert appeared == ["web1", "web4", "web5", "web6", "web7"]


def test_after_the_kubelet_has_stopped_starting_pods_no_more_are_given():
    bench = Bench()
    pods = [pod(f"web{number}") for number in range(12)]
    order = order_of(bench, pods=pods)
    hanging = tuple(one.name for one in pods[1:])
    with enactor_on(bench, hangs=hanging) as enactor:
        enactor.pod_seconds = 2.0
        enacted = enactor.begin("test")
        enacted.bring(order)
        admitted = enacted.admit(order, appears=lambda _: None)
        given = [one["metadata"]["name"] for one in enactor.session.objects("v1", "pods")]
    assert len(given) < len(pods)
    assert {one.planned.name for one in admitted.values() if one.failure is not None} == set(hanging)


def test_a_machine_too_small_for_a_pod_makes_the_case_not_observable():
    bench = Bench()
    order = order_of(bench)
    with enactor_on(bench, refuses={"other": "OutOfcpu"}) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        with pytest.raises(EnactorNotAbleError, match=r"pod default/other: .*OutOfcpu"):
            pods.admit(order, appears=lambda _: None)


def test_rules_that_no_kubelet_follows_are_not_for_a_kubelet():
    bench = Bench()
    order = order_of(bench)
    drafted = dataclasses.replace(order, kubelet=dataclasses.replace(order.kubelet, variant=Variant.DRAFT))
    with enactor_on(bench) as enactor, pytest.raises(EnactorNotAbleError, match="variant 'draft'"):
        enactor.begin("test").bring(drafted)


def test_a_case_of_another_release_is_not_for_this_kubelet():
    bench = Bench()
    with enactor_on(bench) as enactor, pytest.raises(EnactorNotAbleError, match=r"is 1\.36.*about 1\.27"):
        enactor.begin("test").bring(order_of(bench, "1.27", memory_reservation_policy=None))


def test_pods_run_on_where_another_kubelet_succeeds():
    bench = Bench()
    order = order_of(bench)
    none = order_of(bench, memory_reservation_policy=ReservationPolicy.NONE)
    with enactor_on(bench) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        before = {uid: one.containers["app"].id for uid, one in pods.admit(order, appears=lambda _: None).items()}
        # That plan is of new pods, which these are not: it is waited for in vain.
        enactor.levels_seconds = 0.5
        pods.bring(dataclasses.replace(none, succeeds=True))
        assert {uid: one.containers["app"].id for uid, one in pods.pods.items()} == before
        pods.bring(none)
        assert not pods.pods


def test_unsupported_orders_are_not_observable():
    """It places containers and sums pods by itself: another plan would make its files wrong."""
    bench = Bench()
    with enactor_on(bench) as enactor:
        node = bench.node_with(enactor)
        under = kubelet("1.36", **TIERED)
        own = "carries out its own plan alone"
        with pytest.raises(EnactorNotAbleError, match=own):
            node.admitted([WEB], under, numa_node=0)
        with pytest.raises(EnactorNotAbleError, match=own):
            node.plan([WEB], under, before=[OTHER])
        with pytest.raises(EnactorNotAbleError, match=own):
            node.plan([WEB, OTHER], under, others={OTHER.uid: under})
        halved = node.watched_pods([WEB], under, rests_on=[Knob.MEMORY_MIN], halved=True)
        with pytest.raises(EnactorNotAbleError, match=own):
            halved.__enter__()
        assert node.plan([WEB], under).pods


def test_a_healthy_kubelet_is_waited_for_until_it_has_written_the_levels():
    bench = Bench()
    order = order_of(bench)
    none = order_of(bench, memory_reservation_policy=ReservationPolicy.NONE)
    plan = succession(order.plan, none.plan)
    with enactor_on(bench, late=1.0) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        pods.admit(order, appears=lambda _: None)
        succeeding = dataclasses.replace(none, plan=plan, succeeds=True)
        pods.bring(succeeding)
        assert not [path for path, _ in wrong_files(bench, succeeding, pods.pods) if "-poduid" not in path]


def test_a_container_that_never_ran_is_the_failure_of_its_pod():
    bench = Bench()
    order = order_of(bench)
    with enactor_on(bench, cannot_start="StartError") as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
    assert "the container 'app' could not be started: StartError" in str(admitted[WEB.uid].failure)


def test_the_next_kubelet_finds_no_values_of_the_previous():
    """1.27 writes memory.min of the burstable class, which 1.36 never writes."""
    bench = Bench()
    gate = {"feature_gates": {"MemoryQoS": True}}
    before, later = order_of(bench, "1.27", **gate), order_of(bench, **TIERED, **gate)
    with enactor_on(bench, binaries={27: "kubelet-1.27", 36: "kubelet-1.36"}) as enactor:
        for order in (before, later):
            pods = enactor.begin("test")
            pods.bring(order)
            admitted = pods.admit(order, appears=lambda _: None)
            assert not wrong_files(bench, order, admitted)
            pods.clear()


STATIC = {
    "memory_manager_policy": "Static",
    "system_reserved": {"memory": Quantity.parse("100Mi"), "cpu": Quantity.parse("100m")},
    "reserved_memory": ((0, {"memory": Quantity.parse("100Mi")}), (1, {"memory": Quantity.parse("100Mi")})),
}


def test_the_next_policy_does_not_find_the_checkpoint_of_the_previous():
    """A kubelet ends at once if the checkpoint is of another policy; where pods run on, that is its own affair."""
    bench = Bench()
    memory, cpu, pods_state = (
        f"/var/lib/kubelet/{one}_state" for one in ("memory_manager", "cpu_manager", "actuated_pods")
    )

    def left():
        return {bench.target.read(one, deadline=Deadline.after(5)) for one in (memory, cpu, pods_state)}

    with enactor_on(bench) as enactor:
        pods = enactor.begin("test")
        pods.bring(order_of(bench))
        for one in (memory, cpu, pods_state):
            bench.target.put(one, b"None")
        none = order_of(bench, pods=(), memory_reservation_policy=ReservationPolicy.NONE)
        pods.bring(dataclasses.replace(none, succeeds=True))
        assert left() == {b"None"}
        pods.bring(order_of(bench, **STATIC))
        assert left() == {b""}


THIRD = pod("third", "8Mi", "40Mi")


def test_a_pod_that_the_next_order_wants_as_it_is_goes_on_running_beside_a_new_one():
    bench = Bench()
    first, second = order_of(bench), order_of(bench, pods=(OTHER, THIRD))
    with enactor_on(bench) as enactor:
        pods = enactor.begin("test")
        pods.bring(first)
        before = dict(pods.admit(first, appears=lambda _: None))
        appeared = []
        enactor.runtime.uids.append(THIRD.uid)
        pods.bring(second)
        after = pods.admit(second, appears=appeared.append)
        assert not wrong_files(bench, second, after)
        assert after[OTHER.uid].containers == before[OTHER.uid].containers
        assert sorted(one.name for one in appeared) == ["other", "third"]
        assert enactor.runtime.removed == [f"sandbox-{WEB.uid}"]
        pods.clear()
        assert not enactor.session.objects("v1", "pods")
        assert sorted(enactor.runtime.removed) == [f"sandbox-{one.uid}" for one in (OTHER, THIRD, WEB)]


ENDED = {"containerStatuses": [{"name": "app", "state": {"terminated": {}}}]}
WITH_MOUNT = Steering(volumes=(Mount(host_path="/there", container_path="/here"),))


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"pods": (OTHER, LARGER)}, {}),
        ({"steering": WITH_MOUNT}, {}),
        ({}, ENDED),
    ],
)
def test_a_pod_that_has_ended_or_is_to_be_otherwise_is_started_again(change, status):
    bench = Bench()
    first = order_of(bench)
    second = order_of(bench, pods=(*change.get("pods", (WEB, OTHER)), THIRD))
    second = dataclasses.replace(second, steering=change.get("steering", second.steering))
    with enactor_on(bench) as enactor:
        pods = enactor.begin("test")
        pods.bring(first)
        before = {uid: dict(one.containers) for uid, one in pods.admit(first, appears=lambda _: None).items()}
        item = next(one for one in enactor.session.objects("v1", "pods") if one["metadata"]["uid"] == WEB.uid)
        enactor.session.put("v1", "pods", [{**item, "status": item["status"] | status}])
        pods.bring(second)
        assert WEB.uid not in pods.pods
        after = pods.admit(second, appears=lambda _: None)
        assert not wrong_files(bench, second, after)
        assert before.keys() <= after.keys()


@pytest.mark.parametrize(
    ("changes", "verdict", "observed"),
    [
        ({"refuses": {"third": "UnexpectedAdmissionError"}}, Verdict.CONFORMS, "refused: UnexpectedAdmissionError"),
        ({"refuses": {"third": "OutOfmemory"}}, Verdict.DEVIATES, "refused: OutOfmemory"),
        ({}, Verdict.DEVIATES, "admitted"),
        ({"hangs": ["third"]}, Verdict.DEVIATES, "phase 'Pending'"),
    ],
)
def test_a_pod_that_the_plan_refuses_is_given_to_the_kubelet(changes, verdict, observed):
    bench = Bench()
    order = order_of(bench)
    refusal = Refusal(
        pod=THIRD.uid, reason_name="UnexpectedAdmissionError", message="no room", reason=bench_reason(order)
    )
    plan = dataclasses.replace(order.plan, refusals=(refusal,))
    with enactor_on(bench, **changes) as enactor:
        enactor.pod_seconds = 1.0 if "hangs" in changes else enactor.pod_seconds
        pods = enactor.begin("test")
        order = dataclasses.replace(order, plan=plan, pods=(WEB, THIRD, OTHER))
        pods.bring(order)
        pods.admit(order, appears=lambda _: None)
        items = enactor.session.objects("v1", "pods")
    assert [one["metadata"]["name"] for one in items] == ["web", "other", "third"]
    found = kubelets_refusal(plan, THIRD, items, "UnexpectedAdmissionError", "TopologyAffinityError")
    assert (found.verdict, found.observed, found.set_by) == (verdict, observed, Setter.KUBELET)


def bench_reason(order):
    """Any reason of a plan."""
    return next(one.reason for one in order.plan.node.knobs.values())


def test_pods_that_ended_are_part_of_a_plan_only_where_a_kubelet_keeps_the_others():
    bench = Bench()
    with enactor_on(bench) as enactor:
        node, under = bench.node_with(enactor), kubelet("1.36", memory_manager_policy="None")
        with pytest.raises(EnactorNotAbleError, match="carries out its own plan alone"):
            node.plan([OTHER], under, before=[WEB])
        with node.keeping_pods():
            assert [one.uid for one in node.plan([OTHER], under, before=[WEB]).pods] == [OTHER.uid]
