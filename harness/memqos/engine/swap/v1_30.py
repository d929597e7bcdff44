"""Swap, revisions v1.30 (gate on by default, UnlimitedSwap gone, "" is NoSwap) and v1.31 (critical pods never swap).

A critical pod is static, or the mirror of a static pod, or has a priority of at least 2000000000. Refactored in 1.33
and locked on in 1.34 with the same results. Source: KEP-2400; kubelet 1.30 `configureContainerSwapResources`, 1.33
`getSwapBehavior`.
"""

from __future__ import annotations

from memqos.engine.swap.base import SwapCase, SwapSetting, limited, no_swap, nothing
from memqos.model.node import SwapBehavior

__all__ = ["decide"]

_CRITICAL_SINCE = 31


def decide(case: SwapCase) -> SwapSetting:
    """What is sent for one container."""
    kubelet = case.kubelet
    if not kubelet.node.swap_controller:
        return nothing(case, "the node has no swap controller, so the kubelet sends nothing")
    if not kubelet.node_swap:
        return no_swap(case, "with the gate NodeSwap off no container may swap")
    if kubelet.swap_behavior is not SwapBehavior.LIMITED:
        return no_swap(case, 'NoSwap (also what "" means): no container may swap')
    if not kubelet.v2:
        return no_swap(case, "LimitedSwap does not exist on cgroup v1: no container may swap")
    if kubelet.release.since(_CRITICAL_SINCE) and case.pod.is_critical:
        return no_swap(case, "containers of a critical pod (static, mirror, or of critical priority) never swap")
    return limited(case)
