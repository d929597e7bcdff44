"""PURE translation of knobs to properties of systemd units, as libcontainer's systemd driver translates them.

Sources: opencontainers/cgroups systemd/v2.go (genV2ResourcesProps, unifiedResToSystemdProps), systemd/v1.go
(genV1ResourcesProperties, Apply) and systemd/common.go (addCpuQuota, addCpuset). What systemd has no property for
(memory.oom.group of a slice, memory.memsw.limit_in_bytes, hugetlb) is written as a file only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD, quota_per_second
from memqos.engine.translate.systemd import INFINITY, LEGACY_PROPERTY_OF, PROPERTY_OF
from memqos.model.knob import Bytes, CpuMax, Knob, KnobValue, Max, Number, Text, Unlimited
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath

__all__ = ["Property", "kept_properties", "slice_properties", "unit_of", "value_properties"]

_SETS = (Knob.CPUSET_CPUS, Knob.CPUSET_MEMS)
_PROPERTIES: Mapping[Knob, str] = {
    knob: name
    for knob in Knob
    if (name := {**PROPERTY_OF, **LEGACY_PROPERTY_OF}.get(knob)) is not None and knob is not Knob.CPU_MAX
}
_QUOTA = ("CPUQuotaPeriodUSec", "CPUQuotaPerSecUSec")
_IO_ACCOUNTING = {CgroupVersion.V1: "BlockIOAccounting", CgroupVersion.V2: "IOAccounting"}


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a unit: name, D-Bus signature, and its value; of signature "ay" the numbers of the bytes."""

    name: str
    signature: str
    value: str | bool | int | tuple[str, ...] | tuple[int, ...]


def unit_of(path: CgroupPath) -> str:
    """The slice that this cgroup is; ValueError if its name is not a slice's."""
    if not path.name.endswith(".slice"):
        raise ValueError(f"'{path}' is not a slice, so systemd cannot make it")
    return path.name


def kept_properties(version: CgroupVersion) -> tuple[str, ...]:
    """Every property that `value_properties` may set: what memqos keeps of a slice that it did not make."""
    return (*(name for knob, name in _PROPERTIES.items() if version in knob.versions), *_QUOTA)


def slice_properties(path: CgroupPath, description: str, version: CgroupVersion) -> tuple[Property, ...]:
    """What libcontainer gives every slice it makes, whatever its resources."""
    wants = () if len(path.parts) == 1 else (Property("Wants", "as", (unit_of(path.parent),)),)
    accounting = ("MemoryAccounting", "CPUAccounting", _IO_ACCOUNTING[version], "TasksAccounting")
    return (
        Property("Description", "s", description),
        *wants,
        *(Property(name, "b", True) for name in accounting),
        Property("DefaultDependencies", "b", False),
    )


def value_properties(written: Mapping[Knob, KnobValue]) -> tuple[Property, ...]:
    """The properties of these knobs, in the order of `Knob`; knobs without a property give none."""
    found: list[Property] = []
    for knob in Knob:
        match written.get(knob):
            case Bytes(amount) | Number(amount) if knob in _PROPERTIES:
                found.append(Property(_PROPERTIES[knob], "t", amount))
            case Max() | Unlimited() if knob in _PROPERTIES:
                found.append(Property(_PROPERTIES[knob], "t", INFINITY))
            case CpuMax() as limit:
                found += _quota(limit.quota, limit.period)
            case Number() | Unlimited() as quota if knob is Knob.CPU_CFS_QUOTA_US:
                period = written.get(Knob.CPU_CFS_PERIOD_US)
                found += _quota(
                    quota.count if isinstance(quota, Number) else None,
                    period.count if isinstance(period, Number) else DEFAULT_PERIOD,
                )
            case Text(text) if knob in _SETS and text:
                mask = _bitmask(text)
                found.append(Property(_PROPERTIES[knob], "ay", tuple(mask)))
    return tuple(found)


def _quota(quota: int | None, period: int) -> Iterable[Property]:
    per_second = INFINITY if quota is None else quota_per_second(quota, period)
    return (
        Property(_QUOTA[0], "t", period),
        Property(_QUOTA[1], "t", per_second),
    )


def _bitmask(text: str) -> bytes:
    """A cpuset list ("0-1,4") as systemd's bitmask: the lowest numbers in the first byte."""
    bits = 0
    for span in text.split(","):
        first, _, last = span.partition("-")
        for number in range(int(first), int(last or first) + 1):
            bits |= 1 << number
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")
