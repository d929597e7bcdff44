"""From OCI linux.resources to the files of a container's cgroup.

On cgroup v1 runc and crun write each field of linux.resources unchanged into its controller's file.

Source: opencontainers/cgroups fs: `CpusetGroup.Set`, `MemoryGroup.Set`, `setMemoryAndSwap`, `CpuGroup.Set`,
`HugetlbGroup.Set`, in the order of `Manager.Set`; systemd/v1.go, where a scope's properties say the same; crun
`update_cgroup_v1_resources`.

`runtime_writes` calls the OCI runtime's module; `values` has the kernel's values of the texts, and `files_held`,
`scope_held` and `held_after_reload` the resulting texts of the files.
"""

from __future__ import annotations

from collections.abc import Iterable

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD, systemd_quota
from memqos.engine.translate.crun import CRUN_SOURCES, crun_writes
from memqos.engine.translate.kernel_text import shows, taken
from memqos.engine.translate.resources import OciResources, RuntimeHost, RuntimeWrites
from memqos.engine.translate.runc import RUNC_SOURCES, runc_writes, set_by_update
from memqos.engine.translate.runsc import RUNSC_SOURCES, runsc_writes
from memqos.engine.translate.specification import SPECIFICATION_SOURCES, specified_writes
from memqos.engine.translate.systemd import SYSTEMD, after_reload, files_of_properties
from memqos.engine.translate.versions import Feature, RuntimeName, Traits
from memqos.model.knob import Knob, KnobValue
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = ["files_held", "held_after_reload", "runtime_writes", "scope_held", "source", "values"]

_UNLIMITED = -1


def written_on_v1(resources: OciResources, traits: Traits, host: RuntimeHost) -> RuntimeWrites:
    """One application of linux.resources to a new cgroup: 0 and "" are "not specified", -1 is "no limit".

    Removing the memory limit also removes the memory+swap limit, unless that is set explicitly. Without swap accounting
    there is no file for memory+swap: runc fails with the error, crun continues. The scope's properties are not
    modelled: they are None.
    """
    if resources.unified:
        return RuntimeWrites(refusal="invalid configuration: cannot use unified on cgroup v1")
    limit, total = resources.memory_limit or 0, resources.memory_swap or 0
    if limit == _UNLIMITED:
        total = total or (_UNLIMITED if host.swap_file else 0)
    if total and not host.swap_file:
        if traits.runtime is RuntimeName.RUNC:
            return RuntimeWrites(refusal=f"open {Knob.MEMORY_MEMSW_LIMIT_IN_BYTES}: no such file or directory")
        total = 0
    quota = resources.cpu_quota or 0
    if host.driver is CgroupDriver.SYSTEMD and traits.has(Feature.ROUNDED_QUOTA_IN_FILE):
        quota = systemd_quota(quota, resources.cpu_period or DEFAULT_PERIOD)
    # The memory limit can never exceed the memory+swap limit.
    amounts = [(Knob.MEMORY_LIMIT_IN_BYTES, limit), (Knob.MEMORY_MEMSW_LIMIT_IN_BYTES, total)]
    if total == _UNLIMITED:
        amounts.reverse()
    fields: list[tuple[str, str | int | None]] = [
        (Knob.CPUSET_CPUS, resources.cpus),
        (Knob.CPUSET_MEMS, resources.mems),
        *amounts,
        (Knob.MEMORY_SOFT_LIMIT_IN_BYTES, resources.memory_reservation),
        (Knob.CPU_SHARES, resources.cpu_shares),
        (Knob.CPU_CFS_PERIOD_US, resources.cpu_period),
        (Knob.CPU_CFS_QUOTA_US, quota),
    ]
    files = [(str(name), str(value)) for name, value in fields if value]
    # Zero huge pages is a limit.
    files += [(f"hugetlb.{size}.limit_in_bytes", str(amount)) for size, amount in resources.hugepage_limits]
    return RuntimeWrites(files=tuple(files))


