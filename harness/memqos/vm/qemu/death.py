"""Why a machine is no machine any more: from its console, QEMU's end and events, and the host's memory."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

from memqos.vm.qemu.qmp import Event

__all__ = ["cause_of_death", "has_crashed", "is_full_disk", "last_words", "oom_kills"]

ENDED = frozenset({"SHUTDOWN", "GUEST_PANICKED", "STOP"})
"""QMP events after which a machine that nobody stopped is no machine any more."""

CRASHES = frozenset({-signal.SIGABRT, -signal.SIGSEGV})
"""QEMU's status after an assertion of its own that did not hold, and after a fault."""

FULL_DISK = ("no space left on device", "disk quota exceeded")

VMSTAT = Path("/proc/vmstat")


def cause_of_death(
    *, disaster: str | None, status: int | None, said: str, events: Iterable[Event], oom_kills: int
) -> str | None:
    """The cause as a sentence without its full stop; None if the machine looks well.

    disaster: what its console tells of. status: QEMU's, negative for a signal; None while it runs. said: QEMU's own
    last words. oom_kills: how many processes the host's kernel killed for lack of memory since QEMU was started.
    """
    if disaster is not None:
        return disaster
    if status is not None:
        return _end_of_qemu(status, said, oom_kills)
    for event in events:
        if event.name == "BLOCK_IO_ERROR" and event.data.get("nospace"):
            return "the host's disk is full, so QEMU paused the guest"
        if event.name in ENDED:
            return f"the guest stopped ({event.name} {dict(event.data)})"
    return None


def _end_of_qemu(status: int, said: str, oom_kills: int) -> str:
    words = f" and said: {said[-600:]}" if said else ""
    if status == -signal.SIGKILL and oom_kills:
        return f"the host ran out of memory and killed QEMU (status {status}){words}"
    if status == -signal.SIGBUS:
        return f"QEMU found no room for the guest's memory: the host's disk is full (status {status}){words}"
    return f"QEMU ended with status {status}{words}"


def has_crashed(status: int | None) -> bool:
    """Whether QEMU failed of itself: nobody killed it, and it found the host's memory and disk wide enough."""
    return status in CRASHES


def last_words(log: Path) -> str:
    """What QEMU said on its way, "" if it never started."""
    try:
        return log.read_text(errors="backslashreplace").strip()
    except FileNotFoundError:
        return ""


def is_full_disk(error: BaseException) -> bool:
    """Whether an error's text tells of a full disk; one that came out of the guest is about the guest's."""
    text = str(error).lower()
    return any(words in text for words in FULL_DISK)


def oom_kills(vmstat: Path = VMSTAT) -> int:
    """How many processes this host's kernel has killed for lack of memory so far; 0 if it does not say."""
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
