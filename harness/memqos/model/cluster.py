"""Objects of a cluster that affect the admission of new pods: plain values, after API defaulting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memqos.model.quantity import ResourceList

__all__ = [
    "NO_OBJECTS",
    "ClusterObjects",
    "ContainerPolicy",
    "LimitRange",
    "LimitRangeItem",
    "LimitType",
    "Namespace",
    "PriorityClass",
    "QuotaScope",
    "Recommendation",
    "ResourceQuota",
    "RuntimeClass",
    "UpdateMode",
    "VerticalPodAutoscaler",
]


class LimitType(StrEnum):
    """The type of a LimitRange item, spelled as in `spec.limits[].type`."""

    CONTAINER = "Container"
    POD = "Pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A scheduling.k8s.io/v1 PriorityClass; preemption_policy is "PreemptLowerPriority" or "Never"."""

    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRangeItem:
    """One of `spec.limits`, after the API's own defaulting: `default` from max, `default_request` from default and min.

    origin: field ("default.memory") to its place ("limits.yaml:7").
    """

    type: LimitType
    default: ResourceList = field(default_factory=dict)
    default_request: ResourceList = field(default_factory=dict)
    min: ResourceList = field(default_factory=dict)
    max: ResourceList = field(default_factory=dict)
    max_limit_request_ratio: ResourceList = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """A v1 LimitRange with its items of the types in LimitType: other types do not concern pods."""

    name: str
    namespace: str
    limits: tuple[LimitRangeItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClass:
    """A node.k8s.io/v1 RuntimeClass; overhead: `overhead.podFixed`, None without `overhead`.

    not_on_linux: its `scheduling.nodeSelector` by operating system, "" if Linux nodes match.
    """

    name: str
    handler: str
    overhead: ResourceList | None = None
    not_on_linux: str = ""
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """One of a quota's scopes, as in `scopeSelector.matchExpressions`: operator In, NotIn, Exists or DoesNotExist."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """A v1 ResourceQuota. hard: `status.hard`, else `spec.hard`; used: `status.used`, None if there is no status."""

    name: str
    namespace: str
    hard: ResourceList
    used: ResourceList | None = None
    scopes: tuple[QuotaScope, ...] = ()
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A v1 Namespace; terminating: whether it is being deleted."""

    name: str
    terminating: bool = False
    origin: str = field(default="", compare=False)


class UpdateMode(StrEnum):
    """When a VerticalPodAutoscaler applies its recommendation, spelled as in `spec.updatePolicy.updateMode`."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    AUTO = "Auto"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPolicy:
    """One of `spec.resourcePolicy.containerPolicies`; container "*" is for all containers without their own."""

    container: str
    min_allowed: ResourceList = field(default_factory=dict)
    max_allowed: ResourceList = field(default_factory=dict)
    controls_limits: bool = True
    off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One of `status.recommendation.containerRecommendations`: the target, and its places by resource."""

    container: str
    target: ResourceList
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalPodAutoscaler:
    """An autoscaling.k8s.io VerticalPodAutoscaler.

    kind, target: `spec.targetRef`. created: metadata.creationTimestamp, "" if missing. recommendations: None if missing
    in the status. boosts: whether it has a startupBoost, which affects only cpu.
    """

    name: str
    namespace: str
    kind: str
    target: str
    update_mode: UpdateMode = UpdateMode.RECREATE
    policies: tuple[ContainerPolicy, ...] = ()
    recommendations: tuple[Recommendation, ...] | None = None
    created: str = ""
    boosts: bool = False
    origin: str = field(default="", compare=False)

    def policy(self, container: str) -> ContainerPolicy | None:
        """The policy of a container, else the one for all containers; None if there is neither."""
        named = {one.container: one for one in reversed(self.policies)}
        return named.get(container, named.get("*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """The objects given in addition to the pods, in the order given.

    recommendations: whether a VerticalPodAutoscaler's recommendation is applied to new pods.
    """

    priority_classes: tuple[PriorityClass, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    runtime_classes: tuple[RuntimeClass, ...] = ()
    resource_quotas: tuple[ResourceQuota, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    autoscalers: tuple[VerticalPodAutoscaler, ...] = ()
    recommendations: bool = False


NO_OBJECTS = ClusterObjects()
