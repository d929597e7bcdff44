"""Which pods the node admits, and which zones their containers' memory comes from, one pod after the other.

The rules are `engine.numa`'s; here they are applied to the pods of a plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.node.fit import Room, pod_needs
from memqos.engine.node.predicates import predicate_refusal, scheduling_refusal
from memqos.engine.numa.admit import Admitted, admit, pod_started, release, start
from memqos.engine.numa.draft_2020 import DraftAdmitted, draft_admit, draft_table
from memqos.engine.numa.policies import MemoryPolicy, Policies
from memqos.engine.numa.zone_table import ZoneTable
from memqos.engine.plan import Refusal
from memqos.engine.pod.qos import pod_qos
from memqos.engine.releases.release import Variant
from memqos.errors import UsageError
from memqos.model.pod import Pod

__all__ = ["Placement", "place", "table_after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The pods that may run, what was found for each of them (by uid), and those that were refused.

    manages: whether the Memory Manager places anything at all. Without it every pod is admitted, and nothing is known
    about zones.
    """

    pods: tuple[Pod, ...]
    manages: bool = False
    admitted: Mapping[str, Admitted | DraftAdmitted] = field(default_factory=dict)
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
    manages = policies.memory is not MemoryPolicy.NONE
    manager = (
        _Draft(kubelet, table) if manages and kubelet.variant is Variant.DRAFT else _Static(kubelet, policies, table)
    )
    running, refusals = [], []
    admitted: dict[str, Admitted | DraftAdmitted] = {}
    for pod in pods:
        unscheduled = scheduling_refusal(pod, kubelet)
        if unscheduled is not None:
            refusals.append(unscheduled)
            continue
        outcome = manager.admit(pod) if manages else None
        if isinstance(outcome, Refusal):
            refusals.append(replace(outcome, name=f"{pod.namespace}/{pod.name}"))
            continue
        rejected = predicate_refusal(pod, kubelet)
        if rejected is not None:
            refusals.append(rejected)
            continue
        if room is not None:
            needs = pod_needs(pod, kubelet)
            refusal = room.refusal(pod, needs, kubelet)
            if refusal is not None:
                refusals.append(refusal)
                continue
            room = room.with_pod(pod, needs)
        if outcome is not None:
            manager.keep()
            admitted[pod.uid] = outcome
        running.append(pod)
    return Placement(pods=tuple(running), manages=manages, admitted=admitted, refusals=tuple(refusals))


def table_after(pods: Iterable[Pod], kubelet: Kubelet, *, ended: Collection[str]) -> ZoneTable:
    """What the Memory Manager holds when these pods were admitted in this order and some, by uid, have ended since.

    A pod that was refused holds nothing, and one that was never there cannot end. Errors as of `place`.
    """
    manager = _Static(kubelet, Policies.of(kubelet.settings, kubelet.release), None)
    for pod in pods:
        if isinstance(manager.admit(pod), Admitted):
            manager.keep()
    table = manager.table
    for uid in ended:
        table = release(uid, table)
    return table


class _Static:
    """The Memory Manager's policy Static, with what it holds: `admit` tries a pod, `keep` is for one that stays."""

    def __init__(self, kubelet: Kubelet, policies: Policies, table: ZoneTable | None) -> None:
        first = start(kubelet.node, kubelet.settings, policies)
        self._policies = policies
        self._table = self._tried = table or first

    def admit(self, pod: Pod) -> Admitted | Refusal:
        """Place a pod beside those that were kept; its containers have all started once it is kept."""
        outcome = admit(pod, table=self._table, policies=self._policies)
        if isinstance(outcome, Admitted):
            self._tried = pod_started(pod, outcome.table, self._policies)
        return outcome

    def keep(self) -> None:
        """Let the pod hold what it was just given."""
        self._table = self._tried

    @property
    def table(self) -> ZoneTable:
        """What the pods hold that were kept."""
        return self._table


class _Draft:
    """The Memory Manager as it was drafted, in the same words."""

    def __init__(self, kubelet: Kubelet, table: ZoneTable | None) -> None:
        if table is not None:
            raise UsageError(
                "a table of zones that a kubelet holds is none of the draft's.",
                next_step="Follow what was shipped, or leave the table out.",
            )
        self._pod_level = kubelet.pod_level
        self._table = self._tried = draft_table(kubelet.node, kubelet.settings)

    def admit(self, pod: Pod) -> DraftAdmitted | Refusal:
        """Place a pod beside those that were kept."""
        outcome = draft_admit(pod, qos=pod_qos(pod, pod_level=self._pod_level), table=self._table)
        if isinstance(outcome, DraftAdmitted):
            self._tried = outcome.table
        return outcome

    def keep(self) -> None:
        """Let the pod hold what it was just given."""
        self._table = self._tried
