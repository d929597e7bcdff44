"""A target with an attendant: one program that is kept running over there, reads files, and runs programs of Python.

A command over ssh starts four or five programs on the target, and reading the files of a cgroup with one takes a tenth
of a second under emulation. The attendant takes a hundredth, and less of the machine that is under test.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.resources
import json
import os
import selectors
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memqos.clock import Deadline
from memqos.errors import DeadlineError, TargetError
from memqos.target.base import CommandResult, Target

__all__ = ["PYTHON", "AttendedTarget", "attended"]

PYTHON = ("python3", "-I", "-S", "-c")
"""A command of these words and a source is a program of Python."""

_MISSING = (errno.ENOENT, errno.ENOTDIR)
_CHUNK = 1 << 16
_ENDS_SECONDS = 1.0

_Answer = dict[str, Any]


class _LostError(Exception):
    """The attendant ended, or did not answer in time."""


class AttendedTarget:
    """Another target, whose files are read and whose programs of Python are run by an attendant; see `attended`.

    Where no attendant comes, the other target does all of it. One that is lost is not called again; what it was to read
    is then read by the other target, and what it was to run may have been done in part, which is an error. Several
    threads may use it, one at a time.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_given_up = False

    @property
    def address(self) -> str:
        """The other target's."""
        return self._target.address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """See the port."""
        if tuple(argv[:-1]) != PYTHON:
            return self._target.run(argv, deadline=deadline, stdin=stdin)
        began = deadline.clock.now()
        try:
            answer = self._asked({"python": argv[-1], "stdin": stdin.decode("latin-1")}, deadline)
        except _LostError as lost:
            raise self._unfinished(argv, deadline) from lost
        if answer is None:
            return self._target.run(argv, deadline=deadline, stdin=stdin)
        return CommandResult(
            argv=tuple(argv),
            status=answer["status"],
            stdout=answer["stdout"].encode("latin-1"),
            stderr=answer["stderr"].encode("latin-1"),
            seconds=deadline.clock.now() - began,
        )

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """See the port; what is wrong with a file is said by the other target."""
        seen = (self.read_many([path], deadline=deadline) or {}).get(path)
        if seen in _MISSING:
            return None
        return seen if isinstance(seen, bytes) else self._target.read(path, deadline=deadline)

    def read_many(self, paths: Sequence[str], *, deadline: Deadline) -> Mapping[str, bytes | int] | None:
        """By path a file's bytes, or the errno with which it could not be read; None if there is no attendant."""
        with contextlib.suppress(_LostError):
            answer = self._asked({"read": list(paths)}, deadline)
            if answer is not None:
                return {path: one.encode("latin-1") if isinstance(one, str) else one for path, one in answer.items()}
        return None

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """See the port."""
        self._target.write(path, data, deadline=deadline, mode=mode)

    def write_many(self, paths: Sequence[str], data: bytes, *, deadline: Deadline) -> Mapping[str, int] | None:
        """By path 0, or the errno with which it could not be written; None if there is no attendant."""
        with contextlib.suppress(_LostError):
            return self._asked({"write": list(paths), "text": data.decode("latin-1")}, deadline)
        return None

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """See the port."""
        with contextlib.suppress(_LostError):
            answer = self._asked({"list": path}, deadline)
            if answer is not None:
                return None if answer["names"] is None else tuple(sorted(answer["names"]))
        return self._target.list(path, deadline=deadline)

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """See the port."""
        return self._target.open(argv)

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """See the port."""
        return self._target.forward(remote_socket)

    def dismiss(self) -> None:
        """End the attendant; the target can be used further, without one."""
        with self._lock:
            self._end()

    def _asked(self, request: Mapping[str, object], deadline: Deadline) -> _Answer | None:
        """What the attendant answers; None if there is none. _LostError if it does not."""
        with self._lock:
            if not self._is_given_up and self._process is None:
                self._call(deadline)
            if self._process is None:
                return None
            return self._answer(self._process, request, deadline)

    def _call(self, deadline: Deadline) -> None:
        """Have it come, if it can."""
        self._process = self._target.open([*PYTHON, _source()])
        with contextlib.suppress(_LostError):
            self._answer(self._process, {"read": []}, deadline)

    def _answer(self, process: subprocess.Popen[bytes], request: Mapping[str, object], deadline: Deadline) -> _Answer:
        assert process.stdin is not None  # noqa: S101 - the port promises both
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            answer: _Answer = json.loads(_line(process.stdout.fileno(), deadline))
        except (OSError, ValueError) as error:
            self._end()
            raise _LostError from error
        except BaseException:
            # Its answer to this request would be taken for that to the next one.
            self._end()
            raise
        return answer

    def _unfinished(self, argv: Sequence[str], deadline: Deadline) -> TargetError | DeadlineError:
        """What became of a program; a connection that was lost the other target says in better words."""
        self._target.run(["true"], deadline=Deadline.after(_ENDS_SECONDS) if deadline.expired else deadline)
        if deadline.expired:
            return DeadlineError(
                f"a program of Python did not end within {deadline.elapsed:.1f} s.",
                where=self.address,
                data={"condition": "a program of Python ends", "last": "running", "elapsed": deadline.elapsed},
            )
        return TargetError(
            "the attendant ended while it ran a program of Python.", where=self.address, data={"argv": tuple(argv)}
        )

    def _end(self) -> None:
        process, self._process, self._is_given_up = self._process, None, True
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin and process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_SECONDS)
        process.kill()
        process.wait()
        process.stdout and process.stdout.close()


@contextlib.contextmanager
def attended(target: Target) -> Iterator[AttendedTarget]:
    """This target with an attendant, which comes when it is first needed, and goes when the context ends."""
    found = AttendedTarget(target)
    try:
        yield found
    finally:
        found.dismiss()


def _line(file: int, deadline: Deadline) -> bytes:
    """What is said, up to the end of a line; less, which is no JSON, if its speaker ends or the deadline passes."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        while not said.endswith(b"\n"):
            chunk = os.read(file, _CHUNK) if selector.select(deadline.remaining) else b""
            if not chunk:
                return b""
            said += chunk
    return said


def _source() -> str:
    return (importlib.resources.files(__package__) / "attendant_program.py").read_text(encoding="utf-8")
