"""Manifests to pods, with the strictness of kubectl and the API server, after API defaulting.

A pod comes from its own manifest, or from the template of an object that makes pods (`catalog.workloads`). A pod that
the API server has not stored yet has a `submission`: the engine admits it with the given objects.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from memqos.catalog.cluster_objects import CLUSTER_KINDS, OS_LABEL, ClusterObject, cluster_object, not_on_linux
from memqos.catalog.fields import POD_FIELDS
from memqos.catalog.json_nodes import read_objects
from memqos.catalog.manifest_objects import Found, objects_in
from memqos.catalog.pod_resources import ResourceReader, check_pod_level, status_of
from memqos.catalog.schema import FieldPath, check, mapping, parse_fields, quantity_of, strings, text, text_list, whole
from memqos.catalog.workloads import (
    Identity,
    Replicas,
    check_label,
    controller_of,
    identity_of,
    made_names,
    out_of_a_cluster,
    template_of,
    uid_of,
)
from memqos.catalog.yaml_nodes import MappingNode, ScalarNode, SequenceNode
from memqos.engine.releases.defaulting import in_whole_millis, with_requests
from memqos.model.pod import Container, ContainerKind, Controller, Pod, ResizePolicy, Resources, Submission
from memqos.model.quantity import Quantity

__all__ = ["Manifest", "PassedOver", "manifests_in", "stable_uid"]

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


_KINDS = {"containers": ContainerKind.APP, "ephemeralContainers": ContainerKind.EPHEMERAL}


def containers_of(spec: MappingNode, field: str, place: FieldPath) -> Iterator[Container]:
    """The containers in one of a pod's three lists (`field`), after API defaulting."""
    value = spec.get(field)
    items = value.items if isinstance(value, SequenceNode) else ()
    for index, item in enumerate(items):
        own = place.child(field).item(index)
        if not isinstance(item, MappingNode):
            raise own.error("a container is a mapping of fields.", item.line)
        yield _container(item, field, own)


def _container(node: MappingNode, field: str, place: FieldPath) -> Container:
    name = text(node, "name")
    if not name:
        raise place.child("name").error("a container needs a name.", node.line)
    check_label(name, place.child("name"), node.line_of("name"))
    policy = text(node, "restartPolicy")
    if policy not in {"", "Always", "OnFailure", "Never"}:
        raise place.child("restartPolicy").error(
            f"'{policy[:80]}' is not a restart policy: Always, OnFailure or Never.", node.line_of("restartPolicy")
        )
    if field == "initContainers":
        kind = ContainerKind.SIDECAR if policy == "Always" else ContainerKind.INIT
    else:
        kind = _KINDS[field]
    origins = ResourceReader(place)
    own = node.get("resources")
    resources = origins.resources(own, place.child("resources"), "") if isinstance(own, MappingNode) else Resources()
    if kind is ContainerKind.EPHEMERAL and (resources.requests or resources.limits):
        raise place.child("resources").error("an ephemeral container has no resources.", node.line_of("resources"))
    return with_requests(
        Container(
            name=name,
            kind=kind,
            resources=resources,
            image=text(node, "image"),
            command=text_list(node, "command"),
            args=text_list(node, "args"),
            resize_policy=_resize_policy(node, place.child("resizePolicy")),
            origin=origins.lines,
        )
    )


def _resize_policy(node: MappingNode, place: FieldPath) -> dict[str, ResizePolicy]:
    given = node.get("resizePolicy")
    found: dict[str, ResizePolicy] = {}
    for index, item in enumerate(given.items if isinstance(given, SequenceNode) else ()):
        if not isinstance(item, MappingNode):
            continue
        here, resource, policy = place.item(index), text(item, "resourceName"), text(item, "restartPolicy")
        if resource not in {"cpu", "memory"}:
            what = f"'{resource[:80]}' cannot be resized: cpu and memory can."
            raise here.child("resourceName").error(what, item.line, got=resource[:80])
        if policy not in {*ResizePolicy}:
            what = f"'{policy[:80]}' is not a resize policy: {', '.join(ResizePolicy)}."
            raise here.child("restartPolicy").error(what, item.line, got=policy[:80])
        if resource in found:
            raise here.child("resourceName").error(f"{resource} has a policy already.", item.line, got=resource)
        found[resource] = ResizePolicy(policy)
    return found


