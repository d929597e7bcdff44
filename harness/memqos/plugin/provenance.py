"""What a run leaves at its end beside its results: where it ran, with what, and the files made of its bundle."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memqos.report import junit, matrix
from memqos.report.bundle import Bundle
from memqos.version import __version__

__all__ = ["FILES", "host", "machines", "versions", "write"]

_PACKAGES = ("grpcio", "protobuf", "pytest", "pytest-testinfra", "pytest-xdist", "PyYAML", "qemu.qmp")


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
            beside = {name: file.with_name(f"{name}.json") for name in ("kept", "timing")}
            more = {name: json.loads(one.read_text(encoding="utf-8")) for name, one in beside.items() if one.exists()}
            said.append({**machine, **more})
        except (OSError, ValueError):
            said.append({"id": file.parent.name, "profile": "?", "topology": "?"})
    return said


def versions() -> dict[str, str]:
    """Program or package to version, of the host's side."""
    found = {"memqos": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def host() -> dict[str, Any]:
    """The host."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }


def _matrix_text(bundle: Bundle) -> str:
    lines = list(matrix.matrix_lines(matrix.matrix_of(bundle.results)))
    return "\n".join(lines) + "\n" if lines else ""


FILES: Mapping[str, Callable[[Bundle], str]] = {
    "junit_01.xml": junit.junit_xml,
    "matrix.txt": _matrix_text,
    "bundle.json": Bundle.to_text,
}
"""The files of a bundle by name, "" for one that says nothing; itself is the last, and knows how the others fared."""
