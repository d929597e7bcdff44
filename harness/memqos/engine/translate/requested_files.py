"""What the interface files of a container must hold after direct requests to a runtime, with the reason of each.

Every file has an expectation, also without a request: earlier values stay, and files never set show the kernel's
default. This finds a runtime that clears a file in an update.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from memqos.engine.answer.unrequested_files import shown_text
from memqos.engine.plan import Expected, Input, Level, PlannedCgroup, Reason, Ruling, expected, kernel_revision
from memqos.engine.translate.requested import UNIT_PROPERTY, AnyRequest, OciRequest, RequestedContainer, resources_of
from memqos.engine.translate.runtime_rules import source, values
from memqos.engine.translate.specification import left_open_after
from memqos.engine.translate.systemd import PROPERTY_OF, files_of_properties
from memqos.engine.translate.versions import Feature
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob
from memqos.model.path import CgroupPath

__all__ = ["CRI_FIELDS", "PROTECTION", "requested_cgroup", "requested_settings", "scope_cgroup"]

PROTECTION = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
"""The files whose protection counts only as far as the scope above has it too."""

CRI_FIELDS: Mapping[Knob, tuple[str, ...]] = {
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
"""The same for Docker's HostConfig."""

_OCI_FIELDS: Mapping[Knob, tuple[str, ...]] = {
    Knob.MEMORY_MAX: ("memory_limit",),
    Knob.MEMORY_SWAP_MAX: ("memory_swap", "memory_limit"),
    Knob.MEMORY_LOW: ("memory_reservation",),
    Knob.CPU_WEIGHT: ("cpu_shares",),
    Knob.CPU_MAX: ("cpu_quota", "cpu_period"),
    Knob.CPUSET_CPUS: ("cpus",),
    Knob.CPUSET_MEMS: ("mems",),
}
"""The same for linux.resources."""


def requested_cgroup(
    container: RequestedContainer, knobs: Iterable[Knob], *, name: str, parent: CgroupPath
) -> PlannedCgroup:
    """The expected text of each of these files, with its reason; parent: the container's parent cgroup."""
    return PlannedCgroup(
        level=Level.CONTAINER,
        path=parent,
        container=name,
        knobs={knob: _expected(container, knob) for knob in knobs},
    )


def scope_cgroup(container: RequestedContainer, *, name: str, parent: CgroupPath) -> PlannedCgroup:
    """The expected protection files, and those from annotations, of the systemd scope above the container's own cgroup.

    The scope has only values set as properties.
    """
    annotated = {knob for held in container.held for knob in values(files_of_properties(held.annotated).items())}
    return PlannedCgroup(
        level=Level.CONTAINER,
        path=parent,
        container=name,
        knobs={knob: _of_scope(container, knob) for knob in Knob if knob in {*PROTECTION, *annotated}},
    )


def requested_settings(container: RequestedContainer, judged: Collection[str]) -> dict[str, str | None]:
    """The texts of files named in `unified`, and reservations of huge pages, apart from files that are judged as knobs.

    The last request that names a file decides. None: the file's text is uncertain.
    """
    named: dict[str, str] = {}
    for resources in map(resources_of, container.requests):
        named |= resources.unified if resources else {}
    page_size = container.host.page_size
    shown = {name: shown_text(name, text, page_size) for name, text in named.items()} | _reservations(container)
    return {name: text for name, text in shown.items() if name not in judged}


_HUGE = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_MOST = 1 << 60
"""Bytes above which a limit may be shown as max."""


def _reservations(container: RequestedContainer) -> dict[str, str | None]:
    """hugetlb.<size>.rsvd.max, where the OCI runtime writes it with the limit; None after an update that names one.

    Source: runc setHugeTlb; kernel hugetlb_cgroup_write: the limit is rounded down to whole huge pages.
    """
    oci, (first, *later) = container.runtimes.oci, container.requests
    if not (
        oci.modelled
        and oci.has(Feature.HUGETLB_RESERVATIONS)
        and container.host.hugetlb_reservations
        and (isinstance(first, OciRequest) or container.runtimes.passes_huge_pages)
    ):
        return {}
    limits, updated_ = dict(_limits_of(first)), {size for one in later for size, _ in _limits_of(one)}
    texts: dict[str, str | None] = {}
    for size, limit in limits.items():
        whole = limit // (unit := int(size[:-2]) * _HUGE[size[-2:]]) * unit
        texts[f"hugetlb.{size}.rsvd.max"] = str(whole) if size not in updated_ and 0 <= limit < _MOST else None
    return texts


def _limits_of(request: AnyRequest) -> tuple[tuple[str, int], ...]:
    resources = resources_of(request)
    return resources.hugepage_limits if resources else ()


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
    ruling = Ruling(
        first, lambda: reason, tuple(others), inexpressible=container.inexpressible.get(knob, ""), unmodelled=why
    )
    return expected(knob, ruling, page_size=container.host.page_size, reasons=True)


def _left_open(container: RequestedContainer, knob: Knob) -> str:
    """Why nothing is expected of a file with an OCI runtime that is not modelled, "" if something is."""
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
    resources = resources_of(request)
    return resources is not None and knob in resources.unified


def _inputs(request: AnyRequest, knob: Knob) -> list[tuple[str, str]]:
    """The fields of a request for a file: their names, and their values as text."""
    if isinstance(request, OciRequest):
        return _oci_inputs(request, knob)
    if not isinstance(request, ContainerResources):
        return [(name, str(request[name])) for name in _DOCKER_FIELDS.get(knob, ()) if request.get(name)]
    if knob in request.unified:
        return [(f'unified["{knob}"]', request.unified[knob])]
    given = [(field, getattr(request, field)) for field in CRI_FIELDS.get(knob, ())]
    if knob in {Knob.HUGETLB_2MB_MAX, Knob.HUGETLB_1GB_MAX}:
        size = knob.split(".")[1]
        return [(f"hugepage_limits {name}", str(limit)) for name, limit in request.hugepage_limits if name == size]
    return [(field, str(value)) for field, value in given if value]


def _oci_inputs(request: OciRequest, knob: Knob) -> list[tuple[str, str]]:
    """As `_inputs`, for linux.resources and annotations."""
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
