"""Watching containers from inside their machine while their workloads run, until named conditions came true.

Every change that the kernel tells of becomes a sample, so a counter that rises and a process that is killed are seen
when it happens, and the last reading of a container that is gone is there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.protection import Shelter
from memqos.engine.kubelet import Kubelet
from memqos.errors import MachineryError, UsageError
from memqos.model.cri import ContainerResources
from memqos.model.pod import Pod
from memqos.model.reading import Reading
from memqos.node.behaviour.above import premises_above
from memqos.node.behaviour.combining import both, either
from memqos.node.behaviour.conditions import ended, rises, work_done
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.crowding import Crowded, crowding
from memqos.node.behaviour.exhausting import Exhausted, exhaustion_of, scores_of
from memqos.node.behaviour.looking import Looking
from memqos.node.behaviour.pacing import Paces, turns_of
from memqos.node.behaviour.premises import Premises
from memqos.node.behaviour.pressing import Aim, Pressed, squeeze_of
from memqos.node.behaviour.scarce import by_generations, spare
from memqos.node.behaviour.waiting import IDLE_SECONDS, Waiting
from memqos.node.behaviour.watched import Awaited, WatchedContainer
from memqos.node.pods.population import Population
from memqos.node.pods.recorder import Recorder
from memqos.node.pods.turned_away import refusal_finding
from memqos.probe.looks import Appended, Failed, Look, Said, Spoken
from memqos.probe.sampler import Sampling
from memqos.runtime.base import ContainerHandle, Runtime
from memqos.target.base import Target, checked
from memqos.workload.command import Anon
from memqos.workload.control import Control

__all__ = ["Watch"]

WATCH_SECONDS = 120.0
"""A container above memory.high without swap gets about one MiB a second under software emulation."""

CALL_SECONDS = 30.0

ENDING_SECONDS = 0.1
"""The same while a container is known to end, of which the runtime hears a moment later."""


class Watch:
    """The app containers of some pods, running, and the knobs that their behaviour rests on.

    kubelet: by whose rules they are there.
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
        kubelet: Kubelet,
    ) -> None:
        self._sampling = sampling
        self._hierarchy = hierarchy
        self._runtime = runtime
        self._recorder = recorder
        self._target = target
        self._kubelet = kubelet
        self._looking = Looking(source=target.address, hierarchy=hierarchy, files=files)
        self._population: Population | None = None
        self._containers: dict[str, WatchedContainer] = {}

    def begin(self, population: Population, rests_on: Sequence[Premises], controls: Mapping[str, Control]) -> None:
        """Take the containers of these premises as those that are watched, now that they run."""
        self._population = population
        for premises in rests_on:
            uid, name = premises.pod.uid, premises.planned.name
            admitted = population.require(uid)
            container = next(one for one in admitted.pod.containers if one.name == name)
            key = f"{premises.pod.name}/{name}"
            self._containers[key] = WatchedContainer(
                write=functools.partial(self._tell, key),
                until=lambda awaited: self.until(*awaited),
                exec_=self._exec,
                update=self._update,
                key=key,
                premises=premises,
                handle=admitted.containers[name],
                path=population.path_of(admitted.pod, name),
                args=container.args,
                control=controls.get(f"{uid}/{name}"),
                traced=population.traced,
            )
            self._sampling.follow(key, admitted.containers[name].log_path)
        for watched in self._containers.values():
            self._ask(watched)
        said = self._sampling.look(deadline=Deadline.after(CALL_SECONDS))
        for watched in self._containers.values():
            watched.runs_from(said[-1].at if said else 0.0)
        self._take(said)

    def container(self, pod: str, name: str = "") -> WatchedContainer:
        """A pod's container, its first one if no name is given; UsageError for what is not watched."""
        for key, container in self._containers.items():
            if key == f"{pod}/{name}" or (not name and key.startswith(f"{pod}/")):
                return container
        known = ", ".join(self._containers)
        raise UsageError(f"no container '{pod}/{name}' is watched.", next_step=f"There are {known}.")

    def until(self, *awaited: Awaited) -> None:
        """Wait until each of these had been seen, or nothing more could happen; see `either`, `both` and `after`.

        Nothing more can happen when all containers that are asked about have ended, or SETTLE_SECONDS after their work
        was done; and nothing that says anything, once a knob that their behaviour rests on is not as planned. Raises
        DeadlineError naming the conditions that were not seen, if one still works at the end of the time: then there
        is nothing to judge yet.
        """
        waiting = Waiting(awaited)
        deadline = Deadline.after(WATCH_SECONDS)
        while not waiting.is_over():
            if deadline.expired:
                raise waiting.in_vain(deadline)
            ending = any(one.seems_ended and not one.has_ended for one in waiting.containers)
            patience = ENDING_SECONDS if ending else IDLE_SECONDS
            said = self._sampling.next(seconds=min(patience, deadline.remaining))
            self._take(said)
            if ending or not said or waiting.is_due():
                for container in waiting.containers:
                    self._ask(container)
        # What the runtime and the counters say of an end comes a moment after it.
        self._take(self._sampling.look(deadline=Deadline.after(CALL_SECONDS)))
        for container in waiting.containers:
            self._ask(container)

    def until_ended(self, pod: str, *, beside: str) -> tuple[Course, Course]:
        """What happened to both until one pod's container had ended and the other's had done what it was told."""
        return self.container(pod).until(ended()), self.container(beside).until_done()

    def is_refused(self, pod: Pod, *reason_names: str) -> Finding:
        """The kubelet in whose place memqos is does not admit a pod, for a reason that bears one of these names."""
        return refusal_finding(self._watched.plan, pod, *reason_names)

    def press(
        self,
        neighbour: str,
        *,
        past_low: bool = False,
        whole_node: bool = False,
        dirty: bool = False,
        all_lose: bool = False,
        besides: int = 0,
        short: int | None = None,
    ) -> Pressed:
        """Once all have done what they were told, let the pod `neighbour` take what kubepods has left, and more.

        What it takes beyond is half of what nothing protects from it, or what `Aim` says of past_low, all_lose, besides
        and short. whole_node: take what the machine has left instead, which is little where it is `scarce`. dirty:
        leave page cache as the pods wrote it, which is written to the disk first otherwise. Returns when it is done.
        UsageError for a workload that takes no commands, and without a limit.
        """
        grows, everyone = self.container(neighbour), list(self._containers.values())
        for container in everyone:
            container.until_done()
        if not dirty:
            checked(self._target.run(["sync"], deadline=Deadline.after(WATCH_SECONDS)), where=self._target.address)
        if whole_node:
            # Programs of the runtime that come and go change what is free by as much as is short: little is left to
            # guess where most of it is taken already.
            grows.do(Anon(size=self._spare() * 7 // 8))
            grows.until_done()
        squeeze = squeeze_of(
            self._watched.plan,
            self._kubelet,
            everyone,
            grows,
            Aim(past_low=past_low, all_lose=all_lose, besides=besides, short=short),
            recursive=self._hierarchy.is_recursive,
            spare=self._spare() if whole_node else None,
            generations=whole_node and by_generations(self._target),
            dirty=dirty,
        )
        grows.do(Anon(size=squeeze.takes))
        grows.until_done()
        if soft := [one for one in everyone if squeeze.generations and squeeze.counts[one.key].shelter is Shelter.SOFT]:
            # memory.stat is behind by fewer than 64 updates a CPU until the kernel's next flush, every 2 s.
            self.until(both(*(one.sees(rises("memory.stat", "pgsteal")) for one in soft)))
        return Pressed(containers=everyone, above=self._above(), squeeze=squeeze)

    def crowd_out(self, neighbour: str) -> Crowded:
        """Once all have done what they were told, let the pod `neighbour` take what kubepods has left, and more.

        What it takes beyond is half of what others may swap out. Returns when it has done so, or something has ended.
        UsageError as of `press`.
        """
        grows, everyone = self.container(neighbour), list(self._containers.values())
        for container in everyone:
            container.until_done()
        grows.do(Anon(size=crowding(self._watched.plan, everyone, grows)))
        self.until(either(grows.sees(work_done(1)), *(container.sees(ended()) for container in everyone)))
        return Crowded(containers=everyone, above=self._above())

    def disturb(self, neighbour: str, *victims: str) -> Paces:
        """Time how long each victim takes to read its memory, alone and while `neighbour` presses, TURNS times.

        It presses as `press` does below kubepods' limit, and gives all back at the end of each turn, after which the
        victims fetch what they lost before they are timed again. UsageError as of `press`.
        """
        pressure = self.press(neighbour)
        turns = turns_of(self.container(neighbour), [*map(self.container, victims)], takes=pressure.squeeze.takes)
        return Paces(
            containers=list(self._containers.values()),
            above=self._above(),
            turns=turns,
            counts=pressure.squeeze.counts,
        )

    def exhaust(self, greedy: str, *, whole_node: bool = False) -> Exhausted:
        """Once all have done what they were told, let the pod `greedy` take all that kubepods has left, and more.

        whole_node: all that the machine has left instead, which is little where it is `scarce`. Returns when a
        container was killed for it, and the greedy one has come to its end or has what it wanted.
        UsageError if its workload takes no commands, or if the kubelet gives kubepods no limit.
        """
        grows, everyone = self.container(greedy), list(self._containers.values())
        for container in everyone:
            container.until_done()
        left = self._spare() if whole_node else None
        exhaustion = exhaustion_of(self._watched.plan, self._kubelet, everyone, grows, spare=left)
        grows.do(Anon(size=exhaustion.takes))
        self.until(either(*(container.sees(ended()) for container in everyone)))
        grows.until_done()
        rests_on = (*scores_of(self._watched), *self._above())
        return Exhausted(containers=everyone, above=rests_on, exhaustion=exhaustion)

    def _above(self) -> tuple[Finding, ...]:
        """What the behaviour of all together rests on above their pods; all are asked once more whether they run."""
        for one in self._containers.values():
            self._ask(one)
        knobs = {knob for one in self._containers.values() for knob in one.premises.knobs}
        tree = CgroupTree(self._target, self._hierarchy)
        return premises_above(self._watched, tree, knobs, deadline=Deadline.after(CALL_SECONDS))

    def _spare(self) -> int:
        return spare(self._target, self._kubelet.node.page_size)

    @property
    def _watched(self) -> Population:
        """The pods that are watched, once it has begun."""
        assert self._population is not None  # noqa: S101 - a watch is handed out when it has begun
        return self._population

    def _exec(self, container: ContainerHandle, argv: tuple[str, ...], seconds: float) -> str:
        _, output, _ = self._runtime.exec(container, argv, deadline=Deadline.after(seconds))
        return output.decode("utf-8", "replace")

    def _update(self, container: ContainerHandle, resources: ContainerResources) -> None:
        self._runtime.update(container, resources, deadline=Deadline.after(CALL_SECONDS))
        # What the files hold from now on is what the container is judged by.
        self._take(self._sampling.look(deadline=Deadline.after(CALL_SECONDS)))

    def _ask(self, container: WatchedContainer) -> None:
        status = self._runtime.status(container.handle, deadline=Deadline.after(CALL_SECONDS))
        container.asked(status, self._reading(container, container.now))

    def _take(self, said: Iterable[Said]) -> None:
        for one in said:
            match one:
                case Look():
                    self._recorder.look(one)
                    self._see(one)
                case Appended():
                    self._recorder.spoken(Spoken(at=one.at, container=one.name, told=False, text=one.text))
                    container = self._containers[one.name]
                    container.heard(one.text)
                    container.seen(self._reading(container, one.at))
                case Failed():
                    raise MachineryError(
                        f"the workload's commands could not be written to {one.path}: nothing reads them any more.",
                        next_step="See its container's log for how it ended.",
                        data={"errno": one.errno},
                    )

    def _tell(self, key: str, fifo: str, line: str) -> None:
        self._recorder.spoken(Spoken(at=self._containers[key].now, container=key, told=True, text=line))
        self._sampling.write(fifo, line)

    def _see(self, look: Look) -> None:
        path = self._looking.see(look)
        for container in self._containers.values():
            if path in {container.path, container.pod}:
                container.seen(self._reading(container, look.at))

    def _reading(self, container: WatchedContainer, at: float) -> Reading:
        return self._looking.reading((container.pod, container.path), at)
