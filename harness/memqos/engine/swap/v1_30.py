"""Swap, revisions v1.30 (gate on by default, UnlimitedSwap gone, "" is NoSwap) and v1.31 (critical pods never swap).

A critical pod is static, or the mirror of a static pod, or has a priority of at least 2000000000. Refactored in 1.33
and locked on in 1.34 with the same results. Source: KEP-2400; kubelet 1.30 `configureContainerSwapResources`, 1.33
`getSwapBehavior`.
"""

from __future__ import annotations

from memqos.engine.plan import Input
from memqos.engine.releases.table import Novelty
from memqos.engine.swap.base import SwapCase, SwapSetting, limited, no_swap, nothing, without_share
from memqos.model.node import SwapBehavior
from memqos.model.pod import Pod

__all__ = ["decide", "swaps"]


_CRITICAL = "containers of a critical pod (static, mirror, or of critical priority) never swap"


def decide(case: SwapCase) -> SwapSetting:
    """What is sent for one container."""
    if not case.kubelet.node.swap_controller:
        return nothing(case, "the node has no swap controller, so the kubelet sends nothing")
    why_not = _without(case)
    if not why_not:
        return limited(case)
    return no_swap(case, why_not, inputs=_priority(case.pod) if why_not is _CRITICAL else ())


def swaps(case: SwapCase) -> bool:
    """Whether the kubelet's GetContainerSwapBehavior says LimitedSwap of a container, and not NoSwap."""
    return case.kubelet.node.swap_controller and not _without(case) and not without_share(case)


def _without(case: SwapCase) -> str:
    """Why nothing of LimitedSwap applies here, "" if it does."""
    kubelet = case.kubelet
    if not kubelet.node_swap:
        return "with the gate NodeSwap off no container may swap"
    if kubelet.swap_behavior is not SwapBehavior.LIMITED:
        return 'NoSwap (also what "" means): no container may swap'
    if not kubelet.v2:
        return "LimitedSwap does not exist on cgroup v1: no container may swap"
    if kubelet.release.has(Novelty.CRITICAL_WITHOUT_SWAP) and case.pod.is_critical:
        return _CRITICAL
    return ""


def _priority(pod: Pod) -> tuple[Input, ...]:
    """The priority that makes a pod critical; nothing for a static pod, which is so without one."""
    if pod.priority is None:
        return ()
    return (Input("priority", str(pod.priority), pod.origin.get("priority", "given")),)
