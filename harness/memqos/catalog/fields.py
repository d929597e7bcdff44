"""The fields of a v1 Pod with their types, as data.

One type per block: its name, then `field type` pairs. Types: string, bool, int, quantity, intOrString, time, object
(any mapping), any; `[]T` is a list, `map[T]` a mapping from words to T; everything else names another block.
The union over the releases 1.22 to 1.37: a field that a release does not have yet is not an error here.
Source: Kubernetes API reference, core/v1 and meta/v1.

The fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) with their types, as data.

The union over the releases 1.22 to 1.37 and the public texts of 1.38: a field that a release does not have yet is not
an error here. The notation is that of `catalog.fields`; a duration is a text such as "1m30s".
Source: Kubernetes API reference, kubelet.config.k8s.io/v1beta1.
"""

from __future__ import annotations

from collections.abc import Sequence

from memqos.catalog.schema import FieldPath, Fields, check
from memqos.catalog.yaml_nodes import MappingEntry, MappingNode, Node, ScalarNode, parse_documents
from memqos.errors import UsageError

__all__ = ["KUBELET_FIELDS", "POD_FIELDS", "overlaid"]

POD_FIELDS = """
Pod: apiVersion string, kind string, metadata ObjectMeta, spec PodSpec, status any

PodList: apiVersion string, kind string, metadata object, items []Pod

ObjectMeta: annotations map[string], creationTimestamp time, deletionGracePeriodSeconds int, deletionTimestamp time,
  finalizers []string, generateName string, generation int, labels map[string], managedFields []any, name string,
  namespace string, ownerReferences []OwnerReference, resourceVersion string, selfLink string, uid string

OwnerReference: apiVersion string, blockOwnerDeletion bool, controller bool, kind string, name string, uid string

PodSpec: activeDeadlineSeconds int, affinity Affinity, automountServiceAccountToken bool, containers []Container,
  dnsConfig PodDNSConfig, dnsPolicy string, enableServiceLinks bool, ephemeralContainers []Container,
  evictionResponders []object,
  hostAliases []HostAlias, hostIPC bool, hostNetwork bool, hostPID bool, hostUsers bool, hostname string,
  hostnameOverride string, imagePullSecrets []LocalObjectReference, initContainers []Container, nodeName string,
  nodeSelector map[string], os PodOS, overhead map[quantity], preemptionPolicy string, priority int,
  priorityClassName string, readinessGates []PodReadinessGate, resourceClaims []PodResourceClaim,
  resources ResourceRequirements, restartPolicy string, runtimeClassName string, schedulerName string,
  schedulingGates []PodSchedulingGate, schedulingGroup PodSchedulingGroup, securityContext PodSecurityContext,
  serviceAccount string, serviceAccountName string, setHostnameAsFQDN bool, shareProcessNamespace bool,
  subdomain string, terminationGracePeriodSeconds int, tolerations []Toleration,
  topologySpreadConstraints []TopologySpreadConstraint, volumes []Volume, workloadRef WorkloadReference

Container: args []string, command []string, env []EnvVar, envFrom []EnvFromSource, image string,
  imagePullPolicy string, lifecycle Lifecycle, livenessProbe Probe, name string, ports []ContainerPort,
  readinessProbe Probe, resizePolicy []ContainerResizePolicy, resources ResourceRequirements, restartPolicy string,
  restartPolicyRules []ContainerRestartRule, securityContext SecurityContext, startupProbe Probe, stdin bool,
  stdinOnce bool, targetContainerName string, terminationMessagePath string, terminationMessagePolicy string, tty bool,
  volumeDevices []VolumeDevice, volumeMounts []VolumeMount, workingDir string

ResourceRequirements: claims []ResourceClaim, limits map[quantity], requests map[quantity]
ResourceClaim: name string, request string
ContainerResizePolicy: resourceName string, restartPolicy string
ContainerRestartRule: action string, exitCodes ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator string, values []int
ContainerPort: containerPort int, hostIP string, hostPort int, name string, protocol string
EnvVar: name string, value string, valueFrom EnvVarSource
EnvVarSource: configMapKeyRef KeySelector, fieldRef ObjectFieldSelector, fileKeyRef FileKeySelector,
  resourceFieldRef ResourceFieldSelector, secretKeyRef KeySelector
KeySelector: key string, name string, optional bool
FileKeySelector: key string, optional bool, path string, volumeName string
ObjectFieldSelector: apiVersion string, fieldPath string
ResourceFieldSelector: containerName string, divisor quantity, resource string
EnvFromSource: configMapRef NamedReference, prefix string, secretRef NamedReference
NamedReference: name string, optional bool
LocalObjectReference: name string
TypedLocalObjectReference: apiGroup string, kind string, name string
TypedObjectReference: apiGroup string, kind string, name string, namespace string
Lifecycle: postStart LifecycleHandler, preStop LifecycleHandler, stopSignal string
LifecycleHandler: exec ExecAction, httpGet HTTPGetAction, sleep SleepAction, tcpSocket TCPSocketAction
SleepAction: seconds int
ExecAction: command []string
HTTPGetAction: host string, httpHeaders []HTTPHeader, path string, port intOrString, protocol string,
  scheme string
HTTPHeader: name string, value string
TCPSocketAction: host string, port intOrString
GRPCAction: mode string, port int, service string
Probe: exec ExecAction, failureThreshold int, grpc GRPCAction, httpGet HTTPGetAction, initialDelaySeconds int,
  periodSeconds int, successThreshold int, tcpSocket TCPSocketAction, terminationGracePeriodSeconds int,
  timeoutSeconds int
SecurityContext: allowPrivilegeEscalation bool, appArmorProfile SecurityProfile, capabilities Capabilities,
  privileged bool, procMount string, readOnlyRootFilesystem bool, runAsGroup int, runAsNonRoot bool, runAsUser int,
  seLinuxOptions SELinuxOptions, seccompProfile SecurityProfile, windowsOptions WindowsOptions
Capabilities: add []string, drop []string
SecurityProfile: localhostProfile string, type string
SELinuxOptions: level string, role string, type string, user string
WindowsOptions: gmsaCredentialSpec string, gmsaCredentialSpecName string, hostProcess bool, runAsUserName string
VolumeDevice: devicePath string, name string
VolumeMount: bindMountOptions []string, mountPath string, mountPropagation string, name string, readOnly bool,
  recursiveReadOnly string, subPath string, subPathExpr string

PodSecurityContext: appArmorProfile SecurityProfile, fsGroup int, fsGroupChangePolicy string, runAsGroup int,
  runAsNonRoot bool, runAsUser int, seLinuxChangePolicy string, seLinuxOptions SELinuxOptions,
  seccompProfile SecurityProfile, supplementalGroups []int, supplementalGroupsPolicy string, sysctls []Sysctl,
  windowsOptions WindowsOptions
Sysctl: name string, value string
PodDNSConfig: nameservers []string, options []PodDNSConfigOption, searches []string
PodDNSConfigOption: name string, value string
HostAlias: hostnames []string, ip string
PodOS: name string
PodReadinessGate: conditionType string
PodResourceClaim: name string, resourceClaimName string, resourceClaimTemplateName string
PodSchedulingGate: name string
PodSchedulingGroup: podGroupName string
WorkloadReference: name string, podGroup string, podGroupReplicaKey string
Toleration: effect string, key string, operator string, tolerationSeconds int, value string
TopologySpreadConstraint: labelSelector LabelSelector, matchLabelKeys []string, maxSkew int, minDomains int,
  nodeAffinityPolicy string, nodeTaintsPolicy string, topologyKey string, whenUnsatisfiable string
LabelSelector: matchExpressions []SelectorRequirement, matchLabels map[string]
SelectorRequirement: key string, operator string, values []string

Affinity: nodeAffinity NodeAffinity, podAffinity PodAffinity, podAntiAffinity PodAffinity
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm,
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector
NodeSelector: nodeSelectorTerms []NodeSelectorTerm
NodeSelectorTerm: matchExpressions []SelectorRequirement, matchFields []SelectorRequirement
PreferredSchedulingTerm: preference NodeSelectorTerm, weight int
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm,
  requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm
PodAffinityTerm: labelSelector LabelSelector, matchLabelKeys []string, mismatchLabelKeys []string,
  namespaceSelector LabelSelector, namespaces []string, topologyKey string
WeightedPodAffinityTerm: podAffinityTerm PodAffinityTerm, weight int

Volume: awsElasticBlockStore object, azureDisk object, azureFile object, cephfs object, cinder object,
  configMap ConfigMapVolumeSource, csi object, downwardAPI DownwardAPIVolumeSource, emptyDir EmptyDirVolumeSource,
  ephemeral object, fc object, flexVolume object, flocker object, gcePersistentDisk object, gitRepo object,
  glusterfs object, hostPath HostPathVolumeSource, image ImageVolumeSource, iscsi object, name string,
  nfs NFSVolumeSource, persistentVolumeClaim PersistentVolumeClaimVolumeSource, photonPersistentDisk object,
  portworxVolume object, projected ProjectedVolumeSource, quobyte object, rbd object, scaleIO object,
  secret SecretVolumeSource, storageos object, vsphereVolume object
ConfigMapVolumeSource: defaultMode int, defaultUser int, items []KeyToPath, name string, optional bool
KeyToPath: key string, mode int, path string, user int
DownwardAPIVolumeSource: defaultMode int, defaultUser int, items []DownwardAPIVolumeFile
DownwardAPIVolumeFile: fieldRef ObjectFieldSelector, mode int, path string, resourceFieldRef ResourceFieldSelector,
  user int
EmptyDirVolumeSource: medium string, mode int, sizeLimit quantity
HostPathVolumeSource: path string, type string
ImageVolumeSource: pullPolicy string, reference string
NFSVolumeSource: path string, readOnly bool, server string
PersistentVolumeClaimVolumeSource: claimName string, readOnly bool
ProjectedVolumeSource: defaultMode int, defaultUser int, sources []object
SecretVolumeSource: defaultMode int, defaultUser int, items []KeyToPath, optional bool, secretName string
"""


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
    """A configuration with fields replaced, one after the other, and the origin of each ("--set key").

    A key is dotted; below a map (featureGates, evictionHard, systemReserved …) the rest is one key, dots included. A
    value is YAML; for a text field it is used unchanged. A null removes the field.

    Raises UsageError for an override that is not key=value, ManifestError for an unknown field or a wrong type.
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
    """The names in a dotted key, and the type of its field ("" if it does not exist)."""
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
