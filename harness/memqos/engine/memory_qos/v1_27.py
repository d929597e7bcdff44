"""memory-qos, revision v1.27 (alpha 2, 1.27 to 1.35): a new memory.high, everything else as in v1.22.

    memory.high = floor[(request + factor * (top - request)) / page] * page,    top = limit, else allocatable memory

written only if it is not zero and above the request. The kubelet computes it in IEEE double, in the order of
`memory_high` below; the floor covers the sum only, the division by the page is truncated.

Shipped: nothing is written when request and limit are equal, and two missing ones are equal. Documented: a container
with neither gets the factor's share of allocatable memory (kubernetes issue 137685, corrected in 1.37).
Source: KEP-2570 of 2023, kubelet 1.27 `generateLinuxContainerResources`.
"""

from __future__ import annotations

import math

from memqos.engine.memory_qos.base import (
    ContainerCase,
    Revision,
    container_reason,
    container_ruling,
    factor_input,
    top_input,
)
from memqos.engine.memory_qos.v1_22 import burstable, container_minimum, kubepods, pod, reserved
from memqos.engine.plan import Reason, Ruling, Rulings
from memqos.engine.releases.release import Variant
from memqos.model.knob import ABSENT, Bytes, Knob

__all__ = ["REVISION", "ROUNDING", "container_high", "memory_high"]

ROUNDING = "IEEE double in the kubelet's order; floor of the sum, then down to whole pages"
_SOURCE = " (2023), container level; kubelet 1.27 generateLinuxContainerResources"


def memory_high(request: int, top: int, factor: float, page_size: int) -> int:
    """memory.high before the comparison with the request, in bytes.

    The same operations on float64 in the same order as the kubelet, so that the last page agrees too: exact decimal
    arithmetic would differ by one page for some inputs.
    """
    total = float(request) + (float(top) - float(request)) * factor
    return int(float(math.floor(total)) / float(page_size)) * page_size


def container(case: ContainerCase) -> Rulings:
    """memory.min and memory.high of one container."""
    documented = case.kubelet.variant is Variant.DOCUMENTED
    return {**container_minimum(case), Knob.MEMORY_HIGH: container_high(case, unlimited_too=documented)}


def container_high(case: ContainerCase, *, unlimited_too: bool) -> Ruling:
    """memory.high of one container; ABSENT with the reason if it is not written.

    unlimited_too: whether a container without request and limit gets one, as documented and as shipped from 1.37 on.
    """
    request, limit, factor = case.request, case.limit, case.kubelet.factor
    if factor is None:
        rule = "memory.high is not written: memoryThrottlingFactor is not set"
        return container_ruling(case, ABSENT, rule, _SOURCE)
    if request == limit and limit:
        return container_ruling(case, ABSENT, "memory.high is not written: the request equals the limit", _SOURCE)
    if request == limit and not unlimited_too:
        rule = (
            "memory.high is not written: a missing request and a missing limit count as equal (kubernetes issue 137685)"
        )
        return container_ruling(case, ABSENT, rule, _SOURCE)
    top = limit or case.kubelet.allocatable["memory"].value
    high = memory_high(request, top, factor, case.kubelet.node.page_size) if top > 0 else 0
    written = Bytes(high) if high > request else ABSENT
    return Ruling(written, lambda: _high_reason(case, factor, top, high))


def _high_reason(case: ContainerCase, factor: float, top: int, high: int) -> Reason:
    request, page, above = case.request, case.kubelet.node.page_size, high > case.request
    named = "memory limit" if case.limit else "node's allocatable memory"
    rule = f"memory.high is the request plus the throttling factor's share of the distance to the {named}"
    total = float(request) + (float(top) - float(request)) * factor
    return container_reason(
        case,
        rule if above else f"{rule}; it is not written, since it is not above the request",
        _SOURCE,
        factor_input(case.kubelet),
        *top_input(case),
        case.kubelet.fact("page size", page),
        arithmetic=f"{request} + ({top} - {request}) * {case.kubelet.factor_text} = {total!r}; "
        f"floor / {page} * {page} = {high} {'>' if above else '<='} {request}",
        rounding=ROUNDING,
    )


REVISION = Revision(container=container, pod=pod, burstable=burstable, kubepods=kubepods, reserved=reserved)
