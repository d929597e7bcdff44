"""What is planned for a pod but for its name and its place in the tree.

Without reasons it is the same for all pods that are alike, such as the replicas of one template: it is then made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.engine.cgroup.files import CgroupFiles
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import Placement
from memqos.engine.plan import Expected, Level, Reason
from memqos.engine.pod.cgroup import pod_config, pod_rulings
from memqos.engine.pod.container import ContainerRequest, overhead_resources, request_container, sandbox_resources
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import PodSums, pod_sums
from memqos.engine.releases.table import Family
from memqos.engine.ruling import UNEXPLAINED, Ruling
from memqos.engine.translate.container import created
from memqos.engine.translate.container_files import made_files
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob, Text
from memqos.model.pod import Container, Pod, QosClass, ResourceList, Resources

__all__ = ["ContainerDraft", "PodDraft", "PodDrafts"]

_Likeness = tuple[object, ...]

_QOS_RULES = {
    QosClass.GUARANTEED: "every container limits cpu and memory, and the sums of requests equal the limits'",
    QosClass.BURSTABLE: "something is requested or limited, but not cpu and memory of every container equally",
    QosClass.BEST_EFFORT: "no container requests or limits cpu or memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDraft:
    """What the runtime is asked for a container, and the files of its cgroup, or why the runtime refuses."""

    resources: ContainerResources
    knobs: Mapping[Knob, Expected]
    oom_score_adj: int
    oom_score_adj_reason: Reason
    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDraft:
    """A pod's class and sums, the files of its cgroup, its containers in start order, and what its sandbox is sent."""

    qos: QosClass
    qos_reason: Reason
    sums: PodSums
    knobs: Mapping[Knob, Expected]
    containers: tuple[ContainerDraft, ...]
    sandbox_resources: ContainerResources
    sandbox_overhead: ContainerResources


class PodDrafts:
    """The drafts of one node's pods."""

    def __init__(self, kubelet: Kubelet, files: CgroupFiles, placement: Placement, *, reasons: bool) -> None:
        self._kubelet = kubelet
        self._files = files
        self._placement = placement
        self._reasons = reasons
        # A reason names places in a manifest, and zones are found for each pod by itself.
        self._shares = not reasons and not placement.manages
        self._pods: dict[_Likeness, PodDraft] = {}
        self._containers: dict[_Likeness, ContainerDraft] = {}

    def of(self, pod: Pod) -> PodDraft:
        """What is planned for this pod."""
        if not self._shares:
            return self._pod(pod, ())
        containers = [_container_likeness(one) for one in pod.all_containers]
        likeness = _likeness(pod, containers)
        found = self._pods.get(likeness)
        if found is None:
            # With pod-level resources, and for a sidecar, the pod's other containers count as well.
            alone = pod.resources is None and not pod.init_containers
            found = self._pods[likeness] = self._pod(pod, containers if alone else ())
        return found

    def _pod(self, pod: Pod, alike: Sequence[_Likeness]) -> PodDraft:
        """alike: of each container what makes another one's draft its own too; none where each gets one of its own."""
        kubelet = self._kubelet
        qos, sums = pod_qos(pod, pod_level=kubelet.pod_level), pod_sums(pod, pod_level=kubelet.pod_level)
        rulings = pod_rulings(pod_config(pod, qos, kubelet, sums), pod, qos, kubelet) if kubelet.cgroups_per_qos else {}
        return PodDraft(
            qos=qos,
            qos_reason=self._qos_reason(qos),
            sums=sums,
            # Without cgroups per class a pod has no cgroup of its own, so nothing is known of the files there.
            knobs=self._files.of(Level.POD, rulings) if kubelet.cgroups_per_qos else {},
            containers=tuple(
                [self._shared(pod, one, qos, like) for one, like in zip(pod.all_containers, alike, strict=True)]
                if alike
                else [self._requested(pod, one, qos) for one in pod.all_containers]
            ),
            sandbox_resources=sandbox_resources(pod, kubelet, sums),
            sandbox_overhead=overhead_resources(pod, kubelet),
        )

    def _shared(self, pod: Pod, container: Container, qos: QosClass, alike: _Likeness) -> ContainerDraft:
        likeness = (qos, *_pod_traits(pod), alike)
        found = self._containers.get(likeness)
        if found is None:
            found = self._containers[likeness] = self._requested(pod, container, qos)
        return found

    def _requested(self, pod: Pod, container: Container, qos: QosClass) -> ContainerDraft:
        kubelet = self._kubelet
        request = request_container(pod, container, qos, kubelet, self._mems(pod, container))
        knobs, refusal = self._made(request, pod)
        return ContainerDraft(
            resources=request.resources,
            knobs=knobs,
            oom_score_adj=request.oom.value,
            oom_score_adj_reason=request.oom.why() if self._reasons else UNEXPLAINED,
            refusal=refusal,
        )

    def _made(self, request: ContainerRequest, pod: Pod) -> tuple[dict[Knob, Expected], str]:
        """The files of a new container, or none and the runtime's error."""
        kubelet = self._kubelet
        if self._reasons or len(kubelet.candidates) > 1:
            made = made_files(request, pod, kubelet)
            return {} if made.refusal else self._files.of(Level.CONTAINER, made.rulings), made.refusal
        _, writes = created(request.resources, kubelet.runtimes, kubelet.host)
        return {} if writes.refusal else self._files.unexplained(writes.files), writes.refusal

    def _mems(self, pod: Pod, container: Container) -> Ruling | None:
        """What the Memory Manager rules on a container's zones; None if it is off, or never saw the container."""
        admitted = self._placement.admitted.get(pod.uid)
        reason = admitted.reasons.get(container.name) if admitted is not None else None
        if admitted is None or reason is None:
            return None
        mems = admitted.cpuset_mems.get(container.name)
        return Ruling(ABSENT if mems is None else Text(mems), lambda: reason)

    def _qos_reason(self, qos: QosClass) -> Reason:
        if not self._reasons:
            return UNEXPLAINED
        revision = self._kubelet.revisions[Family.QOS_CLASS]
        return Reason(rule=_QOS_RULES[qos], revision=revision, source="kubelet v1qos.ComputePodQOS")


def _likeness(pod: Pod, containers: Sequence[_Likeness]) -> _Likeness:
    """All that the rules read of a pod, in which two pods are equal that differ in names and places only."""
    return (
        *_pod_traits(pod),
        None if pod.resources is None else _lists(pod.resources),
        _amounts(pod.overhead),
        *containers,
    )


def _pod_traits(pod: Pod) -> _Likeness:
    return (pod.static, pod.priority, pod.priority_class_name)


def _container_likeness(container: Container) -> _Likeness:
    return (container.kind, _lists(container.resources))


def _lists(resources: Resources) -> _Likeness:
    return (_amounts(resources.requests), _amounts(resources.limits))


def _amounts(amounts: ResourceList) -> _Likeness:
    return tuple([(name, amount.nanos) for name, amount in amounts.items()])
