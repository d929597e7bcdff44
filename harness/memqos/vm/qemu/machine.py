"""A machine: one QEMU with its states, its console and events, and why it died.

States and the verbs that each accepts:

    off ──start──▶ booting ──ready──▶ ready ──mark_dirty──▶ dirty
                      │                └──checkpoint──▶ checkpointed
                      └── any failure, also of the states after it ──▶ broken
    resume: booting, for a clone; power_off: from ready and dirty, back to off
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import AbortedError, DeadlineError, MachineError, MachineryError, TargetError, WrongStateError
from memqos.ownership import ProcessGroup
from memqos.target.base import Target
from memqos.vm.cache.entry import Image
from memqos.vm.host.programs import Qemu
from memqos.vm.profile import Contents, Profile
from memqos.vm.qemu.pulse import Line, Pulse, beating, late_answer
from memqos.vm.qemu.qmp import Event, Qmp, come_to_rest, is_listening, load_state, save_state
from memqos.vm.qemu.spec import MachineSpec, qemu_arguments

__all__ = [
    "START_SECONDS",
    "Console",
    "Machine",
    "MachineState",
    "cause_of_death",
    "find_disaster",
    "is_full_disk",
    "oom_kills",
    "plain_lines",
]

TAIL_LINES = 30
"""How many lines an error includes."""

DISASTERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Kernel panic - not syncing: (.+)"), "the guest's kernel panicked: {0}"),
    # A lockup under software emulation means that the host was busy, not that the guest is broken.
    (re.compile(r"(?:BUG: (?!soft lockup|workqueue lockup)|Oops: )(.+)"), "the guest's kernel hit a bug: {0}"),
    (re.compile(r"Out of memory: Killed process 1 \((.+?)\)"), "the guest's init ({0}) was killed for lack of memory"),
    (re.compile(r"You are in (?:rescue|emergency) mode"), "the guest's systemd fell back to its emergency shell"),
)
"""Patterns of console messages, worst first, with the sentence for each."""

LOST_TIMER = re.compile(r"rcu: \S+ kthread timer wakeup didn't happen for \d+ jiffies")
"""The kernel's RCU warning when a timer that it set did not fire (kernel/rcu/tree_stall.h)."""

NO_TIMER = re.compile(r"Kernel panic - not syncing: IO-APIC \+ timer doesn't work!")
"""The kernel's message when it got no tick for 0.16 s (arch/x86/kernel/apic/io_apic.c, check_timer).

A busy host had kept QEMU's timer thread from running.
"""

LOST_AFTER = 2
"""How often the warning must appear before the timer counts as lost.

A guest that the host kept from running for 21 s may print it once: before the next check it has run for some 63 s more,
in which the timer could fire.
"""

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?!]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()].|.)")
"""Terminal control: colours, titles and cursor movements, which systemd writes to any console."""


def plain_lines(raw: bytes) -> list[str]:
    """A log's lines as text: no terminal control, no blank lines, bytes that are not UTF-8 as escapes."""
    text = ESCAPES.sub("", raw.decode("utf-8", "backslashreplace"))
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def find_disaster(lines: list[str]) -> str | None:
    """The worst failure on the console, as a sentence without its full stop; None without one."""
    for pattern, sentence in DISASTERS:
        for line in lines:
            if match := pattern.search(line):
                return sentence.format(*match.groups())
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """A machine's serial console, written by QEMU to this file."""

    path: Path

    def lines(self) -> list[str]:
        """All console output so far; empty if QEMU did not start."""
        try:
            return plain_lines(self.path.read_bytes())
        except FileNotFoundError:
            return []

    def tail(self, count: int = TAIL_LINES) -> str:
        """The last `count` lines."""
        return "\n".join(self.lines()[-count:])

    def disaster(self) -> str | None:
        """The worst failure on the console, or None."""
        return find_disaster(self.lines())

    def has_lost_its_timer(self) -> bool:
        """Whether a CPU of the guest waits for a timer that will not fire, so that its boot hangs."""
        lines = self.lines()
        lost = sum(LOST_TIMER.search(line) is not None for line in lines) >= LOST_AFTER
        return lost or any(NO_TIMER.search(line) is not None for line in lines)


ENDED = frozenset({"SHUTDOWN", "GUEST_PANICKED", "STOP"})
"""QMP events after which a machine that memqos did not stop is lost."""

