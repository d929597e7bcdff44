"""The fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) with their types, as data.

The union over the releases 1.22 to 1.37, and what is public of 1.38: a field that a release does not have yet is no
error here. The notation is that of `catalog.pod_fields`; a duration is a text such as "1m30s".
Source: Kubernetes API reference, kubelet.config.k8s.io/v1beta1.
"""

from __future__ import annotations

from collections.abc import Sequence

from memqos.catalog.schema import FieldPath, Fields, check
from memqos.catalog.yaml_nodes import MappingEntry, MappingNode, Node, ScalarNode, parse_documents
from memqos.errors import UsageError

__all__ = ["KUBELET_FIELDS", "overlaid"]

KUBELET_FIELDS = """
KubeletConfiguration: apiVersion string, kind string, metadata object,
  address string, allowedUnsafeSysctls []string, authentication Authentication, authorization Authorization,
  cgroupDriver string, cgroupRoot string, cgroupsPerQOS bool, clusterDNS []string, clusterDomain string,
  configMapAndSecretChangeDetectionStrategy string, containerLogMaxFiles int, containerLogMaxSize string,
  containerLogMaxWorkers int, containerLogMonitorInterval duration, containerRuntimeEndpoint string,
  contentType string, cpuCFSQuota bool, cpuCFSQuotaPeriod duration, cpuManagerPolicy string,
  cpuManagerPolicyOptions map[string], cpuManagerReconcilePeriod duration, crashLoopBackOff CrashLoopBackOff,
  defaultPodSysctls map[string], enableContentionProfiling bool, enableControllerAttachDetach bool,
  enableDebugFlagsHandler bool, enableDebuggingHandlers bool, enableProfilingHandler bool, enableServer bool,
  enableSystemLogHandler bool, enableSystemLogQuery bool, enforceNodeAllocatable []string, eventBurst int,
  eventRecordQPS int, evictionHard map[string], evictionMaxPodGracePeriod int, evictionMinimumReclaim map[string],
  evictionPressureTransitionPeriod duration, evictionSoft map[string], evictionSoftGracePeriod map[string],
  failCgroupV1 bool, failSwapOn bool, featureGates map[bool], fileCheckFrequency duration, hairpinMode string,
  healthzBindAddress string, healthzPort int, httpCheckFrequency duration, imageGCHighThresholdPercent int,
  imageGCLowThresholdPercent int, imageMaximumGCAge duration, imageMinimumGCAge duration,
  imagePullCredentialsVerificationPolicy string, imageServiceEndpoint string,
  iptablesDropBit int, iptablesMasqueradeBit int, kernelMemcgNotification bool, kubeAPIBurst int, kubeAPIQPS int,
  kubeReserved map[string], kubeReservedCgroup string, kubeletCgroups string,
  localStorageCapacityIsolation bool, logging object, makeIPTablesUtilChains bool, maxOpenFiles int,
  maxParallelImagePulls int, maxPods int, memoryManagerPolicy string,
  memoryManagerPolicyOptions map[string], memoryReservationPolicy string,
  memorySwap MemorySwap, memoryThrottlingFactor number, mergeDefaultEvictionSettings bool,
  nodeLeaseDurationSeconds int, nodeStatusMaxImages int, nodeStatusReportFrequency duration,
  nodeStatusUpdateFrequency duration, oomScoreAdj int, podCIDR string, podLogsDir string, podPidsLimit int,
  podsPerCore int, port int, preloadedImagesVerificationAllowlist []string, protectKernelDefaults bool,
  providerID string, qosReserved map[string], readOnlyPort int, registerNode bool, registerWithTaints []object,
  registryBurst int, registryPullQPS int, reservedMemory []MemoryReservation, reservedSystemCPUs string,
  resolvConf string, rotateCertificates bool, runOnce bool, runtimeRequestTimeout duration,
  seccompDefault bool, serializeImagePulls bool, serverTLSBootstrap bool, showHiddenMetricsForVersion string,
  shutdownGracePeriod duration, shutdownGracePeriodByPodPriority []ShutdownGracePeriod,
  shutdownGracePeriodCriticalPods duration, singleProcessOOMKill bool, staticPodPath string, staticPodURL string,
  staticPodURLHeader object, streamingConnectionIdleTimeout duration, syncFrequency duration, systemCgroups string,
  systemPartition object, systemReserved map[string], systemReservedCgroup string, tlsCertFile string,
  tlsCipherSuites []string,
  tlsCurvePreferences []any, tlsMinVersion string, tlsPrivateKeyFile string, topologyManagerPolicy string,
  topologyManagerPolicyOptions map[string], topologyManagerScope string, tracing object,
  userNamespaces UserNamespaces, volumePluginDir string, volumeStatsAggPeriod duration

Authentication: anonymous Switch, webhook WebhookAuthentication, x509 X509Authentication
Switch: enabled bool
WebhookAuthentication: cacheTTL duration, enabled bool
X509Authentication: clientCAFile string
Authorization: mode string, webhook WebhookAuthorization
WebhookAuthorization: cacheAuthorizedTTL duration, cacheUnauthorizedTTL duration
CrashLoopBackOff: maxContainerRestartPeriod duration
MemorySwap: swapBehavior string
MemoryReservation: limits map[quantity], numaNode int
ShutdownGracePeriod: priority int, shutdownGracePeriodSeconds int
UserNamespaces: idsPerPod int
"""


