"""PURE: a plan as ordered steps, in the kubelet's order: kubepods, reserved cgroups, QoS classes, pods.

A step is data; `apply` performs it. Containers belong to the runtime and have no step.

Also PURE: translation of knobs to properties of systemd units, as libcontainer's systemd driver does it. Sources:
opencontainers/cgroups systemd/v2.go (genV2ResourcesProps, unifiedResToSystemdProps), systemd/v1.go
(genV1ResourcesProperties, Apply) and systemd/common.go (addCpuQuota, addCpuset). Knobs without a systemd property
(memory.oom.group of a slice, memory.memsw.limit_in_bytes, hugetlb) are only written to files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD, quota_per_second
from memqos.engine.plan import Level, Plan, PlannedCgroup
from memqos.engine.translate.systemd import INFINITY, LEGACY_PROPERTY_OF, PROPERTY_OF
from memqos.model.knob import Absent, Bytes, CpuMax, Knob, KnobValue, Max, Number, Text, Unlimited
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.path import CgroupPath

__all__ = [
    "Action",
    "Property",
    "Step",
    "cgroup_subject",
    "kept_properties",
    "removal",
    "rewriting",
    "slice_properties",
    "steps",
    "steps_between",
    "undoing",
    "unit_of",
    "value_properties",
]

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
    """A property of a unit: name, D-Bus signature, and its value; for signature "ay" the bytes as numbers."""

    name: str
    signature: str
    value: str | bool | int | tuple[str, ...] | tuple[int, ...]


def unit_of(path: CgroupPath) -> str:
    """This cgroup's slice; ValueError if its name is not a slice's."""
    if not path.name.endswith(".slice"):
        raise ValueError(f"'{path}' is not a slice, so systemd cannot make it")
    return path.name


def kept_properties(version: CgroupVersion) -> tuple[str, ...]:
    """Every property that `value_properties` may set: memqos saves these of a slice that it did not create."""
    return (*(name for knob, name in _PROPERTIES.items() if version in knob.versions), *_QUOTA)


def slice_properties(path: CgroupPath, description: str, version: CgroupVersion) -> tuple[Property, ...]:
    """The properties that libcontainer gives every slice it creates, whatever its resources."""
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


# libcontainer's order of writing (fs2.Manager.Set): classic fields first, `unified` last, so a value that must be
# below another one, like memory.high below memory.max, is written after it. The files of cgroup v1 are in the
# order of fs.Manager.Set.
_WRITE_ORDER = (
    Knob.PIDS_MAX,
    Knob.MEMORY_SWAP_MAX,
    Knob.MEMORY_MAX,
    Knob.CPU_WEIGHT,
    Knob.CPU_MAX,
    Knob.CPUSET_CPUS,
    Knob.CPUSET_MEMS,
    Knob.HUGETLB_2MB_MAX,
    Knob.HUGETLB_1GB_MAX,
    Knob.MEMORY_MIN,
    Knob.MEMORY_LOW,
    Knob.MEMORY_HIGH,
    Knob.MEMORY_OOM_GROUP,
    Knob.MEMORY_LIMIT_IN_BYTES,
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES,
    Knob.CPU_SHARES,
    Knob.CPU_CFS_PERIOD_US,
    Knob.CPU_CFS_QUOTA_US,
    Knob.HUGETLB_2MB_LIMIT_IN_BYTES,
    Knob.HUGETLB_1GB_LIMIT_IN_BYTES,
)


class Action(StrEnum):
    """The kind of a step.

    ADOPT: write to an existing cgroup and save its former values; create it if it is missing. GIVE_BACK: undo that:
    restore the saved values, or remove what was created.
    """

    MAKE = "make"
    ADOPT = "adopt"
    CHANGE = "change"
    REMOVE = "remove"
    GIVE_BACK = "give back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One cgroup to create, adopt, change, give back or remove.

    subject: the cgroup's name for readers. unit: its systemd slice, "" with the cgroupfs driver. properties: set
    through systemd before any write. writes: interface file and text, in this order. making: further properties for a
    slice that an adoption has to create. keeps, keeps_properties: interface files and properties whose values are saved
    for GIVE_BACK.
    """

    action: Action
    subject: str
    path: CgroupPath
    unit: str = ""
    properties: tuple[Property, ...] = ()
    writes: tuple[tuple[str, str], ...] = ()
    making: tuple[Property, ...] = ()
    keeps: tuple[str, ...] = ()
    keeps_properties: tuple[str, ...] = ()


def steps(plan: Plan) -> tuple[Step, ...]:
    """The steps that enforce this plan on a node where none of its cgroups exists, except perhaps the reserved ones.

    A kubelet does not create the cgroups of systemReservedCgroup and kubeReservedCgroup: it requires that they exist
    (`enforceNodeAllocatable`), and changes their values. So an existing one is adopted; a missing one, which an
    administrator would have created, is created for the test.
    """
    return tuple(_make(cgroup, plan) for cgroup in _enforced(plan))


