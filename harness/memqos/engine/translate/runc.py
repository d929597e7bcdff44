"""runc on cgroup v2, 1.1 to 1.5 and its main branch: from linux.resources to interface files and unit properties.

With the systemd driver runc sets the properties first, then writes the same files as without. Sources:
opencontainers/runc libcontainer/cgroups (1.1, 1.2) and opencontainers/cgroups fs2 and systemd/v2.go (from 1.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD, shares_to_weight, systemd_quota
from memqos.engine.translate.kernel_text import listed, numbers, reversed_bytes
from memqos.engine.translate.resources import OciResources, Refused, RuntimeHost, RuntimeWrites, checked_unified
from memqos.engine.translate.systemd import (
    INFINITY,
    OOM_POLICY,
    OOM_POLICY_OF,
    PROPERTY_OF,
    known_properties,
    property_number,
    quota_property,
)
from memqos.engine.translate.versions import Feature, RuntimeName, Traits
from memqos.model.knob import MAX, Bytes, Knob, KnobValue
from memqos.model.node import CgroupDriver

__all__ = ["RUNC_SOURCES", "runc_writes", "set_by_update", "swap_max_of"]

_NUMBERS = frozenset(
    {Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.CPU_WEIGHT}
)
_SETS = frozenset({Knob.CPUSET_CPUS, Knob.CPUSET_MEMS})

RUNC_SOURCES: Mapping[Knob, str] = {
    Knob.MEMORY_SWAP_MAX: "runc ConvertMemorySwapToCgroupV2Value",
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: "runc fs setMemoryAndSwap",
    Knob.CPU_WEIGHT: "opencontainers/cgroups ConvertCPUSharesToCgroupV2Value",
    Knob.CPU_SHARES: "runc fs CpuGroup.Set",
    Knob.CPU_MAX: "runc fs2 setCPU",
    Knob.CPU_CFS_QUOTA_US: "runc fs CpuGroup.Set",
}
"""Its functions that write a file."""


def runc_writes(resources: OciResources, traits: Traits, host: RuntimeHost) -> RuntimeWrites:
    """Runc's writes when it creates a container.

    runc treats a zero field as missing. Unified entries are written last, in random order by runc and alphabetically
    here.
    """
    systemd = host.driver is CgroupDriver.SYSTEMD
    entries = sorted(resources.unified.items())
    try:
        checked_unified(resources.unified)
        swap = _swap(resources, traits)
        quota = resources.cpu_quota or 0
        if systemd and traits.has(Feature.ROUNDED_QUOTA_IN_FILE):
            quota = systemd_quota(quota, resources.cpu_period or DEFAULT_PERIOD)
        if systemd:
            _check_properties(resources, entries, traits, host.systemd)
        files = [*_memory(resources, swap, traits, host), *_cpu(resources, quota, traits)]
    except Refused as refused:
        return RuntimeWrites(refusal=str(refused))
    for size, limit in resources.hugepage_limits:
        files.append((f"hugetlb.{size}.max", str(limit)))
        if host.hugetlb_reservations and traits.has(Feature.HUGETLB_RESERVATIONS):
            files.append((f"hugetlb.{size}.rsvd.max", str(limit)))
    files += entries
    return RuntimeWrites(
        files=tuple(files), scope=partial(_properties, resources, swap, traits, host.systemd) if systemd else None
    )


def set_by_update(sent: OciResources, stored: OciResources, traits: Traits) -> OciResources:
    """The resources that an OCI runtime sets in an update to this; None for fields missing in the update.

    stored: its resources so far. runc keeps a quota or period that the update does not name. From 1.2 on it also sets
    its kept limits of memory and swap again, so that memory.swap.max is computed from both; older versions, and other
    OCI runtimes, set only the fields of the update. Source: runc update.go.
    """
    if traits.runtime is RuntimeName.RUNC and (sent.cpu_quota or sent.cpu_period):
        quota, period = sent.cpu_quota or stored.cpu_quota, sent.cpu_period or stored.cpu_period
        sent = replace(sent, cpu_quota=quota, cpu_period=period)
    if not traits.has(Feature.UPDATE_KEEPS_MEMORY):
        return sent
    unsaid_swap = 0 if sent.memory_limit == -1 else stored.memory_swap
    return replace(
        sent,
        memory_limit=stored.memory_limit if sent.memory_limit is None else sent.memory_limit,
        memory_reservation=stored.memory_reservation if sent.memory_reservation is None else sent.memory_reservation,
        memory_swap=unsaid_swap if sent.memory_swap is None else sent.memory_swap,
    )


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


def _swap(resources: OciResources, traits: Traits) -> KnobValue | None:
    memory, both = resources.memory_limit or 0, resources.memory_swap or 0
    if memory == -1 and both > 0 and not traits.has(Feature.UNLIMITED_MEMORY_TAKES_SWAP):
        raise Refused("unable to set swap limit without memory limit")
    try:
        return swap_max_of(both, memory)
    except ValueError as error:
        raise Refused(str(error)) from error


def _memory(
    resources: OciResources, swap: KnobValue | None, traits: Traits, host: RuntimeHost
) -> list[tuple[str, str]]:
    files: list[tuple[str, str]] = []
    if swap is not None:
        if host.swap_file:
            files.append((Knob.MEMORY_SWAP_MAX, str(swap)))
        elif not traits.has(Feature.MISSING_SWAP_FILE_TOLERATED) or swap not in {MAX, Bytes(0)}:
            raise Refused("open memory.swap.max: no such file or directory")
    if resources.memory_limit:
        files.append((Knob.MEMORY_MAX, _text(resources.memory_limit)))
    if resources.memory_reservation:
        files.append((Knob.MEMORY_LOW, _text(resources.memory_reservation)))
    return files


def _cpu(resources: OciResources, quota: int, traits: Traits) -> list[tuple[str, str]]:
    files: list[tuple[str, str]] = []
    if resources.cpu_shares:
        files.append((Knob.CPU_WEIGHT, str(shares_to_weight(resources.cpu_shares, traits.weight))))
    if quota or resources.cpu_period:
        files.append((Knob.CPU_MAX, f"{quota if quota > 0 else 'max'} {resources.cpu_period or DEFAULT_PERIOD}"))
    if resources.cpus:
        files.append((Knob.CPUSET_CPUS, resources.cpus))
    if resources.mems:
        files.append((Knob.CPUSET_MEMS, resources.mems))
    return files


def _check_properties(resources: OciResources, entries: list[tuple[str, str]], traits: Traits, systemd: int) -> None:
    """Raise Refused for a value that runc cannot convert to a property: it converts before it writes the first file."""
    in_order = traits.has(Feature.CPUSET_BYTES_IN_ORDER)
    for knob, given in ((Knob.CPUSET_CPUS, resources.cpus), (Knob.CPUSET_MEMS, resources.mems)):
        if given:
            _set(knob, given, in_order=in_order)
    for name, text in entries:
        _unified(name, text, in_order=in_order)
    _oom_policy(resources, traits, systemd)


def _properties(resources: OciResources, swap: KnobValue | None, traits: Traits, systemd: int) -> dict[str, int | str]:
    """The set properties; runc omits a swap limit of exactly zero (opencontainers/cgroups#74)."""
    found: dict[str, int | str] = {}
    if resources.memory_limit:
        found["MemoryMax"] = resources.memory_limit % (INFINITY + 1)
    if resources.memory_reservation:
        found["MemoryLow"] = resources.memory_reservation % (INFINITY + 1)
    if swap is MAX:
        found["MemorySwapMax"] = INFINITY
    elif isinstance(swap, Bytes) and swap.count:
        found["MemorySwapMax"] = swap.count
    if resources.cpu_shares:
        found["CPUWeight"] = shares_to_weight(resources.cpu_shares, traits.weight)
    found |= _quota(resources.cpu_quota or 0, resources.cpu_period or 0)
    in_order = traits.has(Feature.CPUSET_BYTES_IN_ORDER)
    for knob, given in ((Knob.CPUSET_CPUS, resources.cpus), (Knob.CPUSET_MEMS, resources.mems)):
        if given:
            found[PROPERTY_OF[knob]] = _set(knob, given, in_order=in_order)
    for name, text in sorted(resources.unified.items()):
        found |= _unified(name, text, in_order=in_order)
    found |= _oom_policy(resources, traits, systemd)
    return known_properties(found, systemd)


def _oom_policy(resources: OciResources, traits: Traits, systemd: int) -> dict[str, int | str]:
    """The scope's OOMPolicy for memory.oom.group; runc skips a number other than 0 and 1.

    Source: opencontainers/cgroups 0.0.8, `UnifiedManager.Apply`, which reads the text with strconv.ParseUint.
    """
    text = resources.unified.get(Knob.MEMORY_OOM_GROUP)
    has_property = known_properties({OOM_POLICY: ""}, systemd)
    if text is None or not has_property or not traits.has(Feature.OOM_GROUP_IS_OOM_POLICY):
        return {}
    if not (text.isascii() and text.isdecimal()):
        raise Refused(f"unified resource '{Knob.MEMORY_OOM_GROUP}' value conversion error: '{text}' is no number")
    policy = OOM_POLICY_OF.get(text.lstrip("0") or "0")
    return {OOM_POLICY: policy} if policy else {}


def _quota(quota: int, period: int) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    if period:
        found["CPUQuotaPeriodUSec"] = period
    if quota or period:
        found["CPUQuotaPerSecUSec"] = quota_property(quota, period or DEFAULT_PERIOD)
    return found


# A node has few different entries, and each occurs many times.
@lru_cache(maxsize=4096)
def _unified(name: str, text: str, *, in_order: bool) -> Mapping[str, int | str]:
    """The property of one unified entry; none for entries unknown to runc."""
    if "." not in name[1:]:
        raise Refused(f"unified resource '{name}' must be in the form CONTROLLER.PARAMETER")
    try:
        if name in _NUMBERS:
            return {PROPERTY_OF[name]: property_number(name, text)}
        if name == Knob.PIDS_MAX:
            # systemd rejects 0 for TasksMax.
            return {"TasksMax": max(property_number(name, text), 1)}
        if name == Knob.CPU_MAX:
            quota, _, period = text.strip().partition(" ")
            number = property_number(name, quota)
            return _quota(0 if number == INFINITY else number, int(period or DEFAULT_PERIOD))
        if name in _SETS:
            return {PROPERTY_OF[name]: _set(name, text, in_order=in_order)}
    except ValueError as error:
        raise Refused(f"unified resource '{name}': {error}") from error
    return {}


def _set(name: str, text: str, *, in_order: bool) -> str:
    """CPUs or nodes as systemd reads them; a text that is no list is refused."""
    try:
        found = numbers(text)
    except ValueError as error:
        raise Refused(f"'{name}' conversion error: {error}") from error
    return listed(found) if in_order else reversed_bytes(text)


def _text(amount: int) -> str:
    return "max" if amount == -1 else str(amount)
