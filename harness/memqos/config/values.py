"""What a setting's text stands for: texts come from options, the environment and files, and become typed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.config.kinds import Kind, Setting
from memqos.config.placed import PlacedFile, placed_file
from memqos.config.runtimes import BY_HANDLER, offered_name
from memqos.errors import UnknownNameError, UsageError
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = ["Shard", "StatedRuntime", "TimeBudget", "Value", "plain_value", "repeated_value", "value_of"]

_YES = frozenset({"1", "yes", "true", "on"})
_NO = frozenset({"0", "no", "false", "off", ""})


@dataclass(frozen=True, slots=True)
class StatedRuntime:
    """An OCI runtime as a person states it; name: "" where only a version is given."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.name else self.version


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """A time with the text that said it, such as 1h30m."""

    text: str
    seconds: float

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Shard:
    """One of so many parts of the cases: the first is 1 of them."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


Value = (
    str | int | bool | Path | CgroupVersion | StatedRuntime | TimeBudget | Shard
    | tuple[str, ...] | tuple[CgroupDriver, ...] | tuple[Path, ...] | tuple[PlacedFile, ...] | None
)  # fmt: skip
"""What a setting's value may be; None is "not set"."""


def value_of(setting: Setting, text: str, origin: str) -> Value:
    """The value that a text gives a setting which holds one.

    origin: where the text was given, for errors. Raises UsageError for a text that the setting does not take,
    UnknownNameError for a word that is no choice.
    """
    return _CONVERTERS[setting.kind](setting, text, origin)


def repeated_value(setting: Setting, texts: Sequence[str], origin: str) -> Value:
    """The value of a setting that has an option for each of its parts; errors are as of `value_of`."""
    if setting.kind is Kind.PLACED:
        return tuple(placed_file(text, origin) for text in texts if text)
    if setting.kind is Kind.UNITS:
        return tuple(dict.fromkeys(_unit(text, origin) for text in texts))
    return tuple(Path(text) for text in texts)


def _unit(text: str, origin: str) -> str:
    """A unit's whole name: a service, where it is not said."""
    if not re.fullmatch(r"[\w:.\\@-]{1,200}", text, re.ASCII) or text.startswith("-"):
        raise UsageError(f"'{text}' is not a unit's name such as crio.service.", where=origin)
    kinds = ("service", "socket", "target", "mount", "path", "timer", "slice")
    return text if text.rpartition(".")[2] in kinds else f"{text}.service"


def plain_value(value: Value) -> str | int | bool | list[str] | None:
    """A value as JSON has it, and as a text would give it again."""
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


def _words(setting: Setting, text: str, origin: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in re.split("[,\n]", text) if word.strip()))
    if setting.default and not words:
        raise UsageError("the value is empty.", where=origin, next_step=f"It is {setting.help}.")
    for word in words:
        if setting.choices and word not in setting.choices:
            raise UnknownNameError.of(setting.name, word, list(setting.choices), where=origin)
    return words


def _runtimes(setting: Setting, text: str, origin: str) -> tuple[str, ...]:
    known = replace(setting, choices=(*setting.choices, *_HANDLERS.findall(text)))
    return tuple(dict.fromkeys(offered_name(word) for word in _words(known, text, origin)))


_HANDLERS = re.compile(rf"{re.escape(BY_HANDLER)}[\w.-]+", re.ASCII)


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
