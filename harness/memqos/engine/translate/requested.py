"""Expected values of a container after direct requests to a runtime, without a pod and a kubelet.

Requests to an OCI runtime: a bundle's linux.resources and annotations, and updates of parts.

A CRI runtime repeats all requested values in every update. Users of `runc update` and the like name only the values to
change: all others must stay.

`requested` computes the runtimes' results for the requests; `requested_files` has what the files must hold then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from memqos.engine.translate import docker as dockerd
from memqos.engine.translate.container import created, updated
from memqos.engine.translate.docker import HostConfig
from memqos.engine.translate.memory_policy import MemoryPolicy
from memqos.engine.translate.resources import OciResources, OciTranslation, RuntimeHost, RuntimeWrites, Unsayable
from memqos.engine.translate.runsc import as_read
from memqos.engine.translate.runtime_rules import runtime_writes, values
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.systemd import files_of_properties
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob, KnobValue
from memqos.model.node import CgroupDriver

__all__ = [
    "UNIT_PROPERTY",
    "AnyRequest",
    "OciRequest",
    "RequestedContainer",
    "UpdateInput",
    "oom_score_adj_of",
    "requested",
    "requested_again",
    "resources_of",
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


def resources_of(request: AnyRequest) -> ContainerResources | OciResources | None:
    """The resources of a CRI or OCI request, which may name files themselves; None for Docker's words."""
    resources = request.resources if isinstance(request, OciRequest) else request
    return resources if isinstance(resources, ContainerResources | OciResources) else None


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
