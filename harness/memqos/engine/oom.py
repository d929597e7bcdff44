"""oom_score_adj of a container's processes.

Source: kubelet `qos.GetContainerOOMScoreAdjust`. Revisions: v1.22, v1.32 (pod-level requests, and sidecars behind
their gate), v1.33 (sidecars always). All divisions truncate.
"""

from __future__ import annotations

from dataclasses import dataclass

from memqos.engine.cpu import quotient
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason
from memqos.engine.release import Family
from memqos.engine.sums import aggregate, amount, pod_level_requests_set
from memqos.model.pod import CRITICAL_PRIORITY, Container, ContainerKind, Pod, QosClass

__all__ = ["BEST_EFFORT_ADJ", "GUARANTEED_ADJ", "SANDBOX_ADJ", "OomScore", "container_oom_score"]

GUARANTEED_ADJ = -997
BEST_EFFORT_ADJ = 1000
SANDBOX_ADJ = -998
"""What containerd gives a sandbox's own process."""

_NODE_CRITICAL = "system-node-critical"
_SOURCE = "kubelet qos.GetContainerOOMScoreAdjust"


@dataclass(frozen=True, slots=True, kw_only=True)
class OomScore:
    """The value (-997 to 1000), with what it came from; `reason` says it in words."""

    value: int
    rule: str
    revision: str
    inputs: tuple[Input, ...] = ()
    arithmetic: str = ""
    rounding: str = ""

    def reason(self) -> Reason:
        """The reason chain of this value."""
        return Reason(
            rule=self.rule,
            revision=self.revision,
            source=_SOURCE,
            inputs=self.inputs,
            arithmetic=self.arithmetic,
            rounding=self.rounding,
        )


def container_oom_score(pod: Pod, container: Container, qos: QosClass, kubelet: Kubelet) -> OomScore:
    """The oom_score_adj that the kubelet asks for."""
    revision = kubelet.revisions[Family.OOM_SCORE]
    if pod.is_critical and pod.priority_class_name == _NODE_CRITICAL:
        rule = f"a node critical pod gets {GUARANTEED_ADJ} whatever its class"
        priority = "static pod" if pod.static else f"priority {pod.priority} >= {CRITICAL_PRIORITY}"
        inputs = (
            Input("priorityClassName", f"{_NODE_CRITICAL} ({priority})", pod.origin.get("priorityClassName", "")),
        )
        return OomScore(value=GUARANTEED_ADJ, rule=rule, revision=revision, inputs=inputs)
    if qos is not QosClass.BURSTABLE:
        value = GUARANTEED_ADJ if qos is QosClass.GUARANTEED else BEST_EFFORT_ADJ
        return OomScore(value=value, rule=f"every container of a {qos} pod gets {value}", revision=revision)
    return _burstable(pod, container, kubelet, revision)


def _burstable(pod: Pod, container: Container, kubelet: Kubelet, revision: str) -> OomScore:
    capacity = kubelet.node.memory
    own = amount(container.resources.requests, "memory").value
    share = _share_of_rest(pod) if kubelet.pod_level and pod_level_requests_set(pod) else 0
    score = 1000 - quotient(1000 * (own + share), capacity)
    request = f"({own} + {share})" if share else f"{own}"
    arithmetic = f"1000 - 1000 * {request} / {capacity} = {score}"
    if container.kind is ContainerKind.SIDECAR and kubelet.release.since(32):
        least = min((amount(one.resources.requests, "memory").value for one in pod.containers), default=0)
        other = 1000 - quotient(1000 * (least + share), capacity)
        arithmetic += (
            f"; a sidecar is no likelier a victim than the pod's smallest app container: min({score}, {other})"
        )
        score = min(score, other)
    lowest = 1000 + GUARANTEED_ADJ
    if score < lowest:
        arithmetic, score = f"{arithmetic}; at least {lowest}", lowest
    elif score == BEST_EFFORT_ADJ:
        arithmetic, score = f"{arithmetic}; below a BestEffort pod's 1000: 999", BEST_EFFORT_ADJ - 1
    return OomScore(
        value=score,
        rule="a Burstable container's score falls by its memory request's share of the machine, in thousandths",
        revision=revision,
        inputs=(
            Input("requests.memory", str(own), container.origin.get("requests.memory", "not given")),
            kubelet.fact("memory capacity", capacity),
        ),
        arithmetic=arithmetic,
        rounding="integer division, toward zero",
    )


def _share_of_rest(pod: Pod) -> int:
    """Bytes of the pod-level memory request that no container asked for, divided by the number of containers."""
    if pod.resources is None or amount(pod.resources.requests, "memory").is_zero:
        return 0
    rest = amount(pod.resources.requests, "memory").value - amount(aggregate(pod), "memory").value
    return quotient(rest, len(pod.containers) + len(pod.init_containers))
