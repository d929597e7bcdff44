"""The admitted population: plan, pods, handles, and the judgement of their cgroups.

Also where a container's processes are: the kernel limits and counts only what is in its cgroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.enactor.base import AdmittedPod, Order
from memqos.enactor.observer import Observer
from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding, Setter, Verdict, subject_of
from memqos.engine.answer.unrequested_files import Unnamed, unnamed_findings
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, ContainerIds, Unsure, judged_files, outside_finding
from memqos.engine.cgroup.interface_files import SUBTREE_CONTROL, setting_names
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup, PlannedContainer, PlannedPod
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.specification import not_modelled, unspecified
from memqos.errors import DeadlineError, NonconformanceError, TargetError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion, NodeFacts
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod, QosClass
from memqos.model.reading import CgroupReading, FileText, Reading
from memqos.node.pods.trace import HopTracer
from memqos.runtime.base import ContainerHandle, ContainerState, Runtime, SandboxHandle, SandboxSpec

if TYPE_CHECKING:
    from memqos.catalog.recorded_trees import RecordedTree

__all__ = [
    "HEARING_SECONDS",
    "Population",
    "SettingFiles",
    "huge_pages_of",
    "place_outside",
    "read_population",
    "recorded_population",
    "still_runs",
]


SECONDS = 60.0
HEARING_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The pods of one plan on the node, and one reading of all their cgroups.

    reading: taken when every pod had started; init containers as read while they ran. enacted_by: what enacted the plan
    above containers. tracing: looks for the hop behind a deviation; None if only the reading is left. settings: of the
    machine, if the reading includes settings that no plan names. kubelets: those that
    have run the pods, the current one last.
    """

    plan: Plan
    pods: Mapping[str, AdmittedPod]
    reading: Reading
    enacted_by: Setter
    tracing: HopTracer | None = None
    settings: SettingFiles | None = None
    kubelets: tuple[Kubelet, ...] = ()

    @property
    def node(self) -> NodeFacts:
        """The node that its pods run on; only for one whose kubelets are given."""
        return self.kubelets[-1].node

    def traced(self, findings: Iterable[Finding]) -> Sequence[Finding]:
        """The findings; those that deviate in a container's file name the hop that lost the value."""
        return tuple(findings) if self.tracing is None else self.tracing.traced(findings, self.pods.values())

    def require(self, uid: str) -> AdmittedPod:
        """A pod, if all of it was started.

        Otherwise MachineryError; NonconformanceError with its finding for a runtime that refused a valid request.
        """
        for finding in self._refusals(self.pods[uid]):
            if finding.verdict is Verdict.DEVIATES:
                said = f"{finding.knob} of {finding.subject} is {finding.observed}, expected {finding.expected}"
                raise NonconformanceError(said, data={"finding": finding})
        return self.pods[uid].require()

    def alone(self, pod: Pod) -> Population:
        """The admitted part of this pod, of the same plan; raises as `require` does."""
        return replace(self, pods={pod.uid: self.require(pod.uid)})

    def _refusals(self, pod: AdmittedPod) -> Iterator[Finding]:
        """The findings from the runtime's refusal, if the pod met one."""
        if self.tracing is not None and pod.refused is not None:
            yield self.tracing.refusal(pod, pod.refused)

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

    def judge(self, *, unsure: Unsure) -> Sequence[Finding]:
        """The findings for everything planned, as far as it exists; unsure: as for `verdict.judge`."""
        found = verdict.judge(self.plan, self.reading, enacted_by=self.enacted_by, ids=self.ids, unsure=unsure)
        return self.traced(found)

    def judge_all(self) -> Sequence[Finding]:
        """The findings for everything planned; MachineryError if a pod did not come up."""
        for admitted in self.pods.values():
            admitted.require()
        found = self.judge(unsure=lambda _cgroup, _knob: "")
        for admitted in self.pods.values():
            found = [*found, *self._unnamed(admitted.pod), *self._outside(admitted.pod)]
        return found

    def judge_pod(self, pod: Pod) -> Sequence[Finding]:
        """The findings for a pod and each of its containers; MachineryError if the pod did not come up.

        If the runtime refused a request of the pod, the first finding is that refusal.
        """
        refusals = list(self._refusals(self.pods[pod.uid]))
        if not refusals:
            self.pods[pod.uid].require()
        found = verdict.judge_pod(self.plan, pod.uid, self.reading, enacted_by=self.enacted_by, ids=self.ids)
        return [*refusals, *self.traced(found), *self._unnamed(pod), *self._outside(pod)]

    def _outside(self, pod: Pod) -> Iterator[Finding]:
        """Findings on started containers that should run but have no process in their cgroup."""
        admitted = self.pods[pod.uid]
        came_up = self.settings is not None and admitted.failure is None and admitted.refused is None
        for container in admitted.planned.containers if came_up else ():
            if container.name not in admitted.containers:
                continue
            path = self.path_of(pod, container.name)
            if path not in admitted.early and self.reading.file(path, OOM_SCORE_ADJ) is None:
                yield outside_finding(path, subject=subject_of(container.cgroup, admitted.planned))

    def _unnamed(self, pod: Pod) -> Sequence[Finding]:
        """Findings on settings of a pod and its containers that no plan names."""
        if self.settings is None:
            return ()
        return unnamed_of_pod(self.plan, pod.uid, self.reading, self.ids, self.settings)

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
    """Every planned cgroup and every container's, now, with one command; init containers as read earlier.

    Containers' cgroups also have oom_score_adj, of their first process. A population with `settings` has all of them.
    """
    planned = [cgroup.path for cgroup in population.plan.cgroups()]
    containers = [
        population.path_of(admitted.pod, name) for admitted in population.pods.values() for name in admitted.containers
    ]
    files = [*judged_files(tree.hierarchy.version), *_settings_of(population)]
    reading = tree.read_cgroups(dict.fromkeys([*planned, *containers]), files, deadline=deadline)
    cgroups = dict(reading.cgroups)
    scores = tree.read_first_processes(containers, OOM_SCORE_ADJ, deadline=deadline)
    for path, text in scores.items():
        cgroups[path] = CgroupReading(path=path, files={**cgroups[path].files, OOM_SCORE_ADJ: text})
    for admitted in population.pods.values():
        cgroups.update(admitted.early)
    return replace(reading, cgroups=cgroups)


