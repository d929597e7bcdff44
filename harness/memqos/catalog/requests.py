"""Requests for a container's resources, by name: in CRI's words, in Docker's, and in those of OCI runtimes.

They are in fixtures/requests.toml, docker.toml and oci.toml.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from memqos.catalog.data import data_root
from memqos.engine.translate.docker import HOST_CONFIG_FIELDS, HostConfig
from memqos.engine.translate.requested import OciRequest, ToldBy
from memqos.engine.translate.resources import OciResources
from memqos.errors import ManifestError
from memqos.model.cri import ContainerResources
from memqos.model.quantity import Quantity, QuantityError

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

_AMOUNTS = frozenset({"memory_limit_in_bytes", "memory_swap_limit_in_bytes"})
_NUMBERS = frozenset({"cpu_period", "cpu_quota", "cpu_shares", "oom_score_adj"})
_TEXTS = frozenset({"cpuset_cpus", "cpuset_mems"})
_FIELDS = {field.name for field in dataclasses.fields(ContainerResources)}
_CASE = frozenset({"create", "updates", "refused", "later"})


Words = TypeVar("Words")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case(Generic[Words]):
    """What is asked of a runtime for one container, one request after another.

    create: at its creation. updates: of the container while it runs, in their order. refused: why the last request is
    one that no runtime may take; "" for one that it has to take, unless the engine knows better of its version.
    later: whether it is judged some seconds after its last update, beside a container that was created alike.
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
    """Asked in the words of CRI."""


class DockerRequestCase(_Case[HostConfig]):
    """Asked of the Docker Engine in its own words."""


class OciRequestCase(_Case[OciRequest]):
    """Asked of an OCI runtime in its own words."""


AnyRequestCase = RequestCase | DockerRequestCase | OciRequestCase


def load_all_requests(root: Path | None = None) -> Mapping[str, AnyRequestCase]:
    """The requests of all three files, by names that no two of them share; as `load_requests`."""
    return {**load_requests(root), **load_docker_requests(root), **load_oci_requests(root)}


def load_requests(root: Path | None = None) -> Mapping[str, RequestCase]:
    """Every request of fixtures/requests.toml, by name. root: the folder that holds `fixtures`; None is memqos's own.

    Raises ManifestError naming file and field.
    """
    file, found = _document(root, "requests.toml")
    return {name: RequestCase(**_fields(name, fields, file, _resources)) for name, fields in found.items()}


def load_docker_requests(root: Path | None = None) -> Mapping[str, DockerRequestCase]:
    """The same of fixtures/docker.toml, whose names are others."""
    file, found = _document(root, "docker.toml")
    return {name: DockerRequestCase(**_fields(name, fields, file, _host_config)) for name, fields in found.items()}


def load_oci_requests(root: Path | None = None) -> Mapping[str, OciRequestCase]:
    """The same of fixtures/oci.toml."""
    file, found = _document(root, "oci.toml")
    return {name: OciRequestCase(**_fields(name, fields, file, _oci_request)) for name, fields in found.items()}


def _document(root: Path | None, name: str) -> tuple[str, Mapping[str, object]]:
    file = (root or data_root()) / "fixtures" / name
    try:
        return str(file), tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError.at(f"the file is not TOML: {error}.", file=str(file)) from None


def _fields(name: str, fields: object, file: str, read: Callable[[object, str, str], Any]) -> dict[str, Any]:
    if not isinstance(fields, dict) or set(fields) - _CASE or not isinstance(fields.get("refused", ""), str):
        known = ", ".join(sorted(_CASE))
        raise ManifestError.at(f"a request has some of {known}.", file=file, field=name, got=fields)
    updates = fields.get("updates", [])
    if not isinstance(fields.get("later", False), bool):
        raise ManifestError.at("it is true or false.", file=file, field=f"{name}.later", got=fields["later"])
    if not isinstance(updates, list):
        raise ManifestError.at("updates are a list of requests.", file=file, field=f"{name}.updates", got=updates)
    return {
        "name": name,
        "create": read(fields.get("create", {}), file, f"{name}.create"),
        "updates": tuple(read(one, file, f"{name}.updates[{at}]") for at, one in enumerate(updates)),
        "refused": fields.get("refused", ""),
        "later": fields.get("later", False),
    }


def _resources(fields: object, file: str, where: str) -> ContainerResources:
    if not isinstance(fields, dict) or set(fields) - _FIELDS:
        raise ManifestError.at(
            "a request has fields of CRI LinuxContainerResources.",
            file=file,
            field=where,
            got=fields,
            next_step=f"Known: {', '.join(sorted(_FIELDS))}.",
        )
    return ContainerResources(**{name: _value(name, value, file, f"{where}.{name}") for name, value in fields.items()})


