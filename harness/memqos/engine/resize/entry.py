"""Entry point: takes running pods and their desired state, and gives each pod's outcome and steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.engine.admission.entry import admitted
from memqos.engine.answer.succession import succession
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup, PlannedContainer, PlannedPod, Refusal
from memqos.engine.pod.allocated import allocated
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.volumes import volumes_in_resize
from memqos.engine.releases.defaulting import seen_by
from memqos.engine.resize.actuation import Actuation, hindrance
from memqos.engine.resize.allocation import (
    ResizeDecision,
    changes_of,
    changes_pod_level,
    comes_back,
    pending_order,
    resize_decision,
)
from memqos.engine.resize.leftovers import left_behind
from memqos.engine.resize.outcome import (
    Activity,
    Resize,
    ResizeOutcome,
    ResizePlan,
    ResizeStep,
    StepKind,
    Usage,
)
from memqos.errors import UsageError
from memqos.model.pod import ContainerState, Pod

__all__ = ["resize_pods", "standing_after"]

_NO_USAGE: Mapping[str, Usage] = {}
_NO_ACTIVITIES: Mapping[str, Mapping[str, Activity]] = {}


def resize_pods(
    pods: Sequence[Pod],
    desired: Iterable[Pod],
    kubelet: Kubelet,
    *,
    usage: Mapping[str, Usage] = _NO_USAGE,
    activities: Mapping[str, Mapping[str, Activity]] = _NO_ACTIVITIES,
    standing: Plan | None = None,
) -> ResizePlan:
    """This kubelet's resizes of these pods, which all run with the resources in their spec.

    A pod with a status runs with its allocated resources.

    desired: pods with the same namespaces and names and the desired resources; pods without an entry do not change.
    usage: by pod uid, the memory in use, compared with lowered limits; unknown usage causes no error. activities: by
    pod uid and name, the containers that do not run, or whose state differs from the pod's status. standing: the node's
    cgroups before, if they differ from a plan of these pods, for example after a change of the configuration.

    Raises the errors of `expect`, and UsageError for a desired pod that does not run.
    """
    idle = {pod.uid: {**_activities(pod), **activities.get(pod.uid, {})} for pod in pods}
    pods = [replace(allocated(pod, kubelet), status=None) for pod in admitted(pods, kubelet).pods]
    before = standing or expect(pods, kubelet)
    running = {pod.uid: seen_by(pod, kubelet) for pod in pods if before.has(pod.uid)}
    matched = {uid: replace(pod, uid=uid) for uid, pod in _matched(running, desired)}
    wanted = admitted(matched.values(), kubelet)
    pairs = [
        (running[pod.uid], _kept(seen_by(pod, kubelet), matched[pod.uid], running[pod.uid])) for pod in wanted.pods
    ]
    taken = dict(running)
    found = [_refused(running[one.pod], one) for one in wanted.refusals]
    for old, new in pending_order(pairs, kubelet):
        others = [pod for pod in taken.values() if pod.uid != old.uid]
        one = _Case(
            old=old, new=new, before=before.pod(old.uid), usage=usage.get(old.uid, Usage()),
            activities=idle.get(old.uid, {}), kubelet=kubelet,
        )  # fmt: skip
        found.append(one.resize(resize_decision(old, new, others, kubelet)))
        if found[-1].outcome.allocates:
            taken[old.uid] = new
    fresh = expect([taken[pod.uid] for pod in pods if pod.uid in taken], kubelet)
    above = fresh if standing is None else replace(succession(standing, fresh), pods=fresh.pods)
    after = _carried_out(before, above, found)
    resizes = tuple(
        replace(one, left=left_behind(one, new, after, fresh, ended=_ended(new, idle[one.uid])))
        if one.outcome is ResizeOutcome.IN_PROGRESS and (new := taken[one.uid])
        else one
        for one in found
    )
    return ResizePlan(resizes=resizes, before=before, after=after)


def _ended(pod: Pod, activities: Mapping[str, Activity]) -> set[str]:
    """The containers that do not run and are not restarted."""
    states = {one.name: activities.get(one.name, Activity.RUNNING) for one in pod.all_containers}
    return {
        one.name
        for one in pod.all_containers
        if states[one.name] is not Activity.RUNNING and not comes_back(states[one.name], one, pod)
    }


def _activities(pod: Pod) -> dict[str, Activity]:
    """The containers that do not run by the pod's status."""
    found = {}
    for one in pod.status.containers.values() if pod.status is not None else ():
        if one.state is ContainerState.TERMINATED:
            found[one.name] = Activity.EXITED
        elif one.state is ContainerState.WAITING and one.restarts:
            found[one.name] = Activity.CRASH_LOOPING
    return found


