"""A wrong enactor: it carries out another plan than the given one, as a kubelet with other rules would.

The values are judged by the right plan. A deviation shows that the claims about pods, QoS classes and the node notice
such a kubelet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from memqos.catalog.kubelets import KubeletCase
from memqos.enactor.base import Ability, AdmittedPod, Enactment, Enactor, KubeletAnswers, Order
from memqos.enactor.registry import MEMQOS, Site, make_enactor
from memqos.engine.answer.finding import Setter
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedPod
from memqos.engine.resize import Resize, ResizePlan, ResizeStep
from memqos.engine.translate.requested_files import CRI_FIELDS
from memqos.errors import UnknownNameError
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import ContainerKind, Pod
from memqos.mutants.table import PlanChange, PlanFault

__all__ = ["Switch", "WrongEnactor", "wrong_plan"]


class Switch:
    """Holds the fault of an enactor, which changes from mutant to mutant. fault: the current one; empty for none.

    kubelets: the catalogue's, by id. acts: whether a plan that was carried out differed from the right one.
    """

    def __init__(self, kubelets: Mapping[str, KubeletCase]) -> None:
        self.fault = PlanFault()
        self.acts = False
        self.kubelets = kubelets

    def enactor(self, site: Site) -> WrongEnactor:
        """The kubelet stand-in with the switch's fault."""
        return WrongEnactor(make_enactor(MEMQOS, site), self)


class WrongEnactor:
    """Lets another enactor carry out a wrong plan."""

    def __init__(self, inner: Enactor, switch: Switch) -> None:
        self._inner = inner
        self._switch = switch

    @property
    def setter(self) -> Setter:
        """The setter of the inner enactor."""
        return self._inner.setter

    def why_not(self, ability: Ability) -> str:
        """As the other's."""
        return self._inner.why_not(ability)

    @property
    def releases(self) -> Sequence[str]:
        """As the other's."""
        return self._inner.releases

    def answers(self) -> KubeletAnswers:
        """As the other's."""
        return self._inner.answers()

    def begin(self, name: str) -> WrongEnactment:
        """Nothing yet."""
        return WrongEnactment(self._inner.begin(name), self._switch)

    def leftovers(self) -> Sequence[CgroupPath]:
        """As the other's."""
        return self._inner.leftovers()


class WrongEnactment:
    """The enactment of wrong plans."""

    def __init__(self, inner: Enactment, switch: Switch) -> None:
        self._inner = inner
        self._switch = switch
        self._first: Plan | None = None

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """As the other's."""
        return self._inner.pods

    def bring(self, order: Order) -> None:
        """Carry out the wrong plan; for a stale kubelet, the first plan again."""
        if self._first is None or not self._switch.fault.stale:
            self._first = self._wrong(order).plan
        self._compare(order.plan, self._first)
        self._inner.bring(replace(order, plan=self._first))

    def admit(self, order: Order, *, appears: Callable[[PlannedPod], None]) -> Mapping[str, AdmittedPod]:
        """Start the pods of the wrong plan."""
        wrong = self._wrong(order)
        self._compare(order.plan, wrong.plan)
        return self._inner.admit(wrong, appears=appears)

    def _wrong(self, order: Order) -> Order:
        return replace(order, plan=wrong_plan(order, self._switch.fault, self._switch.kubelets))

    def _compare(self, right: Plan, wrong: Plan) -> None:
        self._switch.acts = self._switch.acts or _written(right) != _written(wrong)

    def resize(
        self,
        plan: ResizePlan,
        resize: Resize,
        desired: Pod,
        *,
        after: Callable[[ResizeStep], None],
        above: bool = True,
    ) -> None:
        """As the other's."""
        self._inner.resize(plan, resize, desired, after=after, above=above)

    def reconcile(self, plan: Plan) -> None:
        """As the other's."""
        self._inner.reconcile(plan)

    def clear(self) -> None:
        """As the other's."""
        self._inner.clear()


