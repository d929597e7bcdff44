"""The contract of the enactor port: the kubelet stand-in, the observer, the fake, and adapters with one fault."""

import contextlib
import dataclasses

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.base import Order
from memqos.enactor.contract import EnactorCase, check_enactor_contract
from memqos.enactor.fake import FakeEnactment, FakeKubelet
from memqos.enactor.observer import ObservedPods, Observer
from memqos.engine.answer.finding import Setter
from memqos.engine.answer.verdict import judged_files
from memqos.engine.resize import resize_pods
from memqos.model.knob import Knob
from memqos.model.node import ReservationPolicy
from memqos.model.path import ROOT
from tests.unit.node.fakes import Bench, kubelet, pod

TIERED = {"memory_reservation_policy": ReservationPolicy.TIERED}
WEB, OTHER = pod("web"), pod("other", "16Mi", "48Mi")
LARGER = dataclasses.replace(WEB, containers=pod("web", "64Mi", "96Mi").containers)


def case_on(bench, enactor, pods=(WEB, OTHER), **changes):
    """An enactor on the bench's cgroups. Its plans differ in all that memory QoS writes."""
    tree = CgroupTree(bench.target, bench.cgroups.hierarchy)
    under, older = kubelet("1.36", **TIERED), kubelet("1.27")
    files = judged_files(tree.hierarchy.version)
    fields = {
        "enactor": enactor,
        "order": Order(kubelet=bench.node.kubelet(under), plan=bench.node.plan(pods, under), pods=pods),
        "other": Order(kubelet=bench.node.kubelet(older), plan=bench.node.plan(pods, older), pods=pods),
        "resized": resize_pods(pods, [LARGER], bench.node.kubelet(under)),
        "desired": LARGER,
        "read": lambda: tree.read_cgroups(bench.cgroups.below([ROOT]), files, deadline=Deadline.after(10)),
    }
    return EnactorCase(**{**fields, **changes})


def check(bench, enactor, **changes):
    check_enactor_contract(lambda: contextlib.nullcontext(case_on(bench, enactor, **changes)))


def test_memqos_in_the_kubelets_place():
    bench = Bench()
    check(bench, bench.enactor)


def test_memqos_in_the_kubelets_place_where_a_pod_does_not_come_up():
    bench = Bench()
    bench.runtime.broken = {"other"}
    check(bench, bench.enactor, broken="other")


def test_the_fake_kubelet():
    bench = Bench()
    check(bench, FakeKubelet(bench.cgroups))
    check(bench, FakeKubelet(bench.cgroups, broken=["other"]), broken="other")


@contextlib.contextmanager
def standing_already(bench, kind):
    """An observer on a machine whose pods a kubelet in memory started."""
    case = case_on(bench, None, other=None)
    made = FakeKubelet(bench.cgroups).begin("before")
    made.bring(case.order)
    made.admit(case.order, appears=lambda _: None)
    enactor = kind(lambda: [one for admitted in made.pods.values() for one in admitted.containers.values()])
    yield dataclasses.replace(case, enactor=enactor)
    made.clear()


def test_an_observer_finds_existing_pods_and_writes_nothing():
    check_enactor_contract(lambda: standing_already(Bench(), Observer))


class Careless(FakeKubelet):
    """A fake kubelet with one fault."""

    fault = ""

    def begin(self, name):  # noqa: ARG002
        enactment = _CarelessEnactment(self, self.cgroups, self.broken)
        enactment.fault = self.fault
        return enactment

    def why_not(self, ability):
        return "it cannot" if self.fault == f"says that it cannot {ability}" else super().why_not(ability)

    def leftovers(self):
        return [ROOT] if self.fault == "leaves something over" else []


