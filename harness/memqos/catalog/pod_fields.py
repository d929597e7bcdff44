"""The fields of a v1 Pod with their types, as data.

One type per block: its name, then `field type` pairs. Types: string, bool, int, quantity, intOrString, time, object
(any mapping), any; `[]T` is a list, `map[T]` a mapping from words to T; everything else names another block.
The union over the releases 1.22 to 1.37: a field that a release does not have yet is no error here.
Source: Kubernetes API reference, core/v1 and meta/v1.
"""

from __future__ import annotations

__all__ = ["POD_FIELDS"]

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
