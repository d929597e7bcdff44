"""The data shipped with memqos: suites, fixtures, vm."""

from __future__ import annotations

from pathlib import Path

__all__ = ["data_root"]

PACKAGE = Path(__file__).parents[1]


def data_root() -> Path:
    """The folder with suites/, fixtures/ and vm/: inside an installed wheel, or a checkout's top."""
    installed = PACKAGE / "_data"
    return installed if installed.is_dir() else PACKAGE.parents[1]