class _CarelessEnactment(FakeEnactment):
    fault = ""

    def bring(self, order):
        if self.fault != "keeps the first plan" or not self.made:
            super().bring(order)

    def admit(self, order, *, appears):
        told = {
            "tells of no pod": lambda _: None,
            "tells of pods twice": lambda pod: [appears(pod), appears(pod)],
        }.get(self.fault, appears)
        admitted = super().admit(order, appears=told)
        first = next(iter(admitted.values()))
        if self.fault == "forgets a pod":
            del admitted[first.planned.uid]
        if self.fault == "forgets a container":
            first.containers.clear()
        if self.fault == "hides a failure":
            for one in admitted.values():
                one.failure = None
        if self.fault == "forgets what it admitted":
            return dict.fromkeys(admitted, dataclasses.replace(first))
        return admitted

    def make(self, cgroup, path):
        super().make(cgroup, path)
        if self.fault == "writes something else" and cgroup.pod and not cgroup.container:
            self.cgroups.put(path, Knob.MEMORY_MAX, "4096")

    def resize(self, plan, resize, desired, *, after, above=True):
        if self.fault == "resizes without a word":
            after = str
        super().resize(plan, resize, desired, after=after, above=above)
        if self.fault == "resizes to something else":
            self.cgroups.put(plan.after.pod(resize.uid).cgroup.path, Knob.MEMORY_MAX, "4096")

    def clear(self):
        if self.fault == "leaves its cgroups":
            self.made.clear()
        super().clear()


@pytest.mark.parametrize(
    ("fault", "promise"),
    [
        ("keeps the first plan", "what was enacted shows as planned"),
        ("writes something else", "what was enacted shows as planned, and not memory.max of pod"),
        ("forgets a pod", "every pod of the plan is admitted"),
        ("tells of no pod", "each pod that comes up appears, and once"),
        ("tells of pods twice", "each pod that comes up appears, and once"),
        ("says that it cannot resize", "an enactor that resizes does not say that it cannot"),
        ("says that it cannot reconcile", "an enactor that reconciles does not say that it cannot"),
        ("forgets a container", "all containers that it was planned with"),
        ("forgets what it admitted", "it reports the pods that it admitted last"),
        ("resizes without a word", "every step of a resize is reported"),
        ("resizes to something else", "what was enacted shows as planned"),
        ("leaves its cgroups", "the place is as it was before"),
        ("leaves something over", "nothing is left over"),
    ],
)
def test_a_broken_adapter_gets_the_promise_it_breaks(fault, promise):
    bench = Bench()
    careless = Careless(bench.cgroups)
    careless.fault = fault

    with pytest.raises(AssertionError, match=promise):
        # A second plan would run into what is left of the first.
        check(bench, careless, **{"other": None} if fault == "leaves its cgroups" else {})


def test_a_hidden_failure_breaks_a_promise():
    bench = Bench()
    careless = Careless(bench.cgroups, broken=["other"])
    careless.fault = "hides a failure"

    with pytest.raises(AssertionError, match="a pod that fails reports it"):
        check(bench, careless, broken="other")


def test_a_runtime_is_no_enactor():
    bench = Bench()
    kind = type("Wrong", (FakeKubelet,), {"setter": Setter.RUNTIME})

    with pytest.raises(AssertionError, match="the setter is a kubelet or stands in for one"):
        check(bench, kind(bench.cgroups))


def test_an_observer_that_writes_breaks_a_promise():
    bench = Bench()

    class Meddling(Observer):
        def begin(self, name):
            bench.cgroups.put(bench.node.plan([WEB], kubelet("1.36", **TIERED)).node.path, Knob.MEMORY_HIGH, "4096")
            return super().begin(name)

    with pytest.raises(AssertionError, match=r"as it was before|shows as planned"):
        check_enactor_contract(lambda: standing_already(bench, Meddling))


def test_an_observer_that_resizes_half_breaks_a_promise():
    bench = Bench()

    class Half(ObservedPods):
        def resize(self, plan, resize, desired, *, after, above=True):
            after(resize.steps[0])
            super().resize(plan, resize, desired, after=after, above=above)

    class Resizing(Observer):
        def begin(self, name):  # noqa: ARG002
            return Half(self)

    with pytest.raises(AssertionError, match="does none of it"):
        check_enactor_contract(lambda: standing_already(bench, Resizing))