CRASHES = frozenset({-signal.SIGABRT, -signal.SIGSEGV})
"""QEMU's status after a failed assertion of its own, and after a fault."""

FULL_DISK = ("no space left on device", "disk quota exceeded")

VMSTAT = Path("/proc/vmstat")


def cause_of_death(
    *, disaster: str | None, status: int | None, said: str, events: Iterable[Event], oom_kills: int
) -> str | None:
    """The cause as a sentence without its full stop; None if the machine looks well.

    disaster: the failure on its console. status: QEMU's, negative for a signal; None while it runs. said: QEMU's own
    last output. oom_kills: how many processes the host's kernel killed for lack of memory since QEMU was started.
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
    words = f" and printed: {said[-600:]}" if said else ""
    if status == -signal.SIGKILL and oom_kills:
        return f"the host ran out of memory and killed QEMU (status {status}){words}"
    if status == -signal.SIGBUS:
        return f"QEMU found no room for the guest's memory: the host's disk is full (status {status}){words}"
    return f"QEMU ended with status {status}{words}"


def has_crashed(status: int | None) -> bool:
    """Whether QEMU failed by itself: it was not killed, and the host had enough memory and disk."""
    return status in CRASHES


def last_words(log: Path) -> str:
    """QEMU's output so far, "" if it never started."""
    try:
        return log.read_text(errors="backslashreplace").strip()
    except FileNotFoundError:
        return ""


def is_full_disk(error: BaseException) -> bool:
    """Whether an error's text is about a full disk; one from inside the guest is about the guest's."""
    text = str(error).lower()
    return any(words in text for words in FULL_DISK)


def oom_kills(vmstat: Path = VMSTAT) -> int:
    """How many processes this host's kernel has killed for lack of memory so far; 0 if unknown."""
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class MachineState(StrEnum):
    """A machine's state."""

    OFF = "off"
    BOOTING = "booting"
    READY = "ready"
    CHECKPOINTED = "checkpointed"
    DIRTY = "dirty"
    BROKEN = "broken"

    @property
    def is_usable(self) -> bool:
        """Whether commands can be run in it."""
        return self in USABLE


USABLE = (MachineState.READY, MachineState.DIRTY)


def wrong_state(machine: str, doing: str, current: MachineState, accepted: Sequence[MachineState]) -> WrongStateError:
    """The error for a request that only the accepted states allow."""
    return WrongStateError(
        f"cannot {doing} while it is {current}: it must be {' or '.join(accepted)}.",
        where=machine,
        data={"current": str(current), "accepted": [str(state) for state in accepted]},
    )


START_SECONDS = 20
"""How long QEMU may take from its start to its first QMP message."""


