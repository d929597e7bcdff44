"""Selects the pods that an audit plans, by their status and their cgroups in the tree."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from memqos.catalog.recorded_contents import Recognised
from memqos.engine.answer.finding import Finding, Subject, Verdict, subject_of
from memqos.engine.answer.verdict import NOT_READ, NOT_STARTED
from memqos.engine.plan import Plan
from memqos.model.knob import Knob
from memqos.model.pod import ContainerState, Pod

__all__ = ["AuditedPods", "by_status", "sorted_out", "why_missing"]

_SHARES = frozenset({Knob.CPU_WEIGHT, Knob.CPU_SHARES})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPods:
    """The given pods, sorted.

    present: those with a container or at least a cgroup in the tree. absent: those that should be in the tree, or that
    the kubelet refused. ended: how many have ended and are gone. ending: those that have ended but still have cgroups.
    elsewhere: how many are bound to another node, or to none yet.
    """

    present: tuple[Pod, ...]
    absent: tuple[Pod, ...]
    ended: int
    ending: tuple[Pod, ...]
    elsewhere: int

    def uncounted(self, missing: Iterable[Pod]) -> tuple[str, ...]:
        """Why the kubelet may or may not include pods in the sums above pods: they are starting or ending."""
        found = [f"pod {_name(pod)} {_ended(pod)}, and its cgroup still exists" for pod in self.ending]
        for pod in missing:
            if pod.deleted:
                found.append(f"pod {_name(pod)} is being deleted")
            elif pod.status is not None and pod.phase == "Pending":
                found.append(f"pod {_name(pod)} is Pending")
        return tuple(found)


def sorted_out(found: Recognised, here: Collection[str]) -> AuditedPods:
    """Sort the given pods. here: the uids of all pods with a cgroup in the tree."""
    every = (*found.present, *found.absent)
    ended = {pod.uid for pod in every if pod.has_ended}
    nodes = {pod.node for pod in found.present if pod.node}
    absent = [pod for pod in found.absent if pod.uid not in ended and pod.uid not in here]
    elsewhere = {pod.uid for pod in absent if _is_elsewhere(pod, nodes)}
    begun = [pod for pod in found.absent if pod.uid not in ended and pod.uid in here]
    return AuditedPods(
        present=(*(pod for pod in found.present if pod.uid not in ended), *begun),
        absent=tuple(pod for pod in absent if pod.uid not in elsewhere),
        ended=len([pod for pod in every if pod.has_ended and pod.uid not in here]),
        ending=tuple(pod for pod in every if pod.has_ended and pod.uid in here),
        elsewhere=len(elsewhere),
    )


def _is_elsewhere(pod: Pod, nodes: Collection[str]) -> bool:
    """Whether a pod is bound to another node than the pods of the tree, or to none yet."""
    if pod.controller is not None:
        return True
    return pod.node not in nodes if pod.node and nodes else pod.waits_for_node


def why_missing(pod: Pod, *, several: bool) -> str:
    """Why a given pod without a container in the tree is not judged, from its status if possible."""
    if pod.has_ended:
        return f"it {_ended(pod)}, and the kubelet has not removed its cgroup yet"
    if several:
        return "the tree has several pods of this name, and none of its uid"
    none = "the tree has no container of this pod"
    if pod.deleted:
        return f"{none}: it is being deleted"
    return f"{none}: it is Pending" if pod.status is not None and pod.phase == "Pending" else none


def by_status(findings: Iterable[Finding], plan: Plan, pods: Iterable[Pod]) -> Iterator[Finding]:
    """The findings; those about containers that do not run quote their status.

    The kubelet lowers the CPU shares of a pod that is being deleted, so these are not observable.
    """
    given = {pod.uid: pod for pod in pods}
    why: dict[Subject, str] = {}
    deleted: set[Subject] = set()
    for planned in plan.pods:
        pod = given.get(planned.uid)
        if pod is None:
            continue
        if pod.deleted:
            deleted.add(subject_of(planned.cgroup, planned))
        told = _told(pod)
        why |= {subject_of(one.cgroup, planned): told[one.name] for one in planned.containers if one.name in told}
    for finding in findings:
        if finding.subject in deleted and finding.knob in _SHARES and finding.verdict is Verdict.DEVIATES:
            what = "the pod is being deleted, and the kubelet lowers the cpu shares of such a pod's cgroup"
            yield replace(finding, verdict=Verdict.NOT_OBSERVABLE, why_not=what)
        elif finding.subject in why and finding.why_not in {NOT_STARTED, NOT_READ}:
            yield replace(finding, why_not=f"{finding.why_not}: {why[finding.subject]}")
        else:
            yield finding


def _told(pod: Pod) -> Mapping[str, str]:
    """By name, the status of the containers that do not run."""
    words = {ContainerState.WAITING: "it waits", ContainerState.TERMINATED: "it has terminated"}
    statuses = pod.status.containers.values() if pod.status is not None else ()
    return {
        one.name: f"{words[one.state]} ({one.reason or 'no reason given'})" for one in statuses if one.state in words
    }


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _ended(pod: Pod) -> str:
    reason = pod.status.reason if pod.status is not None else ""
    return f"has ended ({reason or pod.phase})"
