"""memqos's C programs: as an installed wheel has them, else compiled.

An installed wheel has them compiled for each architecture, so its host needs no gcc:

memqos/_data/programs/
├── programs.json          the manifest: hashes of binaries and of their sources, and the compilers
└── ARCHITECTURE/PROGRAM   static binaries, such as arm64/memload

A checkout has no such folder, and compiles them: with gcc for this host's architecture, else with Debian's cross
compiler. The result is static: it needs only a kernel to run. The sources travel in the wheel, too (memqos/_data/vm).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import EnvironmentNotAbleError, MachineryError, MissingProgramError
from memqos.vm.architecture import ARCHITECTURES, Architecture
from memqos.vm.host.programs import find_program, search_path
from memqos.vm.image.recipe import compile_arguments
from memqos.vm.profile import Program

__all__ = [
    "MANIFEST",
    "Compiler",
    "binary_of",
    "compile_program",
    "find_compiler",
    "need_programs",
    "prebuilt_architectures",
    "sources_digest",
]

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


# ---- in a wheel

FOLDER = Path(__file__).parents[2] / "_data" / "programs"
MANIFEST = "programs.json"


def sources_digest(program: Program) -> str:
    """The SHA-256 in hex of a program's source files: names, sizes and contents."""
    digest = hashlib.sha256()
    for source in sorted(program.sources, key=lambda one: one.name):
        digest.update(f"{source.name}\0{len(source.content)}\0".encode())
        digest.update(source.content)
    return digest.hexdigest()


def _entries() -> dict[str, dict[str, str]]:
    """ARCHITECTURE/PROGRAM to its hashes; empty without a manifest."""
    try:
        manifest = json.loads((FOLDER / MANIFEST).read_bytes())
    except FileNotFoundError:
        return {}
    return {str(name): dict(entry) for name, entry in manifest["programs"].items()}


def prebuilt_architectures() -> tuple[Architecture, ...]:
    """The architectures for which this installation has binaries; none in a checkout."""
    names = {name.partition("/")[0] for name in _entries()}
    return tuple(one for one in ARCHITECTURES if one.name in names)


def prebuilt_binary(program: Program, architecture: Architecture) -> bytes | None:
    """The binary of the wheel; None if it has none, or one of other sources.

    Raises EnvironmentNotAbleError for a file that is missing or differs from the manifest.
    """
    name = f"{architecture.name}/{program.name}"
    entry = _entries().get(name)
    if entry is None or entry["sources"] != sources_digest(program):
        return None
    try:
        content = (FOLDER / name).read_bytes()
    except OSError as error:
        raise _damaged(name, f"cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise _damaged(name, f"differs from its hash in {MANIFEST}")
    return content


def _damaged(name: str, fault: str) -> EnvironmentNotAbleError:
    return EnvironmentNotAbleError(
        f"the installation is damaged: the program {fault}.",
        where=str(FOLDER / name),
        next_step="Install memqos again: pip install --force-reinstall --no-deps memqos",
    )


def need_programs(programs: Iterable[Program], architecture: Architecture) -> None:
    """Raise MissingProgramError, naming the compiler, if a program is neither in the wheel nor can be compiled here."""
    if any(prebuilt_binary(program, architecture) is None for program in programs):
        find_compiler(architecture)


def binary_of(program: Program, architecture: Architecture, *, run: Callable[[list[str]], None] | None = None) -> bytes:
    """The program's static binary: the wheel's, else compiled now.

    run: as for `compile_program`. Raises what `prebuilt_binary`, `find_compiler` and `compile_program` raise.
    """
    found = prebuilt_binary(program, architecture)
    return compile_program(program, find_compiler(architecture), run=run) if found is None else found