def _matched(running: Mapping[str, Pod], desired: Iterable[Pod]) -> Iterable[tuple[str, Pod]]:
    """Desired pods with the uid of the running pod of their name."""
    by_name = {(pod.namespace, pod.name): pod for pod in running.values()}
    for pod in desired:
        old = by_name.get((pod.namespace, pod.name))
        if old is None:
            known = ", ".join(f"{namespace}/{name}" for namespace, name in by_name) or "none"
            raise UsageError(
                f"the pod {pod.namespace}/{pod.name} is not running, so it cannot be resized.",
                where=pod.file,
                next_step=f"Running pods: {known}.",
            )
        yield old.uid, replace(pod, uid=old.uid, static=old.static, status=None)


def _kept(new: Pod, given: Pod, old: Pod) -> Pod:
    """The desired pod with the stored values of fields that only admission sets."""
    return replace(
        new,
        priority=old.priority if given.priority is None else new.priority,
        priority_class_name=given.priority_class_name or old.priority_class_name,
        overhead=given.overhead or old.overhead,
        runtime_class_name=given.runtime_class_name or old.runtime_class_name,
        runtime_handler=old.runtime_handler,
    )


def _refused(old: Pod, refusal: Refusal) -> Resize:
    """A resize refused by an admission plugin: LimitRanger and ResourceQuota handle it like a new pod."""
    return Resize(
        name=old.name, namespace=old.namespace, uid=old.uid, outcome=ResizeOutcome.FORBIDDEN, message=refusal.message,
        reason=refusal.reason,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One pod: running, desired, and its plan."""

    old: Pod
    new: Pod
    before: PlannedPod
    usage: Usage
    activities: Mapping[str, Activity]
    kubelet: Kubelet

    def resize(self, decision: ResizeDecision) -> Resize:
        """The resize after the kubelet's decision."""
        outcome, message, steps = decision.outcome, decision.message, tuple[ResizeStep, ...]()
        if outcome is ResizeOutcome.IN_PROGRESS:
            changes = changes_of(self.old, self.new, self.kubelet, self.activities)
            qos = pod_qos(self.new, pod_level=self.kubelet.pod_level)
            message = hindrance(
                self.new, qos=qos, before=self.before, changes=changes, usage=self.usage, kubelet=self.kubelet
            )
            outcome = ResizeOutcome.ERROR if message else outcome
            pod_level = changes_pod_level(self.old, self.new, self.kubelet)
            if not message:
                actuation = Actuation(self.new, qos, self.before, changes, self.kubelet)
                steps = tuple(actuation.steps(pod_level=pod_level))
        return Resize(
            name=self.new.name, namespace=self.new.namespace, uid=self.new.uid, outcome=outcome, message=message,
            reason=decision.reason, steps=steps, volumes=volumes_in_resize(self.old, self.new, self.kubelet),
        )  # fmt: skip


def _carried_out(before: Plan, fresh: Plan, resizes: Iterable[Resize]) -> Plan:
    """The plan after all steps: pods keep unwritten values; the levels above are written for the new requests.

    fresh: the pods as they would be made now; its levels above hold also what is not written again.
    """
    steps = {one.uid: one.steps for one in resizes}
    pods = tuple(standing_after(steps.get(pod.uid, ()), before.pod(pod.uid), pod) for pod in fresh.pods)
    return replace(fresh, pods=pods)


def standing_after(steps: Sequence[ResizeStep], old: PlannedPod, fresh: PlannedPod) -> PlannedPod:
    """A pod after these steps: all of a resize, or the first of them.

    old: the pod before; fresh: as it would be created now. The sandbox's request and the pod's class stay.
    """
    return replace(
        old,
        cgroup=_written(old.cgroup, [one for one in steps if one.kind is StepKind.POD_CGROUP]),
        containers=tuple(
            _container(was, now, [one for one in steps if one.container == now.name])
            for was, now in zip(old.containers, fresh.containers, strict=True)
        ),
    )


def _container(old: PlannedContainer, fresh: PlannedContainer, steps: list[ResizeStep]) -> PlannedContainer:
    if any(one.kind is StepKind.START_CONTAINER for one in steps):
        return fresh
    said = [one.message for one in steps if one.message is not None]
    return replace(old, cgroup=_written(old.cgroup, steps), resources=said[-1] if said else old.resources)


def _written(cgroup: PlannedCgroup, steps: Iterable[ResizeStep]) -> PlannedCgroup:
    knobs = dict(cgroup.knobs)
    for step in steps:
        knobs |= step.knobs
    return replace(cgroup, knobs=knobs)
