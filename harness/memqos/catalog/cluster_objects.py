"""Objects that admission reads (PriorityClass, LimitRange …) from manifests, with the strictness of the API server.

Source: pkg/apis/core/validation `ValidateLimitRange`, `ValidateResourceQuota`; pkg/apis/scheduling/validation
`ValidatePriorityClass`; pkg/apis/node/validation; pkg/apis/core/v1 `SetDefaults_LimitRangeItem`.

Also the node selectors and affinity of a pod that decide by operating system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from memqos.catalog.pod_resources import ResourceReader
from memqos.catalog.schema import FieldPath, mapping, quantity_of, strings, text, text_list, whole
from memqos.catalog.workloads import Identity, check_label, identity_of
from memqos.catalog.yaml_nodes import MappingNode, ScalarNode, SequenceNode
from memqos.engine.admission.plugins import HIGHEST_USER_DEFINABLE, SYSTEM_CLASSES
from memqos.errors import ManifestError
from memqos.model.cluster import (
    ClusterObjects,
    ContainerPolicy,
    LimitRange,
    LimitRangeItem,
    LimitType,
    Namespace,
    PriorityClass,
    QuotaScope,
    Recommendation,
    ResourceQuota,
    RuntimeClass,
    UpdateMode,
    VerticalPodAutoscaler,
)
from memqos.model.quantity import ZERO, Quantity, ResourceList

__all__ = ["CLUSTER_KINDS", "OS_LABEL", "ClusterObject", "cluster_object", "gathered", "not_on_linux"]

OS_LABEL = "kubernetes.io/os"
_OS_LABELS = (OS_LABEL, "beta.kubernetes.io/os")
"""Labels that every kubelet sets on its node, with the name of its operating system."""

_LINUX = "linux"


def not_on_linux(spec: MappingNode) -> str:
    """The part of a pod's spec that no Linux node matches, as text; "" if Linux nodes match."""
    selector = strings(spec.get("nodeSelector"))
    for label in _OS_LABELS:
        if selector.get(label, _LINUX) != _LINUX:
            return f"spec.nodeSelector {label}={selector[label]}"
    affinity = mapping(mapping(spec, "affinity"), "nodeAffinity")
    required = mapping(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms = required.get("nodeSelectorTerms")
    excluding = [
        next(_excluding_linux(term), "")
        for term in (terms.items if isinstance(terms, SequenceNode) else ())
        if isinstance(term, MappingNode)
    ]
    # One of the terms must match, and all expressions of a term.
    return f"spec.affinity.nodeAffinity {excluding[0]}" if excluding and all(excluding) else ""


def _excluding_linux(term: MappingNode) -> Iterator[str]:
    """The expressions of a term that no Linux node matches."""
    expressions = term.get("matchExpressions")
    for one in expressions.items if isinstance(expressions, SequenceNode) else ():
        if not isinstance(one, MappingNode) or text(one, "key") not in _OS_LABELS:
            continue
        operator, values = text(one, "operator"), text_list(one, "values")
        matches = {"In": _LINUX in values, "NotIn": _LINUX not in values, "DoesNotExist": False}.get(operator, True)
        if not matches:
            yield " ".join((text(one, "key"), operator, *values))


CLUSTER_KINDS: Mapping[str, tuple[str, ...]] = {
    "LimitRange": ("v1",),
    "Namespace": ("v1",),
    "ResourceQuota": ("v1",),
    "PriorityClass": ("scheduling.k8s.io/v1",),
    "RuntimeClass": ("node.k8s.io/v1", "node.k8s.io/v1beta1"),
    "VerticalPodAutoscaler": ("autoscaling.k8s.io/v1", "autoscaling.k8s.io/v1beta2"),
}
"""The supported kinds, with their API versions."""

_CLUSTER_SCOPED = ("Namespace", "PriorityClass", "RuntimeClass")
_POLICIES = ("PreemptLowerPriority", "Never")
_LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")
_SCOPES = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)  # fmt: skip
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_CONTROLLED_VALUES = ("RequestsAndLimits", "RequestsOnly")
_MODES = ("Auto", "Off")

_Value = PriorityClass | LimitRange | RuntimeClass | ResourceQuota | Namespace | VerticalPodAutoscaler


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObject:
    """One object: its names, its value, and its file."""

    identity: Identity
    value: _Value
    file: str


def cluster_object(kind: str, node: MappingNode, place: FieldPath, namespace: str) -> ClusterObject:
    """The object in a checked mapping; namespace: for an object without one, "" for "default".

    Raises ManifestError for an object that the API server refuses.
    """
    meta = mapping(node, "metadata")
    identity = identity_of(kind, meta, place.child("metadata"), namespace, scoped=kind not in _CLUSTER_SCOPED)
    return ClusterObject(identity=identity, value=_READERS[kind](node, place, identity), file=place.file)


