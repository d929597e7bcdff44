"""The plan of a pod without its name and its place in the tree.

All pods that are alike, such as the replicas of one template, share one draft. Its reasons are made when they are read
(`engine.pod.alike`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from memqos.engine.cgroup.files import CgroupFiles
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import Placement
from memqos.engine.plan import UNEXPLAINED, Expected, Level, Reason, Ruling
from memqos.engine.pod.alike import (
    Explanation,
    Likeness,
    ScoreExplanation,
    Sharing,
    container_likeness,
    has_slot,
    nameless,
    pod_likeness,
)
from memqos.engine.pod.cgroup import (
    ContainerRequest,
    overhead_resources,
    pod_config,
    pod_rulings,
    request_container,
    sandbox_resources,
)
from memqos.engine.pod.qos import container_oom_score, pod_qos
from memqos.engine.pod.sums import PodSums, pod_sums
from memqos.engine.releases.table import Family
from memqos.engine.translate.annotations import pod_unmodelled, read_annotations
from memqos.engine.translate.container import created
from memqos.engine.translate.container_files import left_open, made_files
from memqos.engine.translate.runtimes import Runtimes
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob, Text
from memqos.model.pod import Container, Pod, QosClass

__all__ = ["ContainerDraft", "PodDraft", "PodDrafts"]

_KEPT = 1024
"""The number of cgroups whose reasons are cached for the next pod that is alike."""
_QOS_RULES = {
    QosClass.GUARANTEED: "every container limits cpu and memory, and the sums of requests equal the limits'",
    QosClass.BURSTABLE: "some resources are requested or limited, but not cpu and memory of every container equally",
    QosClass.BEST_EFFORT: "no container requests or limits cpu or memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDraft:
    """The request for a container, and the files of its cgroup, or the runtime's refusal.

    annotated: the request, if annotations of the pod change it. explain, explain_score: make the reasons for the files
    and for oom_score_adj; None in a plan without reasons. sharing: whether reasons have slots for names.
    """

    resources: ContainerResources
    annotated: ContainerResources | None
    knobs: Mapping[Knob, Expected]
    oom_score_adj: int
    refusal: str
    explain: Callable[[], Explanation] | None
    explain_score: Callable[[], ScoreExplanation] | None
    sharing: Sharing


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDraft:
    """A pod's class and sums, the files of its cgroup, its containers in start order, and its sandbox's request.

    explain: makes the reasons of the pod's cgroup; None in a plan without reasons. sharing: whether reasons have slots
    for names. runtimes: those of the pod's RuntimeClass, None for the node's.
    """

    qos: QosClass
    qos_reason: Reason
    sums: PodSums
    knobs: Mapping[Knob, Expected]
    containers: tuple[ContainerDraft, ...]
    sandbox_resources: ContainerResources
    sandbox_overhead: ContainerResources
    explain: Callable[[], Explanation] | None
    sharing: Sharing
    runtimes: Runtimes | None

    def share(self) -> None:
        """Use this draft for another pod."""
        self.sharing.slots = True
        for one in self.containers:
            one.sharing.slots = True


class _Served:
    """One node's kubelet with the runtimes of each RuntimeClass."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._by_class = {("", ""): kubelet}

    def of(self, pod: Pod) -> Kubelet:
        """The kubelet with the runtimes of this pod."""
        key = pod.runtime_class_name, pod.runtime_handler
        if key not in self._by_class:
            self._by_class[key] = self._kubelet.serving(*key)
        return self._by_class[key]


