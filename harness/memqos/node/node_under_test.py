"""NodeUnderTest: the verbs that tests use on pods, over a target, a runtime, and the engine."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from memqos.catalog.kubelets import KubeletCase
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.base import Ability, AdmittedPod, Enactor, MemoryVolume, Order, Steering, require
from memqos.enactor.base import steering as steering_of
from memqos.engine.answer.finding import Finding, Setter
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import table_after
from memqos.engine.plan import Plan, PlannedPod
from memqos.engine.resize import ResizePlan, taken_over, why_not_taken_over
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.errors import EnactorNotAbleError
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.model.reading import Reading
from memqos.model.topology import Fallback
from memqos.node.behaviour.conditions import WATCHED_FILES
from memqos.node.behaviour.preconditions import premises_of
from memqos.node.behaviour.watch import Watch
from memqos.node.behaviour.watched_container import WatchedContainer
from memqos.node.behaviour.zswap import Zswap, zswap_on
from memqos.node.eviction import EvictionVerbs
from memqos.node.kubelet import KubeletVerbs
from memqos.node.machine.daemon import Daemon, running_daemon
from memqos.node.machine.mounts import HugeVolume, huge_volume, memory_volume, mounted
from memqos.node.machine.needs import OF_KUBELETS, lacking, required_fallback
from memqos.node.machine.shortage import narrow_numa_node, reclaiming, scarce, tight
from memqos.node.machine.swap import swaps_in_order
from memqos.node.occupancy import Cleanup, HealthChecks, Occupancy
from memqos.node.pods.foreign_writes import (
    NumaNodes,
    another,
    bound_to,
    combined_plan,
    drift_findings,
    halved_classes,
)
from memqos.node.pods.population import Population, SettingFiles, read_population
from memqos.node.pods.recorder import Recorder, weight_of
from memqos.node.pods.resize import Resized, Resizing, planned_resize
from memqos.node.pods.trace import HopTracer
from memqos.node.requests.container_requests import Requests
from memqos.probe.facts import TargetFacts
from memqos.probe.sampler import Sampler
from memqos.runtime.base import Mount, Runtime
from memqos.target.base import Target, checked

__all__ = ["NodeUnderTest"]

READ_SECONDS = 60.0

Verbs = TypeVar("Verbs")


class NodeUnderTest:
    """A node: its resources, and the verbs of tests.

    No population leaves anything for the next one. `enactor`: enacts plans on it. `runtimes`: run its containers.
    `cleanup`: what happens at the end. `health`: raises the machine's own failure. `parallel`: pods created at the same
    time (>= 1).
    """

    def __init__(
        self,
        *,
        target: Target,
        runtime: Runtime,
        enactor: Enactor,
        sampler: Sampler,
        facts: TargetFacts,
        recorder: Recorder,
        driver: CgroupDriver = CgroupDriver.SYSTEMD,
        runtimes: Runtimes = TRIXIE,
        cleanup: Cleanup | None = None,
        health: HealthChecks | None = None,
        parallel: int = 1,
    ) -> None:
        self.target = target
        self.runtime = runtime
        self.facts: NodeFacts = facts.node
        self._facts = facts
        self.driver = driver
        self.tree = CgroupTree(target, facts.hierarchy)
        # A run starts every pod with the runtime under test, whatever its RuntimeClass.
        self._runtimes = dataclasses.replace(runtimes, every_class=True)
        self._cleanup = cleanup or Cleanup()
        self._health = health or HealthChecks()
        self._parallel = parallel
        self._sampler = sampler
        self._recorder = recorder
        self._enactor = enactor
        self._occupancy = Occupancy(enactor, cleanup=self._cleanup, health=self._health)
        self._weighed = False
        self._settings = SettingFiles(self.tree)

    def why_not(self, need: str) -> str:
        """Why the node lacks a need, "" if it has it; names are those of `claims.NEEDS`."""
        if abilities := OF_KUBELETS.get(need):
            return next(filter(None, map(self._enactor.why_not, abilities)), "")
        oci, is_own = self._runtimes.oci, self._cleanup.disposable
        return lacking(need, facts=self._facts, runtime=self.runtime, oci=oci, driver=self.driver, is_own=is_own)

    def plan(
        self,
        pods: Sequence[Pod],
        kubelet: KubeletCase,
        *,
        before: Sequence[Pod] = (),
        others: Mapping[str, KubeletCase] | None = None,
        fit: bool = False,
    ) -> Plan:
        """The plan for these pods under this kubelet on this node.

        before: the pods that arrived earlier, in their order. The Memory Manager has back what those held that are not
        in this plan; the others keep their place. Empty means a node on which nothing ever ran; with a real kubelet,
        only `keeping_pods` makes it true. others: different kubelets for some pods, by uid; UsageError if one writes
        different values above pods, and EnactorNotAbleError with a real kubelet. fit: whether pods without room are
        rejected, as a real kubelet does.
        """
        if others or (before and not self._occupancy.keeps):
            require(self._enactor, Ability.ALTER)
        case = self.kubelet(kubelet)
        stay = {pod.uid for pod in pods}
        table = table_after(before, case, ended=[one.uid for one in before if one.uid not in stay]) if before else None
        plans = {uid: expect(pods, self.kubelet(other)) for uid, other in (others or {}).items()}
        return combined_plan(expect(pods, case, table=table, fit=fit), plans)

    def kubelet(self, case: KubeletCase) -> Kubelet:
        """The kubelet of a case on this node, as the engine's rules see it."""
        return Kubelet.of(
            node=self.facts,
            settings=case.settings,
            release=case.release,
            driver=self.driver,
            variant=case.variant,
            runtimes=self._runtimes,
        )

    def narrowed(self, numa_node: int) -> contextlib.AbstractContextManager[None]:
        """While the context lasts, a NUMA node has 48 MiB free; see `node.machine.shortage`."""
        return narrow_numa_node(self.target, numa_node)

    def memory_volume(self, *, noswap: bool) -> contextlib.AbstractContextManager[Mount]:
        """A memory-backed volume for watched pods; see `node.machine.mounts`."""
        return memory_volume(self.target, noswap=noswap)

    def huge_volume(self) -> contextlib.AbstractContextManager[HugeVolume]:
        """A volume of huge pages on each NUMA node, for watched pods; see `node.machine.mounts`."""
        return huge_volume(self.target)

    def swaps_in_order(self) -> Finding:
        """No swap device is used while one of a higher priority has room; see `node.machine.swap`."""
        return swaps_in_order(self.target)

    def zswap(self) -> contextlib.AbstractContextManager[Zswap]:
        """While the context lasts, swapped pages are compressed in memory first; see `behaviour.zswap`."""
        return zswap_on(self.tree)

    def fallback(self) -> Fallback:
        """Three NUMA nodes whose distances determine the kernel's fallback order; UsageError without them."""
        return required_fallback(self.facts)

    def tight(self, kubelet: KubeletCase, pods: Sequence[Pod] = ()) -> KubeletCase:
        """The same kubelet with a reservation that leaves its pods 256 MiB; see `node.machine.shortage`.

        pods: leave them their programs' first allocations plus 64 MiB, which is faster.
        """
        return tight(kubelet, self.facts, pods)

    @contextlib.contextmanager
    def scarce(self) -> Iterator[None]:
        """Until the context ends, the whole machine is short of memory, and only pods are reclaimable.

        EnvironmentNotAbleError for a kernel without huge pages; see `node.machine.shortage`.
        """
        with self._health.guarded(), scarce(self.target, self.tree.hierarchy):
            yield

    def daemon(self, cgroup: str, *, shared: bool = False) -> contextlib.AbstractContextManager[Daemon]:
        """A daemon in this cgroup of the node ("/memqossys.slice"), outside its pods; see `node.machine.daemon`."""
        return running_daemon(
            self.tree, CgroupPath.parse(cgroup), shared=shared, cpus=self.facts.cpus, page_size=self.facts.page_size
        )

    @contextlib.contextmanager
    def mounted(self, *, recursive: bool) -> Iterator[None]:
        """Until the context ends, cgroups are mounted with memory_recursiveprot, or without it."""
        known = self.tree
        with self._health.guarded(), mounted(self.target, known.hierarchy, recursive=recursive) as hierarchy:
            self.tree = CgroupTree(self.target, hierarchy)
            try:
                yield
            finally:
                self.tree = known

    @contextlib.contextmanager
    def reclaiming(self, *, generations: bool) -> Iterator[None]:
        """Until the context ends, the kernel reclaims by the multi-generational LRU if it has it, or by the classic."""
        with self._health.guarded(), reclaiming(self.target, generations=generations):
            yield

    @contextlib.contextmanager
    def keeping_pods(self) -> Iterator[None]:
        """Until the context ends, populations leave cgroups and pods in place, and the next one reuses what fits."""
        with self._occupancy.keeping():
            yield

    def admitted(
        self,
        pods: Sequence[Pod],
        kubelet: KubeletCase,
        *,
        numa_node: NumaNodes | None = None,
        memory_volumes: Sequence[MemoryVolume] = (),
    ) -> contextlib.AbstractContextManager[Population]:
        """These pods on the node, started and read; all are removed when the context ends.

        numa_node: a NUMA node that every container is bound to through CRI's cpuset_mems; None binds none. With
        several, every container may use all of them and runs on the CPUs of the first. memory_volumes: of each pod;
        only a kubelet creates them. Raises MachineryError if the node's own cgroups cannot be created; the failure of a
        single pod is kept with the pod.
        """
        if memory_volumes:
            require(self._enactor, Ability.ANSWER)
        steering = Steering(memory_volumes=tuple(memory_volumes))
        return self._admitted(self._bound(self.plan(pods, kubelet), numa_node), pods, kubelet, steering=steering)

    @contextlib.contextmanager
    def _admitted(
        self,
        plan: Plan,
        pods: Sequence[Pod],
        kubelet: KubeletCase,
        *,
        steering: Steering | None = None,
        appears: Callable[[PlannedPod], None] = lambda _: None,
    ) -> Iterator[Population]:
        """`admitted`, with appears: see `Enactment.admit`."""
        self._recorder.plan(plan)
        with self._occupancy.begun(f"memqos {kubelet.id}") as standing:
            order = Order(kubelet=self.kubelet(kubelet), plan=plan, pods=pods, steering=steering or Steering())
            standing.bring(order)
            yield self._population(plan, standing.admit(order, appears=appears), kubelet)

    def _bound(self, plan: Plan, numa_node: NumaNodes | None) -> Plan:
        if numa_node is None:
            return plan
        require(self._enactor, Ability.ALTER)
        return bound_to(plan, numa_node, self.facts)

    @contextlib.contextmanager
    def requests(self, pod: Pod, kubelet: KubeletCase) -> Iterator[Requests]:
        """This pod on the node; its sandbox is used to request further containers from the runtime directly.

        Raises MachineryError if the pod does not come up.
        """
        with self.requests_of_each([pod], kubelet) as [requests]:
            yield requests

    @contextlib.contextmanager
    def requests_as(self, pod: Pod, kubelet: KubeletCase, kind: Callable[[Requests], Verbs]) -> Iterator[Verbs]:
        """`requests`, with the verbs of this kind: `LifecycleVerbs` or `CriVerbs`."""
        with self.requests(pod, kubelet) as requests:
            yield kind(requests)

    @contextlib.contextmanager
    def requests_of_each(self, pods: Sequence[Pod], kubelet: KubeletCase) -> Iterator[Sequence[Requests]]:
        """One for each of these pods, which are on the node together; several threads may use one each."""
        with self.admitted(pods, kubelet) as population:
            parts = [population.alone(pod) for pod in pods]
            self._weigh(parts[0])
            asked = Requests(
                runtime=self.runtime,
                tree=self.tree,
                kubelet=self.kubelet(kubelet),
                population=parts[0],
                recorder=self._recorder,
                settings=self._settings,
                parallel=self._parallel,
            )
            yield [asked, *(dataclasses.replace(asked, population=part, left=[]) for part in parts[1:])]

    def _weigh(self, population: Population) -> None:
        """Measured once for a node: the runtime's cost does not change, and no finding depends on it."""
        if not self._weighed:
            self._weighed = True
            self._recorder.weight(weight_of(self.tree, self._runtimes.layout(self.driver), population))

    def restart_kubelet(self, population: Population, kubelet: KubeletCase) -> Population:
        """The same pods, still running, after the kubelet returned with another configuration or release.

        What it writes and what it leaves is in `engine.resize.takeover`. Raises UsageError without pods,
        EnactorNotAbleError if this kubelet would not take one over, MachineryError if a write fails.
        """
        standing = self._occupancy.standing()
        require(self._enactor, Ability.SUCCEED)
        pods = [one.pod for one in population.pods.values()]
        planned, own = self.plan(pods, kubelet), self.kubelet(kubelet)
        if why := why_not_taken_over(population.plan, planned):
            raise EnactorNotAbleError(why)
        plan = taken_over(population.plan, planned, pods, own, earlier=population.kubelets)
        self._recorder.plan(plan)
        with self._health.guarded():
            standing.bring(Order(kubelet=own, plan=plan, pods=pods, succeeds=True))
            found = self._population(plan, standing.pods, kubelet)
        return dataclasses.replace(found, kubelets=(*population.kubelets, own))

    def upgraded(self, kubelet: KubeletCase) -> KubeletCase:
        """The same configuration under the other kubelet of the run. EnactorNotAbleError without a second one."""
        if why := self.why_not("two kubelets"):
            raise EnactorNotAbleError(why)
        other = self._enactor.releases[1]
        return dataclasses.replace(kubelet, id=f"{kubelet.id}-under-{other}", release=other)

    def kubelet_verbs(self, population: Population) -> KubeletVerbs:
        """Verbs about a real kubelet for these pods; EnactorNotAbleError if memqos is in its place."""
        return self._verbs_of_kubelet(partial(KubeletVerbs, sampler=self._sampler), population)

    def eviction_verbs(self, population: Population) -> EvictionVerbs:
        """Verbs about a real kubelet's evictions; EnactorNotAbleError if memqos is in its place."""
        return self._verbs_of_kubelet(EvictionVerbs, population)

    def _verbs_of_kubelet(self, kind: Callable[..., Verbs], population: Population) -> Verbs:
        return kind(answers=self._enactor.answers(), tree=self.tree, population=population)

    def daemon_reloaded(self, population: Population) -> Population:
        """The same pods, read after systemd has reloaded its units and applied them to its cgroups."""
        reloaded = self.target.run(["systemctl", "daemon-reload"], deadline=Deadline.after(READ_SECONDS))
        checked(reloaded, where=self.target.address)
        return dataclasses.replace(population, reading=self._read_and_record(population))

    def resize(self, population: Population, pod: Pod, kubelet: KubeletCase, *, to: Pod, above: bool = True) -> Resized:
        """Resize a pod of the population in place, step by step as this kubelet does, and read it after every step.

        to: a pod with the same container names and the wanted resources. above: whether the levels above pods must have
        followed, for which a real kubelet takes up to a minute, and are judged. EnactorNotAbleError for a resize that
        the kubelet defers or finds infeasible, UsageError for one that is none, MachineryError for a step that fails.
        """
        resizing, plan, [desired] = self._resizing(population, [pod], kubelet, Ability.RESIZE, to=[to])
        self._recorder.plan(plan.after)
        with self._health.guarded():
            return resizing.carry_out(plan, plan.resizes[0], desired, population, above=above)

    def resize_refused(self, population: Population, pod: Pod, kubelet: KubeletCase, *, to: Pod) -> Sequence[Finding]:
        """A resize that a real kubelet defers or finds infeasible: see `Resizing.refuse`.

        EnactorNotAbleError if memqos is in the kubelet's place, or if the kubelet does not resize in place.
        """
        needed = Ability.ANSWER, Ability.RESIZE
        resizing, plan, [desired] = self._resizing(population, [pod], kubelet, *needed, to=[to])
        with self._health.guarded():
            return resizing.refuse(plan, plan.resizes[0], desired, population)

    def resize_made_room_for(
        self, population: Population, pods: Sequence[Pod], kubelet: KubeletCase, *, to: Sequence[Pod]
    ) -> Sequence[Finding]:
        """The deferred resize of the first pod is carried out after the second shrinks: see `Resizing.make_room`.

        pods, to: both pods and the pods with their wanted resources.
        """
        resizing, plan, desired = self._resizing(population, pods, kubelet, Ability.ANSWER, to=to)
        grows, shrinks = (next(one for one in plan.resizes if one.uid == pod.uid) for pod in pods)
        with self._health.guarded():
            return resizing.make_room(plan, grows, shrinks, desired[1], population)

    def _resizing(
        self, population: Population, pods: Sequence[Pod], kubelet: KubeletCase, *needed: Ability, to: Sequence[Pod]
    ) -> tuple[Resizing, ResizePlan, Sequence[Pod]]:
        """What resizes pods of the population, its plan, and the pods with their wanted resources."""
        standing = self._occupancy.with_pod(pods[0])
        for ability in needed:
            require(self._enactor, ability)
        plan, desired = planned_resize(population, pods, to, self.kubelet(kubelet))
        return Resizing(runtime=self.runtime, standing=standing, read=self._read_and_record), plan, desired

    def drift_of_pod(self, population: Population, pod: Pod) -> Sequence[Finding]:
        """A foreign write to the pod's cgroup changes that file only, until the cgroup is reconciled.

        Raises UsageError for a pod that is not on the node, or without planned memory values.
        """
        standing = self._occupancy.with_pod(pod)
        require(self._enactor, Ability.RECONCILE)
        with self._health.guarded():
            return drift_findings(population, pod, standing, self.tree, read=self._read_and_record)

    def _population(self, plan: Plan, pods: Mapping[str, AdmittedPod], kubelet: KubeletCase) -> Population:
        own = self.kubelet(kubelet)
        tracing = HopTracer(runtime=self.runtime, target=self.target, kubelet=own)
        unread, setter = Reading(source=self.target.address, at=0.0), self._enactor.setter
        # A kubelet also writes values that no plan has, such as podPidsLimit.
        settings = self._settings if setter is Setter.MEMQOS else None
        population = Population(
            plan=plan, pods=pods, reading=unread, enacted_by=setter, tracing=tracing, settings=settings, kubelets=(own,)
        )
        return dataclasses.replace(population, reading=self._read_and_record(population))

    def _read_and_record(self, population: Population) -> Reading:
        reading = self.read(population)
        self._recorder.reading(reading)
        return reading

    def read(self, population: Population) -> Reading:
        """Every planned cgroup and every container's, now; see `read_population`."""
        return read_population(self.tree, population, deadline=Deadline.after(READ_SECONDS))

    @contextlib.contextmanager
    def watched(
        self,
        pod: Pod,
        kubelet: KubeletCase,
        *,
        rests_on: Sequence[Knob],
        numa_node: NumaNodes | None = None,
        steered: bool = False,
        volumes: Sequence[Mount] = (),
    ) -> Iterator[WatchedContainer]:
        """One pod whose first app container is watched; see `watched_pods`."""
        with self.watched_pods(
            [pod], kubelet, rests_on=rests_on, numa_node=numa_node, steered=steered, volumes=volumes
        ) as watch:
            yield watch.container(pod.name)

    @contextlib.contextmanager
    def watched_each(
        self, pod: Pod, kubelets: Mapping[str, KubeletCase], *, rests_on: Sequence[Knob]
    ) -> Iterator[Mapping[str, WatchedContainer]]:
        """Copies of this pod, one for each kubelet; the first app container of each is watched.

        kubelets: one or more, by the suffix of their pod's name; see `plan` and `watched_pods`.
        """
        pods = {name: another(pod, name) for name in kubelets}
        others = {pods[name].uid: kubelet for name, kubelet in kubelets.items()}
        first, *_ = kubelets.values()
        with self.watched_pods([*pods.values()], first, rests_on=rests_on, others=others) as watch:
            yield {name: watch.container(one.name) for name, one in pods.items()}

    @contextlib.contextmanager
    def watched_pods(
        self,
        pods: Sequence[Pod],
        kubelet: KubeletCase,
        *,
        rests_on: Sequence[Knob],
        numa_node: NumaNodes | None = None,
        before: Sequence[Pod] = (),
        halved: bool = False,
        others: Mapping[str, KubeletCase] | None = None,
        steered: bool = False,
        volumes: Sequence[Mount] = (),
    ) -> Iterator[Watch]:
        """These pods, with every app container watched from its start on.

        rests_on: the knobs that must have their planned values for the behaviour to prove anything; UsageError for
        none, and for an unplanned one. numa_node: as in `admitted`. before, others: as in `plan`. halved: whether the
        QoS classes have half of their pods' summed memory.min, see `node.pods.foreign_writes`. steered: their workloads
        take commands while they run. volumes: their containers' mounts.
        Raises MachineryError if one of them does not come up.
        """
        plan = self._bound(self.plan(pods, kubelet, before=before, others=others), numa_node)
        if halved:
            require(self._enactor, Ability.ALTER)
            plan = halved_classes(plan, page_size=self.facts.page_size)
        premises, files = premises_of(plan, rests_on, self._enactor.setter), WATCHED_FILES[self.facts.cgroup_version]
        with contextlib.ExitStack() as stack:
            if steered:
                require(self._enactor, Ability.STEER)
            steering = stack.enter_context(steering_of(self.target, pods)) if steered else Steering()
            steering = dataclasses.replace(steering, volumes=tuple(volumes))
            sampling = stack.enter_context(self._sampler.open([], files))

            def appears(pod: PlannedPod) -> None:
                sampling.watch([pod.cgroup.path])

            population = stack.enter_context(self._admitted(plan, pods, kubelet, steering=steering, appears=appears))
            # Errors during their removal do not affect the findings.
            stack.callback(sampling.finish)
            answers = None if self._enactor.why_not(Ability.ANSWER) else self._enactor.answers()
            own = self.kubelet(kubelet)
            watch = Watch(sampling, self.tree, self.runtime, self._recorder, own, answers=answers)
            watch.begin(population, premises, steering.controls)
            yield watch

    def leftovers(self) -> Sequence[str]:
        """The cgroups that were made for plans and not removed: none on a node that is as it was."""
        self._cleanup.clear_away()
        return tuple(map(str, self._enactor.leftovers()))
