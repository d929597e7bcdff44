"""PURE descriptions of a workload's memory use, and memload's arguments for them.

The grammar is memload's own; vm/workload/memload/memload.c has it in full.

Also the control of a running memload: commands through a FIFO of the target. Its folder is mounted into the container;
CRI's own standard input would need an attached stream. The workload's reports are in its container's log.
"""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from memqos.clock import Deadline
from memqos.model.quantity import Quantity
from memqos.runtime.base import Mount
from memqos.target.base import Target, checked

__all__ = [
    "PROGRAM",
    "Anon",
    "Command",
    "Control",
    "Exit",
    "File",
    "Free",
    "Hold",
    "Read",
    "Report",
    "Tmpfs",
    "Touch",
    "allocated",
    "arguments",
    "control_folders",
    "finite_commands",
    "line",
    "threads_of",
]

PROGRAM = "/memload"
"""The path of memload in the workload's image."""

DEFAULT_STEP = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allocation:
    """Memory to use: size and step in bytes (> 0), rate in bytes a second (None: unlimited).

    compressible: whether compression makes a page about eight times smaller, or not at all.
    """

    size: int
    step: int = DEFAULT_STEP
    rate: int | None = None
    compressible: bool = False

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("step", self.step), ("rate", self.rate)):
            if value is not None and value <= 0:
                raise ValueError(f"'{name}' must be above zero (got {value})")

    def _pace(self) -> tuple[str, ...]:
        rate = () if self.rate is None else (f"rate={self.rate}/s",)
        return (str(self.size), f"step={self.step}", *rate, *(("fill=runs",) if self.compressible else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Anon(_Allocation):
    """Private anonymous memory. threads: how many allocate equal parts concurrently; 1 to 64.

    within: seconds after which the single thread stops, however much it has allocated (above zero); None: allocate
    everything. needs_text: whether every page of the program's own text is read before each page, and no longer locked
    in memory.
    """

    threads: int = 1
    within: float | None = None
    needs_text: bool = False

    def __post_init__(self) -> None:
        _Allocation.__post_init__(self)
        if self.threads not in range(1, 65):
            raise ValueError(f"'threads' must be 1 to 64 (got {self.threads})")
        if self.within is not None and (self.within <= 0 or self.threads > 1):
            raise ValueError(
                f"'within' must be above zero, with one thread (got {self.within}, {self.threads} threads)"
            )

    def words(self) -> tuple[str, ...]:
        """The words of this command."""
        threads = (f"threads={self.threads}",) if self.threads > 1 else ()
        within = () if self.within is None else (f"within={self.within:g}",)
        return ("anon", *self._pace(), *threads, *within, *(("needs=text",) if self.needs_text else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFile(_Allocation):
    """Memory behind a new file, by write(2) or through a mapping."""

    verb: ClassVar[str]
    path: str
    mapped: bool = False

    def words(self) -> tuple[str, ...]:
        """The words of this command; ValueError for a path with white space, which memload cannot read."""
        if not self.path or self.path.split() != [self.path]:
            raise ValueError(f"'{self.path}' cannot be a workload's path: it is empty or has white space in it")
        return (self.verb, self.path, *self._pace(), "how=mmap" if self.mapped else "how=write")


@dataclass(frozen=True, slots=True, kw_only=True)
class File(_InFile):
    """Page cache of a new file."""

    verb: ClassVar[str] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tmpfs(_InFile):
    """A new file on a tmpfs, whose pages are shared memory; memload reports an error for a path elsewhere."""

    verb: ClassVar[str] = "tmpfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnRegion:
    """An operation on one region, numbered from 1 in the order of allocation; None: on all."""

    verb: ClassVar[str]
    region: int | None = None

    def __post_init__(self) -> None:
        if self.region is not None and self.region < 1:
            raise ValueError(f"regions are numbered from 1 (got {self.region})")

    def words(self) -> tuple[str, ...]:
        """The words of this command."""
        return (self.verb, "all" if self.region is None else str(self.region))


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch(_OnRegion):
    """Read and write every page again, and check its content."""

    verb: ClassVar[str] = "touch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(_OnRegion):
    """Read every page again, and check its content: none becomes dirty, so that no dirty limit slows it."""

    verb: ClassVar[str] = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Free(_OnRegion):
    """Free memory; files are deleted."""

    verb: ClassVar[str] = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Do nothing for so many seconds (>= 0); None: forever, for a container that stays."""

    seconds: float | None = None

    def words(self) -> tuple[str, ...]:
        """The words of this command."""
        return ("hold",) if self.seconds is None else ("hold", f"{self.seconds:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Report what is held now."""

    def words(self) -> tuple[str, ...]:
        """The words of this command."""
        return ("report",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """End with this code (0 to 255)."""

    code: int = 0

    def __post_init__(self) -> None:
        if self.code not in range(256):
            raise ValueError(f"an exit code is 0 to 255 (got {self.code})")

    def words(self) -> tuple[str, ...]:
        """The words of this command."""
        return ("exit", str(self.code))


Command = Anon | File | Tmpfs | Touch | Read | Free | Hold | Report | Exit


def arguments(commands: Iterable[Command], *, commands_path: str = "", report_path: str = "") -> tuple[str, ...]:
    """Memload's arguments for these commands in order.

    commands_path: a FIFO with further commands after these; "" for none. report_path: a file to which its reports are
    appended as well; "" for none. Both are paths in the container. Without commands and without a FIFO memload reads
    its standard input, which a container leaves empty: it then ends at once with 0.
    """
    words: list[str] = []
    if commands_path:
        words += ["--commands", commands_path]
    if report_path:
        words += ["--report", report_path]
    for index, command in enumerate(commands):
        words += [",", *command.words()] if index else command.words()
    return tuple(words)


def line(command: Command) -> str:
    """A command as a line for memload's FIFO, with its newline."""
    return " ".join(command.words()) + "\n"


def finite_commands(args: Sequence[str]) -> int:
    """How many of the workload's commands end by themselves: all before a hold without a time.

    Options, words with two hyphens and a value each, come before them.
    """
    return len([words for words in _commands(args) if words != ["hold"]])


def threads_of(args: Sequence[str]) -> int:
    """The most threads with which the workload's commands allocate; 1 without the option."""
    words = (word.partition("=") for command in _commands(args) for word in command)
    return max((int(count) for name, _, count in words if name == "threads" and count.isdecimal()), default=1)


def allocated(args: Sequence[str]) -> int:
    """Bytes that the workload's commands allocate in total: anonymous memory, files and tmpfs.

    A malformed size raises QuantityError.
    """
    at = {"anon": 1, File.verb: 2, Tmpfs.verb: 2}
    sizes = [words[at[words[0]]] for words in _commands(args) if words[0] in at]
    return sum(Quantity.parse(size).value for size in sizes)


def _commands(args: Sequence[str]) -> list[list[str]]:
    """The words of each command, without the options before them."""
    options = 2 * sum(word.startswith("--") for word in args)
    return [words for part in " ".join(args[options:]).split(" , ") if (words := part.split())]


_INSIDE = "/memqos"
_FIFO = "commands"
_REMOVAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Control:
    """One workload's folder on the target."""

    folder: str

    @property
    def fifo(self) -> str:
        """The path of its FIFO, which takes one command per line."""
        return posixpath.join(self.folder, _FIFO)

    @property
    def mount(self) -> Mount:
        """The mount that the container needs."""
        return Mount(container_path=_INSIDE, host_path=self.folder)

    def arguments(self, commands: Iterable[Command] = ()) -> tuple[str, ...]:
        """Memload's arguments: first these commands, then those from the FIFO."""
        return arguments(commands, commands_path=f"{_INSIDE}/{_FIFO}")


@contextlib.contextmanager
def control_folders(target: Target, folders: Iterable[str], *, deadline: Deadline) -> Iterator[tuple[Control, ...]]:
    """New control folders at these absolute paths of the target, removed with the context; created by one command.

    deadline: for creating them; removal has ten seconds of its own, since it must happen however late it is. Raises
    TargetError for an existing one: another run created it.
    """
    controls = tuple(map(Control, folders))
    paths = [control.folder for control in controls]
    checked(target.run(["sh", "-c", _making(controls)], deadline=deadline), where=target.address)
    try:
        yield controls
    finally:
        removal = Deadline.after(_REMOVAL_SECONDS, deadline.clock)
        checked(target.run(["rm", "-rf", "--", *paths], deadline=removal), where=target.address)


def _making(controls: Sequence[Control]) -> str:
    """The line for sh: three programs, however many folders there are; each takes time under emulation."""
    folders = [control.folder for control in controls]
    above = dict.fromkeys(map(posixpath.dirname, folders))
    return " && ".join(
        shlex.join(words)
        for words in (
            ["mkdir", "-p", "--", *above],
            ["mkdir", "-m", "0755", "--", *folders],
            # memload opens it for both directions, and may be an ordinary user.
            ["mkfifo", "-m", "0666", "--", *(control.fifo for control in controls)],
        )
    )
