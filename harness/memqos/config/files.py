"""Settings from a project's files: [tool.memqos] of pyproject.toml, and memqos_* in pytest's own file.

Only the nearest folder with memqos settings counts, from the current one upwards. In one folder pytest's file wins over
pyproject.toml, as it does for pytest.

Also the line numbers of values in a settings file, which tomllib and configparser do not report.
"""

from __future__ import annotations

import configparser
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memqos.config.runtime_files import runtime_file
from memqos.config.table import SETTINGS, Kind, Setting, runtime_prefix
from memqos.errors import UnknownNameError, UsageError
from memqos.plain_file import read_plain

__all__ = ["FromFile", "line_of", "settings_files"]


def line_of(text: str, section: str, key: str = "") -> int:
    """The line (from 1) of a key below a section's head; of the head itself without a key. 0 if not found.

    section: "" is the part before the first head.
    """
    inside = not section
    for number, line in enumerate(text.splitlines(), start=1):
        head = re.match(r"\s*\[([^]]*)\]", line)
        if head and "=" not in line.partition("]")[0]:
            inside = head[1].replace(" ", "").strip("[\"'") == section
            if inside and not key:
                return number
        elif inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=:]", line):
            return number
    return 0


_INI = {"setup.cfg": "tool:pytest", "tox.ini": "pytest", ".pytest.ini": "pytest", "pytest.ini": "pytest"}
"""Files that pytest reads, with its section; a later one wins."""

MAX_BYTES = 4 << 20
"""A longer settings file is rejected."""

_PROJECT = "pyproject.toml"
_PREFIX = "memqos_"
_BY_KEY = {setting.key: setting for setting in SETTINGS}
_PATHS = frozenset({Kind.FILE, Kind.FILES, Kind.FOLDER, Kind.PLACED, Kind.PROGRAMS})


@dataclass(frozen=True, slots=True)
class FromFile:
    """A setting's value in a file: one text, or several for a list; origin: the file with the line."""

    texts: str | tuple[str, ...]
    origin: str


def settings_files(
    here: Path, *, configuration: Path | None = None, overrides: Iterable[str] = ()
) -> dict[str, FromFile]:
    """The values in files, by the settings' keys.

    here: the current folder. configuration: a pytest file that is read in any folder, and wins. overrides: the values
    of pytest's option -o ("memqos_driver=cgroupfs"), which win over that file. Raises UnknownNameError for an unknown
    setting, UsageError for a value of the wrong type, and for an unreadable file with memqos settings; all name the
    file and the line.
    """
    found: dict[str, FromFile] = {}
    for folder in (here, *here.parents):
        for name in (_PROJECT, *_INI):
            found |= _read(folder / name, here)
        if found:
            break
    if configuration is not None:
        found |= _read(configuration, here)
    for name, _, text in (one.partition("=") for one in overrides if one.startswith(_PREFIX)):
        place = _Place(here, Path(f"-o {name}"), "")
        found |= {setting.key: given for setting, given in _settings({name: text}, place, "", _PREFIX)}
    return found


def _read(file: Path, here: Path) -> dict[str, FromFile]:
    if file.name != _PROJECT and file.suffix not in {".ini", ".cfg"}:
        return {}
    text = _text(file)
    if "memqos" not in text:
        return {}
    place = _Place(file.parent, file.relative_to(here) if file.is_relative_to(here) else file, text)
    said = _of_project(place) if file.name == _PROJECT else _of_ini(place, _INI.get(file.name, "pytest"))
    return {setting.key: given for setting, given in said}


