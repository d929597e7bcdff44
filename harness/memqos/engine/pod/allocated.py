"""Allocated resources, and a plan for pods that are being resized.

A pod's cgroups follow the resources that the kubelet has allocated, not the spec's.

From 1.27 on, with the gate InPlacePodVerticalScaling, a running pod's resources may change. The spec has the desired
resources; the status has the allocated ones (admitted by the kubelet) and the actuated ones (carried out). Until a
resize is admitted nothing changes; during its actuation a file may hold either value.

Sources: KEP-1287, resource states; kubelet `convertToAPIContainerStatuses`, `UpdatePodFromAllocation` (1.32 and later),
`handlePodResourcesResize` (1.27 to 1.31). The sums above pods use `GetActivePods`, which has the spec.

oom_score_adj stays as it was at a container's start, whatever is resized in place later.

Source: kubernetes#130657, opencontainers/runc#4669: no runtime changes oom_score_adj of a running process.

In the plan of a pod that is being resized, values common to both states are expected.

Where they differ, the plan has both values and the reason, and the file is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.pod.alike import unexplained_files
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import pod_level_set
from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.table import Gate, Novelty
from memqos.model.knob import Knob
from memqos.model.pod import (
    Container,
    ContainerKind,
    ContainerStatus,
    Pod,
    PodStatus,
    QosClass,
    ResizePolicy,
    ResourceList,
    Resources,
)

__all__ = ["Allocation", "allocated", "allocation", "never_resized", "unsettled"]

_RESIZABLE = ("memory", "cpu")
_Pick = Callable[[Container, ContainerStatus], Resources]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The resources of a pod by its status.

    states: the pod with the resources that its cgroups may have, the allocated ones first; one if certain. desired: the
    pod by its spec. why: the reason if the state is uncertain, or if values missing in the status are possible; "" if
    certain. unknown: whether such values are possible for the pod's cgroup and all containers; pod_unknown: for the
    pod's cgroup only; limits_unknown: for all of them, in files that depend on limits; sums_unknown: for the files
    above pods, which follow the last spec that the kubelet has seen.
    """

    states: tuple[Pod, ...]
    desired: Pod
    why: str = ""
    unknown: bool = False
    pod_unknown: bool = False
    limits_unknown: bool = False
    sums_unknown: bool = False

    @property
    def pending(self) -> bool:
        """Whether the spec differs from the first state."""
        return not _same(self.desired, self.states[0])


def allocated(pod: Pod, kubelet: Kubelet) -> Pod:
    """The pod with its allocated resources."""
    return allocation(pod, kubelet).states[0]


def allocation(pod: Pod, kubelet: Kubelet) -> Allocation:
    """The allocation by the pod's status under this kubelet; by the spec without a status."""
    status, gates = pod.status, kubelet.settings.feature_gates
    if status is None or stage(Gate.RESIZE, kubelet.release) is None:
        return Allocation(states=(pod,), desired=pod)
    case = _Case(pod, status, kubelet)
    return case.resized() if enabled(Gate.RESIZE, kubelet.release, gates) else case.without_gate()


def _same(one: Pod, other: Pod) -> bool:
    """Whether two states of a pod have equal resources."""
    return one.resources == other.resources and all(
        a.resources == b.resources for a, b in zip(one.all_containers, other.all_containers, strict=True)
    )


def _distinct(*states: Pod) -> tuple[Pod, ...]:
    found: list[Pod] = []
    for state in states:
        if not any(_same(state, one) for one in found):
            found.append(state)
    return tuple(found)


