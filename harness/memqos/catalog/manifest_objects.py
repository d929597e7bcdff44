"""The objects in a manifest's file: documents, and elements of lists.

Each object makes pods, changes them, or is skipped with its effect as listed here. A kind that is not listed is
reported as unknown, since it may have any effect.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from memqos.catalog.cluster_objects import CLUSTER_KINDS
from memqos.catalog.schema import FieldPath, said_in_status, text
from memqos.catalog.workloads import KINDS
from memqos.catalog.yaml_nodes import Item, MappingNode, Node, ScalarNode, SequenceNode

__all__ = ["Effect", "Found", "OtherKind", "objects_in", "other_kinds"]

_LIST = "List"
_VERSIONS = {"Pod": ("v1",), **{kind: one.versions for kind, one in KINDS.items()}}
_READ = {**_VERSIONS, **CLUSTER_KINDS}
_GROUPS = {"", "apps", "batch", "extensions"}
"""The current and former API versions of objects with pods."""

_OTHERS = {
    "v1": (
        "Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange", "List", "Namespace", "Node",
        "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "Secret", "Service", "ServiceAccount",
    ),
    "apps/v1": ("ControllerRevision",),
    "batch/v1": (),
}  # fmt: skip
"""The other kinds in the API versions of objects with pods."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object's kind and API version; "" for a document that is not an object, and if a list omits it."""

    kind: str
    node: MappingNode
    place: FieldPath
    version: str = ""

    @property
    def is_read(self) -> bool:
        """Whether it is a pod, makes pods, or affects admission."""
        return self.kind in _READ


_NO_OBJECT = MappingNode((), 0)


def objects_in(parts: Iterable[Item | Node], file: str, *, strict: bool) -> Iterator[Found]:
    """The objects with their places, lists opened.

    strict: whether a document without apiVersion and kind is an error; if not, it is found as a document that is not an
    object. Raises ManifestError for a kind that its API version does not have.
    """
    place = FieldPath(file)
    nameless: Found | None = None
    for part in parts:
        if isinstance(part, Item):
            for found in _element(part, place, strict=strict):
                if found.node.get("kind") is None and part.kind == "" and found.kind:
                    nameless = nameless or found
                yield found
            continue
        if not strict and not _is_object(part):
            yield Found("", _NO_OBJECT, place)
        else:
            yield from _opened(_object(part, place), place, nameless)
        nameless = None


def _element(part: Item, place: FieldPath, *, strict: bool) -> Iterator[Found]:
    """An element of the `items` of an unfinished document, whose kind may be unknown yet."""
    own = place.child("items").item(part.index)
    if part.kind and not part.kind.endswith(_LIST):
        if part.kind in _VERSIONS:
            raise place.child("items").error("unknown field 'items'.", part.node.line, got="items")
        return
    node = part.node
    if isinstance(node, MappingNode) and node.get("kind") is None and part.kind != _LIST and (strict or part.kind):
        # An API server's typed list has the kind for all of its items, perhaps after them.
        yield Found(part.kind.removesuffix(_LIST) or "Pod", node, own)
    elif strict or part.kind or _is_object(node):
        yield from _opened(_object(node, own), own, None)
    # Otherwise the whole document is not an object; its end raises the error.


def _opened(node: MappingNode, place: FieldPath, nameless: Found | None) -> Iterator[Found]:
    """An object, or those in a list. nameless: an element that was assumed to be a pod."""
    kind, version = _word(node, "kind", place), _word(node, "apiVersion", place)
    if not kind.endswith(_LIST):
        yield Found(_known(kind, version, node, place), node, place, version)
        return
    items = node.get("items")
    if isinstance(items, ScalarNode) and items.value is None:
        items = SequenceNode((), node.line)
    if not isinstance(items, SequenceNode):
        raise place.child("items").error("expected a list of objects.", node.line)
    _known(kind if kind == _LIST else kind.removesuffix(_LIST), version, node, place)
    if nameless is not None and kind != "PodList":
        _word(nameless.node, "kind", nameless.place)
    for index, item in enumerate(items.items):
        own = place.child("items").item(index)
        yield from _opened(_object(item, own), own, None)


def _is_object(node: Node) -> bool:
    return isinstance(node, MappingNode) and bool(text(node, "kind") and text(node, "apiVersion"))


def _object(node: Node, place: FieldPath) -> MappingNode:
    if not isinstance(node, MappingNode):
        step = "Give a v1 Pod, or an object that makes pods."
        raise place.error("expected an object with apiVersion and kind.", node.line, next_step=step)
    return node


def _word(node: MappingNode, name: str, place: FieldPath) -> str:
    """A required field of an object's head."""
    found = text(node, name)
    if not found:
        value = node.get(name)
        line = value.line if value is not None else node.line
        step = 'A pod has apiVersion "v1" and kind "Pod".'
        if node.get("kind") is None and node.get("apiVersion") is None:
            step = f"{step} kubectl get pods -o yaml prints the pods of a cluster."
        raise place.child(name).error(f"{name} is not set.", line, next_step=step)
    return found


