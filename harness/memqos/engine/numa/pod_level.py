"""Pods with pod-level resources that are placed as a whole (1.36, gate PodLevelResourceManagers, scope pod).

The pod's memory is taken once. Containers with equal requests and limits of cpu and memory get their own share of
it; the others share the rest. Source: kubelet `policy_static.go` (AllocatePod, validatePodScopeResources); KEP-5526.
"""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.numa.bitmask import Mask
from memqos.engine.numa.hint import Hint
from memqos.engine.numa.policies import Policies
from memqos.engine.numa.requests import Request, container_request, is_reusable, pod_request
from memqos.engine.numa.reuse import NOTHING_REUSABLE
from memqos.engine.numa.static import NOT_WHOLE, Rejection, explain, settle
from memqos.engine.numa.zone_table import Block, Blocks, ZoneTable
from memqos.engine.plan import Reason
from memqos.model.pod import Pod

__all__ = ["EmptySharedPool", "allocate_pod", "pod_fault"]

_Requests = dict[str, Request]


class EmptySharedPool(Rejection):
    """A pod whose exclusive containers leave nothing for those that share: the kubelet has a reason name for it."""


def allocate_pod(pod: Pod, *, table: ZoneTable, hint: Hint, policies: Policies) -> tuple[ZoneTable, Reason] | Rejection:
    """Memory for a whole Guaranteed pod with pod-level resources; hint is the Topology Manager's.

    A pod that holds memory already keeps it. A pod whose own amounts are not whole bytes is admitted and not placed;
    containers with such amounts have it rejected under the reason of an empty shared part.
    """
    if pod.uid in table.pod_blocks:
        return table, explain(policies, "A pod that holds memory keeps it.", {}, pod)
    total = pod_request(pod, policies)
    requests = _container_requests(pod, policies)
    if total is None:
        return table, explain(policies, "A pod that does not request whole bytes is not placed.", {}, pod)
    if requests is None:
        return EmptySharedPool(message=NOT_WHOLE, reason=explain(policies, "Requests are whole bytes.", {}, pod))
    fault = _fault(pod, total, requests, policies)
    if fault:
        rule = "Exclusive containers leave memory for those that share the pod's."
        return EmptySharedPool(message=fault, reason=explain(policies, rule, total, pod))
    settled = settle(pod, total, table=table, hint=hint, reusable=NOTHING_REUSABLE, policies=policies)
    if isinstance(settled, Rejection):
        return settled
    whole = _blocks(settled.mask, total)
    for block in whole:
        table = table.taken(block.zones, block.kind, block.size)
    table = replace(table, pod_blocks={**table.pod_blocks, pod.uid: whole})
    for name, share in _shares(pod, total, requests, policies).items():
        table = table.holding(pod.uid, name, _blocks(settled.mask, share))
    return table, settled.reason


def pod_fault(pod: Pod, policies: Policies) -> str:
    """Why the part of a pod that its containers share would be empty, in the kubelet's words; "" if it is not.

    Also why a request is not whole bytes.
    """
    total = pod_request(pod, policies)
    requests = _container_requests(pod, policies)
    if total is None or requests is None:
        return NOT_WHOLE
    return _fault(pod, total, requests, policies)


def _fault(pod: Pod, total: Request, requests: _Requests, policies: Policies) -> str:
    """requests: each container's own, empty for a container that shares."""
    used: dict[str, int] = {}
    shares = False
    for one in pod.init_containers:
        request = requests[one.name]
        if is_reusable(pod, one.name, policies):
            fault = _init_fault(request, total, used)
            if fault:
                return fault
        else:
            shares = shares or not request
            _add(used, request)
    for one in pod.containers:
        shares = shares or not requests[one.name]
        _add(used, requests[one.name])
    for kind, size in total.items():
        if shares and used.get(kind, 0) >= size:
            return (
                f"pod rejected, sum of exclusive container {kind} requests equals pod budget, "
                "leaving no memory for shared containers"
            )
    return ""


def _init_fault(request: Request, total: Request, sidecars: Request) -> str:
    """Why a regular init container does not fit beside the sidecars before it; "" if it does."""
    for kind, size in total.items():
        rest = size - sidecars.get(kind, 0)
        if request and request.get(kind, 0) > rest:
            return (
                f"pod rejected, largest exclusive init container requests {request[kind]} of {kind}, "
                f"but only {rest} available"
            )
        if not request and rest <= 0:
            return f"pod rejected, pod has shared init containers but no {kind} available for them"
    return ""


def _shares(pod: Pod, total: Request, requests: _Requests, policies: Policies) -> _Requests:
    """What each container gets to see of the pod's memory: its own request, or all that no one else has for good.

    A regular init container without a request of its own sees what the sidecars before it leave; sidecars and app
    containers without one see what all exclusive ones leave.
    """
    shares: _Requests = {}
    rest = dict(total)
    for one in pod.init_containers:
        if not is_reusable(pod, one.name, policies):
            _add(rest, {kind: -size for kind, size in requests[one.name].items()})
        elif not requests[one.name]:
            shares[one.name] = dict(rest)
    for one in pod.containers:
        _add(rest, {kind: -size for kind, size in requests[one.name].items()})
    return {
        one.name: shares.get(one.name) or requests[one.name] or rest for one in pod.init_containers + pod.containers
    }


def _container_requests(pod: Pod, policies: Policies) -> _Requests | None:
    found: _Requests = {}
    for one in pod.init_containers + pod.containers:
        request = container_request(one, pod, policies)
        if request is None:
            return None
        found[one.name] = request
    return found


def _blocks(mask: Mask, request: Request) -> Blocks:
    return tuple(Block(mask.zones, kind, size) for kind, size in request.items() if size > 0)


def _add(total: dict[str, int], more: Request) -> None:
    for kind, size in more.items():
        total[kind] = total.get(kind, 0) + size
