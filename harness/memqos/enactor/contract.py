"""The contract of the enactor port as a function, for memqos's adapters, the fake, and adapters of others.

def test_my_enactor() -> None:
    check_enactor_contract(my_case)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from memqos.enactor.base import Ability, Enactment, Enactor, Order
from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.plan import Plan, PlannedPod
from memqos.engine.resize import ResizePlan, ResizeStep
from memqos.errors import EnactorNotAbleError
from memqos.model.pod import Pod
from memqos.model.reading import Reading

__all__ = ["EnactorCase", "check_enactor_contract"]

_SETTERS = (Setter.MEMQOS, Setter.KUBELET)
"""The possible writers of the files above containers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnactorCase:
    """An enactor on a place with what the contract needs.

    order: with two pods at least; the pod named `broken` does not start ("" if all start). other: an order of the same
    pods with other values; None for an enactor that changes nothing. resized: a plan that resizes the first pod to
    `desired`. read: reads all files of all cgroups that may change. keeps: the cgroups above pods that stay from one
    plan to the next, as with a kubelet.
    """

    enactor: Enactor
    order: Order
    resized: ResizePlan
    desired: Pod
    read: Callable[[], Reading]
    other: Order | None = None
    broken: str = ""
    keeps: frozenset[str] = frozenset()


def check_enactor_contract(factory: Callable[[], AbstractContextManager[EnactorCase]]) -> None:
    """Check an adapter against the port's promises; AssertionError names the broken one."""
    with factory() as case:
        _promise(case.enactor.setter in _SETTERS, f"the setter is a kubelet or stands in for one: {_SETTERS}")
        before = _texts(case.read())
        enactment = case.enactor.begin("contract")
        try:
            _promise(not enactment.pods, "it begins with no pods")
            _makes_true(case, enactment, case.order)
            if case.other is not None:
                _makes_true(case, enactment, case.other)
                _makes_true(case, enactment, case.order)
            _reconciles_or_refuses(case, enactment)
            _resizes_or_refuses(case, enactment)
            _answers_or_refuses(case)
        finally:
            enactment.clear()
        _promise(not enactment.pods, "pods that were cleared away are no longer reported")
        after = {path: files for path, files in _texts(case.read()).items() if path not in case.keeps}
        _promise(after == before, "the place is as it was before, and every file holds what it held")
        _promise(not case.enactor.leftovers(), "nothing is left over")
        enactment.clear()


def _makes_true(case: EnactorCase, enactment: Enactment, order: Order) -> None:
    plan, appeared = order.plan, list[str]()

    def appears(pod: PlannedPod) -> None:
        _promise(pod.cgroup.path in case.read().cgroups, "a pod appears when its cgroup is there")
        appeared.append(pod.uid)

    enactment.bring(order)
    admitted = enactment.admit(order, appears=appears)
    up = {uid for uid, pod in admitted.items() if pod.failure is None}
    _promise(len(appeared) == len({*appeared}) and up <= {*appeared}, "each pod that comes up appears, and once")
    _promise(set(admitted) == {pod.uid for pod in plan.pods}, "every pod of the plan is admitted, and no other")
    _promise(dict(enactment.pods) == dict(admitted), "it reports the pods that it admitted last")
    for pod in admitted.values():
        name = pod.planned.name
        _promise(
            (pod.failure is not None) == (name == case.broken), f"a pod that fails reports it, and {name} does not"
        )
        if pod.failure is None:
            there, planned = set(pod.containers), {one.name for one in pod.planned.containers}
            _promise(there == planned, f"a pod that came up has all containers that it was planned with, not {there}")
            _promise(pod.sandbox is not None, "a pod that came up has a sandbox")
    _holds(case, enactment, plan)


def _holds(case: EnactorCase, enactment: Enactment, plan: Plan) -> None:
    """The cgroups of every started pod, and all above them, have the planned values."""
    reading, up = case.read(), [pod for pod in enactment.pods.values() if pod.failure is None]
    ids = {(pod.planned.uid, name): handle.id for pod in up for name, handle in pod.containers.items()}
    found = list(verdict.judge_node(plan, reading, enacted_by=case.enactor.setter))
    for pod in up:
        found += verdict.judge_pod(plan, pod.planned.uid, reading, enacted_by=case.enactor.setter, ids=ids)
    wrong = [f"{one.knob} of {one.subject}: {one.observed}" for one in found if one.verdict is not Verdict.CONFORMS]
    _promise(not wrong, f"what was enacted shows as planned, and not {'; '.join(wrong[:3])}")


def _reconciles_or_refuses(case: EnactorCase, enactment: Enactment) -> None:
    before = _texts(case.read())
    try:
        enactment.reconcile(case.order.plan)
    except EnactorNotAbleError:
        _promise(bool(case.enactor.why_not(Ability.RECONCILE)), "an enactor that refuses to reconcile says why")
    else:
        _promise(not case.enactor.why_not(Ability.RECONCILE), "an enactor that reconciles does not say that it cannot")
        _holds(case, enactment, case.order.plan)
    _promise(_texts(case.read()) == before, "reconciling what is right already changes nothing")


def _resizes_or_refuses(case: EnactorCase, enactment: Enactment) -> None:
    before, [resize], told = _texts(case.read()), case.resized.resizes, list[ResizeStep]()
    try:
        enactment.resize(case.resized, resize, case.desired, after=told.append)
    except EnactorNotAbleError:
        _promise(bool(case.enactor.why_not(Ability.RESIZE)), "an enactor that refuses to resize says why")
        _promise(_texts(case.read()) == before and not told, "an enactor that refuses to resize does none of it")
        return
    _promise(not case.enactor.why_not(Ability.RESIZE), "an enactor that resizes does not say that it cannot")
    last = tuple(resize.steps[-len(told) :]) if told else ()
    _promise(
        bool(told) and tuple(told) == last, "every step of a resize is reported after it was done, or the last ones"
    )
    _promise(enactment.pods[resize.uid].pod == case.desired, "a pod that was resized is reported with its new size")
    _holds(case, enactment, case.resized.after)


def _answers_or_refuses(case: EnactorCase) -> None:
    try:
        answers = case.enactor.answers()
    except EnactorNotAbleError:
        _promise(bool(case.enactor.why_not(Ability.ANSWER)), "an enactor that is no kubelet says so")
        return
    _promise(not case.enactor.why_not(Ability.ANSWER), "an enactor that answers does not say that it cannot")
    pods = {one["metadata"]["uid"] for one in answers.objects("v1", "pods")}
    _promise(pods == {pod.uid for pod in case.order.plan.pods}, "a kubelet reports the pods that it was given")


def _texts(reading: Reading) -> Mapping[str, Mapping[str, object]]:
    return {str(path): dict(cgroup.files) for path, cgroup in reading.cgroups.items()}


def _promise(kept: bool, promise: str) -> None:
    if not kept:
        raise AssertionError(f"the enactor port's contract is broken: {promise}")
