"""Entry points: running pods and their desired state, or running pods that an older kubelet created.

`resize_pods` gives each pod's outcome and steps. `taken_over` has what a kubelet updates after an upgrade: since 1.33
a kubelet records the resources that it created each container with (`actuated_pods_state`), and compares the pods with
its records whenever it syncs them. Older kubelets record nothing. So after an upgrade the kubelet takes each
container's resources for zero, and resizes it to what it already has: it updates the container, or restarts it if its
resizePolicy requires that. The update has the memory QoS of the new configuration. Records of pods stay if the kubelet
is rolled back. Source: kubelet kuberuntime_manager.go, computePodResizeAction ("Missing actuated resource record").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.engine.admission.entry import admitted
from memqos.engine.answer.succession import succession
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, PlannedPod, Reason, Refusal
from memqos.engine.pod.allocated import allocated
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.volumes import volumes_in_resize
from memqos.engine.releases.defaulting import seen_by
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Family, Gate, Novelty
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
from memqos.model.knob import Knob
from memqos.model.pod import Container, ContainerState, Pod, Resources

__all__ = ["keeps_records", "resize_pods", "standing_after", "taken_over", "why_not_taken_over"]


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


_NOTHING = Resources()
_RULE = (
    "the kubelet has no record of the resources that an older kubelet created this container with: "
    "it updates the container when it takes over"
)
_SOURCE = "kubelet computePodResizeAction, updatePodContainerResources"


def keeps_records(kubelet: Kubelet) -> bool:
    """Whether it records the resources of the containers that it creates: since 1.33, with in-place resize."""
    on = enabled(Gate.RESIZE, kubelet.release, kubelet.settings.feature_gates)
    return on and kubelet.release.has(Novelty.RESIZE_RECORDS)


def why_not_taken_over(before: Plan, after: Plan) -> str:
    """Why the kubelet of `after` takes over no running pods of `before`; "" if it does.

    Another QoS class, as by a switched feature gate, would be another cgroup. A running pod stays in its own, and the
    kubelet would make the other one beside it.
    """
    for pod in before.pods:
        name = f"pod {pod.namespace}/{pod.name}"
        if not after.has(pod.uid):
            return f"the next kubelet would refuse {name}"
        there = after.pod(pod.uid).cgroup.path
        if there != pod.cgroup.path:
            return f"{name} runs in {pod.cgroup.path}, and the next kubelet would look for it in {there}"
    return ""


def taken_over(before: Plan, after: Plan, pods: Sequence[Pod], kubelet: Kubelet, *, earlier: Sequence[Kubelet]) -> Plan:
    """The plan of `after`, this kubelet's, for pods that were started under `before` and have run on.

    earlier: the kubelets that ran the pods before, in any order. As `engine.answer.succession`, with the updates of
    containers that none of them has recorded. A container whose use is at its limit is not updated; that is not known
    here.
    """
    standing = succession(before, after)
    if not keeps_records(kubelet) or any(map(keeps_records, earlier)):
        return standing
    running = {pod.uid: pod for pod in before.pods}
    current = {
        pod.uid: seen_by(replace(allocated(pod, kubelet), status=None), kubelet)
        for pod in admitted(pods, kubelet).pods
        if pod.uid in running
    }
    kept = {pod.uid: pod for pod in after.pods}
    return replace(
        standing,
        pods=tuple(
            standing_after(tuple(_steps(pod, current[pod.uid], kubelet)), pod, kept[pod.uid])
            if pod.uid in current and pod.cgroup.path == running[pod.uid].cgroup.path
            else pod
            for pod in standing.pods
        ),
    )


def _steps(standing: PlannedPod, pod: Pod, kubelet: Kubelet) -> Iterator[ResizeStep]:
    """The steps of the resize from nothing to what the pod has."""
    unrecorded = replace(
        pod,
        resources=None,
        containers=tuple(map(_bare, pod.containers)),
        init_containers=tuple(map(_bare, pod.init_containers)),
    )
    changes = changes_of(unrecorded, pod, kubelet)
    qos = pod_qos(pod, pod_level=kubelet.pod_level)
    actuation = Actuation(pod, qos, standing, changes, kubelet)
    for step in actuation.steps(pod_level=changes_pod_level(unrecorded, pod, kubelet)):
        yield replace(step, knobs=_because(step.knobs, kubelet)) if step.container else step


def _bare(container: Container) -> Container:
    return replace(container, resources=_NOTHING)


def _because(knobs: Mapping[Knob, Expected], kubelet: Kubelet) -> dict[Knob, Expected]:
    revision = kubelet.revisions[Family.RESIZE]
    return {
        knob: replace(one, reason=Reason(rule=_RULE, revision=revision, source=_SOURCE, because=(one.reason,)))
        for knob, one in knobs.items()
    }