def check_names(spec: MappingNode, place: FieldPath) -> None:
    """Raise ManifestError for a pod without a container, and for two containers of one name."""
    required = spec.get("containers")
    if not isinstance(required, SequenceNode) or not required.items:
        raise place.child("containers").error("a pod needs at least one container.", spec.line_of("containers"))
    seen: set[str] = set()
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        value = spec.get(kind)
        for index, item in enumerate(value.items if isinstance(value, SequenceNode) else ()):
            name = text(item, "name") if isinstance(item, MappingNode) else ""
            if name in seen:
                spot = place.child(kind).item(index).child("name")
                raise spot.error(f"another container is called '{name}' too.", item.line, got=name)
            seen.add(name)


_STATUS = "nodeAllocatableResourceClaimStatuses"


def claim_names(spec: MappingNode) -> tuple[str, ...]:
    """The names of a pod's claims, in their order."""
    return tuple(text(one, "name") for one in _mappings(spec, "resourceClaims"))


def _memory_volumes(spec: MappingNode, place: FieldPath) -> dict[str, Quantity | None]:
    """The size limits of a pod's memory-backed emptyDir volumes, by name; None for one without."""
    found: dict[str, Quantity | None] = {}
    for index, volume in enumerate(_mappings(spec, "volumes")):
        own = mapping(volume, "emptyDir")
        if text(own, "medium") == "Memory":
            limit = own.get("sizeLimit")
            if isinstance(limit, ScalarNode) and limit.value is not None:
                here = place.item(index).child("emptyDir").child("sizeLimit")
                found[text(volume, "name")] = quantity_of(limit, here)
            else:
                found[text(volume, "name")] = None
    return found


def claims_of(names: tuple[str, ...], status: MappingNode) -> tuple[str, ...]:
    """The claims by name, then those with amounts in the status: "gpu-x7 (memory 2Gi)"."""
    told = []
    for one in _mappings(status, _STATUS):
        amounts = ", ".join(f"{name} {amount}" for name, amount in strings(one.get("resources")).items())
        told.append(f"{text(one, 'resourceClaimName')} ({amounts})" if amounts else text(one, "resourceClaimName"))
    return (*names, *told)


def _mappings(node: MappingNode, name: str) -> Iterator[MappingNode]:
    value = node.get(name)
    for item in value.items if isinstance(value, SequenceNode) else ():
        if isinstance(item, MappingNode):
            yield item


WORKLOAD_FIELDS = """
PodTemplate: apiVersion string, kind string, metadata ObjectMeta, template PodTemplateSpec
PodTemplateSpec: metadata ObjectMeta, spec PodSpec

Deployment: apiVersion string, kind string, metadata ObjectMeta, spec DeploymentSpec, status any
DeploymentSpec: minReadySeconds int, paused bool, progressDeadlineSeconds int, replicas int, revisionHistoryLimit int,
  selector LabelSelector, strategy UpdateStrategy, template PodTemplateSpec
UpdateStrategy: rollingUpdate RollingUpdate, type string
RollingUpdate: maxSurge intOrString, maxUnavailable intOrString

ReplicaSet: apiVersion string, kind string, metadata ObjectMeta, spec ReplicaSetSpec, status any
ReplicaSetSpec: minReadySeconds int, replicas int, selector LabelSelector, template PodTemplateSpec

ReplicationController: apiVersion string, kind string, metadata ObjectMeta, spec ReplicationControllerSpec, status any
ReplicationControllerSpec: minReadySeconds int, replicas int, selector map[string], template PodTemplateSpec

StatefulSet: apiVersion string, kind string, metadata ObjectMeta, spec StatefulSetSpec, status any
StatefulSetSpec: minReadySeconds int, ordinals StatefulSetOrdinals, persistentVolumeClaimRetentionPolicy ClaimRetention,
  podManagementPolicy string, replicas int, revisionHistoryLimit int, selector LabelSelector, serviceName string,
  template PodTemplateSpec, updateStrategy StatefulSetUpdateStrategy, volumeClaimTemplates []object
StatefulSetOrdinals: start int
ClaimRetention: whenDeleted string, whenScaled string
StatefulSetUpdateStrategy: rollingUpdate RollingUpdateOfStatefulSet, type string
RollingUpdateOfStatefulSet: maxUnavailable intOrString, partition int

DaemonSet: apiVersion string, kind string, metadata ObjectMeta, spec DaemonSetSpec, status any
DaemonSetSpec: minReadySeconds int, revisionHistoryLimit int, selector LabelSelector, template PodTemplateSpec,
  updateStrategy UpdateStrategy

Job: apiVersion string, kind string, metadata ObjectMeta, spec JobSpec, status any
JobSpec: activeDeadlineSeconds int, backoffLimit int, backoffLimitPerIndex int, completionMode string, completions int,
  managedBy string, manualSelector bool, maxFailedIndexes int, parallelism int, podFailurePolicy object,
  podReplacementPolicy string, scheduling object, selector LabelSelector, successPolicy object, suspend bool,
  template PodTemplateSpec, ttlSecondsAfterFinished int

CronJob: apiVersion string, kind string, metadata ObjectMeta, spec CronJobSpec, status any
CronJobSpec: concurrencyPolicy string, failedJobsHistoryLimit int, jobTemplate JobTemplateSpec, schedule string,
  startingDeadlineSeconds int, successfulJobsHistoryLimit int, suspend bool, timeZone string
JobTemplateSpec: metadata ObjectMeta, spec JobSpec
"""


