"""From CRI LinuxContainerResources to OCI linux.resources, as containerd, CRI-O and Docker translate on cgroup v2.

Sources: containerd `WithResources` (1.6 to 2.1), CRI-O's container factory and UpdateContainerResources (1.30 to
1.36). In CRI, 0, "" and empty mean "not specified".
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from memqos.engine.translate import docker, podman
from memqos.engine.translate.resources import OciResources, OciTranslation, Unsayable
from memqos.engine.translate.versions import FEATURES, Feature, RuntimeName, Traits
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = ["OciTranslation", "oci_for_create", "oci_for_update", "unclearable"]

_OOM_SCORE_ADJ = "oom_score_adj"
_MIB = 1 << 20
_NOTHING_STORED = OciResources()

# CRI-O refuses less memory than the OCI runtime needs to start a container.
_CRIO_MINIMUM = {
    RuntimeName.CRUN: 500 << 10,
}
_CRIO_DEFAULT_MINIMUM = 12 * _MIB


def oci_for_create(
    sent: ContainerResources,
    cri: Traits,
    *,
    swap_controller: bool = True,
    hugetlb: bool = False,
    oci: RuntimeName = RuntimeName.RUNC,
) -> OciTranslation:
    """The OCI runtime's request of CreateContainer.

    swap_controller: whether the runtime finds memory.swap.max. hugetlb: whether containerd is configured to pass
    huge page limits on (`disable_hugetlb_controller = false`); CRI-O always does. oci: the OCI runtime that will run
    the container, for CRI-O's minimum of memory.
    """
    if cri.runtime is RuntimeName.CRIO:
        return _crio_create(sent, swap_controller=swap_controller, oci=oci)
    if cri.runtime is RuntimeName.DOCKER:
        return docker.translated(sent, swap_controller=swap_controller)
    if cri.runtime is RuntimeName.PODMAN:
        return podman.through_podman(sent, swap_controller=swap_controller)
    if cri.runtime is RuntimeName.CRI_DOCKERD:
        return docker.through_cri_dockerd(sent, update=False, swap_controller=swap_controller)
    resources, unsayable = _containerd_merge(
        _NOTHING_STORED, sent, cri, swap_controller=swap_controller, hugetlb=hugetlb
    )
    return OciTranslation(resources=resources, oom_score_adj=sent.oom_score_adj, unsayable=unsayable)


def oci_for_update(
    stored: OciResources,
    sent: ContainerResources,
    cri: Traits,
    *,
    swap_controller: bool = True,
    hugetlb: bool = False,
) -> OciTranslation:
    """The OCI runtime's request of UpdateContainerResources.

    containerd merges the request into the `stored` specification and sends all of that; CRI-O sends only the request.
    memqos sends Docker all stored values. None changes oom_score_adj. Other arguments as for `oci_for_create`.
    """
    if cri.runtime is RuntimeName.CRIO:
        found = _crio_update(sent, cri, swap_controller=swap_controller)
    elif cri.runtime is RuntimeName.CRI_DOCKERD:
        found = docker.through_cri_dockerd(sent, update=True, swap_controller=swap_controller)
    elif cri.runtime is RuntimeName.DOCKER:
        found = docker.translated(sent, stored=stored, swap_controller=swap_controller)
    elif cri.runtime is RuntimeName.PODMAN:
        found = podman.through_podman(sent, stored=stored, swap_controller=swap_controller)
    else:
        resources, unsayable = _containerd_merge(stored, sent, cri, swap_controller=swap_controller, hugetlb=hugetlb)
        found = OciTranslation(resources=resources, unsayable=unsayable)
    if not sent.oom_score_adj:
        return found
    fixed = Unsayable(
        knob=_OOM_SCORE_ADJ,
        value=str(sent.oom_score_adj),
        why=f"{cri.runtime} sets oom_score_adj when it creates a container, and never again.",
    )
    return replace(found, unsayable=(*found.unsayable, fixed))


def unclearable(before: ContainerResources, after: ContainerResources) -> tuple[Unsayable, ...]:
    """Values that an update cannot remove: CRI has no value for "no longer specified"."""
    why = "in CRI zero and empty mean 'not specified': a value once set can be changed, but not removed."
    fields = (
        (before.memory_limit_in_bytes, after.memory_limit_in_bytes, Knob.MEMORY_MAX, "max"),
        (before.memory_swap_limit_in_bytes, after.memory_swap_limit_in_bytes, Knob.MEMORY_SWAP_MAX, "max"),
        (before.cpu_shares, after.cpu_shares, Knob.CPU_WEIGHT, "100"),
        (before.cpu_quota, after.cpu_quota, Knob.CPU_MAX, "max 100000"),
        (before.cpuset_cpus, after.cpuset_cpus, Knob.CPUSET_CPUS, ""),
        (before.cpuset_mems, after.cpuset_mems, Knob.CPUSET_MEMS, ""),
    )
    gone = [Unsayable(knob=knob, value=value, why=why) for old, new, knob, value in fields if old and not new]
    sizes = {size for size, _ in after.hugepage_limits}
    gone += [_hugetlb(size, "max", why) for size, _ in before.hugepage_limits if size not in sizes]
    known = {knob.value: str(knob.kernel_default) for knob in Knob}
    gone += [
        Unsayable(knob=name, value=known.get(name, ""), why=why)
        for name in sorted(before.unified)
        if name not in after.unified
    ]
    return tuple(gone)


def _containerd_merge(
    stored: OciResources, sent: ContainerResources, cri: Traits, *, swap_controller: bool, hugetlb: bool
) -> tuple[OciResources, tuple[Unsayable, ...]]:
    """Every specified field replaces the stored one; huge page limits are appended."""
    unsayable: list[Unsayable] = []
    swap = stored.memory_swap
    if sent.memory_swap_limit_in_bytes:
        if swap_controller or not cri.has(Feature.SWAP_NEEDS_CONTROLLER):
            swap = sent.memory_swap_limit_in_bytes
        else:
            unsayable.append(_no_swap_controller(sent.memory_swap_limit_in_bytes, sent.memory_limit_in_bytes))
    elif sent.memory_limit_in_bytes and swap_controller and cri.has(Feature.SWAP_FOLLOWS_MEMORY):
        swap = sent.memory_limit_in_bytes
    if not hugetlb:
        unsayable += _dropped(sent.hugepage_limits)
    merged = OciResources(
        memory_limit=sent.memory_limit_in_bytes or stored.memory_limit,
        memory_reservation=stored.memory_reservation,
        memory_swap=swap,
        cpu_shares=sent.cpu_shares or stored.cpu_shares,
        cpu_quota=sent.cpu_quota or stored.cpu_quota,
        cpu_period=sent.cpu_period or stored.cpu_period,
        cpus=sent.cpuset_cpus or stored.cpus,
        mems=sent.cpuset_mems or stored.mems,
        hugepage_limits=stored.hugepage_limits + (sent.hugepage_limits if hugetlb else ()),
        unified={**stored.unified, **sent.unified},
    )
    return merged, tuple(unsayable)


def _crio_create(sent: ContainerResources, *, swap_controller: bool, oci: RuntimeName) -> OciTranslation:
    limit, swap = sent.memory_limit_in_bytes, sent.memory_swap_limit_in_bytes
    unsayable: list[Unsayable] = []
    refusal = ""
    least = _CRIO_MINIMUM.get(oci, _CRIO_DEFAULT_MINIMUM)
    if limit and limit < least:
        refusal = f"set memory limit {limit} too low; should be at least {least} bytes"
    elif limit and swap not in {0, -1} and swap < limit:
        refusal = f"memory swap limit ({swap}) cannot be lower than memory limit ({limit})"
    elif swap and not limit:
        why = "CRI-O ignores a swap limit without a memory limit."
        unsayable.append(Unsayable(knob=Knob.MEMORY_SWAP_MAX, value=_swap_text(swap, limit), why=why))
    elif swap and not swap_controller:
        unsayable.append(_no_swap_controller(swap, limit))
    resources = OciResources(
        memory_limit=limit or None,
        memory_swap=(swap or limit) if limit and swap_controller else None,
        cpu_shares=sent.cpu_shares,
        cpu_quota=sent.cpu_quota,
        cpu_period=sent.cpu_period,
        cpus=sent.cpuset_cpus,
        mems=sent.cpuset_mems,
        hugepage_limits=sent.hugepage_limits,
        unified=dict(sent.unified),
    )
    return OciTranslation(
        resources=OciResources() if refusal else resources,
        oom_score_adj=None if refusal else sent.oom_score_adj,
        unsayable=tuple(unsayable),
        refusal=refusal,
    )


def _crio_update(sent: ContainerResources, cri: Traits, *, swap_controller: bool) -> OciTranslation:
    """CRI-O's update ignores the swap limit: a memory limit turns swap off."""
    limit, swap = sent.memory_limit_in_bytes, sent.memory_swap_limit_in_bytes
    unsayable: list[Unsayable] = []
    if swap and swap != limit:
        why = "CRI-O's update ignores the swap limit: it sets memory+swap to the memory limit, or changes neither."
        unsayable.append(Unsayable(knob=Knob.MEMORY_SWAP_MAX, value=_swap_text(swap, limit), why=why))
    unsayable += [
        _hugetlb(size, str(value), "CRI-O's update passes no huge page limits on.")
        for size, value in sent.hugepage_limits
    ]
    keeps = cri.has(Feature.UPDATE_KEEPS_UNIFIED)
    if not keeps:
        first = FEATURES[RuntimeName.CRIO][Feature.UPDATE_KEEPS_UNIFIED].release
        why = f"CRI-O before {first} drops unified in updates."
        unsayable += [Unsayable(knob=name, value=value, why=why) for name, value in sent.unified.items()]
    return OciTranslation(
        resources=OciResources(
            memory_limit=limit or None,
            memory_swap=limit if limit and swap_controller else None,
            cpu_shares=sent.cpu_shares or None,
            cpu_quota=sent.cpu_quota or None,
            cpu_period=sent.cpu_period or None,
            cpus=sent.cpuset_cpus or None,
            mems=sent.cpuset_mems or None,
            unified=dict(sent.unified) if keeps else {},
        ),
        unsayable=tuple(unsayable),
    )


def _no_swap_controller(swap: int, limit: int) -> Unsayable:
    why = "this node has no memory.swap.max, so the runtime drops the swap limit."
    return Unsayable(knob=Knob.MEMORY_SWAP_MAX, value=_swap_text(swap, limit), why=why)


# A node's containers have few different sizes and limits.
@lru_cache(maxsize=256)
def _dropped(limits: tuple[tuple[str, int], ...]) -> tuple[Unsayable, ...]:
    why = "containerd drops huge page limits while disable_hugetlb_controller is true, which is its default."
    return tuple(_hugetlb(size, str(limit), why) for size, limit in limits)


def _hugetlb(size: str, value: str, why: str) -> Unsayable:
    return Unsayable(knob=f"hugetlb.{size}.max", value=value, why=why)


def _swap_text(swap: int, limit: int) -> str:
    return "max" if swap == -1 else str(max(swap - limit, 0))
