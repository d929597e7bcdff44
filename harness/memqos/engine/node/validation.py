"""Settings that the kubelet of a release refuses, for the fields that rules use.

Source: kubelet `validation.ValidateKubeletConfiguration`, `cm.NewContainerManager`. A field that a release does not
know yet is not an error: see `engine.node.remarks`.
"""

from __future__ import annotations

from collections.abc import Iterator

from memqos.engine.cgroup import layout
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import huge_page_capacity
from memqos.engine.numa.policies import configuration_error
from memqos.engine.numa.reservation import hard_eviction
from memqos.engine.pod.sums import amount
from memqos.engine.releases.gates import GROUPS, enabled, stage
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import STAGES, Gate, Maturity, Novelty
from memqos.model.node import CgroupVersion, KubeletSettings, ReservationPolicy, SwapBehavior
from memqos.model.quantity import ZERO, Quantity

__all__ = ["check_configuration", "why_not_on"]

_MS = 1_000
_FORMER_FACTOR = 0.9
_CPU_POLICIES = ("none", "static")
_TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_TOPOLOGY_SCOPES = ("container", "pod")

_Fault = tuple[str, str, str]
"""The field, its error, and the next step."""


def check_configuration(kubelet: Kubelet) -> None:
    """Raise ManifestError for the first field that this release's kubelet refuses; it names the place, if known."""
    for field, what, next_step in _faults(kubelet):
        raise configuration_error(kubelet.settings, field, what, next_step)


def _faults(kubelet: Kubelet) -> Iterator[_Fault]:
    settings, release = kubelet.settings, kubelet.release
    yield from _cgroup_v1(kubelet)
    yield from _gates(settings, release)
    yield from _preview(kubelet)
    yield from _memory_qos(kubelet)
    yield from _swap(kubelet)
    yield from _cpu(kubelet)
    yield from _managers(settings)
    yield from _enforcement(kubelet)
    yield from _reservations(kubelet)
    yield from _cgroup_names(kubelet)


def _cgroup_v1(kubelet: Kubelet) -> Iterator[_Fault]:
    what = why_not_on(kubelet.node.cgroup_version, kubelet.settings, kubelet.release)
    if what:
        yield "failCgroupV1", f"{what}.", "Set failCgroupV1 to false, or give a node with cgroup v2."


def why_not_on(version: CgroupVersion, settings: KubeletSettings, release: Release) -> str:
    """Why a kubelet does not start on this version of cgroups, "" if it does.

    `failCgroupV1` exists from 1.31 on, false by default, true by default from 1.35 on.
    """
    if version is CgroupVersion.V2 or not release.has(Novelty.FAIL_CGROUP_V1):
        return ""
    configured = settings.fail_cgroup_v1
    if not (configured if configured is not None else release.has(Novelty.FAIL_CGROUP_V1_BY_DEFAULT)):
        return ""
    since = Release(Novelty.FAIL_CGROUP_V1_BY_DEFAULT.since)
    default = "" if configured is not None else f" (the default from {since} on)"
    return f"the kubelet of {release} does not start on cgroup v1 while failCgroupV1 is true{default}"


