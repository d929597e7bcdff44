"""Compiles memqos's C programs: with gcc for this host's architecture, else with Debian's cross compiler.

The result is static: it needs only a kernel to run.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import MachineryError, MissingProgramError
from memqos.vm.architecture import Architecture
from memqos.vm.host.programs import find_program, search_path
from memqos.vm.image.recipe import compile_arguments
from memqos.vm.profile import Program

__all__ = ["Compiler", "compile_program", "find_compiler"]

COMPILE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Compiler:
    """The compiler for one architecture; program: its path on this host."""

    architecture: Architecture
    program: Path


def find_compiler(architecture: Architecture) -> Compiler:
    """The compiler for an architecture.

    Raises MissingProgramError, naming the packages, if this host has none, or no static C library for it.
    """
    if architecture.machine == platform.machine():
        return Compiler(architecture, find_program("gcc"))
    found = shutil.which(architecture.compiler, path=search_path(os.environ))
    if found is None or not _has_static_library(found):
        lacking = "compiler" if found is None else "static C library"
        packages = " ".join(architecture.compiler_packages)
        raise MissingProgramError(
            f"this host ({platform.machine()}) has no {lacking} for {architecture.machine}"
            + (f": the program '{architecture.compiler}' is not installed." if found is None else "."),
            next_step=f"On Debian and Ubuntu: apt-get install --no-install-recommends {packages}. "
            "A wheel of a release has the programs, and needs no compiler.",
            data={"program": architecture.compiler, "package": packages},
        )
    return Compiler(architecture, Path(found))


def _has_static_library(compiler: str) -> bool:
    """Whether the compiler finds libc.a: it then prints its path, otherwise the bare name."""
    told = subprocess.run([compiler, "-print-file-name=libc.a"], capture_output=True, text=True, check=False)
    return Path(told.stdout.strip()).is_absolute()


def compile_program(program: Program, compiler: Compiler, *, run: Callable[[list[str]], None] | None = None) -> bytes:
    """The program's static binary; the same sources and compiler give the same bytes.

    run: runs the compiler's command to its end and raises on failure; the default raises MachineryError with the
    compiler's output.
    """
    with tempfile.TemporaryDirectory(prefix="memqos-") as name:
        folder = Path(name)
        for source in program.sources:
            (folder / source.name).write_bytes(source.content)
        sources = [str(path) for path in sorted(folder.glob("*.c"))]
        argv = compile_arguments(str(compiler.program), sources, str(folder / "program"))
        (run or _run)(argv)
        return (folder / "program").read_bytes()


def _run(argv: list[str]) -> None:
    told = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS)
    if told.returncode != 0:
        raise MachineryError(f"{argv[0]} ended with status {told.returncode}: {told.stderr.strip()[-600:]}")
