"""The Topology Manager: from the providers' hints to one affinity and a decision.

Source: kubelet `cm/topologymanager/policy_*.go`; KEP-693.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.engine.numa.hint import NO_AFFINITY, Hint, ProviderHints
from memqos.engine.numa.merge import Merger, filter_hints
from memqos.engine.numa.policies import TopologyPolicy

__all__ = ["TopologyDecision", "admits", "single_zone_hints", "topology_decision"]


@dataclass(frozen=True, slots=True)
class TopologyDecision:
    """What the policy makes of the hints: the affinity to keep for the container or pod, and whether it may run."""

    hint: Hint
    admitted: bool


def admits(policy: TopologyPolicy, hint: Hint) -> bool:
    """Whether a policy lets a pod run with this merged hint."""
    return hint.preferred or policy in {TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT}


def single_zone_hints(lists: Sequence[Sequence[Hint]]) -> list[Sequence[Hint]]:
    """What single-numa-node keeps: preferred hints of one zone or of any."""
    return [
        [hint for hint in hints if hint.preferred and (hint.affinity is None or hint.affinity.count == 1)]
        for hints in lists
    ]


def topology_decision(
    policy: TopologyPolicy, providers: Sequence[ProviderHints | None], merger: Merger
) -> TopologyDecision:
    """The decision of one policy about one container or pod.

    The policy none does not ask. Under single-numa-node an affinity of all zones is kept as "any zone" (None), which
    on a machine of one zone is what every aligned container gets.
    """
    if policy is TopologyPolicy.NONE:
        return TopologyDecision(NO_AFFINITY, admitted=True)
    lists = filter_hints(providers)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        merged = merger.merge(single_zone_hints(lists))
        hint = Hint(None, merged.preferred) if merged.affinity == merger.zones else merged
    else:
        hint = merger.merge(lists)
    return TopologyDecision(hint, admits(policy, hint))
