"""Swap limits of containers, KEP-2400: one function per revision, chosen by release.

No release writes memory.swap.max for pods, QoS classes or the node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Why
from memqos.engine.pod.sums import amount
from memqos.engine.releases.release import Release, Variant
from memqos.engine.releases.table import Family, Novelty
from memqos.errors import ManifestError
from memqos.model.node import SwapBehavior
from memqos.model.pod import Container, Pod, QosClass

__all__ = ["SWAP", "SwapCase", "SwapSetting", "check_swap", "proportional_limit", "swap_rule", "swaps"]

SWAP = "swap"
"""The name of the resource."""


def check_swap(pod: Pod, kubelet: Kubelet) -> None:
    """ManifestError for a swap limit in a release without them, and for a swap request, which no release has."""
    for container in pod.all_containers:
        requests, limits = container.resources.requests, container.resources.limits
        if SWAP in limits and not kubelet.release.has(Novelty.WORKLOAD_SWAP):
            first = Release(Novelty.WORKLOAD_SWAP.since)
            what = f"the API server of {kubelet.release} has no limits.swap: it is alpha in {first} (KEP-5359)."
            raise _error(pod, container.origin.get("limits.swap", ""), container.name, what)
        if SWAP in requests and not requests[SWAP].is_zero:
            what = "swap cannot be requested, only limited (KEP-5359)."
            raise _error(pod, container.origin.get("requests.swap", ""), container.name, what)


def _error(pod: Pod, origin: str, container: str, what: str) -> ManifestError:
    file, _, line = origin.rpartition(":")
    place = int(line) if line.isdecimal() else 0
    return ManifestError.at(what, file=file or pod.file, line=place, field=f"container {container}: resources")


@dataclass(slots=True, kw_only=True)
class SwapCase:
    """One container in its pod on its node. memory_limit: the limit sent through CRI, in bytes; 0 for none."""

    pod: Pod
    qos: QosClass
    container: Container
    kubelet: Kubelet
    memory_limit: int


@dataclass(slots=True)
class SwapSetting:
    """The CRI fields: the text of unified memory.swap.max ("" for none) and memory_swap_limit_in_bytes (0 for none)."""

    swap_max: str
    swap_limit: int
    why: Why


SwapRule = Callable[[SwapCase], SwapSetting]


def swap_reason(case: SwapCase, rule: str, *, inputs: tuple[Input, ...] = (), arithmetic: str = "") -> Reason:
    """A reason of the swap family; its arithmetic, if any, is rounded by truncation."""
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

    int64(float64(request) / float64(memory) * float64(swap)), division first. None if the kubelet reports an error and
    falls back to no swap: no memory, or a request above it.
    """
    if memory <= 0 or request > memory:
        return None
    return int(float(request) / float(memory) * float(swap))


def without_share(case: SwapCase) -> str:
    """Why LimitedSwap gives a container no swap; "" if it does."""
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


def decide_v1_22(case: SwapCase) -> SwapSetting:
    """Revision v1.22 (alpha, 1.22 to 1.27).

    With the gate NodeSwap on: UnlimitedSwap sends memory_swap_limit_in_bytes -1; LimitedSwap (and "") sends the memory
    limit itself, so that memory plus swap may not exceed it: no swap on cgroup v2, which counts swap separately. A
    container without a memory limit gets nothing: 0 is "not specified". With the gate off nothing is sent. Source:
    KEP-2400 alpha; kubelet 1.22 `generateLinuxContainerConfig`.
    """
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


def decide_v1_28(case: SwapCase) -> SwapSetting:
    """Revision v1.28 (beta, gate off by default, 1.28 and 1.29).

    Shipped: only the exact word LimitedSwap limits; every other value, also "", is Unlimited. Documented: "" is
    LimitedSwap. On cgroup v1 neither exists, and no container swaps. Source: KEP-2400; kubelet 1.28
    `configureContainerSwapResources`.
    """
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


_CRITICAL = "containers of a critical pod (static, mirror, or of critical priority) never swap"


def decide_v1_30(case: SwapCase) -> SwapSetting:
    """Revisions v1.30 (gate on by default, UnlimitedSwap gone, "" is NoSwap) and v1.31 (critical pods never swap).

    A critical pod is static, or the mirror of a static pod, or has a priority of at least 2000000000. 1.33 refactored
    it and 1.34 locked the gate on, with the same results. Source: KEP-2400; kubelet 1.30
    `configureContainerSwapResources`, 1.33 `getSwapBehavior`.
    """
    if not case.kubelet.node.swap_controller:
        return nothing(case, "the node has no swap controller, so the kubelet sends nothing")
    why_not = _without(case)
    if not why_not:
        return limited(case)
    return no_swap(case, why_not, inputs=_priority(case.pod) if why_not is _CRITICAL else ())


def swaps(case: SwapCase) -> bool:
    """Whether the kubelet's GetContainerSwapBehavior returns LimitedSwap for a container, not NoSwap."""
    return case.kubelet.node.swap_controller and not _without(case) and not without_share(case)


def _without(case: SwapCase) -> str:
    """Why LimitedSwap does not apply, "" if it does."""
    kubelet = case.kubelet
    if not kubelet.node_swap:
        return "with the gate NodeSwap off no container may swap"
    if kubelet.swap_behavior is not SwapBehavior.LIMITED:
        return 'NoSwap (also the meaning of ""): no container may swap'
    if not kubelet.v2:
        return "LimitedSwap does not exist on cgroup v1: no container may swap"
    if kubelet.release.has(Novelty.CRITICAL_WITHOUT_SWAP) and case.pod.is_critical:
        return _CRITICAL
    return ""


def _priority(pod: Pod) -> tuple[Input, ...]:
    """The priority of a critical pod as an input; none for a static pod, which is always critical."""
    if pod.priority is None:
        return ()
    return (Input("priority", str(pod.priority), pod.origin.get("priority", "given")),)


_KEP = "WorkloadControlledSwap (KEP-5359, enhancements#5569, not released)"


def decide_preview(case: SwapCase) -> SwapSetting:
    """The preview of 1.38: a container's own limit (KEP-5359). Not released.

    One container's swap: its limits.swap under WorkloadControlledSwap, in every QoS class; 0 without.

    Source: enhancements#5569 (the text of KEP-5359), kubernetes#142885 (work in progress). Pod-level limits are not
    specified yet and are left out.
    """
    kubelet = case.kubelet
    if kubelet.swap_behavior is not SwapBehavior.WORKLOAD:
        return decide_v1_30(case)
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


_LATER = {Novelty.PROPORTIONAL_SWAP: decide_v1_28, Novelty.NO_SWAP: decide_v1_30, Novelty.WORKLOAD_SWAP: decide_preview}


@cache
def swap_rule(release: Release) -> SwapRule:
    """The function that decides a container's swap in this release."""
    return release.newest(decide_v1_22, _LATER)
