"""What containerd or CRI-O with runc make of a container's CRI resources: the files of its cgroup.

Unified entries (cgroup v2) are written last and win over what the classic fields say. What "0" leaves unsaid stays
untouched. Sources: containerd `WithResources`, CRI-O container factory, runc fs2 and fs `setMemory`, `setCPU`;
differences between versions are in `model.traits`.
"""

from __future__ import annotations

from memqos.engine.container import ContainerRequest
from memqos.engine.control_files import cpu_limit
from memqos.engine.cpu import DEFAULT_PERIOD, shares_to_weight, systemd_quota
from memqos.engine.hugepages import cri_name
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason
from memqos.engine.release_table import Family, Novelty
from memqos.engine.ruling import Ruling
from memqos.model.knob import ABSENT, MAX, UNLIMITED, Bytes, Knob, KnobValue, Number
from memqos.model.node import CgroupDriver
from memqos.model.pod import Pod
from memqos.model.traits import WeightConversion

__all__ = ["container_rulings", "swap_max_of"]


def container_rulings(request: ContainerRequest, pod: Pod, kubelet: Kubelet) -> dict[Knob, Ruling]:
    """What is written into a container's cgroup."""
    sent = request.resources
    rulings: dict[Knob, Ruling] = {}
    if sent.memory_limit_in_bytes:
        rulings[kubelet.files.memory_limit] = _memory_limit(request, pod, kubelet)
    swap = _swap(request, kubelet)
    if swap is not None:
        rulings[Knob.MEMORY_SWAP_MAX if kubelet.v2 else Knob.MEMORY_MEMSW_LIMIT_IN_BYTES] = swap
    rulings[kubelet.files.cpu_share] = _weight(request, kubelet) if kubelet.v2 else _shares(request, kubelet)
    if sent.cpu_period or sent.cpu_quota:
        rulings |= _quota(request, kubelet)
    if kubelet.traits.hugetlb:
        rulings |= _hugetlb(request, kubelet)
    if Knob.MEMORY_OOM_GROUP in sent.unified:
        rulings[Knob.MEMORY_OOM_GROUP] = _oom_group(kubelet)
    if request.mems is not None:
        rulings[Knob.CPUSET_MEMS] = request.mems
    rulings.update(request.protection)
    return rulings


def _memory_limit(request: ContainerRequest, pod: Pod, kubelet: Kubelet) -> Ruling:
    count = request.resources.memory_limit_in_bytes

    def why() -> Reason:
        from_pod = request.memory_from_pod
        place = pod.origin.get("resources.limits.memory") if from_pod else request.container.origin.get("limits.memory")
        name = "pod-level limits.memory" if from_pod else "limits.memory"
        file = kubelet.files.memory_limit
        return Reason(
            rule=f"{file} is the pod-level memory limit, for a container without one of its own"
            if from_pod
            else f"{file} is the container's memory limit",
            revision=kubelet.revisions[Family.CONTAINER],
            source="kubelet calculateLinuxResources; CRI memory_limit_in_bytes",
            inputs=(Input(name, str(count), place or "given"),),
        )

    return Ruling(Bytes(count), why)


def swap_max_of(memory_swap: int, memory: int) -> KnobValue | None:
    """memory.swap.max from the OCI pair memory+swap and memory: the difference; None leaves the file untouched.

    -1 is "no limit" for either. ValueError for pairs that runc refuses.
    Source: opencontainers/cgroups `ConvertMemorySwapToCgroupV2Value` and fs2 `setMemory`.
    """
    if memory == -1 and memory_swap == 0:
        return MAX
    if memory_swap == -1:
        return MAX
    if memory_swap == 0:
        return None
    if memory == -1:
        return Bytes(memory_swap)
    if memory == 0:
        raise ValueError("unable to set swap limit without memory limit")
    if memory < 0 or memory_swap < 0:
        raise ValueError(f"invalid memory limit {memory} or memory+swap limit {memory_swap}")
    if memory_swap < memory:
        raise ValueError("memory+swap limit should be >= memory limit")
    return Bytes(memory_swap - memory)


def _swap(request: ContainerRequest, kubelet: Kubelet) -> Ruling | None:
    sent = request.resources
    if request.swap.swap_max:
        unified = request.swap.swap_max
        return Ruling(MAX if unified == "max" else Bytes(int(unified)), request.swap.why)
    if not kubelet.node.swap_controller:
        return None
    if not kubelet.v2:
        return _memsw(request, kubelet)
    if sent.memory_swap_limit_in_bytes:
        written = swap_max_of(sent.memory_swap_limit_in_bytes, sent.memory_limit_in_bytes)
        return None if written is None else Ruling(written, request.swap.why)
    follows = kubelet.traits.swap_follows_memory
    if not sent.memory_limit_in_bytes or follows is False:
        return None

    def why() -> Reason:
        return Reason(
            rule=_NO_SWAP if follows else f"{_NO_SWAP}; older versions leave swap alone",
            revision=kubelet.traits.name,
            source="containerd WithResources; CRI-O; runc ConvertMemorySwapToCgroupV2Value",
            arithmetic=f"{sent.memory_limit_in_bytes} - {sent.memory_limit_in_bytes} = 0",
            because=(request.swap.why(),),
        )

    return Ruling(Bytes(0), why, otherwise=ABSENT if follows is None else None)


