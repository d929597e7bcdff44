"""The API server's admission plugins Priority, RuntimeClass, LimitRanger and ResourceQuota.

Priority: sets a new pod's priority from its PriorityClass, or from the global default class.

Source: plugin/pkg/admission/priority `admitPod`; pkg/apis/scheduling `SystemPriorityClasses`. The same in 1.22 to 1.37.

RuntimeClass: sets a new pod's overhead to that of its class, and rejects any other overhead.

Source: plugin/pkg/admission/runtimeclass `setOverhead`, `validateOverhead`. The same in 1.22 to 1.37, with the gate
PodOverhead, which is on by default from 1.18 and gone from 1.26. Of a class's scheduling only the operating system
matters: the rest changes no value.

LimitRanger: applies the defaults of the namespace's LimitRanges, and refuses pods that violate one.

Containers and init containers (sidecars included) get defaults for resources that they do not name; ephemeral
containers and pod-level resources get none. Source: plugin/pkg/admission/limitranger `PodMutateLimitFunc`,
`PodValidateLimitFunc`. Up to 1.27 a resource counts for type Pod only if every container names it; from 1.28 on
sidecars add up; from 1.32 on pod-level cpu and memory replace the sums, with the gate PodLevelResources.

ResourceQuota: refuses pods that do not name a counted resource, and pods that exceed the quota.

Source: apiserver resourcequota `CheckRequest`; pkg/quota/v1/evaluator/core `podEvaluator`. With the gate
PodLevelResources (1.32 and later) a pod with resources of its own need not name them in its containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from memqos.engine.admission.denial import Denial, aggregate_error, forbidden
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import PREFIX, aggregate, pod_level_set, pod_limits, pod_requests
from memqos.engine.releases.table import Novelty
from memqos.model.cluster import (
    ClusterObjects,
    LimitRange,
    LimitRangeItem,
    LimitType,
    PriorityClass,
    QuotaScope,
    ResourceQuota,
)
from memqos.model.pod import Container, Pod, QosClass, ResourceList, Resources, Submission
from memqos.model.quantity import ZERO, Quantity

__all__ = [
    "HIGHEST_USER_DEFINABLE",
    "SYSTEM_CLASSES",
    "QuotaUse",
    "admit_priority",
    "admit_runtime_class",
    "check_limits",
    "contested_defaults",
    "with_limit_range_defaults",
]


HIGHEST_USER_DEFINABLE = 1_000_000_000
"""The largest value of a user's PriorityClass."""

