"""In-place resize on a node: the kubelet's steps through runtime and cgroups, with a reading of the pod after each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod, Enactment
from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import PlannedPod
from memqos.engine.resize import Resize, ResizeOutcome, ResizePlan, ResizeStep, StepKind, resize_pods, standing_after
from memqos.errors import DeadlineError, EnactorNotAbleError, MachineryError, RuntimeCallError, UsageError
from memqos.model.pod import Container, Pod
from memqos.model.reading import Reading
from memqos.node.pods.population import Population
from memqos.runtime.base import ContainerState, Runtime

__all__ = ["Moment", "Resized", "Resizing", "planned_resize", "with_resources_of"]

ASKING_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One finished step, the pod's reading right after it, and the ids of its containers then."""

    step: ResizeStep
    reading: Reading
    ids: verdict.ContainerIds


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """A finished resize. running: for each container that no step restarts, whether it still runs.

    above: whether the levels above the pod are judged.
    """

    plan: ResizePlan
    resize: Resize
    moments: Sequence[Moment]
    running: Sequence[Finding]
    population: Population
    above: bool = True

    def judge(self) -> Sequence[Finding]:
        """After every step: all files of the pod and its containers, as the steps so far should leave them.

        A step that comes too early or too late therefore deviates like a wrong value. A stopped container is left out
        until it is started again. The last findings are whether the others still run, and, unless they were left out,
        the levels above the pod.
        """
        before, after = self.plan.before.pod(self.resize.uid), self.plan.after.pod(self.resize.uid)
        found: list[Finding] = []
        last: Sequence[Finding] = ()
        untold = len(self.resize.steps) - len(self.moments)
        for count, moment in enumerate(self.moments, untold + 1):
            done = self.resize.steps[:count]
            planned = _without_stopped(standing_after(done, before, after), done)
            when = f"after step {count} of {len(self.resize.steps)}, {_words(moment.step)}"
            last = verdict.judge_pod(
                dataclasses.replace(self.plan.before, pods=(planned,)),
                self.resize.uid,
                moment.reading,
                enacted_by=self.population.enacted_by,
                ids=moment.ids,
            )
            found += [dataclasses.replace(one, subject=one.subject.at(when)) for one in last]
        # Only the last state can still be traced: a value that a later step corrected was late or early, and not lost.
        lost = {(one.cgroup, one.knob): one.lost for one in self.population.traced(last) if one.lost is not None}
        found = [
            dataclasses.replace(one, lost=lost.get((one.cgroup, one.knob))) if one.verdict is Verdict.DEVIATES else one
            for one in found
        ]
        found += self.running
        if self.above:
            reading, setter = self.population.reading, self.population.enacted_by
            found += verdict.judge_node(self.plan.after, reading, enacted_by=setter)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """Carries a resize out and reads the pod. read: reads a population's cgroups now."""

    runtime: Runtime
    standing: Enactment
    read: Callable[[Population], Reading]

    def carry_out(
        self, plan: ResizePlan, resize: Resize, desired: Pod, population: Population, *, above: bool = True
    ) -> Resized:
        """Every step in its order, then the levels above the pod, if `above`: they must have followed.

        EnactorNotAbleError for a resize that this kubelet defers or finds infeasible, UsageError for another that it
        does not carry out; MachineryError for a step that fails.
        """
        if resize.outcome in {ResizeOutcome.DEFERRED, ResizeOutcome.INFEASIBLE}:
            raise EnactorNotAbleError(
                f"this kubelet does not carry the resize out: {resize.outcome}, {resize.message}",
                where=f"pod {resize.namespace}/{resize.name}",
                next_step="Take another configuration, or a larger machine.",
            )
        if not resize.steps:
            raise UsageError(
                f"the kubelet does not carry this resize out: {resize.outcome}"
                + (f", {resize.message}." if resize.message else "."),
                where=f"pod {resize.namespace}/{resize.name}",
                next_step="Choose another size, or a kubelet that does.",
            )
        admitted = population.require(resize.uid)
        before = {name: handle.id for name, handle in admitted.containers.items()}
        moments: list[Moment] = []

        def after(step: ResizeStep) -> None:
            moments.append(Moment(step=step, reading=self.read(population), ids=population.ids))

        try:
            self.standing.resize(plan, resize, desired, after=after, above=above)
        except RuntimeCallError:
            population.require(resize.uid)
            raise
        complete = dataclasses.replace(population, plan=plan.after)
        running = [
            self._runs(admitted, name, container_id, Subject.of_container(name, f"{resize.namespace}/{resize.name}"))
            for name, container_id in before.items()
            if not any(step.container == name and step.kind is StepKind.STOP_CONTAINER for step in resize.steps)
        ]
        return Resized(
            plan=plan,
            resize=resize,
            moments=moments,
            running=running,
            population=dataclasses.replace(complete, reading=self.read(complete)),
            above=above,
        )

    def refuse(self, plan: ResizePlan, resize: Resize, desired: Pod, population: Population) -> Sequence[Finding]:
        """A resize that this kubelet defers or finds infeasible: reason and message in the status, and no file changes.

        UsageError for a resize with another outcome; MachineryError if the kubelet fails.
        """
        if resize.outcome not in {ResizeOutcome.DEFERRED, ResizeOutcome.INFEASIBLE}:
            raise UsageError(
                f"the kubelet does not refuse this resize: {resize.outcome}.",
                where=f"pod {resize.namespace}/{resize.name}",
                next_step="Choose another size.",
            )
        cgroup = population.require(resize.uid).planned.cgroup
        try:
            self.standing.resize(plan, resize, desired, after=lambda _: None)
            observed = "carried out"
        except DeadlineError:
            observed = "no condition PodResizePending in time"
        except MachineryError as error:
            if "pending" not in error.data:
                raise
            observed = str(error.data["pending"])
        expected = f"{resize.outcome}: {resize.message}"
        condition = Finding(
            verdict=Verdict.of(observed == expected),
            subject=Subject.of_pod(resize.namespace, resize.name),
            cgroup=str(cgroup.path),
            knob="PodResizePending",
            set_by=Setter.KUBELET,
            expected=expected,
            observed=observed,
            reason=resize.reason,
        )
        return [condition, *dataclasses.replace(population, reading=self.read(population)).judge_all()]

    def make_room(
        self, plan: ResizePlan, resize: Resize, other: Resize, shrunk: Pod, population: Population
    ) -> Sequence[Finding]:
        """A deferred resize is carried out once another pod was resized and left room: every file, as planned.

        plan: of both resizes. UsageError if it does not carry both out; MachineryError if the kubelet fails.
        """
        for one in (resize, other):
            if one.outcome is not ResizeOutcome.IN_PROGRESS:
                raise UsageError(
                    f"the kubelet does not carry this resize out: {one.outcome}, {one.message}",
                    where=f"pod {one.namespace}/{one.name}",
                    next_step="Choose sizes that fit the machine together.",
                )
        self.standing.resize(plan, other, shrunk, after=lambda _: None)
        complete = dataclasses.replace(population, plan=plan.after)
        return dataclasses.replace(complete, reading=self.read(complete)).judge_all()

    def _runs(self, admitted: AdmittedPod, name: str, container_id: str, subject: Subject) -> Finding:
        handle = admitted.containers[name]
        status = self.runtime.status(handle, deadline=Deadline.after(ASKING_SECONDS))
        same = handle.id == container_id and status.state is ContainerState.RUNNING
        return Finding(
            verdict=Verdict.of(same),
            subject=subject,
            cgroup="",
            knob="restart",
            set_by=Setter.RUNTIME,
            expected="none: it still runs",
            observed="none: it still runs" if same else f"{status.state} ({status.reason or 'no reason given'})",
        )


