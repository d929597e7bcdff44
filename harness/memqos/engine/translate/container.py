"""One container's CRI message, all the way: to OCI, to Docker, to the files of its cgroup, and what they then show."""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.plan import ContainerResources, Expected
from memqos.engine.translate import docker, oci
from memqos.engine.translate.cri import unsaid
from memqos.engine.translate.runtime_rules import held, held_after_reload, scope_held, written
from memqos.engine.translate.translation import ContainerTranslation, HeldFile
from memqos.engine.translate.versions import Feature, Runtimes
from memqos.engine.translate.writes import Host, RuntimeWrites
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, CgroupVersion, NodeFacts

__all__ = ["translate"]

_NO_RESOURCES = ContainerResources()


def translate(
    sent: ContainerResources,
    runtimes: Runtimes,
    *,
    node: NodeFacts,
    driver: CgroupDriver,
    planned: Mapping[Knob, Expected],
) -> ContainerTranslation:
    """What these runtimes make of a message on this node; planned: the expectations for the container's files.

    A runtime that refuses the message, or a kernel that refuses a text, is a `refusal` and no error.
    """
    v2 = node.cgroup_version is CgroupVersion.V2
    to_oci = oci.create(
        sent,
        runtimes.cri,
        swap_controller=node.swap_controller,
        hugetlb=runtimes.traits.hugetlb,
        oci=runtimes.oci.runtime,
    )
    writes = None
    if v2 and not to_oci.refusal:
        host = Host(driver=driver, swap_file=node.swap_controller, systemd=runtimes.systemd)
        writes = written(to_oci.resources, runtimes.oci, host)
    files, scope, refusal = _held(writes, page_size=node.page_size, systemd=runtimes.systemd)
    return ContainerTranslation(
        cri=str(runtimes.cri),
        oci_runtime=str(runtimes.oci),
        cri_unsaid=unsaid(sent, planned) if v2 else (),
        cri_final=oci.unclearable(sent, _NO_RESOURCES),
        oci=to_oci,
        docker=docker.host_config(
            sent,
            swap_controller=node.swap_controller,
            swap_follows_memory=runtimes.cri.has(Feature.SWAP_FOLLOWS_MEMORY),
        ),
        writes=writes,
        files=files,
        scope=scope,
        refusal=to_oci.refusal or refusal,
    )


def _held(
    writes: RuntimeWrites | None, *, page_size: int, systemd: int
) -> tuple[tuple[HeldFile, ...], tuple[HeldFile, ...], str]:
    """The files of the container's own cgroup, those of a scope above it, and why there are none."""
    if writes is None or writes.refusal:
        return (), (), writes.refusal if writes is not None else ""
    texts = writes.texts
    try:
        own = held(writes, page_size=page_size)
        reloaded = held_after_reload(writes, page_size=page_size, systemd=systemd)
        scope = scope_held(writes, page_size=page_size) if writes.subgroup else {}
    except ValueError as error:
        return (), (), str(error)
    return (
        tuple(
            HeldFile(name=name, written=texts[name], shows=shown, reloaded=reloaded[name])
            for name, shown in own.items()
        ),
        tuple(HeldFile(name=name, written="", shows=shown, reloaded=shown) for name, shown in scope.items()),
        "",
    )
