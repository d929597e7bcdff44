"""A node for the rules: facts about the machine, and the kubelet's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from memqos.model.pod import ResourceList

__all__ = [
    "CgroupDriver",
    "CgroupVersion",
    "KubeletSettings",
    "NodeFacts",
    "NumaNode",
    "ReservationPolicy",
    "RuntimeFlavour",
    "SettingsNote",
    "SwapBehavior",
]


class CgroupDriver(StrEnum):
    """The cgroup driver: the kubelet itself, or systemd on its behalf; spelled as in KubeletConfiguration."""

    SYSTEMD = "systemd"
    CGROUPFS = "cgroupfs"


class CgroupVersion(StrEnum):
    """The cgroup hierarchy that the node mounts."""

    V1 = "v1"
    V2 = "v2"


class ReservationPolicy(StrEnum):
    """`memoryReservationPolicy` (1.36+)."""

    NONE = "None"
    TIERED = "TieredReservation"


class SwapBehavior(StrEnum):
    """`memorySwap.swapBehavior`; a release's revision decides which strings it accepts, and the meaning of ""."""

    UNSET = ""
    NO_SWAP = "NoSwap"
    LIMITED = "LimitedSwap"
    UNLIMITED = "UnlimitedSwap"
    WORKLOAD = "WorkloadControlledSwap"


class RuntimeFlavour(StrEnum):
    """The program that names the container's cgroup: a daemon, or memqos in its bundles for an OCI runtime."""

    CONTAINERD = "containerd"
    CRIO = "cri-o"
    DOCKER = "docker"
    PODMAN = "podman"
    BUNDLES = "bundles"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """One NUMA node: memory in bytes (0 for a node of CPUs only), CPUs, distance to every NUMA node by id order."""

    id: int
    memory: int
    cpus: tuple[int, ...] = ()
    distances: tuple[int, ...] = ()
    hugepages: Mapping[int, int] = field(default_factory=dict)
    """Huge page size in bytes to the number of pages set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Facts about the machine.

    memory, swap: MemTotal and SwapTotal in bytes; swap 0 means none.
    cpus: number of CPUs (the capacity is 1000 milli each).
    page_size: bytes of a base page; hugepage_sizes: bytes of each of the kernel's huge page sizes. swap_controller:
    whether memory.swap.max (cgroup v1: memory.memsw.limit_in_bytes) exists for the kubelet.
    pids: the most processes and threads: the lower of kernel.pid_max and kernel.threads-max (kubelets up to 1.24 use
    only kernel.pid_max); None if unknown. swappiness: vm.swappiness, 0 to 200, inherited by new cgroups of cgroup v1.
    kubelet, runtime: the versions in a Node object ("v1.34.7", "containerd://2.1.4"), "" if unknown. allocatable:
    status.allocatable of a Node object, None if unknown. user_namespace: whether the kubelet runs in a user namespace
    by its Node object (KEP-2033).
    """

    memory: int
    swap: int = 0
    cpus: int = 1
    page_size: int = 4096
    numa_nodes: tuple[NumaNode, ...] = ()
    hugepage_sizes: tuple[int, ...] = (2 << 20, 1 << 30)
    cgroup_version: CgroupVersion = CgroupVersion.V2
    swap_controller: bool = True
    pids: int | None = None
    swappiness: int = 60
    kernel: str = ""
    kubelet: str = field(default="", compare=False)
    runtime: str = field(default="", compare=False)
    allocatable: ResourceList | None = field(default=None, compare=False)
    user_namespace: bool = field(default=False, compare=False)
    origin: str = field(default="node", compare=False)


@dataclass(frozen=True, slots=True)
class SettingsNote:
    """A field or flag of a configuration that the rules do not use: its place, and its possible effect."""

    field: str
    origin: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """The fields of a KubeletConfiguration that the rules use; None is a missing field.

    throttling_factor is the exact decimal of the file. It becomes a float only where the kubelet uses one. effective:
    whether these are a running kubelet's settings (/configz), including defaults, drop-ins and flags. kubernetes: the
    release in kubeadm's ClusterConfiguration of the same file ("v1.34.0"), "" for none. drop_ins: the files merged onto
    the first, as with --config-dir. origin: field name as in the file to its place ("kubelet.yaml:7"), for reason
    chains. notes: given fields that are not used.
    """

    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    cgroup_driver: CgroupDriver | None = None
    cgroup_root: str = ""
    cgroups_per_qos: bool | None = None
    cpu_cfs_quota: bool | None = None
    cpu_cfs_quota_period_us: int | None = None
    cpu_manager_policy: str | None = None
    enforce_node_allocatable: tuple[str, ...] | None = None
    eviction_hard: Mapping[str, str] | None = None
    fail_cgroup_v1: bool | None = None
    fail_swap_on: bool | None = None
    kube_reserved: ResourceList | None = None
    kube_reserved_cgroup: str = ""
    system_reserved: ResourceList | None = None
    system_reserved_cgroup: str = ""
    memory_manager_policy: str | None = None
    memory_reservation_policy: ReservationPolicy | None = None
    pod_pids_limit: int | None = None
    qos_reserved: Mapping[str, int] | None = None
    reserved_memory: tuple[tuple[int, ResourceList], ...] | None = None
    single_process_oom_kill: bool | None = None
    swap_behavior: SwapBehavior | None = None
    throttling_factor: Fraction | None = None
    topology_manager_policy: str | None = None
    topology_manager_scope: str | None = None
    topology_manager_policy_options: Mapping[str, str] | None = None
    effective: bool = False
    kubernetes: str = field(default="", compare=False)
    drop_ins: tuple[str, ...] = field(default=(), compare=False)
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)
    notes: tuple[SettingsNote, ...] = field(default=(), compare=False)
