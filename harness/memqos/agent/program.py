"""The agent's program, and a running agent on a target as a client that sends requests to it.

The program is the sources of several modules, compressed, which a target's python3 reads from standard input: a
command-line argument holds at most 128 KiB and would need quoting for every shell in between. The target compiles each
module on its first import, since compiling is slow under emulation.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import json
import subprocess
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.agent.channel import Channel, GoneError
from memqos.clock import Deadline

__all__ = ["AgentProcess", "AgentReply", "LostError", "Program", "program"]

_MODULES = {
    # jeepney's modules for D-Bus messages and authentication.
    "jeepney": ("low_level", "auth"),
    __package__: ("channel", "cgroup", "systemd", "steps", "cri", "cleanup", "main"),
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


# ---- a running agent

_ENDS_SECONDS = 1.0

AgentReply = dict[str, Any]


class LostError(Exception):
    """The agent ended or did not answer in time. Do not use it again: a late answer would seem to be the next one."""


class AgentProcess:
    """An agent on a target that answers one request at a time; see `memqos.agent.main`.

    process: from `Target.open` of `Program.command`.
    """

    def __init__(self, process: subprocess.Popen[bytes], program: Program) -> None:
        assert process.stdin is not None  # noqa: S101 - the port promises both
        assert process.stdout is not None  # noqa: S101
        self._process = process
        self._channel = Channel(process.stdout.fileno(), process.stdin.fileno())
        # If the process has ended already, the first request raises.
        with contextlib.suppress(OSError):
            self._channel.give(program.packed)

    def ask(self, request: Mapping[str, Any], deadline: Deadline) -> AgentReply:
        """The answer to a request. Raises LostError without one."""
        with _lost_otherwise():
            self._channel.say(dict(request))
            return self._channel.line(deadline.remaining)

    def tell(self, request: Mapping[str, Any]) -> None:
        """Send a message that has no answer; nothing happens if the agent has ended."""
        with contextlib.suppress(OSError):
            self._channel.say(dict(request))

    def run(self, argv: Sequence[str], *, stdin: bytes, deadline: Deadline) -> tuple[int, bytes, bytes]:
        """A command's exit status, standard output and standard error.

        Raises LostError if it does not end in time: its process group is killed when the agent's input ends.
        """
        said: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        with _lost_otherwise():
            self._channel.say({"run": list(argv), "stdin": stdin.decode("latin-1")})
            while True:
                [(kind, number)] = self._channel.line(deadline.remaining).items()
                if kind == "status":
                    return int(number), b"".join(said["stdout"]), b"".join(said["stderr"])
                said[kind].append(self._channel.data(int(number), deadline.remaining))
                if deadline.expired:
                    raise ValueError("its output does not end in time")

    def end(self) -> None:
        """End the agent and the command that it runs."""
        with contextlib.suppress(OSError):
            self._process.stdin and self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_SECONDS)
        self._process.kill()
        self._process.wait()
        self._process.stdout and self._process.stdout.close()


@contextlib.contextmanager
def _lost_otherwise() -> Iterator[None]:
    try:
        yield
    except (GoneError, OSError, ValueError, TypeError, KeyError) as error:
        raise LostError(str(error)) from error