OPTION = "--set"
_TEXTS = frozenset({"string", "duration"})
_STEP = "Write key=value, such as --set memoryThrottlingFactor=0.8 or --set featureGates.MemoryQoS=true."


def overlaid(
    node: MappingNode, overrides: Sequence[str], fields: Fields, kind: str
) -> tuple[MappingNode, dict[str, str]]:
    """A configuration with fields replaced, one after the other, and where each of them comes from ("--set key").

    A key is dotted; below a map (featureGates, evictionHard, systemReserved …) all the rest is one key, dots included.
    A value is YAML; where the field is a text, it is taken as it stands. A null takes the field away.

    Raises UsageError for an override that is no key=value, ManifestError for an unknown field or a wrong type.
    """
    origin: dict[str, str] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"'{override[:80]}' is not key=value.", where=OPTION, next_step=_STEP)
        label = f"{OPTION} {key}"
        path, leaf = _path(key, fields, kind)
        value = _value(text, leaf, label)
        check(_nested(path, value), kind, fields, FieldPath(label))
        node = _merged(node, path, value)
        origin[".".join(path)] = label
    return node, origin


def _path(key: str, fields: Fields, kind: str) -> tuple[list[str], str]:
    """The names that a dotted key goes through, and the type at its end ("" for a field that does not exist)."""
    path: list[str] = []
    rest = key
    while rest:
        if kind.startswith("map["):
            return [*path, rest], kind[4:-1]
        name, _, rest = rest.partition(".")
        path.append(name)
        kind = fields.get(kind, {}).get(name, "")
    return path, kind


def _value(text: str, kind: str, label: str) -> Node:
    documents = parse_documents(text.encode(), label)
    if not documents:
        return ScalarNode("" if kind in _TEXTS and not text else None, text, 0)
    if len(documents) > 1:
        raise UsageError("the value is more than one YAML document.", where=label, next_step=_STEP)
    if isinstance(documents[0], ScalarNode) and kind in _TEXTS:
        return ScalarNode(documents[0].text, documents[0].text, 0)
    return documents[0]


def _nested(path: Sequence[str], value: Node) -> MappingNode:
    for name in reversed(path[1:]):
        value = MappingNode((MappingEntry(name, 0, value),), 0)
    return MappingNode((MappingEntry(path[0], 0, value),), 0)


def _merged(node: MappingNode, path: Sequence[str], value: Node) -> MappingNode:
    name, rest = path[0], path[1:]
    others = tuple(entry for entry in node.entries if entry.key != name)
    if rest:
        inner = node.get(name)
        value = _merged(inner if isinstance(inner, MappingNode) else MappingNode((), 0), rest, value)
    elif isinstance(value, ScalarNode) and value.value is None:
        return MappingNode(others, node.line)
    return MappingNode((*others, MappingEntry(name, 0, value)), node.line)
