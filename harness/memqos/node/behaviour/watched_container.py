"""One container of a watched pod: its samples, and commands for its workload."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding, subject_of
from memqos.engine.answer.verdict import outside_finding
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.engine.plan import PlannedContainer
from memqos.errors import DeadlineError, RuntimeCallError, UsageError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Bytes, Knob
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText, Reading
from memqos.node.behaviour.conditions import Combined, Condition, Sample, work_done
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.preconditions import Observed, Preconditions, is_there
from memqos.node.behaviour.throttling import ENTRY, SecondProgram, patience
from memqos.node.pods.foreign_writes import bound_container, limited_container, refused_limit
from memqos.runtime.base import ContainerHandle, ContainerState, ContainerStatus
from memqos.workload.command import (
    PROGRAM,
    Anon,
    Command,
    Control,
    File,
    Tmpfs,
    arguments,
    finite_commands,
    line,
    threads_of,
)
from memqos.workload.report import ContainerLog, Done, parse_report

__all__ = ["Awaited", "ContainerCondition", "Sampled", "WatchedContainer", "container_of"]


class Sampled:
    """One container: its samples, its workload's report, and the runtime's status.

    key: its name in the watch. args: its workload's arguments, which tell how many of its commands end by themselves.
    page_size: the machine's page size in bytes. processes: those in its cgroup when the watch began. outside: the
    finding that it runs outside its cgroup.
    """

    def __init__(
        self,
        *,
        key: str,
        premises: Preconditions,
        handle: ContainerHandle,
        path: CgroupPath,
        args: Sequence[str],
        page_size: int,
    ) -> None:
        self.path = path
        self.key = key
        self.handle = handle
        self.premises = premises
        self.page_size = page_size
        self.samples: list[Sample] = []
        self._finite, self.threads = finite_commands(args), threads_of(args)
        self._log = ContainerLog(handle.log_path)
        self._broken: dict[tuple[FileText | None, ...] | None, bool] = {}
        self._was_seen = False
        self.processes: tuple[int, ...] = ()
        self.outside: Finding | None = None
        self._status: ContainerStatus | None = None
        self._runs_from = math.inf

    @property
    def pod(self) -> CgroupPath:
        """The pod's cgroup."""
        return self.premises.pod.cgroup.path

    @property
    def whole(self) -> CgroupPath:
        """The cgroup made for it: its own, or the scope above."""
        return next(path for path in (self.path, *self.path.ancestors) if path.parent == self.pod)

    def goes_outside(self, where: str) -> None:
        """It runs in another cgroup ("" if unknown), and no longer in its own."""
        if self.outside is None:
            name = subject_of(self.premises.planned.cgroup, self.premises.pod)
            self.outside = outside_finding(self.path, subject=name, state=ContainerState.RUNNING, where=where)

    @property
    def now(self) -> float:
        """When it was last sampled, in seconds of the machine's clock; zero before that, and after a change to it."""
        return self.samples[-1].reading.at if self.samples else 0.0

    def last_usage(self, path: CgroupPath) -> int:
        """The last memory.current read of its cgroup or of its pod's, in bytes; zero if never read."""
        for sample in reversed(self.samples):
            text = sample.reading.file(path, "memory.current")
            if isinstance(text, str):
                return parse.number(text, path=f"{path}/memory.current")
        return 0

    @property
    def work_is_done(self) -> bool:
        """Whether the workload has finished all commands that end by themselves."""
        return bool(self.samples) and not self.undone

    @property
    def undone(self) -> int:
        """How many of these commands it has not reported as finished."""
        return self._finite - (self.samples[-1].done if self.samples else 0)

    @property
    def _is_past(self) -> bool:
        """Whether nothing that it does from now on is conclusive."""
        return self.has_ended or self.was_outside or bool(self.samples and self.is_broken(self.samples[-1]))

    def is_broken(self, sample: Sample) -> bool:
        """Whether a precondition fails in this sample."""
        texts = self.premises.texts(sample) if sample.runs else None
        if texts not in self._broken:
            # Cached: they change seldom, and there are many samples.
            self._broken[texts] = bool(self.premises.broken(sample))
        return self._broken[texts]

    @property
    def was_broken(self) -> bool:
        """Whether a precondition failed in any sample so far."""
        return any(self._broken.values())

    @property
    def was_outside(self) -> bool:
        """Whether it was found to run outside its cgroup."""
        return self.outside is not None

    @property
    def is_sound(self) -> bool:
        """Whether it was seen to run, with every precondition met in every sample."""
        return self._was_seen and not self.was_broken

    @property
    def has_ended(self) -> bool:
        """Whether the runtime reports that it has ended."""
        return self._status is not None and self._status.exit_code is not None

    @property
    def seems_ended(self) -> bool:
        """Whether its cgroup shows that it has ended; the runtime notices a moment later."""
        last = self.samples[-1].reading.cgroups.get(self.path) if self.samples else None
        if last is None:
            return False
        return last.has_no_file or "populated 0" in str(last.files.get("cgroup.events"))

    @property
    def reports_its_end(self) -> bool:
        """Whether the last sample has a cgroup.events, which reports the end of the last process."""
        last = self.samples[-1].reading.cgroups.get(self.path) if self.samples else None
        return last is not None and isinstance(last.files.get("cgroup.events"), str)

    def runs_from(self, at: float) -> None:
        """From this time on it counts as running, whatever its workload reports."""
        self._runs_from = at

    def add_log(self, text: str) -> None:
        """Append this text to its log."""
        self._log.grows(text)

    def add_status(self, status: ContainerStatus, reading: Reading) -> None:
        """Take the runtime's status; a new status becomes a sample."""
        if status != self._status or not self.samples:
            self._status = status
            self.seen(reading)

    def seen(self, reading: Reading) -> None:
        """Add a sample; nothing before the first status."""
        if self._status is None:
            return
        sample = Sample(
            container=self.path,
            pod=self.pod,
            planned=self.premises.planned.cgroup.knobs,
            reading=reading,
            status=self._status,
            report=self._log.report,
            page_size=self.page_size,
            runs=bool(self._log.report) or reading.at >= self._runs_from,
        )
        self.samples.append(sample)
        self._was_seen = self._was_seen or (sample.runs and is_there(sample))
        self.is_broken(sample)


