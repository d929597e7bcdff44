"""The settings of one run, each with its origin: default < file < environment < command line.

Also the parsing of their texts, from options, the environment and files, into typed values, such as files with
destinations in a machine: SRC:DST or SRC:DST:MODE.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memqos.config.files import FromFile
from memqos.config.runtime_files import RuntimeFile, runtime_file, without_paths
from memqos.config.table import (
    ANY_RUNTIME,
    ARCHITECTURES,
    OTHER_VARIABLES,
    PREFIX,
    SETTINGS,
    Kind,
    Setting,
    offered_name,
)
from memqos.errors import UnknownNameError, UsageError
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.topology import topology_name

__all__ = [
    "DEFAULT",
    "PlacedFile",
    "SettingValue",
    "Settings",
    "StatedRuntime",
    "TimeBudget",
    "placed_file",
    "profile_for",
    "resolve",
    "unknown_variables",
]

_FORM = "Write SRC:DST or SRC:DST:MODE, such as ./crio:/usr/local/bin/crio:755, with an absolute DST."
_PLACED = re.compile(r"(?P<source>.+?):(?P<destination>/[^:]*)(?::(?P<mode>[^:/]*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file or folder of this host, its destination in the machine, and its mode there; None keeps its mode."""

    source: Path
    destination: str
    mode: int | None = None

    def __str__(self) -> str:
        return f"{self.source}:{self.destination}" + ("" if self.mode is None else f":{self.mode:o}")


def placed_file(text: str, origin: str) -> PlacedFile:
    """The parts of a text; a DST that ends in a slash is the folder that the file goes into.

    Raises UsageError, naming the origin, for another form, a DST that is not absolute and plain, or an invalid mode.
    """
    match = _PLACED.fullmatch(text)
    if match is None:
        raise UsageError(f"'{text}' is not an absolute path in the machine.", where=origin, next_step=_FORM)
    source, destination, mode = Path(match["source"]), match["destination"], match["mode"]
    if destination.endswith("/"):
        destination += source.absolute().name
    parts = destination.split("/")[1:]
    if not all(parts) or {".", ".."} & set(parts) or "\0" in destination:
        raise UsageError(f"'{destination}' is not a plain path.", where=origin, next_step=_FORM)
    if mode is not None and not re.fullmatch(r"[0-7]{3,4}", mode, re.ASCII):
        raise UsageError(f"'{mode}' is not a mode such as 644 or 0755.", where=origin, next_step=_FORM)
    return PlacedFile(source, destination, None if mode is None else int(mode, 8))


_YES = frozenset({"1", "yes", "true", "on"})
_NO = frozenset({"0", "no", "false", "off", ""})


@dataclass(frozen=True, slots=True)
class StatedRuntime:
    """An OCI runtime stated by the user; name: "" if only a version is given."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.name else self.version


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """A duration with its text, such as 1h30m."""

    text: str
    seconds: float

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of the cases, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


Value = (
    str | int | bool | Path | CgroupVersion | StatedRuntime | TimeBudget | Shard
    | tuple[str, ...] | tuple[CgroupDriver, ...] | tuple[Path, ...] | tuple[PlacedFile, ...]
    | tuple[RuntimeFile, ...] | None
)  # fmt: skip
"""The types of a setting's value; None is "not set"."""


def value_of(setting: Setting, text: str, origin: str) -> Value:
    """The value of a text for a single-valued setting.

    origin: of the text, for errors. Raises UsageError for an unacceptable text, UnknownNameError for an unknown choice.
    """
    return _CONVERTERS[setting.kind](setting, text, origin)


def repeated_value(setting: Setting, texts: Sequence[str], origin: str) -> Value:
    """The value of a setting whose option may be repeated; errors as for `value_of`."""
    if setting.kind is Kind.PLACED:
        return tuple(placed_file(text, origin) for text in texts if text)
    if setting.kind is Kind.PROGRAMS:
        return tuple(runtime_file(text, origin) for text in texts if text)
    if setting.kind is Kind.UNITS:
        return tuple(dict.fromkeys(_unit(text, origin) for text in texts))
    return tuple(Path(text) for text in texts)


def _unit(text: str, origin: str) -> str:
    """A unit's full name: a service, if it has no suffix."""
    if not re.fullmatch(r"[\w:.\\@-]{1,200}", text, re.ASCII) or text.startswith("-"):
        raise UsageError(f"'{text}' is not a unit's name such as crio.service.", where=origin)
    kinds = ("service", "socket", "target", "mount", "path", "timer", "slice")
    return text if text.rpartition(".")[2] in kinds else f"{text}.service"


def plain_value(value: Value) -> str | int | bool | list[str] | None:
    """A value in JSON's form, which as text would give the same value."""
    if value is None or isinstance(value, (bool, int)):
        return value
    return [str(one) for one in value] if isinstance(value, tuple) else str(value)


def _word(setting: Setting, text: str, origin: str) -> str:
    if setting.choices and text not in setting.choices:
        raise UnknownNameError.of(setting.name, text, list(setting.choices), where=origin)
    if not text:
        raise UsageError("the value is empty.", where=origin, next_step=f"It is {setting.help}.")
    return text


