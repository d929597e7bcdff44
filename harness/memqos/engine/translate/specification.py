"""Expectations from the specifications, for an OCI runtime or a CRI server that is not modelled.

The OCI runtime specification defines the files for these fields of linux.resources: limits of memory, of memory and
swap together, quota and period, CPUs and nodes, and every entry of unified. It does not define the conversion of
cpu.shares to cpu.weight, the file of a limit of huge pages, and unrequested writes. CRI defines the fields; known
servers drop unified entries, swap limits and limits of huge pages.
Source: opencontainers/runtime-spec config-linux.md, "Control groups"; cri-api v1 LinuxContainerResources.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping

from memqos.engine.cgroup.cpu import DEFAULT_PERIOD
from memqos.engine.translate.resources import OciResources, Refused, RuntimeHost, RuntimeWrites, checked_unified
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import (
    CRI_RUNTIMES,
    DRIVEN_DIRECTLY,
    OF_CLASS,
    RuntimeName,
    Traits,
    newer_than_modelled,
)
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver

__all__ = [
    "SPECIFICATION_SOURCES",
    "judged_by",
    "left_open_after",
    "not_modelled",
    "refusal_left_open",
    "runtime_notes",
    "specified_writes",
    "stand_in",
    "unmodelled",
    "unspecified",
    "without_exec",
    "without_update",
]

SPECIFICATION_SOURCES: Mapping[Knob, str] = {
    Knob.MEMORY_MAX: "OCI runtime specification, linux.resources.memory.limit",
    Knob.MEMORY_SWAP_MAX: "OCI runtime specification, linux.resources.memory.swap",
    Knob.MEMORY_LIMIT_IN_BYTES: "OCI runtime specification, linux.resources.memory.limit",
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: "OCI runtime specification, linux.resources.memory.swap",
    Knob.CPU_WEIGHT: "OCI runtime specification, linux.resources.cpu.shares",
    Knob.CPU_SHARES: "OCI runtime specification, linux.resources.cpu.shares",
    Knob.CPU_MAX: "OCI runtime specification, linux.resources.cpu.quota",
    Knob.CPU_CFS_QUOTA_US: "OCI runtime specification, linux.resources.cpu.quota",
    Knob.CPU_CFS_PERIOD_US: "OCI runtime specification, linux.resources.cpu.period",
    Knob.CPUSET_CPUS: "OCI runtime specification, linux.resources.cpu.cpus",
    Knob.CPUSET_MEMS: "OCI runtime specification, linux.resources.cpu.mems",
}
"""Its section that decides a file's value."""

_SUFFIXED = re.compile(r"[0-9]+[KMGTPEkmgtpe]")
"""An amount that only the kernel reads (memparse)."""

_SANDBOX = (
    "{runtime} runs all containers of a pod in one sandbox: the container's own cgroup is empty and limits nothing, "
    "the pod's limit counts"
)
_STAND_IN: Mapping[RuntimeName, tuple[str, str]] = {
    RuntimeName.RUNSC: (_SANDBOX, "gVisor runsc/container, setupCgroupForSubcontainer (no resources)"),
    RuntimeName.KATA: (
        "{runtime} runs all containers of a pod in one virtual machine, and the pod's limit counts",
        "Kata Containers docs/design/host-cgroups.md; runtime/virtcontainers, createResourceController",
    ),
}


def specified_writes(resources: OciResources, traits: Traits, host: RuntimeHost) -> RuntimeWrites:
    """The files on cgroup v2 that every runtime must write for linux.resources; it may write others too."""
    subgroup = traits.subgroup if host.driver is CgroupDriver.SYSTEMD else ""
    try:
        checked_unified(resources.unified)
    except Refused as refused:
        return RuntimeWrites(refusal=str(refused))
    return RuntimeWrites(files=(*_files(resources), *resources.unified.items()), subgroup=subgroup)


def stand_in(runtimes: Runtimes) -> tuple[str, str]:
    """Why the cgroup of a container in a sandbox has none of the requested values, and the source."""
    rule, source = _STAND_IN[runtimes.oci.runtime]
    return rule.format(runtime=runtimes.oci), source