def _settings_of(population: Population) -> Sequence[str]:
    """The settings of pods and containers: a pod's cgroup has all controllers that its containers' cgroups have."""
    if population.settings is None:
        return ()
    several = (population.settings.names(admitted.planned.cgroup.path) for admitted in population.pods.values())
    return next((names for names in several if names), ())


def recorded_population(tree: RecordedTree, order: Order, ids: ContainerIds) -> Population:
    """The part of a kubelet's orders that a recorded tree has. ids: the containers in the tree of the ordered pods."""
    enactor = Observer(lambda: _containers(ids))
    standing = enactor.begin(tree.source)
    standing.bring(order)
    admitted = standing.admit(order, appears=lambda _: None)
    return Population(plan=order.plan, pods=admitted, reading=tree.reading, enacted_by=enactor.setter)


def _containers(ids: ContainerIds) -> Iterator[ContainerHandle]:
    """The containers as a recorded tree knows them: id, name and the uid of their pod."""
    for (uid, name), container_id in ids.items():
        spec = SandboxSpec(name="", namespace="", uid=uid, cgroup_parent="", log_directory="")
        yield ContainerHandle(id=container_id, name=name, sandbox=SandboxHandle(id="", spec=spec), log_path="")


"""How long a runtime may take to notice that a container has ended."""

_DELETED = " (deleted)"
"""The suffix in /proc/PID/cgroup for an ended process whose cgroup was removed (proc_cgroup_show)."""


def place_outside(tree: CgroupTree, whole: CgroupPath, pids: Iterable[int]) -> str:
    """The cgroup of the first running process of these outside this cgroup and its descendants; "" if there is none."""
    for pid in pids:
        try:
            path = tree.cgroup_of(pid, deadline=Deadline.after(SECONDS))
        except TargetError:
            continue
        if path != whole and not path.below(whole) and not str(path).endswith(_DELETED):
            return str(path)
    return ""


def still_runs(runtime: Runtime, handle: ContainerHandle) -> bool:
    """Whether the runtime reports a container as running, after time to notice that its processes exited."""
    try:
        wait(
            "the runtime knows that the container has ended",
            lambda: runtime.status(handle, deadline=Deadline.after(SECONDS)),
            until=lambda status: status.state is not ContainerState.RUNNING,
            deadline=Deadline.after(HEARING_SECONDS),
        )
    except DeadlineError:
        return True
    return False


