"""A machine's state to a file and back, with QEMU's migration, while its memory stays where it is.

x-ignore-shared leaves memory that is in shared files out of the state, so what is written is the devices and the
processors only: less than a MiB, whatever the machine's size.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError, MachineError
from memqos.vm.qemu.qmp import Qmp

__all__ = ["come_to_rest", "load_state", "save_state"]

POLL = 0.005

CAPABILITIES = {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}

ENDED = frozenset({"completed", "failed", "cancelled"})

ENDED_CONNECTIONS = frozenset({"HOST_FORWARD", "TIME_WAIT", "CLOSED"})
"""What QEMU may report of its forwarded connections without a client; the first is the forward itself."""

REST = 0.25
RESTING_SHARE = 0.2
"""A guest that takes less than this part of one of the host's processors, over REST seconds, has nothing to do."""

REST_SECONDS = 10


def save_state(qmp: Qmp, file: Path, *, deadline: Deadline) -> None:
    """Stop the machine and write its state; it can only be ended afterwards.

    Raises MachineError with QEMU's reason if it does not come about, DeadlineError if it does not in time.
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

    A clone could not go on with a connection, so one that stays raises DeadlineError. A guest that never rests is taken
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
    """What a process has used of the host's processors so far."""
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