def steps_between(before: Plan, after: Plan) -> tuple[Step, ...]:
    """The steps from one enforced plan to another of the same driver.

    As in the kubelet, absent knobs are not written: a value of `before` that `after` does not write stays in the file.
    Removals come last, children before parents.
    """
    if before.driver is not after.driver:
        raise ValueError("a node's cgroup driver cannot change while its cgroups exist")
    old = {cgroup.path: cgroup for cgroup in _enforced(before)}
    new = {cgroup.path: cgroup for cgroup in _enforced(after)}
    found: list[Step] = []
    for path, cgroup in new.items():
        if path not in old:
            found.append(_make(cgroup, after))
        elif _written(cgroup) != _written(old[path]):
            found.append(_change(cgroup, after.driver))
    found += (removal(cgroup, after.driver) for path, cgroup in reversed(old.items()) if path not in new)
    return tuple(found)


def rewriting(cgroup: PlannedCgroup, driver: CgroupDriver, *, past_driver: bool = False) -> Step:
    """The step that writes only these knobs into an existing cgroup.

    past_driver: write only the files, so that systemd does not notice.
    """
    step = _change(cgroup, driver)
    return replace(step, properties=()) if past_driver else step


def removal(cgroup: PlannedCgroup, driver: CgroupDriver) -> Step:
    """The step that removes this cgroup from the plan: a reserved one is given back, any other is removed."""
    action = Action.GIVE_BACK if cgroup.level is Level.RESERVED else Action.REMOVE
    return Step(action=action, subject=cgroup_subject(cgroup), path=cgroup.path, unit=_unit(cgroup.path, driver))


def undoing(step: Step) -> Step:
    """The step that undoes the creation or adoption of a cgroup."""
    action = Action.GIVE_BACK if step.action is Action.ADOPT else Action.REMOVE
    return Step(action=action, subject=step.subject, path=step.path, unit=step.unit)


def cgroup_subject(cgroup: PlannedCgroup) -> str:
    """A cgroup's name for readers: "kubepods", "reserved /sysres.slice", "QoS class Burstable", "pod 1234"."""
    match cgroup.level:
        case Level.NODE:
            return "kubepods"
        case Level.QOS:
            return f"QoS class {cgroup.qos}"
        case Level.POD:
            return f"pod {cgroup.pod}"
        case _:
            return f"{cgroup.level} {cgroup.path}"


def _enforced(plan: Plan) -> Iterator[PlannedCgroup]:
    yield plan.node
    yield from plan.reserved
    yield from plan.qos
    yield from (pod.cgroup for pod in plan.pods)


def _make(cgroup: PlannedCgroup, plan: Plan) -> Step:
    if cgroup.level is Level.RESERVED:
        return _adopt(cgroup, plan)
    properties: tuple[Property, ...] = ()
    if plan.driver is CgroupDriver.SYSTEMD:
        properties = _of_slice(cgroup, plan) + value_properties(_written(cgroup))
    return _step(Action.MAKE, cgroup, plan.driver, properties)


def _adopt(cgroup: PlannedCgroup, plan: Plan) -> Step:
    systemd = plan.driver is CgroupDriver.SYSTEMD
    values = value_properties(_written(cgroup)) if systemd else ()
    return replace(
        _step(Action.ADOPT, cgroup, plan.driver, values),
        making=_of_slice(cgroup, plan) if systemd else (),
        # Files that are never written are not saved, and some could not be written back (memory.oom_control).
        keeps=tuple(str(knob) for knob in cgroup.knobs if knob in _WRITE_ORDER),
        keeps_properties=kept_properties(plan.cgroup_version) if systemd else (),
    )


def _of_slice(cgroup: PlannedCgroup, plan: Plan) -> tuple[Property, ...]:
    return slice_properties(cgroup.path, f"memqos: {cgroup_subject(cgroup)}", plan.cgroup_version)


def _change(cgroup: PlannedCgroup, driver: CgroupDriver) -> Step:
    systemd = driver is CgroupDriver.SYSTEMD
    return _step(Action.CHANGE, cgroup, driver, value_properties(_written(cgroup)) if systemd else ())


def _step(action: Action, cgroup: PlannedCgroup, driver: CgroupDriver, properties: tuple[Property, ...]) -> Step:
    return Step(
        action=action,
        subject=cgroup_subject(cgroup),
        path=cgroup.path,
        unit=_unit(cgroup.path, driver),
        properties=properties,
        writes=tuple(_writes(_written(cgroup))),
    )


def _unit(path: CgroupPath, driver: CgroupDriver) -> str:
    return unit_of(path) if driver is CgroupDriver.SYSTEMD else ""


def _written(cgroup: PlannedCgroup) -> Mapping[Knob, KnobValue]:
    values = {knob: expected.written for knob, expected in cgroup.knobs.items()}
    return {knob: value for knob, value in values.items() if not isinstance(value, Absent)}


def _writes(written: Mapping[Knob, KnobValue]) -> Iterable[tuple[str, str]]:
    return ((str(knob), str(written[knob])) for knob in _WRITE_ORDER if knob in written)
