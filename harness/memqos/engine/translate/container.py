"""One container's CRI message at every hop, down to its files.

Fields that CRI LinuxContainerResources does not express.

In the message zero and empty mean "not specified", so the runtime decides some files, and an update cannot remove a
value.

`created` and `updated` compute the written files for all users: the plan, the translations, the fake runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memqos.engine.translate import docker, oci
from memqos.engine.translate.annotations import AnnotatedRequest, annotated
from memqos.engine.translate.resources import (
    DockerTranslation,
    OciResources,
    OciTranslation,
    RuntimeHost,
    RuntimeWrites,
    Unsayable,
)
from memqos.engine.translate.runsc import as_read
from memqos.engine.translate.runtime_rules import files_held, held_after_reload, runtime_writes, scope_held
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import Feature
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = ["ContainerTranslation", "HeldFile", "created", "created_with", "translate", "updated"]

_NO_SWAP_LIMIT = "the message has no swap limit: the runtime treats a memory limit alone as no swap."
_WHY: Mapping[Knob, str] = {
    Knob.MEMORY_SWAP_MAX: _NO_SWAP_LIMIT,
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: _NO_SWAP_LIMIT,
}


def unsaid(sent: ContainerResources, written: Mapping[str, str]) -> tuple[Unsayable, ...]:
    """Values in the container's files that the runtime adds to the message.

    written: interface file to text, only for files that plans cover.
    """
    said = {
        Knob.MEMORY_MAX: sent.memory_limit_in_bytes,
        Knob.MEMORY_SWAP_MAX: sent.memory_swap_limit_in_bytes,
        Knob.MEMORY_LIMIT_IN_BYTES: sent.memory_limit_in_bytes,
        Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: sent.memory_swap_limit_in_bytes,
        Knob.CPU_WEIGHT: sent.cpu_shares,
        Knob.CPU_SHARES: sent.cpu_shares,
        Knob.CPU_MAX: sent.cpu_quota or sent.cpu_period,
        Knob.CPU_CFS_QUOTA_US: sent.cpu_quota,
        Knob.CPU_CFS_PERIOD_US: sent.cpu_period,
        Knob.CPUSET_CPUS: sent.cpuset_cpus,
        Knob.CPUSET_MEMS: sent.cpuset_mems,
    }
    huge = {f"hugetlb.{size}.{file}" for size, _ in sent.hugepage_limits for file in ("max", "limit_in_bytes")}
    return tuple(
        Unsayable(
            knob=knob,
            value=written[knob],
            why=_WHY.get(knob, "the message has no field for it: the runtime decides."),
        )
        for knob in Knob
        if knob in written and not said.get(knob) and knob not in sent.unified and knob not in huge
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """One interface file.

    written: the text that the OCI runtime writes, "" for none. shows: the file's text then. reloaded: its text after
    `systemctl daemon-reload`, "" if that is not modelled (systemd with cgroup v1).
    """

    name: str
    written: str
    shows: str
    reloaded: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTranslation:
    """The results of one container's CRI message with named versions of the runtimes.

    cri, oci_runtime: the two runtimes with their versions. cri_unsaid: values that the message leaves to the runtime;
    cri_final: values that an update cannot remove. oci: the request to the OCI runtime. docker: the equivalent
    HostConfig. writes: the OCI runtime's writes. files: of the cgroup with the processes; scope: of the systemd scope
    above it, if different. refusal: why there is no container, "" if there is one; files are empty then.
    """

    cri: str
    oci_runtime: str
    cri_unsaid: tuple[Unsayable, ...]
    cri_final: tuple[Unsayable, ...]
    oci: OciTranslation
    docker: DockerTranslation
    writes: RuntimeWrites
    files: tuple[HeldFile, ...] = ()
    scope: tuple[HeldFile, ...] = ()
    refusal: str = ""


_NO_RESOURCES = ContainerResources()
_NOTHING_STORED = OciResources()


def created(sent: ContainerResources, runtimes: Runtimes, host: RuntimeHost) -> tuple[OciTranslation, RuntimeWrites]:
    """The results of CreateContainer with this message: the request to the OCI runtime, and its writes.

    The refusal of either runtime is in the writes.
    """
    to_oci = oci.oci_for_create(
        sent,
        runtimes.cri,
        swap_controller=host.swap_file,
        hugetlb=runtimes.passes_huge_pages,
        oci=runtimes.oci.runtime,
    )
    return _passed_on(to_oci, runtimes, host)


def created_with(
    sent: ContainerResources, annotations: Mapping[str, str], container: str, runtimes: Runtimes, host: RuntimeHost
) -> tuple[AnnotatedRequest, OciTranslation, RuntimeWrites]:
    """The same for a container of a pod with annotations, and the message after annotations."""
    asked = annotated(sent, annotations, container, runtimes)
    if asked.refusal:
        return asked, OciTranslation(resources=_NOTHING_STORED), RuntimeWrites(refusal=asked.refusal)
    return asked, *created(asked.resources, runtimes, host)


def updated(
    sent: ContainerResources, runtimes: Runtimes, host: RuntimeHost, *, stored: OciResources = _NOTHING_STORED
) -> tuple[OciTranslation, RuntimeWrites]:
    """The results of UpdateContainerResources with this message, as in `created`.

    stored: the values that the CRI runtime keeps from earlier messages; without it only this message counts.
    """
    to_oci = oci.oci_for_update(
        stored, sent, runtimes.cri, swap_controller=host.swap_file, hugetlb=runtimes.passes_huge_pages
    )
    return _passed_on(to_oci, runtimes, host, stored=stored)


def _passed_on(
    to_oci: OciTranslation, runtimes: Runtimes, host: RuntimeHost, *, stored: OciResources | None = None
) -> tuple[OciTranslation, RuntimeWrites]:
    if to_oci.refusal:
        return to_oci, RuntimeWrites(refusal=to_oci.refusal)
    if runtimes.sandboxed:
        return to_oci, RuntimeWrites()
    read = as_read(to_oci, runtimes.oci, host.driver)
    return read, runtime_writes(read.resources, runtimes.oci, host, stored=stored)


def translate(sent: ContainerResources, runtimes: Runtimes, host: RuntimeHost) -> ContainerTranslation:
    """The translation of a message by these runtimes on this node.

    If a runtime refuses the message, or the kernel a text, `refusal` has the error.
    """
    to_oci, writes = created(sent, runtimes, host)
    files, scope, refusal = _held(writes, host)
    return ContainerTranslation(
        cri=str(runtimes.cri),
        oci_runtime=str(runtimes.oci),
        cri_unsaid=unsaid(sent, writes.texts),
        cri_final=oci.unclearable(sent, _NO_RESOURCES),
        oci=to_oci,
        docker=docker.host_config(
            sent,
            swap_controller=host.swap_file,
            swap_follows_memory=runtimes.cri.has(Feature.SWAP_FOLLOWS_MEMORY),
        ),
        writes=writes,
        files=files,
        scope=scope,
        refusal=refusal,
    )


def _held(writes: RuntimeWrites, host: RuntimeHost) -> tuple[tuple[HeldFile, ...], tuple[HeldFile, ...], str]:
    """The files of the container's own cgroup, those of a scope above it, and the refusal if there are none."""
    if writes.refusal:
        return (), (), writes.refusal
    texts, page_size = writes.texts, host.page_size
    try:
        own = files_held(writes, page_size=page_size)
        reloaded = held_after_reload(writes, page_size=page_size, systemd=host.systemd)
        scope = scope_held(writes, page_size=page_size) if writes.subgroup else {}
    except ValueError as error:
        return (), (), str(error)
    if host.cgroup_version is CgroupVersion.V1 and host.driver is CgroupDriver.SYSTEMD:
        # A scope of cgroup v1 has properties too, which are not modelled.
        reloaded = {}
    return (
        tuple(
            HeldFile(name=name, written=texts[name], shows=shown, reloaded=reloaded.get(name, ""))
            for name, shown in own.items()
        ),
        tuple(HeldFile(name=name, written="", shows=shown, reloaded=shown) for name, shown in scope.items()),
        "",
    )
