"""The results folder of a run: chosen before anything starts, created for this run alone, and tested for writing."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import shutil
from pathlib import Path

import pytest

from memqos import frame
from memqos.bundles.files import BEGUN, SIGNATURE, SUMS
from memqos.clock import utc_now
from memqos.config.settings import Settings
from memqos.errors import MemqosError, NoSpaceError, UsageError
from memqos.frame import CRASH_FILE

__all__ = ["NEEDED_BYTES", "chosen_folder", "for_good", "make_folder"]

NEEDED_BYTES = 64 << 20
"""What a full run may write, plus a margin."""

_OWN_NAMES = frozenset(
    {
        SIGNATURE, SUMS, BEGUN, "bundle.json", CRASH_FILE, "findings.jsonl", "findings.jsonl.gz", "finished.json",
        "junit_01.xml", "machines", "matrix.txt", "populations", "report.html", "run.json", "started.json", "tests",
    }
)  # fmt: skip
_NOT_A_PLACE = frozenset({errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENOENT})


def chosen_folder(config: pytest.Config, settings: Settings) -> Path:
    """The folder for this run's results; nothing is created yet.

    Without a setting it is named by the time, and `make_folder` may have to choose another name. Raises UsageError for
    a folder that contains anything but results.
    """
    handed: str | None = getattr(config, "workerinput", {}).get("memqos_results")
    if handed is not None:
        return Path(handed)
    if settings.results is None:
        return config.invocation_params.dir / "results" / utc_now().strftime("%Y-%m-%dT%H-%M-%SZ")
    folder = config.invocation_params.dir / settings.results
    where = settings.origins["results"]
    try:
        if os.path.exists(folder) and not os.path.isdir(folder):  # noqa: PTH110, PTH112 - as in make_folder
            raise UsageError(f"'{folder}' is not a folder.", where=where)
        # A run that was killed while it wrote a file leaves it as .NAME.new.
        found = {path.name: path.name.removeprefix(".").removesuffix(".new") for path in folder.glob("*")}
        foreign = sorted(name for name, meant in found.items() if meant not in _OWN_NAMES)
    except OSError as error:
        raise _refused(error, folder, settings) from error
    if foreign:
        raise UsageError(
            f"'{folder}' contains '{foreign[0]}', which is not from a memqos run.",
            where=where,
            next_step="Name a new or empty folder.",
        )
    return folder


def for_good(folder: Path, settings: Settings) -> Path:
    """The chosen folder under a final name, for workers that get it before it can be created.

    A default name is made unique: another run may have the same time.
    """
    return folder if settings.results is not None else folder.with_name(f"{folder.name}-{secrets.token_hex(4)}")


def make_folder(folder: Path, settings: Settings, *, held: contextlib.ExitStack) -> Path:
    """Create the chosen folder for this run, so that no other run writes to it, and check that it is writable.

    A named folder loses the results of an earlier run, and is locked against others until `held` is closed. Returns the
    created folder. Raises UsageError for a place where there can be no folder, or where another run is writing,
    NoSpaceError if there is less room than a run may need, EnvironmentNotAbleError if it cannot be written.
    """
    was_there = os.path.exists(folder)  # noqa: PTH110 - Path.exists raises where a parent cannot be read
    try:
        if settings.results is None:
            folder = _new(folder)
            was_there = False
        else:
            folder.mkdir(parents=True, exist_ok=True)
            _hold(folder, settings, held)
            _empty(folder)
        _need_room(folder, settings)
        probe = folder / "findings.jsonl"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        if not was_there:
            with contextlib.suppress(OSError):
                # With a umask of 777, say, it can be created but not used.
                folder.rmdir()
        raise _refused(error, folder, settings) from error
    return folder


def _new(folder: Path) -> Path:
    """This folder, or one of the same name with a number that no other run has."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    first = folder
    for number in itertools.count(2):
        try:
            folder.mkdir()
        except FileExistsError:
            folder = first.with_name(f"{first.name}-{number}")
        else:
            return folder
    raise AssertionError(folder)


def _hold(folder: Path, settings: Settings, held: contextlib.ExitStack) -> None:
    """Lock a folder for this run: the lock is on the folder itself, and ends with the process at the latest."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UsageError(
            f"another run is writing its results to '{folder}'.",
            where=settings.origins["results"],
            next_step="Name another folder, or wait until that run ends.",
        ) from None
    except OSError:
        os.close(handle)  # a file system without locks
    else:
        held.callback(os.close, handle)


def _empty(folder: Path) -> None:
    for name in _OWN_NAMES:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _need_room(folder: Path, settings: Settings) -> None:
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise NoSpaceError(
            f"the disk has {free >> 20} MiB free, but results may need {NEEDED_BYTES >> 20} MiB.",
            where=str(folder),
            next_step=f"Free some space, or name another folder{_option(settings)}.",
            data={"folder": str(folder), "free": free, "needed": NEEDED_BYTES},
        )


def _refused(error: OSError, folder: Path, settings: Settings) -> MemqosError:
    advice = f"Name a writable folder{_option(settings)}."
    if error.errno in _NOT_A_PLACE:
        shown = str(folder) if len(str(folder)) <= 200 else f"{str(folder)[:200]}…"  # noqa: PLR2004 - a line or two
        return UsageError(
            f"the folder '{shown}' cannot be created: {error.strerror}.",
            where=settings.origins["results"],
            next_step=advice,
        )
    refused = frame.of_the_host(error, where=str(folder), next_step=advice)
    if refused is None:
        raise error
    return refused


def _option(settings: Settings) -> str:
    origin = settings.origins["results"]
    return " with --results (in plain pytest --memqos-results)" if origin == "default" else f" ({origin})"