_UPDATED: Mapping[RuntimeName, tuple[str, str]] = {
    RuntimeName.RUNSC: (
        "{runtime} keeps the new resources in its own state and writes no interface file: the pod's limit counts",
        "gVisor runsc/container, Update (the sandbox's root container alone)",
    ),
    RuntimeName.KATA: (
        "{runtime} passes the new resources on to the virtual machine of the pod; on the host the pod's limit counts",
        "Kata Containers runtime/virtcontainers, Container.update",
    ),
}


def reach_of_update(runtimes: Runtimes) -> tuple[str, str]:
    """The effect of UpdateContainerResources if it does not write the container's interface files, and the source.

    ("", "") for runtimes that write these files. For a runtime that is not modelled, the effect is unknown.
    """
    oci = runtimes.oci
    if runtimes.sandboxed:
        rule, source = _UPDATED[oci.runtime]
        return rule.format(runtime=oci), source
    return ("", "") if oci.modelled else (without_update(oci), "OCI runtime specification, runtime.md")


def unmodelled(knob: Knob, sent: ContainerResources, to_oci: OciResources, runtimes: Runtimes) -> str:
    """Why nothing is expected of a container's file, "" if something is.

    sent: the CRI request. to_oci: the OCI runtime's request.
    """
    cri, oci = runtimes.cri, runtimes.oci
    if oci.runtime is RuntimeName.KATA:
        return f"{oci} makes no cgroup on the host for a container: its files are those inside the virtual machine"
    if not cri.modelled and knob not in set(_said_by_cri(sent)):
        return f"{cri} is not modelled, and CRI does not specify this file"
    if not oci.modelled and knob not in set(_said_by_oci(to_oci)):
        return unspecified(oci)
    return ""


def unspecified(oci: Traits | str) -> str:
    """Why nothing is expected of a file that linux.resources does not decide; oci: the runtime, or its name."""
    return f"{oci} is not modelled, and the OCI runtime specification does not specify this file"


def left_open_after(asked: OciResources, values: Collection[Knob], knob: Knob, oci: Traits, *, update: bool) -> str:
    """Why nothing is expected of a file after a direct request to an OCI runtime, "" if something is.

    asked: the resources of the last request. values: the files that the requests so far decide. update: whether the
    last request is an update: the specification has no update, so only the values that it names are expected.
    """
    if oci.modelled or (knob in values and (not update or knob in set(_said_by_oci(asked)))):
        return ""
    return without_update(oci) if update and knob in values else unspecified(oci)


def refusal_left_open(asked: OciResources, oci: Traits, driver: CgroupDriver) -> str:
    """Why a runtime that is not modelled may refuse or accept to create such a container, "" if it must accept it.

    On cgroup v2 no file expresses a limit of memory and swap together that is below the memory limit or without one.
    With the systemd driver a runtime may set unified entries as properties, which are numbers without suffixes.
    """
    if oci.modelled:
        return ""
    if not _has_swap_limit(asked) and asked.memory_swap is not None:
        return f"{oci} is not modelled, and no value of memory.swap.max expresses this memory-plus-swap limit"
    if driver is CgroupDriver.SYSTEMD and any(map(_SUFFIXED.fullmatch, asked.unified.values())):
        return f"{oci} is not modelled: it may set unified entries as properties of the unit, which have no suffixes"
    return ""


def _has_swap_limit(asked: OciResources) -> bool:
    """Whether the limits decide memory.swap.max by the specification."""
    limit, both = asked.memory_limit or 0, asked.memory_swap or 0
    return limit != 0 and (both < 0 or 0 < limit <= both)


def without_update(oci: Traits) -> str:
    """Why nothing is expected of an update, or of a file that it does not name, with a runtime that is not modelled."""
    return f"{oci} is not modelled, and the OCI runtime specification has no update"


def without_exec(oci: Traits) -> str:
    """Why nothing is expected of a process that an OCI runtime's exec starts, "" for a runtime that is modelled."""
    return "" if oci.modelled else f"{oci} is not modelled, and the OCI runtime specification has no exec"


def not_modelled(runtimes: Runtimes) -> Iterator[str]:
    """The runtimes without a complete model of their files."""
    for one in (runtimes.cri, runtimes.oci):
        if not one.modelled or one.runtime is RuntimeName.KATA:
            yield str(one)


