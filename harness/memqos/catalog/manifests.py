"""Manifests to pods, with the strictness of kubectl and the API server, after API defaulting.

A pod comes from a manifest of its own, or from the template of an object that makes pods (`catalog.workloads`). One
that the API server does not store yet has a `submission`: the engine admits it beside the objects that were given.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from memqos.catalog.cluster_fields import CLUSTER_FIELDS
from memqos.catalog.cluster_objects import CLUSTER_KINDS, ClusterObject, cluster_object
from memqos.catalog.json_nodes import read_objects
from memqos.catalog.node_values import mapping, strings, text, whole
from memqos.catalog.object_names import Identity, controller_of, identity_of, out_of_a_cluster, uid_of
from memqos.catalog.pod_containers import check_names, containers_of
from memqos.catalog.pod_fields import POD_FIELDS
from memqos.catalog.pod_objects import Found, objects_in
from memqos.catalog.pod_placement import OS_LABEL, not_on_linux
from memqos.catalog.pod_resources import ResourceReader, check_pod_level
from memqos.catalog.pod_status import status_of
from memqos.catalog.resource_claims import claim_names, claims_of
from memqos.catalog.schema import FieldPath, check, parse_fields
from memqos.catalog.workload_fields import WORKLOAD_FIELDS
from memqos.catalog.workloads import Replicas, made_names, template_of
from memqos.catalog.yaml_nodes import MappingNode, SequenceNode
from memqos.engine.releases.defaulting import in_whole_millis
from memqos.model.pod import Controller, Pod, Submission

__all__ = ["Manifest", "PassedOver", "manifests_in", "stable_uid"]

_SOURCE = "kubernetes.io/config.source"
_MIRROR = "kubernetes.io/config.mirror"
_HASH = re.compile(r"[0-9a-f]{32}", re.ASCII)
"""The hash of a static pod's configuration, which is its uid. Source: kubelet config.applyDefaults."""

_UID_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://kubernetes.io/api/v1/pods")
_AS_WRITTEN = Replicas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object and its pods: itself, or those that it makes. owner: what controls it, None for nothing."""

    identity: Identity
    pods: tuple[Pod, ...]
    owner: Identity | None
    file: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An object that makes no pods, by its kind and API version; "" for a document that is no object."""

    kind: str
    version: str = field(default="", compare=False)


@functools.cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    return parse_fields(POD_FIELDS + WORKLOAD_FIELDS + CLUSTER_FIELDS)


def manifests_in(
    stream: BinaryIO, file: str, replicas: Replicas = _AS_WRITTEN, *, strict: bool = True, namespace: str = ""
) -> Iterator[Manifest | ClusterObject | PassedOver]:
    """The objects in a stream of one or several documents, and in lists of objects, one by one.

    A pod without metadata.uid gets one made from its namespace and name, always the same; so does a pod that an object
    makes. A pod that says that the kubelet read it from a file (annotation kubernetes.io/config.source or
    config.mirror) is static; the uid of a mirror is the one that it mirrors.

    Quantities are exact. The API server rounds them up to whole milli units before it compares them; the engine does so
    for every pod that it is given.

    replicas: how many pods a workload has on the node, where that is not what it says itself. strict: a document
    without apiVersion and kind is an error, and is passed over otherwise. namespace: for objects that name none.

    Raises ManifestError naming file, line and field for whatever kubectl or the API server refuses, as far as it
    concerns the shape of a pod and its resources.
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
    """The uid that the kubelet gives a static pod, if this is its mirror: the API server has another for the mirror."""
    uid = strings(meta.get("annotations")).get(_MIRROR, "")
    return uid if _HASH.fullmatch(uid) else ""


def stable_uid(key: str) -> str:
    """A uid that is always the same for one key."""
    return str(uuid.uuid5(_UID_SPACE, key))


def _pod(node: MappingNode, identity: Identity, place: FieldPath, *, counted: bool = False) -> Pod:
    """The pod that a manifest or a template describes, to be submitted; its uid is still to be given.

    counted: whether what it uses is part of what quotas have counted.
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
