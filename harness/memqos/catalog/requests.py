"""Requests for a container's resources, by name: those of CRI, of Docker, and of OCI runtimes.

The files are fixtures/requests.toml, docker.toml and oci.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict

from memqos.catalog.data import data_root
from memqos.engine.translate.docker import HostConfig
from memqos.engine.translate.memory_policy import MemoryPolicy
from memqos.engine.translate.requested import OciRequest, UpdateInput
from memqos.engine.translate.resources import OciResources
from memqos.model.cri import ContainerResources
from memqos.model.quantity import Quantity
from memqos.validation import CheckedFile, Parsed

__all__ = [
    "AnyRequestCase",
    "DockerRequestCase",
    "OciRequestCase",
    "RequestCase",
    "load_all_requests",
    "load_docker_requests",
    "load_oci_requests",
    "load_requests",
]

Words = TypeVar("Words")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case(Generic[Words]):
    """Requests to a runtime for one container, one after another.

    create: at its creation. updates: of the running container, in order. refused: why every runtime must refuse the
    last request; "" for one that it must accept, unless the engine knows a fault of its version. later: whether it is
    judged some seconds after its last update, together with a container created by the same request.
    """

    name: str
    create: Words
    updates: tuple[Words, ...] = ()
    refused: str = ""
    later: bool = False

    @property
    def requests(self) -> tuple[Words, ...]:
        """All of them in order."""
        return (self.create, *self.updates)


class RequestCase(_Case[ContainerResources]):
    """Requests in CRI's form."""


class DockerRequestCase(_Case[HostConfig]):
    """Requests in the Docker Engine's own form."""


class OciRequestCase(_Case[OciRequest]):
    """Requests in an OCI runtime's own form."""


AnyRequestCase = RequestCase | DockerRequestCase | OciRequestCase


class _Amount(int, Parsed):
    """Bytes, or another whole number."""

    words = 'an amount such as "64Mi" or a whole number'

    @classmethod
    def parse(cls, value: object) -> _Amount:
        """A quantity or a whole number; TypeError or ValueError for anything else."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError(value)
        return cls(Quantity.parse(value).value if isinstance(value, str) else value)


_Cpus = Annotated[str, Meta(description='a list such as "0-1,3"')]


class _Cri(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of CRI LinuxContainerResources."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit_in_bytes: _Amount = _Amount()
    memory_swap_limit_in_bytes: _Amount = _Amount()
    oom_score_adj: int = 0
    cpuset_cpus: _Cpus = ""
    cpuset_mems: _Cpus = ""
    hugepage_limits: dict[str, _Amount] = {}
    unified: dict[str, str] = {}

    def words(self) -> ContainerResources:
        """The request to CRI."""
        return ContainerResources(**{**_said(self), "hugepage_limits": tuple(self.hugepage_limits.items())})


class _Memory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """linux.resources.memory."""

    memory_limit: _Amount | None = field(name="limit", default=None)
    memory_reservation: _Amount | None = field(name="reservation", default=None)
    memory_swap: _Amount | None = field(name="swap", default=None)
    check_before_update: bool | None = field(name="checkBeforeUpdate", default=None)


class _Cpu(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """linux.resources.cpu."""

    cpu_shares: _Amount | None = field(name="shares", default=None)
    cpu_quota: _Amount | None = field(name="quota", default=None)
    cpu_period: _Amount | None = field(name="period", default=None)
    cpus: _Cpus | None = None
    mems: _Cpus | None = None


class _Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """linux.memoryPolicy."""

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()

    def words(self) -> MemoryPolicy:
        """The policy; a runtime must refuse an unknown mode."""
        return MemoryPolicy(mode=self.mode, nodes=self.nodes, flags=self.flags)


class _Oci(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parts of linux.resources, annotations, and the input of an update."""

    memory: _Memory = _Memory()
    cpu: _Cpu = _Cpu()
    unified: dict[str, str] = {}
    annotations: dict[str, str] = {}
    memory_policy: _Policy | None = field(name="memoryPolicy", default=None)
    update_input: UpdateInput = UpdateInput.DOCUMENT

    def __post_init__(self) -> None:
        try:
            _ = self.words().unit_properties
        except ValueError as error:
            raise ValueError(f"{error}.") from None

    def words(self) -> OciRequest:
        """The request to an OCI runtime."""
        resources = OciResources(**_said(self.memory), **_said(self.cpu), unified=self.unified)
        policy = self.memory_policy.words() if self.memory_policy else None
        return OciRequest(
            resources=resources, annotations=self.annotations, memory_policy=policy, update_input=self.update_input
        )


class _HostConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of Docker's HostConfig."""

    Memory: _Amount | UnsetType = UNSET
    MemorySwap: _Amount | UnsetType = UNSET
    MemoryReservation: _Amount | UnsetType = UNSET
    CpuShares: _Amount | UnsetType = UNSET
    CpuQuota: _Amount | UnsetType = UNSET
    CpuPeriod: _Amount | UnsetType = UNSET
    CpusetCpus: _Cpus | UnsetType = UNSET
    CpusetMems: _Cpus | UnsetType = UNSET
    PidsLimit: _Amount | UnsetType = UNSET
    OomScoreAdj: _Amount | UnsetType = UNSET

    def words(self) -> HostConfig:
        """The request to the Docker Engine."""
        return _said(self)


def _said(fields: Struct) -> dict[str, Any]:
    values = {name: one for name, one in asdict(fields).items() if one is not UNSET}
    return {name: int(one) if isinstance(one, _Amount) else one for name, one in values.items()}


class _Row(Struct, Generic[Words], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request in a file; fields as in _Case."""

    create: Words
    updates: tuple[Words, ...] = ()
    refused: str = ""
    later: bool = False


def load_all_requests(root: Path | None = None) -> Mapping[str, AnyRequestCase]:
    """The requests of all three files, by their unique names; as `load_requests`."""
    return {**load_requests(root), **load_docker_requests(root), **load_oci_requests(root)}


def load_requests(root: Path | None = None) -> Mapping[str, RequestCase]:
    """Every request of fixtures/requests.toml, by name. root: the folder with `fixtures`; None is memqos's own.

    Raises ManifestError naming file and field.
    """
    return {name: RequestCase(**fields) for name, fields in _cases(root, "requests.toml", _Row[_Cri])}


def load_docker_requests(root: Path | None = None) -> Mapping[str, DockerRequestCase]:
    """The same for fixtures/docker.toml."""
    return {name: DockerRequestCase(**fields) for name, fields in _cases(root, "docker.toml", _Row[_HostConfig])}


def load_oci_requests(root: Path | None = None) -> Mapping[str, OciRequestCase]:
    """The same for fixtures/oci.toml."""
    return {name: OciRequestCase(**fields) for name, fields in _cases(root, "oci.toml", _Row[_Oci])}


def _cases(root: Path | None, name: str, kind: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    file = CheckedFile.toml((root or data_root()) / "fixtures" / name, what="the list of requests")
    for request, given in file.document.items():
        row = file.checked((request,), kind, value={"create": {}, **given} if isinstance(given, dict) else given)
        updates = tuple(one.words() for one in row.updates)
        yield (
            request,
            {**asdict(row), "name": request, "create": row.create.words(), "updates": updates},
        )
