"""Which pods the node admits, and which zones their containers' memory comes from, one pod after the other.

The rules are `engine.numa`'s; here they are applied to the pods of a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from memqos.engine.fit import Room, pod_needs
from memqos.engine.kubelet import Kubelet
from memqos.engine.numa.admit import Admitted, admit, start, started
from memqos.engine.numa.policies import MemoryPolicy, Policies
from memqos.engine.numa.zone_table import ZoneTable
from memqos.engine.plan import Refusal
from memqos.model.pod import Pod

__all__ = ["Placement", "place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The pods that may run, what was found for each of them (by uid), and those that were refused.

    manages: whether the Memory Manager places anything at all. Without it every pod is admitted, and nothing is known
    about zones.
    """

    pods: tuple[Pod, ...]
    manages: bool = False
    admitted: Mapping[str, Admitted] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()


def place(
    pods: Iterable[Pod], kubelet: Kubelet, table: ZoneTable | None = None, *, room: Room | None = None
) -> Placement:
    """Admit pods in the order given; each one's containers have all started before the next pod comes.

    table: what the Memory Manager holds already; None is a node without pods. A pod that holds memory in it keeps it.
    room: what the node has for pods; None leaves aside whether they fit.

    Raises ManifestError for a `reservedMemory` or policy that the kubelet does not start with, UsageError for zones
    that have less than what is reserved in them.
    """
    policies = Policies.of(kubelet.settings, kubelet.release)
    first = start(kubelet.node, kubelet.settings, policies)
    manages = policies.memory is not MemoryPolicy.NONE
    if not manages and room is None:
        return Placement(pods=tuple(pods))
    table = table or first
    running, refusals = [], []
    admitted: dict[str, Admitted] = {}
    for pod in pods:
        outcome = admit(pod, table=table, policies=policies) if manages else None
        if isinstance(outcome, Refusal):
            refusals.append(replace(outcome, name=f"{pod.namespace}/{pod.name}"))
            continue
        if room is not None:
            needs = pod_needs(pod, kubelet)
            refusal = room.refusal(pod, needs, kubelet)
            if refusal is not None:
                refusals.append(refusal)
                continue
            room = room.with_pod(pod, needs)
        if outcome is not None:
            table = started(pod, outcome.table, policies)
            admitted[pod.uid] = outcome
        running.append(pod)
    return Placement(pods=tuple(running), manages=manages, admitted=admitted, refusals=tuple(refusals))
