"""crun on cgroup v2, 1.8 to 1.29: from linux.resources to interface files and unit properties.

With systemd, crun keeps the processes in a cgroup below the scope and writes the files there; the scope itself has only
the values set as properties. Source: containers/crun src/libcrun/cgroup-resources.c, cgroup-systemd.c.
"""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD, shares_to_weight
from memqos.engine.translate.resources import OciResources, Refused, RuntimeHost, RuntimeWrites, checked_unified
from memqos.engine.translate.systemd import PROPERTY_OF, known_properties, property_number, quota_property
from memqos.engine.translate.versions import Feature, Traits
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver

__all__ = ["CRUN_SOURCES", "crun_writes"]

_WORD = 2**64

CRUN_SOURCES: Mapping[Knob, str] = {
    Knob.MEMORY_SWAP_MAX: "crun write_memory_swap",
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: "crun write_memory_swap",
    Knob.CPU_WEIGHT: "crun convert_shares_to_weight",
    Knob.CPU_SHARES: "crun write_cpu_resources",
    Knob.CPU_MAX: "crun write_cpu_resources",
    Knob.CPU_CFS_QUOTA_US: "crun write_cpu_resources",
}
"""Its functions that write a file, on either version of cgroups."""


def crun_writes(resources: OciResources, traits: Traits, host: RuntimeHost) -> RuntimeWrites:
    """Crun's writes when it creates a container.

    Unlike runc, crun writes a memory amount in the document even if it is 0; unified entries come last, in the
    document's order.
    """
    systemd = host.driver is CgroupDriver.SYSTEMD
    try:
        checked_unified(resources.unified)
        # crun refuses invalid entries only when it converts them to properties.
        properties = known_properties(_properties(resources, traits), host.systemd) if systemd else {}
        files = [*_memory(resources, traits, host), *_cpu(resources, traits)]
    except Refused as refused:
        return RuntimeWrites(refusal=str(refused))
    files += [(f"hugetlb.{size}.max", str(limit)) for size, limit in resources.hugepage_limits]
    files += [(name, text) for name, text in resources.unified.items() if text]
    subgroup = (traits.subgroup if host.subgroup is None else host.subgroup) if systemd else ""
    return RuntimeWrites(files=tuple(files), scope=(lambda: properties) if systemd else None, subgroup=subgroup)


def _memory(resources: OciResources, traits: Traits, host: RuntimeHost) -> list[tuple[str, str]]:
    files: list[tuple[str, str]] = []
    limit, both = resources.memory_limit, resources.memory_swap
    if limit is not None:
        files.append((Knob.MEMORY_MAX, _text(limit, traits)))
    if both is not None:
        swap = both
        if both > 0 or (both != -1 and not traits.has(Feature.ZERO_SWAP_IS_ZERO)):
            if limit is None:
                raise Refused("cannot set swap limit without the memory limit")
            if both < limit:
                raise Refused("cannot set memory+swap limit less than the memory limit")
            # A limit of -1 is subtracted like any other, which makes one byte more.
            swap = both - limit
        if host.swap_file:
            files.append((Knob.MEMORY_SWAP_MAX, _text(swap, traits)))
    if resources.memory_reservation is not None:
        # Written as an unsigned number: -1 is the largest one, which the kernel shows as max.
        files.append((Knob.MEMORY_LOW, str(resources.memory_reservation % _WORD)))
    return files


def _cpu(resources: OciResources, traits: Traits) -> list[tuple[str, str]]:
    files: list[tuple[str, str]] = []
    quota, period = resources.cpu_quota or -1, resources.cpu_period or 0
    if resources.cpu_shares:
        files.append((Knob.CPU_WEIGHT, str(shares_to_weight(resources.cpu_shares, traits.weight))))
    if quota > 0 or period > 0:
        files.append((Knob.CPU_MAX, f"{'max' if quota < 0 else quota} {period or DEFAULT_PERIOD}"))
    files += [
        (knob, given)
        for knob, given in ((Knob.CPUSET_CPUS, resources.cpus), (Knob.CPUSET_MEMS, resources.mems))
        if given
    ]
    return files


def _properties(resources: OciResources, traits: Traits) -> dict[str, int | str]:
    """The scope's properties that this version sets."""
    found = _memory_properties(resources, traits)
    if resources.cpu_shares:
        found["CPUWeight"] = shares_to_weight(resources.cpu_shares, traits.weight)
    elif resources.cpu_shares is None:
        found |= _property(resources, Knob.CPU_WEIGHT, None)
    if traits.has(Feature.SCOPE_HAS_QUOTA_AND_CPUSET):
        found |= _quota_and_cpuset(resources)
    return found


def _memory_properties(resources: OciResources, traits: Traits) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    limit = _property(resources, Knob.MEMORY_MAX, resources.memory_limit)
    if traits.has(Feature.SCOPE_HAS_MEMORY_MAX):
        found |= limit
    elif traits.has(Feature.SCOPE_HAS_MEMORY_LIMIT) and limit:
        found["MemoryLimit"] = limit["MemoryMax"]
    if traits.has(Feature.SCOPE_HAS_PROTECTION):
        found |= _property(resources, Knob.MEMORY_LOW, resources.memory_reservation)
        # A bug in all versions so far: memory plus swap as the swap limit, without subtracting the memory limit.
        found |= _property(resources, Knob.MEMORY_SWAP_MAX, resources.memory_swap)
        for knob in (Knob.MEMORY_MIN, Knob.MEMORY_HIGH, "memory.zswap.max", Knob.PIDS_MAX):
            found |= _property(resources, knob, None)
    return found


def _property(resources: OciResources, knob: str, classic: int | None) -> dict[str, int | str]:
    """One property from the classic field, else from the unified entry: unlike in files, the field wins."""
    if classic is not None:
        return {PROPERTY_OF[knob]: classic % _WORD}
    if knob not in resources.unified:
        return {}
    try:
        return {PROPERTY_OF[knob]: property_number(knob, resources.unified[knob])}
    except ValueError as error:
        raise Refused(f"invalid value for '{knob}': {resources.unified[knob]}") from error


def _quota_and_cpuset(resources: OciResources) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    quota, period = resources.cpu_quota or 0, resources.cpu_period or 0
    if quota > 0 and period:
        found["CPUQuotaPerSecUSec"] = quota_property(quota, period)
        found["CPUQuotaPeriodUSec"] = period
    for knob, given in ((Knob.CPUSET_CPUS, resources.cpus), (Knob.CPUSET_MEMS, resources.mems)):
        if given:
            found[PROPERTY_OF[knob]] = given
    return found


def _text(amount: int, traits: Traits) -> str:
    unlimited = amount == -1 or (amount < 0 and traits.has(Feature.NEGATIVE_IS_MAX))
    return "max" if unlimited else str(amount)
