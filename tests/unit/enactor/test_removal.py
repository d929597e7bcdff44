"""How a kubelet's pods are removed: a few through it, many without it."""

import contextlib

import pytest

from memqos.errors import EnactorNotAbleError, RuntimeCallError
from tests.unit.enactor.kubelets import WEB, enactor_on, order_of, wrong_files
from tests.unit.node.fakes import Bench, pod


def test_many_pods_are_removed_without_the_kubelet_and_the_next_plan_finds_none_of_them():
    """Twenty pods took a kubelet on an emulated machine four minutes."""
    bench = Bench()
    many = [pod(f"web{number}", memory) for number, memory in enumerate(["16Mi"] * 7)]
    order, next_order = order_of(bench, pods=many), order_of(bench)
    with enactor_on(bench) as enactor:
        enactor.runtime.uids = [one.uid for one in many]
        enacted = enactor.begin("test")
        enacted.bring(order)
        admitted = enacted.admit(order, appears=lambda _: None)
        assert wrong_files(bench, order, admitted) == set()
        enacted.clear()
        assert enactor.session.config is None
        assert enactor.session.objects("v1", "pods") == []
        assert sorted(enactor.runtime.removed) == sorted(f"sandbox-{one.uid}" for one in many)
        assert enacted.pods == {}
        enacted.bring(next_order)
        again = enacted.admit(next_order, appears=lambda _: None)
        assert wrong_files(bench, next_order, again) == set()
        assert not [path for path in bench.cgroups.snapshot() if many[0].uid.replace("-", "_") in str(path)]


@pytest.mark.parametrize(("refusals", "is_removed"), [(3, True), (4, False)])
def test_a_sandbox_that_the_runtime_does_not_remove_at_once_is_tried_again(refusals, is_removed):
    bench = Bench()
    order = order_of(bench, pods=(WEB,))
    with enactor_on(bench) as enactor:
        enacted = enactor.begin("test")
        enacted.bring(order)
        enacted.admit(order, appears=lambda _: None)
        enactor.runtime.refusals = refusals
        with contextlib.nullcontext() if is_removed else pytest.raises(RuntimeCallError, match="being removed"):
            enacted.clear()
    assert enactor.runtime.removed == ([f"sandbox-{WEB.uid}"] if is_removed else [])


def test_a_few_pods_are_removed_through_the_kubelet():
    bench = Bench()
    order = order_of(bench)
    with enactor_on(bench) as enactor:
        enacted = enactor.begin("test")
        enacted.bring(order)
        enacted.admit(order, appears=lambda _: None)
        enacted.clear()
        assert enactor.session.config is not None
        assert enactor.session.objects("v1", "pods") == []


def test_the_sandbox_of_a_pod_that_did_not_start_is_removed_as_well():
    """A kubelet took the ended container in it for that of the next case's pod, which has the same uid."""
    bench = Bench()
    order = order_of(bench)
    with enactor_on(bench, refuses={"other": "OutOfmemory"}, hangs=["web"]) as enactor:
        enactor.runtime.uids = [WEB.uid]
        enacted = enactor.begin("test")
        enacted.bring(order)
        with pytest.raises(EnactorNotAbleError, match="OutOfmemory"):
            enacted.admit(order, appears=lambda _: None)
        assert enacted.pods[WEB.uid].sandbox is None
        enacted.clear()
    assert enactor.runtime.removed == [f"sandbox-{WEB.uid}"]
