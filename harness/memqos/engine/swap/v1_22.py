"""Swap, revision v1.22 (alpha, 1.22 to 1.27).

With the gate NodeSwap on: UnlimitedSwap sends memory_swap_limit_in_bytes -1; LimitedSwap (also what "" means) sends
the memory limit itself, so that memory plus swap may not exceed it: nothing on cgroup v2, where swap is counted
apart. A container without a memory limit gets nothing: 0 is "not specified". With the gate off nothing is sent.
Source: KEP-2400 alpha; kubelet 1.22 `generateLinuxContainerConfig`.
"""

from __future__ import annotations

from memqos.engine.swap.base import SwapCase, SwapSetting, nothing, swap_reason
from memqos.model.node import SwapBehavior

__all__ = ["decide"]


def decide(case: SwapCase) -> SwapSetting:
    """What is sent for one container."""
    if not case.kubelet.node_swap:
        return nothing(case, "with the gate NodeSwap off the kubelet sends nothing about swap")
    if case.kubelet.swap_behavior is SwapBehavior.UNLIMITED:
        rule = "UnlimitedSwap: memory_swap_limit_in_bytes -1, no limit on swap"
        return SwapSetting("", -1, lambda: swap_reason(case, rule))
    if case.memory_limit == 0:
        return nothing(
            case, "LimitedSwap sends the memory limit as the limit of memory plus swap, and the container has none"
        )
    rule = "LimitedSwap: memory_swap_limit_in_bytes is the memory limit, which leaves no room for swap on cgroup v2"
    return SwapSetting("", case.memory_limit, lambda: swap_reason(case, rule))
