"""The files of a results folder that are whole or not there, and what its machines say of themselves."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["machines", "write"]


def write(path: Path, text: str) -> None:
    """Write a file so that a reader finds either the old text or the whole new one."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        # A path may have bytes that are no text.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def machines(folder: Path) -> list[Mapping[str, Any]]:
    """What each booted machine says of itself; one whose file was not written whole is named all the same."""
    said: list[Mapping[str, Any]] = []
    for file in sorted(folder.glob("machines/*/machine.json")):
        try:
            machine = json.loads(file.read_text(encoding="utf-8"))
            beside = {name: file.with_name(f"{name}.json") for name in ("kept", "timing", "overhead")}
            more = {name: json.loads(one.read_text(encoding="utf-8")) for name, one in beside.items() if one.exists()}
            said.append({**machine, **more})
        except (OSError, ValueError, TypeError):
            said.append({"id": file.parent.name, "profile": "?", "topology": "?"})
    return said
