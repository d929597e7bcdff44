"""A machine: one QEMU with its states, what it tells while it lives, and why it died.

States and the verbs that each accepts:

    off ──start──▶ booting ──ready──▶ ready ──mark_dirty──▶ dirty
                      │                └──checkpoint──▶ checkpointed
                      └── any failure, also of the states after it ──▶ broken
    resume: booting, for a clone; power_off: from ready and dirty, back to off
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from memqos.clock import Deadline, wait
from memqos.errors import AbortedError, DeadlineError, MachineError, MachineryError, TargetError, WrongStateError
from memqos.ownership import ProcessGroup
from memqos.target.base import Target
from memqos.vm.cache.entry import Image
from memqos.vm.contents import Contents
from memqos.vm.host.programs import Qemu
from memqos.vm.profile import Profile
from memqos.vm.qemu.command import qemu_arguments
from memqos.vm.qemu.console import TAIL_LINES, Console
from memqos.vm.qemu.death import cause_of_death, has_crashed, is_full_disk, last_words, oom_kills
from memqos.vm.qemu.migration import come_to_rest, load_state, save_state
from memqos.vm.qemu.pulse import Line, Pulse, beating, late_answer
from memqos.vm.qemu.qmp import Qmp
from memqos.vm.qemu.spec import MachineSpec
from memqos.vm.qemu.state import USABLE, MachineState, wrong_state

__all__ = ["START_SECONDS", "Machine", "MachineState"]

START_SECONDS = 20
"""How long QEMU may take from its start to its first word over QMP."""


class Machine:
    """A virtual machine. Make it with `memqos.vm.boot.boot`."""

    def __init__(self, spec: MachineSpec, *, qemu: Qemu, group: ProcessGroup, qemu_log: Path) -> None:
        self.spec = spec
        self.console = Console(path=spec.serial_log)
        self.contents = Contents()
        self.checkpoint_name = ""
        """What it was restored from, "" if it booted."""
        self.dirty = ""
        """What was left behind in it first, "" for nothing."""
        self.profile: Profile | None = None
        self.image: Image | None = None
        self.recheck: Callable[[], bool] = lambda: True
        """Whether what it was restored from is all that it was; takes seconds, and is asked after a failure."""
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
        """What a bundle says of it: a document for people, of which nothing is decided."""
        history = {"checkpoint": self.checkpoint_name, "dirty": self.dirty}
        told = {name: text for name, text in history.items() if text}
        return {**self._noted, "versions": self.contents.versions, **told}

    def note(self, facts: Mapping[str, object]) -> None:
        """Add to what a bundle says of it."""
        self._noted |= facts

    @property
    def target(self) -> Target:
        """The machine as something that commands are run on; only when it is usable.

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
        """Start QEMU: off to booting. Raises MachineError with what QEMU said if it does not come up."""
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
                lambda: self.spec.qmp_socket.exists() or self._exit_status() is not None,
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
            raise MachineError("QEMU does not tell its forwarded port.", where=self.spec.name, data={"told": told})
        return int(match[1])

    def ready(self, target: Target, *, disconnect: Callable[[], None] = lambda: None) -> None:
        """The guest is up and this is how it is reached, and how the connection is ended: booting to ready."""
        self.require(MachineState.BOOTING, doing="become ready")
        self._target = target
        self._disconnect = disconnect
        self.state = MachineState.READY

    @contextlib.contextmanager
    def watched(self, line: Line) -> Iterator[None]:
        """Watch the guest's pulse over this line; a guest that has none any more loses the connection."""
        with beating(line, self._running().pid) as self._pulse:
            yield

    def resume(self, state: Path, *, deadline: Deadline) -> None:
        """Let a clone go on where its checkpoint stopped; it stays booting until somebody is connected to it."""
        self.require(MachineState.BOOTING, doing="resume")
        with self.failing("its checkpoint was being restored"):
            load_state(self.qmp, state, deadline=deadline)

    def checkpoint(self, state: Path, *, deadline: Deadline) -> float:
        """Write everything but the memory to this file: ready to checkpointed, after which it can only be stopped.

        Returns the seconds from stopping the guest to its state being written.

        The connection is ended first, since a clone could not go on with it, and the guest is left to come to rest.
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
        """Something was left behind in the guest: ready to dirty. It can still be used, but not as a fresh one."""
        self.require(*USABLE, doing="mark the machine dirty")
        self.state = MachineState.DIRTY
        self.dirty = self.dirty or reason

    def keep(self) -> int:
        """Leave it running when its context ends, until its guard is told to end it; the guard's process id."""
        self.require(*USABLE, doing="keep the machine")
        guard = self._group.keep(self._running())
        self.is_kept = True
        return guard

    def power_off(self, *, deadline: Deadline) -> None:
        """Shut the guest down in order, so that its disk is clean: ready or dirty to off."""
        self.require(*USABLE, doing="power off")
        self._stopping = True
        with self.failing("the guest was powering off"):
            # The guest may be faster than the answer: what counts is that QEMU ends.
            with contextlib.suppress(TargetError):
                self.target.run(["systemctl", "--no-block", "poweroff"], deadline=deadline)
            wait("the guest powers off", lambda: self._exit_status() is not None, deadline=deadline)
        self.state = MachineState.OFF

    def stop(self) -> None:
        """End QEMU at once, in any state; a broken machine stays broken, and one that is kept goes on."""
        if self.is_kept:
            return
        self._stopping = True
        if self._process is not None:
            self._group.stop(self._process)
        if self.state is not MachineState.BROKEN:
            self.state = MachineState.OFF

    def check_alive(self, doing: str = "the machine was in use") -> None:
        """Raise MachineError, naming what was being done, if QEMU or the guest is dead; broken from then on."""
        if self._failure is not None:
            raise self._failure
        if not self._stopping and (cause := self._cause_of_death()):
            raise self._break(MachineError(f"{cause} while {doing}."))

    def diagnose(self, doing: str, *, lost: bool) -> MachineError | None:
        """Why something failed on the guest; None if the machine looks well, which it does not without a connection.

        A guest that dies closes its connections first and is seen dead a moment later: it is given that moment.
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
        """Break the machine with this error, which gets the console's tail; the first failure is the one that stays."""
        return self._failure or self._break(error)

    def examine(self, error: MachineryError) -> None:
        """Raise the machine's own failure if this error comes from it: it is dead, hangs, or its disk is full."""
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
        shown = f" The console's last {TAIL_LINES} lines:\n{tail}" if tail else " The console said nothing."
        # A clone's console begins with the words of the machine that it is of: it is never silent.
        is_unborn = self.state is MachineState.BOOTING and not tail
        kind = AbortedError if is_unborn and has_crashed(self._exit_status()) else type(error)
        self._failure = kind(
            error.what + shown,
            where=error.where or self.spec.name,
            next_step=error.next_step or f"The whole console is in {self.console.path}.",
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
