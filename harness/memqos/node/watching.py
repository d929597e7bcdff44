"""Watching one container while its workload runs, until named conditions came true or nothing more can happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.model.knob import Knob
from memqos.model.reading import Reading
from memqos.node.conditions import WATCHED_FILES, Condition, Sample, ended, work_done
from memqos.node.course import Course
from memqos.node.population import AdmittedPod, Population
from memqos.node.premises import Premises
from memqos.runtime.base import Runtime
from memqos.workload.report import parse_container_log

__all__ = ["Watch"]

WATCH_SECONDS = 120.0
"""A container above memory.high without swap gets about one MiB a second under software emulation."""

SAMPLE_SECONDS = 30.0

SETTLE_SECONDS = 5.0
"""How long counters may lag behind a workload that is done: the kernel refreshes its statistics every 2 s."""


class Watch:
    """A pod's first app container, running, and the knobs that its behaviour rests on."""

    def __init__(
        self,
        *,
        tree: CgroupTree,
        runtime: Runtime,
        population: Population,
        admitted: AdmittedPod,
        rests_on: Sequence[Knob],
        record: Callable[[Reading], None],
    ) -> None:
        self.population = population
        self.container = admitted.pod.containers[0]
        self._tree = tree
        self._runtime = runtime
        self._admitted = admitted
        self._record = record
        self._handle = admitted.containers[self.container.name]
        self._path = population.path_of(admitted.pod, self.container.name)
        planned = next(item for item in admitted.planned.containers if item.name == self.container.name)
        self._premises = Premises(pod=admitted.planned, planned=planned, knobs=tuple(rests_on))

    def until(self, *conditions: Condition) -> Course:
        """What happened until each of the conditions had been seen, or nothing more could happen.

        Nothing more can happen when the container has ended, or SETTLE_SECONDS after its work was done; and nothing
        that says anything, once a knob that the behaviour rests on is not as planned. Raises DeadlineError naming the
        conditions that were not seen, if the container still works at the end of the time: then there is nothing to
        judge yet.
        """
        samples: list[Sample] = []
        unseen = {condition.name: condition for condition in conditions}
        gone, done = ended(), work_done(self._finite_commands())
        settled: list[Deadline] = []

        def look() -> Sample:
            sample = self.sample()
            samples.append(sample)
            for name in [name for name, condition in unseen.items() if condition.holds(sample)]:
                del unseen[name]
            if done.holds(sample) and not settled:
                settled.append(Deadline.after(SETTLE_SECONDS))
            return sample

        def is_over(sample: Sample) -> bool:
            if not unseen or gone.holds(sample) or any(deadline.expired for deadline in settled):
                return True
            return bool(self._premises.broken([sample]))

        wait(
            " and ".join(condition.name for condition in conditions),
            look,
            until=is_over,
            deadline=Deadline.after(WATCH_SECONDS),
            shown=lambda sample: "; ".join(condition.shows(sample) for condition in unseen.values()),
        )
        # What the runtime and the counters say of an end comes a moment after it.
        look()
        return Course(rests_on=self._premises, samples=tuple(samples))

    def sample(self) -> Sample:
        """One look."""
        deadline = Deadline.after(SAMPLE_SECONDS)
        pod = self._admitted.planned.cgroup.path
        files = WATCHED_FILES[self._tree.hierarchy.version]
        reading = self._tree.read_cgroups([self._path, pod], files, deadline=deadline)
        self._record(reading)
        log = self._tree.target.read(self._handle.log_path, deadline=deadline) or b""
        return Sample(
            container=self._path,
            pod=pod,
            planned=self._premises.planned.cgroup.knobs,
            reading=reading,
            status=self._runtime.status(self._handle, deadline=deadline),
            report=parse_container_log(
                log.decode("utf-8", "backslashreplace"), source=self._handle.log_path, live=True
            ),
        )

    def _finite_commands(self) -> int:
        """How many of the workload's commands come to an end: all before a hold without a time."""
        words = " ".join(self.container.args).split(" , ")
        return len([word for word in words if word != "hold"])
