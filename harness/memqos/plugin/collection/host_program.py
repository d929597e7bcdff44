"""Reports the memqos of another host: execnet runs this there with nothing but the standard library."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import re
from pathlib import Path

__all__ = ["installed"]


def installed() -> dict[str, str]:
    """The versions of memqos and Python, and the hash of memqos's sources; no version if memqos is missing."""
    python = platform.python_version()
    found = importlib.util.find_spec("memqos")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    files = sorted(
        (file.relative_to(place).as_posix(), file)
        for place in map(Path, places)
        for file in place.rglob("*.py")
        if "_data" not in file.parts  # suites and fixtures: elsewhere in a checkout
    )
    said = [file.read_text(encoding="utf-8") for name, file in files if name == "version.py"]
    version = re.search(r'__version__ = "(.+)"', "".join(said))
    if version is None:
        return {"memqos": "", "python": python, "sources": ""}
    sources = hashlib.sha256()
    for name, file in files:
        sources.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return {"memqos": version[1], "python": python, "sources": sources.hexdigest()}


if __name__ == "__channelexec__":
    channel.send(installed())  # type: ignore[name-defined]  # noqa: F821 - execnet gives it
