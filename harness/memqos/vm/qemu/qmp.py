"""A thin synchronous face of `qemu.qmp`: commands, and every event kept in order.

The library is asyncio; its loop runs in one thread that lives exactly as long as the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from qemu.qmp import ConnectError, ExecuteError, QMPClient, QMPError

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineError

__all__ = ["Event", "Qmp", "open_qmp"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that QEMU told by itself: SHUTDOWN, STOP, GUEST_PANICKED and so on."""

    name: str
    data: Mapping[str, object]


class Qmp:
    """A connection to one QEMU. Make it with `open_qmp`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: QMPClient) -> None:
        self._loop = loop
        self._client = client

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far, oldest first."""
        return tuple(_event(told) for told in self._client.events.history)

    def execute(self, command: str, arguments: Mapping[str, object] | None = None, *, deadline: Deadline) -> Any:
        """Run a QMP command and return what QEMU answers.

        Raises MachineError if QEMU refuses it or is gone, DeadlineError if it does not answer in time.
        """
        try:
            return self._await(self._client.execute(command, dict(arguments or {})), deadline, f"answers '{command}'")
        except ExecuteError as error:
            raise MachineError(
                f"QEMU refused '{command}': {error}", data={"command": command, "class": error.error_class}
            ) from error
        except (QMPError, EOFError, OSError, asyncio.CancelledError) as error:
            raise MachineError(
                f"QEMU did not answer '{command}': the connection closed.", data={"command": command}
            ) from error

    def monitor(self, line: str, *, deadline: Deadline) -> str:
        """Run a line of the human monitor, for the few facts that QMP does not tell."""
        return str(self.execute("human-monitor-command", {"command-line": line}, deadline=deadline))

    def run_state(self, *, deadline: Deadline) -> str:
        """QEMU's run state: running, paused, internal-error, shutdown and so on."""
        return str(self.execute("query-status", deadline=deadline)["status"])

    def _await(self, work: Coroutine[Any, Any, T], deadline: Deadline, condition: str) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout=deadline.remaining)
        except FutureTimeoutError:
            future.cancel()
            raise DeadlineError(
                f"QEMU did not do this in {deadline.elapsed:.1f} s: {condition}.",
                data={"condition": condition, "last": None, "elapsed": deadline.elapsed},
            ) from None


def _event(told: Mapping[str, object]) -> Event:
    data = told.get("data")
    return Event(name=str(told["event"]), data=data if isinstance(data, dict) else {})


@contextlib.contextmanager
def open_qmp(socket: Path, *, deadline: Deadline) -> Iterator[Qmp]:
    """Connect to the QEMU that listens on this socket, and disconnect at the end.

    Raises MachineError if nothing listens there or it does not speak QMP.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="memqos-qmp", daemon=True)
    thread.start()
    client = QMPClient("memqos")
    qmp = Qmp(loop, client)
    try:
        try:
            qmp._await(client.connect(str(socket)), deadline, "greets over QMP")  # noqa: SLF001 - its own maker
        except ConnectError as error:
            raise MachineError(f"QEMU does not answer over QMP: {error}", where=str(socket)) from error
        try:
            yield qmp
        finally:
            # QEMU may have gone first: the library reports that here, and it is no news.
            with contextlib.suppress(QMPError, EOFError, OSError, DeadlineError, asyncio.CancelledError):
                qmp._await(client.disconnect(), Deadline.after(2), "says good-bye")  # noqa: SLF001 - its own maker
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