def _text(file: Path) -> str:
    """A file's text; "" if it is missing, or is not text and does not mention memqos.

    Raises UsageError for an unreadable one: it might have memqos settings.
    """
    try:
        data = read_plain(file, most=MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""
    except PermissionError as error:
        if not os.access(file.parent, os.X_OK):
            return ""  # A folder above that this user may not enter has nothing for this user.
        raise _unreadable(file, error) from None
    except OSError as error:
        raise _unreadable(file, error) from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if b"memqos" not in data.replace(b"\0", b""):  # in UTF-16
            return ""
        what = f"byte {error.start} is not UTF-8 (0x{data[error.start]:02x})."
        raise UsageError(what, where=str(file), next_step="Save the file as UTF-8.") from None


def _unreadable(file: Path, error: OSError) -> UsageError:
    return UsageError(f"the file cannot be read: {error.strerror}.", where=str(file))


@dataclass(frozen=True, slots=True)
class _Place:
    """A file with its name in errors, its folder and its text."""

    folder: Path
    file: Path
    text: str

    def line(self, section: str, key: str) -> str:
        """The file, with the line of a key below a section's head if it is found."""
        number = line_of(self.text, section, key)
        return f"{self.file}:{number}" if number else str(self.file)


def _of_project(place: _Place) -> Iterator[tuple[Setting, FromFile]]:
    try:
        document = tomllib.loads(place.text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{place.file}:{line[1]}" if line else str(place.file)
        raise UsageError(f"the file is not TOML: {error}.", where=where) from None
    own = _table(document, place, "tool", "memqos")
    yield from _settings(own, place, "tool.memqos", "")
    pytests = _table(document, place, "tool", "pytest", "ini_options")
    ours = {key: value for key, value in pytests.items() if key.startswith(_PREFIX)}
    yield from _settings(ours, place, "tool.pytest.ini_options", _PREFIX)


def _table(document: Mapping[str, Any], place: _Place, *path: str) -> Mapping[str, Any]:
    """The table at this path; an empty one if missing. Raises UsageError for anything but a table."""
    found = document
    for end, key in enumerate(path, start=1):
        found = found.get(key, {})
        if not isinstance(found, dict):
            name = ".".join(path[:end])
            line = line_of(place.text, ".".join(path[: end - 1]), key) or line_of(place.text, name)
            where = f"{place.file}:{line}" if line else str(place.file)
            raise UsageError(f"[{name}] is not a table.", where=where)
    return found


def _of_ini(place: _Place, section: str) -> Iterator[tuple[Setting, FromFile]]:
    parser = configparser.RawConfigParser(allow_no_value=True, empty_lines_in_values=False)
    try:
        parser.read_string(place.text)
    except (configparser.DuplicateOptionError, configparser.DuplicateSectionError) as error:
        twice = getattr(error, "option", "") or f"[{error.section}]"
        raise UsageError(f"'{twice}' occurs twice.", where=f"{place.file}:{error.lineno}") from None
    except configparser.MissingSectionHeaderError as error:
        raise UsageError("the line is in no section.", where=f"{place.file}:{error.lineno}") from None
    except configparser.ParsingError as error:
        number = error.errors[0][0]
        raise UsageError("the line is neither a section nor KEY = VALUE.", where=f"{place.file}:{number}") from None
    said = dict(parser.items(section)) if parser.has_section(section) else {}
    yield from _settings({key: said[key] or "" for key in said if key.startswith(_PREFIX)}, place, section, _PREFIX)


def _settings(said: Mapping[str, Any], place: _Place, section: str, prefix: str) -> Iterator[tuple[Setting, FromFile]]:
    seen: set[str] = set()
    for name, value in said.items():
        origin = place.line(section, name)
        key = name.removeprefix(prefix).replace("-", "_")
        setting = _BY_KEY.get(key)
        if setting is None:
            known = [prefix + (one.key if prefix else one.name) for one in SETTINGS]
            raise UnknownNameError.of("setting", name, known, where=origin)
        if key in seen:
            raise UsageError(f"'{setting.name}' occurs twice, with '-' and with '_'.", where=origin)
        seen.add(key)
        yield setting, FromFile(_texts(setting, value, origin, place.folder), origin)


def _texts(setting: Setting, value: object, origin: str, folder: Path) -> str | tuple[str, ...]:
    """The value as options would give it; paths are relative to the file's folder."""
    several, repeated = setting.kind.is_list, setting.kind.is_repeated
    if isinstance(value, list) and several and all(isinstance(one, str) for one in value):
        texts = tuple(value)
    elif isinstance(value, bool) and setting.kind is Kind.FLAG:
        return "yes" if value else "no"
    elif isinstance(value, int) and not isinstance(value, bool) and setting.kind is not Kind.FLAG:
        return str(value)
    elif isinstance(value, str):
        texts = tuple(value.strip().splitlines()) if repeated else (value.strip(),)
    else:
        raise UsageError(f"'{setting.name}' is {setting.kind.value}, not {_shown(value)}.", where=origin)
    is_path = setting.kind in _PATHS or (setting.kind is Kind.NAME_OR_FILE and _names_file(texts[0]))
    if setting.kind is Kind.RUNTIMES:
        return ",".join(_runtime_below(folder, word.strip()) for text in texts for word in re.split("[,\n]", text))
    texts = tuple(_below(folder, text, setting.kind) if is_path and text else text for text in texts)
    return texts if repeated else ",".join(texts)


def _below(folder: Path, text: str, kind: Kind) -> str:
    if kind is not Kind.PROGRAMS:
        return str(folder / text)
    file = runtime_file(text, "")
    return str(replace(file, path=folder / file.path))


def _runtime_below(folder: Path, chosen: str) -> str:
    """A runtime given by a path is relative to the file's folder."""
    prefix = runtime_prefix(chosen)
    path = chosen.removeprefix(prefix)
    return f"{prefix}{folder / path}" if "/" in path else chosen


def _names_file(text: str) -> bool:
    return text.endswith(".json") or "/" in text


def _shown(value: object) -> str:
    return {bool: "true or false", dict: "a table", list: "a list", float: "a number with a point"}.get(
        type(value), f"'{value}'"
    )
