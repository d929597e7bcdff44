"""Connects watched containers to their machine: turns its messages into samples and passes their requests to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.errors import MachineryError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, FileText, NoFile, Reading
from memqos.node.behaviour.watched_container import WatchedContainer
from memqos.node.pods.population import place_outside
from memqos.node.pods.recorder import Recorder
from memqos.probe.sampler import Appended, Failed, Look, Said, Sampling, Spoken
from memqos.runtime.base import ContainerHandle, Runtime
from memqos.target.base import Target, checked
from memqos.workload.report import STEP

__all__ = ["CALL_SECONDS", "WATCH_SECONDS", "MachineFeed"]


class KnownFiles:
    """The last known files of each cgroup: the first sample has all of them, later ones only those that changed.

    source: the name of the readings. files: which files are sampled.
    """

    def __init__(self, *, source: str, hierarchy: Hierarchy, files: Sequence[str]) -> None:
        self._source = source
        self._hierarchy = hierarchy
        self._files = files
        self._cgroups: dict[CgroupPath, dict[str, FileText]] = {}

    def see(self, look: Look) -> CgroupPath:
        """Take one sample; returns its cgroup. A removed cgroup has none of its files."""
        path = self._hierarchy.cgroup_of(look.folder)
        if look.why == "gone":
            self._cgroups[path] = dict.fromkeys(self._files, NoFile.NO_FILE)
        else:
            changed = {name: NoFile.NO_FILE if text is None else text for name, text in look.files.items()}
            self._cgroups[path] = {**self._cgroups.get(path, {}), **changed}
        return path

    def reading(self, paths: Sequence[CgroupPath], at: float) -> Reading:
        """Their values at that time, in seconds of the machine's clock; a cgroup never sampled is left out."""
        cgroups = {path: CgroupReading(path=path, files=self._cgroups[path]) for path in paths if path in self._cgroups}
        return Reading(source=self._source, at=at, cgroups=cgroups)


WATCH_SECONDS = 120.0
"""A container above memory.high without swap gets about one MiB a second under software emulation."""

CALL_SECONDS = 30.0

OUTSIDE_SECONDS = 20.0
"""How long a runtime may take to notice the end of a container whose processes were never seen."""


class MachineFeed:
    """Samples and logs of these containers, by their keys; a container added later is included from then on.

    sampling: the samplers inside the machine. files: the files of each cgroup that are sampled.
    """

    def __init__(
        self,
        *,
        sampling: Sampling,
        hierarchy: Hierarchy,
        files: Sequence[str],
        runtime: Runtime,
        recorder: Recorder,
        target: Target,
    ) -> None:
        self.containers: dict[str, WatchedContainer] = {}
        self._sampling = sampling
        self._runtime = runtime
        self._recorder = recorder
        self._target = target
        self._tree = CgroupTree(target, hierarchy)
        self._looking = KnownFiles(source=target.address, hierarchy=hierarchy, files=files)
        self._missing: dict[str, float] = {}

    def add(self, container: WatchedContainer, log_path: str) -> None:
        """From now on this container receives its samples and the lines of its log."""
        self.containers[container.key] = container
        self._sampling.follow(container.key, log_path, patient=STEP)

    def begin(self) -> None:
        """Sample all of them now: from here on they count as running, whatever their workloads report."""
        for container in self.containers.values():
            self.ask(container)
            container.processes = self._tree.processes(container.path, deadline=Deadline.after(CALL_SECONDS))
        said = self._sampling.look(deadline=Deadline.after(CALL_SECONDS))
        for container in self.containers.values():
            container.runs_from(said[-1].at if said else 0.0)
        self._take(said)

    def wait(self, *, seconds: float) -> bool:
        """Take the next message, waiting at most this long; returns whether there was one."""
        said = self._sampling.next(seconds=seconds)
        self._take(said)
        return bool(said)

    def look(self) -> None:
        """Take all messages until now, and one sample made now."""
        self._take(self._sampling.look(deadline=Deadline.after(CALL_SECONDS)))

    def ask(self, container: WatchedContainer) -> None:
        """Ask the runtime for its status."""
        status = self._runtime.status(container.handle, deadline=Deadline.after(CALL_SECONDS))
        container.add_status(status, self._reading(container, container.now))

    def look_outside(self, container: WatchedContainer) -> None:
        """Find out whether a container without a process in its cgroup runs in another one.

        It does if one of its processes is seen there, or if the runtime reports it as running for OUTSIDE_SECONDS, and
        the kernel killed none: a slow runtime may not know of a kill yet.
        """
        if container.has_ended or not container.seems_ended:
            self._missing.pop(container.key, None)
            return
        now = SYSTEM_CLOCK.now()
        where = place_outside(self._tree, container.whole, container.processes)
        lasts = now - self._missing.setdefault(container.key, now) >= OUTSIDE_SECONDS
        if where or (lasts and not container.samples[-1].counter("memory.events", "oom_kill")):
            container.goes_outside(where)

    def tell(self, key: str, fifo: str, line: str) -> None:
        """Send a container's workload a command."""
        self._recorder.spoken(Spoken(at=self.containers[key].now, container=key, told=True, text=line))
        self._sampling.write(fifo, line)

    def exec(self, container: ContainerHandle, argv: tuple[str, ...], seconds: float) -> str:
        """The output of a program that the runtime runs in a container."""
        _, output, _ = self._runtime.exec(container, argv, deadline=Deadline.after(seconds))
        return output.decode("utf-8", "replace")

    def update(self, container: ContainerHandle, resources: ContainerResources) -> None:
        """Have the runtime update a container's resources, once all page cache is written back.

        Dirty page cache can be neither migrated nor reclaimed, and the kernel kills for a limit that it cannot reach at
        once (mm/memcontrol.c, memory_max_write).
        """
        self.write_back()
        try:
            self._runtime.update(container, resources, deadline=Deadline.after(CALL_SECONDS))
        finally:
            # The container is judged by the files' values from now on.
            self.look()

    def write_back(self) -> None:
        """Have the machine write its page cache back to disk, and wait for it."""
        checked(self._target.run(["sync"], deadline=Deadline.after(WATCH_SECONDS)), where=self._target.address)

    def _take(self, said: Iterable[Said]) -> None:
        for one in said:
            match one:
                case Look():
                    self._recorder.look(one)
                    self._see(one)
                case Appended():
                    self._recorder.spoken(Spoken(at=one.at, container=one.name, told=False, text=one.text))
                    container = self.containers[one.name]
                    container.add_log(one.text)
                    container.seen(self._reading(container, one.at))
                case Failed():
                    raise MachineryError(
                        f"the workload's commands could not be written to {one.path}: its reader has closed it.",
                        next_step="See its container's log for how it ended.",
                        data={"errno": one.errno},
                    )

    def _see(self, look: Look) -> None:
        path = self._looking.see(look)
        for container in self.containers.values():
            if path in {container.path, container.pod}:
                container.seen(self._reading(container, look.at))

    def _reading(self, container: WatchedContainer, at: float) -> Reading:
        return self._looking.reading((container.pod, container.path), at)