_WRITERS = {RuntimeName.RUNC: runc_writes, RuntimeName.CRUN: crun_writes, RuntimeName.RUNSC: runsc_writes}
_SOURCES = {RuntimeName.RUNC: RUNC_SOURCES, RuntimeName.CRUN: CRUN_SOURCES, RuntimeName.RUNSC: RUNSC_SOURCES}
# Kata needs no rule: it creates no cgroup for a container.
_WRITERS |= dict.fromkeys((RuntimeName.OTHER_OCI, RuntimeName.KATA), specified_writes)
_SOURCES |= dict.fromkeys((RuntimeName.OTHER_OCI, RuntimeName.KATA), SPECIFICATION_SOURCES)
_HOST = RuntimeHost()
_KNOBS = {knob.value: knob for knob in Knob}


def runtime_writes(
    resources: OciResources, oci: Traits, host: RuntimeHost = _HOST, *, stored: OciResources | None = None
) -> RuntimeWrites:
    """The writes of an OCI runtime of this version for the resources; ValueError for traits of a CRI runtime.

    stored: the container's resources so far, for an update; None for a creation.
    """
    if oci.runtime not in _WRITERS:
        raise ValueError(f"{oci.runtime} writes no interface files: give the traits of runc or crun")
    if stored is not None:
        resources = set_by_update(resources, stored, oci)
        # systemd changes the OOMPolicy of no running scope, so runc sets it only at creation.
        oci = oci.without(Feature.OOM_GROUP_IS_OOM_POLICY)
    if host.cgroup_version is CgroupVersion.V1:
        return written_on_v1(resources, oci, host)
    return _WRITERS[oci.runtime](resources, oci, host)


def source(oci: Traits, knob: Knob) -> str:
    """The place in a runtime's code that computes a file's value; KeyError for a file with the message's own value."""
    return _SOURCES[oci.runtime][knob]


def values(files: Iterable[tuple[str, str]]) -> dict[Knob, KnobValue]:
    """The kernel's values of the texts, for the files that plans cover; ValueError as in `files_held`."""
    found: dict[Knob, KnobValue] = {}
    for name, text in files:
        knob = _KNOBS.get(name)
        if knob is not None:
            try:
                found[knob] = taken(knob, text)
            except ValueError as error:
                raise _refused(name, text, error) from error
    return found


def files_held(writes: RuntimeWrites, *, page_size: int = 4096) -> dict[str, str]:
    """The text of each written file of the container's own cgroup, without unwritten ones.

    Raises ValueError, naming the file, for a text that the kernel refuses: the runtime then fails.
    """
    return _shown(writes.texts, page_size)


def scope_held(writes: RuntimeWrites, *, page_size: int = 4096) -> dict[str, str]:
    """The texts of the scope's files: the container's own, unless it is in a cgroup below the scope.

    In that case the scope has only its properties, so the container's memory.min and memory.low have a parent with zero
    unless the properties set them. Without systemd there is no scope: the container's own files. ValueError as in
    `files_held`.
    """
    properties = writes.properties
    if not writes.subgroup or properties is None:
        return files_held(writes, page_size=page_size)
    texts = files_of_properties(properties)
    if "MemoryLimit" in properties:
        texts[Knob.MEMORY_MAX] = str(properties["MemoryLimit"])
    return _shown(texts, page_size)


def held_after_reload(writes: RuntimeWrites, *, page_size: int = 4096, systemd: int = SYSTEMD) -> dict[str, str]:
    """The texts of the container's own files after `systemctl daemon-reload`; systemd: its version.

    Files below the scope are delegated: systemd does not write them, as without a scope. ValueError as in `files_held`.
    """
    if writes.subgroup or writes.properties is None:
        return files_held(writes, page_size=page_size)
    return _shown(after_reload(writes.texts, writes.properties, systemd), page_size)


def _shown(texts: dict[str, str], page_size: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in texts.items():
        try:
            found[name] = shows(name, text, page_size)
        except ValueError as error:
            raise _refused(name, text, error) from error
    return found


def _refused(name: str, text: str, error: ValueError) -> ValueError:
    return ValueError(f"{name}: the kernel refuses '{text}': {error}")
