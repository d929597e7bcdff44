"""The QoS class of a pod, and the oom_score_adj derived from it.

The QoS class of a pod.

Source: kubelet `v1qos.ComputePodQOS`. Revisions: v1.22 (containers and init containers), v1.32 (pod-level lists
alone, with the gate PodLevelResources and `spec.resources` present).

oom_score_adj of a container's processes.

Source: kubelet `qos.GetContainerOOMScoreAdjust`. Revisions: v1.22, v1.32 (pod-level requests, and sidecars behind
their gate), v1.33 (sidecars always). All divisions truncate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memqos.engine.cgroup.cpu import int64, quotient
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Why
from memqos.engine.pod.sums import aggregate, amount, pod_level_requests_set
from memqos.engine.releases.table import Family, Novelty
from memqos.model.pod import CRITICAL_PRIORITY, Container, ContainerKind, Pod, QosClass, ResourceList

__all__ = ["BURSTABLE_SCORES", "OomScore", "container_oom_score", "pod_qos"]

_COUNTED = ("cpu", "memory")


def _positive(lists: Iterable[ResourceList]) -> tuple[dict[str, int], bool]:
    """The sums of the cpu and memory entries above zero, in nanos, and whether every list has both.

    These decide the class.
    """
    total: dict[str, int] = {}
    every = True
    for amounts in lists:
        for name in _COUNTED:
            given = amounts.get(name)
            if given is not None and given.nanos > 0:
                total[name] = total.get(name, 0) + given.nanos
            else:
                every = False
    return total, every


def pod_qos(pod: Pod, *, pod_level: bool) -> QosClass:
    """The class of a pod; pod_level: whether the release and gates use `spec.resources` (and then nothing else).

    Ephemeral containers never count. A request of zero counts as none, so explicit zeros with limits are Burstable.
    """
    if pod_level and pod.resources is not None:
        lists = [pod.resources]
    else:
        lists = [one.resources for one in pod.containers + pod.init_containers]
    requests, _ = _positive(one.requests for one in lists)
    limits, limited = _positive(one.limits for one in lists)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if limited and requests == limits else QosClass.BURSTABLE


GUARANTEED_ADJ = -997
BEST_EFFORT_ADJ = 1000

_NODE_CRITICAL = "system-node-critical"
_SOURCE = "kubelet qos.GetContainerOOMScoreAdjust"
_LOWEST = 1000 + GUARANTEED_ADJ

BURSTABLE_SCORES = range(_LOWEST, BEST_EFFORT_ADJ)
"""The possible scores of a container of a Burstable pod."""


@dataclass(slots=True)
class OomScore:
    """The value (-997 to 1000), and the chain of reasons for it."""

    value: int
    why: Why


def container_oom_score(pod: Pod, container: Container, qos: QosClass, kubelet: Kubelet) -> OomScore:
    """The oom_score_adj that the kubelet requests."""
    if pod.is_critical and pod.priority_class_name == _NODE_CRITICAL:
        return OomScore(GUARANTEED_ADJ, lambda: _critical_reason(pod, kubelet))
    if qos is QosClass.BURSTABLE:
        return _burstable(pod, container, kubelet)
    value = GUARANTEED_ADJ if qos is QosClass.GUARANTEED else BEST_EFFORT_ADJ
    return OomScore(value, lambda: _reason(kubelet, f"every container of a {qos} pod gets {value}"))


def _reason(
    kubelet: Kubelet, rule: str, inputs: tuple[Input, ...] = (), *, arithmetic: str = "", rounding: str = ""
) -> Reason:
    return Reason(
        rule=rule,
        revision=kubelet.revisions[Family.OOM_SCORE],
        source=_SOURCE,
        inputs=inputs,
        arithmetic=arithmetic,
        rounding=rounding,
    )


def _critical_reason(pod: Pod, kubelet: Kubelet) -> Reason:
    priority = "static pod" if pod.static else f"priority {pod.priority} >= {CRITICAL_PRIORITY}"
    given = Input("priorityClassName", f"{_NODE_CRITICAL} ({priority})", pod.origin.get("priorityClassName", ""))
    inputs = [given]
    if pod.priority is not None:
        inputs.append(Input("priority", str(pod.priority), pod.origin.get("priority", "given")))
    return _reason(kubelet, f"a node critical pod gets {GUARANTEED_ADJ} in every class", tuple(inputs))


def _burstable(pod: Pod, container: Container, kubelet: Kubelet) -> OomScore:
    capacity = kubelet.node.memory
    own = amount(container.resources.requests, "memory").value
    share = _share_of_rest(pod) if kubelet.pod_level and pod_level_requests_set(pod) else 0
    alone = other = _score(own + share, capacity)
    capped = container.kind is ContainerKind.SIDECAR and kubelet.release.has(Novelty.SIDECARS_CAPPED)
    if capped:
        least = min((amount(one.resources.requests, "memory").value for one in pod.containers), default=0)
        other = _score(least + share, capacity)
    score = min(alone, other)
    value = _LOWEST if score < _LOWEST else BEST_EFFORT_ADJ - 1 if score == BEST_EFFORT_ADJ else score

    def why() -> Reason:
        request = f"({own} + {share})" if share else f"{own}"
        steps = [f"1000 - 1000 * {request} / {capacity} = {alone}"]
        if capped:
            rule = "a sidecar is no likelier a victim than the pod's smallest app container"
            steps.append(f"{rule}: min({alone}, {other})")
        if score < _LOWEST:
            steps.append(f"at least {_LOWEST}")
        elif score == BEST_EFFORT_ADJ:
            steps.append(f"below a BestEffort pod's {BEST_EFFORT_ADJ}: {value}")
        return _reason(
            kubelet,
            "a Burstable container's score falls by its memory request's share of the machine, in thousandths",
            (
                Input("requests.memory", str(own), container.origin.get("requests.memory", "not given")),
                kubelet.fact("memory capacity", capacity),
            ),
            arithmetic="; ".join(steps),
            rounding="integer division, toward zero",
        )

    return OomScore(value, why)


def _score(request: int, capacity: int) -> int:
    """A thousand less the request's thousandths of the capacity."""
    return 1000 - quotient(int64(1000 * request), capacity)


def _share_of_rest(pod: Pod) -> int:
    """Bytes of the pod-level memory request beyond the containers' requests, divided by the number of containers."""
    if pod.resources is None or amount(pod.resources.requests, "memory").is_zero:
        return 0
    rest = amount(pod.resources.requests, "memory").value - amount(aggregate(pod), "memory").value
    return quotient(rest, len(pod.containers) + len(pod.init_containers))
