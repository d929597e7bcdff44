"""Our C programs as an installed wheel has them: compiled when it was built, for each architecture.

memqos/_data/programs/
├── programs.json          the manifest: hashes of binaries and of their sources, and the compilers
└── ARCHITECTURE/PROGRAM   static binaries, such as arm64/memload

So a host with the wheel needs no gcc. A checkout has no such folder, and compiles them. The sources travel in the
wheel, too (memqos/_data/vm).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from memqos.errors import EnvironmentNotAbleError
from memqos.vm.architecture import ARCHITECTURES, Architecture
from memqos.vm.image.compiler import compile_program, find_compiler
from memqos.vm.profile import Program

__all__ = [
    "FOLDER",
    "MANIFEST",
    "binary_of",
    "need_programs",
    "prebuilt_architectures",
    "prebuilt_binary",
    "sources_digest",
]

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
