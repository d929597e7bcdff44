"""This host as a target, with the rights of the memqos process."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from memqos.clock import Deadline
from memqos.errors import DeadlineError, TargetError
from memqos.target.base import CommandResult, same_socket

__all__ = ["LocalTarget"]

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""The shell's exit statuses for a missing program, and for one that cannot be executed."""


class LocalTarget:
    """The host that memqos runs on. Cgroups need root; a refusal is a TargetError."""

    @property
    def address(self) -> str:
        """The URL that names this target in reports."""
        return "local://"

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run one command in its own session; the whole session is killed if the deadline passes."""
        started = deadline.clock.now()
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError) as error:
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return CommandResult(argv=tuple(argv), status=status, stdout=b"", stderr=f"{error}\n".encode())
        except OSError as error:
            raise TargetError(
                f"'{shlex.join(argv)[:200]}' could not be started: {error}.", where=self.address
            ) from error
        with process:
            try:
                stdout, stderr = process.communicate(stdin, timeout=deadline.remaining)
            except subprocess.TimeoutExpired as expired:
                raise DeadlineError(
                    f"'{shlex.join(argv)[:200]}' did not end within {expired.timeout:.1f} s.",
                    where=self.address,
                    data={"condition": f"'{shlex.join(argv)}' ends", "last": "running", "elapsed": deadline.elapsed},
                ) from None
            finally:
                # Do not reap it before the kill: until then no other process gets its PID or session.
                if process.returncode is None:
                    os.killpg(process.pid, 9)
        seconds = deadline.clock.now() - started
        return CommandResult(argv=tuple(argv), status=process.returncode, stdout=stdout, stderr=stderr, seconds=seconds)

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:  # noqa: ARG002 - the port's signature
        """A file's bytes, or None if there is no such file."""
        try:
            return Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # Reading an interface file of a cgroup that was removed after the open fails with ENODEV.
            if not Path(path).exists():
                return None
            raise self._refused("reading", path, error) from error

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:  # noqa: ARG002 - the port's signature
        """One system call writes all bytes; with a mode, replace the file by a new one."""
        try:
            if mode is not None:
                _replace(Path(path), data, mode)
            else:
                _write_once(path, data)
        except OSError as error:
            raise self._refused(f"writing {len(data)} bytes to", path, error) from error

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:  # noqa: ARG002 - the port's signature
        """The names in a folder, sorted, or None if there is no such folder."""
        try:
            return tuple(sorted(entry.name for entry in Path(path).iterdir()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._refused("listing", path, error) from error

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program with pipes in its own process group, so that Ctrl-C does not reach it."""
        return subprocess.Popen(
            ["sh", "-c", 'exec "$@"', "sh", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            process_group=0,
        )

    @contextlib.contextmanager
    def forward(self, remote_socket: str) -> Iterator[Path]:
        """The socket itself: it is on this host."""
        with same_socket(remote_socket) as path:
            yield path

    def _refused(self, doing: str, path: str, error: OSError) -> TargetError:
        return TargetError(
            f"{doing} {path} failed: {error.strerror}.",
            where=self.address,
            data={"path": path, "errno": error.errno},
        )


def _write_once(path: str, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        if data:
            written = os.write(handle, data)
            if written != len(data):
                raise OSError(5, f"only {written} of {len(data)} bytes were taken")
    finally:
        os.close(handle)


def _replace(path: Path, data: bytes, mode: int) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        fresh.chmod(mode)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