def _gates(settings: KubeletSettings, release: Release) -> Iterator[_Fault]:
    """Gates that are locked, removed or not introduced yet, and known names in the wrong case.

    A kubelet does not start with an unknown gate, unlike an unknown field. For gates without influence on the rules see
    `engine.node.remarks`.
    """
    known = {name.lower(): name for name in (*Gate, *GROUPS.values())}
    for name in settings.feature_gates:
        meant = known.get(name.lower())
        if meant is not None and name != meant:
            refusal = f'the kubelet does not start ("unrecognized feature gate: {name}")'
            what = f"unknown feature gate '{name}': {refusal}."
            yield f"featureGates.{name}", what, f"Did you mean '{meant}'?"
    for gate in Gate:
        wanted = settings.feature_gates.get(gate)
        if wanted is None:
            continue
        now = stage(gate, release)
        refusal = f'and does not start ("unrecognized feature gate: {gate}")'
        if now is None:
            what = f"the kubelet of {release} does not know the gate {gate}, {refusal}."
            yield f"featureGates.{gate}", what, f"Leave it out: it came with {Release(STAGES[gate][0].since)}."
        elif now.maturity is Maturity.REMOVED:
            what = f"the kubelet of {release} no longer has the gate {gate}, {refusal}."
            yield f"featureGates.{gate}", what, f"Leave it out: it was removed in {Release(now.since)}."
        elif now.locked and wanted is not now.default:
            asked, held = str(wanted).lower(), str(now.default).lower()
            what = (
                f"the gate {gate} is locked to {held} in {release}, and the kubelet does not start "
                f'("cannot set feature gate {gate} to {asked}, feature is locked to {held}").'
            )
            yield f"featureGates.{gate}", what, "Leave it out."


def _preview(kubelet: Kubelet) -> Iterator[_Fault]:
    """Features of the preview without a public specification, and options of another policy or gate."""
    settings, release = kubelet.settings, kubelet.release
    if not release.is_preview:
        return
    if enabled(Gate.NODE_RESERVATION, release, settings.feature_gates):
        what = (
            "no public text says what its policies Soft and Hard write (kubernetes#142854, a draft): it is not planned."
        )
        yield f"featureGates.{Gate.NODE_RESERVATION}", what, "Leave the gate off."
    if "systemPartition" in settings.origin:
        what = "the system partition (KEP-5894, kubernetes#142200, work in progress) is not planned."
        yield "systemPartition", what, "Leave it out."
    if "memoryManagerPolicyOptions" not in settings.origin:
        return
    if not enabled(Gate.DRIFT_TOLERANCE, release, settings.feature_gates):
        what = f"options need the feature gate {Gate.DRIFT_TOLERANCE} (KEP-6232), which is off."
        yield "memoryManagerPolicyOptions", what, f"Set featureGates.{Gate.DRIFT_TOLERANCE} to true."
    elif settings.memory_manager_policy != "Static":
        what = "options require memoryManagerPolicy Static (KEP-6232)."
        yield "memoryManagerPolicyOptions", what, "Leave them out."


def _memory_qos(kubelet: Kubelet) -> Iterator[_Fault]:
    settings, release = kubelet.settings, kubelet.release
    factor = settings.throttling_factor
    # The kubelet compares the text as a float64: 1e-400 is 0.
    if factor is not None and not 0 < float(factor) <= 1:
        yield (
            "memoryThrottlingFactor",
            f"the factor {float(factor):g} is outside the kubelet's range: above 0, at most 1.",
            "Give a factor such as 0.9.",
        )
    gate_on = enabled(Gate.MEMORY_QOS, release, settings.feature_gates)
    # k#140007 lets the default of earlier releases pass, so that an upgrade with the gate off starts.
    if factor is not None and float(factor) != _FORMER_FACTOR and not gate_on and release.has(Novelty.MEMORY_QOS_BETA):
        yield (
            "memoryThrottlingFactor",
            (
                f"the kubelet of {release} does not start with a factor ({float(factor):g}) while the feature gate "
                "MemoryQoS is off; of all factors only 0.9, the former default, passes."
            ),
            "Leave the factor out, or leave MemoryQoS on.",
        )
    tiered = settings.memory_reservation_policy is ReservationPolicy.TIERED
    if tiered and release.has(Novelty.RESERVATION_POLICY) and not gate_on:
        yield (
            "memoryReservationPolicy",
            "TieredReservation needs the feature gate MemoryQoS, which is off.",
            "Set featureGates.MemoryQoS to true, or leave the policy out.",
        )


