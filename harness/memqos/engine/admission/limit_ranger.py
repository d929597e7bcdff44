"""The plugin LimitRanger: what a LimitRange of the namespace adds to containers, and which pods it refuses.

Containers and init containers (sidecars among them) get what they do not name; ephemeral containers and pod-level
resources get nothing. Source: plugin/pkg/admission/limitranger `PodMutateLimitFunc`, `PodValidateLimitFunc`. Up to 1.27
a resource counts for type Pod only if every container names it; from 1.28 on sidecars add up; from 1.32 on pod-level
cpu and memory replace the sums, with the gate PodLevelResources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from memqos.engine.admission.denial import Denial, aggregate_error, forbidden
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input
from memqos.engine.pod.sums import aggregate
from memqos.engine.releases.table import Novelty
from memqos.model.cluster import LimitRange, LimitRangeItem, LimitType
from memqos.model.pod import Container, Pod, ResourceList, Resources
from memqos.model.quantity import Quantity

__all__ = ["check_limits", "contested_defaults", "with_limit_range_defaults"]

_PLUGIN = "plugin LimitRanger"
_AT_POD_LEVEL = ("cpu", "memory")
_MAX_MILLI_VALUE = (2**63 - 1) // 1000

_Constraint = Callable[[str, str, Quantity, Quantity | None, Quantity | None], str]


def with_limit_range_defaults(pod: Pod, ranges: Sequence[LimitRange]) -> Pod:
    """The pod whose containers have the default limits and requests of these LimitRanges of its namespace.

    What a container names stays, also a zero. Of several LimitRanges the first that has a default counts.
    """
    for one in ranges:
        for item in one.limits:
            if item.type is LimitType.CONTAINER and (item.default or item.default_request):
                place = f"LimitRange {one.namespace}/{one.name}"
                pod = replace(
                    pod,
                    containers=tuple(_filled(own, item, place) for own in pod.containers),
                    init_containers=tuple(_filled(own, item, place) for own in pod.init_containers),
                )
    return pod


def _filled(container: Container, item: LimitRangeItem, place: str) -> Container:
    resources = container.resources
    limits = {name: value for name, value in item.default.items() if name not in resources.limits}
    requests = {name: value for name, value in item.default_request.items() if name not in resources.requests}
    if not limits and not requests:
        return container
    origin = dict(container.origin)
    for field, added, key in (("limits", limits, "default"), ("requests", requests, "defaultRequest")):
        for name in added:
            origin[f"{field}.{name}"] = f"{item.origin.get(f'{key}.{name}', key)} ({place}, {key})"
    filled = Resources(requests={**resources.requests, **requests}, limits={**resources.limits, **limits})
    return replace(container, resources=filled, origin=origin)


def contested_defaults(pod: Pod, ranges: Sequence[LimitRange]) -> Iterator[str]:
    """Defaults that several LimitRanges give differently: which one a container gets is left to chance.

    The API server lists LimitRanges out of a map, and each fills in only what is still missing.
    """
    seen: dict[tuple[str, str], tuple[Quantity, str]] = {}
    for one in ranges:
        for item in one.limits:
            for field, amounts in (("limits", item.default), ("requests", item.default_request)):
                for name, value in amounts.items():
                    if item.type is not LimitType.CONTAINER or not _lacking(pod, field, name):
                        continue
                    first, place = seen.setdefault((field, name), (value, one.name))
                    if first != value:
                        yield (
                            f"{field}.{name} is {first.canonical()} (LimitRange {place}) or {value.canonical()} "
                            f"(LimitRange {one.name}): which of them comes first is not determined"
                        )


def _lacking(pod: Pod, field: str, name: str) -> bool:
    """Whether a container of the pod does not name a resource."""
    return any(name not in getattr(one.resources, field) for one in pod.init_containers + pod.containers)


def check_limits(pod: Pod, ranges: Sequence[LimitRange], kubelet: Kubelet) -> Denial | None:
    """What the first LimitRange that the pod does not keep to says of it; None if it keeps to all of them."""
    for one in ranges:
        found = [broken for item in one.limits for broken in _broken(pod, item, kubelet)]
        if found:
            error = aggregate_error([broken.error for broken in found])
            inputs = tuple(dict.fromkeys(broken.input for broken in found))
            rule = f"a new pod must keep to LimitRange {one.namespace}/{one.name}"
            return forbidden(pod, error, plugin=_PLUGIN, rule=rule, inputs=inputs)
    return None


@dataclass(frozen=True, slots=True)
class _Broken:
    """A constraint that does not hold: the plugin's message, and the constraint."""

    error: str
    input: Input


