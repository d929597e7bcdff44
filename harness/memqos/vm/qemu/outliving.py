"""What a machine's console said, kept when the folder that it was written to goes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from memqos.errors import MemqosError

__all__ = ["outliving_console"]


@contextlib.contextmanager
def outliving_console(folder: Path) -> Iterator[None]:
    """Around work in a folder that goes with it: a console that an error names is kept, and the error says where."""
    try:
        yield
    except MemqosError as error:
        for log in folder.rglob("*.log"):
            if str(log) in error.next_step:
                error.next_step = error.next_step.replace(str(log), _kept(log))
        raise


def _kept(log: Path) -> str:
    try:
        handle, name = tempfile.mkstemp(prefix="memqos-console-", suffix=".log")
        os.close(handle)
        shutil.copyfile(log, name)
    except OSError as error:
        return f"no file, since it could not be kept: {error.strerror}"
    return name
