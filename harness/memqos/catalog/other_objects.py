"""Objects that are passed over: why each does not matter to the memory of pods, or what it may change.

A kind that is not listed may do anything: it is named as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Effect", "OtherKind", "effect_of", "other_kinds"]


class Effect(StrEnum):
    """What an object that is not applied has to do with pods and their memory."""

    NONE = "none"
    CHANGES_PODS = "may change pods"
    MAKES_PODS = "may make pods"
    COUNTS_PODS = "may change how many pods there are"
    REFUSES_PODS = "may refuse pods"
    SETS_NODE = "sets up nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherKind:
    """A kind that was passed over, how often, its effect and why; kind "" is a document that is no object."""

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
_RENDER = Effect.CHANGES_PODS, "its patches may change any value: give what it renders (kubectl kustomize DIR)"
_INJECTS = Effect.CHANGES_PODS, "it adds containers to pods, with resources of their own"
_DEPLOYS = Effect.MAKES_PODS, "it deploys other manifests: give those that it renders"
_MAKES = Effect.MAKES_PODS, "its controller makes pods, which are not planned: give the pods that it made"
_SCALES = Effect.COUNTS_PODS, "it changes the number of replicas: --replicas says how many are on the node"
_CHECKS = Effect.REFUSES_PODS, "it may refuse pods that are planned, and changes no value"
_NODES = Effect.SETS_NODE, "it configures nodes and their kubelets: give the kubelet's configuration itself"
_CLAIMS = Effect.CHANGES_PODS, "resource claims are not modelled: the plan does not contain their resources"
_UNREAD = Effect.CHANGES_PODS, "this API version of the kind is not read: what it sets is not in the plan"

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
_NO_OBJECT = Effect.NONE, ""


def effect_of(kind: str, version: str) -> tuple[Effect, str]:
    """What an object of this kind and API version does to pods, and why that is so.

    version "": that of a kind in a typed list, which may not be known: then the kind alone decides.
    """
    if not kind:
        return _NO_OBJECT
    kind = kind.partition(" of ")[0]
    group = version.rpartition("/")[0]
    if not version:
        found = [effect for (_, known), effect in _KINDS.items() if known == kind]
        return found[0] if found else _UNKNOWN
    own = _KINDS.get((group, kind)) or _WHOLE_GROUPS.get(group)
    return own or (_MAKES if group in _MAKERS else _UNKNOWN)


def other_kinds(counts: Mapping[tuple[str, str], int]) -> Iterable[OtherKind]:
    """The kinds (with their API versions) that were passed over, in order of kind."""
    for (kind, version), count in sorted(counts.items()):
        effect, why = effect_of(kind, version)
        yield OtherKind(kind=kind, count=count, effect=effect, why=why)
