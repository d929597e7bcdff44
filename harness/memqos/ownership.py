"""Whose processes and folders these are, and how nothing of them outlives us, whatever way we end.

A tiny guard process leads a process group. Everything that a machine needs (QEMU, ssh) is started in that group.
The guard reads a pipe whose other end only we hold: when we close it, or die (kill -9 too), the guard ends the
group and, if we died, removes the folders. The group is never the terminal's foreground group: Ctrl-C reaches
only us. A group that is kept has its guard as its only owner: it lives until the guard ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from memqos.errors import MachineryError

__all__ = ["KEPT", "ProcessGroup", "end_with_parent", "temporary_folder"]

PR_SET_PDEATHSIG = 1
"""<linux/prctl.h>"""

# $1: seconds that the group gets between TERM and KILL when we are gone; the rest: folders to remove then.
# An orderly end is one line on the pipe: its sender has ended the group and looks after the folders. Another line is
# "keep" and a process: the group then lives until that process ends, or until the guard gets a TERM.
# It says that it is ready once a TERM cannot end it any more: one that came earlier would leave the group an orphan.
# What rm cannot remove belongs to an ordinary user's further ids, as the tree of an image that was being built: it goes
# from inside a namespace that has them. The last kill takes the guard itself.
GUARD = """
trap '' TERM INT HUP
echo ready
exec >/dev/null
grace=$1
shift
read -r word member || word=
if [ "$word" = keep ]; then
    trap 'word=' TERM
    while [ "$word" = keep ] && [ -e "/proc/$member/exe" ]; do
        sleep 1 &
        wait $!
    done
    trap '' TERM
    word=
fi
if [ "$word" != done ]; then
    kill -TERM 0
    sleep "$grace"
    [ $# -eq 0 ] || rm -rf -- "$@" 2>/dev/null || unshare --user --map-root-user --map-auto rm -rf -- "$@"
fi
kill -KILL 0
"""

KEPT: list[subprocess.Popen[bytes]] = []
"""Processes that we leave running: Python would warn of each without a reference."""


@atexit.register
def _leave_running() -> None:
    """Python would warn at its end, too, of each that it thinks it has to wait for."""
    for process in KEPT:
        process.returncode = 0


def end_with_parent() -> None:
    """From now on the kernel kills this process when the thread that started it ends; its groups' guards do the rest.

    For a worker whose controller is killed: it would hear of that from a closed pipe only, and go on for seconds. Where
    the kernel refuses, that remains.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL.value)


class ProcessGroup:
    """A process group with a guard; a context manager.

    folders: removed if we die; at an orderly end they are their makers' matter.
    grace: seconds between TERM and KILL, both for stop() and for the guard.
    keepable: keep() may be called; until it is, nothing outlives us, but if the guard is killed too, members do.
    """

    def __init__(self, *, folders: Sequence[Path] = (), grace: int = 1, keepable: bool = False) -> None:
        self._folders = tuple(folders)
        self._grace = grace
        self._keepable = keepable
        self._kept = False
        self._guard: subprocess.Popen[bytes] | None = None
        self._members: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> ProcessGroup:
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "memqos-guard", str(self._grace), *map(str, self._folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        if self._guard.stdout is not None:
            with self._guard.stdout as ready:
                ready.readline()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kept:
            return
        for member in reversed(self._members):
            self.stop(member)
        guard = self._running_guard()
        with contextlib.suppress(BrokenPipeError):
            guard.communicate(b"done\n")

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        output: IO[bytes] | None = None,
        environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program in the group; it has no standard input, and both its streams go to `output` or nowhere.

        setpriv makes the kernel kill it with the thread that started it, in case the guard dies too; a thread other
        than the main one may end long before the work does, so there the guard alone has to do. In a group that may
        be kept it has to do as well.
        """
        mortal = threading.current_thread() is threading.main_thread() and not self._keepable
        deadly = ["setpriv", "--pdeathsig", "KILL"] if mortal else []
        sink: IO[bytes] | int = subprocess.DEVNULL if output is None else output
        member = subprocess.Popen(
            [*deadly, *map(str, argv)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            process_group=self._running_guard().pid,
            env=None if environment is None else {**os.environ, **environment},
        )
        self._members.append(member)
        return member

    def keep(self, member: subprocess.Popen[bytes]) -> int:
        """Leave the group to its guard, which ends it when this member ends or a TERM comes; the guard's process id."""
        guard = self._running_guard()
        if not self._keepable:
            raise MachineryError("this process group cannot be kept: it was not opened for that.")
        self._kept = True
        KEPT.extend([guard, *self._members])
        if guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError), guard.stdin as pipe:
                pipe.write(f"keep {member.pid}\n".encode())
        return guard.pid

    def stop(self, member: subprocess.Popen[bytes]) -> None:
        """End one member: TERM, the grace, KILL; nothing to do if it ended by itself or the group is kept."""
        if self._kept:
            return
        if member.poll() is None:
            member.send_signal(signal.SIGTERM)
            try:
                member.wait(self._grace)
            except subprocess.TimeoutExpired:
                member.kill()
        member.wait()

    def _running_guard(self) -> subprocess.Popen[bytes]:
        if self._guard is None:
            raise MachineryError("the process group is not open: enter it first.")
        return self._guard


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A new folder among the temporary ones, which is removed at the end, and if we die."""
    with tempfile.TemporaryDirectory(prefix=prefix) as name, ProcessGroup(folders=(Path(name),)):
        yield Path(name)