def wrong_plan(order: Order, fault: PlanFault, kubelets: Mapping[str, KubeletCase]) -> Plan:
    """The plan of an order under a fault; pods keep the cgroup paths of the right plan.

    UnknownNameError for a kubelet that is not in the catalogue.
    """
    plan = order.plan
    if fault.kubelet or fault.factor:
        plan = expect(order.pods, _kubelet(order.kubelet, fault, kubelets))
    if fault.without:
        plan = _with_sums(plan, expect([*_without(order.pods, fault)], order.kubelet))
    for change in fault.change:
        plan = _changed(plan, change)
    return _renamed(plan) if fault.renamed else plan


def _written(plan: Plan) -> tuple[object, ...]:
    """All values of a plan, without their reasons."""
    files = [(one.path, {knob: found.written for knob, found in one.knobs.items()}) for one in plan.cgroups()]
    return files, [[one.oom_score_adj for one in pod.containers] for pod in plan.pods]


def _kubelet(kubelet: Kubelet, fault: PlanFault, kubelets: Mapping[str, KubeletCase]) -> Kubelet:
    settings, release, variant = kubelet.settings, str(kubelet.release), kubelet.variant
    if fault.kubelet:
        if fault.kubelet not in kubelets:
            raise UnknownNameError.of("kubelet", fault.kubelet, list(kubelets))
        case = kubelets[fault.kubelet]
        settings, release, variant = case.settings, case.release, case.variant
    if fault.factor:
        settings = replace(settings, throttling_factor=Fraction(fault.factor))
    return Kubelet.of(
        node=kubelet.node,
        settings=settings,
        release=release,
        driver=kubelet.driver,
        variant=variant,
        runtimes=kubelet.runtimes,
    )


def _without(pods: Sequence[Pod], fault: PlanFault) -> Iterator[Pod]:
    """The pods for a kubelet that ignores some of their fields."""
    for pod in pods[:1] if "last pods" in fault.without else pods:
        taken = pod
        for part in fault.without:
            taken = _TAKEN[part](taken) if part in _TAKEN else taken
        yield taken


def _of_kind(pod: Pod, *, sidecars: bool) -> Pod:
    kept = tuple(one for one in pod.init_containers if (one.kind is ContainerKind.SIDECAR) == sidecars)
    return replace(pod, init_containers=kept)


_TAKEN: Mapping[str, Callable[[Pod], Pod]] = {
    "init containers": lambda pod: _of_kind(pod, sidecars=True),
    "sidecars": lambda pod: _of_kind(pod, sidecars=False),
    "overhead": lambda pod: replace(pod, overhead={}),
    "second containers": lambda pod: replace(pod, containers=pod.containers[:1]),
}
"""A pod without some of its fields."""


def _with_sums(plan: Plan, other: Plan) -> Plan:
    """The plan with the other plan's values above containers."""
    pods = tuple(
        replace(pod, cgroup=replace(pod.cgroup, knobs=other.pod(pod.uid).cgroup.knobs)) if other.has(pod.uid) else pod
        for pod in plan.pods
    )
    return replace(plan, node=other.node, qos=other.qos, pods=pods)


def _changed(plan: Plan, change: PlanChange) -> Plan:
    knob = Knob(change.file)
    if change.do == "move":
        return _moved(plan, change.level, str(change.to), knob)

    def changed(cgroup: PlannedCgroup) -> PlannedCgroup:
        expected = cgroup.knobs.get(knob)
        if expected is None or (expected.written is ABSENT and change.do != "set"):
            return cgroup
        return replace(cgroup, knobs={**cgroup.knobs, knob: _other(expected, change)})

    return _at_level(plan, change.level, changed, knob)