def judged_by(one: Traits) -> str:
    """The grounds for judging containers of a runtime that is not modelled; one clause without the full stop."""
    by, rest = (
        ("the fields of CRI", "limits of memory and CPU and sets of CPUs and nodes")
        if one.runtime is RuntimeName.OTHER_CRI
        else ("the OCI runtime specification", "limits, sets of CPUs and nodes, and unified entries")
    )
    return f"not modelled: its containers are judged only by {by} ({rest}), all else is not observable"


def runtime_notes(runtimes: Runtimes) -> Iterator[tuple[str, str]]:
    """Remarks about these runtimes: which one, and one sentence without the full stop."""
    for one in (runtimes.cri, runtimes.oci):
        if not one.modelled:
            close = difflib.get_close_matches(one.called.split(" ")[0], _MODELLED, n=1, cutoff=0.75)
            meant = f"; did you mean '{close[0]}'?" if close else ""
            if one.called.startswith(OF_CLASS):
                meant = f"; --runtime-class {one.called.removeprefix(OF_CLASS)}=NAME@VERSION names it"
            yield str(one), f"{judged_by(one)}{meant}"
        newest = newer_than_modelled(one)
        if newest:
            yield str(one), f"newer than {newest}, the newest modelled release: memqos assumes the same behaviour"
    if runtimes.sandboxed:
        yield str(runtimes.oci), _STAND_IN[runtimes.oci.runtime][0].removeprefix("{runtime} ")


_MODELLED = [name.value for name in (*CRI_RUNTIMES, RuntimeName.CRI_DOCKERD, *DRIVEN_DIRECTLY, RuntimeName.KATA)]


def _said_by_cri(sent: ContainerResources) -> Iterator[Knob]:
    """The files whose fields every CRI server is assumed to pass on."""
    if sent.memory_limit_in_bytes:
        yield from (Knob.MEMORY_MAX, Knob.MEMORY_LIMIT_IN_BYTES)
    if sent.cpu_quota or sent.cpu_period:
        yield from (Knob.CPU_MAX, Knob.CPU_CFS_QUOTA_US, Knob.CPU_CFS_PERIOD_US)
    if sent.cpu_shares:
        yield from (Knob.CPU_WEIGHT, Knob.CPU_SHARES)
    if sent.cpuset_cpus:
        yield Knob.CPUSET_CPUS
    if sent.cpuset_mems:
        yield Knob.CPUSET_MEMS


def _said_by_oci(asked: OciResources) -> Iterator[Knob]:
    """The files that linux.resources decides by the specification."""
    if asked.memory_limit:
        yield from (Knob.MEMORY_MAX, Knob.MEMORY_LIMIT_IN_BYTES)
        if _has_swap_limit(asked):
            yield from (Knob.MEMORY_SWAP_MAX, Knob.MEMORY_MEMSW_LIMIT_IN_BYTES)
    if asked.cpu_quota or asked.cpu_period:
        yield from (Knob.CPU_MAX, Knob.CPU_CFS_QUOTA_US, Knob.CPU_CFS_PERIOD_US)
    if asked.cpu_shares:
        yield Knob.CPU_SHARES
    if asked.cpus:
        yield Knob.CPUSET_CPUS
    if asked.mems:
        yield Knob.CPUSET_MEMS
    yield from (knob for knob in Knob if knob.value in asked.unified)


def _files(asked: OciResources) -> Iterator[tuple[str, str]]:
    limit, both = asked.memory_limit or 0, asked.memory_swap or 0
    if limit:
        yield Knob.MEMORY_MAX, _text(limit)
        if _has_swap_limit(asked):
            yield Knob.MEMORY_SWAP_MAX, "max" if both < 0 else str(both - limit)
    if asked.cpu_quota or asked.cpu_period:
        yield Knob.CPU_MAX, f"{_text(asked.cpu_quota or -1)} {asked.cpu_period or DEFAULT_PERIOD}"
    if asked.cpus:
        yield Knob.CPUSET_CPUS, asked.cpus
    if asked.mems:
        yield Knob.CPUSET_MEMS, asked.mems


def _text(amount: int) -> str:
    return "max" if amount < 0 else str(amount)