def _known(kind: str, version: str, node: MappingNode, place: FieldPath) -> str:
    """The name of this kind here; ManifestError if memqos knows its whole API version and that has no such kind."""
    versions = _READ.get(kind, ())
    if version in versions:
        return kind
    spot, line = place.child("kind"), node.line_of("kind")
    if (kind, version) == ("Status", "v1"):
        what = f"it is an answer of the API server and no object: {said_in_status(node)}."
        raise spot.error(what, line, got=kind)
    if kind in _VERSIONS and version.rpartition("/")[0] in _GROUPS:
        step = f"The API version of a {kind} is {versions[0]}."
        raise spot.error(f"there is no {kind} in {version}.", line, got=kind, next_step=step)
    if version in _OTHERS and kind not in _OTHERS[version]:
        known = [*_OTHERS[version], *(one for one, all_ in _VERSIONS.items() if version in all_)]
        near = difflib.get_close_matches(kind[:80], known, n=1, cutoff=0.5)
        step = f"Did you mean '{near[0]}'?" if near else ""
        raise spot.error(f"there is no {kind[:80]} in {version}.", line, got=kind[:80], next_step=step)
    return f"{kind} of {version}" if versions else kind


class Effect(StrEnum):
    """The effect of an object that is not applied on pods and their memory."""

    NONE = "none"
    CHANGES_PODS = "may change pods"
    MAKES_PODS = "may make pods"
    COUNTS_PODS = "may change how many pods there are"
    REFUSES_PODS = "may refuse pods"
    SETS_NODE = "sets up nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherKind:
    """A skipped kind, its count, its effect and the reason; kind "" is a document that is not an object."""

    kind: str
    count: int
    effect: Effect
    why: str


_HARMLESS_CORE = (
    "Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "List", "Lease", "PersistentVolume",
    "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount",
)  # fmt: skip
_HARMLESS_GROUPS = frozenset(
    {
        "rbac.authorization.k8s.io", "networking.k8s.io", "policy", "storage.k8s.io", "coordination.k8s.io",
        "discovery.k8s.io", "events.k8s.io", "certificates.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
        "authentication.k8s.io", "authorization.k8s.io", "flowcontrol.apiserver.k8s.io", "gateway.networking.k8s.io",
        "cert-manager.io", "acme.cert-manager.io", "external-secrets.io", "bitnami.com", "snapshot.storage.k8s.io",
        "metallb.io", "cilium.io", "crd.projectcalico.org", "projectcalico.org", "traefik.io", "traefik.containo.us",
        "networking.istio.io", "security.istio.io", "telemetry.istio.io", "route.openshift.io", "image.openshift.io",
        "security.openshift.io", "dashboard.grafana.com", "audit.k8s.io", "client.authentication.k8s.io",
        "source.toolkit.fluxcd.io", "notification.toolkit.fluxcd.io",
    }
)  # fmt: skip
_NO_EFFECT = Effect.NONE, ""
_WEBHOOK = Effect.CHANGES_PODS, "a webhook may set resources, priority, overhead and containers of new pods"
_POLICY = Effect.CHANGES_PODS, "a mutating rule may set resources, priority and containers of new pods"
_RENDER = Effect.CHANGES_PODS, "its patches may change any value: give its output (kubectl kustomize DIR)"
_INJECTS = Effect.CHANGES_PODS, "it adds containers to pods, with resources of their own"
_DEPLOYS = Effect.MAKES_PODS, "it deploys other manifests: give the rendered ones"
_MAKES = Effect.MAKES_PODS, "its controller creates pods, which are not planned: give these pods"
_SCALES = Effect.COUNTS_PODS, "it changes the number of replicas: --replicas says how many are on the node"
_CHECKS = Effect.REFUSES_PODS, "it may refuse pods that are planned, and changes no value"
_NODES = Effect.SETS_NODE, "it configures nodes and their kubelets: give the kubelet's configuration itself"
_CLAIMS = Effect.CHANGES_PODS, "resource claims are not modelled: the plan does not contain their resources"
_UNREAD = Effect.CHANGES_PODS, "this API version of the kind is not supported: its values are not in the plan"

