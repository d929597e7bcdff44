"""Watching containers from inside their machine while their workloads run, until named conditions hold.

Every change that the kernel reports becomes a sample. A rising counter or a kill is seen when it happens, and the last
reading of a removed container is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import WAITS, Deadline
from memqos.enactor.base import KubeletAnswers
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.effective_protection import ProtectionKind
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.errors import DeadlineError, UsageError
from memqos.model.knob import Bytes, Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.node.behaviour.conditions import (
    WATCHED_FILES,
    Combined,
    Sample,
    Unfinished,
    both,
    either,
    ended,
    rises,
    work_done,
)
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.machine_feed import CALL_SECONDS, WATCH_SECONDS, MachineFeed
from memqos.node.behaviour.neighbour_demand import Aim, UsageBefore, squeeze_of
from memqos.node.behaviour.pace import Paces, Taking, taking_of, turns_of
from memqos.node.behaviour.preconditions import Preconditions, premises_above
from memqos.node.behaviour.pressure import ExhaustionOutcome, PressureOutcome, Together, exhaustion_of, scores_of
from memqos.node.behaviour.watched_container import Awaited, ContainerCondition, WatchedContainer, container_of
from memqos.node.machine.shortage import by_generations, spare
from memqos.node.pods.population import Population
from memqos.node.pods.recorder import Recorder
from memqos.probe.sampler import Sampling
from memqos.runtime.base import Runtime
from memqos.workload.command import Anon, Control, Read

__all__ = ["PendingConditions", "Watch", "growth_of", "kubelets_refusal"]

SETTLE_SECONDS = 5.0
"""How long counters may lag behind a finished workload: the kernel refreshes its statistics every 2 s."""

IDLE_SECONDS = 1.0
"""How long to wait for a message before the runtime is asked for the status of its containers."""

STATUS_SECONDS = 5.0
"""The same for containers whose cgroup.events reports their end.

Each status call takes CPU time of the machine from the workloads: one case of four pods made 69 to 166 calls, and
nearly all answers said that the container runs.
"""


class PendingConditions:
    """The pending conditions, and whether waiting is over."""

    def __init__(self, awaited: Sequence[Awaited]) -> None:
        self._awaited: Combined[ContainerCondition] = both(*awaited)
        self.containers = list(dict.fromkeys(_container(one) for one in self._awaited.leaves()))
        self._progress = Unfinished(self._awaited)
        self._judged = {container.key: 0 for container in self.containers}
        self._settled: Deadline | None = None
        self._idle, self._status = Deadline.after(IDLE_SECONDS), Deadline.after(STATUS_SECONDS)

    @property
    def name(self) -> str:
        """All conditions by their names."""
        return self._awaited.in_words(lambda one: one.condition.name)

    def due(self) -> Sequence[WatchedContainer]:
        """The containers whose status is due, however many messages arrive.

        Those that seem to have ended, at once; those without a file that reports their end, each second; all others
        every five seconds.
        """
        due = [one for one in self.containers if one.seems_ended and not one.has_ended]
        if self._idle.expired:
            self._idle = Deadline.after(IDLE_SECONDS)
            due += [one for one in self.containers if not one.reports_its_end]
        if self._status.expired:
            self._status = Deadline.after(STATUS_SECONDS)
            due += self.containers
        return list(dict.fromkeys(due))

    def is_over(self) -> bool:
        """Judge the new samples; returns whether all conditions are fulfilled."""
        for container, sample in self._news():
            self._progress.see(lambda one: one.container is container and one.condition.holds(sample))  # noqa: B023
        if self._progress.is_seen or any(
            container.was_broken or container.was_outside for container in self.containers
        ):
            return True
        if all(container.has_ended for container in self.containers):
            return True
        if self._settled is None and all(one.work_is_done or one.has_ended for one in self.containers):
            self._settled = Deadline.after(SETTLE_SECONDS)
        return self._settled is not None and self._settled.expired

    def _news(self) -> Sequence[tuple[WatchedContainer, Sample]]:
        """The new samples in order of time, over all containers."""
        news = [
            (container, sample)
            for container in self.containers
            for sample in container.samples[self._judged[container.key] :]
        ]
        self._judged = {container.key: len(container.samples) for container in self.containers}
        return sorted(news, key=lambda one: one[1].reading.at)

    def in_vain(self, deadline: Deadline) -> DeadlineError:
        """The DeadlineError with the pending conditions and the last observation of each."""
        names = self.name
        last = "; ".join(
            one.condition.shows(one.container.samples[-1]) for one in self._progress.unseen() if one.container.samples
        )
        return DeadlineError(
            f"waited {deadline.elapsed:.1f} s for '{names}'; the last observation was {last}.",
            data={"condition": names, "last": last, "elapsed": deadline.elapsed},
        )


def _container(sees: ContainerCondition) -> WatchedContainer:
    """The container of this condition; UsageError for a condition without one."""
    if isinstance(sees, ContainerCondition):
        return sees.container
    raise UsageError(
        f"the condition '{getattr(sees, 'name', sees)}' names no container.",
        next_step="Name a watched container: container.sees(condition).",
    )


TO_DISK = 32 << 20
"""Bytes a second, a fraction of what a program can take: slow enough for the disk of an emulated machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdingOutcome(Together):
    """How much a neighbour's growth made others swap."""

    def stays_within_its_share(self, pod: str) -> Finding:
        """It never had more in swap than its planned memory.swap.max."""
        return self._course(pod).stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX)


