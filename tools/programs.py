"""Compile memqos's C programs for every architecture into the wheel: its build hook, and `python -m tools.programs`.

Debian's cross compilers make static binaries, which need nothing but a kernel where they run. A wheel that is built on
a host without one of them lacks that architecture, and compiles for it when it has to. MEMQOS_PROGRAMS=all, which a
release sets, fails the build instead; MEMQOS_PROGRAMS=none leaves all of them out.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[1]
sys.path.insert(0, str(TOP / "harness"))  # a build's environment has the build backend alone

from memqos.errors import MemqosError, MissingProgramError  # noqa: E402
from memqos.vm.architecture import ARCHITECTURES, Architecture  # noqa: E402
from memqos.vm.image.programs import MANIFEST, Compiler, compile_program, find_compiler, sources_digest  # noqa: E402  # noqa: E402
from memqos.vm.profile import Program, SourceFile  # noqa: E402

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a command, outside of a build
    BuildHookInterface = object

PLACE = "memqos/_data/programs"
"""Where the wheel has them."""

WANTED = "MEMQOS_PROGRAMS"


def programs(top: Path = TOP) -> Iterator[Program]:
    """All our C programs: each folder with C in it is one."""
    for folder in sorted({file.parent for part in ("workload", "probe") for file in (top / "vm" / part).glob("*/*.c")}):
        files = sorted(folder.glob("*.[ch]"))
        sources = tuple(SourceFile(name=file.name, content=file.read_bytes()) for file in files)
        yield Program(name=folder.name, sources=sources)


def build(folder: Path, *, need_all: bool = False) -> list[str]:
    """Compile every program for every architecture into a new folder, with its manifest; what was left out, and why.

    need_all: raise MissingProgramError for an architecture without a compiler instead of leaving it out.
    """
    entries: dict[str, dict[str, str]] = {}
    compilers: dict[str, dict[str, object]] = {}
    left_out = []
    for architecture in ARCHITECTURES:
        try:
            compiler = find_compiler(architecture)
        except MissingProgramError as error:
            if need_all:
                raise
            left_out.append(f"{architecture.name}: {error.what}")
            continue
        compilers[architecture.name] = {"gcc": _version(compiler), "packages": _packages(architecture)}
        for program in programs():
            binary = compile_program(program, compiler)
            name = f"{architecture.name}/{program.name}"
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(binary)
            file.chmod(0o755)
            entries[name] = {"sha256": hashlib.sha256(binary).hexdigest(), "sources": sources_digest(program)}
    manifest = {"schema": 1, "compilers": compilers, "programs": entries}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return left_out


def _version(compiler: Compiler) -> str:
    told = subprocess.run([compiler.program, "--version"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0].partition(" ")[2]


def _packages(architecture: Architecture) -> dict[str, str]:
    """The versions of Debian's packages of the compiler's C library, which is part of the binaries."""
    names = [architecture.compiler_packages[1], f"libc6-dev:{architecture.debian}"]
    argv = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Abbrev}\n", *names]
    try:
        told = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return {}
    rows = [line.split() for line in told.splitlines()]
    return {row[0]: row[1] for row in rows if row[2:] == ["ii"]}


class ProgramsHook(BuildHookInterface):  # type: ignore[misc, unused-ignore]
    """Puts the programs into a wheel; an editable install has none, and compiles."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add each file to what the wheel includes."""
        wanted = os.environ.get(WANTED, "")
        if version == "editable" or wanted == "none":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="memqos-programs-")
        folder = Path(self._folder.name)
        for line in build(folder, need_all=wanted == "all"):
            self.app.display_warning(f"memqos: the wheel has no programs for {line}")
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                build_data["force_include"][str(file)] = f"{PLACE}/{file.relative_to(folder).as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def main() -> int:
    """Compile into the folder that is named, and print what `sha256sum` would print of it."""
    if len(sys.argv) != 2:  # noqa: PLR2004
        sys.stderr.write("usage: python -m tools.programs FOLDER\n")
        return 2
    folder = Path(sys.argv[1])
    try:
        build(folder, need_all=True)
    except MemqosError as error:
        sys.stderr.write(f"programs: {error}\n")
        return 1
    manifest = json.loads((folder / MANIFEST).read_text())
    for name, entry in manifest["programs"].items():
        sys.stdout.write(f"{entry['sha256']}  {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
