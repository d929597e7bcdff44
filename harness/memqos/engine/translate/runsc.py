"""runsc (gVisor) on cgroup v2, 2022 to 2026: from linux.resources to interface files and unit properties.

A directly driven container is a sandbox: its cgroup has the sandbox's processes with the container's memory. With
systemd runsc sets properties of the scope and writes no file; without, it only writes files. Source: google/gvisor
runsc/cgroup, cgroup_v2.go and systemd.go, releases 20221219 to 20260817.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD, shares_to_weight
from memqos.engine.translate.kernel_text import reversed_bytes
from memqos.engine.translate.resources import (
    OciResources,
    OciTranslation,
    Refused,
    RuntimeHost,
    RuntimeWrites,
    Unsayable,
    checked_unified,
)
from memqos.engine.translate.systemd import INFINITY, files_of_properties, quota_property
from memqos.engine.translate.versions import FEATURES, Feature, RuntimeName, Traits
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver

__all__ = ["RUNSC_SOURCES", "as_read", "runsc_writes"]

RUNSC_SOURCES: Mapping[Knob, str] = {
    Knob.MEMORY_MAX: "gVisor memory2",
    Knob.MEMORY_SWAP_MAX: "gVisor convertMemorySwapToCgroupV2Value",
    Knob.MEMORY_LOW: "gVisor memory2",
    Knob.CPU_WEIGHT: "gVisor convertCPUSharesToCgroupV2Value",
    Knob.CPU_MAX: "gVisor cpu2",
    Knob.CPUSET_CPUS: "gVisor cpuset2",
    Knob.CPUSET_MEMS: "gVisor cpuset2",
}
"""Its code that computes a file's value."""

_UNLIMITED = -1
_DEFAULTS = {knob.value: str(knob.kernel_default) for knob in Knob}


def as_read(to_oci: OciTranslation, oci: Traits, driver: CgroupDriver) -> OciTranslation:
    """The part of a translation that this runtime reads: runsc ignores unified and huge page limits; runc reads all.

    An ignored value becomes wordless: there is no way to request it. Not listed are entries with the kernel's default
    or with the value of another field.
    """
    if oci.runtime is not RuntimeName.RUNSC:
        return to_oci
    asked, left = to_oci.resources, [*to_oci.unsayable]
    for size, limit in asked.hugepage_limits:
        why = "runsc sets no huge page limit on cgroup v2."
        left.append(Unsayable(knob=f"hugetlb.{size}.max", value=str(limit), why=why, wordless=True))
    unified = asked.unified
    if driver is CgroupDriver.SYSTEMD or not oci.has(Feature.READS_UNIFIED):
        first = FEATURES[RuntimeName.RUNSC][Feature.READS_UNIFIED].release
        told = "with the systemd driver" if oci.has(Feature.READS_UNIFIED) else f"before {first}"
        why = f"runsc reads no linux.resources.unified {told}."
        left += [
            Unsayable(knob=name, value=text, why=why, wordless=True)
            for name, text in unified.items()
            if text != _said_anyhow(asked, name)
        ]
        unified = {}
    return replace(to_oci, resources=replace(asked, hugepage_limits=(), unified=unified), unsayable=tuple(left))


def _said_anyhow(asked: OciResources, name: str) -> str:
    """The text of a unified file by the other fields, for values that kubelets send in both forms."""
    if name == Knob.MEMORY_SWAP_MAX and asked.memory_limit and asked.memory_swap == asked.memory_limit:
        return "0"
    return _DEFAULTS.get(name, "")


def runsc_writes(resources: OciResources, traits: Traits, host: RuntimeHost) -> RuntimeWrites:
    """Runsc's writes when it creates a container, from the part that it reads (`as_read`)."""
    try:
        if host.driver is CgroupDriver.CGROUPFS:
            checked_unified(resources.unified)
            files = (*_memory_files(resources, traits), *_cpu_files(resources), *resources.unified.items())
            return RuntimeWrites(files=files)
        properties = dict((*_memory_properties(resources), *_cpu_properties(resources)))
    except Refused as refused:
        return RuntimeWrites(refusal=str(refused))
    return RuntimeWrites(files=tuple(files_of_properties(properties, host.systemd).items()), scope=lambda: properties)


def _memory_files(resources: OciResources, traits: Traits) -> Iterator[tuple[str, str]]:
    """Before 20260615 an invalid pair of limits leaves all memory files unwritten, without an error."""
    limit, both = resources.memory_limit, resources.memory_swap
    if both is not None:
        if limit is None:
            raise Refused("cgroup: Memory.Swap is set without Memory.Limit")
        try:
            swap = _swap(both, limit)
        except Refused:
            if traits.has(Feature.REFUSES_WRONG_SWAP):
                raise
            return
        if swap or both > 0:
            yield Knob.MEMORY_SWAP_MAX, _text(swap)
    if limit:
        yield Knob.MEMORY_MAX, _text(limit)
    if resources.memory_reservation:
        yield Knob.MEMORY_LOW, _text(resources.memory_reservation)


def _memory_properties(resources: OciResources) -> Iterator[tuple[str, int | str]]:
    """Amounts; zero means none, and the file is not written."""
    limit, both = resources.memory_limit, resources.memory_swap
    if both is not None:
        if limit is None:
            raise Refused("misconfigured resource spec")
        yield "MemorySwapMax", _number(_swap(both, limit))
    if limit is not None:
        yield "MemoryMax", _number(limit)
    if resources.memory_reservation is not None:
        yield "MemoryLow", _number(resources.memory_reservation)


def _swap(both: int, limit: int) -> int:
    """memory.swap.max of memory+swap and memory; -1 is max, 0 may also mean "not set"."""
    if both in {0, _UNLIMITED}:
        return _UNLIMITED if limit == _UNLIMITED else both
    if limit in {0, _UNLIMITED}:
        raise Refused("unable to set swap limit without memory limit")
    if both < limit:
        raise Refused("memory+swap limit should be >= memory limit")
    return both - limit


def _cpu_files(resources: OciResources) -> Iterator[tuple[str, str]]:
    quota, period = resources.cpu_quota, resources.cpu_period
    if resources.cpu_shares:
        yield Knob.CPU_WEIGHT, str(shares_to_weight(resources.cpu_shares))
    if quota is not None or period is not None:
        yield Knob.CPU_MAX, f"{quota if quota and quota > 0 else 'max'} {period or DEFAULT_PERIOD}"
    if resources.cpus:
        yield Knob.CPUSET_CPUS, resources.cpus
    if resources.mems:
        yield Knob.CPUSET_MEMS, resources.mems


def _cpu_properties(resources: OciResources) -> Iterator[tuple[str, int | str]]:
    """Runsc passes the bits of a set with the highest byte first; systemd reads them lowest first."""
    quota, period = resources.cpu_quota or 0, resources.cpu_period or 0
    if resources.cpu_shares:
        yield "CPUWeight", shares_to_weight(resources.cpu_shares)
    if period:
        yield "CPUQuotaPeriodUSec", period
    if quota or period:
        yield "CPUQuotaPerSecUSec", quota_property(quota, period or DEFAULT_PERIOD)
    for name, given in (("AllowedCPUs", resources.cpus), ("AllowedMemoryNodes", resources.mems)):
        if given:
            try:
                yield name, reversed_bytes(given)
            except ValueError as error:
                raise Refused(f"misconfigured resource spec: {error}") from error


def _number(amount: int) -> int:
    return INFINITY if amount == _UNLIMITED else amount


def _text(amount: int) -> str:
    return "max" if amount == _UNLIMITED else str(amount)