_WHOLE_GROUPS: Mapping[str, tuple[Effect, str]] = {
    **dict.fromkeys(_HARMLESS_GROUPS, _NO_EFFECT),
    **dict.fromkeys(("kyverno.io", "policies.kyverno.io", "mutations.gatekeeper.sh"), _POLICY),
    **dict.fromkeys(("constraints.gatekeeper.sh", "templates.gatekeeper.sh"), _CHECKS),
    **dict.fromkeys(
        ("kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "helm.cattle.io", "fleet.cattle.io"), _DEPLOYS
    ),
    **dict.fromkeys(
        (
            "karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "machineconfiguration.openshift.io",
            "kubeadm.k8s.io", "node.eks.aws", "eksctl.io", "kops.k8s.io", "kind.x-k8s.io", "k3d.io",
            "machine.openshift.io", "cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "kubelet.config.k8s.io",
        ),
        _NODES,
    ),
    **dict.fromkeys(
        (
            "apps.kruise.io", "serving.knative.dev", "eventing.knative.dev", "kafka.strimzi.io", "tekton.dev",
            "batch.volcano.sh", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "kubeflow.org", "ray.io",
            "sparkoperator.k8s.io", "postgresql.cnpg.io", "acid.zalan.do", "k8s.mariadb.com", "mysql.oracle.com",
            "elasticsearch.k8s.elastic.co", "kibana.k8s.elastic.co", "rabbitmq.com", "redis.redis.opstreelabs.in",
            "kubevirt.io", "ceph.rook.io", "actions.github.com", "apps.openshift.io", "build.openshift.io",
            "camel.apache.org", "flink.apache.org", "minio.min.io", "operator.victoriametrics.com",
            "cassandra.datastax.com", "psmdb.percona.com", "pxc.percona.com", "install.istio.io",
            "operators.coreos.com", "operator.openshift.io", "operator.tigera.io", "etcd.database.coreos.com",
            "longhorn.io",
        ),
        _MAKES,
    ),
    "keda.sh": _SCALES,
    "resource.k8s.io": _CLAIMS,
    "scheduling.k8s.io": _UNREAD,
    "node.k8s.io": _UNREAD,
}  # fmt: skip

_KINDS: Mapping[tuple[str, str], tuple[Effect, str]] = {
    **{("", kind): _NO_EFFECT for kind in _HARMLESS_CORE},
    ("", "Node"): (Effect.SETS_NODE, "a Node describes a node: give it with --node"),
    ("apps", "ControllerRevision"): _NO_EFFECT,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOK,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _POLICY,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _CHECKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _CHECKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _CHECKS,
    ("apiserver.config.k8s.io", "AdmissionConfiguration"): (
        Effect.CHANGES_PODS,
        "it configures admission plugins: memqos assumes those that are on by default",
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): _SCALES,
    ("autoscaling.k8s.io", "VerticalPodAutoscalerCheckpoint"): _NO_EFFECT,
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"): _UNREAD,
    ("apps.kruise.io", "SidecarSet"): _INJECTS,
    ("argoproj.io", "AppProject"): _NO_EFFECT,
    ("argoproj.io", "Application"): _DEPLOYS,
    ("argoproj.io", "ApplicationSet"): _DEPLOYS,
    ("argoproj.io", "AnalysisTemplate"): _NO_EFFECT,
    ("keda.sh", "ScaledJob"): _MAKES,
    ("keda.sh", "TriggerAuthentication"): _NO_EFFECT,
    ("keda.sh", "ClusterTriggerAuthentication"): _NO_EFFECT,
    ("kubelet.config.k8s.io", "KubeletConfiguration"): (Effect.SETS_NODE, "give it with --kubelet-config"),
    ("kustomize.config.k8s.io", "Kustomization"): _RENDER,
    ("kustomize.config.k8s.io", "Component"): _RENDER,
    ("policy", "PodSecurityPolicy"): _CHECKS,
    ("monitoring.coreos.com", "ServiceMonitor"): _NO_EFFECT,
    ("monitoring.coreos.com", "PodMonitor"): _NO_EFFECT,
    ("monitoring.coreos.com", "Probe"): _NO_EFFECT,
    ("monitoring.coreos.com", "ScrapeConfig"): _NO_EFFECT,
    ("monitoring.coreos.com", "PrometheusRule"): _NO_EFFECT,
    ("monitoring.coreos.com", "AlertmanagerConfig"): _NO_EFFECT,
    ("opentelemetry.io", "Instrumentation"): _INJECTS,
    ("traefik.io", "IngressRoute"): _NO_EFFECT,
}

_MAKERS = frozenset({"argoproj.io", "monitoring.coreos.com", "opentelemetry.io"})
"""Groups whose other kinds make pods."""

_UNKNOWN = Effect.UNKNOWN, "memqos does not know it: it may make pods, or change their requests"
_NO_EFFECT = Effect.NONE, ""


def effect_of(kind: str, version: str) -> tuple[Effect, str]:
    """The effect of an object of this kind and API version on pods, and the reason.

    version "": unknown, as may be in a typed list: then the kind decides.
    """
    if not kind:
        return _NO_EFFECT
    kind = kind.partition(" of ")[0]
    group = version.rpartition("/")[0]
    if not version:
        found = [effect for (_, known), effect in _KINDS.items() if known == kind]
        return found[0] if found else _UNKNOWN
    own = _KINDS.get((group, kind)) or _WHOLE_GROUPS.get(group)
    return own or (_MAKES if group in _MAKERS else _UNKNOWN)


def other_kinds(counts: Mapping[tuple[str, str], int]) -> Iterable[OtherKind]:
    """The skipped kinds (with their API versions), in order of kind."""
    for (kind, version), count in sorted(counts.items()):
        effect, why = effect_of(kind, version)
        yield OtherKind(kind=kind, count=count, effect=effect, why=why)
