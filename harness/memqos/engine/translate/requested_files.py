"""What each file must show of a container that a runtime was asked for directly, with its reason.

`requested` says what the runtimes make of the requests. Files that no request names are expected of as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from memqos.engine.answer.unnamed import shown_of_asked
from memqos.engine.plan import Expected, Input, Level, PlannedCgroup, Reason, Ruling, expected, kernel_revision
from memqos.engine.translate.requested import UNIT_PROPERTY, AnyRequest, OciRequest, RequestedContainer
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.runtime_rules import source, values
from memqos.engine.translate.specification import left_open_after
from memqos.engine.translate.systemd import PROPERTY_OF, files_of_properties
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob
from memqos.model.path import CgroupPath

__all__ = ["PROTECTION", "asked_settings", "requested_cgroup", "scope_cgroup"]

PROTECTION = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
"""What a container is protected with by so much alone as the scope above it has too."""

_FIELDS: Mapping[Knob, tuple[str, ...]] = {
    Knob.MEMORY_MAX: ("memory_limit_in_bytes",),
    Knob.MEMORY_SWAP_MAX: ("memory_swap_limit_in_bytes", "memory_limit_in_bytes"),
    Knob.CPU_WEIGHT: ("cpu_shares",),
    Knob.CPU_MAX: ("cpu_quota", "cpu_period"),
    Knob.CPUSET_CPUS: ("cpuset_cpus",),
    Knob.CPUSET_MEMS: ("cpuset_mems",),
    Knob.HUGETLB_2MB_MAX: ("hugepage_limits",),
    Knob.HUGETLB_1GB_MAX: ("hugepage_limits",),
}
"""The fields of CRI LinuxContainerResources that become a file; `unified` names files itself."""

_DOCKER_FIELDS: Mapping[Knob, tuple[str, ...]] = {
    Knob.MEMORY_MAX: ("Memory",),
    Knob.MEMORY_SWAP_MAX: ("MemorySwap", "Memory"),
    Knob.MEMORY_LOW: ("MemoryReservation",),
    Knob.CPU_WEIGHT: ("CpuShares",),
    Knob.CPU_MAX: ("CpuQuota", "CpuPeriod"),
    Knob.CPUSET_CPUS: ("CpusetCpus",),
    Knob.CPUSET_MEMS: ("CpusetMems",),
    Knob.PIDS_MAX: ("PidsLimit",),
}
"""The same of Docker's HostConfig."""

_OCI_FIELDS: Mapping[Knob, tuple[str, ...]] = {
    Knob.MEMORY_MAX: ("memory_limit",),
    Knob.MEMORY_SWAP_MAX: ("memory_swap", "memory_limit"),
    Knob.MEMORY_LOW: ("memory_reservation",),
    Knob.CPU_WEIGHT: ("cpu_shares",),
    Knob.CPU_MAX: ("cpu_quota", "cpu_period"),
    Knob.CPUSET_CPUS: ("cpus",),
    Knob.CPUSET_MEMS: ("mems",),
}
"""The same of linux.resources."""


def requested_cgroup(
    container: RequestedContainer, knobs: Iterable[Knob], *, name: str, parent: CgroupPath
) -> PlannedCgroup:
    """What each of these files must show, with its reason; parent: the cgroup that the container was made in."""
    return PlannedCgroup(
        level=Level.CONTAINER,
        path=parent,
        container=name,
        knobs={knob: _expected(container, knob) for knob in knobs},
    )


def scope_cgroup(container: RequestedContainer, *, name: str, parent: CgroupPath) -> PlannedCgroup:
    """What the systemd scope above the container's own cgroup must show of protection, and of what annotations ask.

    It holds what the runtime made properties of, and no more.
    """
    annotated = {knob for held in container.held for knob in values(files_of_properties(held.annotated).items())}
    return PlannedCgroup(
        level=Level.CONTAINER,
        path=parent,
        container=name,
        knobs={knob: _of_scope(container, knob) for knob in Knob if knob in {*PROTECTION, *annotated}},
    )


def asked_settings(container: RequestedContainer, judged: Collection[str]) -> dict[str, str | None]:
    """What files show that requests name as they are, by `unified`, beside these that are judged as knobs.

    The last request that names a file decides. None: it is not certain how the file shows the text.
    """
    named: dict[str, str] = {}
    for request in container.requests:
        resources = request.resources if isinstance(request, OciRequest) else request
        if isinstance(resources, ContainerResources | OciResources):
            named |= resources.unified
    page_size = container.host.page_size
    return {name: shown_of_asked(name, text, page_size) for name, text in named.items() if name not in judged}