class PodDrafts:
    """The drafts of one node's pods."""

    def __init__(self, kubelet: Kubelet, placement: Placement, *, reasons: bool) -> None:
        self._kubelet = kubelet
        self._files = CgroupFiles(kubelet, manages=placement.manages, reasons=False)
        self._placement = placement
        self._served = _Served(kubelet)
        self._explanations = _Explanations(kubelet, self._served, placement) if reasons else None
        self._pods: dict[Likeness, PodDraft] = {}
        self._containers: dict[Likeness, ContainerDraft] = {}

    def of(self, pod: Pod) -> PodDraft:
        """The draft for this pod."""
        # NUMA nodes are chosen for each pod, and annotations name containers.
        if self._placement.manages or self._annotations(pod):
            return self._pod(pod, ())
        traits, containers = pod_likeness(pod), [container_likeness(one) for one in pod.all_containers]
        likeness = (traits, len(pod.init_containers), len(pod.containers), *containers)
        found = self._pods.get(likeness)
        if found is None:
            if has_slot(likeness):
                return self._pod(pod, ())
            # With pod-level resources, and for a sidecar, the pod's other containers count too.
            alone = pod.resources is None and not pod.init_containers
            alike = [(traits, one) for one in containers] if alone else ()
            found = self._pods[likeness] = self._pod(pod, alike)
        else:
            found.share()
        return found

    def _pod(self, pod: Pod, alike: Sequence[Likeness]) -> PodDraft:
        """alike: a key of each container; containers with equal keys share a draft. Empty if none may share."""
        kubelet, explanations = self._served.of(pod), self._explanations
        qos, sums = pod_qos(pod, pod_level=kubelet.pod_level), pod_sums(pod, pod_level=kubelet.pod_level)
        sharing = Sharing()
        return PodDraft(
            qos=qos,
            qos_reason=UNEXPLAINED if explanations is None else explanations.of_class(qos),
            sums=sums,
            knobs=_pod_files(pod, qos, sums, kubelet, self._files),
            containers=tuple(
                [self._shared(pod, index, qos, like) for index, like in enumerate(alike)]
                if alike
                else [self._requested(pod, index, qos) for index in range(len(pod.all_containers))]
            ),
            sandbox_resources=sandbox_resources(pod, kubelet, sums),
            sandbox_overhead=overhead_resources(pod, kubelet),
            explain=None if explanations is None else explanations.of_pod(pod, qos, sharing),
            sharing=sharing,
            runtimes=None if kubelet is self._kubelet else kubelet.runtimes,
        )

    def _annotations(self, pod: Pod) -> bool:
        """Whether annotations change the files of the pod's containers."""
        return bool(pod.annotations) and bool(read_annotations(pod.annotations, self._served.of(pod).runtimes))

    def _shared(self, pod: Pod, index: int, qos: QosClass, alike: Likeness) -> ContainerDraft:
        likeness = (qos, *alike)
        found = self._containers.get(likeness)
        if found is None:
            found = self._containers[likeness] = self._requested(pod, index, qos)
        else:
            found.sharing.slots = True
        return found

    def _requested(self, pod: Pod, index: int, qos: QosClass) -> ContainerDraft:
        explanations = self._explanations
        request = _request(pod, pod.all_containers[index], qos, self._served.of(pod), self._placement)
        knobs, refusal, annotated = self._made(request, pod)
        sharing = Sharing()
        return ContainerDraft(
            resources=request.resources,
            annotated=annotated,
            knobs=knobs,
            oom_score_adj=request.oom.value,
            refusal=refusal,
            explain=None if explanations is None else explanations.of_container(pod, index, qos, sharing),
            explain_score=None if explanations is None else explanations.of_score(pod, index, qos, sharing),
            sharing=sharing,
        )

    def _made(self, request: ContainerRequest, pod: Pod) -> tuple[dict[Knob, Expected], str, ContainerResources | None]:
        """The files of a new container, or none and the runtime's error; the request, if annotations change it."""
        kubelet = self._served.of(pod)
        runtimes = kubelet.runtimes
        plain = runtimes.modelled and not runtimes.sandboxed and not self._annotations(pod)
        if len(kubelet.candidates) > 1 or not plain:
            made = made_files(request, pod, kubelet)
            knobs = {} if made.refusal else self._files.of(Level.CONTAINER, made.rulings)
            return knobs, made.refusal, made.annotated
        _, writes = created(request.resources, runtimes, kubelet.host)
        return {} if writes.refusal else self._files.unexplained(writes.files), writes.refusal, None