class _Case:
    """One pod with its status."""

    def __init__(self, pod: Pod, status: PodStatus, kubelet: Kubelet) -> None:
        self._pod = pod
        self._status = status
        self._kubelet = kubelet
        self._waits = status.pending or (status.resize if status.resize in {"Deferred", "Infeasible"} else "")
        self._proposed = status.resize == "Proposed" or self._is_unseen()
        self._in_progress = status.in_progress or status.resize == "InProgress"
        # Requests and limits of a pod are allocated together.
        self._limits_wait = bool(self._waits) or any(map(self._differs, (*pod.init_containers, *pod.containers)))

    def _is_unseen(self) -> bool:
        """Whether the spec has changed since the kubelet's last report."""
        seen, now = self._status.observed_generation, self._pod.generation
        return seen is not None and now is not None and seen < now

    def without_gate(self) -> Allocation:
        """The gate is off: running containers keep their resources, and new ones follow the spec."""
        pod, gate = self._pod, f"the gate {Gate.RESIZE} is off, so cgroups keep the values they were created with"
        states = _distinct(pod, self._of(self._admitted), self._of(self._actual))
        if len(states) > 1:
            limits = self._limits_unsaid()
            why = f"{gate}: the status has other resources than the spec{f', and {limits}' if limits else ''}"
            return Allocation(states=states, desired=pod, why=why, limits_unknown=bool(limits))
        if self._waits:
            why = f"{gate}: the spec requests other resources than these, which the status does not report"
            return Allocation(states=states, desired=pod, why=why, unknown=True)
        return Allocation(states=states, desired=pod)

    def resized(self) -> Allocation:
        """The gate is on."""
        pod, states, why = self._pod, [self._of(self._admitted)], []
        unknown = pod_unknown = sums_unknown = False
        limits = self._limits_unsaid()
        if self._waits and any(one.resources is None and one.allocated is None for one in self._resizable()):
            unknown = True
            why.append(f"the resize is {self._waits.lower()}, and the status does not report the allocated resources")
        elif limits:
            asks = (
                f"the resize is {self._waits.lower()}"
                if self._waits
                else "the spec has other requests than the allocated ones"
            )
            why.append(f"{asks}, and {limits}")
        if self._waits and self._outlived():
            # Up to 1.31 a recreated container gets the spec's resources (kubernetes#126033).
            states.append(pod)
            why.append(f"the resize is {self._waits.lower()}, and kubelets up to 1.31 carry it out at a restart")
        if self._in_progress:
            states.append(self._of(self._actual))
            pod_unknown = len(_distinct(*states)) == 1
            why.append(f"a resize is in progress{f' ({self._status.error})' if self._status.error else ''}")
            if any(one.resources is None for one in self._resizable()):
                unknown = True
                why.append("and the status does not report the containers' resources")
            elif self._waits and any(one.allocated_limits is None for one in self._resizable()):
                states.append(pod)
                why.append("and another one waits, so the status does not show which limits are allocated")
        if self._proposed or (not self._waits and not _same(pod, states[0])):
            states += [pod, self._of(self._actual)]
            why.append("the spec requests a resize that the kubelet had not accepted when this was read")
            if self._is_unseen() and all(one.resources is None and one.allocated is None for one in self._resizable()):
                unknown = sums_unknown = True
                why.append("and the status does not report the allocated resources")
        found = _distinct(*states)
        if len(found) == 1 and not (unknown or pod_unknown or limits):
            why = []
        return Allocation(
            states=found,
            desired=pod,
            why=", ".join(why),
            unknown=unknown,
            pod_unknown=pod_unknown,
            limits_unknown=bool(limits),
            sums_unknown=sums_unknown,
        )

    def _resizable(self) -> list[ContainerStatus]:
        """The statuses of containers that can be resized."""
        statuses = self._status.containers
        return [statuses.get(one.name, ContainerStatus(name=one.name)) for one in self._pod.containers]

    def _limits_unsaid(self) -> str:
        """Why the allocated limits are unknown while the requests are known; "" if they are known.

        A Guaranteed pod's limits equal its requests: no resize changes the class.
        """
        if not self._limits_wait or self._is_guaranteed():
            return ""
        if all(one.resources is not None or one.allocated_limits is not None for one in self._resizable()):
            return ""
        if self._status.checkpoint:
            return f"neither {self._status.checkpoint} nor the pod's status reports which limits are allocated"
        return "the status does not report which limits are allocated"

    def _differs(self, container: Container) -> bool:
        """Whether the allocated requests of a container differ from the spec's."""
        status = self._status.containers.get(container.name)
        asked, given = container.resources.requests, None if status is None else status.allocated
        return given is not None and any(asked.get(name) != given.get(name) for name in _RESIZABLE)

    def _is_guaranteed(self) -> bool:
        return pod_qos(self._pod, pod_level=self._kubelet.pod_level) is QosClass.GUARANTEED

    def _outlived(self) -> bool:
        """Whether a container was recreated by a kubelet that uses the spec for that."""
        if self._kubelet.release.has(Novelty.RESIZE_SUBRESOURCE):
            return False
        return any(one.restarts for one in self._status.containers.values())

    def _of(self, pick: _Pick) -> Pod:
        """The pod with the resources picked for each container in the status."""

        def of(container: Container) -> Container:
            status = self._status.containers.get(container.name)
            if status is None:
                return container
            picked = pick(container, status)
            if picked == container.resources:
                return container
            return replace(container, resources=picked, origin=self._origin(container, status, picked))

        pod = self._pod
        return replace(
            pod,
            containers=tuple(of(one) for one in pod.containers),
            init_containers=tuple(of(one) for one in pod.init_containers),
            resources=self._pod_level(),
        )

    def _admitted(self, container: Container, status: ContainerStatus) -> Resources:
        """The allocated resources: the requests as reported; the limits as reported while the spec waits."""
        spec, reported = container.resources, status.resources
        requests = status.allocated
        if requests is None and self._waits and reported is not None:
            requests = reported.requests
        limits = status.allocated_limits
        if limits is None and self._limits_wait:
            limits = reported.limits if reported is not None else self._likely_limits(container, requests)
        return Resources(requests=_over(spec.requests, requests), limits=_over(spec.limits, limits))

    def _likely_limits(self, container: Container, requests: ResourceList | None) -> ResourceList | None:
        """The limits of a container with only its allocated requests known, such that the pod keeps its class."""
        if requests is None:
            return None
        if self._is_guaranteed():
            return requests
        spec = container.resources.limits
        return {} if all(spec.get(name) == requests.get(name) for name in _RESIZABLE) else None

    def _actual(self, container: Container, status: ContainerStatus) -> Resources:
        """A running container's resources as its runtime reports them; the allocated ones without a report."""
        admitted, reported = self._admitted(container, status), status.resources
        # A container started after the resize was allocated has the allocated resources.
        if reported is None or (self._in_progress and status.started > self._status.since != ""):
            return admitted
        return Resources(
            requests=_over(admitted.requests, reported.requests), limits=_over(admitted.limits, reported.limits)
        )

    def _pod_level(self) -> Resources | None:
        """The allocated pod-level resources; the status has them with the pod's overhead."""
        pod, status, kubelet = self._pod, self._status, self._kubelet
        own, requests = pod.resources, status.allocated
        on = enabled(Gate.RESIZE_POD_LEVEL, kubelet.release, kubelet.settings.feature_gates)
        if own is None or not on or not self._waits:
            return own
        limits = status.resources.limits if status.resources is not None else None
        return Resources(
            requests=_within(own.requests, requests, pod.overhead), limits=_within(own.limits, limits, pod.overhead)
        )

    def _origin(self, container: Container, status: ContainerStatus, picked: Resources) -> dict[str, str]:
        """The places of the amounts, with the spec's different amounts."""
        found, word = dict(container.origin), self._waits.lower() or "not carried out yet"
        for kind, spec, now, keys in (
            ("requests", container.resources.requests, picked.requests, ("allocated", "resources.requests")),
            ("limits", container.resources.limits, picked.limits, ("resources.limits",)),
        ):
            for name in _RESIZABLE:
                if name not in now or now[name] == spec.get(name):
                    continue
                place = next((status.origin[f"{key}.{name}"] for key in keys if f"{key}.{name}" in status.origin), "")
                asked = f"{spec[name]} is requested and {word}" if name in spec else f"none is requested and {word}"
                found[f"{kind}.{name}"] = f"{place}: allocated {now[name]}; {asked}"
        return found


