"""The settings that a machine's cgroups have, and what systemd gives a scope without properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Setter, subject_of
from memqos.engine.answer.unrequested_files import Unnamed, unnamed_findings
from memqos.engine.cgroup.interface_files import SUBTREE_CONTROL, setting_names
from memqos.engine.plan import Plan, PlannedContainer, PlannedPod
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.specification import not_modelled, unspecified
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.pod import QosClass
from memqos.model.reading import FileText, Reading

__all__ = ["SettingFiles", "huge_pages_of", "unnamed_of_pod"]

SECONDS = 60.0


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