def gathered(found: Iterable[ClusterObject], *, recommendations: bool = False) -> ClusterObjects:
    """All objects for admission; ManifestError for an object given twice with different content."""
    seen: dict[Identity, ClusterObject] = {}
    by_type: dict[type[_Value], list[_Value]] = {}
    for one in found:
        other = seen.setdefault(one.identity, one)
        if other.value != one.value:
            raise ManifestError.at(
                f"another {one.identity} is already defined in {other.file}.",
                file=one.file,
                field="metadata.name",
                next_step="Give every object once.",
            )
        if other is not one:
            continue
        by_type.setdefault(type(one.value), []).append(one.value)
    return ClusterObjects(
        priority_classes=tuple(one for one in by_type.get(PriorityClass, ()) if isinstance(one, PriorityClass)),
        limit_ranges=tuple(
            sorted(
                (one for one in by_type.get(LimitRange, ()) if isinstance(one, LimitRange)), key=lambda one: one.name
            )
        ),
        runtime_classes=tuple(one for one in by_type.get(RuntimeClass, ()) if isinstance(one, RuntimeClass)),
        resource_quotas=tuple(one for one in by_type.get(ResourceQuota, ()) if isinstance(one, ResourceQuota)),
        namespaces=tuple(one for one in by_type.get(Namespace, ()) if isinstance(one, Namespace)),
        autoscalers=tuple(
            one for one in by_type.get(VerticalPodAutoscaler, ()) if isinstance(one, VerticalPodAutoscaler)
        ),
        recommendations=recommendations,
    )


def _line(place: FieldPath, node: MappingNode, name: str) -> str:
    """The place of a field, for reasons."""
    value = node.get(name)
    return f"{place.file}:{value.line if value is not None else node.line}"


def _one_of(node: MappingNode, name: str, known: tuple[str, ...], place: FieldPath, absent: str = "") -> str:
    """One of several words; `absent` for a missing one, if that is allowed."""
    given = text(node, name) or absent
    if given not in known:
        what = f"'{given[:80]}' is not one of {', '.join(known)}." if given else f"{name} is not set."
        raise place.child(name).error(what, node.line_of(name), got=given[:80])
    return given


def _priority_class(node: MappingNode, place: FieldPath, identity: Identity) -> PriorityClass:
    value, name = whole(node, "value"), identity.name
    if value is None:
        raise place.child("value").error("a PriorityClass needs a value.", node.line)
    policy = _one_of(node, "preemptionPolicy", _POLICIES, place, _POLICIES[0])
    default = node.get("globalDefault")
    system = SYSTEM_CLASSES.get(name)
    if name.startswith("system-") and (system is None or system.value != value):
        what = "priority class names with 'system-' prefix are reserved for system use only."
        raise place.child("metadata", "name").error(what, mapping(node, "metadata").line_of("name"), got=name)
    if system is None and value > HIGHEST_USER_DEFINABLE:
        what = f"the maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE}."
        raise place.child("value").error(what, node.line_of("value"), got=value)
    return PriorityClass(
        name=name,
        value=value,
        global_default=isinstance(default, ScalarNode) and default.value is True,
        preemption_policy=policy,
        origin=f"{_line(place, node, 'value')} (PriorityClass {name})",
    )


def _limit_range(node: MappingNode, place: FieldPath, identity: Identity) -> LimitRange:
    spec, spec_place = mapping(node, "spec"), place.child("spec", "limits")
    items = spec.get("limits")
    if not isinstance(items, SequenceNode):
        raise spec_place.error("a LimitRange needs spec.limits.", node.line)
    seen: set[str] = set()
    found = []
    for index, item in enumerate(items.items):
        own = spec_place.item(index)
        if not isinstance(item, MappingNode):
            raise own.error("expected a mapping of fields.", items.line)
        kind = text(item, "type")
        if kind not in _LIMIT_TYPES and "/" not in kind:
            what = f"'{kind[:80]}' is not one of {', '.join(_LIMIT_TYPES)}." if kind else "type is not set."
            raise own.child("type").error(what, item.line_of("type"), got=kind[:80])
        if kind in seen:
            raise own.child("type").error(f"another item has the type {kind}.", item.line_of("type"), got=kind)
        seen.add(kind)
        if kind in {*LimitType}:
            found.append(_limit_range_item(item, LimitType(kind), own))
    return LimitRange(name=identity.name, namespace=identity.namespace, limits=tuple(found))


