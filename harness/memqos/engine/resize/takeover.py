"""What a kubelet updates when it takes over running pods that an older kubelet created.

Since 1.33 a kubelet records the resources that it created each container with (`actuated_pods_state`), and compares the
pods with its records whenever it syncs them. Older kubelets record nothing. So after an upgrade the kubelet takes each
container's resources for zero, and resizes it to what it already has: it updates the container, or restarts it if its
resizePolicy requires that. The update has the memory QoS of the new configuration. Records of pods stay if the kubelet
is rolled back.
Source: kubelet kuberuntime_manager.go, computePodResizeAction ("Missing actuated resource record").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memqos.engine.admission.entry import admitted
from memqos.engine.answer.succession import succession
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedPod, Reason
from memqos.engine.pod.allocated import allocated
from memqos.engine.pod.qos import pod_qos
from memqos.engine.releases.defaulting import seen_by
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Family, Gate, Novelty
from memqos.engine.resize.actuation import Actuation
from memqos.engine.resize.allocation import changes_of, changes_pod_level
from memqos.engine.resize.entry import standing_after
from memqos.engine.resize.outcome import ResizeStep
from memqos.model.knob import Knob
from memqos.model.pod import Container, Pod, Resources

__all__ = ["keeps_records", "taken_over", "why_not_taken_over"]

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
