"""Swap, revision v1.28 (beta, gate off by default, 1.28 and 1.29).

Shipped: only the exact word LimitedSwap limits; every other value, also "", is Unlimited. Documented: "" is
LimitedSwap. On cgroup v1 neither exists, and no container swaps. With the gate off, or without a swap controller on
the node, see below. Source: KEP-2400; kubelet 1.28 `configureContainerSwapResources`.
"""

from __future__ import annotations

from memqos.engine.releases.release import Variant
from memqos.engine.swap.base import SwapCase, SwapSetting, limited, no_swap, nothing, swap_reason
from memqos.model.node import SwapBehavior

__all__ = ["decide"]


def decide(case: SwapCase) -> SwapSetting:
    """What is sent for one container."""
    kubelet = case.kubelet
    if not kubelet.node.swap_controller:
        return nothing(case, "the node has no swap controller, so the kubelet sends nothing")
    if not kubelet.node_swap:
        return no_swap(case, "with the gate NodeSwap off no container may swap")
    unset_is_limited = kubelet.swap_behavior is SwapBehavior.UNSET and kubelet.variant is Variant.DOCUMENTED
    if kubelet.swap_behavior is not SwapBehavior.LIMITED and not unset_is_limited:
        if not kubelet.v2:
            return no_swap(case, "unlimited swap does not exist on cgroup v1: no container may swap")
        return SwapSetting("max", 0, lambda: swap_reason(case, "every behaviour but LimitedSwap means unlimited swap"))
    if not kubelet.v2:
        return no_swap(case, "LimitedSwap does not exist on cgroup v1: no container may swap")
    return limited(case)