_SOURCE = "kubernetes.io/config.source"
_MIRROR = "kubernetes.io/config.mirror"
_HASH = re.compile(r"[0-9a-f]{32}", re.ASCII)
"""The hash of a static pod's configuration, which is its uid. Source: kubelet config.applyDefaults."""

_UID_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://kubernetes.io/api/v1/pods")
_AS_WRITTEN = Replicas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object and its pods: itself, or those that it makes. owner: its controller, None for none."""

    identity: Identity
    pods: tuple[Pod, ...]
    owner: Identity | None
    file: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An object that makes no pods, by kind and API version; "" for a document that is not an object."""

    kind: str
    version: str = field(default="", compare=False)


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(POD_FIELDS + WORKLOAD_FIELDS + CLUSTER_FIELDS)


def manifests_in(
    stream: BinaryIO, file: str, replicas: Replicas = _AS_WRITTEN, *, strict: bool = True, namespace: str = ""
) -> Iterator[Manifest | ClusterObject | PassedOver]:
    """The objects in a stream of documents and in lists of objects, one by one.

    A pod without metadata.uid gets a stable one from its namespace and name; so does a pod that an object makes. A pod
    with the annotation kubernetes.io/config.source (a file) or config.mirror is static; a mirror has the uid of its
    static pod.

    Quantities are exact. The API server rounds them up to whole milli units before it compares them; the engine does so
    for every pod that it is given.

    replicas: the pods of a workload on the node, if not the number in its manifest. strict: whether a document without
    apiVersion and kind is an error; if not, it is skipped. namespace: for objects without one.

    Raises ManifestError naming file, line and field for an error that kubectl or the API server would report about the
    form of a pod and its resources.
    """
    for found in objects_in(read_objects(stream, file), file, strict=strict):
        if not found.is_read:
            yield PassedOver(found.kind, found.version)
            continue
        check(found.node, found.kind, _fields(), found.place)
        if found.kind in CLUSTER_KINDS:
            yield cluster_object(found.kind, found.node, found.place, namespace)
        else:
            yield _manifest(found, replicas, namespace)


