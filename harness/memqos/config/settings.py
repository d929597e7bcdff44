"""The settings of one run, each with where its value came from: default < environment < command line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.config.table import OTHER_VARIABLES, PREFIX, SETTINGS, Kind, Plain, Setting
from memqos.errors import UnknownNameError, UsageError

__all__ = ["SettingValue", "Settings", "resolve", "unknown_variables"]

_YES = frozenset({"1", "yes", "true", "on"})
_NO = frozenset({"0", "no", "false", "off", ""})


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting's value and its origin: "default", "environment MEMQOS_X", or the option as it was written."""

    value: Plain
    origin: str


class Settings(Mapping[str, SettingValue]):
    """All settings by key, each with its origin; the typed properties are what the package reads."""

    def __init__(self, values: Mapping[str, SettingValue]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> SettingValue:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def plain(self) -> dict[str, Plain]:
        """All values by key, without their origins."""
        return {key: value.value for key, value in self._values.items()}

    def word(self, key: str) -> str:
        """The text of a setting of kind WORD."""
        value = self._values[key].value
        if not isinstance(value, str):
            raise TypeError(f"'{key}' is not a word")
        return value

    @property
    def kubernetes(self) -> tuple[str, ...]:
        """The releases to narrow to; none means every release."""
        value = self._values["kubernetes"].value
        return tuple(map(str, value)) if isinstance(value, tuple) else ()

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles to run on, in the order in which they were asked for; one at least."""
        value = self._values["profile"].value
        return tuple(map(str, value)) if isinstance(value, tuple) else ()

    @property
    def target(self) -> str:
        """The URL of the machine to use, "" if machines are booted."""
        value = self._values["target"].value
        return value if isinstance(value, str) else ""

    @property
    def stated_runtime(self) -> tuple[str, str] | None:
        """The OCI runtime's name and version as a person states them, None if nobody does; "" for a name not said."""
        value = self._values["runtime_version"].value
        if not isinstance(value, str):
            return None
        name, _, version = value.rpartition("@")
        return name, version

    @property
    def results(self) -> Path | None:
        """The folder for results, None if one is to be made from the time."""
        return self._path("results")

    @property
    def keep_vm(self) -> bool:
        """Whether a machine outlives a failure."""
        return self._values["keep_vm"].value is True

    @property
    def parallel(self) -> int:
        """How many pods are started at the same time."""
        value = self._values["parallel"].value
        return value if isinstance(value, int) else 1

    @property
    def time_budget(self) -> float | None:
        """Seconds after which no further case is begun, None for as long as it takes."""
        value = self._values["time_budget"].value
        return seconds_of(value) if isinstance(value, str) else None

    def _path(self, key: str) -> Path | None:
        value = self._values[key].value
        return value if isinstance(value, Path) else None


def resolve(given: Mapping[str, object], environment: Mapping[str, str], *, option_prefix: str = "--") -> Settings:
    """All settings, from what the command line gave (None: not given), the environment and the defaults.

    Raises UsageError for a value that its setting does not take, UnknownNameError for a word that is no choice.
    """
    values = {}
    for setting in SETTINGS:
        option, variable = f"{option_prefix}{setting.name}", setting.environment
        if given.get(setting.key) is not None:
            values[setting.key] = SettingValue(_convert(setting, given[setting.key], option), option)
        elif variable in environment:
            values[setting.key] = SettingValue(_convert(setting, environment[variable], variable), variable)
        else:
            values[setting.key] = SettingValue(setting.default, "default")
    return Settings(values)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that looks like one of ours and that nothing reads, by name."""
    known = [setting.environment for setting in SETTINGS] + list(OTHER_VARIABLES)
    notes = []
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name not in known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        meant = f" Did you mean {close[0]}?" if close else ""
        notes.append(f"the environment variable {name} means nothing to memqos, and is ignored.{meant}")
    return notes


def _convert(setting: Setting, given: object, origin: str) -> Plain:
    if setting.kind is Kind.FILES:
        return tuple(Path(file) for file in _listed(given))
    text = "yes" if given is True else "no" if given is False else str(given)
    return _CONVERTERS[setting.kind](setting, text, origin)


def seconds_of(text: str) -> float:
    """The seconds of a time that is written with its units, such as 1h30m; 0 for what is none."""
    match = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", text, re.ASCII)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    return 3600.0 * hours + 60.0 * minutes + seconds


def _listed(given: object) -> list[str]:
    """Files as options give them, one each; in an environment variable they are separated as PATH's folders are."""
    return [str(file) for file in given] if isinstance(given, (list, tuple)) else str(given).split(os.pathsep)


def _word(setting: Setting, text: str, origin: str) -> str:
    if setting.choices and text not in setting.choices:
        raise UnknownNameError.of(setting.name, text, list(setting.choices), where=origin)
    if not text:
        raise UsageError("the value is empty.", where=origin, next_step=f"It is {setting.help}.")
    return text


def _runtime(setting: Setting, text: str, origin: str) -> str:
    name, at, version = text.rpartition("@")
    if at and name not in setting.choices:
        raise UnknownNameError.of("OCI runtime", name, list(setting.choices), where=origin)
    if not re.fullmatch(r"v?\d[\w.+~-]*", version, re.ASCII):
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
    return text


def _words(setting: Setting, text: str, origin: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if setting.default and not words:
        raise UsageError("the value is empty.", where=origin, next_step=f"It is {setting.help}.")
    return words


def _count(setting: Setting, text: str, origin: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 4 and int(text) >= 1):  # noqa: PLR2004
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
    return int(text)


def _duration(setting: Setting, text: str, origin: str) -> str:
    if not seconds_of(text):
        raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
    return text


def _flag(_: Setting, text: str, origin: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise UsageError(f"'{text}' is neither yes nor no.", where=origin)
    return text.lower() in _YES


def _path(_: Setting, text: str, __: str) -> Path:
    return Path(text)


_CONVERTERS: Mapping[Kind, Callable[[Setting, str, str], Plain]] = {
    Kind.WORD: _word,
    Kind.WORDS: _words,
    Kind.COUNT: _count,
    Kind.DURATION: _duration,
    Kind.FLAG: _flag,
    Kind.RUNTIME: _runtime,
    Kind.FILE: _path,
    Kind.FOLDER: _path,
}