def _host_config(fields: object, file: str, where: str) -> dict[str, int | str]:
    if not isinstance(fields, dict) or set(fields) - set(HOST_CONFIG_FIELDS):
        raise ManifestError.at(
            "a request has fields of Docker's HostConfig.",
            file=file,
            field=where,
            got=fields,
            next_step=f"Known: {', '.join(sorted(HOST_CONFIG_FIELDS))}.",
        )
    return {
        name: str(value) if name.startswith("Cpuset") else _amount(value, file, f"{where}.{name}")
        for name, value in fields.items()
    }


_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "memory": {
        "limit": "memory_limit",
        "reservation": "memory_reservation",
        "swap": "memory_swap",
        "checkBeforeUpdate": "check_before_update",
    },
    "cpu": {
        "shares": "cpu_shares",
        "quota": "cpu_quota",
        "period": "cpu_period",
        "cpus": "cpus",
        "mems": "mems",
    },
}
_OCI_WORDS = frozenset({*_SECTIONS, "unified", "annotations", "told_by"})


def _oci_request(fields: object, file: str, where: str) -> OciRequest:
    if not isinstance(fields, dict) or set(fields) - _OCI_WORDS:
        raise ManifestError.at(
            "a request has parts of linux.resources, annotations, and told_by.",
            file=file,
            field=where,
            got=fields,
            next_step=f"Known: {', '.join(sorted(_OCI_WORDS))}.",
        )
    resources: dict[str, Any] = {"unified": _texts(fields.get("unified", {}), file, f"{where}.unified")}
    for name, known in _SECTIONS.items():
        section = fields.get(name, {})
        if not isinstance(section, dict) or set(section) - set(known):
            told = f"Known: {', '.join(known)}."
            raise ManifestError.at(
                "it has fields of linux.resources.", file=file, field=f"{where}.{name}", got=section, next_step=told
            )
        for field, value in section.items():
            resources[known[field]] = _oci_value(field, value, file, f"{where}.{name}.{field}")
    annotations = _texts(fields.get("annotations", {}), file, f"{where}.annotations")
    told_by = _told_by(fields.get("told_by", ToldBy.DOCUMENT), file, f"{where}.told_by")
    request = OciRequest(resources=OciResources(**resources), annotations=annotations, told_by=told_by)
    try:
        _ = request.unit_properties
    except ValueError as error:
        raise ManifestError.at(f"{error}.", file=file, field=f"{where}.annotations", got=annotations) from None
    return request


def _oci_value(name: str, value: object, file: str, where: str) -> int | str | bool:
    if name == "checkBeforeUpdate" and isinstance(value, bool):
        return value
    if name == "checkBeforeUpdate":
        raise ManifestError.at("it is true or false.", file=file, field=where, got=value)
    if name not in {"cpus", "mems"}:
        return _amount(value, file, where)
    if isinstance(value, str):
        return value
    raise ManifestError.at('it is a list such as "0-1,3".', file=file, field=where, got=value)


def _told_by(value: object, file: str, where: str) -> ToldBy:
    if isinstance(value, str) and value in list(ToldBy):
        return ToldBy(value)
    raise ManifestError.at(f"it is one of {', '.join(ToldBy)}.", file=file, field=where, got=value)


def _texts(value: object, file: str, where: str) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return value
    raise ManifestError.at("it has a text for each name.", file=file, field=where, got=value)


def _value(name: str, value: object, file: str, where: str) -> Any:
    if name in _AMOUNTS:
        return _amount(value, file, where)
    if name == "hugepage_limits" and isinstance(value, dict):
        return tuple((size, _amount(limit, file, where)) for size, limit in value.items())
    texts = name == "unified" and isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    number = name in _NUMBERS and isinstance(value, int) and not isinstance(value, bool)
    if texts or number or (name in _TEXTS and isinstance(value, str)):
        return value
    raise ManifestError.at("the value is of another kind than the field's.", file=file, field=where, got=value)


def _amount(value: object, file: str, where: str) -> int:
    """Bytes: a quantity such as "64Mi", or a whole number such as -1."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    with contextlib.suppress(QuantityError):
        if isinstance(value, str):
            return Quantity.parse(value).value
    raise ManifestError.at('an amount is written as "64Mi", or as a number.', file=file, field=where, got=value)
