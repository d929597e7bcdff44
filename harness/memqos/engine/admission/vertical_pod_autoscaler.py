"""The admission webhook of a VerticalPodAutoscaler: recommended requests, and limits in proportion.

It changes app containers only; init containers and sidecars keep their resources. Source: kubernetes/autoscaler
vertical-pod-autoscaler, `recommendationProvider`, `cappingRecommendationProcessor`, `GetProportionalLimit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.engine.releases.defaulting import with_requests
from memqos.model.cluster import (
    ClusterObjects,
    ContainerPolicy,
    LimitRange,
    LimitRangeItem,
    LimitType,
    UpdateMode,
    VerticalPodAutoscaler,
)
from memqos.model.pod import Container, Pod, ResourceList, Resources
from memqos.model.quantity import ZERO, Quantity

__all__ = ["autoscaler_of", "targets", "what_it_may_change", "with_recommendation"]

_SCALED = ("cpu", "memory")
_LARGEST = 2**63 - 1
_BOOST = "; its startupBoost raises cpu while a container starts, which is not modelled"


def targets(autoscaler: VerticalPodAutoscaler, pod: Pod) -> bool:
    """Whether an autoscaler targets the controller from whose template the pod is made."""
    of = pod.controller
    return of is not None and (autoscaler.namespace, autoscaler.kind, autoscaler.target) == (
        pod.namespace,
        of.kind,
        of.name,
    )


def autoscaler_of(pod: Pod, cluster: ClusterObjects) -> VerticalPodAutoscaler | None:
    """The autoscaler that controls a new pod: the oldest one that targets the pod's controller."""
    found = [one for one in cluster.autoscalers if targets(one, pod) and one.update_mode is not UpdateMode.OFF]
    return min(found, key=lambda one: (one.created, one.name), default=None)


def what_it_may_change(autoscaler: VerticalPodAutoscaler) -> str:
    """A note about an autoscaler whose recommendation is not applied."""
    target = f"{autoscaler.kind} {autoscaler.target}"
    boost = _BOOST if autoscaler.boosts else ""
    if autoscaler.update_mode is UpdateMode.OFF:
        return f"updateMode Off: it changes no pod of {target}{boost}"
    known = ", ".join(
        f"requests.{name} {amount} of container {one.container}"
        for one in autoscaler.recommendations or ()
        for name, amount in one.target.items()
    )
    if known:
        return (
            f"updateMode {autoscaler.update_mode}: new pods of {target} get its recommendation ({known}, before its "
            f"policies), and limits in proportion; --vpa applies it{boost}"
        )
    bounds = "; ".join(text for one in autoscaler.policies if (text := _bounds(one)))
    return (
        f"updateMode {autoscaler.update_mode}: it may change requests and limits of {target}'s pods, and has no "
        f"status.recommendation: the new values are not known{f' ({bounds})' if bounds else ''}{boost}"
    )


def _bounds(policy: ContainerPolicy) -> str:
    least = [f"{name} from {amount}" for name, amount in policy.min_allowed.items()]
    most = [f"{name} to {amount}" for name, amount in policy.max_allowed.items()]
    off = ["mode Off"] if policy.off else []
    return f"container {policy.container}: {', '.join(least + most + off)}" if least or most or off else ""


def with_recommendation(pod: Pod, autoscaler: VerticalPodAutoscaler, ranges: Sequence[LimitRange]) -> Pod:
    """The pod as the webhook changes it; ranges: the LimitRanges of its namespace, which bound a recommendation."""
    given = {one.container: one for one in reversed(autoscaler.recommendations or ())}
    wanted = {one.name: dict(given[one.name].target) for one in pod.containers if one.name in given}
    of_pod, of_container = _bounding(ranges, LimitType.POD), _bounding(ranges, LimitType.CONTAINER)
    if of_pod is not None:
        for one in pod.containers:
            if one.resources.requests:
                wanted.setdefault(one.name, dict(one.resources.requests))
        for name in _SCALED:
            _fit_pod(pod, wanted, name, of_pod)
    containers = []
    for one in pod.containers:
        if one.name not in wanted:
            containers.append(one)
            continue
        policy = autoscaler.policy(one.name)
        capped = _capped(one, wanted[one.name], policy, of_container)
        origins = given[one.name].origin if one.name in given else {}
        place = f"VerticalPodAutoscaler {autoscaler.namespace}/{autoscaler.name}"
        controls_limits = policy is None or policy.controls_limits
        containers.append(_patched(one, capped, origins, place, controls_limits=controls_limits, ranges=of_container))
    return replace(pod, containers=tuple(containers))


def _patched(
    container: Container,
    requests: ResourceList,
    origins: Mapping[str, str],
    place: str,
    *,
    controls_limits: bool,
    ranges: LimitRangeItem | None,
) -> Container:
    own, origin = container.resources, dict(container.origin)
    limits: dict[str, Quantity] = {}
    for name in _SCALED if controls_limits else ():
        usual = ranges.default.get(name) if ranges is not None else None
        limit = _proportional_limit(name, own, requests.get(name), usual)
        if limit is not None:
            limits[name] = limit
            origin[f"limits.{name}"] = f"{origins.get(name, place)} ({place}, in proportion to the request)"
    for name in requests:
        origin[f"requests.{name}"] = f"{origins.get(name, place)} ({place}, target)"
    changed = Resources(requests={**own.requests, **requests}, limits={**own.limits, **limits})
    return with_requests(replace(container, resources=changed, origin=origin))


