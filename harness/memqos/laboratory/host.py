"""What a bundle records about the host: its hardware, and the versions of the packages that a run uses.

Separate from `station`: the pytest plugin imports this in every project and must not load the code for machines.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from typing import Any

from memqos.version import __version__

__all__ = ["host", "versions"]

_PACKAGES = ("grpcio", "protobuf", "pytest", "pytest-testinfra", "pytest-xdist", "PyYAML", "qemu.qmp")


def host() -> dict[str, Any]:
    """System, kernel, architecture, and the number of CPUs that this process may use."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }


def versions() -> dict[str, str]:
    """Version by program or package; "not installed" for a missing package."""
    return {"memqos": __version__, "python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
