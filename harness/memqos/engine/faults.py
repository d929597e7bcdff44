"""Known faults of released runtimes, kernels and kubelets: one row for each fault, by name.

vm/known.toml lists the claims and files that show a fault; the reference page of known deviations lists both. If a
fault has the range of a missing feature, the range comes from the table of features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memqos.engine.translate.versions import FEATURES, Feature, RuntimeName

__all__ = ["FAULTS", "FOUND", "KUBELET", "LINUX", "YOUKI", "Fault"]

KUBELET = "kubelet"
"""The kubelet's name in lists of known deviations; its versions are Kubernetes releases."""

LINUX = "linux"
"""The kernel's name in lists of known deviations."""

YOUKI = "youki"
"""youki's name in lists of known deviations. It is not modelled: its faults are those against the specification."""

FOUND = "found by memqos: docs/explanation/found.md"
"""The `upstream` of a fault without an upstream report."""

_SCOPE_OOM_POLICY = FEATURES[RuntimeName.RUNC][Feature.OOM_GROUP_IS_OOM_POLICY].upstream
_SCOPE_NO_SWAP = "opencontainers/cgroups#74, moby#51446"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a program.

    runtime: a CRI or OCI runtime's own name, `LINUX` or `KUBELET`. since, fixed: the first release with the fault, and
    the first without it; "" for the very first release, and for no fix yet. upstream: as in
    `memqos.engine.translate.versions.Row`, or `FOUND`.
    """

    runtime: str
    sentence: str
    upstream: str = FOUND
    since: str = ""
    fixed: str = ""


def _before(runtime: RuntimeName, feature: Feature) -> Fault:
    """The fault of the versions that lack a feature."""
    row = FEATURES[runtime][feature]
    return Fault(runtime=runtime, sentence=row.before, upstream=row.upstream, fixed=row.release)


def _release(runtime: RuntimeName, feature: Feature) -> str:
    """The first release with a feature."""
    return FEATURES[runtime][feature].release


_RUNC = {
    "runc/no-swap-is-lost-in-a-daemon-reload": Fault(
        runtime=RuntimeName.RUNC,
        sentence="If a memory-plus-swap limit means no swap, runc does not set MemorySwapMax=0 on the scope, so a "
        "daemon-reload removes the swap limit; with systemd 257 only after another container of the pod was removed.",
        upstream=_SCOPE_NO_SWAP,
    ),
    "runc/no-swap-is-lost-in-an-update": Fault(
        runtime=RuntimeName.RUNC,
        fixed=_release(RuntimeName.RUNC, Feature.UPDATE_KEEPS_MEMORY),
        sentence="For a container without swap runc does not set MemorySwapMax=0 on the scope, so systemd removes the "
        "swap limit in an update of the memory limit alone; seen with 1.1.15.",
        upstream=_SCOPE_NO_SWAP,
    ),
    "runc/oom-group-is-lost-in-a-daemon-reload": Fault(
        runtime=RuntimeName.RUNC,
        fixed=_release(RuntimeName.RUNC, Feature.OOM_GROUP_IS_OOM_POLICY),
        sentence="runc does not set OOMPolicy on the scope for memory.oom.group, so newer versions of systemd reset "
        "the file in a daemon-reload; seen with 1.3.6, and with 1.1.15 and systemd 257 after another container of the "
        "pod was removed.",
        upstream=_SCOPE_OOM_POLICY,
    ),
    "runc/oom-group-is-lost-in-an-update": Fault(
        runtime=RuntimeName.RUNC,
        fixed=_release(RuntimeName.RUNC, Feature.OOM_GROUP_IS_OOM_POLICY),
        sentence="runc does not set OOMPolicy on the scope for memory.oom.group, so systemd resets the file in an "
        "update that sets a property of the scope, and runc writes only the unified entries that the update names; "
        "seen with 1.1.15 and 1.3.6.",
        upstream=_SCOPE_OOM_POLICY,
    ),
    "runc/oom-group-is-lost-in-an-empty-update": Fault(
        runtime=RuntimeName.RUNC,
        since=_release(RuntimeName.RUNC, Feature.UPDATE_KEEPS_MEMORY),
        fixed=_release(RuntimeName.RUNC, Feature.OOM_GROUP_IS_OOM_POLICY),
        sentence="An empty update sets the memory limits again, and systemd then resets memory.oom.group; seen with "
        "1.3.6.",
        upstream=_SCOPE_OOM_POLICY,
    ),
    "runc/oom-group-is-lost-in-a-refused-update": Fault(
        runtime=RuntimeName.RUNC,
        since="1.1",
        fixed="1.2",
        sentence="An update that is rejected for an unknown key may leave memory.oom.group at 0; seen with 1.1.15.",
    ),
    "runc/update-below-use-kills-and-fails": Fault(
        runtime=RuntimeName.RUNC,
        sentence="An update to a limit below the usage sets the limit, which kills the container, and then returns an "
        "error; seen with 1.1.15.",
    ),
}

_CRUN = {
    "crun/refused-container-leaves-its-cgroup": Fault(
        runtime=RuntimeName.CRUN,
        sentence="If setting up a container's cgroup fails, crun leaves the empty cgroup behind; seen with 1.21 and "
        "1.28.",
        upstream="containers/crun#2242, merged after 1.29.1",
    ),
    "crun/refused-score-leaves-a-cgroup": Fault(
        runtime=RuntimeName.CRUN,
        sentence="If a container is rejected for its oom_score_adj, crun leaves its empty cgroup behind; seen with "
        "1.21 and 1.28.",
    ),
    "crun/scope-limits-unlimited-swap": Fault(
        runtime=RuntimeName.CRUN,
        since=_release(RuntimeName.CRUN, Feature.SCOPE_HAS_PROTECTION),
        sentence="crun sets MemorySwapMax of the scope above a container to the memory-plus-swap limit and ignores "
        "memory.swap.max of unified: a program that may swap without limit is killed when its swap reaches the memory "
        "limit; seen with 1.28, also below CRI-O 1.32.13 and 1.36.3.",
    ),
    "crun/scope-keeps-the-memory-limit": Fault(
        runtime=RuntimeName.CRUN,
        since=_release(RuntimeName.CRUN, Feature.SCOPE_HAS_MEMORY_MAX),
        sentence="crun sets MemoryMax of the scope above a container to the memory limit and ignores memory.max of "
        "unified: a container whose own memory.max is larger, or max, is killed at the memory limit; seen with 1.21.",
    ),
    "crun/scope-is-limited-before-the-check": Fault(
        runtime=RuntimeName.CRUN,
        since=_release(RuntimeName.CRUN, Feature.SCOPE_HAS_MEMORY_MAX),
        sentence="An update with checkBeforeUpdate sets MemoryMax of the scope before the check: that kills the "
        "container (seen with 1.21), or the limit stays although the update is rejected (seen with 1.28).",
    ),
    "crun/scope-is-protected-before-the-refusal": Fault(
        runtime=RuntimeName.CRUN,
        since=_release(RuntimeName.CRUN, Feature.SCOPE_HAS_PROTECTION),
        sentence="An update of unified sets the scope's properties first, and they stay if the kernel then rejects the "
        "value; seen with 1.21 and 1.28.",
    ),
    "crun/exec-has-no-score": Fault(
        runtime=RuntimeName.CRUN,
        sentence="A program started by exec keeps the oom_score_adj of the runtime's daemon, so the kernel kills the "
        "container's own program before it; seen with 1.21 and 1.28.",
    ),
    "crun/update-below-use-kills-and-fails": Fault(
        runtime=RuntimeName.CRUN,
        sentence="An update to a limit below the usage sets the limit, which kills the container, and then returns an "
        "error; seen with 1.21.",
    ),
}

_RUNSC = {
    "runsc/scope-hides-refusals-of-the-kernel": Fault(
        runtime=RuntimeName.RUNSC,
        sentence="With the systemd driver runsc only sets properties of the scope, and systemd does not report which "
        "of them the kernel rejects; seen with 20240729.",
    ),
}

_CONTAINERD = {
    "containerd/oom-event-comes-after-the-exit": Fault(
        runtime=RuntimeName.CONTAINERD,
        sentence="The shim reports an OOM kill independently of the process's exit: if the exit is reported first, or "
        "the cgroup has been removed by then, the reason is Error; seen twice with 1.7.24.",
        upstream="containerd#8893, containerd#12714",
    ),
}

_CRIO = {
    "cri-o/update-drops-unified": _before(RuntimeName.CRIO, Feature.UPDATE_KEEPS_UNIFIED),
    "cri-o/update-resets-oom-group": Fault(
        runtime=RuntimeName.CRIO,
        sentence="CRI-O passes only the update to runc, without the unified entries of creation, so runc does not "
        "write memory.oom.group again after systemd has reset it; seen with 1.32.13 and 1.36.3.",
    ),
    "cri-o/update-reads-no-swap-limit": Fault(
        runtime=RuntimeName.CRIO,
        sentence="UpdateContainerResources ignores the swap limit and sets memory plus swap to the memory limit; seen "
        "with 1.32.13 and 1.36.3.",
    ),
    "cri-o/update-lifts-no-memory-limit": Fault(
        runtime=RuntimeName.CRIO,
        since="1.33.4",
        sentence="CRI-O rejects a memory limit of -1 (unlimited) as negative and leaves out zero, so no update "
        "removes a limit; seen with 1.36.3.",
    ),
    "cri-o/refused-container-leaves-a-cgroup-of-conmon": Fault(
        runtime=RuntimeName.CRIO,
        sentence="If the OCI runtime rejects a container, CRI-O leaves the cgroup of its conmon behind; seen with "
        "1.32.13 and runc.",
    ),
    "cri-o/swap-without-memory-is-ignored": Fault(
        runtime=RuntimeName.CRIO,
        sentence="CRI-O drops a memory-plus-swap limit without a memory limit; seen with 1.32.13 and 1.36.3.",
    ),
    "cri-o/oom-kill-is-an-error": Fault(
        runtime=RuntimeName.CRIO,
        sentence="conmon may miss an OOM kill, because the cgroup with its memory.events is removed first; seen with "
        "1.32.13 and conmon 2.1.12.",
        upstream="cri-o#4382, cri-o#6580, cri-o#6973",
    ),
}

_DOCKER = {
    "docker/least-memory-may-not-start": Fault(
        runtime=RuntimeName.DOCKER,
        sentence="With the smallest accepted limit, runc's init process may run out of memory if its heap gets huge "
        "pages; seen with 1.1.15.",
    ),
}

_LINUX = {
    "linux/mglru-kills-where-all-is-dirty": Fault(
        runtime=LINUX,
        since="6.12.95",
        fixed="6.12.107",
        sentence="If all page cache is dirty, reclaim with MGLRU wakes no flusher, and the program is killed; seen "
        "with 6.12.95.",
    ),
    "linux/oom-kills-beside-a-victim-that-exits": Fault(
        runtime=LINUX,
        since="7.2.12",
        sentence="The OOM killer of a cgroup no longer sees a victim that has begun to exit, and kills another program "
        "although the first is about to free its memory; seen with 7.2.12.",
    ),
    "linux/kills-though-copies-are-in-swap": Fault(
        runtime=LINUX,
        since="7.2.12",
        sentence="At memory.max with memory.swap.max used up, the kernel does not free memory that already has a copy "
        "in swap, and kills the program; seen with 7.2.12.",
    ),
}

_KUBELET = {
    "kubelet/restart-removes-protection-above-pods": Fault(
        runtime=KUBELET,
        since="1.36",
        sentence="A kubelet that starts writes memory.min of kubepods and memory.low of the Burstable class before it "
        "has received any pod, so that both are 0 until the next new pod or the next minute; seen on 1.36.2.",
    ),
    "kubelet/resize-passes-over-stopped-containers": Fault(
        runtime=KUBELET,
        since="1.27",
        sentence="A resize skips containers that do not run: the kubelet recreates them with the new size, but the "
        "pod's cgroup keeps the old one. Seen on 1.34.7 (kubernetes/autoscaler#9829) and 1.36.2; a backport of the fix "
        "to 1.34 was announced, but no release with it has been seen.",
        upstream="kubernetes#138760",
    ),
    "kubelet/resize-leaves-pod-protection": Fault(
        runtime=KUBELET,
        since="1.27",
        fixed="1.37",
        sentence="A resize never writes memory.min or memory.low of the pod: they keep the old request.",
        upstream="kubernetes#140262",
    ),
    "kubelet/resize-of-a-request-leaves-pod-protection": Fault(
        runtime=KUBELET,
        since="1.37",
        sentence="A resize of a memory request alone leaves memory.min or memory.low of the pod at the old request; "
        "measured on 1.37.0. The fix is merged; the first 1.37 release with it is unknown.",
        upstream="kubernetes#142572",
    ),
    "kubelet/summary-pressure-in-microseconds": Fault(
        runtime=KUBELET,
        since="1.33",
        sentence="PSI totals in /stats/summary are documented in nanoseconds. Those that come from cadvisor, of nodes "
        "and pods, are in microseconds; seen on 1.36.2.",
        upstream="kubernetes#142599",
    ),
    "kubelet/resource-metrics-lack-swap": Fault(
        runtime=KUBELET,
        since="1.28",
        fixed="1.34",
        sentence="/metrics/resource has no container_swap_usage_bytes if the kubelet reads containers' statistics over "
        "CRI; seen on 1.32.13.",
        upstream="kubernetes#131915",
    ),
    "kubelet/summary-lacks-swap-of-containers": Fault(
        runtime=KUBELET,
        since="1.28",
        fixed="1.33",
        sentence="/stats/summary has 0 as a container's swap if the runtime reports none over CRI, as containerd does "
        "(containerd#12026); seen on 1.32.13.",
        upstream="kubernetes#129486",
    ),
    "kubelet/resource-metrics-have-no-swap-in-use": Fault(
        runtime=KUBELET,
        since="1.34",
        fixed="1.36",
        sentence="container_swap_usage_bytes in /metrics/resource is 0 whatever the container has in swap.",
        upstream="kubernetes#137093",
    ),
    "kubelet/resize-to-the-limit-leaves-memory-high": Fault(
        runtime=KUBELET,
        since="1.27",
        sentence="For a memory request equal to the limit the kubelet sends no memory.high, so the old value, which "
        "may be below the new request, stays until the container is recreated.",
        upstream="kubernetes#142569",
    ),
}

_YOUKI = {
    "youki/no-swap-is-not-written": Fault(
        runtime=YOUKI,
        sentence="With the cgroupfs driver a memory-plus-swap limit that allows no swap leaves memory.swap.max "
        "unchanged, since youki writes no amount of 0; seen with 0.7.0.",
    ),
    "youki/unified-key-leaves-the-cgroup": Fault(
        runtime=YOUKI,
        sentence="With the cgroupfs driver youki appends a unified key to the cgroup's path without a check, so "
        "../memory.max sets the limit of the pod; seen with 0.7.0.",
    ),
    "youki/update-ignores-options": Fault(
        runtime=YOUKI,
        sentence="youki update accepts options such as --memory and --cpu-quota, and ignores all but --pids-limit; "
        "seen with 0.7.0.",
        upstream="youki-dev/youki#3678, youki-dev/youki#147",
    ),
    "youki/scope-takes-no-sets": Fault(
        runtime=YOUKI,
        sentence="With the systemd driver youki sends sets of CPUs and NUMA nodes as arrays of 64-bit numbers, where "
        "systemd requires bytes, so such a container does not start; seen with 0.7.0.",
    ),
    "youki/scope-drops-unified": Fault(
        runtime=YOUKI,
        sentence="With the systemd driver youki sets unified entries as properties of the scope, and drops "
        "memory.swap.max, memory.oom.group and all other files that it has no property for; seen with 0.7.0.",
    ),
    "youki/scope-takes-no-max": Fault(
        runtime=YOUKI,
        sentence="With the systemd driver youki rejects max as an amount in unified; seen with 0.7.0.",
    ),
    "youki/scope-converts-the-weight": Fault(
        runtime=YOUKI,
        sentence="With the systemd driver youki converts cpu.weight of unified as if it were CPU shares; seen with "
        "0.7.0.",
    ),
    "youki/scope-drops-huge-pages": Fault(
        runtime=YOUKI,
        sentence="With the systemd driver youki ignores limits of huge pages; seen with 0.7.0.",
    ),
    "youki/scope-hides-refusals-of-the-kernel": Fault(
        runtime=YOUKI,
        sentence="With the systemd driver youki only sets properties of the scope, and systemd raises the period of a "
        "quota that the kernel would reject; seen with 0.7.0.",
    ),
}

FAULTS: Mapping[str, Fault] = {
    **_CONTAINERD, **_CRIO, **_CRUN, **_DOCKER, **_KUBELET, **_LINUX, **_RUNC, **_RUNSC, **_YOUKI
}  # fmt: skip
"""Every fault by its name, runtime/what."""