_NO_SWAP = "a memory limit without a swap limit means no swap: the runtime sets memory+swap to the memory limit"


def _memsw(request: ContainerRequest, kubelet: Kubelet) -> Ruling | None:
    """memory.memsw.limit_in_bytes of cgroup v1: memory and swap together, as they are sent."""
    sent = request.resources
    if sent.memory_swap_limit_in_bytes:
        limit = sent.memory_swap_limit_in_bytes
        return Ruling(Bytes(limit) if limit > 0 else UNLIMITED, request.swap.why)
    follows = kubelet.traits.swap_follows_memory
    if not sent.memory_limit_in_bytes or follows is False:
        return None

    def why() -> Reason:
        return Reason(
            rule=_NO_SWAP if follows else f"{_NO_SWAP}; older versions leave swap alone",
            revision=kubelet.traits.name,
            source="containerd WithResources; CRI-O; runc fs setMemoryAndSwap",
            because=(request.swap.why(),),
        )

    return Ruling(Bytes(sent.memory_limit_in_bytes), why, otherwise=ABSENT if follows is None else None)


def _shares(request: ContainerRequest, kubelet: Kubelet) -> Ruling:
    shares = request.resources.cpu_shares

    def why() -> Reason:
        return Reason(
            rule="cpu.shares are what the kubelet asks for: 1024 per CPU, at least 2",
            revision=kubelet.revisions[Family.CPU],
            source="kubelet calculateLinuxResources; runc fs CpuGroup.Set",
            inputs=(Input("cpu_shares", str(shares), "CRI"),),
        )

    return Ruling(Number(shares), why)


def _weight(request: ContainerRequest, kubelet: Kubelet) -> Ruling:
    shares = request.resources.cpu_shares
    conversion = kubelet.traits.weight
    newer = Number(shares_to_weight(shares, conversion or WeightConversion.QUADRATIC))
    older = Number(shares_to_weight(shares, WeightConversion.LINEAR)) if conversion is None else None

    def why() -> Reason:
        images = conversion or "quadratic, in older versions the linear"
        return Reason(
            rule=f"cpu.weight is the {images} image of cpu.shares, by the runtime",
            revision=kubelet.traits.name,
            source="kubelet calculateLinuxResources; opencontainers/cgroups ConvertCPUSharesToCgroupV2Value",
            inputs=(Input("cpu_shares", str(shares), "CRI"),),
        )

    return Ruling(newer, why, otherwise=older)


def _quota(request: ContainerRequest, kubelet: Kubelet) -> dict[Knob, Ruling]:
    sent = request.resources
    quota, rounds = sent.cpu_quota, kubelet.driver is CgroupDriver.SYSTEMD and kubelet.traits.systemd_rounds_quota
    if rounds is not False:
        quota = systemd_quota(quota, sent.cpu_period or DEFAULT_PERIOD)

    def why() -> Reason:
        file = " and ".join(kubelet.files.cpu_limit)
        none = "cpu.max is max: no CPU limit" if kubelet.v2 else "no CPU limit: cpu.cfs_quota_us stays -1"
        return Reason(
            rule=f"{file} {'is' if kubelet.v2 else 'are'} the CPU limit as quota per period" if quota > 0 else none,
            revision=kubelet.revisions[Family.CONTAINER],
            source=f"kubelet milliCPUToQuota; runc {'fs2 setCPU' if kubelet.v2 else 'fs CpuGroup.Set'}",
            inputs=(Input("cpu_quota", str(sent.cpu_quota), "CRI"), Input("cpu_period", str(sent.cpu_period), "CRI")),
        )

    rulings = cpu_limit(kubelet.node.cgroup_version, quota, sent.cpu_period, why)
    if rounds is None:
        exact = cpu_limit(kubelet.node.cgroup_version, sent.cpu_quota, sent.cpu_period, why)
        return {knob: Ruling(ruling.written, why, otherwise=exact[knob].written) for knob, ruling in rulings.items()}
    return rulings


def _hugetlb(request: ContainerRequest, kubelet: Kubelet) -> dict[Knob, Ruling]:
    limits = dict(request.resources.hugepage_limits)

    def why() -> Reason:
        return Reason(
            rule="the runtime writes CRI hugepage_limits: the container's limits, 0 for sizes without one",
            revision=kubelet.revisions[Family.CONTAINER],
            source="kubelet GetHugepageLimitsFromResources",
        )

    return {
        knob: Ruling(Bytes(limits[cri_name(size)]), why)
        for size, knob in kubelet.files.huge_pages.items()
        if cri_name(size) in limits
    }


def _oom_group(kubelet: Kubelet) -> Ruling:
    def why() -> Reason:
        inputs: tuple[Input, ...] = ()
        if kubelet.release.has(Novelty.SINGLE_PROCESS_OOM_KILL):
            inputs = (kubelet.setting("singleProcessOOMKill", str(kubelet.single_process_oom_kill).lower()),)
        return Reason(
            rule="memory.oom.group is 1: an OOM kill takes the whole container",
            revision=kubelet.revisions[Family.CONTAINER],
            source="kubelet calculateLinuxResources",
            inputs=inputs,
        )

    return Ruling(Number(1), why)