def _over(spec: ResourceList, reported: ResourceList | None) -> ResourceList:
    """A list of the spec with the reported amounts of cpu and memory; amounts that are not reported are removed.

    Other resources cannot be resized and keep the spec's texts.
    """
    if reported is None or all(spec.get(name) == reported.get(name) for name in _RESIZABLE):
        return spec
    found = {name: amount for name, amount in spec.items() if name not in _RESIZABLE}
    return {**found, **{name: reported[name] for name in _RESIZABLE if name in reported}}


def _within(spec: ResourceList, reported: ResourceList | None, overhead: ResourceList) -> ResourceList:
    """The reported pod-level amounts less the overhead, for the resources in its spec."""
    if reported is None:
        return spec
    found = dict(spec)
    for name in _RESIZABLE:
        if name in spec and name in reported:
            found[name] = reported[name] - overhead[name] if name in overhead else reported[name]
    return found


_NODE_CRITICAL = "system-node-critical"
_FIRST = 1


def score_unsure(allocation: Allocation, name: str, scores: Sequence[int], kubelet: Kubelet) -> str:
    """Why a container's processes may have another score than its resources imply; "" if they cannot.

    scores: by the states of the allocation.
    """
    pod = allocation.desired
    container = next(one for one in pod.all_containers if one.name == name)
    if not _depends(pod, kubelet):
        return ""
    if len(set(scores)) > 1:
        return f"{allocation.why}, and a process keeps the score that it was started with"
    if not enabled(Gate.RESIZE, kubelet.release, kubelet.settings.feature_gates) or never_resized(pod):
        return ""
    if _restarts(pod, container):
        return ""
    return f"a process keeps the score that it was started with, and {_evidence(pod)}"