def _limit_range_item(node: MappingNode, kind: LimitType, place: FieldPath) -> LimitRangeItem:
    reader = ResourceReader(place)
    given: dict[str, dict[str, Quantity]] = {}
    for name in ("default", "defaultRequest", "min", "max", "maxLimitRequestRatio"):
        amounts = reader.amounts(node.get(name), place.child(name), name)
        given[name] = {resource: amount.defaulted() for resource, amount in amounts.items()}
        if kind is LimitType.POD and name.startswith("default") and amounts:
            what = "may not be specified when `type` is 'Pod'."
            raise place.child(name).error(what, node.line_of(name))
    if kind is LimitType.CONTAINER:
        _fill(given, reader.lines, "default", "max")
        _fill(given, reader.lines, "defaultRequest", "default")
        _fill(given, reader.lines, "defaultRequest", "min")
    _check_order(given, reader.lines, place)
    return LimitRangeItem(
        type=kind,
        default=given["default"],
        default_request=given["defaultRequest"],
        min=given["min"],
        max=given["max"],
        max_limit_request_ratio=given["maxLimitRequestRatio"],
        origin=reader.lines,
    )


def _fill(given: dict[str, dict[str, Quantity]], lines: dict[str, str], field: str, other: str) -> None:
    """The API's default from another field of the item."""
    for name, amount in given[other].items():
        if name not in given[field]:
            given[field][name] = amount
            lines[f"{field}.{name}"] = lines[f"{other}.{name}"]


_ORDER = (
    ("min", "max"), ("default", "max"), ("min", "default"), ("min", "defaultRequest"), ("defaultRequest", "max"),
    ("defaultRequest", "default"),
)  # fmt: skip


def _check_order(given: Mapping[str, ResourceList], lines: Mapping[str, str], place: FieldPath) -> None:
    def fault(field: str, name: str, what: str) -> ManifestError:
        line = int(lines[f"{field}.{name}"].rpartition(":")[2])
        return place.child(field, name).error(what, line, got=str(given[field][name]))

    for low, high in _ORDER:
        for name, amount in given[low].items():
            if name in given[high] and given[high][name] < amount:
                what = f"{low} value {amount} is greater than {high} value {given[high][name]}."
                raise fault(high if low == "min" and high != "max" else low, name, what)
    for name, ratio in given["maxLimitRequestRatio"].items():
        if ratio.amount < 1:
            raise fault("maxLimitRequestRatio", name, f"ratio {ratio} is less than 1.")
        least, most = given["min"].get(name, ZERO), given["max"].get(name)
        if most is not None and not least.is_zero and ratio.amount > Fraction(most.milli_value, least.milli_value):
            what = f"ratio {ratio} is greater than max/min = {most.milli_value / least.milli_value:f}."
            raise fault("maxLimitRequestRatio", name, what)


def _runtime_class(node: MappingNode, place: FieldPath, identity: Identity) -> RuntimeClass:
    handler = text(node, "handler")
    if not handler:
        raise place.child("handler").error("a RuntimeClass needs a handler.", node.line_of("handler"))
    check_label(handler, place.child("handler"), node.line_of("handler"))
    reader = ResourceReader(place)
    overhead = node.get("overhead")
    amounts = None
    if isinstance(overhead, MappingNode):
        fixed = reader.amounts(overhead.get("podFixed"), place.child("overhead", "podFixed"), "overhead")
        amounts = {name: amount.defaulted() for name, amount in fixed.items()}
    lines = {name.removeprefix("overhead."): line for name, line in reader.lines.items()}
    excluding = not_on_linux(mapping(node, "scheduling")).replace("spec.", "scheduling.")
    return RuntimeClass(name=identity.name, handler=handler, overhead=amounts, not_on_linux=excluding, origin=lines)


def _amounts(node: MappingNode, name: str, place: FieldPath) -> dict[str, Quantity]:
    """A list of amounts whose names are a quota's ("requests.memory") or a custom resource's."""
    given = mapping(node, name)
    found = {}
    for entry in given.entries:
        own = place.child(name, entry.key)
        found[entry.key] = amount = quantity_of(entry.value, own).defaulted()
        if amount < ZERO:
            raise own.error(f"an amount must not be negative, got {amount}.", entry.line, got=str(amount))
    return found


def _resource_quota(node: MappingNode, place: FieldPath, identity: Identity) -> ResourceQuota:
    spec, status = mapping(node, "spec"), mapping(node, "status")
    hard = _amounts(spec, "hard", place.child("spec"))
    known = _amounts(status, "hard", place.child("status"))
    used = _amounts(status, "used", place.child("status"))
    return ResourceQuota(
        name=identity.name,
        namespace=identity.namespace,
        hard=known or hard,
        used=used if status.get("used") is not None else None,
        scopes=tuple(_scopes(spec, place.child("spec"))),
        origin=_line(place, spec, "hard"),
    )


