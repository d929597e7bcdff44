"""The user's OCI runtimes: programs of this host, by path or as NAME=PATH."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memqos.config.table import PROGRAM_NAME, oci_runtime, runtime_prefix
from memqos.errors import UsageError

__all__ = ["RuntimeFile", "runtime_file", "without_paths"]


@dataclass(frozen=True, slots=True)
class RuntimeFile:
    """A program of this host that is an OCI runtime; name: its name, "" for that of the runtime under test.

    option: the option that named it, for errors.
    """

    name: str
    path: Path
    option: str = field(default="--runtime-binary", compare=False)

    def __str__(self) -> str:
        return f"{self.name}={self.path}" if self.name else str(self.path)


_NAMED_FILE = re.compile(rf"(?P<name>{PROGRAM_NAME.pattern})=(?P<path>.+)", re.DOTALL | re.ASCII)


def runtime_file(text: str, origin: str) -> RuntimeFile:
    """The parts of NAME=PATH or PATH; a path that contains an equals sign begins with ./ or /."""
    match = _NAMED_FILE.fullmatch(text)
    return RuntimeFile(match["name"], Path(match["path"]), origin) if match else RuntimeFile("", Path(text), origin)


def without_paths(chosen: Sequence[str], origin: str) -> tuple[tuple[str, ...], tuple[RuntimeFile, ...]]:
    """The runtimes by name, with paths replaced by the names of their files, and these files.

    Raises UsageError for a file whose name cannot be a runtime's, and for two runtimes of one name.
    """
    names, files = list[str](), dict[str, RuntimeFile]()
    for one in chosen:
        prefix, path = runtime_prefix(one), one.removeprefix(runtime_prefix(one))
        if "/" not in path:
            names.append(one)
            continue
        _no_arguments(path, origin)
        name = Path(path).name
        if not PROGRAM_NAME.fullmatch(name):
            raise UsageError(
                f"'{path}' has no valid runtime name: letters, digits and . _ -.",
                where=origin,
                next_step=f"Give it one: --runtime {prefix}NAME --runtime-binary NAME='{path}'.",
            )
        file = files.setdefault(name, RuntimeFile(name, Path(path), origin))
        if file.path != Path(path):
            raise UsageError(
                f"'{file.path}' and '{path}' are both called {name}.",
                where=origin,
                next_step=f"Call one by another name: --runtime {prefix}NAME --runtime-binary NAME='{path}'.",
            )
        names.append(f"{prefix}{name}")
    both = [one for one in chosen if oci_runtime(one) in files]
    if both:
        raise UsageError(
            f"{both[0]} is the machine's own, and '{files[oci_runtime(both[0])].path}' would take its place.",
            where=origin,
            next_step=f"Leave {both[0]} out, or compare with it: --compare {oci_runtime(both[0])}.dist.",
        )
    return tuple(dict.fromkeys(names)), tuple(files.values())


def _no_arguments(path: str, origin: str) -> None:
    """Raise UsageError for a program followed by arguments, unless a file has that name."""
    program, _, arguments = path.partition(" ")
    if arguments and Path(program).is_file() and not Path(path).exists():
        raise UsageError(
            f"'{path}': a runtime must be a file without arguments; '{program}' is one.",
            where=origin,
            next_step=f'Name a script that begins with #!/bin/sh and runs exec PROGRAM {arguments} "$@"; '
            f"--guest-file {program}:/opt/{Path(program).name}:755 copies the program itself.",
        )