@dataclass(frozen=True, slots=True)
class ContainerCondition:
    """A condition on one of several containers."""

    container: WatchedContainer
    condition: Condition


SECOND_PROGRAM_SECONDS = 120.0

Awaited = ContainerCondition | Combined[ContainerCondition]
"""A condition of a watch."""


class Until(Protocol):
    """See `Watch.until`."""

    def __call__(self, *awaited: Awaited, settled: bool = True) -> None: ...


class WatchedContainer(Sampled):
    """One container of a watched pod: its samples, and its workload."""

    def __init__(
        self,
        *,
        write: Callable[[str, str], None],
        until: Until,
        exec_: Callable[[ContainerHandle, tuple[str, ...], float], str],
        update: Callable[[ContainerHandle, ContainerResources], None],
        key: str,
        premises: Preconditions,
        handle: ContainerHandle,
        path: CgroupPath,
        args: Sequence[str],
        control: Control | None,
        traced: Callable[[Iterable[Finding]], Sequence[Finding]],
        page_size: int,
    ) -> None:
        super().__init__(key=key, premises=premises, handle=handle, path=path, args=args, page_size=page_size)
        self._write = write
        self._until = until
        self._exec = exec_
        self._update = update
        self._control = control
        self._traced = traced

    def sees(self, condition: Condition | Combined[Condition]) -> Awaited:
        """The condition, for this container, for a watch of several; also a combination (`either`, `both`, `after`)."""
        return condition.each(self._leaf) if isinstance(condition, Combined) else self._leaf(condition)

    def _leaf(self, condition: Condition | ContainerCondition) -> ContainerCondition:
        return condition if isinstance(condition, ContainerCondition) else ContainerCondition(self, condition)

    def until(self, *conditions: Condition | Combined[Condition]) -> Course:
        """The course until each of the conditions was fulfilled by this container; see `Watch.until`."""
        self._until(*(self.sees(condition) for condition in conditions))
        return self.course

    @property
    def course(self) -> Course:
        """The course until now; the hop that lost a precondition is looked for while the container exists."""
        samples = tuple(self.samples)
        observed = Observed(
            rests_on=self.premises,
            samples=samples,
            commands=self._finite,
            threads=self.threads,
            outside=self.outside,
        )
        if self.is_sound:
            return Course(observed)
        losses = {(one.cgroup, one.knob): one.lost for one in self._traced(observed.premises) if one.lost is not None}
        return Course(dataclasses.replace(observed, losses=losses) if losses else observed)

    def until_done(self) -> Course:
        """The course until the workload had finished all commands that end by themselves."""
        return self.until(work_done(self._finite))

    def until_reported(self) -> None:
        """Wait for that without settling: for a workload that gets more commands at once."""
        self._until(self.sees(work_done(self._finite)), settled=False)

    def do(self, *commands: Command) -> None:
        """Send the workload commands, which it runs in order after those that it has.

        Nothing is sent to a container that has ended or has a failed precondition: the commands would stay unread or
        prove nothing. UsageError for a pod that is not steered.
        """
        if self._control is None:
            raise UsageError(
                f"the workload of {self.path} takes no commands.", next_step="Watch its pod with steered=True."
            )
        if self._is_past:
            return
        for command in commands:
            self._write(self._control.fifo, line(command).rstrip("\n"))
        self._finite += len(commands)

    def overfill(self) -> None:
        """Run a second program in the container until it ends; it takes twice the planned memory.max.

        UsageError for a container without one.
        """
        self.run_concurrently(Anon(size=2 * self._planned(Knob.MEMORY_MAX)))

    def _planned(self, knob: Knob) -> int:
        """A planned limit of the container, in bytes; UsageError without one."""
        limit = self.premises.planned.cgroup.knobs.get(knob)
        if limit is None or not isinstance(limit.value, Bytes):
            raise UsageError(
                f"the container {self.key} has no {knob} that a program could exceed.",
                next_step="Take a kubelet and a pod whose container has one.",
            )
        return limit.value.count

    def exceed_high(self) -> None:
        """Have the workload take a fortieth more than its planned memory.high: enough to be throttled, and to finish.

        UsageError for a pod that is not steered, and for a container without a memory.high.
        """
        high = self._planned(Knob.MEMORY_HIGH)
        self.do(Anon(size=max(1, high + high // 40 - self.last_usage(self.path)), step=CHARGE_BATCH * self.page_size))

    def stay_below_high(self) -> None:
        """Have it take three quarters of what its planned memory.high leaves; UsageError as for `exceed_high`."""
        self.do(Anon(size=max(1, (self._planned(Knob.MEMORY_HIGH) - self.last_usage(self.path)) * 3 // 4)))

    def run_concurrently(self, *commands: Command) -> None:
        """Run a second program in the container until it has done these commands, or has ended with the container."""
        with contextlib.suppress(RuntimeCallError):  # A container that ends with it may end the call with an error.
            self._exec(self.handle, (PROGRAM, *arguments(commands)), SECOND_PROGRAM_SECONDS)

    def enter(self) -> SecondProgram:
        """Run a second program in the container that takes ENTRY, and wait as long as the model allows."""
        usage, text, waited = self.last_usage(self.path), "", 0.0
        high = self.premises.planned.cgroup.knobs.get(Knob.MEMORY_HIGH)
        value = None if high is None else high.value
        seconds = patience(value.count if isinstance(value, Bytes) else None, usage, page_size=self.page_size)
        try:
            text = self._exec(self.handle, (PROGRAM, *arguments([ENTRY])), seconds)
        except DeadlineError:
            waited = seconds
        except RuntimeCallError:
            pass  # It or the container was killed; the kernel's counters show it.
        done = [line for line in parse_report(text, source=self.key, live=True) if isinstance(line, Done)]
        return SecondProgram(usage=usage, said=done[-1] if done else None, waited=waited)

    def take_a_third(self, *, second_program: bool = False) -> int:
        """Have it take a third of what its planned memory.max leaves, and wait; returns the least usage after that.

        second_program: whether a second program takes it, and then ends. UsageError as for `overfill`, and as for `do`
        if it is steered.
        """
        used = self.last_usage(self.path)
        command = Anon(size=(self._planned(Knob.MEMORY_MAX) - used) // 3)
        (self.run_concurrently if second_program else self.do)(command)
        self.until_done()
        return used + command.size

    def leave_a_third(self, kind: str) -> int:
        """Have a second program write a third of that to a new file and end; returns the least usage after that.

        kind: "file" on the container's disk, "tmpfs" in its /dev. UsageError as for `overfill`, and for another kind.
        """
        used = self.last_usage(self.path)
        size = (self._planned(Knob.MEMORY_MAX) - used) // 3
        file, tmpfs = File(path="/left", size=size), Tmpfs(path="/dev/left", size=size)
        commands: dict[str, Command] = {"file": file, "tmpfs": tmpfs}
        if kind not in commands:
            raise UsageError(f"no command leaves a '{kind}'.", next_step=f"Known: {' and '.join(commands)}.")
        self.run_concurrently(commands[kind])
        self.until_done()
        return used + size

    def rebind(self, numa_node: int) -> None:
        """Have the runtime bind it to another NUMA node while it runs; samples start anew from then on."""
        self._change(bound_container(self.premises.planned, str(numa_node)))

    def halve_limit(self) -> None:
        """Have the runtime limit it to half of its usage, as for `rebind`; UsageError if it uses nothing.

        A runtime may refuse that (CRI-O does from 1.33.4 on): behaviour that depends on the limit is then not
        observable.
        """
        half = self.last_usage(self.path) // 2
        if not half and not self._is_past:
            raise UsageError(
                f"the container {self.key} uses no memory, so half of its usage cannot be a limit.",
                next_step="Wait until it does: until_done().",
            )
        planned = self.premises.planned
        try:
            self._change(limited_container(planned, half, page_size=self.page_size))
        except RuntimeCallError as error:
            self.premises = dataclasses.replace(self.premises, planned=refused_limit(planned, str(error)))

    def _change(self, planned: PlannedContainer) -> None:
        """As `do`: skipped for a container that has ended or has a failed precondition; one may end with the update."""
        if self._is_past:
            return
        try:
            self._update(self.handle, planned.resources)
        except RuntimeCallError:
            if not self.seems_ended:
                raise
            return
        self.premises = dataclasses.replace(self.premises, planned=planned)
        self.samples.clear()


def container_of(pod: str, name: str = "", *, among: Iterable[WatchedContainer]) -> WatchedContainer:
    """A pod's container, its first one if no name is given; UsageError if it is not watched."""
    watched = {one.key: one for one in among}
    for key, container in watched.items():
        if key == f"{pod}/{name}" or (not name and key.startswith(f"{pod}/")):
            return container
    known = ", ".join(watched)
    raise UsageError(f"no container '{pod}/{name}' is watched.", next_step=f"Watched: {known}.")