def _broken(pod: Pod, item: LimitRangeItem, kubelet: Kubelet) -> Iterator[_Broken]:
    if item.type is LimitType.CONTAINER:
        measured = [one.resources for one in pod.containers + pod.init_containers]
    else:
        measured = [_of_pod(pod, kubelet)]
    checks: tuple[tuple[str, ResourceList, _Constraint], ...] = (
        ("min", item.min, _below_min),
        ("max", item.max, _above_max),
        ("maxLimitRequestRatio", item.max_limit_request_ratio, _above_ratio),
    )
    for resources in measured:
        for field, amounts, check in checks:
            for name, enforced in sorted(amounts.items()):
                error = check(item.type, name, enforced, resources.requests.get(name), resources.limits.get(name))
                if error:
                    origin = item.origin.get(f"{field}.{name}", "")
                    yield _Broken(error, Input(f"{field}.{name}", str(enforced), origin))


def _of_pod(pod: Pod, kubelet: Kubelet) -> Resources:
    """What counts for type Pod: sums over containers, and pod-level values; no overhead."""
    requests, limits = aggregate(pod), aggregate(pod, limits=True)
    if not kubelet.release.has(Novelty.LIMIT_RANGE_SUMS):
        requests, limits = _named_by_all(pod, "requests", requests), _named_by_all(pod, "limits", limits)
    if kubelet.pod_level and pod.resources is not None:
        requests |= _pod_level(pod.resources.requests)
        limits |= _pod_level(pod.resources.limits)
    return Resources(requests=requests, limits=limits)


def _pod_level(amounts: ResourceList) -> dict[str, Quantity]:
    return {name: amounts[name] for name in _AT_POD_LEVEL if name in amounts}


def _named_by_all(pod: Pod, field: str, total: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """The sums of resources that every container names, and what an init container alone names."""
    own = [getattr(one.resources, field) for one in pod.containers]
    init = [getattr(one.resources, field) for one in pod.init_containers]
    found = {name: value for name, value in total.items() if all(name in one for one in own)}
    for name in total.keys() - found.keys():
        largest = max((one[name] for one in init if name in one), default=None)
        if largest is not None:
            found[name] = largest
    return found


def _values(*amounts: Quantity | None) -> list[int]:
    """Amounts to compare: in thousandths, or in whole units where one of them has too many thousandths for 64 bits."""
    given = [Quantity(0) if one is None else one for one in amounts]
    fine = all(one.value <= _MAX_MILLI_VALUE for one in given)
    return [one.milli_value if fine else one.value for one in given]


def _below_min(kind: str, name: str, enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    asked, limited, least = _values(request, limit, enforced)
    head = f"minimum {name} usage per {kind} is {enforced.canonical()}"
    if request is None:
        return f"{head}.  No request is specified"
    if asked < least:
        return f"{head}, but request is {request.canonical()}"
    if limit is not None and limited < least:
        return f"{head}, but limit is {limit.canonical()}"
    return ""


def _above_max(kind: str, name: str, enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    asked, limited, most = _values(request, limit, enforced)
    head = f"maximum {name} usage per {kind} is {enforced.canonical()}"
    if limit is None:
        return f"{head}.  No limit is specified"
    if limited > most:
        return f"{head}, but limit is {limit.canonical()}"
    if request is not None and asked > most:
        return f"{head}, but request is {request.canonical()}"
    return ""


def _above_ratio(kind: str, name: str, enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    asked, limited, _ = _values(request, limit, enforced)
    head = f"{name} max limit to request ratio per {kind} is {enforced.canonical()}"
    if not asked:
        return f"{head}, but no request is specified or request is 0"
    if not limited:
        return f"{head}, but no limit is specified or limit is 0"
    # The plugin divides in float64, which decides where a ratio is no round number.
    ratio = limited / asked
    most = Fraction(enforced.milli_value) if enforced.value <= _MAX_MILLI_VALUE else Fraction(enforced.value)
    observed = ratio * 1000 if enforced.value <= _MAX_MILLI_VALUE else ratio
    if observed > float(most):
        return f"{head}, but provided ratio is {ratio:f}"
    return ""
