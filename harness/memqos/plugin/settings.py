"""The settings of a run, each with its origin."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memqos.config.files import settings_files
from memqos.config.runtime_files import RuntimeFile
from memqos.config.settings import PlacedFile, Settings, SettingValue, resolve
from memqos.config.table import SETTINGS, Kind
from memqos.errors import UsageError

__all__ = ["Carried", "files_to_carry", "settings_for_worker", "settings_given"]

Carried: TypeAlias = Mapping[str, tuple[int, bytes]]
"""The mode and content of each file, by its path as a setting names it."""


def files_to_carry(settings: Settings) -> dict[str, tuple[int, bytes]]:
    """The files of this host that settings name; a missing one is left for its worker to reject.

    Raises UsageError for one that cannot be read.
    """
    carried = {}
    for one in settings.entries():
        for path in _paths(one) if one.is_given else ():
            try:
                if path.is_file():
                    carried[str(path)] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
            except OSError as error:
                raise UsageError(f"'{path}' cannot be read: {error.strerror}.", where=one.origin) from error
    return carried


def with_carried_files(settings: Settings, carried: Carried, folder: Path) -> Settings:
    """Write these files below this folder, under their names. Raises OSError."""
    places = {path: folder / str(number) / Path(path).name for number, path in enumerate(carried)}
    for path, (mode, data) in carried.items():
        place = places[path]
        if not place.exists():
            place.parent.mkdir(parents=True, mode=0o700)
            place.write_bytes(data)
            place.chmod(mode)
    moved = {one.setting.key: _moved(one.value, places) for one in settings.entries() if one.is_given}
    return dataclasses.replace(settings, **moved)  # type: ignore[arg-type]


def _paths(one: SettingValue) -> Iterator[Path]:
    """The possible file paths in a setting's value."""
    match one.setting.kind, one.value:
        case Kind.NAME_OR_FILE | Kind.FILE, (str() | Path()) as path:
            yield Path(path)
        case Kind.FILES | Kind.PLACED | Kind.PROGRAMS, tuple() as several:
            for each in several:
                match each:
                    case PlacedFile():
                        yield each.source
                    case RuntimeFile():
                        yield each.path
                    case _:
                        yield Path(str(each))


def _moved(value: object, places: Mapping[str, Path]) -> object:
    """The same value with the files' current paths."""
    match value:
        case Path():
            return places.get(str(value), value)
        case PlacedFile():
            return dataclasses.replace(value, source=places.get(str(value.source), value.source))
        case RuntimeFile():
            return dataclasses.replace(value, path=places.get(str(value.path), value.path))
        case str() if value in places:
            return str(places[value])
        case tuple():
            return tuple(_moved(one, places) for one in value)
    return value


_TOLD, _FILES, _FOLDER = "memqos_settings", "memqos_files", "memqos_files_folder"
"""The keys under which a worker on another host receives them: its environment and files are not the run's."""


def settings_given(config: pytest.Config) -> Settings:
    """The settings that `memqos run` has already resolved, with their origins for the user, or else pytest's options.

    Files are those from the current folder upwards, and the one that pytest took. Raises UsageError as `resolve` and
    `settings_files` do. An xdist worker receives only values, from its controller.
    """
    for plugin in config.pluginmanager.get_plugins():
        settings = getattr(plugin, "memqos_settings", None)
        if isinstance(settings, Settings):
            return settings
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if _TOLD in told:
        settings = resolve(told[_TOLD], {}, option_prefix="--memqos-")
        return with_carried_files(settings, told[_FILES], Path(told[_FOLDER]))
    given = {
        setting.key: config.getoption(setting.pytest_option.removeprefix("--").replace("-", "_"))
        for setting in SETTINGS
    }
    files = settings_files(
        config.invocation_params.dir,
        configuration=config.inipath,
        overrides=config.getoption("override_ini") or (),
    )
    return resolve(given, os.environ, files, option_prefix="--memqos-")


def settings_for_worker(settings: Settings, files: Carried, folder: str) -> dict[str, Any]:
    """What lets a worker on another host resolve the same settings. folder: on its host, for the named files."""
    texts = {
        one.setting.key: list(map(str, one.value))
        if one.setting.kind.is_repeated and isinstance(one.value, tuple)
        else one.text
        for one in settings.entries()
        if one.is_given and one.value is not None
    }
    return {_TOLD: texts, _FILES: files, _FOLDER: folder}
