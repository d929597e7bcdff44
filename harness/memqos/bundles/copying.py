"""Evidence copied from one results folder to another: plain files and folders, and nothing that leads elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from memqos.errors import UsageError

__all__ = ["copy_folder", "refuse_special_files"]


def refuse_special_files(folder: Path) -> None:
    """Raise UsageError for a pipe, socket or device below a folder: no run writes one, and reading it may never end."""
    if not folder.is_dir():
        return
    for place, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            file = Path(place, name)
            if not file.is_symlink() and not file.is_file():
                raise UsageError(
                    f"'{file}' is a pipe, a socket or a device, which no run writes.",
                    next_step="Remove it, and call again.",
                )


def _raise(error: OSError) -> None:
    raise error


def copy_folder(source: Path, target: Path, *, leave_out: Collection[str] = ()) -> Iterator[Path]:
    """Copy a folder into a new one; yields the links that lead out of it, or nowhere, which are left out.

    A link within the folder stays one. leave_out: names at its top. Raises OSError for what cannot be read or written.
    """
    whole = source.resolve()
    for place, folders, names in os.walk(source, onerror=_raise):
        here = target / Path(place).relative_to(source)
        here.mkdir(parents=True, exist_ok=True)
        skipped = leave_out if place == str(source) else ()
        for name in sorted([*names, *(one for one in folders if Path(place, one).is_symlink())]):
            if name in skipped:
                continue
            file = Path(place, name)
            if not file.is_symlink():
                shutil.copy2(file, here / name, follow_symlinks=False)
            elif _stays_within(file, whole):
                (here / name).symlink_to(file.readlink())
            else:
                yield file


def _stays_within(link: Path, folder: Path) -> bool:
    """Whether a link leads to something in the folder, by a path that still does so in a copy of it."""
    try:
        found = link.resolve(strict=True)
    except (OSError, RuntimeError):  # nowhere, or round in a circle
        return False
    return found.is_relative_to(folder) and not link.readlink().is_absolute()