class SettingFiles:
    """The settings in a cgroup v2 tree; none for cgroup v1, where each controller has files of its own."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree

    def names(self, path: CgroupPath) -> Sequence[str]:
        """The settings of an existing cgroup, known or not; none if it does not exist."""
        if self._tree.hierarchy.version is not CgroupVersion.V2:
            return ()
        folder = self._tree.hierarchy.folder(path)
        return setting_names(self._tree.target.list(folder, deadline=Deadline.after(SECONDS)) or ())

    @cached_property
    def tasks_max(self) -> str:
        """DefaultTasksMax of systemd, a number or "infinity"; "" if systemd does not report it."""
        result = self._tree.target.run(
            ["systemctl", "show", "--property=DefaultTasksMax"], deadline=Deadline.after(SECONDS)
        )
        return result.text.strip().partition("=")[2] if not result.status else ""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A reading of a plan's cgroups with their settings. ids: of containers, by pod uid and name."""

    plan: Plan
    reading: Reading
    ids: Mapping[tuple[str, str], str]
    settings: SettingFiles

    def files(self, path: CgroupPath) -> Mapping[str, FileText]:
        """The settings of one cgroup that were read."""
        cgroup = self.reading.cgroups.get(path)
        return {} if cgroup is None else {name: cgroup.files[name] for name in setting_names(cgroup.files)}

    def path(self, pod: PlannedPod, container: PlannedContainer) -> CgroupPath | None:
        """A container's cgroup; None if it was not started."""
        container_id = self.ids.get((pod.uid, container.name))
        return None if container_id is None else self.plan.layout.container(pod.cgroup.path, container_id)

    def tasks_max(self, files: Mapping[str, FileText]) -> str:
        """DefaultTasksMax, queried only if a limit of processes is read."""
        text = files.get(Knob.PIDS_MAX)
        return self.settings.tasks_max if isinstance(text, str) and text.strip() != "max" else ""

    def baseline(self) -> tuple[Mapping[str, FileText], Mapping[str, FileText]]:
        """The settings of a BestEffort pod and of its first container; none if no such container was started."""
        for pod in self.plan.pods:
            path = self.path(pod, pod.containers[0]) if pod.qos is QosClass.BEST_EFFORT else None
            if path is not None:
                return self.files(pod.cgroup.path), self.files(path)
        return {}, {}


def unnamed_of_pod(
    plan: Plan, uid: str, reading: Reading, ids: Mapping[tuple[str, str], str], settings: SettingFiles
) -> list[Finding]:
    """Findings on settings of a pod's cgroup and of its containers' cgroups that the plan does not name.

    reading: with the settings of both. ids: of containers, by pod uid and name. The pod's cgroup must be one that
    memqos created, in which the runtime enables controllers. None on cgroup v1.
    """
    if plan.cgroup_version is not CgroupVersion.V2:
        return []
    shown, pod = _Shown(plan, reading, ids, settings), plan.pod(uid)
    of_pods, of_containers = shown.baseline()
    found = unnamed_findings(
        pod.cgroup.path,
        shown.files(pod.cgroup.path),
        Unnamed(judged={*pod.cgroup.knobs, SUBTREE_CONTROL}, baseline=of_pods),
        subject=subject_of(pod.cgroup, pod),
        deviates=Setter.OTHER,
        holds=Setter.KERNEL,
    )
    left_open = plan.not_modelled if pod.runtimes is None else not_modelled(pod.runtimes)
    for container in pod.containers:
        path = shown.path(pod, container)
        if path is None:
            continue
        files = shown.files(path)
        unnamed = Unnamed(
            judged=container.cgroup.knobs.keys(),
            begun=huge_pages_of([container.resources]),
            tasks_max=shown.tasks_max(files),
            baseline=of_containers,
            unmodelled=next(map(unspecified, left_open if _is_left_open(container) else ()), ""),
        )
        found += unnamed_findings(path, files, unnamed, subject=subject_of(container.cgroup, pod))
    return found


def _is_left_open(container: PlannedContainer) -> bool:
    """Whether an unmodelled runtime runs this container: the plan may have other pods with one."""
    return any(one.unmodelled for one in container.cgroup.knobs.values())


def huge_pages_of(asked: Iterable[ContainerResources | OciResources]) -> tuple[str, ...]:
    """Prefixes of the files for huge page limits, and of those that runtimes write with them."""
    return tuple(f"hugetlb.{size}." for resources in asked for size, _ in resources.hugepage_limits)
