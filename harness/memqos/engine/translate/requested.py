"""Expected values of a container after direct requests to a runtime, without a pod and a kubelet.

Requests to an OCI runtime: a bundle's linux.resources and annotations, and updates of parts.

A CRI runtime repeats all requested values in every update. Users of `runc update` and the like name only the values to
change: all others must stay.

Every file has an expectation, also without a request: earlier values stay, and files never set show the kernel's
default. This finds a runtime that clears a file in an update.

`requested` computes the runtimes' results for the requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from memqos.engine.answer.unrequested_files import shown_text
from memqos.engine.plan import Expected, Input, Level, PlannedCgroup, Reason, Ruling, expected, kernel_revision
from memqos.engine.translate import docker as dockerd
from memqos.engine.translate.container import created, updated
from memqos.engine.translate.docker import HostConfig
from memqos.engine.translate.memory_policy import MemoryPolicy
from memqos.engine.translate.resources import OciResources, OciTranslation, RuntimeHost, RuntimeWrites, Unsayable
from memqos.engine.translate.runsc import as_read
from memqos.engine.translate.runtime_rules import runtime_writes, source, values
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.specification import left_open_after
from memqos.engine.translate.systemd import PROPERTY_OF, files_of_properties
from memqos.engine.translate.versions import Feature
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob, KnobValue
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath

__all__ = [
    "CRI_FIELDS",
    "PROTECTION",
    "UNIT_PROPERTY",
    "AnyRequest",
    "OciRequest",
    "RequestedContainer",
    "UpdateInput",
    "oom_score_adj_of",
    "requested",
    "requested_again",
    "requested_cgroup",
    "requested_settings",
    "scope_cgroup",
]

UNIT_PROPERTY = "org.systemd.property."
"""Prefix of annotations that runc and crun set as properties of a unit. Source: runc docs/systemd.md."""

_NUMBER = "uint64 "

_OPTIONS: Mapping[str, str] = {
    "memory_limit": "--memory",
    "memory_swap": "--memory-swap",
    "memory_reservation": "--memory-reservation",
    "cpu_shares": "--cpu-share",
    "cpu_quota": "--cpu-quota",
    "cpu_period": "--cpu-period",
    "cpus": "--cpuset-cpus",
    "mems": "--cpuset-mems",
}
"""Fields of linux.resources with an option of `update`, in runc and in crun."""


class UpdateInput(StrEnum):
    """The input of `update`: a document on standard input or in a file, or options, which have no unified."""

    DOCUMENT = "document"
    FILE = "file"
    OPTIONS = "options"


@dataclass(frozen=True, slots=True, kw_only=True)
class OciRequest:
    """One container's creation, or one update of it.

    resources: for an update only the named ones. annotations, memory_policy: of config.json, at creation. update_input:
    the input of an update.
    """

    resources: OciResources = field(default_factory=OciResources)
    annotations: Mapping[str, str] = field(default_factory=dict)
    memory_policy: MemoryPolicy | None = None
    update_input: UpdateInput = UpdateInput.DOCUMENT

    @property
    def unit_properties(self) -> Mapping[str, int]:
        """Unit properties requested by annotations, by name: numbers such as amounts in bytes.

        ValueError for any other value.
        """
        asked = {name: text for name, text in self.annotations.items() if name.startswith(UNIT_PROPERTY)}
        for name, text in asked.items():
            if not (text.startswith(_NUMBER) and text.removeprefix(_NUMBER).isdecimal()):
                raise ValueError(f"the annotation {name} is not a number such as 'uint64 1048576'")
        return {name.removeprefix(UNIT_PROPERTY): int(text.removeprefix(_NUMBER)) for name, text in asked.items()}

    def update_options(self, file: str) -> tuple[str, ...]:
        """The options of `update`; file: the path of its document, if it reads one.

        Options are written NAME=VALUE, since a separate -1 would count as an option.
        """
        if self.update_input is not UpdateInput.OPTIONS:
            return "--resources", file if self.update_input is UpdateInput.FILE else "-"
        given = {option: getattr(self.resources, name) for name, option in _OPTIONS.items()}
        return tuple(f"{option}={value}" for option, value in given.items() if value is not None)


AnyRequest = ContainerResources | HostConfig | OciRequest
"""A request to a runtime for one container: CRI's, Docker's, or an OCI runtime's."""