def planned_resize(
    population: Population, pods: Sequence[Pod], to: Sequence[Pod], kubelet: Kubelet
) -> tuple[ResizePlan, Sequence[Pod]]:
    """The plan for a resize of running pods, and the pods with their wanted resources. to: pods that have those."""
    desired = [with_resources_of(pod, other) for pod, other in zip(pods, to, strict=True)]
    running = [one.pod for one in population.pods.values()]
    return resize_pods(running, desired, kubelet, standing=population.plan), desired


def with_resources_of(pod: Pod, other: Pod) -> Pod:
    """The pod with the resources of another one's containers, by their names; UsageError if the names differ."""
    sizes = {one.name: one.resources for one in other.all_containers}
    if sizes.keys() != {one.name for one in pod.all_containers}:
        raise UsageError(
            f"the containers of '{other.name}' are not those of '{pod.name}', so it cannot be resized to it.",
            next_step="Use a pod whose containers have the same names.",
        )

    def sized(containers: Sequence[Container]) -> tuple[Container, ...]:
        return tuple(dataclasses.replace(one, resources=sizes[one.name]) for one in containers)

    return dataclasses.replace(
        pod,
        containers=sized(pod.containers),
        init_containers=sized(pod.init_containers),
        ephemeral_containers=sized(pod.ephemeral_containers),
        resources=other.resources,
    )


def _without_stopped(pod: PlannedPod, done: Sequence[ResizeStep]) -> PlannedPod:
    started = {step.container for step in done if step.kind is StepKind.START_CONTAINER}
    stopped = {step.container for step in done if step.kind is StepKind.STOP_CONTAINER} - started
    return dataclasses.replace(pod, containers=tuple(one for one in pod.containers if one.name not in stopped))


def _words(step: ResizeStep) -> str:
    whom = f" of container {step.container}" if step.container else ""
    return f"{step.kind}{f' ({step.resource})' if step.resource else ''}{whom}"