def _of_scope(container: RequestedContainer, knob: Knob) -> Expected:
    several = [values(files_of_properties(held.properties).items()).get(knob, ABSENT) for held in container.held]
    first, *others = dict.fromkeys(several)
    name = PROPERTY_OF[knob]
    reason = Reason(
        rule=f"the scope has no {name}: the default applies" if first is ABSENT else f"{name} of the scope is set",
        revision=str(container.runtimes.oci),
        source="crun append_resources, append_systemd_annotation",
    )
    ruling = Ruling(first, lambda: reason, tuple(others))
    return expected(knob, ruling, page_size=container.host.page_size, reasons=True)


def _expected(container: RequestedContainer, knob: Knob) -> Expected:
    first, *others = dict.fromkeys(held.values.get(knob, ABSENT) for held in container.held)
    reason = _untouched(container, knob) if first is ABSENT and not others else _written(container, knob)
    why = _left_open(container, knob)
    if why:
        reason = Reason(rule=why, revision=str(container.runtimes), source="not modelled")
    ruling = Ruling(first, lambda: reason, tuple(others), unasked=container.unasked.get(knob, ""), unmodelled=why)
    return expected(knob, ruling, page_size=container.host.page_size, reasons=True)


def _left_open(container: RequestedContainer, knob: Knob) -> str:
    """Why nothing is expected of a file, "" if something is: of an OCI runtime that is not modelled."""
    last, held = container.requests[-1], container.held[0]
    asked = last.resources if isinstance(last, OciRequest) else held.stored
    update = isinstance(last, OciRequest) and len(container.requests) > 1
    return left_open_after(asked, held.values.keys(), knob, container.runtimes.oci, update=update)


def _untouched(container: RequestedContainer, knob: Knob) -> Reason:
    version = container.host.cgroup_version
    return Reason(
        rule=f"no request names {knob}: the kernel's default applies",
        revision=kernel_revision(version),
        source=f"kernel, Documentation/admin-guide/cgroup-{'v2.rst' if version == 'v2' else 'v1'}",
    )


def _written(container: RequestedContainer, knob: Knob) -> Reason:
    named = [(number, request) for number, request in enumerate(container.requests) if _inputs(request, knob)]
    number, request = named[-1] if named else (0, container.requests[0])
    what = "an update" if number else "the creation"
    words = "CRI" if isinstance(request, ContainerResources) else "OCI" if isinstance(request, OciRequest) else "Docker"
    stays = " and no later update names it" if number < len(container.requests) - 1 else ""
    why = container.held[0].left_out.get(knob, "").removesuffix(".")
    stays += f", but it is dropped on the way: {why}" if why else ""
    return Reason(
        rule=f"{knob} is as {what} requests{stays}" if named else f"{knob} is the runtime's own choice",
        revision=str(container.runtimes),
        source=_source(container, knob, unified=_is_unified(request, knob)),
        inputs=tuple(Input(field, value, f"{words} request {number + 1}") for field, value in _inputs(request, knob)),
    )


def _is_unified(request: AnyRequest, knob: Knob) -> bool:
    resources = request.resources if isinstance(request, OciRequest) else request
    return isinstance(resources, ContainerResources | OciResources) and knob in resources.unified


def _inputs(request: AnyRequest, knob: Knob) -> list[tuple[str, str]]:
    """What a request says of a file: the names of its fields, and their values as text."""
    if isinstance(request, OciRequest):
        return _oci_inputs(request, knob)
    if not isinstance(request, ContainerResources):
        return [(name, str(request[name])) for name in _DOCKER_FIELDS.get(knob, ()) if request.get(name)]
    if knob in request.unified:
        return [(f'unified["{knob}"]', request.unified[knob])]
    given = [(field, getattr(request, field)) for field in _FIELDS.get(knob, ())]
    if knob in {Knob.HUGETLB_2MB_MAX, Knob.HUGETLB_1GB_MAX}:
        size = knob.split(".")[1]
        return [(f"hugepage_limits {name}", str(limit)) for name, limit in request.hugepage_limits if name == size]
    return [(field, str(value)) for field, value in given if value]


def _oci_inputs(request: OciRequest, knob: Knob) -> list[tuple[str, str]]:
    """As `_inputs`, of linux.resources and of annotations."""
    resources, properties = request.resources, request.unit_properties
    if knob in resources.unified:
        return [(f'unified["{knob}"]', resources.unified[knob])]
    given = [(field, getattr(resources, field)) for field in _OCI_FIELDS.get(knob, ())]
    named = [(field, str(value)) for field, value in given if value is not None]
    annotation = PROPERTY_OF.get(knob, "")
    if named or annotation not in properties:
        return named
    return [(f"{UNIT_PROPERTY}{annotation}", str(properties[annotation]))]


def _source(container: RequestedContainer, knob: Knob, *, unified: bool) -> str:
    cri = container.runtimes.cri
    if unified:
        return f"{cri}, unified; OCI runtime specification, linux.resources.unified"
    try:
        return f"{cri}; {source(container.runtimes.oci, knob)}"
    except KeyError:
        return f"{cri}; OCI runtime specification, linux.resources"