def _swap(kubelet: Kubelet) -> Iterator[_Fault]:
    """FailSwapOn and memorySwap.

    A missing failSwapOn (default true) is no error on a node with swap: the flag --fail-swap-on, which no configuration
    shows, may set it to false.
    """
    behavior, release = kubelet.settings.swap_behavior, kubelet.release
    if kubelet.settings.fail_swap_on and kubelet.node.swap:
        what = f"the kubelet of {release} does not start on a node with swap while failSwapOn is true."
        yield "failSwapOn", what, "Set failSwapOn to false, or give a node without swap."
    if not behavior:
        return
    field = "memorySwap.swapBehavior"
    if not kubelet.node_swap:
        step = "Set featureGates.NodeSwap to true, or leave memorySwap out."
        yield field, f"'{behavior}' needs the feature gate NodeSwap, which is off in {release}.", step
    if behavior is SwapBehavior.WORKLOAD:
        if not enabled(Gate.WORKLOAD_SWAP, release, kubelet.settings.feature_gates):
            first = Release(Novelty.WORKLOAD_SWAP.since)
            step = f"Set featureGates.{Gate.WORKLOAD_SWAP} to true, with --kubernetes {first}."
            yield field, f"'{behavior}' needs the feature gate {Gate.WORKLOAD_SWAP}, alpha in {first}.", step
        return
    known = (
        (SwapBehavior.LIMITED, SwapBehavior.NO_SWAP)
        if release.has(Novelty.NO_SWAP)
        else (SwapBehavior.LIMITED, SwapBehavior.UNLIMITED)
    )
    if behavior not in known:
        yield field, f"{release} does not take '{behavior}'.", f"Known there: {', '.join(known)}."


def _cpu(kubelet: Kubelet) -> Iterator[_Fault]:
    settings, release = kubelet.settings, kubelet.release
    period = settings.cpu_cfs_quota_period_us
    if period is None:
        return
    if not enabled(Gate.CFS_QUOTA_PERIOD, release, settings.feature_gates):
        if period != 100 * _MS:
            yield (
                "cpuCFSQuotaPeriod",
                f"a period of {period} µs needs the feature gate {Gate.CFS_QUOTA_PERIOD}, which is off in {release}.",
                "Leave it at 100ms, or set the gate.",
            )
    elif not _MS <= period <= 1000 * _MS:
        yield "cpuCFSQuotaPeriod", f"a period of {period} µs is not between 1ms and 1s.", "Give one in between."


def _managers(settings: KubeletSettings) -> Iterator[_Fault]:
    for field, given, known in (
        ("cpuManagerPolicy", settings.cpu_manager_policy, _CPU_POLICIES),
        ("topologyManagerPolicy", settings.topology_manager_policy, _TOPOLOGY_POLICIES),
        ("topologyManagerScope", settings.topology_manager_scope, _TOPOLOGY_SCOPES),
    ):
        if given and given not in known:
            yield field, f"'{given[:80]}' is not one of {', '.join(known)}.", ""


def _enforcement(kubelet: Kubelet) -> Iterator[_Fault]:
    settings, release = kubelet.settings, kubelet.release
    field = "enforceNodeAllocatable"
    given = settings.enforce_node_allocatable or ()
    compressible = ("system-reserved-compressible", "kube-reserved-compressible")
    known: tuple[str, ...] = ("none", "pods", "system-reserved", "kube-reserved")
    if release.has(Novelty.COMPRESSIBLE_KEYS):
        known += compressible
    for key in given:
        if key and key not in known:
            yield field, f"'{key[:80]}' is not a key of {release}.", f"Known there: {', '.join(known)}."
        if key.removesuffix("-compressible") in {"system-reserved", "kube-reserved"}:
            yield from _reserved_cgroup(kubelet, key)
    for name in ("system-reserved", "kube-reserved"):
        if name in given and f"{name}-compressible" in given:
            yield field, f"'{name}' and '{name}-compressible' exclude each other.", "Keep one of them."
    if len(set(given)) < len(given):
        yield field, "the same key is given twice.", "Keep one of them."
    if "none" in given and len(given) > 1:
        yield field, "'none' excludes all other keys.", "Keep 'none', or leave it out."
    if not kubelet.cgroups_per_qos and (settings.enforce_node_allocatable is None or "pods" in given):
        what = "pods cannot be enforced (the default key) without cgroupsPerQOS."
        yield field, what, "Set cgroupsPerQOS to true, or enforceNodeAllocatable to [none]."