def _scopes(spec: MappingNode, place: FieldPath) -> Iterator[QuotaScope]:
    for name in text_list(spec, "scopes"):
        if name not in _SCOPES:
            what = f"'{name[:80]}' is not one of {', '.join(_SCOPES)}."
            raise place.child("scopes").error(what, spec.line_of("scopes"), got=name[:80])
        yield QuotaScope(name)
    own = place.child("scopeSelector", "matchExpressions")
    expressions = mapping(spec, "scopeSelector").get("matchExpressions")
    for index, item in enumerate(expressions.items if isinstance(expressions, SequenceNode) else ()):
        if isinstance(item, MappingNode):
            name = _one_of(item, "scopeName", _SCOPES, own.item(index))
            operator = _one_of(item, "operator", _OPERATORS, own.item(index))
            yield QuotaScope(name, operator, text_list(item, "values"))


def _namespace(node: MappingNode, place: FieldPath, identity: Identity) -> Namespace:
    deleted = text(mapping(node, "metadata"), "deletionTimestamp")
    terminating = bool(deleted) or text(mapping(node, "status"), "phase") == "Terminating"
    return Namespace(name=identity.name, terminating=terminating, origin=_line(place, node, "metadata"))


def _autoscaler(node: MappingNode, place: FieldPath, identity: Identity) -> VerticalPodAutoscaler:
    spec, own = mapping(node, "spec"), place.child("spec")
    target = mapping(spec, "targetRef")
    if not (text(target, "kind") and text(target, "name")):
        raise own.child("targetRef").error("targetRef needs a kind and a name.", spec.line_of("targetRef"))
    update = mapping(spec, "updatePolicy")
    mode = _one_of(update, "updateMode", tuple(UpdateMode), own.child("updatePolicy"), UpdateMode.RECREATE)
    policies = mapping(spec, "resourcePolicy").get("containerPolicies")
    policy_place = own.child("resourcePolicy", "containerPolicies")
    policy_nodes = [
        (one, policy_place.item(index))
        for index, one in enumerate(policies.items if isinstance(policies, SequenceNode) else ())
        if isinstance(one, MappingNode)
    ]
    recommendation = mapping(node, "status").get("recommendation")
    return VerticalPodAutoscaler(
        name=identity.name,
        namespace=identity.namespace,
        kind=text(target, "kind"),
        target=text(target, "name"),
        update_mode=UpdateMode(mode),
        policies=tuple(_policy(one, where) for one, where in policy_nodes),
        recommendations=tuple(_recommendations(recommendation, place.child("status", "recommendation")))
        if isinstance(recommendation, MappingNode)
        else None,
        created=text(mapping(node, "metadata"), "creationTimestamp"),
        boosts=any(one.get("startupBoost") is not None for one in (spec, *(one for one, _ in policy_nodes))),
        origin=_line(place, spec, "targetRef"),
    )


def _policy(node: MappingNode, place: FieldPath) -> ContainerPolicy:
    return ContainerPolicy(
        container=text(node, "containerName"),
        min_allowed=_amounts(node, "minAllowed", place),
        max_allowed=_amounts(node, "maxAllowed", place),
        controls_limits=_one_of(node, "controlledValues", _CONTROLLED_VALUES, place, _CONTROLLED_VALUES[0])
        == _CONTROLLED_VALUES[0],
        off=_one_of(node, "mode", _MODES, place, _MODES[0]) == "Off",
    )


def _recommendations(node: MappingNode, place: FieldPath) -> Iterator[Recommendation]:
    items = node.get("containerRecommendations")
    for index, item in enumerate(items.items if isinstance(items, SequenceNode) else ()):
        if isinstance(item, MappingNode):
            own = place.child("containerRecommendations").item(index)
            target = mapping(item, "target")
            yield Recommendation(
                container=text(item, "containerName"),
                target=_amounts(item, "target", own),
                origin={entry.key: f"{place.file}:{entry.value.line}" for entry in target.entries},
            )


_READERS: Mapping[str, Callable[[MappingNode, FieldPath, Identity], _Value]] = {
    "LimitRange": _limit_range,
    "Namespace": _namespace,
    "ResourceQuota": _resource_quota,
    "PriorityClass": _priority_class,
    "RuntimeClass": _runtime_class,
    "VerticalPodAutoscaler": _autoscaler,
}
