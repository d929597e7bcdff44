"""What a run leaves at its end beside its results: where it ran, with what, and the files made of its bundle."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memqos.bundles.reading import Results
from memqos.page.building import page_html
from memqos.report import junit, matrix, prow
from memqos.report.bundle import Bundle
from memqos.version import __version__

__all__ = ["FILES", "host", "versions"]

_PACKAGES = ("grpcio", "protobuf", "pytest", "pytest-testinfra", "pytest-xdist", "PyYAML", "qemu.qmp")


def versions() -> dict[str, str]:
    """Program or package to version, of the host's side."""
    return {"memqos": __version__, "python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def host() -> dict[str, Any]:
    """The host."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }


def _page(bundle: Bundle, folder: Path) -> str:
    return page_html(Results(folder=folder, bundle=bundle))


def _matrix_text(bundle: Bundle) -> str:
    lines = list(matrix.matrix_lines(matrix.matrix_of(bundle.results)))
    return "\n".join(lines) + "\n" if lines else ""


FILES: Mapping[str, Callable[[Bundle, Path], str]] = {
    "junit_01.xml": lambda bundle, _: junit.junit_xml(bundle),
    "started.json": lambda bundle, _: prow.started_json(bundle),
    "finished.json": lambda bundle, _: prow.finished_json(bundle),
    "matrix.txt": lambda bundle, _: _matrix_text(bundle),
    "report.html": _page,
    "bundle.json": lambda bundle, _: bundle.to_text(),
}
"""The files of a bundle by name, "" for one that says nothing; itself is the last, and knows how the others fared."""
