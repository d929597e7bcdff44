"""The time base of emulated pseries machines across a checkpoint.

QEMU saves the guest's time base as host ticks plus an offset, and on `cont` restores the offset by the host's ticks at
that moment (hw/ppc/ppc.c, timebase_save and timebase_load). Emulated, the time base counts QEMU's virtual clock, which
stood still meanwhile: the guest's time would jump back by all host ticks since the checkpoint, and its timers would
stand still as long. Here the saved number is moved to a moment soon after, at which the machine then continues: the
offset comes out as it was. Each host tick too early moves the guest's time forward by a tick of its time base (2 ns),
each too late back.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from memqos.clock import utc_now
from memqos.errors import MachineError

__all__ = ["Moment", "Timely", "host_ticks", "moved", "reads_host_ticks", "ticks_when_stopped"]

SECTION = re.compile(rb"\x04.{4}\x05spapr.{4}\0\0\0\x03", re.DOTALL)
"""The start of the machine's own section in a migration stream: its type, id, name, instance and version (3).

The time base follows: 64 bits, and the host's wall clock in ns at the same moment, big-endian.
"""

FIELDS = struct.Struct(">Qq")
WORD = 1 << 64
MICROSECONDS = 1_000_000

LOADING_NS = 3_000_000_000
"""From the moved number to the moment of `cont`, in ns: QEMU loads the state meanwhile, also on a busy host."""

EARLY_NS = 100_000_000
"""How much earlier QEMU is asked to continue, in ns, since that takes some time too: forward is harmless."""

READ_TICKS = bytes.fromhex("0f31 48c1e220 4809d0 c3")
"""The function in x86-64's machine code: rdtsc; shl rdx, 32; or rax, rdx; ret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The host's ticks and its wall clock in ns, at the same moment."""

    ticks: int
    wall: int

    @classmethod
    def now(cls) -> Moment:
        """This moment; OSError as in `host_ticks`."""
        return cls(ticks=host_ticks(), wall=int(utc_now().timestamp() * MICROSECONDS) * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timely:
    """A state to be loaded soon. state: with its time base moved; ticks: those of the host when it may continue."""

    state: bytes
    ticks: int

    @classmethod
    def of(cls, state: bytes, stopped: int, began: Moment, now: Moment) -> Timely:
        """PURE. The state of a machine that was stopped at these host ticks, to be loaded from now on.

        began: an earlier moment, for the rate of the ticks. MachineError as in `moved`.
        """
        rate = Fraction(now.ticks - began.ticks, max(1, now.wall - began.wall))
        then = now.ticks + int(rate * LOADING_NS)
        return cls(state=moved(state, then - stopped), ticks=then - int(rate * EARLY_NS))

    def is_due(self) -> bool:
        """Whether the machine may continue by now."""
        return host_ticks() >= self.ticks


def reads_host_ticks() -> bool:
    """Whether this process can read the ticks that QEMU reads: on x86-64, if it may run code of its own."""
    try:
        return platform.machine() == "x86_64" and host_ticks() > 0
    except OSError:
        return False


def host_ticks() -> int:
    """The host's tick counter, as QEMU reads it on x86-64 (RDTSC). OSError if the host forbids code of one's own."""
    return _reader()()


@functools.cache
def _reader() -> Callable[[], int]:
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(READ_TICKS)
    # The reference keeps the memory mapped.
    place = ctypes.c_char.from_buffer(memory)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(place))
    return lambda: int(read()) if place is not None else 0


def ticks_when_stopped(state: bytes, before: Moment, after: Moment) -> int:
    """PURE. The host's ticks when the machine of this state was stopped, between these two moments.

    MachineError if the state tells no moment between them.
    """
    _, _, wall = _time_base(state)
    if not before.wall <= wall <= after.wall or before.wall == after.wall:
        raise MachineError(f"the state was saved at {wall} ns, not between {before.wall} and {after.wall} ns.")
    passed = (wall - before.wall) * (after.ticks - before.ticks)
    return before.ticks + passed // (after.wall - before.wall)


def moved(state: bytes, ticks: int) -> bytes:
    """PURE. The state with its time base moved by so many host ticks, of any sign; MachineError without a time base."""
    place, base, wall = _time_base(state)
    return state[:place] + FIELDS.pack((base + ticks) % WORD, wall) + state[place + FIELDS.size :]


def _time_base(state: bytes) -> tuple[int, int, int]:
    """Where the time base is in a migration stream, its number, and the host's wall clock."""
    found = [one.end() for one in SECTION.finditer(state)]
    if len(found) != 1 or found[0] + FIELDS.size > len(state):
        raise MachineError(f"the saved state has {len(found)} time bases of pseries instead of one.")
    return (found[0], *FIELDS.unpack_from(state, found[0]))