def _reserved_cgroup(kubelet: Kubelet, key: str) -> Iterator[_Fault]:
    settings = kubelet.settings
    system = key.startswith("system")
    cgroup = settings.system_reserved_cgroup if system else settings.kube_reserved_cgroup
    reserved = settings.system_reserved if system else settings.kube_reserved
    name = "system" if system else "kube"
    if not cgroup:
        step = f"Set {name}ReservedCgroup, or leave the key out."
        yield "enforceNodeAllocatable", f"the key '{key}' needs {name}ReservedCgroup.", step
    elif reserved is None:
        step = f"Set {name}Reserved, or leave the key out."
        yield (
            f"{name}ReservedCgroup",
            f"the key '{key}' needs {name}Reserved: without it there is nothing to enforce.",
            step,
        )


def _cgroup_names(kubelet: Kubelet) -> Iterator[_Fault]:
    settings, driver = kubelet.settings, kubelet.driver
    for field, configured in (
        ("cgroupRoot", settings.cgroup_root),
        ("systemReservedCgroup", settings.system_reserved_cgroup),
        ("kubeReservedCgroup", settings.kube_reserved_cgroup),
    ):
        try:
            if field == "cgroupRoot":
                layout.cgroup_path(layout.kubepods_name(configured), driver)
            else:
                layout.reserved_path(configured, driver)
        except ValueError as error:
            yield (
                field,
                f"'{configured[:80]}' is not a valid cgroup for the {driver} driver: {error}.",
                "Give a path like /name.",
            )


def _reservations(kubelet: Kubelet) -> Iterator[_Fault]:
    """Reservations, with the hard eviction threshold, above the capacity: `validateNodeAllocatable`.

    The kubelet checks the capacities that cAdvisor knows: memory, cpu, and every size of huge pages. A reservation of
    pids, or of a resource without a capacity, is not checked.
    """
    settings, release = kubelet.settings, kubelet.release
    threshold = {"memory": hard_eviction(settings, kubelet.node.memory)}
    huge = {name: Quantity.of_bytes(count) for name, count in huge_page_capacity(kubelet.node).items()}
    for name, whole in {"memory": kubelet.capacity["memory"], "cpu": kubelet.capacity["cpu"], **huge}.items():
        parts = {
            "systemReserved": amount(settings.system_reserved or {}, name),
            "kubeReserved": amount(settings.kube_reserved or {}, name),
            "evictionHard": amount(threshold, name),
        }
        total = sum(parts.values(), ZERO)
        if whole < total:
            counted = [f"{one} {part}" for one, part in parts.items() if not part.is_zero]
            field = counted[0].partition(" ")[0]
            text = f"{' + '.join(counted)} = {total}" if len(counted) > 1 else total
            what = f"more {name} is reserved ({text}) than the node has ({whole})."
            yield field, what, "Reserve less, or give the node's capacity."
    single = settings.single_process_oom_kill
    if single is False and not kubelet.v2 and release.has(Novelty.SINGLE_PROCESS_OOM_KILL):
        yield "singleProcessOOMKill", "false is not possible on cgroup v1.", "Leave it out."
    if settings.qos_reserved and not enabled(Gate.QOS_RESERVED, release, settings.feature_gates):
        step = "Set featureGates.QOSReserved to true, or leave it out."
        yield "qosReserved", "it needs the feature gate QOSReserved, which is off.", step
