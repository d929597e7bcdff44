"""The engine's entry point: computes the expected tree and its reasons from pods and a kubelet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from memqos.engine.admission.entry import admitted
from memqos.engine.cgroup import layout
from memqos.engine.cgroup.files import CgroupFiles, unavailable
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroups import (
    Demand,
    kubepods_rulings,
    qos_rulings,
    reserved_cgroups,
    reserved_rulings,
    summed_knobs,
)
from memqos.engine.node.placement import Placement, node_room, place
from memqos.engine.node.remarks import ignored, ignored_annotations, remarks, runtime_remarks, unmodelled_pods
from memqos.engine.node.validation import check_configuration
from memqos.engine.numa.table import NumaTable
from memqos.engine.plan import Expected, Level, Plan, PlannedCgroup, PlannedContainer, PlannedPod, Rulings, unexplained
from memqos.engine.pod.alike import Explained, ExplainedScore, Explanation, names_of
from memqos.engine.pod.allocated import allocation, unsettled
from memqos.engine.pod.draft import ContainerDraft, PodDraft, PodDrafts
from memqos.engine.pod.sums import amount, pod_requests
from memqos.engine.releases.defaulting import seen_by
from memqos.engine.translate.specification import not_modelled
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod, QosClass

__all__ = ["expect"]


def expect(
    pods: Iterable[Pod], kubelet: Kubelet, *, reasons: bool = True, table: NumaTable | None = None, fit: bool = False
) -> Plan:
    """The expected tree of this kubelet's node with these pods, all admitted ones running.

    A pod with a `submission` is new: the API server's admission of this release changes or refuses it first.

    The plan lists pods by namespace, name and uid. The given order matters to admission only. The Memory Manager
    (policy Static) may refuse pods, and adds cpuset.mems to containers. table: its current allocations, None for none.
    fit: whether to refuse pods beyond the node's cpu, memory or huge pages; without it every pod is assumed to fit.

    The plan has the kubelet's request for each container, and the resulting files; a container that the runtimes refuse
    has no files (`PlannedContainer.refusal`).
    Reasons are computed when they are read. reasons False leaves every reason empty.

    On a node with cgroup v1 the cgroups have the files of the v1 controllers; `Plan.unavailable` says why those of
    cgroup v2 are missing.

    For a pod with a status the allocated resources are planned (`engine.pod.allocated`). A value that is uncertain
    while a pod is resized is undecided in the plan (`Expected.unsettled`).

    Raises ManifestError for settings that this release's kubelet refuses, UsageError for NUMA nodes too small for their
    reservations.
    """
    check_configuration(kubelet)
    room = node_room(kubelet) if fit else None
    given = tuple(pods)
    admission = admitted(given, kubelet)

    def planned(some: Iterable[Pod]) -> Plan:
        placement = place([seen_by(pod, kubelet) for pod in some], kubelet, table, room=room)
        return _Planner(kubelet, placement, reasons=reasons).plan(sorted(placement.pods, key=_by_name))

    if all(pod.status is None for pod in admission.pods):
        plan = planned(admission.pods)
    else:
        allocations = [allocation(pod, kubelet) for pod in admission.pods]
        plan = unsettled(planned(one.states[0] for one in allocations), allocations, planned, kubelet)
    by_name, admitted_pods = sorted(given, key=_by_name), sorted(admission.pods, key=_by_name)
    return replace(
        plan,
        refusals=(*admission.refusals, *plan.refusals),
        ignored=(*ignored(by_name, kubelet), *ignored_annotations(admitted_pods, kubelet)),
        remarks=(*admission.remarks, *remarks(by_name, kubelet), *runtime_remarks(admitted_pods, kubelet)),
        unmodelled=unmodelled_pods(given, kubelet),
    )


def _by_name(pod: Pod) -> tuple[str, str, str]:
    return pod.namespace, pod.name, pod.uid


class _Planner:
    """Makes cgroups from rulings."""

    def __init__(self, kubelet: Kubelet, placement: Placement, *, reasons: bool) -> None:
        self._kubelet = kubelet
        self._placement = placement
        self._reasons = reasons
        self._files = CgroupFiles(kubelet, manages=placement.manages, reasons=reasons)
        self._drafts = PodDrafts(kubelet, placement, reasons=reasons)
        self._root = layout.kubepods_name(kubelet.settings.cgroup_root, cgroups_per_qos=kubelet.cgroups_per_qos)

    def plan(self, pods: Sequence[Pod]) -> Plan:
        """The whole node."""
        kubelet = self._kubelet
        drafted = [(pod, self._drafts.of(pod)) for pod in pods]
        demand = self._demand(drafted)
        runtimes = [kubelet.runtimes, *(draft.runtimes for _, draft in drafted if draft.runtimes is not None)]
        per_qos = kubelet.cgroups_per_qos
        classes = (QosClass.BURSTABLE, QosClass.BEST_EFFORT) if per_qos else ()
        plan = Plan(
            release=str(kubelet.release),
            layout=kubelet.layout,
            revisions={family.value: name for family, name in kubelet.revisions.items()},
            node=self._summed(Level.NODE, self._root, demand, lambda some: kubepods_rulings(some, kubelet))
            if per_qos
            else PlannedCgroup(level=Level.NODE, path=self._path(self._root), knobs={}),
            qos=tuple([self._class(qos, demand) for qos in classes]),
            reserved=tuple(
                PlannedCgroup(
                    level=Level.RESERVED,
                    path=layout.reserved_path(cgroup, kubelet.driver),
                    knobs=self._files.of(
                        Level.RESERVED, reserved_rulings(field, reserved, whole=whole, kubelet=kubelet)
                    ),
                )
                for field, (cgroup, reserved, whole) in reserved_cgroups(kubelet).items()
            ),
            pods=tuple([self._pod(pod, draft) for pod, draft in drafted]),
            refusals=self._placement.refusals,
            cgroup_version=kubelet.node.cgroup_version,
            user_namespace=kubelet.node.user_namespace,
            variant=kubelet.variant,
            not_modelled=tuple(dict.fromkeys(name for one in runtimes for name in not_modelled(one))),
        )
        if not self._reasons:
            return plan
        planned = {knob for cgroup in plan.cgroups() for knob in cgroup.knobs} or set(self._files.everywhere)
        return replace(plan, unavailable=unavailable(kubelet, planned))

    def _demand(self, drafted: Sequence[tuple[Pod, PodDraft]]) -> Demand:
        """Sums over the pods. For memory, pod-level requests count even with the gate off, as in the kubelet's loop."""
        guaranteed = burstable = milli = 0
        for pod, draft in drafted:
            qos, requests = draft.qos, draft.sums.requests
            if qos is QosClass.BEST_EFFORT:
                continue
            same = pod.resources is None or self._kubelet.pod_level
            memory = amount(requests if same else pod_requests(pod, pod_level=True), "memory").value
            if qos is QosClass.GUARANTEED:
                guaranteed += memory
                continue
            burstable += memory
            milli += amount(requests, "cpu").milli_value
        return Demand(guaranteed_memory=guaranteed, burstable_memory=burstable, burstable_milli_cpu=milli)

    def _pod(self, pod: Pod, draft: PodDraft) -> PlannedPod:
        qos, uid = draft.qos, pod.uid
        per_qos = self._kubelet.cgroups_per_qos
        path = self._path(layout.pod_name(self._root, qos, uid) if per_qos else self._root)
        knobs = _explained(draft.knobs, draft.explain, names_of(pod) if draft.sharing.slots and self._reasons else ())
        return PlannedPod(
            name=pod.name,
            namespace=pod.namespace,
            uid=uid,
            qos=qos,
            qos_reason=draft.qos_reason,
            cgroup=PlannedCgroup(level=Level.POD, path=path, knobs=knobs, qos=qos, pod=uid),
            containers=tuple(
                [_container(pod, index, planned, path, draft) for index, planned in enumerate(draft.containers)]
            ),
            sandbox_resources=draft.sandbox_resources,
            sandbox_overhead=draft.sandbox_overhead,
            runtimes=draft.runtimes,
        )

    def _path(self, name: layout.CgroupName) -> CgroupPath:
        return layout.cgroup_path(name, self._kubelet.driver)

    def _class(self, qos: QosClass, demand: Demand) -> PlannedCgroup:
        name = layout.qos_name(self._root, qos)
        return self._summed(Level.QOS, name, demand, lambda some: qos_rulings(qos, some, self._kubelet), qos)

    def _summed(
        self,
        level: Level,
        name: layout.CgroupName,
        demand: Demand,
        rulings: Callable[[Demand], Rulings],
        qos: QosClass | None = None,
    ) -> PlannedCgroup:
        """A cgroup above pods, with every planned knob."""
        return PlannedCgroup(
            level=level,
            path=self._path(name),
            knobs=self._files.of(level, rulings(demand)),
            qos=qos,
            summed=summed_knobs(rulings),
        )


def _container(pod: Pod, index: int, draft: ContainerDraft, path: CgroupPath, own: PodDraft) -> PlannedContainer:
    container = pod.all_containers[index]
    names = names_of(pod, index) if draft.sharing.slots and draft.explain is not None else ()
    return PlannedContainer(
        name=container.name,
        resources=draft.resources,
        cgroup=PlannedCgroup(
            level=Level.CONTAINER,
            path=path,
            knobs=_explained(draft.knobs, draft.explain, names),
            qos=own.qos,
            pod=pod.uid,
            container=container.name,
        ),
        oom_score_adj=draft.oom_score_adj,
        explain_oom_score_adj=unexplained
        if draft.explain_score is None
        else ExplainedScore(draft.explain_score, names),
        kind=container.kind,
        refusal=draft.refusal,
        annotated=draft.annotated,
    )


def _explained(
    knobs: Mapping[Knob, Expected], explain: Callable[[], Explanation] | None, names: tuple[str, ...]
) -> Mapping[Knob, Expected]:
    return knobs if explain is None else Explained(knobs, explain, names)
