"""The fields of the objects that admission reads, as data: in the form of `pod_fields`, whose types they use.

The union over the releases 1.22 to 1.37. Source: Kubernetes API reference, core/v1, scheduling/v1, node/v1 (and its
v1beta1); kubernetes/autoscaler, autoscaling.k8s.io/v1.
"""

from __future__ import annotations

__all__ = ["CLUSTER_FIELDS"]

CLUSTER_FIELDS = """
PriorityClass: apiVersion string, kind string, metadata ObjectMeta, description string, globalDefault bool,
  preemptionPolicy string, value int

LimitRange: apiVersion string, kind string, metadata ObjectMeta, spec LimitRangeSpec
LimitRangeSpec: limits []LimitRangeItem
LimitRangeItem: default map[quantity], defaultRequest map[quantity], max map[quantity],
  maxLimitRequestRatio map[quantity], min map[quantity], type string

RuntimeClass: apiVersion string, kind string, metadata ObjectMeta, handler string, overhead Overhead,
  scheduling object
Overhead: podFixed map[quantity]

ResourceQuota: apiVersion string, kind string, metadata ObjectMeta, spec ResourceQuotaSpec, status ResourceQuotaStatus
ResourceQuotaSpec: hard map[quantity], scopeSelector ScopeSelector, scopes []string
ScopeSelector: matchExpressions []ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement: operator string, scopeName string, values []string
ResourceQuotaStatus: hard map[quantity], used map[quantity]

Namespace: apiVersion string, kind string, metadata ObjectMeta, spec object, status any

VerticalPodAutoscaler: apiVersion string, kind string, metadata ObjectMeta, spec VerticalPodAutoscalerSpec,
  status VerticalPodAutoscalerStatus
VerticalPodAutoscalerSpec: recommenders []object, resourcePolicy PodResourcePolicy, startupBoost object,
  targetRef CrossVersionObjectReference, updatePolicy PodUpdatePolicy
CrossVersionObjectReference: apiVersion string, kind string, name string
PodUpdatePolicy: evictAfterOOMSeconds int, evictionRequirements []object, minReplicas int, updateMode string
PodResourcePolicy: containerPolicies []ContainerResourcePolicy
ContainerResourcePolicy: containerName string, controlledResources []string, controlledValues string,
  maxAllowed map[quantity], memoryAggregationIntervalCount int, memoryAggregationIntervalSeconds int,
  minAllowed map[quantity], mode string, oomBumpUpRatio quantity, oomMinBumpUp quantity, startupBoost object
VerticalPodAutoscalerStatus: conditions []object, observedGeneration int, recommendation RecommendedPodResources
RecommendedPodResources: containerRecommendations []RecommendedContainerResources
RecommendedContainerResources: containerName string, lowerBound map[quantity], target map[quantity],
  uncappedTarget map[quantity], upperBound map[quantity]
"""
