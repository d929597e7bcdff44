"""The settings of one run, each with where its value came from: default < file < environment < command line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memqos.config.files import FromFile
from memqos.config.kinds import PREFIX, Kind, Setting
from memqos.config.placed import PlacedFile
from memqos.config.table import OTHER_VARIABLES, SETTINGS
from memqos.config.values import Shard, StatedRuntime, TimeBudget, Value, plain_value, repeated_value, value_of
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = ["DEFAULT", "SettingValue", "Settings", "resolve", "unknown_variables"]

DEFAULT = "default"
"""The origin of a default."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting with its value and origin."""

    setting: Setting
    value: Value
    origin: str

    @property
    def is_given(self) -> bool:
        """Whether it was given, and is not merely the default."""
        return self.origin != DEFAULT

    @property
    def text(self) -> str:
        """The value for a person; "" where it is not set."""
        found = plain_value(self.value)
        if found is None:
            return ""
        if isinstance(found, bool):
            return "yes" if found else "no"
        return ",".join(found) if isinstance(found, list) else str(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, as the table says of them; `resolve` makes it.

    profile, runtime, driver: what to run on, in the order in which it was asked for; one at least of each, and every
    case runs on all that they make together. target: the URL of the machine to use, None if machines are booted.
    topology: a name, or a file's path. cri_socket: a path in the machine, None for the usual ones. kubernetes: the
    releases to narrow to; none means every release. all: whether nothing is left out of whole suites. runtime_version:
    what a person states of the OCI runtime, None for nothing. results: None is a folder made from the time.
    parallel: how many pods are started at the same time. time_budget: None is as long as it takes.
    shard: None is the whole. Of the files None
    and () leave what the machine has.
    origins: by key where each came from: "default", the option as it was written, the environment variable, or the file
    with the line.
    """

    profile: tuple[str, ...]
    target: str | None
    topology: str
    cgroup: CgroupVersion
    no_recursiveprot: bool
    runtime: tuple[str, ...]
    cri_socket: str | None
    driver: tuple[CgroupDriver, ...]
    kubernetes: tuple[str, ...]
    all: bool
    runtime_binary: Path | None
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
        """By key the value and its origin, as a bundle has them."""
        return {one.setting.key: {"value": plain_value(one.value), "origin": one.origin} for one in self.entries()}


def resolve(
    given: Mapping[str, object],
    environment: Mapping[str, str],
    files: Mapping[str, FromFile] | None = None,
    *,
    option_prefix: str = "--",
) -> Settings:
    """All settings, from what the command line gave (None: not given), the environment, files, and the defaults.

    Raises UsageError for a value that its setting does not take, UnknownNameError for a word that is no choice.
    """
    values: dict[str, Any] = {}
    origins = {}
    for setting in SETTINGS:
        values[setting.key], origins[setting.key] = _resolved(
            setting, given.get(setting.key), environment, files or {}, f"{option_prefix}{setting.name}"
        )
    return Settings(**values, origins=origins)


_SEPARATED: Mapping[Kind, Callable[[str], list[str]]] = {
    Kind.FILES: lambda text: text.split(os.pathsep),
    Kind.PLACED: lambda text: text.splitlines(),
    Kind.UNITS: lambda text: text.replace(",", " ").split(),
}
"""How a variable separates values that have options of their own: files as the folders of PATH are."""


def _resolved(
    setting: Setting, given: object, environment: Mapping[str, str], files: Mapping[str, FromFile], option: str
) -> tuple[Value, str]:
    """A setting's value, and where it came from."""
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
    """A sentence for each variable that looks like one of ours and that nothing reads, by name."""
    known = [setting.environment for setting in SETTINGS] + list(OTHER_VARIABLES)
    notes = []
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name not in known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        meant = f" Did you mean {close[0]}?" if close else ""
        notes.append(f"the environment variable {name} means nothing to memqos, and is ignored.{meant}")
    return notes
