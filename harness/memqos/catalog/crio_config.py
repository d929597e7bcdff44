"""crio.conf: what CRI-O is configured to run, and which annotations of pods it acts on.

Files are read in the order given, those of a folder by name. As in CRI-O, a handler or a workload that a later file
names takes the place of the earlier one as a whole, and any other setting wins over the earlier.
Source: CRI-O pkg/config/config.go `UpdateFromDropInFile`, `UpdateFromPath`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from memqos.catalog.pods import read_text
from memqos.engine.translate.runtime_config import CrioSettings, Workload
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver

__all__ = ["CrioConfig", "CrioHandler", "load_crio_config"]

_MOST_BYTES = 1 << 20
_WHAT = "a configuration of CRI-O (crio.conf)"
_SETTINGS = ("cgroup_manager", "pids_limit")
_NUMBERS = {"cpushares": "shares", "cpuquota": "quota", "cpuperiod": "period", "cpulimit": "limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioHandler:
    """One runtime handler: the name of the program that it runs, and the annotations that it allows."""

    program: str
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioConfig:
    """What the files say. default: the handler of pods without a RuntimeClass, "" if they do not say.

    settings: what holds for all containers.
    """

    default: str = ""
    settings: CrioSettings = field(default_factory=CrioSettings)
    handlers: Mapping[str, CrioHandler] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()


def load_crio_config(paths: Iterable[str]) -> CrioConfig:
    """The configuration in these files and folders; UsageError for what cannot be read or is no crio.conf."""
    runtime: dict[str, Any] = {}
    origin: dict[str, str] = {}
    handlers: dict[str, CrioHandler] = {}
    workloads: dict[str, Workload] = {}
    for path in _files(paths):
        text = _text(path)
        own = _table(_table(_parsed(text, path), "crio", path), "runtime", path)
        origin |= {name: _place(name, text, path) for name in _SETTINGS if name in own}
        runtime |= {name: value for name, value in own.items() if name not in {"runtimes", "workloads"}}
        handlers |= {name: _handler(name, one, path) for name, one in _tables(own, "runtimes", path)}
        workloads |= {name: _workload(name, one, path) for name, one in _tables(own, "workloads", path)}
    return CrioConfig(
        default=str(runtime.get("default_runtime", "")),
        settings=_settings(runtime, origin),
        handlers=handlers,
        workloads=tuple(workloads.values()),
    )


def _files(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if Path(path).is_dir():
            yield from (str(one) for one in sorted(Path(path).rglob("*")) if one.is_file())
        else:
            yield path


def _text(path: str) -> str:
    data = read_text(path, _WHAT, _MOST_BYTES)
    if len(data) > _MOST_BYTES:
        raise _wrong(path, f"the file has more than {_MOST_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _wrong(path, f"this is not TOML: {error}") from None


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _wrong(path, f"this is not TOML: {str(error) or 'nested too deeply'}") from None


def _place(name: str, text: str, path: str) -> str:
    """The file, with the line that sets this; without one where several lines look so."""
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(rf"\s*(?:crio\.)?(?:runtime\.)?{name}\s*=", line)
    ]
    return f"{path}:{lines[0]}" if len(lines) == 1 else path


def _settings(runtime: Mapping[str, Any], origin: Mapping[str, str]) -> CrioSettings:
    manager, limit = runtime.get("cgroup_manager"), runtime.get("pids_limit", 0)
    if manager is not None and manager not in set(CgroupDriver):
        step = "Write systemd or cgroupfs: CRI-O does not start with another one."
        what = f"cgroup_manager {str(manager)[:40]!r} is unknown."
        raise UsageError(what, where=origin["cgroup_manager"], next_step=step)
    if not isinstance(limit, int) or isinstance(limit, bool):
        what = f"pids_limit {str(limit)[:40]!r} is not a whole number."
        raise UsageError(what, where=origin["pids_limit"], next_step="Write a number such as 2048, or -1 for no limit.")
    return CrioSettings(
        cgroup_manager=None if manager is None else CgroupDriver(manager), pids_limit=limit, origin=origin
    )


def _table(holder: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    found = holder.get(name, {})
    if not isinstance(found, dict):
        raise _wrong(path, f"{name} is not a table")
    return found


def _tables(holder: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    table = _table(holder, name, path)
    return ((one, _table(table, one, path)) for one in table)


def _texts(holder: Mapping[str, Any], name: str, path: str) -> tuple[str, ...]:
    found = holder.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _wrong(path, f"{name} is not a list of strings")
    return tuple(found)


def _handler(name: str, given: Mapping[str, Any], path: str) -> CrioHandler:
    program = PurePosixPath(str(given.get("runtime_path", "") or name)).name
    if given.get("inherit_default_runtime") is True:
        program = ""
    return CrioHandler(program=program, allowed=_texts(given, "allowed_annotations", path))


def _workload(name: str, given: Mapping[str, Any], path: str) -> Workload:
    activation = str(given.get("activation_annotation", ""))
    if not activation:
        raise _wrong(path, f"workload {name} has no activation_annotation")
    resources = {key.lower(): value for key, value in _table(given, "resources", path).items()}
    numbers = {field_name: resources.get(key, 0) for key, field_name in _NUMBERS.items()}
    for key, field_name in _NUMBERS.items():
        if not isinstance(numbers[field_name], int) or isinstance(numbers[field_name], bool):
            raise _wrong(path, f"{key} of workload {name} is not a whole number")
    return Workload(
        name=name,
        activation=activation,
        prefix=str(given.get("annotation_prefix", "")),
        allowed=_texts(given, "allowed_annotations", path),
        cpus=str(resources.get("cpuset", "")),
        **numbers,
    )


def _wrong(path: str, what: str) -> UsageError:
    return UsageError(f"{what}.", where=path, next_step=f"Give the path of {_WHAT}, or of its folder of drop-ins.")
