"""Talking to a memload that runs in a container: commands through a FIFO of the target, reports from a file.

The folder with both is mounted into the container; CRI's own standard input would need an attached stream.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from memqos.clock import Deadline, wait
from memqos.runtime.base import Mount
from memqos.target.base import Target, checked
from memqos.workload.command import Command, arguments, line
from memqos.workload.report import Done, Failed, ReportLine, parse_report

__all__ = ["Control", "control_folder"]

_INSIDE = "/memqos"
_FIFO = "commands"
_REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One workload's folder on the target."""

    target: Target
    folder: str

    @property
    def mount(self) -> Mount:
        """What the container must have mounted."""
        return Mount(container_path=_INSIDE, host_path=self.folder)

    def arguments(self, commands: Iterable[Command] = ()) -> tuple[str, ...]:
        """Memload's arguments: first these commands, then those that `send` brings."""
        return arguments(commands, commands_path=f"{_INSIDE}/{_FIFO}", report_path=f"{_INSIDE}/{_REPORT}")

    def send(self, *commands: Command, deadline: Deadline) -> None:
        """Give the workload commands, which it does in turn after those it has.

        DeadlineError if nothing reads them: the workload has not started, or is gone.
        """
        text = "".join(map(line, commands)).encode()
        fifo = posixpath.join(self.folder, _FIFO)
        checked(
            self.target.run(
                ["dd", f"of={fifo}", "conv=notrunc", "bs=4096", "status=none"], stdin=text, deadline=deadline
            ),
            where=self.target.address,
        )

    def report(self, *, deadline: Deadline) -> tuple[ReportLine, ...]:
        """What the workload has reported until now; nothing if it has not started."""
        path = posixpath.join(self.folder, _REPORT)
        text = self.target.read(path, deadline=deadline) or b""
        return parse_report(text.decode("utf-8", "backslashreplace"), source=path, live=True)

    def await_report(
        self, condition: str, until: Callable[[tuple[ReportLine, ...]], bool], *, deadline: Deadline
    ) -> tuple[ReportLine, ...]:
        """The report as soon as `until` holds of it; DeadlineError naming the condition otherwise."""
        return wait(condition, lambda: self.report(deadline=deadline), until=until, deadline=deadline)

    def await_command(self, command: int, *, deadline: Deadline) -> tuple[ReportLine, ...]:
        """The report as soon as this command (counted from 1) is done or has failed."""

        def ended(lines: tuple[ReportLine, ...]) -> bool:
            return any(isinstance(line, Done | Failed) and line.command == command for line in lines)

        return self.await_report(f"the workload ends its command {command}", ended, deadline=deadline)


@contextlib.contextmanager
def control_folder(target: Target, folder: str, *, deadline: Deadline) -> Iterator[Control]:
    """A new control folder at this absolute path of the target, removed with the context.

    deadline: for making it; removing has ten seconds of its own, for it must happen however late it is.
    """
    fifo = posixpath.join(folder, _FIFO)
    script = 'mkdir -p -- "${1%/*}" && mkdir -m 0755 -- "$1" && mkfifo -m 0622 -- "$2"'
    checked(target.run(["sh", "-c", script, "memqos-control", folder, fifo], deadline=deadline), where=target.address)
    try:
        yield Control(target=target, folder=folder)
    finally:
        removal = Deadline.after(10, deadline.clock)
        checked(target.run(["rm", "-rf", "--", folder], deadline=removal), where=target.address)
