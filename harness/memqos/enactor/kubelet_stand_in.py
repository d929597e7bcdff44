"""The kubelet stand-in: makes the cgroups that a kubelet makes, and sends the runtime the same requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.admission import Admission, patience_with_pods, refused_request, start_container, update_container
from memqos.enactor.base import Ability, AdmittedPod, KubeletAnswers, Order, Patience, not_able
from memqos.enforce.apply import Enforcement, find_leftovers
from memqos.engine.answer.finding import Setter
from memqos.engine.cgroup.layout import Layout
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedPod
from memqos.engine.resize import Resize, ResizePlan, ResizeStep, StepKind
from memqos.errors import RuntimeCallError
from memqos.model.knob import Absent, Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import Container, Pod, ResizePolicy
from memqos.runtime.base import Runtime

__all__ = ["KubeletStandIn"]

STEP_SECONDS = 60.0
_NO_KUBELET = "memqos is in the kubelet's place: give --kubelet-binary PATH and a CRI runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeSteps:
    """Performs the steps of a resize. rewrite: writes these knobs of a pod's cgroup, directly or through systemd."""

    runtime: Runtime
    rewrite: Callable[[PlannedCgroup, bool], None]

    def do(self, step: ResizeStep, admitted: AdmittedPod, desired: Pod) -> None:
        """Take one step towards the pod `desired`. MachineryError if it fails.

        If the runtime refuses a container's request, the pod's `refused` holds the refusal.
        """
        try:
            self._do(step, admitted, desired)
        except RuntimeCallError as error:
            update = step.kind is StepKind.UPDATE_CONTAINER
            if step.message is not None and (update or step.kind is StepKind.START_CONTAINER):
                admitted.refused = refused_request(
                    self.runtime,
                    admitted,
                    _container(desired, step),
                    step.message,
                    error,
                    update=update,
                    deadline=Deadline.after(STEP_SECONDS),
                )
            raise

    def _do(self, step: ResizeStep, admitted: AdmittedPod, desired: Pod) -> None:
        deadline = Deadline.after(STEP_SECONDS)
        match step.kind:
            case StepKind.POD_CGROUP:
                cgroup = dataclasses.replace(admitted.planned.cgroup, knobs=step.knobs)
                self.rewrite(cgroup, step.past_driver)
            case StepKind.UPDATE_CONTAINER:
                assert step.message is not None  # noqa: S101 - an update is a message
                update_container(self.runtime, admitted, step.container, step.message, deadline=deadline)
            case StepKind.UPDATE_SANDBOX:
                self._tell(step, admitted, deadline)
            case StepKind.STOP_CONTAINER:
                handle = admitted.containers[step.container]
                self.runtime.stop(handle, grace=0, deadline=deadline)
                self.runtime.remove(handle, deadline=deadline)
            case StepKind.START_CONTAINER:
                assert step.message is not None  # noqa: S101 - what it is started with
                start_container(self.runtime, admitted, _container(desired, step), step.message, deadline=deadline)

    def _tell(self, step: ResizeStep, admitted: AdmittedPod, deadline: Deadline) -> None:
        """Send the pod's size to the runtime; like the kubelet, ignore a runtime that does not implement the call."""
        assert step.message is not None  # noqa: S101
        assert admitted.sandbox is not None  # noqa: S101
        overhead = admitted.planned.sandbox_overhead
        try:
            self.runtime.update_sandbox(admitted.sandbox, overhead=overhead, resources=step.message, deadline=deadline)
        except RuntimeCallError as error:
            if error.data.get("code") != "UNIMPLEMENTED":
                raise


def _container(pod: Pod, step: ResizeStep) -> Container:
    """The pod's container that a step changes."""
    return next(one for one in pod.all_containers if one.name == step.container)


ENFORCE_SECONDS = 120.0