def _depends(pod: Pod, kubelet: Kubelet) -> bool:
    """Whether a score depends on requests: it is fixed in other classes and for node critical pods."""
    if pod.is_critical and pod.priority_class_name == _NODE_CRITICAL:
        return False
    return pod_qos(pod, pod_level=kubelet.pod_level) is QosClass.BURSTABLE


def never_resized(pod: Pod) -> bool:
    """Whether no resize can have been carried out: the spec never changed, or only by the waiting resize."""
    status = pod.status
    if pod.generation == _FIRST or pod.static:
        return True
    waits = status is not None and status.pending and not status.in_progress
    return bool(waits) and status is not None and status.pending_generation == pod.generation == _FIRST + 1


def _restarts(pod: Pod, container: Container) -> bool:
    """Whether a memory resize restarts the container, and no other container's resize affects its score."""
    alone = container.kind is not ContainerKind.SIDECAR and not pod_level_set(pod)
    return alone and container.resize_policy.get("memory") is ResizePolicy.RESTART_CONTAINER


def _evidence(pod: Pod) -> str:
    """The manifest's evidence of earlier resizes, and of the container's start."""
    if pod.generation is None:
        return "the pod may have been resized in place since: its generation is not given"
    return f"the pod may have been resized in place since: its spec has changed (generation {pod.generation})"


_SUMMED = "the kubelet recomputes it every minute from the pods' specs, and not all of their requests are allocated"
_BY_RESOURCES = frozenset(
    {
        Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.CPU_WEIGHT,
        Knob.CPU_MAX, Knob.MEMORY_LIMIT_IN_BYTES, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, Knob.CPU_SHARES,
        Knob.CPU_CFS_QUOTA_US,
    }
)  # fmt: skip
"""The files that depend on requests and limits of cpu and memory."""
_BY_REQUESTS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.CPU_WEIGHT, Knob.CPU_SHARES})
"""Those of them that depend on requests only."""

_Planned = Callable[[Iterable[Pod]], Plan]


