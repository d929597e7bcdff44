"""Steering a memload that runs in a container: commands through a FIFO of the target.

The folder with it is mounted into the container; CRI's own standard input would need an attached stream. What the
workload reports is in its container's log.
"""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.runtime.base import Mount
from memqos.target.base import Target, checked
from memqos.workload.command import Command, arguments

__all__ = ["Control", "control_folders"]

_INSIDE = "/memqos"
_FIFO = "commands"
_REMOVAL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Control:
    """One workload's folder on the target."""

    folder: str

    @property
    def fifo(self) -> str:
        """Where its commands go, one per line."""
        return posixpath.join(self.folder, _FIFO)

    @property
    def mount(self) -> Mount:
        """What the container must have mounted."""
        return Mount(container_path=_INSIDE, host_path=self.folder)

    def arguments(self, commands: Iterable[Command] = ()) -> tuple[str, ...]:
        """Memload's arguments: first these commands, then those that come through the FIFO."""
        return arguments(commands, commands_path=f"{_INSIDE}/{_FIFO}")


@contextlib.contextmanager
def control_folders(target: Target, folders: Iterable[str], *, deadline: Deadline) -> Iterator[tuple[Control, ...]]:
    """New control folders at these absolute paths of the target, removed with the context; made by one command.

    deadline: for making them; removing has ten seconds of its own, for it must happen however late it is.
    Raises TargetError for one that exists already: another run made it.
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
    """The line for sh: three programs, however many folders there are; each takes its time under emulation."""
    folders = [control.folder for control in controls]
    above = dict.fromkeys(map(posixpath.dirname, folders))
    return " && ".join(
        shlex.join(words)
        for words in (
            ["mkdir", "-p", "--", *above],
            ["mkdir", "-m", "0755", "--", *folders],
            ["mkfifo", "-m", "0622", "--", *(control.fifo for control in controls)],
        )
    )
