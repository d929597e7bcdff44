"""Watching cgroups from inside a target: the port, and its adapter over memwatch, a small program on the target.

Events between two looks from outside are lost, and a look over ssh takes a tenth of a second. The kernel wakes
memwatch, so a rising counter, a stall or a killed process is seen when it happens.

memwatch prints looks (changes in a cgroup) and lines appended to a file, as commands and reports of workloads are.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineryError, TargetError
from memqos.model.path import CgroupPath
from memqos.target.base import Target

__all__ = [
    "MEMWATCH",
    "Appended",
    "Failed",
    "GuestSampler",
    "Look",
    "Looked",
    "Said",
    "Sampler",
    "Sampling",
    "Spoken",
    "folders_of",
    "parse_said",
]


_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at one cgroup's folder.

    at: seconds of the target's monotonic clock. why: new, clock, event, asked, or gone. files: those that changed since
    the previous look, with their text; None: the file does not exist.
    """

    at: float
    folder: str
    why: str
    files: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The text appended to a followed file; name: as given to the follower."""

    at: float
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A requested look is done; everything that it saw was reported before this."""

    at: float
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request failed: its name, the path, and the kernel's errno (0: none)."""

    at: float
    what: str
    path: str
    errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A command for a workload, or lines of its container's log.

    at: seconds of the target's monotonic clock; for commands, the time of the last look before. container: its pod's
    name and its own. told: whether it is a command from memqos. text: one command, or lines of the log as they came.
    """

    at: float
    container: str
    told: bool
    text: str


Said = Look | Appended | Looked | Failed


def parse_said(line: str) -> Said:
    """One line of memwatch; MachineryError if it is malformed, or if lines before it were lost."""
    try:
        fields = json.loads(line)
        at, lost = float(fields["at"]), fields["lost"]
        said = _said(at, fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        _refuse("it is not a line of memwatch", line)
    if lost:
        _refuse(f"{lost} lines before it were dropped because they were read too late", line)
    return said


def _said(at: float, fields: Mapping[str, Any]) -> Said:
    if "cgroup" in fields:
        files = {name: _text(text) for name, text in fields["files"].items()}
        return Look(at=at, folder=str(fields["cgroup"]), why=str(fields["why"]), files=files)
    if "tail" in fields:
        return Appended(at=at, name=str(fields["tail"]), text=str(_text(fields["text"])))
    if "looked" in fields:
        return Looked(at=at, number=int(fields["looked"]))
    return Failed(at=at, what=str(fields["failed"]), path=str(_text(fields["path"])), errno=int(fields["errno"]))


def _text(escaped: str | None) -> str | None:
    """The text of a file; memwatch escapes single bytes."""
    return None if escaped is None else escaped.encode("latin-1").decode("utf-8", "backslashreplace")


def _refuse(why: str, line: str) -> NoReturn:
    shown = line[:_LONGEST_SHOWN]
    raise MachineryError(f"memwatch printed '{shown}': {why}.", where="memwatch", data={"line": line})


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
