"""A running agent on a target, as a client that sends requests to it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memqos.agent.channel import Channel, GoneError
from memqos.agent.program import Program
from memqos.clock import Deadline

__all__ = ["AgentProcess", "AgentReply", "LostError"]

_ENDS_SECONDS = 1.0

AgentReply = dict[str, Any]


class LostError(Exception):
    """The agent ended or did not answer in time. Do not use it again: a late answer would seem to be the next one."""


class AgentProcess:
    """An agent on a target that answers one request at a time; see `memqos.agent.main`.

    process: from `Target.open` of `Program.command`.
    """

    def __init__(self, process: subprocess.Popen[bytes], program: Program) -> None:
        assert process.stdin is not None  # noqa: S101 - the port promises both
        assert process.stdout is not None  # noqa: S101
        self._process = process
        self._channel = Channel(process.stdout.fileno(), process.stdin.fileno())
        # If the process has ended already, the first request raises.
        with contextlib.suppress(OSError):
            self._channel.give(program.packed)

    def ask(self, request: Mapping[str, Any], deadline: Deadline) -> AgentReply:
        """The answer to a request. Raises LostError without one."""
        with _lost_otherwise():
            self._channel.say(dict(request))
            return self._channel.line(deadline.remaining)

    def tell(self, request: Mapping[str, Any]) -> None:
        """Send a message that has no answer; nothing happens if the agent has ended."""
        with contextlib.suppress(OSError):
            self._channel.say(dict(request))

    def run(self, argv: Sequence[str], *, stdin: bytes, deadline: Deadline) -> tuple[int, bytes, bytes]:
        """A command's exit status, standard output and standard error.

        Raises LostError if it does not end in time: its process group is killed when the agent's input ends.
        """
        said: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        with _lost_otherwise():
            self._channel.say({"run": list(argv), "stdin": stdin.decode("latin-1")})
            while True:
                [(kind, number)] = self._channel.line(deadline.remaining).items()
                if kind == "status":
                    return int(number), b"".join(said["stdout"]), b"".join(said["stderr"])
                said[kind].append(self._channel.data(int(number), deadline.remaining))
                if deadline.expired:
                    raise ValueError("its output does not end in time")

    def end(self) -> None:
        """End the agent and the command that it runs."""
        with contextlib.suppress(OSError):
            self._process.stdin and self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_SECONDS)
        self._process.kill()
        self._process.wait()
        self._process.stdout and self._process.stdout.close()


@contextlib.contextmanager
def _lost_otherwise() -> Iterator[None]:
    try:
        yield
    except (GoneError, OSError, ValueError, TypeError, KeyError) as error:
        raise LostError(str(error)) from error