def _drivers(setting: Setting, text: str, origin: str) -> tuple[CgroupDriver, ...]:
    return tuple(CgroupDriver(word) for word in _words(setting, text, origin))


def _hierarchy(setting: Setting, text: str, origin: str) -> CgroupVersion:
    return CgroupVersion(_word(setting, text, origin))


def _runtime(setting: Setting, text: str, origin: str) -> StatedRuntime:
    name, at, version = text.rpartition("@")
    if at and not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,62}", name, re.ASCII):
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
    if not re.fullmatch(r"(?:v|release-)?\d[\w.+~-]*", version, re.ASCII):
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
    return StatedRuntime(name, version)


def _words(setting: Setting, text: str, origin: str, *, besides: re.Pattern[str] | None = None) -> tuple[str, ...]:
    """The words of a list, each a choice; besides: accepts other words."""
    words = tuple(dict.fromkeys(word.strip() for word in re.split("[,\n]", text) if word.strip()))
    if setting.default and not words:
        raise UsageError("the value is empty.", where=origin, next_step=f"It is {setting.help}.")
    for word in words:
        if setting.choices and word not in setting.choices and not (besides and besides.fullmatch(word)):
            raise UnknownNameError.of(setting.name, word, list(setting.choices), where=origin)
    return words


def _runtimes(setting: Setting, text: str, origin: str) -> tuple[str, ...]:
    found = _words(setting, text, origin, besides=ANY_RUNTIME)
    return tuple(dict.fromkeys(offered_name(word) for word in found))


def _count(setting: Setting, text: str, origin: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 4 and int(text) >= 1):  # noqa: PLR2004
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
    return int(text)


def _time(setting: Setting, text: str, origin: str) -> TimeBudget:
    match = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", text, re.ASCII)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600.0 * hours + 60.0 * minutes + seconds
    if not total:
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
    return TimeBudget(text, total)


def _shard(setting: Setting, text: str, origin: str) -> Shard:
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
    number, of = (int(part) for part in match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin, next_step="The first of five is 1/5.")
    return Shard(number, of)