def _other(expected: Expected, change: PlanChange) -> Expected:
    """Change a planned value."""
    knob = expected.knob
    if change.do == "drop":
        return replace(expected, written=ABSENT)
    if change.do == "set":
        return replace(expected, written=knob.parse(str(change.to)))
    text = str(expected.written)
    if not text.isdecimal():
        return expected
    to = int(str(change.to))
    amount = int(text) + to if change.do == "add" else int(text) * to // 100
    return replace(expected, written=knob.parse(str(max(_LEAST.get(knob, 0), amount))))


_LEAST: Mapping[Knob, int] = {Knob.CPU_WEIGHT: 1, Knob.CPU_SHARES: 2}
"""The least value that the kernel accepts, for files without 0."""


def _moved(plan: Plan, level: str, to: str, knob: Knob) -> Plan:
    """Move a value to all cgroups of another level."""
    values = [
        cgroup.knobs[knob]
        for cgroup in plan.cgroups()
        if _level_of(cgroup) == level and knob in cgroup.knobs and cgroup.knobs[knob].written is not ABSENT
    ]
    if not values:
        return plan
    gone = _at_level(plan, level, lambda one: replace(one, knobs=_with(one, knob, None)), knob)
    return _at_level(gone, to, lambda one: replace(one, knobs=_with(one, knob, values[0])), knob)


def _with(cgroup: PlannedCgroup, knob: Knob, value: Expected | None) -> Mapping[Knob, Expected]:
    held = cgroup.knobs.get(knob)
    if value is None:
        return {**cgroup.knobs, knob: replace(held, written=ABSENT)} if held is not None else cgroup.knobs
    return {**cgroup.knobs, knob: value}


def _level_of(cgroup: PlannedCgroup) -> str:
    return {"qos": "class", "kubepods": "node"}.get(cgroup.level.value, cgroup.level.value)


def _at_level(plan: Plan, level: str, change: Callable[[PlannedCgroup], PlannedCgroup], knob: Knob) -> Plan:
    """The plan with all cgroups of a level changed; the requests for containers follow."""
    if level == "node":
        return replace(plan, node=change(plan.node))
    if level == "class":
        return replace(plan, qos=tuple(map(change, plan.qos)))
    if level == "pod":
        return replace(plan, pods=tuple(replace(pod, cgroup=change(pod.cgroup)) for pod in plan.pods))
    pods = []
    for pod in plan.pods:
        containers = []
        for container in pod.containers:
            cgroup = change(container.cgroup)
            resources = _asked(container.resources, knob, cgroup.knobs.get(knob))
            containers.append(replace(container, cgroup=cgroup, resources=resources))
        pods.append(replace(pod, containers=tuple(containers)))
    return replace(plan, pods=tuple(pods))


def _asked(resources: ContainerResources, knob: Knob, expected: Expected | None) -> ContainerResources:
    """A container's request with the planned value of this file."""
    unified = {key: text for key, text in resources.unified.items() if key != knob}
    if expected is None or expected.written is ABSENT:
        return replace(resources, unified=unified, **{name: _NOT_ASKED[name] for name in _own_fields(knob)})
    unified[str(knob)] = str(expected.written)
    return replace(resources, unified=unified)


_NOT_ASKED: Mapping[str, Any] = dataclasses.asdict(ContainerResources())


def _own_fields(knob: Knob) -> Sequence[str]:
    """The fields of CRI that ask for this file, without those that ask for another one first: swap needs the limit."""
    fields = CRI_FIELDS.get(knob, ())
    first = {names[0] for names in CRI_FIELDS.values()}
    return [name for name in fields if name == fields[0] or name not in first]


def _renamed(plan: Plan) -> Plan:
    """The plan with renamed cgroups of QoS classes, so that their values do not reach the pods."""

    def renamed(cgroup: PlannedCgroup) -> PlannedCgroup:
        name, dot, kind = cgroup.path.name.partition(".")
        return replace(cgroup, path=cgroup.path.parent.child(f"{name}wrong{dot}{kind}"))

    return replace(plan, qos=tuple(map(renamed, plan.qos)))
