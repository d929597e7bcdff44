"""Files that settings name, carried to workers on other hosts: their disks have none of them.

Each is put below a folder that is the worker's alone, by its own name. A folder that is named is not carried.
"""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from memqos.config.kinds import Kind
from memqos.config.placed import PlacedFile
from memqos.config.settings import Settings, SettingValue
from memqos.errors import UsageError

__all__ = ["Carried", "files_to_carry", "with_carried_files"]

Carried: TypeAlias = Mapping[str, tuple[int, bytes]]
"""By a file's path, as a setting names it, its mode and what it holds."""


def files_to_carry(settings: Settings) -> dict[str, tuple[int, bytes]]:
    """The files of this host that settings name; one that is not there is left for its worker to refuse.

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
    """Write these files below this folder, and name them there. Raises OSError."""
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
    """What may be a file of a setting's value."""
    match one.setting.kind, one.value:
        case Kind.NAME_OR_FILE | Kind.FILE, (str() | Path()) as path:
            yield Path(path)
        case Kind.FILES | Kind.PLACED, tuple() as several:
            for each in several:
                yield each.source if isinstance(each, PlacedFile) else Path(str(each))


def _moved(value: object, places: Mapping[str, Path]) -> object:
    """The same value with the places that its files have now."""
    match value:
        case Path():
            return places.get(str(value), value)
        case PlacedFile():
            return dataclasses.replace(value, source=places.get(str(value.source), value.source))
        case str() if value in places:
            return str(places[value])
        case tuple():
            return tuple(_moved(one, places) for one in value)
    return value
