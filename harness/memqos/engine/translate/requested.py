"""What a container must hold after requests that were made of a runtime directly, with no pod and no kubelet behind.

Every file is expected of, also those that no request names: what was set before stays, and what nobody set shows the
kernel's default. That is what a runtime breaks that clears a file in an update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from memqos.engine.plan import Expected, Input, Level, PlannedCgroup, Reason
from memqos.engine.ruling import Ruling, expected, kernel_revision
from memqos.engine.translate import dockerd
from memqos.engine.translate.container import created, updated
from memqos.engine.translate.dockerd import HostConfig
from memqos.engine.translate.resources import OciResources, Unsayable
from memqos.engine.translate.runtime_rules import runtime_writes, source, values
from memqos.engine.translate.versions import Runtimes
from memqos.engine.translate.writes import RuntimeHost, RuntimeWrites
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob, KnobValue
from memqos.model.path import CgroupPath

__all__ = ["AnyRequest", "RequestedContainer", "oom_score_adj_of", "requested", "requested_again", "requested_cgroup"]

AnyRequest = ContainerResources | HostConfig
"""What is asked of a runtime for one container: in the words of CRI, or in Docker's own."""

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


@dataclass(frozen=True, slots=True)
class _Held:
    """What one version of the runtimes has made of all requests.

    created, stored: linux.resources of the first request, and of all so far. values: what the control files must hold,
    which is what was written, or what was asked for and the daemon leaves out. properties: of the systemd unit, by
    name. kept: what Docker keeps, if it was asked in its own words. unasked: what could not be asked for, as there is
    no word for it, with the reason. left_out: what the daemon leaves out of the last request for it, with the reason.
    """

    runtimes: Runtimes
    created: OciResources
    stored: OciResources
    values: Mapping[Knob, KnobValue]
    properties: Mapping[str, int | str]
    kept: HostConfig = field(default_factory=dict)
    unasked: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def after(self, made: _Made, writes: RuntimeWrites, host: RuntimeHost) -> _Held:
        """The same with one request more; ValueError for what the runtime or the kernel refuses."""
        if writes.refusal:
            raise ValueError(writes.refusal)
        written = values(writes.files)
        left_out = [left for left in made.unsayable if not left.wordless and _has_file(left.knob, host)]
        return replace(
            self,
            stored=made.resources,
            values={**self.values, **written, **values((left.knob, left.value) for left in left_out)},
            properties={**self.properties, **(writes.properties or {})},
            kept=made.kept,
            unasked={**self.unasked, **{left.knob: left.why for left in made.unsayable if left.wordless}},
            left_out={
                **{knob: why for knob, why in self.left_out.items() if knob not in written},
                **{left.knob: left.why for left in left_out},
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedContainer:
    """A container's requests so far, and what the runtimes made of them.

    refusal: the error of the last request, "" if it is taken. Then nothing of it was written. in_doubt: whether some
    of the versions that the runtimes may have take the last request, and others refuse it.
    """

    runtimes: Runtimes
    host: RuntimeHost
    requests: tuple[AnyRequest, ...]
    refusal: str
    in_doubt: bool
    held: tuple[_Held, ...]

    @property
    def unasked(self) -> Mapping[str, str]:
        """The control files of which the runtime could not be asked what was wanted, with the reason."""
        return self.held[0].unasked if self.held else {}

    @property
    def named(self) -> frozenset[str]:
        """The control files that a request named, or that a runtime writes besides."""
        return frozenset(knob for held in self.held for knob in (*held.values, *held.unasked))


def oom_score_adj_of(request: AnyRequest) -> int:
    """What a creation asks for its first process; no update changes it."""
    return request.oom_score_adj if isinstance(request, ContainerResources) else int(request.get("OomScoreAdj", 0))


def requested(request: AnyRequest, runtimes: Runtimes, host: RuntimeHost) -> RequestedContainer:
    """A container that is created with this request."""
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
    """The same container after an update with this request; one that was refused has none: ValueError."""
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
    """What the daemon makes of one request: linux.resources of all so far, and what it keeps in Docker's words."""

    resources: OciResources
    unsayable: tuple[Unsayable, ...] = ()
    kept: HostConfig = field(default_factory=dict)


def _created(request: AnyRequest, runtimes: Runtimes, host: RuntimeHost) -> tuple[_Made, RuntimeWrites]:
    if isinstance(request, ContainerResources):
        to_oci, writes = created(request, runtimes, host)
        return _Made(to_oci.resources, to_oci.unsayable), writes
    answer = dockerd.docker_created(request, swap_controller=host.swap_file)
    return _Made(answer.resources, kept=answer.held), _passed_on(answer, runtimes, host)


def _updated(request: AnyRequest, held: _Held, host: RuntimeHost) -> tuple[_Made, RuntimeWrites]:
    if isinstance(request, ContainerResources):
        to_oci, writes = updated(request, held.runtimes, host, stored=held.stored)
        return _Made(to_oci.resources, to_oci.unsayable), writes
    answer = dockerd.docker_updated(held.kept, request, swap_controller=host.swap_file)
    writes = _passed_on(answer, held.runtimes, host, stored=held.stored)
    return _Made(answer.over(held.stored), kept=answer.held), writes


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


def _expected(container: RequestedContainer, knob: Knob) -> Expected:
    first, *others = dict.fromkeys(held.values.get(knob, ABSENT) for held in container.held)
    reason = _untouched(container, knob) if first is ABSENT and not others else _written(container, knob)
    ruling = Ruling(first, lambda: reason, tuple(others), unasked=container.unasked.get(knob, ""))
    return expected(knob, ruling, page_size=container.host.page_size, reasons=True)


def _untouched(container: RequestedContainer, knob: Knob) -> Reason:
    version = container.host.cgroup_version
    return Reason(
        rule=f"no request named {knob}: the kernel's default shows",
        revision=kernel_revision(version),
        source=f"kernel, Documentation/admin-guide/cgroup-{'v2.rst' if version == 'v2' else 'v1'}",
    )


def _written(container: RequestedContainer, knob: Knob) -> Reason:
    named = [(number, request) for number, request in enumerate(container.requests) if _inputs(request, knob)]
    number, request = named[-1] if named else (0, container.requests[0])
    what = "an update" if number else "its creation"
    words = "CRI" if isinstance(request, ContainerResources) else "Docker"
    stays = " and no later update names it" if number < len(container.requests) - 1 else ""
    why = container.held[0].left_out.get(knob, "").removesuffix(".")
    stays += f", though it is left out on the way: {why}" if why else ""
    return Reason(
        rule=f"{knob} is what {what} asked for{stays}" if named else f"{knob} is the runtime's own doing",
        revision=str(container.runtimes),
        source=_source(container, knob, unified=_is_unified(request, knob)),
        inputs=tuple(Input(field, value, f"{words} request {number + 1}") for field, value in _inputs(request, knob)),
    )


def _is_unified(request: AnyRequest, knob: Knob) -> bool:
    return isinstance(request, ContainerResources) and knob in request.unified


def _inputs(request: AnyRequest, knob: Knob) -> list[tuple[str, str]]:
    """What a request says of a file: the names of its fields, and their values as text."""
    if not isinstance(request, ContainerResources):
        return [(name, str(request[name])) for name in _DOCKER_FIELDS.get(knob, ()) if request.get(name)]
    if knob in request.unified:
        return [(f'unified["{knob}"]', request.unified[knob])]
    given = [(field, getattr(request, field)) for field in _FIELDS.get(knob, ())]
    if knob in {Knob.HUGETLB_2MB_MAX, Knob.HUGETLB_1GB_MAX}:
        size = knob.split(".")[1]
        return [(f"hugepage_limits {name}", str(limit)) for name, limit in request.hugepage_limits if name == size]
    return [(field, str(value)) for field, value in given if value]


def _source(container: RequestedContainer, knob: Knob, *, unified: bool) -> str:
    cri = container.runtimes.cri
    if unified:
        return f"{cri}, unified; OCI runtime specification, linux.resources.unified"
    try:
        return f"{cri}; {source(container.runtimes.oci, knob)}"
    except KeyError:
        return f"{cri}; OCI runtime specification, linux.resources"
