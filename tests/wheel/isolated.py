"""Programs in an environment of their own: without this checkout, and without the settings of the tests' Python."""

import os
import subprocess
import venv
from pathlib import Path

__all__ = ["empty_environment", "install", "run"]


def run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program without PYTHON* in its environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(argv, cwd=cwd, env=clean, capture_output=True, text=True, check=False)


def empty_environment(folder: Path) -> Path:
    """The `memqos` command of a new environment that has pip alone: it is there once a wheel is installed."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "memqos"


def install(memqos: Path, *words: str) -> None:
    """`pip install` in the environment of a `memqos` command."""
    done = run(str(memqos.with_name("pip")), "install", "--quiet", *words, cwd=memqos.parent)
    assert done.returncode == 0, done.stdout + done.stderr