_BUILT_IN = "built into the API server"
SYSTEM_CLASSES = {
    name: PriorityClass(name=name, value=value, origin=_BUILT_IN)
    for name, value in (("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000))
}
"""The classes that every API server creates when it starts."""

_NO_CLASS = PriorityClass(name="", value=0, origin="no PriorityClass is the global default")
_PRIORITY = "plugin Priority"


def admit_priority(pod: Pod, submission: Submission) -> Pod | Denial:
    """The pod with the name and value of its class; a denial for an unknown class or a conflicting field."""
    found = _class_of(pod, submission.cluster)
    if found is None:
        return forbidden(
            pod,
            f"no PriorityClass with name {pod.priority_class_name} was found",
            plugin=_PRIORITY,
            rule="the PriorityClass that a new pod names must exist; give its manifest with the pod's",
            inputs=(_named(pod),),
        )
    if pod.priority is not None and pod.priority != found.value:
        error = (
            f"the integer value of priority ({pod.priority}) must not be provided in pod spec; priority admission "
            f"controller computed {found.value} from the given PriorityClass name"
        )
        given = Input("priority", str(pod.priority), pod.origin.get("priority", ""))
        return _disagrees(pod, error, given, found)
    policy = submission.preemption_policy
    if policy and policy != found.preemption_policy:
        error = (
            f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission "
            f"controller computed {found.preemption_policy} from the given PriorityClass name"
        )
        return _disagrees(pod, error, Input("preemptionPolicy", policy, pod.file), found)
    origin = {**pod.origin, "priority": found.origin}
    if not pod.priority_class_name and found.name:
        origin["priorityClassName"] = f"{found.origin}, globalDefault"
    return replace(pod, priority=found.value, priority_class_name=found.name, origin=origin)


def _class_of(pod: Pod, cluster: ClusterObjects) -> PriorityClass | None:
    """The class that a pod names (None if it does not exist); for a pod without one, the lowest global default."""
    name = pod.priority_class_name
    if name:
        given = {one.name: one for one in cluster.priority_classes}
        return SYSTEM_CLASSES.get(name) or given.get(name)
    defaults = [one for one in cluster.priority_classes if one.global_default]
    return min(defaults, key=lambda one: one.value, default=_NO_CLASS)


def _named(pod: Pod) -> Input:
    return Input("priorityClassName", pod.priority_class_name, pod.origin.get("priorityClassName", ""))


def _disagrees(pod: Pod, error: str, given: Input, found: PriorityClass) -> Denial:
    rule = "a new pod may give only the priority and preemptionPolicy of its PriorityClass"
    named = Input("PriorityClass", f"{found.name or 'none'} ({found.value})", found.origin)
    return forbidden(pod, error, plugin=_PRIORITY, rule=rule, inputs=(given, named))


_RUNTIME_CLASS = "plugin RuntimeClass"


def admit_runtime_class(pod: Pod, submission: Submission) -> Pod | Denial:
    """The pod with its class's overhead; a denial for an unknown class or a different overhead."""
    name = pod.runtime_class_name
    found = next((one for one in submission.cluster.runtime_classes if one.name == name), None)
    if name and found is None:
        return forbidden(
            pod,
            f'pod rejected: RuntimeClass "{name}" not found',
            plugin=_RUNTIME_CLASS,
            rule="the RuntimeClass that a new pod names must exist; give its manifest with the pod's",
            inputs=(Input("runtimeClassName", name, pod.origin.get("runtimeClassName", "")),),
        )
    if found is not None:
        pod = replace(pod, runtime_handler=found.handler)
    if found is not None and found.not_on_linux:
        pod = replace(pod, not_on_linux=f"{found.not_on_linux} of RuntimeClass {found.name}")
    if found is None or found.overhead is None:
        if not pod.overhead:
            return pod
        error = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        return _overhead_denied(pod, error)
    if pod.overhead and not _equal(pod.overhead, found.overhead):
        return _overhead_denied(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    origin = {
        f"overhead.{resource}": f"{place} (RuntimeClass {found.name})" for resource, place in found.origin.items()
    }
    return replace(pod, overhead=found.overhead, origin={**pod.origin, **origin})


def _equal(one: ResourceList, other: ResourceList) -> bool:
    return dict(one) == dict(other)


def _overhead_denied(pod: Pod, error: str) -> Denial:
    rule = "a new pod may give only the overhead of its RuntimeClass"
    given = tuple(
        Input(f"overhead.{name}", str(amount), pod.origin.get(f"overhead.{name}", ""))
        for name, amount in pod.overhead.items()
    )
    return forbidden(pod, error, plugin=_RUNTIME_CLASS, rule=rule, inputs=given)


_LIMIT_RANGER = "plugin LimitRanger"
_AT_POD_LEVEL = ("cpu", "memory")
_MAX_MILLI_VALUE = (2**63 - 1) // 1000

_Constraint = Callable[[str, str, Quantity, Quantity | None, Quantity | None], str]


def with_limit_range_defaults(pod: Pod, ranges: Sequence[LimitRange]) -> Pod:
    """The pod with the default limits and requests of its namespace's LimitRanges.

    A value that a container names stays, even zero. With several LimitRanges the first default counts.
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
    """Containers whose LimitRanges have different defaults for the same field: any of them may apply.

    The API server iterates over LimitRanges in map order, and each fills in only missing values.
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
    """Whether some container of the pod does not name a resource."""
    return any(name not in getattr(one.resources, field) for one in pod.init_containers + pod.containers)


def check_limits(pod: Pod, ranges: Sequence[LimitRange], kubelet: Kubelet) -> Denial | None:
    """The denial by the first LimitRange that the pod violates; None if it violates none."""
    for one in ranges:
        found = [broken for item in one.limits for broken in _broken(pod, item, kubelet)]
        if found:
            error = aggregate_error([broken.error for broken in found])
            inputs = tuple(dict.fromkeys(broken.input for broken in found))
            rule = f"a new pod must satisfy LimitRange {one.namespace}/{one.name}"
            return forbidden(pod, error, plugin=_LIMIT_RANGER, rule=rule, inputs=inputs)
    return None


@dataclass(frozen=True, slots=True)
class _Broken:
    """A violated constraint: the plugin's message, and the constraint."""

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
    """The amounts that type Pod constrains: sums over containers and pod-level values, without overhead."""
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
    """The sums of resources that every container names, and resources that only an init container names."""
    own = [getattr(one.resources, field) for one in pod.containers]
    init = [getattr(one.resources, field) for one in pod.init_containers]
    found = {name: value for name, value in total.items() if all(name in one for one in own)}
    for name in total.keys() - found.keys():
        largest = max((one[name] for one in init if name in one), default=None)
        if largest is not None:
            found[name] = largest
    return found


def _values(*amounts: Quantity | None) -> list[int]:
    """Comparable amounts: in thousandths, or in whole units if one of them in thousandths exceeds 64 bits."""
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
    # The plugin divides in float64, so rounding can decide about a fractional ratio.
    ratio = limited / asked
    most = Fraction(enforced.milli_value) if enforced.value <= _MAX_MILLI_VALUE else Fraction(enforced.value)
    observed = ratio * 1000 if enforced.value <= _MAX_MILLI_VALUE else ratio
    if observed > float(most):
        return f"{head}, but provided ratio is {ratio:f}"
    return ""


_RESOURCE_QUOTA = "plugin ResourceQuota"
_MUST_BE_NAMED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
_COUNTED = ("cpu", "memory", "ephemeral-storage")
_ONE = Quantity.of_bytes(1)
_AFFINITY = "CrossNamespacePodAffinity"


class QuotaUse:
    """The usage that a cluster's quotas count, pod by pod in the order of creation."""

    def __init__(self, quotas: Sequence[ResourceQuota], kubelet: Kubelet) -> None:
        self._quotas: dict[str, list[ResourceQuota]] = {}
        self._used = {(one.namespace, one.name): dict(one.used or {}) for one in quotas}
        self._kubelet = kubelet
        for one in quotas:
            self._quotas.setdefault(one.namespace, []).append(one)

    def count(self, pod: Pod) -> None:
        """Count a stored pod in the quotas that have no status.used."""
        usage = self._usage(pod)
        for quota in self._of(pod, Submission()):
            if quota.used is None:
                self._add(quota, usage)

    def admit(self, pod: Pod, submission: Submission) -> Denial | None:
        """The denial by a quota; without one the pod is counted."""
        matching = list(self._of(pod, submission))
        for quota in matching:
            missing = self._missing(pod, quota)
            if missing:
                rule = f"each container must name what ResourceQuota {quota.namespace}/{quota.name} counts"
                return _refused(pod, quota, f"failed quota: {quota.name}: must specify {missing}", rule)
        usage = self._usage(pod)
        charged = [one for one in matching if not (submission.counted and one.used is not None)]
        for quota in charged:
            over = self._over(quota, usage)
            if over:
                rule = f"the pods of a namespace must not exceed ResourceQuota {quota.namespace}/{quota.name} together"
                return _refused(pod, quota, f"exceeded quota: {quota.name}, {over}", rule)
        for quota in charged:
            self._add(quota, usage)
        return None

    def unknown(self, pod: Pod, submission: Submission) -> Iterator[tuple[ResourceQuota, str]]:
        """Notes about the quotas of a new pod's namespace that cannot be evaluated fully."""
        for quota in self._quotas.get(pod.namespace, ()):
            if any(one.name == _AFFINITY for one in quota.scopes):
                yield quota, f"its scope {_AFFINITY} is not evaluated: memqos assumes that it counts none of the pods"
            elif quota.used is None and self._matches(pod, submission, quota):
                yield quota, "it has no status.used: the usage of pods that are not given does not count"

    def _of(self, pod: Pod, submission: Submission) -> Iterator[ResourceQuota]:
        return (one for one in self._quotas.get(pod.namespace, ()) if self._matches(pod, submission, one))

    def _matches(self, pod: Pod, submission: Submission, quota: ResourceQuota) -> bool:
        return all(self._in_scope(pod, submission, scope) for scope in quota.scopes)

    def _in_scope(self, pod: Pod, submission: Submission, scope: QuotaScope) -> bool:
        if scope.name in {"BestEffort", "NotBestEffort"}:
            best_effort = pod_qos(pod, pod_level=self._kubelet.pod_level) is QosClass.BEST_EFFORT
            return best_effort is (scope.name == "BestEffort")
        if scope.name in {"Terminating", "NotTerminating"}:
            return submission.has_deadline is (scope.name == "Terminating")
        return scope.name == "PriorityClass" and _selects(scope, pod.priority_class_name)

    def _missing(self, pod: Pod, quota: ResourceQuota) -> str:
        """The resources that containers must name and do not, as the plugin lists them; "" for none."""
        if self._kubelet.pod_level and pod_level_set(pod):
            return ""
        found: dict[str, set[str]] = {}
        for name in _MUST_BE_NAMED:
            if name not in quota.hard:
                continue
            for one in pod.containers + pod.init_containers:
                part, _, resource = name.rpartition(".")
                if resource not in (one.resources.limits if part == "limits" else one.resources.requests):
                    found.setdefault(name, set()).add(one.name)
        return "; ".join(f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(found.items()))

    def _usage(self, pod: Pod) -> dict[str, Quantity]:
        """A pod's usage by the resource names of quotas."""
        found = {"pods": _ONE, "count/pods": _ONE}
        for part, amounts in (
            ("requests", pod_requests(pod, pod_level=self._kubelet.pod_level)),
            ("limits", pod_limits(pod, pod_level=self._kubelet.pod_level)),
        ):
            for name, value in amounts.items():
                found |= dict.fromkeys(_keys(part, name), value)
        return found

    def _over(self, quota: ResourceQuota, usage: ResourceList) -> str:
        used = self._used[quota.namespace, quota.name]
        exceeded = [
            name
            for name, limit in sorted(quota.hard.items())
            if name in usage and not usage[name].is_zero and limit < used.get(name, ZERO) + usage[name]
        ]
        if not exceeded:
            return ""
        parts = (("requested", usage), ("used", used), ("limited", quota.hard))
        return ", ".join(f"{word}: {_listed(amounts, exceeded)}" for word, amounts in parts)

    def _add(self, quota: ResourceQuota, usage: ResourceList) -> None:
        used = self._used[quota.namespace, quota.name]
        for name, value in usage.items():
            used[name] = used.get(name, ZERO) + value


def _keys(part: str, name: str) -> tuple[str, ...]:
    """The names under which a quota counts a request or a limit."""
    if name in _COUNTED:
        return (f"limits.{name}",) if part == "limits" else (name, f"requests.{name}")
    if part == "limits":
        return ()
    return (name, f"requests.{name}") if name.startswith(PREFIX) else (f"requests.{name}",)


def _selects(scope: QuotaScope, priority_class: str) -> bool:
    return {
        "Exists": bool(priority_class),
        "DoesNotExist": not priority_class,
        "In": priority_class in scope.values,
        "NotIn": priority_class not in scope.values,
    }[scope.operator]


def _listed(amounts: Mapping[str, Quantity], names: Sequence[str]) -> str:
    return ",".join(f"{name}={amounts.get(name, ZERO).canonical()}" for name in names)


def _refused(pod: Pod, quota: ResourceQuota, error: str, rule: str) -> Denial:
    named = Input("ResourceQuota", f"{quota.namespace}/{quota.name}", quota.origin)
    return forbidden(pod, error, plugin=_RESOURCE_QUOTA, rule=rule, inputs=(named,))