def _manifest(found: Found, replicas: Replicas, namespace: str) -> Manifest:
    node, place = found.node, found.place
    meta, meta_place = _section(node, "metadata", found.kind, place), place.child("metadata")
    identity = identity_of(found.kind, meta, meta_place, namespace)
    stored = out_of_a_cluster(node)
    if found.kind == "Pod":
        uid = _mirrored(meta) or uid_of(meta, meta_place) or stable_uid(f"{identity.namespace}/{identity.name}")
        status = mapping(node, "status")
        pod = _pod(node, identity, place)
        pods: tuple[Pod, ...] = (
            replace(
                pod,
                uid=uid,
                phase=text(status, "phase"),
                claims=claims_of(pod.claims, status),
                generation=whole(meta, "generation"),
                deleted=bool(text(meta, "deletionTimestamp")),
                status=status_of(node, place),
                submission=None if stored else pod.submission,
                controller=None,
            ),
        )
    else:
        template, template_place = template_of(node, found.kind, place)
        pattern = _pod(template, identity, template_place, counted=stored)
        pods = tuple(
            replace(pattern, name=name, uid=stable_uid(f"{identity}/{number}"))
            for number, name in enumerate(made_names(node, identity, place, replicas))
        )
    return Manifest(identity=identity, pods=pods, owner=controller_of(node, identity.namespace), file=place.file)


def _mirrored(meta: MappingNode) -> str:
    """The kubelet's uid of a static pod, if this is its mirror: the mirror has another uid in the API server."""
    uid = strings(meta.get("annotations")).get(_MIRROR, "")
    return uid if _HASH.fullmatch(uid) else ""


def stable_uid(key: str) -> str:
    """A stable uid for a key."""
    return str(uuid.uuid5(_UID_SPACE, key))


def _pod(node: MappingNode, identity: Identity, place: FieldPath, *, counted: bool = False) -> Pod:
    """The pod of a manifest or a template, to be submitted, without its uid.

    counted: whether quotas have counted its usage.
    """
    meta = mapping(node, "metadata")
    annotations = strings(meta.get("annotations"))
    spec, spec_place = _section(node, "spec", "Pod", place), place.child("spec")
    check_names(spec, spec_place)
    own = spec.get("resources")
    origin = ResourceReader(spec_place)
    for name in ("priority", "priorityClassName", "runtimeClassName", "os"):
        if (value := spec.get(name)) is not None:
            origin.lines[name] = f"{place.file}:{value.line}"
    pod = Pod(
        name=identity.name,
        namespace=identity.namespace,
        uid="",
        containers=tuple(containers_of(spec, "containers", spec_place)),
        init_containers=tuple(containers_of(spec, "initContainers", spec_place)),
        ephemeral_containers=tuple(containers_of(spec, "ephemeralContainers", spec_place)),
        resources=origin.resources(own, spec_place.child("resources"), "resources.")
        if isinstance(own, MappingNode)
        else None,
        overhead=origin.amounts(spec.get("overhead"), spec_place.child("overhead"), "overhead"),
        claims=claim_names(spec),
        memory_volumes=_memory_volumes(spec, spec_place.child("volumes")),
        priority=whole(spec, "priority"),
        priority_class_name=text(spec, "priorityClassName"),
        runtime_class_name=text(spec, "runtimeClassName"),
        os=text(mapping(spec, "os"), "name"),
        os_label=strings(meta.get("labels")).get(OS_LABEL, ""),
        not_on_linux=not_on_linux(spec),
        scheduling_gates=_gates(spec),
        submission=Submission(
            preemption_policy=text(spec, "preemptionPolicy"),
            has_deadline=whole(spec, "activeDeadlineSeconds") is not None,
            counted=counted,
        ),
        static=annotations.get(_SOURCE, "api") != "api" or _MIRROR in annotations,
        annotations=annotations,
        node=text(spec, "nodeName"),
        restart_policy=text(spec, "restartPolicy") or "Always",
        controller=Controller(identity.kind, identity.name),
        file=place.file,
        origin=origin.lines,
    )
    check_pod_level(in_whole_millis(pod), spec, spec_place.child("resources"))
    return pod


def _gates(spec: MappingNode) -> tuple[str, ...]:
    gates = spec.get("schedulingGates")
    items = gates.items if isinstance(gates, SequenceNode) else ()
    return tuple(text(one, "name") for one in items if isinstance(one, MappingNode))


def _section(node: MappingNode, name: str, kind: str, place: FieldPath) -> MappingNode:
    value = node.get(name)
    if not isinstance(value, MappingNode):
        raise place.child(name).error(f"a {kind} needs {name}.", node.line_of(name))
    return value