class _Explanations:
    """Makes the reasons of drafts, and caches the last ones."""

    def __init__(self, kubelet: Kubelet, served: _Served, placement: Placement) -> None:
        self._kubelet = kubelet
        self._served = served
        self._placement = placement
        self._files = CgroupFiles(kubelet, manages=placement.manages, reasons=True)
        self._classes: dict[QosClass, Reason] = {}
        self._kept = lru_cache(maxsize=_KEPT)(_called)
        self._kept_scores = lru_cache(maxsize=_KEPT)(_score_called)

    def of_class(self, qos: QosClass) -> Reason:
        """The reason for a pod's class."""
        if qos not in self._classes:
            revision = self._kubelet.revisions[Family.QOS_CLASS]
            source = "kubelet v1qos.ComputePodQOS"
            self._classes[qos] = Reason(rule=_QOS_RULES[qos], revision=revision, source=source)
        return self._classes[qos]

    def of_pod(self, pod: Pod, qos: QosClass, sharing: Sharing) -> Callable[[], Explanation]:
        """Makes the reasons for the files of a pod's cgroup."""

        def explain() -> Explanation:
            own = nameless(pod) if sharing.slots else pod
            sums = pod_sums(own, pod_level=self._kubelet.pod_level)
            return Explanation(_pod_files(own, qos, sums, self._served.of(pod), self._files))

        return partial(self._kept, explain)

    def of_container(self, pod: Pod, index: int, qos: QosClass, sharing: Sharing) -> Callable[[], Explanation]:
        """Makes the reasons for the files of a container's cgroup."""

        def explain() -> Explanation:
            own = nameless(pod, index) if sharing.slots else pod
            kubelet = self._served.of(pod)
            request = _request(own, own.all_containers[index], qos, kubelet, self._placement)
            made = made_files(request, own, kubelet)
            files = {} if made.refusal else self._files.of(Level.CONTAINER, made.rulings)
            return Explanation(files)

        return partial(self._kept, explain)

    def of_score(self, pod: Pod, index: int, qos: QosClass, sharing: Sharing) -> Callable[[], ScoreExplanation]:
        """Makes the reason for a container's oom_score_adj."""

        def explain() -> ScoreExplanation:
            own = nameless(pod, index) if sharing.slots else pod
            score = container_oom_score(own, own.all_containers[index], qos, self._served.of(pod))
            return ScoreExplanation(score.why())

        return partial(self._kept_scores, explain)


def _called(explain: Callable[[], Explanation]) -> Explanation:
    return explain()


def _score_called(explain: Callable[[], ScoreExplanation]) -> ScoreExplanation:
    return explain()


def _pod_files(pod: Pod, qos: QosClass, sums: PodSums, kubelet: Kubelet, files: CgroupFiles) -> dict[Knob, Expected]:
    """With cgroupsPerQOS off a pod has no cgroup, so nothing is known of files there."""
    if not kubelet.cgroups_per_qos:
        return {}
    rulings = pod_rulings(pod_config(pod, qos, kubelet, sums), pod, qos, kubelet)
    unmodelled = pod_unmodelled(pod.annotations, kubelet.runtimes)
    return files.of(Level.POD, {**rulings, **{knob: left_open(why, kubelet) for knob, why in unmodelled.items()}})


def _request(pod: Pod, container: Container, qos: QosClass, kubelet: Kubelet, placement: Placement) -> ContainerRequest:
    return request_container(pod, container, qos, kubelet, _mems(pod, container, placement))


def _mems(pod: Pod, container: Container, placement: Placement) -> Ruling | None:
    """The Memory Manager's ruling on a container's NUMA nodes; None if it is off, or did not see the container."""
    admitted = placement.admitted.get(pod.uid)
    reason = admitted.reasons.get(container.name) if admitted is not None else None
    if admitted is None or reason is None:
        return None
    mems = admitted.cpuset_mems.get(container.name)
    return Ruling(ABSENT if mems is None else Text(mems), lambda: reason)
