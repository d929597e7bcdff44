"""What stands around a container that is asked for: its pod, what the pod has besides, and the cgroups above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.enactor.base import AdmittedPod
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.kubelet import Kubelet
from memqos.errors import DeadlineError
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText, Reading
from memqos.node.pods.population import Population
from memqos.node.pods.recorder import Recorder
from memqos.node.pods.refusing import SUBJECT
from memqos.node.pods.setting_files import SettingFiles
from memqos.node.requests.beside import kept_findings

__all__ = ["CPUSETS", "Surroundings"]

CPUSETS = (Knob.CPUSET_CPUS, Knob.CPUSET_MEMS)
REMOVED_SECONDS = 10.0
"""What a refused container had is gone by then; whoever left something once does not get so long again."""
REMOVED_AGAIN_SECONDS = 1.0

READ_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """They are read before and after a request, and must hold what they held. population: of one pod.

    The pod's first container is the neighbour. recorder: told what is judged, and by what. settings: of the machine.
    left: what was found to be left by refusals.
    """

    tree: CgroupTree
    kubelet: Kubelet
    population: Population
    recorder: Recorder
    settings: SettingFiles
    left: list[str] = field(default_factory=list)

    def _left(self, pod: AdmittedPod, below: frozenset[str]) -> Finding:
        """After a refusal the pod's cgroup has what it had before; systemd takes a moment to remove a scope."""
        try:
            now = wait(
                "nothing is left below the pod's cgroup",
                lambda: self._below(pod),
                until=lambda names: names <= below,
                deadline=Deadline.after(REMOVED_AGAIN_SECONDS if self.left else REMOVED_SECONDS),
            )
        except DeadlineError:
            now = self._below(pod)
        left = sorted(now - below)
        self.left.extend(left)
        return Finding(
            verdict=Verdict.DEVIATES if left else Verdict.CONFORMS,
            subject=SUBJECT,
            cgroup=str(pod.planned.cgroup.path),
            knob="cgroup",
            set_by=Setter.RUNTIME,
            expected="nothing left",
            # Names of containers are never the same: what is left is told beside it.
            observed="a cgroup is left" if left else "nothing left",
            evidence={"left": ", ".join(left)} if left else {},
        )

    def _below(self, pod: AdmittedPod) -> frozenset[str]:
        """The names in the pod's cgroup."""
        folder = self.tree.hierarchy.folder(pod.planned.cgroup.path)
        return frozenset(self.tree.target.list(folder, deadline=Deadline.after(READ_SECONDS)) or ())

    def _neighbours(
        self, pod: AdmittedPod, above: Sequence[CgroupPath] = ()
    ) -> Mapping[CgroupPath, Mapping[str, FileText]]:
        """What the pod's cgroup and its own containers' hold, and these above it."""
        names = [container.name for container in pod.pod.containers]
        containers = (self.population.path_of(pod.pod, name) for name in names)
        paths = [pod.planned.cgroup.path, *containers, *above]
        files = [knob.value for knob in (*self.kubelet.files.planned, *CPUSETS)]
        settings = self.settings.names(pod.planned.cgroup.path)
        return {path: seen.files for path, seen in self._read(paths, [*files, *settings]).cgroups.items()}

    def _read(self, paths: Sequence[CgroupPath], names: Sequence[str]) -> Reading:
        """Files that something is judged by."""
        reading = self.tree.read_cgroups(paths, names, deadline=Deadline.after(READ_SECONDS))
        self.recorder.reading(reading)
        return reading

    def _kept(
        self,
        before: Mapping[CgroupPath, Mapping[str, FileText]],
        after: Mapping[CgroupPath, Mapping[str, FileText]],
    ) -> list[Finding]:
        """One finding for each neighbour, or for each of its files that changed."""
        return [*self.population.traced(kept_findings(before, after))]
