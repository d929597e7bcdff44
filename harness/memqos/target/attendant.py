"""One attendant: the process of `attendant_program` on a target, and what is asked of it over its input and output."""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import os
import selectors
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memqos.clock import Deadline

__all__ = ["PYTHON", "Attendant", "AttendantReply", "LostError"]

PYTHON = ("python3", "-I", "-S", "-c")
"""A command of these words and a source is a program of Python."""

_CHUNK = 1 << 16
_ENDS_SECONDS = 1.0

AttendantReply = dict[str, Any]


class LostError(Exception):
    """The attendant ended, or did not answer in time; it is gone."""


class Attendant:
    """A program on a target that answers one request at a time. What it does not answer ends it.

    process: what `Target.open` gives for `Attendant.command()`.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._unread = b""

    @staticmethod
    def command() -> list[str]:
        """What starts one on its target."""
        return [*PYTHON, (importlib.resources.files(__package__) / "attendant_program.py").read_text(encoding="utf-8")]

    def ask(self, request: Mapping[str, object], deadline: Deadline) -> AttendantReply:
        """What it answers. Raises LostError if it does not."""
        with self._ended_otherwise():
            self._say(request)
            return self._line(deadline)

    def run(self, argv: Sequence[str], *, stdin: bytes, deadline: Deadline) -> tuple[int, bytes, bytes]:
        """What a command ends with, and all that it says on its standard output and its standard error.

        A program of Python, which `PYTHON` and its source are, may be called in the attendant itself: see its program's
        MAIN. Raises LostError if it does not end in time: its process group is killed with the attendant.
        """
        said: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        with self._ended_otherwise():
            verb = "call" if tuple(argv[:-1]) == PYTHON else "run"
            self._say({verb: list(argv), "stdin": stdin.decode("latin-1")})
            while True:
                [(kind, number)] = self._line(deadline).items()
                if kind == "status":
                    return int(number), b"".join(said["stdout"]), b"".join(said["stderr"])
                said[kind].append(self._bytes(int(number), deadline))
                if deadline.expired:
                    raise ValueError("it says more than there is time for")

    def end(self) -> None:
        """End it, and what it runs."""
        with contextlib.suppress(OSError):
            self._process.stdin and self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_SECONDS)
        self._process.kill()
        self._process.wait()
        self._process.stdout and self._process.stdout.close()

    @contextlib.contextmanager
    def _ended_otherwise(self) -> Iterator[None]:
        """Its answer to a request that was given up would be taken for that to the next one."""
        try:
            yield
        except (OSError, ValueError, TypeError, KeyError) as error:
            self.end()
            raise LostError from error
        except BaseException:
            self.end()
            raise

    def _say(self, request: Mapping[str, object]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - the port promises it
        self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def _line(self, deadline: Deadline) -> AttendantReply:
        """The next line, an object. Raises ValueError or TypeError for what is none."""
        while (end := self._unread.find(b"\n")) < 0:
            self._unread += self._chunk(deadline)
        line, self._unread = self._unread[:end], self._unread[end + 1 :]
        return dict(json.loads(line))

    def _bytes(self, number: int, deadline: Deadline) -> bytes:
        """As many bytes as this."""
        parts, self._unread = [self._unread[:number]], self._unread[number:]
        missing = number - len(parts[0])
        while missing > 0:
            chunk = self._chunk(deadline)
            parts.append(chunk[:missing])
            self._unread = chunk[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def _chunk(self, deadline: Deadline) -> bytes:
        """Some bytes. Raises ValueError if its output ends or the deadline passes."""
        assert self._process.stdout is not None  # noqa: S101 - the port promises it
        file = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(file, selectors.EVENT_READ)
            chunk = os.read(file, _CHUNK) if selector.select(deadline.remaining) else b""
        if not chunk:
            raise ValueError("it says nothing more")
        return chunk
