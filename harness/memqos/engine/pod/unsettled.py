"""A plan for pods whose resources change while they run: what two states of a pod have in common is expected.

Where they differ a file may hold either value: the plan has both, and why, and what the file holds is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.pod.alike import unexplained_files
from memqos.engine.pod.allocated import Allocation
from memqos.engine.pod.started import score_unsure
from memqos.model.knob import Knob
from memqos.model.pod import Pod

__all__ = ["unsettled"]

_SUMMED = "the kubelet makes it every minute from what the pods' specs ask for, and not all of that is allocated"
_BY_RESOURCES = frozenset(
    {
        Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.CPU_WEIGHT,
        Knob.CPU_MAX, Knob.MEMORY_LIMIT_IN_BYTES, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, Knob.CPU_SHARES,
        Knob.CPU_CFS_QUOTA_US,
    }
)  # fmt: skip
"""The files whose values follow from requests and limits of cpu and memory."""

_Planned = Callable[[Iterable[Pod]], Plan]


def unsettled(plan: Plan, allocations: Sequence[Allocation], planned: _Planned, kubelet: Kubelet) -> Plan:
    """The plan of the pods' first states, with what else may be.

    planned: makes a plan of pods, as the plan of the first states was made.
    """
    most = max((len(one.states) for one in allocations), default=1)
    others = [planned(one.states[min(number, len(one.states) - 1)] for one in allocations) for number in range(1, most)]
    pending = any(one.pending for one in allocations)
    summed = [*others, *([planned(one.desired for one in allocations)] if pending else [])]
    by_uid = {one.desired.uid: one for one in allocations}
    found: dict[str, list[PlannedPod]] = {}
    for pod in (pod for other in others for pod in other.pods):
        found.setdefault(pod.uid, []).append(pod)
    return replace(
        plan,
        node=_above(plan.node, [one.node for one in summed]),
        qos=tuple(_above(one, [other.qos[i] for other in summed]) for i, one in enumerate(plan.qos)),
        pods=tuple(_pod(one, found.get(one.uid, ()), by_uid[one.uid], kubelet) for one in plan.pods),
    )


def _above(cgroup: PlannedCgroup, others: Iterable[PlannedCgroup]) -> PlannedCgroup:
    return _either(cgroup, others, _SUMMED)


def _either(cgroup: PlannedCgroup, others: Iterable[PlannedCgroup], why: str) -> PlannedCgroup:
    """The cgroup in which a file may hold what any of these has."""
    told: dict[Knob, Expected] = {}
    plain = unexplained_files(cgroup.knobs)
    # Most pods are not being resized: their reasons are not made for this.
    for other in (one for one in others if unexplained_files(one.knobs) != plain):
        for knob, one in cgroup.knobs.items():
            now, also = told.get(knob, one), other.knobs.get(knob, one)
            values = tuple(dict.fromkeys([*(now.undecided or (now.value,)), *(also.undecided or (also.value,))]))
            if len(values) > len(now.undecided or (0,)):
                told[knob] = replace(now, undecided=values, unsettled=f"{why}: {' or '.join(map(str, values))}")
    return replace(cgroup, knobs={**cgroup.knobs, **told}) if told else cgroup


def _unknown(cgroup: PlannedCgroup, why: str) -> PlannedCgroup:
    """The cgroup whose files may hold values that nothing tells."""
    told = {knob: replace(one, unsettled=why) for knob, one in cgroup.knobs.items() if knob in _BY_RESOURCES}
    return replace(cgroup, knobs={**cgroup.knobs, **told})


def _pod(pod: PlannedPod, others: Sequence[PlannedPod], allocation: Allocation, kubelet: Kubelet) -> PlannedPod:
    if allocation.desired.status is None:
        return pod
    cgroup = _either(pod.cgroup, [one.cgroup for one in others], allocation.why)
    return replace(
        pod,
        cgroup=_unknown(cgroup, allocation.why) if allocation.unknown or allocation.pod_unknown else cgroup,
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
        cgroup=_unknown(cgroup, allocation.why) if allocation.unknown else cgroup,
        oom_score_adj_unsure=score_unsure(
            allocation, container.name, [one.oom_score_adj for one in (container, *others)], kubelet
        ),
    )
