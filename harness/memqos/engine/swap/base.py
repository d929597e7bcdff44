"""What the swap revisions share: the case they decide, the decision, and the proportional formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Why
from memqos.engine.pod.sums import amount
from memqos.engine.releases.table import Family
from memqos.model.pod import Container, Pod, QosClass

__all__ = [
    "SwapCase",
    "SwapRule",
    "SwapSetting",
    "limited",
    "no_swap",
    "nothing",
    "proportional_limit",
    "swap_reason",
    "without_share",
]


@dataclass(slots=True, kw_only=True)
class SwapCase:
    """One container in its pod on its node. memory_limit: the one sent through CRI, in bytes; 0 if none is."""

    pod: Pod
    qos: QosClass
    container: Container
    kubelet: Kubelet
    memory_limit: int


@dataclass(slots=True)
class SwapSetting:
    """What is sent: a text for unified memory.swap.max ("" for none), memory_swap_limit_in_bytes (0 for none)."""

    swap_max: str
    swap_limit: int
    why: Why


SwapRule = Callable[[SwapCase], SwapSetting]


def swap_reason(case: SwapCase, rule: str, *, inputs: tuple[Input, ...] = (), arithmetic: str = "") -> Reason:
    """A reason of the swap family; arithmetic that is given is rounded by truncation."""
    kubelet = case.kubelet
    behavior = kubelet.setting("memorySwap.swapBehavior", kubelet.swap_behavior or '""')
    return Reason(
        rule=rule,
        revision=kubelet.revisions[Family.SWAP],
        source="KEP-2400; kubelet kuberuntime configureContainerSwapResources",
        inputs=(behavior, *inputs),
        arithmetic=arithmetic,
        rounding="both steps in IEEE double, truncated to whole bytes; the kernel rounds down to a page"
        if arithmetic
        else "",
    )


def nothing(case: SwapCase, rule: str) -> SwapSetting:
    """Nothing is sent."""
    return SwapSetting("", 0, lambda: swap_reason(case, rule))


def no_swap(case: SwapCase, rule: str, *, inputs: tuple[Input, ...] = ()) -> SwapSetting:
    """The container must not swap: memory.swap.max 0, or on cgroup v1 memory+swap no larger than memory."""

    def why() -> Reason:
        return swap_reason(case, rule, inputs=inputs)

    if case.kubelet.v2:
        return SwapSetting("0", 0, why)
    return SwapSetting("", case.memory_limit if case.kubelet.node.swap_controller else 0, why)


def proportional_limit(request: int, memory: int, swap: int) -> int | None:
    """Bytes of swap for a memory request: its share of the machine's memory, applied to the machine's swap.

    int64(float64(request) / float64(memory) * float64(swap)), division first. None where the kubelet reports an error
    and falls back to no swap: no memory, or a request above it.
    """
    if memory <= 0 or request > memory:
        return None
    return int(float(request) / float(memory) * float(swap))


def without_share(case: SwapCase) -> str:
    """Why LimitedSwap gives a container no share of the swap; "" if it gives it one."""
    requests, limits = case.container.resources.requests, case.container.resources.limits
    request, limit = amount(requests, "memory"), amount(limits, "memory")
    if case.qos is not QosClass.BURSTABLE:
        return f"LimitedSwap gives swap to Burstable pods only, and this pod is {case.qos}"
    if request.is_zero and limit.is_zero:
        return "LimitedSwap gives no swap to a container without memory request and limit"
    if request == limit:
        return "LimitedSwap gives no swap to a container whose memory request equals its limit"
    return ""


def limited(case: SwapCase) -> SwapSetting:
    """LimitedSwap, 1.28 and later: a share of the swap for Burstable containers that request memory."""
    why_not = without_share(case)
    if why_not:
        return no_swap(case, why_not)
    request = amount(case.container.resources.requests, "memory")
    node = case.kubelet.node
    share = proportional_limit(request.value, node.memory, node.swap)
    if share is None:
        return no_swap(case, "the request is larger than the machine's memory: the kubelet falls back to no swap")

    def why() -> Reason:
        return swap_reason(
            case,
            "LimitedSwap: the container's share of the swap is its request's share of the memory",
            inputs=(
                Input("requests.memory", str(request.value), case.container.origin.get("requests.memory", "not given")),
                case.kubelet.fact("memory capacity", node.memory),
                case.kubelet.fact("swap capacity", node.swap),
            ),
            arithmetic=f"{request.value} / {node.memory} * {node.swap} = {share}",
        )

    return SwapSetting(str(share), 0, why)
