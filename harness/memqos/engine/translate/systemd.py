"""The unit properties of interface files, and the effect of a daemon-reload on a file.

Whenever systemd applies a unit again, as after a daemon-reload, it writes every memory, cpu and cpuset file that it
knows: from the unit's property if set, else its own default. Files that it does not know keep their value. Source:
systemd `cgroup_context_apply` (244 to 257), `bus_scope_set_transient_property`; opencontainers/cgroups
`unifiedResToSystemdProps`, `UnifiedManager.Apply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from memqos.engine.cgroup import cpu
from memqos.model.knob import Knob

__all__ = [
    "INFINITY",
    "LEGACY_PROPERTY_OF",
    "OOM_POLICY",
    "OOM_POLICY_OF",
    "PROPERTY_OF",
    "SYSTEMD",
    "Survival",
    "after_reload",
    "files_of_properties",
    "known_properties",
    "property_number",
    "property_of",
    "quota_property",
    "survival",
]

SYSTEMD = 257
"""The default version: Debian trixie's."""

INFINITY = 2**64 - 1
"""The property value for "max"."""

PROPERTY_OF: Mapping[str, str] = {
    Knob.MEMORY_MIN: "MemoryMin",
    Knob.MEMORY_LOW: "MemoryLow",
    Knob.MEMORY_HIGH: "MemoryHigh",
    Knob.MEMORY_MAX: "MemoryMax",
    Knob.MEMORY_SWAP_MAX: "MemorySwapMax",
    "memory.zswap.max": "MemoryZSwapMax",
    Knob.CPU_WEIGHT: "CPUWeight",
    Knob.CPU_MAX: "CPUQuotaPerSecUSec",
    Knob.CPUSET_CPUS: "AllowedCPUs",
    Knob.CPUSET_MEMS: "AllowedMemoryNodes",
    Knob.PIDS_MAX: "TasksMax",
}
"""Interface file to the property that systemd writes it from."""

LEGACY_PROPERTY_OF: Mapping[str, str] = {Knob.MEMORY_LIMIT_IN_BYTES: "MemoryLimit", Knob.CPU_SHARES: "CPUShares"}
"""The same for the files of cgroup v1; its quota and period are two files with the properties of cpu.max."""

_PROPERTIES = {**PROPERTY_OF, **LEGACY_PROPERTY_OF}

OOM_POLICY = "OOMPolicy"
"""The property from which systemd writes memory.oom.group. A scope has it only from its creation: no update sets it."""

OOM_POLICY_OF: Mapping[str, str] = {"0": "continue", "1": "kill"}
"""The OOMPolicy of a scope for each text of memory.oom.group."""

# The first version with a property of scopes; all others exist since 240.
_SINCE: Mapping[str, int] = {
    "CPUQuotaPeriodUSec": 242,
    "AllowedCPUs": 244,
    "AllowedMemoryNodes": 244,
    OOM_POLICY: 253,
    "MemoryZSwapMax": 253,
}

# The first version that writes a file, if the property of scopes is newer.
_WRITTEN_SINCE: Mapping[str, int] = {OOM_POLICY: 243}

# systemd's value without a property.
_DEFAULTS: Mapping[str, str] = {
    **{name: str(Knob(name).kernel_default) for name in PROPERTY_OF if name != "memory.zswap.max"},
    "memory.zswap.max": "max",
    Knob.MEMORY_OOM_GROUP: "0",
}


def property_of(name: str) -> str:
    """The property from which systemd writes a file of cgroup v1 or v2; "" for none."""
    return OOM_POLICY if name == Knob.MEMORY_OOM_GROUP else _PROPERTIES.get(name, "")


class Survival(Enum):
    """The effect of the next daemon-reload on a written file.

    KEPT: a property has the same value. RESET: systemd writes its default. UNKNOWN: systemd does not know the file and
    does not write it.
    """

    KEPT = "kept"
    RESET = "reset"
    UNKNOWN = "left alone"


def property_number(name: str, text: str) -> int:
    """The number of a property for a unified entry; ValueError unless it is decimal or "max".

    The kernel accepts more ("1G", "0x100"); runtimes pass only plain numbers to systemd.
    """
    text = text.strip()
    if text == "max":
        return INFINITY
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"unified resource '{name}' value conversion error: '{text}' is neither a number nor max")
    return int(text)


def quota_property(quota: int, period: int) -> int:
    """CPUQuotaPerSecUSec in µs, a whole percent of one CPU rounded up; INFINITY without a (positive) quota."""
    return INFINITY if quota <= 0 else cpu.quota_per_second(quota, period)


def known_properties(properties: Mapping[str, int | str], systemd: int) -> dict[str, int | str]:
    """The properties that this version of systemd has: runtimes omit the others."""
    return {name: value for name, value in properties.items() if systemd >= _SINCE.get(name, 0)}


def survival(name: str, properties: Mapping[str, int | str], systemd: int = SYSTEMD) -> Survival:
    """The effect of a daemon-reload on a file of a unit with these properties; systemd: its version."""
    prop = property_of(name)
    if name not in _DEFAULTS or systemd < _WRITTEN_SINCE.get(prop, _SINCE.get(prop, 0)):
        return Survival.UNKNOWN
    return Survival.KEPT if prop in properties else Survival.RESET


def after_reload(
    files: Mapping[str, str], properties: Mapping[str, int | str], systemd: int = SYSTEMD
) -> dict[str, str]:
    """The texts of the unit's files after a daemon-reload, before the kernel's rounding.

    files: their texts before, by name. systemd: its version.
    """
    return {name: _reloaded(name, text, properties, systemd) for name, text in files.items()}


def files_of_properties(properties: Mapping[str, int | str], systemd: int = SYSTEMD) -> dict[str, str]:
    """The texts that systemd writes for these properties into files of their unit, before the kernel's rounding."""
    return after_reload({name: "" for name, prop in PROPERTY_OF.items() if prop in properties}, properties, systemd)


def _reloaded(name: str, text: str, properties: Mapping[str, int | str], systemd: int) -> str:
    fate = survival(name, properties, systemd)
    if fate is Survival.UNKNOWN:
        return text
    if fate is Survival.RESET:
        return _DEFAULTS[name]
    if name == Knob.MEMORY_OOM_GROUP:
        return "1" if properties[OOM_POLICY] == OOM_POLICY_OF["1"] else "0"
    value = properties[PROPERTY_OF[name]]
    if name == Knob.CPU_MAX:
        period = int(properties.get("CPUQuotaPeriodUSec", 100_000))
        return f"max {period}" if value == INFINITY else f"{int(value) * period // 1_000_000} {period}"
    return "max" if value == INFINITY else str(value)
