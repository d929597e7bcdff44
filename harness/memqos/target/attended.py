"""A target with agents: processes that stay on the machine, read and write files, and run commands.

A command over ssh starts a shell on both sides before its own program, so reading the files of a cgroup takes a tenth
of a second under emulation. An agent takes a hundredth, and loads the machine under test less.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from memqos.agent.program import AgentProcess, AgentReply, LostError, program
from memqos.clock import Deadline
from memqos.errors import DeadlineError, TargetError
from memqos.target.base import CommandResult, Target

__all__ = ["AttendedTarget", "attended"]

_MISSING = (errno.ENOENT, errno.ENOTDIR)
_ENDS_SECONDS = 1.0

_LONG = 1 << 18
"""Commands with more standard input than this, in bytes, do not go through an agent's JSON."""

T = TypeVar("T")


class AttendedTarget:
    """A wrapper of another target whose files and commands go through agents; see `attended`.

    Each concurrent thread has its own agent. Without an agent the inner target does everything. After an agent ended
    unexpectedly no further agent is started: the inner target repeats a read, while a command may have run in part, so
    it is an error.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._free: list[AgentProcess] = []
        self._is_given_up = False

    @property
    def address(self) -> str:
        """The inner target's."""
        return self._target.address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """See the port. A command that is a single agent request (`Program.once`) goes to a running agent."""
        began = deadline.clock.now()

        def run(agent: AgentProcess) -> tuple[int, bytes, bytes]:
            if tuple(argv) == program().once:
                return 0, json.dumps(agent.ask(program().request_in(stdin), deadline)).encode(), b""
            return agent.run(argv, stdin=stdin, deadline=deadline)

        try:
            ended = self._asked(run, deadline) if len(stdin) <= _LONG else None
        except LostError as lost:
            raise self._unfinished(argv, deadline) from lost
        if ended is None:
            return self._target.run(argv, deadline=deadline, stdin=stdin)
        status, stdout, stderr = ended
        seconds = deadline.clock.now() - began
        return CommandResult(argv=tuple(argv), status=status, stdout=stdout, stderr=stderr, seconds=seconds)

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """See the port; the inner target reports errors about files."""
        seen = (self.read_many([path], deadline=deadline) or {}).get(path)
        if seen in _MISSING:
            return None
        return seen if isinstance(seen, bytes) else self._target.read(path, deadline=deadline)

    def read_many(self, paths: Sequence[str], *, deadline: Deadline) -> Mapping[str, bytes | int] | None:
        """By path, a file's bytes or the errno of the read; None without an agent."""
        with contextlib.suppress(LostError):
            answer = self._answer({"read": list(paths)}, deadline)
            if answer is not None:
                return {path: one.encode("latin-1") if isinstance(one, str) else one for path, one in answer.items()}
        return None

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """See the port."""
        self._target.write(path, data, deadline=deadline, mode=mode)

    def write_many(self, paths: Sequence[str], data: bytes, *, deadline: Deadline) -> Mapping[str, int] | None:
        """By path, 0 or the errno of the write; None without an agent."""
        with contextlib.suppress(LostError):
            return self._answer({"write": list(paths), "text": data.decode("latin-1")}, deadline)
        return None

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """See the port."""
        with contextlib.suppress(LostError):
            answer = self._answer({"list": path}, deadline)
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
        """End the agents; the target stays usable without them."""
        with self._lock:
            free, self._free, self._is_given_up = self._free, [], True
        for agent in free:
            agent.end()

    def _answer(self, request: Mapping[str, object], deadline: Deadline) -> AgentReply | None:
        """An agent's answer; None without an agent. LostError if it does not answer."""
        return self._asked(lambda agent: agent.ask(request, deadline), deadline)

    def _asked(self, ask: Callable[[AgentProcess], T], deadline: Deadline) -> T | None:
        """The result of a free agent, started if necessary; None without any. LostError if it is lost."""
        agent = self._taken(deadline)
        if agent is None:
            return None
        answer = self._answered(agent, ask, deadline)
        with self._lock:
            if not self._is_given_up:
                self._free.append(agent)
                return answer
        agent.end()
        return answer

    def _taken(self, deadline: Deadline) -> AgentProcess | None:
        """A free or new agent; None if none can be started."""
        with self._lock:
            if self._is_given_up:
                return None
            if self._free:
                return self._free.pop()
        agent = AgentProcess(self._target.open(program().command), program())
        try:
            self._answered(agent, lambda come: come.ask({"read": []}, deadline), deadline)
        except LostError:
            return None
        return agent

    def _answered(self, agent: AgentProcess, ask: Callable[[AgentProcess], T], deadline: Deadline) -> T:
        """The agent's result; any exception ends the agent."""
        try:
            return ask(agent)
        except BaseException as error:
            # A timeout of one agent says nothing about the others.
            self._is_given_up |= isinstance(error, LostError) and not deadline.expired
            agent.end()
            raise

    def _unfinished(self, argv: Sequence[str], deadline: Deadline) -> TargetError | DeadlineError:
        """A command's result; after a lost connection the inner target gives the clearer error."""
        words = shlex.join(argv)
        with contextlib.suppress(DeadlineError):
            self._target.run(["true"], deadline=Deadline.after(_ENDS_SECONDS) if deadline.expired else deadline)
        if deadline.expired:
            return DeadlineError(
                f"'{words[:200]}' did not end within {deadline.elapsed:.1f} s.",
                where=self.address,
                data={"condition": f"'{words}' ends", "last": "running", "elapsed": deadline.elapsed},
            )
        return TargetError(
            f"the agent ended while it ran '{words[:200]}'.", where=self.address, data={"argv": tuple(argv)}
        )


@contextlib.contextmanager
def attended(target: Target) -> Iterator[AttendedTarget]:
    """This target with agents, started on first use and ended with the context."""
    found = AttendedTarget(target)
    try:
        yield found
    finally:
        found.dismiss()
