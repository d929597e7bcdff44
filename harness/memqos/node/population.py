"""What was admitted: the plan, the pods with their handles, and the judgement of what the kernel holds for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding
from memqos.engine.answer.setter import Setter
from memqos.engine.answer.verdict import OOM_SCORE_ADJ
from memqos.engine.plan import Plan, PlannedCgroup, PlannedPod
from memqos.errors import MachineryError
from memqos.model.knob import knobs_of
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod, QosClass
from memqos.model.reading import CgroupReading, Reading
from memqos.runtime.base import ContainerHandle, Mount, SandboxHandle

__all__ = ["AdmittedPod", "Population", "knob_files", "read_population"]


def knob_files(version: CgroupVersion) -> tuple[str, ...]:
    """The control files that a judgement needs."""
    return tuple(str(knob) for knob in knobs_of(version))


@dataclass(slots=True, kw_only=True)
class AdmittedPod:
    """One pod on the node: its handles as far as it came, and why it came no further.

    early: cgroups that were read while they existed (init containers end before the pod is complete).
    mounts: what containers see of the target, by their names.
    """

    pod: Pod
    planned: PlannedPod
    sandbox: SandboxHandle | None = None
    containers: dict[str, ContainerHandle] = field(default_factory=dict)
    early: dict[CgroupPath, CgroupReading] = field(default_factory=dict)
    mounts: Mapping[str, tuple[Mount, ...]] = field(default_factory=dict)
    failure: MachineryError | None = None

    def require(self) -> AdmittedPod:
        """The pod itself, if all of it was started; otherwise the error that kept it from that."""
        if self.failure is not None:
            raise self.failure
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The pods of one plan on the node, and one reading of all their cgroups.

    reading: taken when every pod had been started; init containers as they were read while they ran.
    enacted_by: who made the plan true above containers.
    """

    plan: Plan
    pods: Mapping[str, AdmittedPod]
    reading: Reading
    enacted_by: Setter

    @property
    def ids(self) -> dict[tuple[str, str], str]:
        """Container ids by pod uid and container name."""
        return {
            (uid, name): handle.id
            for uid, admitted in self.pods.items()
            for name, handle in admitted.containers.items()
        }

    @property
    def failures(self) -> tuple[AdmittedPod, ...]:
        """The pods that did not come up."""
        return tuple(admitted for admitted in self.pods.values() if admitted.failure is not None)

    def judge_pod(self, pod: Pod) -> Sequence[Finding]:
        """The findings for a pod and each of its containers; MachineryError if the pod did not come up."""
        self.pods[pod.uid].require()
        return verdict.judge_pod(self.plan, pod.uid, self.reading, enacted_by=self.enacted_by, ids=self.ids)

    def judge_class(self, qos: QosClass) -> Sequence[Finding]:
        """The findings for one QoS class's cgroup; none for Guaranteed, which has no cgroup of its own."""
        return self._judge_above_pods([cgroup for cgroup in self.plan.qos if cgroup.qos is qos])

    def judge_node(self) -> Sequence[Finding]:
        """The findings for kubepods and for the reserved cgroups."""
        return self._judge_above_pods([self.plan.node, *self.plan.reserved])

    def _judge_above_pods(self, cgroups: Sequence[PlannedCgroup]) -> Sequence[Finding]:
        paths = {str(cgroup.path) for cgroup in cgroups}
        found = verdict.judge_node(self.plan, self.reading, enacted_by=self.enacted_by)
        return [finding for finding in found if finding.cgroup in paths]

    def path_of(self, pod: Pod, container: str) -> CgroupPath:
        """The cgroup that holds a container's processes."""
        admitted = self.pods[pod.uid]
        return self.plan.layout.container(admitted.planned.cgroup.path, admitted.containers[container].id)


def read_population(tree: CgroupTree, population: Population, *, deadline: Deadline) -> Reading:
    """Every planned cgroup and every container's, now, with one command; init containers as they were seen.

    Containers' cgroups also have oom_score_adj, of their first process.
    """
    planned = [cgroup.path for cgroup in population.plan.cgroups()]
    containers = [
        population.path_of(admitted.pod, name) for admitted in population.pods.values() for name in admitted.containers
    ]
    files = knob_files(tree.hierarchy.version)
    reading = tree.read_cgroups(dict.fromkeys([*planned, *containers]), files, deadline=deadline)
    cgroups = dict(reading.cgroups)
    scores = tree.read_first_processes(containers, OOM_SCORE_ADJ, deadline=deadline)
    for path, text in scores.items():
        cgroups[path] = CgroupReading(path=path, files={**cgroups[path].files, OOM_SCORE_ADJ: text})
    for admitted in population.pods.values():
        cgroups.update(admitted.early)
    return replace(reading, cgroups=cgroups)