class Machine:
    """A virtual machine. Create it with `memqos.vm.boot.boot`."""

    def __init__(self, spec: MachineSpec, *, qemu: Qemu, group: ProcessGroup, qemu_log: Path) -> None:
        self.spec = spec
        self.console = Console(path=spec.serial_log)
        self.contents = Contents()
        self.checkpoint_name = ""
        """What it was restored from, "" if it booted."""
        self.dirty = ""
        """The first thing left behind in it, "" for none."""
        self.profile: Profile | None = None
        self.image: Image | None = None
        self.recheck: Callable[[], bool] = lambda: True
        """Whether its origin is undamaged; takes seconds, and is checked after a failure."""
        self.state = MachineState.OFF
        self._qemu = qemu
        self._group = group
        self._qemu_log = qemu_log
        self._process: subprocess.Popen[bytes] | None = None
        self._qmp: Qmp | None = None
        self._target: Target | None = None
        self._pulse: Pulse | None = None
        self._failure: MachineError | None = None
        self._stopping = False
        self.is_kept = False
        self._oom_kills = 0
        self._disconnect: Callable[[], None] = lambda: None
        self._noted: dict[str, object] = {
            "qemu": qemu.version_text,
            "accelerator": str(spec.accelerator),
            "topology": spec.topology.name,
            "kernel_command_line": spec.command_line,
        }

    @property
    def provenance(self) -> Mapping[str, object]:
        """Its JSON in a bundle: a document for people; memqos decides nothing by it."""
        history = {"checkpoint": self.checkpoint_name, "dirty": self.dirty}
        told = {name: text for name, text in history.items() if text}
        return {**self._noted, "versions": self.contents.versions, **told}

    def note(self, facts: Mapping[str, object]) -> None:
        """Add to its JSON in a bundle."""
        self._noted |= facts

    @property
    def target(self) -> Target:
        """The machine as a target for commands; only while it is usable.

        A broken machine repeats its first failure.
        """
        self.require(*USABLE, doing="reach the machine")
        if self._target is None:
            raise MachineError("the machine is ready but has no connection.", where=self.spec.name)
        return self._target

    @property
    def pid(self) -> int | None:
        """QEMU's process id, or None if it was never started."""
        return None if self._process is None else self._process.pid

    @property
    def qmp(self) -> Qmp:
        """The connection to QEMU's monitor."""
        if self._qmp is None:
            raise self._wrong_state("speak to QEMU", MachineState.BOOTING, *USABLE)
        return self._qmp

    def require(self, *accepted: MachineState, doing: str) -> None:
        """Raise WrongStateError unless the machine is in one of these states; a broken one repeats its failure."""
        if self.state in accepted:
            return
        if self.state is MachineState.BROKEN and self._failure is not None:
            raise self._failure
        raise self._wrong_state(doing, *accepted)

    def start(self) -> None:
        """Start QEMU: off to booting. Raises MachineError with QEMU's output if it does not come up."""
        self.require(MachineState.OFF, doing="start")
        self.state = MachineState.BOOTING
        argv = qemu_arguments(self.spec, self._qemu.program)
        self._oom_kills = oom_kills()
        with self._qemu_log.open("wb") as output:
            self._process = self._group.start(argv, output=output)
        deadline = Deadline.after(START_SECONDS)
        with self.failing("QEMU was starting"):
            wait(
                "QEMU listens for QMP",
                lambda: is_listening(self.spec.qmp_socket) or self._exit_status() is not None,
                deadline=deadline,
                every=0.02,
            )
            self.check_alive("QEMU was starting")

    def attach(self, qmp: Qmp) -> None:
        """Take the connection to QEMU's monitor."""
        self.require(MachineState.BOOTING, doing="attach QMP")
        self._qmp = qmp

    def ssh_port(self) -> int:
        """The loopback port that leads to the guest's sshd, chosen by the host's kernel when QEMU started."""
        told = self.qmp.monitor("info usernet", deadline=Deadline.after(5))
        match = re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+22\b", told)
        if match is None:
            raise MachineError("QEMU does not report its forwarded port.", where=self.spec.name, data={"told": told})
        return int(match[1])

    def ready(self, target: Target, *, disconnect: Callable[[], None] = lambda: None) -> None:
        """The guest is up: its connection, and how it is closed: booting to ready."""
        self.require(MachineState.BOOTING, doing="become ready")
        self._target = target
        self._disconnect = disconnect
        self.state = MachineState.READY

    @contextlib.contextmanager
    def watched(self, line: Line) -> Iterator[None]:
        """Watch the guest's pulse over this connection; a guest without a pulse loses the connection."""
        with beating(line, self._running().pid) as self._pulse:
            yield

    def resume(self, state: Path, *, deadline: Deadline) -> None:
        """Let a clone continue where its checkpoint stopped; it stays booting until memqos is connected to it."""
        self.require(MachineState.BOOTING, doing="resume")
        with self.failing("its checkpoint was being restored"):
            load_state(self.qmp, state, deadline=deadline)

    def checkpoint(self, state: Path, *, deadline: Deadline) -> float:
        """Write everything but the memory to this file: ready to checkpointed, after which it can only be stopped.

        Returns the seconds from stopping the guest to its state being written. The connection is closed first, since a
        clone could not continue it, and the guest is left to become idle.
        """
        self.require(MachineState.READY, doing="checkpoint")
        self._disconnect()
        with self.failing("its checkpoint was being made"):
            come_to_rest(self.qmp, self._running().pid, deadline=deadline)
            self._stopping = True
            stopwatch = deadline.sooner(deadline.remaining)
            save_state(self.qmp, state, deadline=deadline)
        self.state = MachineState.CHECKPOINTED
        return round(stopwatch.elapsed, 3)

    def mark_dirty(self, reason: str) -> None:
        """Something was left behind in the guest: ready to dirty. It is still usable, but not as a fresh one."""
        self.require(*USABLE, doing="mark the machine dirty")
        self.state = MachineState.DIRTY
        self.dirty = self.dirty or reason

    def keep(self) -> int:
        """Leave it running when its context ends, until its guard ends it; returns the guard's pid."""
        self.require(*USABLE, doing="keep the machine")
        guard = self._group.keep(self._running())
        self.is_kept = True
        return guard

    def power_off(self, *, deadline: Deadline) -> None:
        """Shut the guest down cleanly, so that its disk is clean: ready or dirty to off."""
        self.require(*USABLE, doing="power off")
        self._stopping = True
        with self.failing("the guest was powering off"):
            # The guest may be faster than the answer: what counts is that QEMU ends.
            with contextlib.suppress(TargetError):
                self.target.run(["systemctl", "--no-block", "poweroff"], deadline=deadline)
            wait("the guest powers off", lambda: self._exit_status() is not None, deadline=deadline)
        self.state = MachineState.OFF

    def stop(self) -> None:
        """End QEMU at once, in any state; a broken machine stays broken, and a kept one keeps running."""
        if self.is_kept:
            return
        self._stopping = True
        if self._process is not None:
            self._group.stop(self._process)
        if self.state is not MachineState.BROKEN:
            self.state = MachineState.OFF

    def check_alive(self, doing: str = "the machine was in use") -> None:
        """Raise MachineError, naming the current activity, if QEMU or the guest is dead; broken from then on."""
        if self._failure is not None:
            raise self._failure
        if not self._stopping and (cause := self._cause_of_death()):
            raise self._break(MachineError(f"{cause} while {doing}."))

    def diagnose(self, doing: str, *, lost: bool) -> MachineError | None:
        """Why something failed on the guest; None if the machine looks well; one without a connection never does.

        A dying guest closes its connections first and is seen dead a moment later: this waits for that moment.
        """
        if lost:
            with contextlib.suppress(DeadlineError):
                wait("QEMU ends", lambda: self._cause_of_death() is not None, deadline=Deadline.after(1), every=0.1)
        try:
            self.check_alive(doing)
        except MachineError as error:
            return error
        if not lost:
            return None
        silence = f": {self._pulse.silence}" if self._pulse is not None and self._pulse.silence else ""
        return self.fail(MachineError(f"the guest does not answer any more while {doing}{silence}."))

    def fail(self, error: MachineError) -> MachineError:
        """Break the machine with this error, to which the console's tail is added; the first failure is kept."""
        return self._failure or self._break(error)

    def examine(self, error: MachineryError) -> None:
        """Raise the machine's own failure if it caused this error: it is dead, hangs, or its disk is full."""
        self.check_alive()
        if not self.state.is_usable:
            return
        if is_full_disk(error):
            raise self._break(MachineError(f"the guest's disk is full: {error.what.splitlines()[0]}")) from error
        if (late := late_answer(self.target, self._running().pid)) is not None:
            raise self._break(MachineError("the guest does not answer any more.", data=late.data)) from error

    def _cause_of_death(self) -> str | None:
        return cause_of_death(
            disaster=self.console.disaster(),
            status=self._exit_status(),
            said=last_words(self._qemu_log),
            events=self._qmp.events if self._qmp else (),
            oom_kills=oom_kills() - self._oom_kills,
        )

    def _break(self, error: MachineError) -> MachineError:
        tail = self.console.tail()
        shown = f" The console's last {TAIL_LINES} lines:\n{tail}" if tail else " The console is empty."
        # A clone's console begins with that of its original machine: it is never empty.
        is_unborn = self.state is MachineState.BOOTING and not tail
        kind = AbortedError if is_unborn and has_crashed(self._exit_status()) else type(error)
        self._failure = kind(
            error.what + shown,
            where=error.where or self.spec.name,
            next_step=error.next_step or f"See the whole console in {self.console.path}.",
            data={**error.data, "console": tail},
        )
        self.state = MachineState.BROKEN
        return self._failure

    @contextlib.contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Turn a deadline that passes here into the machine's failure."""
        try:
            yield
        except DeadlineError as error:
            self.check_alive(doing)
            raise self._break(MachineError(f"{error.what.rstrip('.')} while {doing}.", data=error.data)) from error

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise self._wrong_state("use QEMU", MachineState.BOOTING, *USABLE)
        return self._process

    def _exit_status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def _wrong_state(self, doing: str, *accepted: MachineState) -> WrongStateError:
        return wrong_state(self.spec.name, doing, self.state, accepted)
