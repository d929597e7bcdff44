"""Runtimes of a node as users give them: by name and version, "cri-o@1.36+crun@1.21", and by crio.conf.

Files of crio.conf are read in the order given, those of a folder by name. As in CRI-O, a handler or a workload in a
later file replaces the whole earlier one, and any other setting wins over the earlier one.
Source: CRI-O pkg/config/config.go `UpdateFromDropInFile`, `UpdateFromPath`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from memqos.catalog.pods import read_text
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, CrioSettings, Runtimes, Workload
from memqos.engine.translate.versions import (
    CRI_RUNTIMES,
    DRIVEN_DIRECTLY,
    RuntimeName,
    Traits,
    traits_of,
    unmodelled_traits,
)
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver

__all__ = ["load_crio_config", "oci_named", "runtimes_named", "runtimes_recorded"]

_CRI = (*CRI_RUNTIMES, RuntimeName.CRI_DOCKERD, RuntimeName.OTHER_CRI, RuntimeName.BUNDLES)
_KNOWN = {name.value: name for name in (*CRI_RUNTIMES, RuntimeName.CRI_DOCKERD, *DRIVEN_DIRECTLY, RuntimeName.KATA)}
_ALSO = {
    "crio": RuntimeName.CRIO,
    "gvisor": RuntimeName.RUNSC,
    "containerd-shim-runsc-v1": RuntimeName.RUNSC,
    "kata-runtime": RuntimeName.KATA,
    "kata-containers": RuntimeName.KATA,
    "containerd-shim-kata-v2": RuntimeName.KATA,
}
"""Other names of runtimes."""

_DIRECTLY = "oci:"
"""The prefix of an OCI runtime driven without a CRI runtime."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9.+~:_-]{1,80}", re.ASCII)
_NUMBERED = re.compile(r"(?:v|release-)?\d", re.ASCII)
_WORD = re.compile(r"[A-Za-z][A-Za-z._-]+", re.ASCII)
_OF_VERSIONS = frozenset(
    {"dev", "dirty", "ds", "dfsg", "deb", "git", "incompatible", "unknown", "really", "nmu", "fips"}
)
"""Words after a plus sign in versions: runc 1.3.1+dev."""
_OPTION = "--runtime"
_EXAMPLE = "Write NAME@VERSION, such as runc@1.1.15, crun@1.21 or containerd@1.7.24+runc@1.3.6."


def runtimes_named(text: str, default: Runtimes = TRIXIE) -> Runtimes:
    """The runtimes in a text like "cri-o@1.36+crun@1.21"; missing ones are those of `default`.

    An unknown name is a runtime that is not modelled: the CRI server if an OCI runtime follows or it begins with "cri",
    else the OCI runtime.

    Raises UsageError for a text without a name, for a known runtime without a version, and for two of a kind.
    """
    directly = text.startswith(_DIRECTLY)
    parts = _parts(text.removeprefix(_DIRECTLY))
    names = [part.partition("@")[0] for part in parts]
    found = [_traits(part, cri=_is_cri(names, index, directly=directly)) for index, part in enumerate(parts)]
    cri = [*([BUNDLES] if directly else []), *(one for one in found if one.runtime in _CRI)]
    oci = [one for one in found if one.runtime not in _CRI]
    if len(cri) > 1 or len(oci) > 1:
        raise UsageError(f"'{_shown(text)}' names two runtimes of one kind.", where=_OPTION, next_step=_EXAMPLE)
    return replace(default, cri=cri[0] if cri else default.cri, oci=oci[0] if oci else default.oci)


def oci_named(text: str, *, where: str = "--crio-config") -> Traits:
    """The OCI runtime in a text like "runsc@20240729"; its version may be missing.

    UsageError for a text without a name, and for a CRI runtime.
    """
    name, _, version = text.partition("@")
    _checked(name, version, text, where)
    known = _known(name)
    if known in _CRI:
        raise UsageError(f"'{_shown(text)}' is not an OCI runtime.", where=where, next_step=_EXAMPLE)
    return unmodelled_traits(name, version) if known is None else traits_of(known, version)