class StandInEnactment:
    """The cgroups and sandboxes of one plan after another.

    A suite runs the same pods under one kubelet after another, and making sandboxes and containers takes most of its
    time. So pods are kept from plan to plan. Their cgroups get the next plan's values and, unlike with a kubelet, the
    kernel's defaults in the files that the next plan leaves alone, so that no old value remains. Sandboxes stay.
    Containers are replaced unless all requests of their pod are the same as before.
    """

    def __init__(self, *, tree: CgroupTree, admission: Admission, name: str) -> None:
        self._admission = admission
        self._enforcement = Enforcement(tree, name=name)
        self._written: dict[CgroupPath, set[Knob]] = {}
        self._pods: dict[str, AdmittedPod] = {}

    def bring(self, order: Order) -> None:
        """Bring the node's cgroups to the order's plan.

        First removes pods that failed or are not in the plan, and the containers whose requests differ, or that were
        updated. A kubelet that takes over running pods updates containers instead (`engine.resize.takeover`).
        """
        if order.succeeds:
            for planned in order.plan.pods:
                if planned.uid in self._pods and _fits(self._pods[planned.uid], planned):
                    self._take_over(self._pods[planned.uid], planned)
        else:
            updated = {
                uid: pod for uid, pod in self._pods.items() if any(len(one) > 1 for one in pod.requested.values())
            }
            self._admission.remove_containers(updated)
        self._bring(order.plan)

    def _take_over(self, admitted: AdmittedPod, planned: PlannedPod) -> None:
        """Update the pod's containers to these requests; restart those whose resizePolicy requires that."""
        runtime, deadline = self._admission.runtime, Deadline.after(ENFORCE_SECONDS)
        before = {one.name: one.resources for one in admitted.planned.containers}
        containers = {one.name: one for one in admitted.pod.all_containers}
        for one in planned.containers:
            if one.resources == before[one.name] or one.name not in admitted.containers:
                continue
            if ResizePolicy.RESTART_CONTAINER in containers[one.name].resize_policy.values():
                handle = admitted.containers[one.name]
                runtime.stop(handle, grace=0, deadline=deadline)
                runtime.remove(handle, deadline=deadline)
                start_container(runtime, admitted, containers[one.name], one.resources, deadline=deadline)
            else:
                update_container(runtime, admitted, one.name, one.resources, deadline=deadline)
        admitted.planned = planned

    def _bring(self, plan: Plan) -> None:
        planned = {pod.uid: pod for pod in plan.pods}
        self._remove({uid: pod for uid, pod in self._pods.items() if not _fits(pod, planned.get(uid))})
        self._admission.remove_containers(
            {uid: pod for uid, pod in self._pods.items() if not _asks_the_same(pod.planned, planned[uid])}
        )
        renewed = overwriting_plan(plan, self._written)
        self._enforcement.apply(renewed, deadline=Deadline.after(ENFORCE_SECONDS))
        for cgroup in renewed.cgroups():
            self._written[cgroup.path] = self._written.get(cgroup.path, set()) | written_knobs(cgroup)

    def admit(self, order: Order, *, appears: Callable[[PlannedPod], None]) -> Mapping[str, AdmittedPod]:
        """Start every pod of the plan, reusing what already runs; see `Enactment.admit`."""
        started: dict[str, AdmittedPod] = {}
        for pod in order.plan.pods:
            # `bring` has made their cgroups.
            appears(pod)
        try:
            self._admission.start(order.plan, order.pods, standing=self._pods, into=started, steering=order.steering)
        finally:
            # Keep all handles: for the next plan, and for removal.
            self._pods = dict(started)
        return started

    def resize(
        self,
        plan: ResizePlan,
        resize: Resize,
        desired: Pod,
        *,
        after: Callable[[ResizeStep], None],
        above: bool = True,  # noqa: ARG002 - they have followed
    ) -> None:
        """Perform every step, in this kubelet's order."""
        admitted = self._pods[resize.uid].require()
        stepping = ResizeSteps(runtime=self._admission.runtime, rewrite=self._rewrite)
        for step in resize.steps:
            stepping.do(step, admitted, desired)
            after(step)
        admitted.pod, admitted.planned = desired, plan.after.pod(resize.uid)
        self._bring(plan.after)

    def _rewrite(self, cgroup: PlannedCgroup, past_driver: bool) -> None:
        """Write these knobs of a pod's cgroup as in a resize."""
        self._enforcement.rewrite(cgroup, past_driver=past_driver, deadline=Deadline.after(ENFORCE_SECONDS))
        self._written[cgroup.path] = self._written.get(cgroup.path, set()) | written_knobs(cgroup)

    def reconcile(self, plan: Plan) -> None:
        """Write every pod's cgroup, through the driver."""
        for pod in plan.pods:
            self._rewrite(pod.cgroup, past_driver=False)

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods of the last population, by uid."""
        return self._pods

    def clear(self) -> None:
        """Remove everything; raises the first error after an attempt at everything."""
        try:
            self._remove(dict(self._pods))
        finally:
            self._written.clear()
            self._enforcement.withdraw(deadline=Deadline.after(ENFORCE_SECONDS))

    def _remove(self, pods: Mapping[str, AdmittedPod]) -> None:
        if not pods:
            return
        try:
            self._admission.remove_pods(pods)
        finally:
            for uid in pods:
                self._pods.pop(uid, None)


def _fits(pod: AdmittedPod, planned: PlannedPod | None) -> bool:
    return pod.failure is None and planned is not None and pod.planned.cgroup.path == planned.cgroup.path


def _asks_the_same(before: PlannedPod, after: PlannedPod) -> bool:
    """Whether the runtime got exactly these requests."""
    return [(one.name, one.resources) for one in before.containers] == [
        (one.name, one.resources) for one in after.containers
    ]


def overwriting_plan(plan: Plan, written: Mapping[CgroupPath, Sequence[Knob] | set[Knob]]) -> Plan:
    """The plan that, once enforced, leaves no value of an earlier plan.

    For a knob that an earlier plan wrote and this plan leaves absent, it writes the kernel's default, which this plan
    expects.
    """

    def renewed(cgroup: PlannedCgroup) -> PlannedCgroup:
        stale = written.get(cgroup.path, ())
        knobs = {
            knob: dataclasses.replace(expected, written=expected.value)
            if _left(expected) and knob in stale
            else expected
            for knob, expected in cgroup.knobs.items()
        }
        return dataclasses.replace(cgroup, knobs=knobs)

    return dataclasses.replace(
        plan,
        node=renewed(plan.node),
        qos=tuple(map(renewed, plan.qos)),
        reserved=tuple(map(renewed, plan.reserved)),
        pods=tuple(dataclasses.replace(pod, cgroup=renewed(pod.cgroup)) for pod in plan.pods),
    )


def written_knobs(cgroup: PlannedCgroup) -> set[Knob]:
    """The knobs of a planned cgroup that are written."""
    return {knob for knob, expected in cgroup.knobs.items() if not _left(expected)}


def _left(expected: Expected) -> bool:
    return isinstance(expected.written, Absent)


LOOKING_SECONDS = 60.0


class KubeletStandIn:
    """The enactor of a place without a kubelet. parallel: pods that are started at the same time (>= 1).

    layout: the runtime's cgroup layout. patience: the time limits of starts, shared by machines of one kind.
    """

    setter = Setter.MEMQOS

    def __init__(
        self,
        *,
        runtime: Runtime,
        tree: CgroupTree,
        layout: Layout,
        parallel: int = 1,
        patience: Patience | None = None,
    ) -> None:
        self._tree = tree
        self._admission = Admission(
            runtime=runtime, tree=tree, layout=layout, parallel=parallel, patience=patience or patience_with_pods()
        )

    def why_not(self, ability: Ability) -> str:
        """It does all that a kubelet does to cgroups and pods, and has no endpoints."""
        return _NO_KUBELET if ability is Ability.ANSWER else ""

    @property
    def releases(self) -> Sequence[str]:
        """(): plans of any release."""
        return ()

    def answers(self) -> KubeletAnswers:
        """EnactorNotAbleError: there is no kubelet."""
        raise not_able(self, Ability.ANSWER)

    def begin(self, name: str) -> StandInEnactment:
        """A new enactment; its cgroups are marked with this name."""
        return StandInEnactment(tree=self._tree, admission=self._admission, name=name)

    def leftovers(self) -> Sequence[CgroupPath]:
        """The cgroups that any memqos run made there and did not remove."""
        return find_leftovers(self._tree, deadline=Deadline.after(LOOKING_SECONDS))
