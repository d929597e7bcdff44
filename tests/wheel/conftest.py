"""Wheels, built once for all tests here."""

import sys
from pathlib import Path

import pytest

from tests.wheel.isolated import run


@pytest.fixture(scope="session")
def build_wheel(tmp_path_factory):
    """Build the wheel of a source tree."""

    def build(tree: Path) -> Path:
        folder = tmp_path_factory.mktemp("dist")
        built = run(
            sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(tree), cwd=folder
        )
        assert built.returncode == 0, built.stdout + built.stderr
        return next(folder.glob("memqos-*.whl"))

    return build


@pytest.fixture(scope="session")
def wheel(build_wheel) -> Path:
    """The wheel of this checkout, with what is not committed."""
    return build_wheel(Path(__file__).parents[2])
