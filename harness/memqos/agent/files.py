"""A target's files by the system's own calls: under emulation that takes half as long as by `open`."""

from __future__ import annotations

import os

from memqos.agent.channel import CHUNK


def content(path: str | os.PathLike[str]) -> bytes:
    """A file's bytes; OSError if it cannot be read."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write to a file that is there, at once, as control files need it; OSError if it is refused."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)
