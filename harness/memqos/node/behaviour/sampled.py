"""What was seen of one container of a watched pod so far, and what follows from it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding
from memqos.engine.answer.verdict import outside_finding, subject
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText, NoFile, Reading
from memqos.node.behaviour.conditions import Sample
from memqos.node.behaviour.premises import Premises, is_there
from memqos.runtime.base import ContainerHandle, ContainerState, ContainerStatus
from memqos.workload.command import finite_commands, threads_of
from memqos.workload.report import ContainerLog

__all__ = ["Sampled"]


class Sampled:
    """One container: its samples, what its workload reported, and what the runtime says of it.

    key: by which the watch knows it. args: its workload's arguments, that say how many of its commands come to an end.
    processes: those that were in its cgroup when the watch began. outside: that it runs, and not in its cgroup.
    """

    def __init__(
        self, *, key: str, premises: Premises, handle: ContainerHandle, path: CgroupPath, args: Sequence[str]
    ) -> None:
        self.path = path
        self.key = key
        self.handle = handle
        self.premises = premises
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
        """The cgroup that was made for it: its own, or the scope above."""
        return next(path for path in (self.path, *self.path.ancestors) if path.parent == self.pod)

    def goes_outside(self, where: str) -> None:
        """It runs in another cgroup, "" if it is not known in which, and not in its own any more."""
        if self.outside is None:
            name = subject(self.premises.planned.cgroup, self.premises.pod)
            self.outside = outside_finding(self.path, subject=name, state=ContainerState.RUNNING, where=where)

    @property
    def now(self) -> float:
        """When it was seen last, in seconds of the machine's clock; zero before that, and after a change of it."""
        return self.samples[-1].reading.at if self.samples else 0.0

    def last_usage(self, path: CgroupPath) -> int:
        """memory.current of its cgroup or of its pod's, as it was read last, in bytes; zero if it never was."""
        for sample in reversed(self.samples):
            text = sample.reading.file(path, "memory.current")
            if isinstance(text, str):
                return parse.number(text, path=f"{path}/memory.current")
        return 0

    @property
    def work_is_done(self) -> bool:
        """Whether all that the workload was told to do, and that comes to an end, is done."""
        return bool(self.samples) and not self.undone

    @property
    def undone(self) -> int:
        """How many of these commands it has not reported the end of."""
        return self._finite - (self.samples[-1].done if self.samples else 0)

    @property
    def _is_past(self) -> bool:
        """Whether nothing that it does from now on says anything."""
        return self.has_ended or self.was_outside or bool(self.samples and self.is_broken(self.samples[-1]))

    def is_broken(self, sample: Sample) -> bool:
        """Whether a premise is seen not to hold in this sample."""
        texts = self.premises.texts(sample) if sample.runs else None
        if texts not in self._broken:
            # They change seldom, and there are many samples.
            self._broken[texts] = bool(self.premises.broken(sample))
        return self._broken[texts]

    @property
    def was_broken(self) -> bool:
        """Whether a premise was seen not to hold in any sample so far."""
        return any(self._broken.values())

    @property
    def was_outside(self) -> bool:
        """Whether it was found to run outside its cgroup."""
        return self.outside is not None

    @property
    def is_sound(self) -> bool:
        """Whether it was seen to run, and in each sample every premise held that was seen then."""
        return self._was_seen and not self.was_broken

    @property
    def has_ended(self) -> bool:
        """Whether the runtime says so."""
        return self._status is not None and self._status.exit_code is not None

    @property
    def seems_ended(self) -> bool:
        """Whether its cgroup says so, of which the runtime hears a moment later."""
        last = self.samples[-1].reading.cgroups.get(self.path) if self.samples else None
        if last is None:
            return False
        gone = all(isinstance(text, NoFile) for text in last.files.values())
        return gone or "populated 0" in str(last.files.get("cgroup.events"))

    def runs_from(self, at: float) -> None:
        """From this time on it is known to run, whatever its workload says."""
        self._runs_from = at

    def heard(self, text: str) -> None:
        """Its log has this more."""
        self._log.grows(text)

    def asked(self, status: ContainerStatus, reading: Reading) -> None:
        """The runtime says this of it; what is new becomes a sample."""
        if status != self._status or not self.samples:
            self._status = status
            self.seen(reading)

    def seen(self, reading: Reading) -> None:
        """One sample more, with what is known now; nothing before the runtime was first asked."""
        if self._status is None:
            return
        sample = Sample(
            container=self.path,
            pod=self.pod,
            planned=self.premises.planned.cgroup.knobs,
            reading=reading,
            status=self._status,
            report=self._log.report,
            runs=bool(self._log.report) or reading.at >= self._runs_from,
        )
        self.samples.append(sample)
        self._was_seen = self._was_seen or (sample.runs and is_there(sample))
        self.is_broken(sample)