def growth_of(free: int, more: int) -> Sequence[Anon]:
    """A neighbour's growth: what is free at once, then more, which others have to swap out.

    free, more: bytes; negative counts as none. It grows no faster than the disk writes. Pages on their way to swap make
    no room yet but count as swapped: a program that outruns the disk is killed although there is enough for all, or the
    kernel takes memory that it would have left alone.
    """
    at_once = [Anon(size=free)] if free > 0 else []
    return [*at_once, Anon(size=more, step=TO_DISK // 64, rate=TO_DISK)] if more > 0 else at_once


def crowding(plan: Plan, containers: Sequence[WatchedContainer], neighbour: WatchedContainer) -> tuple[int, int]:
    """Bytes: what kubepods has left, plus half of what the others have in use and may swap out.

    UsageError if kubepods has no limit, or if no other container may swap.
    """
    limit = plan.node.knobs.get(Knob.MEMORY_MAX)
    others = [one for one in containers if one.key != neighbour.key]
    swappable = sum(min(one.last_usage(one.path), _share(one)) for one in others)
    if limit is None or not isinstance(limit.value, Bytes) or not swappable:
        raise UsageError(
            "kubepods has no memory.max under this kubelet, or no pod except the neighbour may swap.",
            next_step="Take a kubelet with LimitedSwap that enforces allocatable memory, as tight() makes one.",
        )
    pods: dict[CgroupPath, WatchedContainer] = {one.pod: one for one in containers}
    used = sum(one.last_usage(path) for path, one in pods.items())
    return limit.value.count - used, swappable // 2


def _share(one: WatchedContainer) -> int:
    """The planned swap limit of a container in bytes; zero for a container without one."""
    planned = one.premises.planned.cgroup.knobs.get(Knob.MEMORY_SWAP_MAX)
    return planned.value.count if planned is not None and isinstance(planned.value, Bytes) else 0


def kubelets_refusal(plan: Plan, pod: Pod, items: Iterable[Mapping[str, Any]], *reason_names: str) -> Finding:
    """The kubelet itself rejects this pod for a reason with one of these names. items: the API objects of its pods."""
    status = next((one.get("status") or {} for one in items if one["metadata"]["uid"] == pod.uid), {})
    phase, reason = status.get("phase", ""), status.get("reason", "")
    observed = f"refused: {reason}" if phase == "Failed" else "admitted" if phase == "Running" else f"phase {phase!r}"
    refusal = next((one for one in plan.refusals if one.pod == pod.uid), None)
    return Finding(
        verdict=Verdict.CONFORMS if phase == "Failed" and reason in reason_names else Verdict.DEVIATES,
        subject=Subject.of_pod(pod.namespace, pod.name),
        cgroup=str(plan.node.path),
        knob="admission",
        set_by=Setter.KUBELET,
        expected=f"refused: {' or '.join(reason_names)}",
        observed=observed,
        reason=None if refusal is None else refusal.reason,
        evidence={"message": str(status.get("message", ""))},
    )


def refusal_finding(plan: Plan, pod: Pod, *reason_names: str) -> Finding:
    """The plan refuses this pod for a reason with one of these names, and has no cgroup for it.

    The model's answer for the NUMA nodes that this machine really has; set_by is memqos, which follows it.
    """
    refusal = next((one for one in plan.refusals if one.pod == pod.uid), None)
    observed = "admitted" if refusal is None else f"refused: {refusal.reason_name}"
    return Finding(
        verdict=Verdict.of(refusal is not None and refusal.reason_name in reason_names),
        subject=Subject.of_pod(pod.namespace, pod.name),
        cgroup=str(plan.node.path),
        knob="admission",
        set_by=Setter.MEMQOS,
        expected=f"refused: {' or '.join(reason_names)}",
        observed=observed,
        reason=None if refusal is None else refusal.reason,
        evidence={} if refusal is None else {"message": refusal.message},
    )


ENDING_SECONDS = 0.1
"""The same while a container is known to be ending; the runtime notices a moment later."""


class Watch:
    """The running app containers of some pods, and the knobs that their behaviour depends on.

    sampling: the samplers inside the machine, of its WATCHED_FILES. kubelet: the kubelet whose rules admitted them.
    answers: of a real kubelet; None if memqos is in its place.
    """

    def __init__(
        self,
        sampling: Sampling,
        tree: CgroupTree,
        runtime: Runtime,
        recorder: Recorder,
        kubelet: Kubelet,
        *,
        answers: KubeletAnswers | None = None,
    ) -> None:
        self._feed = MachineFeed(
            sampling=sampling,
            hierarchy=tree.hierarchy,
            files=WATCHED_FILES[tree.hierarchy.version],
            runtime=runtime,
            recorder=recorder,
            target=tree.target,
        )
        self._hierarchy = tree.hierarchy
        self._target = tree.target
        self._kubelet = kubelet
        self._answers = answers
        self._population: Population | None = None
        self._containers = self._feed.containers

    def begin(self, population: Population, rests_on: Sequence[Preconditions], controls: Mapping[str, Control]) -> None:
        """Watch the containers of these preconditions, which run by now."""
        self._population = population
        for premises in rests_on:
            uid, name = premises.pod.uid, premises.planned.name
            admitted = population.require(uid)
            key = f"{premises.pod.name}/{name}"
            container = WatchedContainer(
                write=functools.partial(self._feed.tell, key),
                until=self.until,
                exec_=self._feed.exec,
                update=self._feed.update,
                key=key,
                premises=premises,
                handle=admitted.containers[name],
                path=population.path_of(admitted.pod, name),
                args=next(one.args for one in admitted.pod.containers if one.name == name),
                control=controls.get(f"{uid}/{name}"),
                traced=population.traced,
                page_size=self._kubelet.node.page_size,
            )
            self._feed.add(container, admitted.containers[name].log_path)
        self._feed.begin()

    def container(self, pod: str, name: str = "") -> WatchedContainer:
        """A pod's container, its first one if no name is given; UsageError if it is not watched."""
        return container_of(pod, name, among=self._containers.values())

    def until(self, *awaited: Awaited, settled: bool = True) -> None:
        """Wait until each of these conditions was fulfilled, or none can be any more; see `either`, `both` and `after`.

        None can be fulfilled once all their containers have ended, or SETTLE_SECONDS after their work was done; and
        nothing is conclusive once a knob that their behaviour depends on is not as planned. Raises DeadlineError with
        the pending conditions if a container still works at the deadline: then there is nothing to judge. settled:
        whether to take a last sample and ask the runtime about each container at the end.
        """
        waiting = PendingConditions(awaited)
        deadline = Deadline.after(WATCH_SECONDS)
        with WAITS.during(waiting.name):
            while not waiting.is_over():
                if deadline.expired:
                    raise waiting.in_vain(deadline)
                ending = any(one.seems_ended and not one.has_ended for one in waiting.containers)
                patience = ENDING_SECONDS if ending else IDLE_SECONDS
                self._feed.wait(seconds=min(patience, deadline.remaining))
                self._ask(waiting.due())
        if settled:
            # The runtime and the counters report an end a moment after it.
            self._feed.look()
            self._ask(waiting.containers)

    def _ask(self, containers: Iterable[WatchedContainer]) -> None:
        """Ask the runtime for the status of these, and whether those that seem to have ended run elsewhere."""
        for container in containers:
            self._feed.ask(container)
            self._feed.look_outside(container)

    def until_ended(self, pod: str, *, other: str) -> tuple[Course, Course]:
        """The courses of both, until one pod's container had ended and the other's had finished its commands."""
        return self.container(pod).until(ended()), self.container(other).until_done()

    def is_refused(self, pod: Pod, *reason_names: str) -> Finding:
        """The kubelet, or memqos in its place, rejects a pod for a reason with one of these names."""
        plan = self._watched.plan
        if self._answers is not None:
            return kubelets_refusal(plan, pod, self._answers.objects("v1", "pods"), *reason_names)
        return refusal_finding(plan, pod, *reason_names)

    def press(
        self,
        neighbour: str,
        *,
        past_low: bool = False,
        whole_node: bool = False,
        dirty: bool = False,
        all_lose: bool = False,
        outside_pods: int = 0,
        short: int | None = None,
    ) -> PressureOutcome:
        """Once all have finished their commands, let the pod `neighbour` take what kubepods has left, and more.

        The additional amount is half of what is unprotected, or what `Aim` says of past_low, all_lose, besides and
        short. whole_node: take what the machine has left instead, which is little while it is `scarce`. dirty: leave
        the pods' page cache unwritten; otherwise it is written to disk first. Returns when the neighbour is done.
        UsageError for a workload that takes no commands, or without a limit.
        """
        grows, everyone = self.container(neighbour), self._all_done()
        if not dirty:
            self._feed.write_back()
        before = UsageBefore.of(everyone)
        if whole_node:
            # Short-lived programs of the runtime change the free memory by as much as is to be short. With most of it
            # taken, little is left to guess. One NUMA node may run short earlier, and reclaim begin there.
            grows.do(Anon(size=self._spare() * 7 // 8))
            grows.until_done()
        squeeze = squeeze_of(
            self._watched.plan,
            self._kubelet,
            everyone,
            grows,
            Aim(past_low=past_low, all_lose=all_lose, outside_pods=outside_pods, short=short),
            before=before,
            recursive=self._hierarchy.is_recursive,
            spare=self._spare() if whole_node else None,
            generations=whole_node and by_generations(self._target),
            dirty=dirty,
        )
        to_disk = min(squeeze.short, squeeze.takes) if dirty or short is not None else 0
        grows.do(*growth_of(squeeze.takes - to_disk, to_disk))
        grows.until_done()
        if soft := [
            one for one in everyone if squeeze.generations and squeeze.counts[one.key].protection is ProtectionKind.SOFT
        ]:
            # memory.stat lags by fewer than 64 updates a CPU until the kernel's next flush, every 2 s.
            self.until(both(*(one.sees(rises("memory.stat", "pgsteal")) for one in soft)))
        return PressureOutcome(containers=everyone, above=self._above(), squeeze=squeeze, neighbour=grows)

    def read_again(self, *pods: str) -> None:
        """Have each of these in turn read all its page cache again, including what it lost.

        Returns when the last is done. UsageError for a workload that takes no commands.
        """
        for one in map(self.container, pods):
            one.do(Read())
            one.until_done()

    def crowd_out(self, neighbour: str) -> CrowdingOutcome:
        """Once all have finished their commands, let the pod `neighbour` take what kubepods has left, and more.

        The additional amount is half of what others may swap out. Returns when it is done, or something has ended.
        UsageError as for `press`.
        """
        grows, everyone = self.container(neighbour), self._all_done()
        commands = growth_of(*crowding(self._watched.plan, everyone, grows))
        grows.do(*commands)
        self.until(either(grows.sees(work_done(len(commands))), *(container.sees(ended()) for container in everyone)))
        return CrowdingOutcome(containers=everyone, above=self._above())

    def disturb(self, neighbour: str, *victims: str, taking: Iterable[str] = tuple(Taking)) -> Paces:
        """Time how long each victim takes to read its memory, alone and while `neighbour` presses, in turns.

        The neighbour presses as `press` does below kubepods' limit, and frees everything at the end of each turn; then
        the victims fetch what they lost before they are timed again. taking: what it takes memory for ("anonymous",
        "files"), one after the other in each turn; at least one. UsageError as for `press`, and for an unknown or
        missing kind.
        """
        kinds = [taking_of(word) for word in taking]
        if not kinds:
            raise UsageError("no kind of memory is named for the aggressor.", next_step=f"Known: {', '.join(Taking)}.")
        pressure = self.press(neighbour)
        turns = turns_of(self.container(neighbour), [*map(self.container, victims)], pressure.squeeze, kinds)
        return Paces(
            containers=list(self._containers.values()),
            above=self._above(),
            turns=turns,
            squeeze=pressure.squeeze,
        )

    def exhaust(self, greedy: str, *, whole_node: bool = False) -> ExhaustionOutcome:
        """Once all have finished their commands, let the pod `greedy` take all that kubepods has left, and more.

        whole_node: all that the machine has left instead, which is little while it is `scarce`. Returns when a
        container was killed for it and the greedy one has ended or has its amount. UsageError if its workload takes no
        commands, if the kubelet sets no limit on kubepods, or if no other pod runs.
        """
        grows, everyone = self.container(greedy), self._all_done()
        left = self._spare() if whole_node else None
        exhaustion = exhaustion_of(self._watched.plan, self._kubelet, everyone, grows, spare=left)
        grows.do(Anon(size=exhaustion.takes))
        self.until(either(*(container.sees(ended()) for container in everyone)))
        grows.until_done()
        rests_on = (*scores_of(self._watched), *self._above())
        return ExhaustionOutcome(containers=everyone, above=rests_on, exhaustion=exhaustion)

    def _all_done(self) -> list[WatchedContainer]:
        """All of them, once each has finished its commands."""
        for container in self._containers.values():
            container.until_done()
        return [*self._containers.values()]

    def _above(self) -> tuple[Finding, ...]:
        """The preconditions above the pods; the runtime is asked once more whether all containers run."""
        for one in self._containers.values():
            self._feed.ask(one)
        knobs = {knob for one in self._containers.values() for knob in one.premises.knobs}
        tree = CgroupTree(self._target, self._hierarchy)
        return premises_above(self._watched, tree, knobs, deadline=Deadline.after(CALL_SECONDS))

    def _spare(self) -> int:
        return spare(self._target, self._kubelet.node.page_size)

    @property
    def _watched(self) -> Population:
        """The pods that are watched, once the watch has begun."""
        assert self._population is not None  # noqa: S101 - a watch is handed out when it has begun
        return self._population