@dataclass(frozen=True, slots=True)
class _Held:
    """The results of all requests with one version of the runtimes.

    created, stored: linux.resources of the first request, and of all so far. values: the expected texts of interface
    files: written ones, or requested ones that the daemon drops. properties: of the systemd unit, by name. annotated:
    those of them that annotations request. subgroup: the cgroup of the values below that of the unit, "" for the unit's
    own. kept: Docker's stored HostConfig, for requests in Docker's form. inexpressible: values that the request cannot
    express, with the reason. left_out: values of the last request that the daemon drops, with the reason.
    """

    runtimes: Runtimes
    created: OciResources
    stored: OciResources
    values: Mapping[Knob, KnobValue]
    properties: Mapping[str, int | str]
    annotated: Mapping[str, int] = field(default_factory=dict)
    subgroup: str = ""
    kept: HostConfig = field(default_factory=dict)
    inexpressible: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def after(self, made: _Made, writes: RuntimeWrites, host: RuntimeHost) -> _Held:
        """The same after one more request; ValueError if the runtime or the kernel refuses it."""
        if writes.refusal:
            raise ValueError(writes.refusal)
        annotated = made.annotated if host.driver is CgroupDriver.SYSTEMD else {}
        of_the_unit = {} if writes.subgroup else files_of_properties(annotated)
        written = values((*of_the_unit.items(), *writes.files))
        left_out = [left for left in made.unsayable if not left.wordless and _has_file(left.knob, host)]
        return replace(
            self,
            stored=made.resources,
            values={**self.values, **written, **values((left.knob, left.value) for left in left_out)},
            properties={**self.properties, **annotated, **(writes.properties or {})},
            annotated={**self.annotated, **annotated},
            subgroup=writes.subgroup,
            kept=made.kept,
            inexpressible={**self.inexpressible, **{left.knob: left.why for left in made.unsayable if left.wordless}},
            left_out={
                **{knob: why for knob, why in self.left_out.items() if knob not in written},
                **{left.knob: left.why for left in left_out},
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedContainer:
    """A container's requests so far, and their results.

    refusal: the error of the last request, "" if it is accepted; a refused request writes nothing. in_doubt: whether
    some possible versions of the runtimes accept the last request, and others refuse it.
    """

    runtimes: Runtimes
    host: RuntimeHost
    requests: tuple[AnyRequest, ...]
    refusal: str
    in_doubt: bool
    held: tuple[_Held, ...]

    @property
    def inexpressible(self) -> Mapping[str, str]:
        """The interface files whose value the runtime's request cannot express, with the reason."""
        return self.held[0].inexpressible if self.held else {}

    @property
    def named(self) -> frozenset[str]:
        """The interface files that a request names or that a runtime writes in addition."""
        return frozenset(knob for held in self.held for knob in (*held.values, *held.inexpressible))


def oom_score_adj_of(request: AnyRequest) -> int:
    """The oom_score_adj requested at creation; no update changes it."""
    if isinstance(request, OciRequest):
        return 0
    return request.oom_score_adj if isinstance(request, ContainerResources) else int(request.get("OomScoreAdj", 0))


def requested(request: AnyRequest, runtimes: Runtimes, host: RuntimeHost) -> RequestedContainer:
    """A container created with this request."""
    several: list[_Held] = []
    refusals: list[str] = []
    for one in runtimes.candidates:
        made, writes = _created(request, one, host)
        try:
            several.append(_Held(one, made.resources, made.resources, {}, {}).after(made, writes, host))
        except ValueError as refusal:
            refusals.append(str(refusal))
    return _answer(runtimes, host, (request,), several, refusals, of=len(runtimes.candidates))


def requested_again(before: RequestedContainer, request: AnyRequest) -> RequestedContainer:
    """The same container after an update with this request; ValueError for a refused container."""
    if not before.held:
        raise ValueError("a container that was refused cannot be updated")
    several: list[_Held] = []
    refusals: list[str] = []
    for held in before.held:
        made, writes = _updated(request, held, before.host)
        try:
            several.append(held.after(made, writes, before.host))
        except ValueError as refusal:
            refusals.append(str(refusal))
            several.append(held)
    requests = (*before.requests, request)
    return _answer(before.runtimes, before.host, requests, several, refusals, of=len(before.held))


@dataclass(frozen=True, slots=True)
class _Made:
    """The daemon's result for one request: linux.resources of all requests so far, and its stored HostConfig.

    annotated: properties of the systemd unit that annotations request.
    """

    resources: OciResources
    annotated: Mapping[str, int] = field(default_factory=dict)
    unsayable: tuple[Unsayable, ...] = ()
    kept: HostConfig = field(default_factory=dict)


def _created(request: AnyRequest, runtimes: Runtimes, host: RuntimeHost) -> tuple[_Made, RuntimeWrites]:
    if isinstance(request, ContainerResources):
        to_oci, writes = created(request, runtimes, host)
        return _Made(to_oci.resources, unsayable=to_oci.unsayable), writes
    if isinstance(request, OciRequest):
        return _told(request, OciResources(), runtimes, host, stored=None)
    answer = dockerd.docker_created(request, swap_controller=host.swap_file)
    return _Made(answer.resources, kept=answer.held), _passed_on(answer, runtimes, host)


def _updated(request: AnyRequest, held: _Held, host: RuntimeHost) -> tuple[_Made, RuntimeWrites]:
    if isinstance(request, ContainerResources):
        to_oci, writes = updated(request, held.runtimes, host, stored=held.stored)
        return _Made(to_oci.resources, unsayable=to_oci.unsayable), writes
    if isinstance(request, OciRequest):
        return _told(request, held.stored, held.runtimes, host, stored=held.stored)
    answer = dockerd.docker_updated(held.kept, request, swap_controller=host.swap_file)
    writes = _passed_on(answer, held.runtimes, host, stored=held.stored)
    return _Made(answer.resources.over(held.stored), kept=answer.held), writes


def _told(
    request: OciRequest, before: OciResources, runtimes: Runtimes, host: RuntimeHost, *, stored: OciResources | None
) -> tuple[_Made, RuntimeWrites]:
    """An OCI runtime that memqos drives itself. before: the earlier requests; stored: the same, for an update."""
    read = as_read(OciTranslation(resources=request.resources), runtimes.oci, host.driver)
    made = _Made(read.resources.over(before), annotated=request.unit_properties, unsayable=read.unsayable)
    return made, runtime_writes(read.resources, runtimes.oci, host, stored=stored)


def _passed_on(
    answer: dockerd.DockerdAnswer, runtimes: Runtimes, host: RuntimeHost, *, stored: OciResources | None = None
) -> RuntimeWrites:
    if answer.refusal:
        return RuntimeWrites(refusal=answer.refusal)
    return runtime_writes(answer.resources, runtimes.oci, host, stored=stored)


def _has_file(knob: str, host: RuntimeHost) -> bool:
    return host.swap_file or knob != Knob.MEMORY_SWAP_MAX


def _answer(
    runtimes: Runtimes,
    host: RuntimeHost,
    requests: tuple[AnyRequest, ...],
    several: list[_Held],
    refusals: list[str],
    *,
    of: int,
) -> RequestedContainer:
    everywhere = len(refusals) == of
    return RequestedContainer(
        runtimes=runtimes,
        host=host,
        requests=requests,
        refusal=refusals[0] if everywhere else "",
        in_doubt=bool(refusals) and not everywhere,
        held=tuple(several),
    )


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
    for request in container.requests:
        resources = request.resources if isinstance(request, OciRequest) else request
        if isinstance(resources, ContainerResources | OciResources):
            named |= resources.unified
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
    resources = request.resources if isinstance(request, OciRequest) else request
    return resources.hugepage_limits if isinstance(resources, ContainerResources | OciResources) else ()


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
    resources = request.resources if isinstance(request, OciRequest) else request
    return isinstance(resources, ContainerResources | OciResources) and knob in resources.unified


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
