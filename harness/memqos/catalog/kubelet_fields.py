"""The fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) with their types, as data.

The union over the releases 1.22 to 1.37, and what is public of 1.38: a field that a release does not have yet is no
error here. The notation is that of `catalog.pod_fields`; a duration is a text such as "1m30s".
Source: Kubernetes API reference, kubelet.config.k8s.io/v1beta1.
"""

from __future__ import annotations

__all__ = ["KUBELET_FIELDS"]

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
