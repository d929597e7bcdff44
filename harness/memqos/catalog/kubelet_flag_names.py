"""The kubelet's command line flags by name: which field of the configuration each sets, and which bear on nothing here.

The union over the releases 1.22 to 1.37. Source: kubelet `options.AddFlags`, `options.AddKubeletConfigFlags`,
`options.AddGlobalFlags`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

__all__ = ["BOOLS", "FIELD_FLAGS", "NODE_FLAGS", "FlagKind"]


class FlagKind(Enum):
    """How a flag's value is written.

    MAP: a=b,c=d. BELOW: a<b,c<d. GATES: a MAP of true and false. PAIR: one a=b whose value may hold commas.
    MEMORY: 0:memory=1Gi. LIST: a,b.
    """

    BOOL = auto()
    INT = auto()
    TEXT = auto()
    LIST = auto()
    MAP = auto()
    BELOW = auto()
    GATES = auto()
    PAIR = auto()
    MEMORY = auto()


_BOOL, _INT, _TEXT, _LIST = FlagKind.BOOL, FlagKind.INT, FlagKind.TEXT, FlagKind.LIST

FIELD_FLAGS: Mapping[str, tuple[str, FlagKind]] = {
    "cgroup-driver": ("cgroupDriver", _TEXT),
    "cgroup-root": ("cgroupRoot", _TEXT),
    "cgroups-per-qos": ("cgroupsPerQOS", _BOOL),
    "cpu-cfs-quota": ("cpuCFSQuota", _BOOL),
    "cpu-cfs-quota-period": ("cpuCFSQuotaPeriod", _TEXT),
    "cpu-manager-policy": ("cpuManagerPolicy", _TEXT),
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", FlagKind.PAIR),
    "enforce-node-allocatable": ("enforceNodeAllocatable", _LIST),
    "eviction-hard": ("evictionHard", FlagKind.BELOW),
    "eviction-max-pod-grace-period": ("evictionMaxPodGracePeriod", _INT),
    "eviction-minimum-reclaim": ("evictionMinimumReclaim", FlagKind.MAP),
    "eviction-pressure-transition-period": ("evictionPressureTransitionPeriod", _TEXT),
    "eviction-soft": ("evictionSoft", FlagKind.BELOW),
    "eviction-soft-grace-period": ("evictionSoftGracePeriod", FlagKind.MAP),
    "fail-swap-on": ("failSwapOn", _BOOL),
    "feature-gates": ("featureGates", FlagKind.GATES),
    "kube-reserved": ("kubeReserved", FlagKind.MAP),
    "kube-reserved-cgroup": ("kubeReservedCgroup", _TEXT),
    "kubelet-cgroups": ("kubeletCgroups", _TEXT),
    "max-pods": ("maxPods", _INT),
    "memory-manager-policy": ("memoryManagerPolicy", _TEXT),
    "oom-score-adj": ("oomScoreAdj", _INT),
    "pod-manifest-path": ("staticPodPath", _TEXT),
    "pod-max-pids": ("podPidsLimit", _INT),
    "pods-per-core": ("podsPerCore", _INT),
    "protect-kernel-defaults": ("protectKernelDefaults", _BOOL),
    "qos-reserved": ("qosReserved", FlagKind.MAP),
    "reserved-cpus": ("reservedSystemCPUs", _TEXT),
    "reserved-memory": ("reservedMemory", FlagKind.MEMORY),
    "system-cgroups": ("systemCgroups", _TEXT),
    "system-reserved": ("systemReserved", FlagKind.MAP),
    "system-reserved-cgroup": ("systemReservedCgroup", _TEXT),
    "topology-manager-policy": ("topologyManagerPolicy", _TEXT),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", FlagKind.PAIR),
    "topology-manager-scope": ("topologyManagerScope", _TEXT),
}
"""Flags that set a field of the configuration which has to do with cgroups, memory or CPUs."""

_NO_THRESHOLD = (
    "hard eviction thresholds do not count in the node's allocatable with this flag, which memqos does not model: "
    "take evictionHard's memory.available as 0 with --set"
)
_OTHERS = """
address allowed-unsafe-sysctls authentication-token-webhook-cache-ttl authorization-mode
authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl bootstrap-kubeconfig
cadvisor-port cert-dir client-ca-file cloud-config cloud-provider cluster-dns cluster-domain cni-bin-dir
cni-cache-dir cni-conf-dir config config-dir container-hints container-log-max-files container-log-max-size
container-runtime container-runtime-endpoint containerd containerd-namespace cpu-manager-reconcile-period docker
docker-endpoint docker-env-metadata-whitelist docker-only docker-root docker-tls docker-tls-ca docker-tls-cert
docker-tls-key dockershim-checkpoint-dir dynamic-config-dir event-burst event-qps event-storage-age-limit
event-storage-event-limit experimental-bootstrap-kubeconfig experimental-mounter-path file-check-frequency
global-housekeeping-interval hairpin-mode healthz-bind-address healthz-port hostname-override
housekeeping-interval http-check-frequency image-credential-provider-bin-dir image-credential-provider-config
image-gc-high-threshold image-gc-low-threshold image-pull-progress-deadline image-service-endpoint
iptables-drop-bit iptables-masquerade-bit kube-api-burst kube-api-content-type kube-api-qps kubeconfig
lock-file log-backtrace-at log-cadvisor-usage log-dir log-file log-file-max-size log-flush-frequency
log-json-info-buffer-size log-text-info-buffer-size logging-format machine-id-file manifest-url
manifest-url-header master-service-namespace max-open-files maximum-dead-containers
maximum-dead-containers-per-container minimum-container-ttl-duration minimum-image-ttl-duration network-plugin
network-plugin-mtu node-ip node-labels node-status-max-images node-status-update-frequency non-masquerade-cidr
pod-cidr pod-infra-container-image port profiling provider-id read-only-port register-schedulable
register-with-taints registry-burst registry-qps resolv-conf root-dir runtime-cgroups runtime-request-timeout
seccomp-profile-root stderrthreshold storage-driver-buffer-duration storage-driver-db storage-driver-host
storage-driver-password storage-driver-table storage-driver-user streaming-connection-idle-timeout sync-frequency
tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file v vmodule volume-plugin-dir
volume-stats-agg-period application-metrics-count-limit boot-id-file update-machine-info-interval
"""
_OTHER_BOOLS = """
add-dir-header alsologtostderr anonymous-auth authentication-token-webhook
boot-id-file contention-profiling enable-cadvisor-json-endpoints enable-controller-attach-detach
enable-debugging-handlers enable-load-reader enable-server exit-on-lock-contention help
keep-terminated-pod-volumes kernel-memcg-notification experimental-kernel-memcg-notification
local-storage-capacity-isolation log-text-split-stream logtostderr make-iptables-util-chains
one-output really-crash-for-testing redirect-container-streaming register-node rotate-certificates
rotate-server-certificates runonce seccomp-default serialize-image-pulls skip-headers skip-log-headers
storage-driver-secure version
"""

NODE_FLAGS: Mapping[str, str] = {
    **dict.fromkeys((*_OTHERS.split(), *_OTHER_BOOLS.split()), ""),
    "experimental-allocatable-ignore-eviction": _NO_THRESHOLD,
}
"""Flags that set nothing the rules read, and what to say of one; "" for nothing."""

BOOLS = frozenset(
    {
        *_OTHER_BOOLS.split(),
        "experimental-allocatable-ignore-eviction",
        *(name for name, (_, kind) in FIELD_FLAGS.items() if kind is FlagKind.BOOL),
    }
)
"""Flags that take no further word as their value."""