def unsettled(plan: Plan, allocations: Sequence[Allocation], planned: _Planned, kubelet: Kubelet) -> Plan:
    """The plan of the pods' first states, with the other possible values.

    planned: makes a plan of pods in the same way as the plan of the first states.
    """
    most = max((len(one.states) for one in allocations), default=1)
    others = [planned(one.states[min(number, len(one.states) - 1)] for one in allocations) for number in range(1, most)]
    pending = any(one.pending for one in allocations)
    summed = [*others, *([planned(one.desired for one in allocations)] if pending else [])]
    by_uid = {one.desired.uid: one for one in allocations}
    found: dict[str, list[PlannedPod]] = {}
    for pod in (pod for other in others for pod in other.pods):
        found.setdefault(pod.uid, []).append(pod)
    unseen = next((one.why for one in allocations if one.sums_unknown), "")
    return replace(
        plan,
        node=_above(plan.node, [one.node for one in summed], unseen),
        qos=tuple(_above(one, [other.qos[i] for other in summed], unseen) for i, one in enumerate(plan.qos)),
        pods=tuple(_pod(one, found.get(one.uid, ()), by_uid[one.uid], kubelet) for one in plan.pods),
    )


def _above(cgroup: PlannedCgroup, others: Iterable[PlannedCgroup], unseen: str) -> PlannedCgroup:
    """unseen: why the sums are unknown; "" if they are not."""
    summed = cgroup.summed & cgroup.knobs.keys() if unseen else ()
    told = {knob: replace(cgroup.knobs[knob], unsettled=unseen) for knob in summed}
    return _either(replace(cgroup, knobs={**cgroup.knobs, **told}), others, _SUMMED)


def _either(cgroup: PlannedCgroup, others: Iterable[PlannedCgroup], why: str) -> PlannedCgroup:
    """The cgroup with the values of all of these as possible."""
    told: dict[Knob, Expected] = {}
    plain = unexplained_files(cgroup.knobs)
    # Most pods are not being resized, so their reasons need not be computed here.
    for other in (one for one in others if unexplained_files(one.knobs) != plain):
        for knob, one in cgroup.knobs.items():
            now, also = told.get(knob, one), other.knobs.get(knob, one)
            values = tuple(dict.fromkeys([*(now.undecided or (now.value,)), *(also.undecided or (also.value,))]))
            if len(values) > len(now.undecided or (0,)):
                told[knob] = replace(now, undecided=values, unsettled=f"{why}: {' or '.join(map(str, values))}")
    return replace(cgroup, knobs={**cgroup.knobs, **told}) if told else cgroup


def _unknown(cgroup: PlannedCgroup, allocation: Allocation, *, whole: bool) -> PlannedCgroup:
    """The cgroup with unknown values in files that depend on limits; whole: and on requests."""
    if not (whole or allocation.limits_unknown):
        return cgroup
    open_ = _BY_RESOURCES if whole else _BY_RESOURCES - _BY_REQUESTS
    told = {knob: replace(one, unsettled=allocation.why) for knob, one in cgroup.knobs.items() if knob in open_}
    return replace(cgroup, knobs={**cgroup.knobs, **told})


def _pod(pod: PlannedPod, others: Sequence[PlannedPod], allocation: Allocation, kubelet: Kubelet) -> PlannedPod:
    if allocation.desired.status is None:
        return pod
    cgroup = _either(pod.cgroup, [one.cgroup for one in others], allocation.why)
    return replace(
        pod,
        cgroup=_unknown(cgroup, allocation, whole=allocation.unknown or allocation.pod_unknown),
        containers=tuple(
            _container(one, [other.containers[i] for other in others], allocation, kubelet)
            for i, one in enumerate(pod.containers)
        ),
    )


def _container(
    container: PlannedContainer, others: Sequence[PlannedContainer], allocation: Allocation, kubelet: Kubelet
) -> PlannedContainer:
    cgroup = _either(container.cgroup, [one.cgroup for one in others], allocation.why)
    return replace(
        container,
        cgroup=_unknown(cgroup, allocation, whole=allocation.unknown),
        oom_score_adj_unsure=score_unsure(
            allocation, container.name, [one.oom_score_adj for one in (container, *others)], kubelet
        ),
    )
