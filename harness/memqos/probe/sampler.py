"""Watching cgroups from inside a target: the port, and its adapter over memwatch, a small program on the target.

Events between two looks from outside are lost, and a look over ssh takes a tenth of a second. The kernel wakes
memwatch, so a rising counter, a stall or a killed process is seen when it happens.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.errors import DeadlineError, TargetError
from memqos.model.path import CgroupPath
from memqos.probe.looks import Failed, Looked, Said, parse_said
from memqos.target.base import Target

__all__ = ["MEMWATCH", "GuestSampler", "Sampler", "Sampling", "folders_of"]

MEMWATCH = "/usr/lib/memqos/memwatch"
"""Its path in a machine's image."""

SLOW = frozenset({"memory.stat", "memory.numa_stat"})
"""Files that are expensive for the kernel: read once a second, and with a requested look."""

_CHUNK = 1 << 16
_ENDS_SECONDS = 5.0


class Sampling(Protocol):
    """A running watch: all messages since it began, in order."""

    def watch(self, paths: Sequence[CgroupPath]) -> None:
        """Also watch these existing cgroups, and all below them, from now on."""
        ...

    def next(self, *, seconds: float) -> Sequence[Said]:
        """The messages since the last call; waits this long for one, and may return none."""
        ...

    def look(self, *, deadline: Deadline) -> Sequence[Said]:
        """The messages since the last call, with a look at every file made now.

        DeadlineError if it is not done in time.
        """
        ...

    def follow(self, name: str, path: str, *, patient: str) -> None:
        """From now on, report this file's content and appended lines under this name.

        A line is reported at once; a line that contains `patient` at the next look (0.1 s at most).
        """
        ...

    def write(self, fifo: str, line: str) -> None:
        """Write one line to a FIFO of the target; a missing reader is reported later, as Failed."""
        ...

    def finish(self) -> None:
        """Stop watching, without waiting for memwatch's exit; no further requests are allowed."""
        ...


class Sampler(Protocol):
    """Watches cgroups on a target."""

    def open(self, paths: Sequence[CgroupPath], files: Sequence[str]) -> contextlib.AbstractContextManager[Sampling]:
        """Watch these cgroups and all below them, existing or new, until the context ends; of each, these files."""
        ...


@dataclass(frozen=True, slots=True)
class GuestSampler:
    """memwatch on a target, at the path `program`."""

    target: Target
    hierarchy: Hierarchy
    program: str = MEMWATCH

    @contextlib.contextmanager
    def open(self, paths: Sequence[CgroupPath], files: Sequence[str]) -> Iterator[Sampling]:
        """See the port. Raises TargetError when memwatch ends, at the call that notices it."""
        process = self.target.open([self.program])
        conversation = _Conversation(process, self.target.address, self.hierarchy, files)
        try:
            conversation.watch(paths)
            yield conversation
        finally:
            conversation.finish()
            _await_end(process)


def folders_of(hierarchy: Hierarchy, path: CgroupPath, files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """A cgroup's folders for memwatch, each with its files: one on cgroup v2, one per controller on v1."""
    by_folder: dict[str, list[str]] = {}
    for file in files:
        folder, _, name = hierarchy.file(path, file).rpartition("/")
        by_folder.setdefault(folder, []).append(f"~{name}" if name in SLOW else name)
    for folder, names in by_folder.items():
        yield folder, *names


class _Conversation:
    """Messages to memwatch, and its answers."""

    def __init__(
        self, process: subprocess.Popen[bytes], address: str, hierarchy: Hierarchy, files: Sequence[str]
    ) -> None:
        assert process.stdin is not None  # noqa: S101 - both were asked for
        assert process.stdout is not None  # noqa: S101
        self._process = process
        self._input, self._output = process.stdin, process.stdout
        self._address = address
        self._hierarchy = hierarchy
        self._files = files
        self._rest = b""
        self._heard: list[Said] = []
        self._numbers = itertools.count(1)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    def tell(self, *words: str) -> None:
        """One line to memwatch; the words contain no tabs or newlines."""
        try:
            self._input.write(("\t".join(words) + "\n").encode())
            self._input.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def watch(self, paths: Sequence[CgroupPath]) -> None:
        """See the port."""
        for path in paths:
            for words in folders_of(self._hierarchy, path, self._files):
                self.tell("tree", *words)

    def next(self, *, seconds: float) -> Sequence[Said]:
        """See the port."""
        if not self._heard and self._selector.select(seconds):
            self._hear()
        heard, self._heard = self._heard, []
        return heard

    def look(self, *, deadline: Deadline) -> Sequence[Said]:
        """See the port."""
        number = next(self._numbers)
        self.tell("look", str(number))
        while not any(isinstance(one, Looked) and one.number == number for one in self._heard):
            if deadline.expired:
                raise DeadlineError(
                    f"memwatch did not answer within {deadline.elapsed:.1f} s.",
                    where=self._address,
                    data={"condition": "memwatch looks", "last": "nothing", "elapsed": deadline.elapsed},
                )
            if self._selector.select(deadline.remaining):
                self._hear()
        return self.next(seconds=0)

    def follow(self, name: str, path: str, *, patient: str) -> None:
        """See the port."""
        self.tell("tail", name, path, patient)

    def write(self, fifo: str, line: str) -> None:
        """See the port."""
        self.tell("to", fifo, line)

    def finish(self) -> None:
        """See the port: memwatch ends by the end of its input."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()

    def _hear(self) -> None:
        chunk = os.read(self._output.fileno(), _CHUNK)
        if not chunk:
            raise self._ended()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        said = [parse_said(line.decode("ascii", "backslashreplace")) for line in lines]
        for one in said:
            if isinstance(one, Failed) and one.what != "to":
                raise TargetError(
                    f"memwatch could not do '{one.what}' with '{one.path}': {os.strerror(one.errno)}.",
                    where=self._address,
                )
        self._heard += said

    def _ended(self) -> TargetError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_SECONDS)
        return TargetError(
            f"memwatch ended with {self._process.returncode} while cgroups were watched.",
            where=self._address,
            next_step="See the machine's console for what ended it.",
        )


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Wait until memwatch has exited after the end of its input; by force if that takes long."""
    try:
        process.wait(_ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout and process.stdout.close()
