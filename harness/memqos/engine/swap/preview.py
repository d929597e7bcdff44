"""Swap in the preview of 1.38: a container's own limit (KEP-5359). Not released.

Source: enhancements#5569 (the text of KEP-5359), kubernetes#142885 (work in progress). Limits of whole pods have no
text yet, and are left out.
"""

from __future__ import annotations

from memqos.engine.plan import Input, Reason
from memqos.engine.pod.swap_limits import SWAP
from memqos.engine.swap import v1_30
from memqos.engine.swap.base import SwapCase, SwapSetting, no_swap, nothing, swap_reason
from memqos.model.node import SwapBehavior

__all__ = ["decide"]

_KEP = "WorkloadControlledSwap (KEP-5359, enhancements#5569, not released)"


def decide(case: SwapCase) -> SwapSetting:
    """What is sent for one container: its limits.swap under WorkloadControlledSwap, in every QoS class; 0 without."""
    kubelet = case.kubelet
    if kubelet.swap_behavior is not SwapBehavior.WORKLOAD:
        return v1_30.decide(case)
    if not kubelet.node.swap_controller:
        return nothing(case, "the node has no swap controller, so the kubelet sends nothing")
    if not kubelet.v2:
        return no_swap(case, f"{_KEP} does not cover cgroup v1: no container may swap")
    limit = case.container.resources.limits.get(SWAP)
    if limit is None:
        return no_swap(case, f"{_KEP}: a container without limits.swap does not swap")

    def why() -> Reason:
        inputs = (Input("limits.swap", str(limit), case.container.origin.get("limits.swap", "given")),)
        return swap_reason(case, f"{_KEP}: the container may swap up to its limits.swap", inputs=inputs)

    return SwapSetting(str(limit.value), 0, why)
