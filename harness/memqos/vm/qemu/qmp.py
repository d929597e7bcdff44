"""A thin synchronous interface to `qemu.qmp`: commands, all events in order, and migration to a file and back.

The library is asyncio; its loop runs in one thread that lives exactly as long as the connection.

A machine's memory stays in its files while its state is saved: x-ignore-shared leaves memory in shared files out of the
state, so only devices and CPUs are written: less than a MiB, whatever the machine's size.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from qemu.qmp import ConnectError, ExecuteError, QMPClient, QMPError

from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError, MachineError

__all__ = [
    "RESTING_SHARE",
    "REST_SECONDS",
    "Event",
    "Qmp",
    "come_to_rest",
    "is_listening",
    "load_state",
    "open_qmp",
    "save_state",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event from QEMU: SHUTDOWN, STOP, GUEST_PANICKED and so on."""

    name: str
    data: Mapping[str, object]


class Qmp:
    """A connection to one QEMU. Create it with `open_qmp`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: QMPClient) -> None:
        self._loop = loop
        self._client = client

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far, oldest first."""
        return tuple(_event(told) for told in self._client.events.history)

    def execute(self, command: str, arguments: Mapping[str, object] | None = None, *, deadline: Deadline) -> Any:
        """Run a QMP command and return QEMU's answer.

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
        """Run a line of the human monitor, for the few facts that QMP does not have."""
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


SOCKETS = Path("/proc/net/unix")
"""The UNIX sockets of this network namespace, a line each: proc(5)."""

LISTENING = 0x10000
"""The flag of a socket that takes connections: <linux/net.h>, __SO_ACCEPTCON."""


def is_listening(socket: Path) -> bool:
    """Whether a process listens on this socket; its file is there a moment earlier, and refuses connections."""
    lines = (line.split(maxsplit=7) for line in SOCKETS.read_text(errors="surrogateescape").splitlines())
    return any(int(flags, 16) & LISTENING for _, _, _, flags, *_, path in lines if path == str(socket))


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
            # QEMU may have exited first: the library's error for that is expected.
            with contextlib.suppress(QMPError, EOFError, OSError, DeadlineError, asyncio.CancelledError):
                qmp._await(client.disconnect(), Deadline.after(2), "says good-bye")  # noqa: SLF001 - its own maker
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


POLL = 0.005

CAPABILITIES = {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}

ENDED = frozenset({"completed", "failed", "cancelled"})

ENDED_CONNECTIONS = frozenset({"HOST_FORWARD", "TIME_WAIT", "CLOSED"})
"""The lines that QEMU may report of its forwarded connections without a client; the first is the forward itself."""

REST = 0.25
RESTING_SHARE = 0.2
"""A guest is idle below this fraction of one host CPU, over REST seconds."""

REST_SECONDS = 10


def save_state(qmp: Qmp, file: Path, *, deadline: Deadline) -> None:
    """Stop the machine and write its state; it can only be ended afterwards.

    Raises MachineError with QEMU's reason on failure, DeadlineError if it takes too long.
    """
    qmp.execute("stop", deadline=deadline)
    qmp.execute("migrate-set-capabilities", CAPABILITIES, deadline=deadline)
    qmp.execute("migrate", {"uri": f"file:{file}"}, deadline=deadline)
    _wait_for_end(qmp, "the state is written", deadline)


def load_state(qmp: Qmp, file: Path, *, deadline: Deadline) -> None:
    """Load a state into a machine that was started to wait for one, and let it run; errors as in `save_state`."""
    qmp.execute("migrate-set-capabilities", CAPABILITIES, deadline=deadline)
    qmp.execute("migrate-incoming", {"uri": f"file:{file}"}, deadline=deadline)
    _wait_for_end(qmp, "the state is loaded", deadline)
    qmp.execute("cont", deadline=deadline)


def come_to_rest(qmp: Qmp, pid: int, *, deadline: Deadline) -> None:
    """Wait until no client is connected to the guest, and then until the guest is idle.

    A clone could not continue a connection, so one that stays raises DeadlineError. A guest that is never idle is saved
    as it is. pid: QEMU's.
    """
    wait(
        "every connection to the guest has ended", lambda: _is_quiet(qmp, deadline), deadline=deadline, every=REST / 10
    )
    used: list[float] = []

    def share() -> float:
        used.append(_processor_seconds(pid))
        return (used[-1] - used[-2]) / REST if used[1:] else 1.0

    with contextlib.suppress(DeadlineError):
        wait(
            "the guest rests",
            share,
            until=lambda part: part < RESTING_SHARE,
            deadline=deadline.sooner(REST_SECONDS),
            every=REST,
        )


def _is_quiet(qmp: Qmp, deadline: Deadline) -> bool:
    told = qmp.monitor("info usernet", deadline=deadline)
    states = [line.partition("[")[2].partition("]")[0] for line in told.splitlines() if "TCP[" in line]
    return set(states) <= ENDED_CONNECTIONS


def _processor_seconds(pid: int) -> float:
    """The host CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_for_end(qmp: Qmp, condition: str, deadline: Deadline) -> None:
    told = wait(
        condition,
        lambda: qmp.execute("query-migrate", deadline=deadline),
        until=lambda answer: answer.get("status") in ENDED,
        deadline=deadline,
        every=POLL,
    )
    if told["status"] != "completed":
        reason = told.get("error-desc", "no reason given")
        raise MachineError(f"QEMU reports that the migration {told['status']}: {reason}.", data={"told": told})