def _proportional_limit(name: str, own: Resources, request: Quantity | None, usual: Quantity | None) -> Quantity | None:
    """The limit scaled like the request, so that their ratio stays; None without a limit."""
    limit, asked = own.limits.get(name), own.requests.get(name)
    if limit is None or not limit.value:
        limit = usual
    if limit is None or not limit.value or request is None or not request.value:
        return None
    if asked is None or not asked.value or asked.milli_value == limit.milli_value:
        return request
    return _scaled(name, limit, asked, request)


def _scaled(name: str, amount: Quantity, base: Quantity, result: Quantity, *, up: bool = False) -> Quantity:
    """Amount * result / base: thousandths of cpu or whole bytes, truncated or rounded up, at most 2^63-1."""
    if name == "cpu":
        units, unit = (amount.milli_value, base.milli_value, result.milli_value), 10**6
    else:
        units, unit = (amount.value, base.value, result.value), 10**9
    whole, rest = divmod(units[0] * units[2], units[1])
    return Quantity(min(whole + (1 if up and rest and name == "cpu" else 0), _LARGEST) * unit)


def _capped(
    container: Container, target: dict[str, Quantity], policy: ContainerPolicy | None, bounds: LimitRangeItem | None
) -> dict[str, Quantity]:
    """The target within the LimitRange, then within the policy, then below a limit that stays."""
    own = container.resources
    found = dict(target)
    if bounds is not None:
        for name, asked in found.items():
            most, least = (_boundary(name, own, side, bounds) for side in (bounds.max, bounds.min))
            own_least = bounds.min.get(name, ZERO) if name in _SCALED and bounds.min else ZERO
            found[name] = _within(asked, max(least, own_least), most)
    if policy is not None:
        for name, asked in found.items():
            found[name] = _within(asked, policy.min_allowed.get(name, ZERO), policy.max_allowed.get(name, ZERO))
        if not policy.controls_limits:
            for name, limit in own.limits.items():
                if name in found and limit.milli_value < found[name].milli_value:
                    found[name] = limit
    return found


def _within(amount: Quantity, least: Quantity, most: Quantity) -> Quantity:
    """An amount clamped to two bounds; a zero bound does not apply, and the upper one wins."""
    amount = least if not least.is_zero and amount < least else amount
    return most if not most.is_zero and most < amount else amount


def _boundary(name: str, own: Resources, bound: ResourceList, item: LimitRangeItem) -> Quantity:
    """The request at which the proportional limit reaches a bound of the LimitRange; zero for no bound."""
    if name not in _SCALED or name not in bound:
        return ZERO
    limit, asked = own.limits.get(name), own.requests.get(name)
    if limit is None or not limit.value:
        limit = item.default.get(name)
    if limit is None or not limit.value:
        return ZERO
    return bound[name] if asked is None or not asked.value else _scaled(name, asked, limit, bound[name])


def _bounding(ranges: Sequence[LimitRange], kind: LimitType) -> LimitRangeItem | None:
    """The narrowest bounds of all LimitRanges, and the default of the last one that has any."""
    items = [item for one in ranges for item in one.limits if item.type is kind]
    if not any(item.min or item.max or item.default for item in items):
        return None
    default = next((item.default for item in reversed(items) if item.default), {})
    least, most = _picked((one.min for one in items), max), _picked((one.max for one in items), min)
    return LimitRangeItem(type=kind, default=default, min=least, max=most)


def _picked(lists: Iterator[ResourceList], pick: Callable[[Quantity, Quantity], Quantity]) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for amounts in lists:
        for name, value in amounts.items():
            found[name] = pick(found[name], value) if name in found else value
    return found


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums over a pod's containers: recommended requests, and limits in proportion."""

    requests: Quantity
    limits: Quantity


def _sums(pod: Pod, wanted: Mapping[str, ResourceList], name: str, bounds: LimitRangeItem) -> _Sums:
    requests = limits = ZERO
    for one in pod.containers:
        request = wanted[one.name].get(name, ZERO) if one.name in wanted else one.resources.requests.get(name, ZERO)
        limit = _proportional_limit(name, one.resources, request, bounds.default.get(name))
        requests, limits = requests + request, limits + (limit or ZERO)
    return _Sums(requests, limits)


def _fit_pod(pod: Pod, wanted: dict[str, dict[str, Quantity]], name: str, bounds: LimitRangeItem) -> None:
    """Scale the recommendations for one resource so that the whole pod satisfies a LimitRange of type Pod."""
    least, most = bounds.min.get(name, ZERO), bounds.max.get(name, ZERO)
    sums = _sums(pod, wanted, name, bounds)
    if least <= sums.limits and least <= sums.requests and (most.is_zero or sums.limits <= most):
        return
    if sums.limits.is_zero:
        return
    short = sums.requests < least
    base = sums.requests if short else sums.limits
    total = least if short or sums.limits < least else most
    for own in wanted.values():
        own[name] = _scaled(name, own.get(name, ZERO), base, total, up=short)