def runtimes_recorded(recorded: Mapping[str, str]) -> Runtimes:
    """The runtimes of a recording, by name and version; for one that is not modelled the version has its name.

    A kubelet talks to the Docker Engine through cri-dockerd, which reports the name docker.
    """
    found = Runtimes(cri=traits_of(RuntimeName.CONTAINERD, ""), oci=traits_of(RuntimeName.RUNC, ""))
    for name, version in recorded.items():
        if name == RuntimeName.DOCKER:
            found = replace(found, cri=traits_of(RuntimeName.CRI_DOCKERD, ""))
        elif name == RuntimeName.OTHER_CRI:
            found = replace(found, cri=unmodelled_traits(*_named_text(version), cri=True))
        elif name == RuntimeName.OTHER_OCI:
            found = replace(found, oci=unmodelled_traits(*_named_text(version)))
        elif name in _KNOWN:
            traits = traits_of(name, version)
            found = replace(found, cri=traits) if traits.runtime in _CRI else replace(found, oci=traits)
    return found


def _named_text(text: str) -> tuple[str, str]:
    name, _, version = text.partition(" ")
    return name, version


def _parts(text: str) -> list[str]:
    """The text split at plus signs between two runtimes: versions, such as Debian's, contain some too."""
    first, *others = text.split("+")
    parts = [first]
    for piece in others:
        name, mark, _ = piece.partition("@")
        named = bool(mark) or _known(name) is not None or (_WORD.fullmatch(name) and name not in _OF_VERSIONS)
        if named:
            parts.append(piece)
        else:
            parts[-1] += f"+{piece}"
    return parts


def _known(name: str) -> RuntimeName | None:
    return _KNOWN.get(name) or _ALSO.get(name)


def _is_cri(names: list[str], index: int, *, directly: bool) -> bool:
    """Whether an unknown name is that of a CRI server."""
    if directly:
        return False
    others = [_known(name) for place, name in enumerate(names) if place != index]
    if not others:
        return names[index].lower().startswith("cri")
    return others[0] not in _CRI if others[0] is not None else index == 0


def _traits(text: str, *, cri: bool) -> Traits:
    name, mark, version = text.partition("@")
    _checked(name, version if mark else None, text, _OPTION)
    known = _known(name)
    if known is None:
        return unmodelled_traits(name, version, cri=cri)
    differs = bool(traits_of(known, "").in_doubt)
    if not _NUMBERED.match(version) and (differs or mark):
        raise UsageError(f"'{_shown(text)}' has no version.", where=_OPTION, next_step=_EXAMPLE)
    return traits_of(known, version)


def _checked(name: str, version: str | None, text: str, where: str) -> None:
    """Raise UsageError for characters that no name or version of a program has."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"there is no runtime '{_shown(name)}'.", where=where, next_step=_EXAMPLE)
    if version and not _VERSION.fullmatch(version):
        what = f"'{_shown(text)}' is not a name and version: a version has letters, digits and . + ~ : _ - in it."
        raise UsageError(what, where=where, next_step=_EXAMPLE)


def _shown(text: str) -> str:
    """A text shortened for a message."""
    return "".join(one if one.isprintable() else "?" for one in text[:80])


_MOST_BYTES = 1 << 20
_WHAT = "a configuration of CRI-O (crio.conf)"
_SETTINGS = ("cgroup_manager", "pids_limit")
_NUMBERS = {"cpushares": "shares", "cpuquota": "quota", "cpuperiod": "period", "cpulimit": "limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioHandler:
    """One runtime handler: the name of its program, and the annotations that it allows."""

    program: str
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioConfig:
    """The content of the files. default: the handler of pods without a RuntimeClass, "" if missing.

    settings: those for all containers.
    """

    default: str = ""
    settings: CrioSettings = field(default_factory=CrioSettings)
    handlers: Mapping[str, CrioHandler] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()


def load_crio_config(paths: Iterable[str]) -> CrioConfig:
    """The configuration in these files and folders; UsageError for an unreadable file or another format."""
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
    """The file, with the line of this setting; without it if several lines look like it."""
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(rf"\s*(?:crio\.)?(?:runtime\.)?{name}\s*=", line)
    ]
    return f"{path}:{lines[0]}" if len(lines) == 1 else path


def _settings(runtime: Mapping[str, Any], origin: Mapping[str, str]) -> CrioSettings:
    manager, limit = runtime.get("cgroup_manager"), runtime.get("pids_limit", 0)
    if manager is not None and manager not in set(CgroupDriver):
        step = "Write systemd or cgroupfs: CRI-O does not start with any other value."
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
