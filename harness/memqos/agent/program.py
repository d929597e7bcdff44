"""The agent's program: the sources of several modules, compressed, which a target's python3 reads from standard input.

A command-line argument holds at most 128 KiB and would need quoting for every shell in between. The target compiles
each module on its first import, since compiling is slow under emulation.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Program", "program"]

_MODULES = {
    # jeepney's modules for D-Bus messages and authentication.
    "jeepney": ("low_level", "auth"),
    __package__: ("channel", "files", "cgroup", "systemd", "steps", "cri", "cleanup", "main"),
}
"""The sent modules, by package. On the target, the packages themselves are empty."""

_LOADER = """\
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return type(sys.__spec__)(name, self, is_package=not SOURCES[name])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Finder())
from memqos.agent.main import main
main()
"""

_BOOT = """\
import json, os, zlib
packed = b""
while len(packed) < {size} and (part := os.read(0, {size} - len(packed))):
    packed += part
SOURCES = json.loads(zlib.decompress(packed))
exec(SOURCES[""])
"""


@dataclass(frozen=True, slots=True)
class Program:
    """packed: the compressed source, which starts the program's input."""

    packed: bytes

    @property
    def command(self) -> tuple[str, ...]:
        """The command for an agent that answers until its input ends."""
        return ("python3", "-I", "-S", "-c", _BOOT.format(size=len(self.packed)))

    @property
    def once(self) -> tuple[str, ...]:
        """The command for a single request: one request as its input, one answer as its output."""
        return (*self.command, "once")

    def stdin(self, request: Mapping[str, Any]) -> bytes:
        """The input for one request."""
        return self.packed + json.dumps(request).encode() + b"\n"

    def request_in(self, stdin: bytes) -> dict[str, Any]:
        """The request in an input that `stdin` made."""
        return dict(json.loads(stdin[len(self.packed) :]))


def program(instead: Mapping[str, str] | None = None) -> Program:
    """The program. instead: replaced sources by module name, for tests."""
    return _packed(tuple(sorted((instead or {}).items())))


@functools.cache
def _packed(instead: tuple[tuple[str, str], ...]) -> Program:
    return Program(zlib.compress(json.dumps({"": _LOADER, **_sources(), **dict(instead)}).encode(), 9))


def _sources() -> dict[str, str]:
    sources = dict.fromkeys(("memqos", *_MODULES), "")
    for package, names in _MODULES.items():
        folder = importlib.resources.files(package)
        sources |= {f"{package}.{name}": (folder / f"{name}.py").read_text(encoding="utf-8") for name in names}
    return sources