def _flag(_: Setting, text: str, origin: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise UsageError(f"'{text}' is neither yes nor no.", where=origin)
    return text.lower() in _YES


def _path(_: Setting, text: str, __: str) -> Path:
    return Path(text)


_CONVERTERS: Mapping[Kind, Callable[[Setting, str, str], Value]] = {
    Kind.WORD: _word,
    Kind.NAME_OR_FILE: _word,
    Kind.WORDS: _words,
    Kind.RUNTIMES: _runtimes,
    Kind.COUNT: _count,
    Kind.DURATION: _time,
    Kind.FLAG: _flag,
    Kind.DRIVERS: _drivers,
    Kind.HIERARCHY: _hierarchy,
    Kind.RUNTIME: _runtime,
    Kind.FILE: _path,
    Kind.FOLDER: _path,
    Kind.SHARD: _shard,
}


DEFAULT = "default"
"""The origin of a default."""

FOR_KUBELETS = "eight-cpus"
"""The topology with a kubelet under test, which admits pods by the CPUs that they request."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting with its value and origin."""

    setting: Setting
    value: Value
    origin: str

    @property
    def is_given(self) -> bool:
        """Whether it was given, and is not the default."""
        return self.origin != DEFAULT

    @property
    def text(self) -> str:
        """The value for the user; "" if it is not set."""
        found = plain_value(self.value)
        if found is None:
            return ""
        if isinstance(found, bool):
            return "yes" if found else "no"
        return ",".join(found) if isinstance(found, list) else str(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of the table; created by `resolve`.

    profile, runtime, driver: the systems to test, in the given order; at least one of each, and every case runs on all
    combinations. arch: the architecture that `profile` was narrowed to, None for any. target: the URL of the machine to
    use, None if machines are booted. image: the disk image to boot in place of profiles, ssh_user and ssh_key: its
    login. topology: a name, or a file's path. cri_socket: a path in the machine, None for the usual ones. kubernetes:
    the releases to narrow to; empty means every release. kubelet_binary: the kubelet under test, None for memqos in its
    place. kubelet_upgrade: the one to upgrade to, None for none. kubelet_config: the configurations of the cases, ()
    for the catalog's. all: whether nothing is left out of whole suites. runtime_version: the user's statement about the
    OCI runtime, None for nothing. results: None is a folder named by the time. parallel: how many pods are started at
    the same time. time_budget: None is no limit. shard: None is the whole. For files None and () keep the machine's
    own. origins: by key: "default", the option as written, the environment variable, or the file with the line.
    """

    profile: tuple[str, ...]
    arch: str | None
    target: str | None
    image: Path | None
    ssh_user: str
    ssh_key: Path | None
    topology: str
    cgroup: CgroupVersion
    no_recursiveprot: bool
    runtime: tuple[str, ...]
    no_userns: bool
    cri_socket: str | None
    driver: tuple[CgroupDriver, ...]
    kubernetes: tuple[str, ...]
    kubelet_binary: Path | None
    kubelet_upgrade: Path | None
    kubelet_config: tuple[Path, ...]
    all: bool
    runtime_binary: tuple[RuntimeFile, ...]
    runtime_version: StatedRuntime | None
    runtime_deb: tuple[Path, ...]
    containerd_binary: Path | None
    containerd_config: Path | None
    guest_file: tuple[PlacedFile, ...]
    guest_unit: tuple[str, ...]
    guest_deb: tuple[Path, ...]
    kernel_image: Path | None
    initrd: Path | None
    kernel_deb: tuple[Path, ...]
    kernel_tree: Path | None
    no_checkpoint: bool
    keep_vm: bool
    known: tuple[Path, ...]
    strict_known: bool
    baseline: Path | None
    last_failed: bool
    shard: Shard | None
    results: Path | None
    parallel: int
    time_budget: TimeBudget | None
    origins: Mapping[str, str]

    def entries(self) -> Iterator[SettingValue]:
        """Every setting, in the order of the table."""
        for setting in SETTINGS:
            yield SettingValue(setting, getattr(self, setting.key), self.origins[setting.key])

    def to_json(self) -> dict[str, dict[str, Any]]:
        """The value and origin by key, in a bundle's form."""
        return {one.setting.key: {"value": plain_value(one.value), "origin": one.origin} for one in self.entries()}


def resolve(
    given: Mapping[str, object],
    environment: Mapping[str, str],
    files: Mapping[str, FromFile] | None = None,
    *,
    option_prefix: str = "--",
) -> Settings:
    """All settings, from the command line (None: not given), the environment, files, and the defaults.

    Raises UsageError for a value that its setting does not accept, UnknownNameError for an unknown choice.
    """
    values: dict[str, Any] = {}
    origins = {}
    for setting in SETTINGS:
        values[setting.key], origins[setting.key] = _resolved(
            setting, given.get(setting.key), environment, files or {}, f"{option_prefix}{setting.name}"
        )
    values["runtime"], by_path = without_paths(values["runtime"], origins["runtime"])
    if by_path:
        values["runtime_binary"] = (*values["runtime_binary"], *by_path)
        origins["runtime_binary"] = origins["runtime_binary"].replace(DEFAULT, origins["runtime"])
    if values["arch"] is not None:
        profiles = [profile_for(name, values["arch"], where=origins["arch"]) for name in values["profile"]]
        values["profile"] = tuple(dict.fromkeys(profiles))
    values["topology"] = topology_name(values["topology"])
    if values["kubelet_binary"] is not None and origins["topology"] == DEFAULT:
        values["topology"] = FOR_KUBELETS
    return Settings(**values, origins=origins)


VARIANTS = {"amd64": "", "arm64": "-arm64", "ppc64le": "-ppc64le-64k"}
"""The suffix of a profile variant's name, by architecture."""


def profile_for(name: str, architecture: str, *, where: str) -> str:
    """The name of a profile's variant for an architecture: trixie-ppc64le-64k of trixie.

    Raises UsageError for a profile whose name has another architecture.
    """
    said = [one for one in ARCHITECTURES if one in name.split("-")]
    if said and said != [architecture]:
        raise UsageError(
            f"the profile '{name}' is for {said[0]}, not {architecture}.",
            where=where,
            next_step="Leave one of the two out: `memqos vm list` names the profiles.",
        )
    return name if said else f"{name}{VARIANTS[architecture]}"


_SEPARATED: Mapping[Kind, Callable[[str], list[str]]] = {
    Kind.PROGRAMS: lambda text: text.split(os.pathsep),
    Kind.FILES: lambda text: text.split(os.pathsep),
    Kind.PLACED: lambda text: text.splitlines(),
    Kind.UNITS: lambda text: text.replace(",", " ").split(),
}
"""How a variable separates values of repeated options: files like the folders of PATH."""


def _resolved(
    setting: Setting, given: object, environment: Mapping[str, str], files: Mapping[str, FromFile], option: str
) -> tuple[Value, str]:
    """A setting's value and its origin."""
    if given is not None:
        return _value(setting, given, option), option
    if setting.environment in environment:
        text = environment[setting.environment]
        several = _SEPARATED[setting.kind](text) if setting.kind in _SEPARATED else text
        return _value(setting, several, setting.environment), setting.environment
    if setting.key in files:
        found = files[setting.key]
        return _value(setting, found.texts, found.origin), found.origin
    return setting.default, DEFAULT


def _value(setting: Setting, given: object, origin: str) -> Value:
    if setting.kind.is_repeated:
        texts = [str(one) for one in (given if isinstance(given, (list, tuple)) else [given])]
        return repeated_value(setting, texts, origin)
    text = "yes" if given is True else "no" if given is False else str(given)
    return value_of(setting, text, origin)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each environment variable with memqos's prefix that is not a setting, by name."""
    known = [setting.environment for setting in SETTINGS] + list(OTHER_VARIABLES)
    notes = []
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name not in known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        meant = f" Did you mean {close[0]}?" if close else ""
        notes.append(f"the environment variable {name} is not a setting of memqos and is ignored.{meant}")
    return notes
