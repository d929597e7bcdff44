"""Findings about a real kubelet: which foreign writes it repairs, which it never does, and what it makes of pods.

Also the levels above pods while it restarts: whether their protection stays in force.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait_or_last
from memqos.enactor.base import KubeletAnswers, MemoryVolume
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.engine.node.placement import status_allocatable
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.errors import EnactorNotAbleError
from memqos.model.knob import Absent, Bytes, Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import ContainerKind
from memqos.model.quantity import Quantity
from memqos.model.reading import FileText
from memqos.node.kubelet_reports import ReportVerbs
from memqos.node.pods.population import Population
from memqos.probe.sampler import Look, Said, Sampler
from memqos.threads import repeatedly

__all__ = ["KubeletVerbs", "protection_watched"]


_PERIOD_SECONDS = 60.0
"""How often a kubelet writes the cgroups of QoS classes (pkg/kubelet/cm `periodicQOSCgroupUpdateInterval`)."""

_CALL_SECONDS = 60.0
_FOREIGN = "1048576"
"""The value that a foreign writer leaves: 1 MiB, which no plan has."""

_VOLUMES = "/var/lib/kubelet/pods"
_SIZE = re.compile(r"(?:^|,)size=(\d+)k(?:,|$)")
_CHECKPOINT = "/var/lib/kubelet/memory_manager_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletVerbs:
    """The verbs on one population.

    sampler: of the machine. repair_seconds: how long the kubelet may take to repair a write.
    """

    answers: KubeletAnswers
    tree: CgroupTree
    population: Population
    sampler: Sampler
    repair_seconds: float = 3 * _PERIOD_SECONDS

    @property
    def reports(self) -> ReportVerbs:
        """The verbs about what the kubelet reports."""
        return ReportVerbs(answers=self.answers, tree=self.tree, population=self.population)

    def protection_watched(self) -> contextlib.AbstractContextManager[ProtectionWatch]:
        """Until the context ends, in which the kubelet restarts, memory.min and memory.low above pods are watched."""
        return protection_watched(self.sampler, self.tree.hierarchy, self.population.plan)

    def repairs_classes(self) -> Sequence[Finding]:
        """The kubelet overwrites a foreign memory.min or memory.low of each class that has one within a few periods.

        EnactorNotAbleError for a configuration that protects no class.
        """
        written = protected_classes(self.population.plan)
        with self._foreign((cgroup.path, knob) for cgroup, knob in written):
            return [self._repaired(cgroup, knob) for cgroup, knob in written]

    @contextlib.contextmanager
    def _foreign(self, files: Iterable[tuple[CgroupPath, Knob]]) -> Iterator[None]:
        """While the context lasts, another program has written these files; then they hold again what they held."""
        before = {file: self._text(*file) for file in files}
        deadline = Deadline.after(_CALL_SECONDS)
        try:
            for path, knob in before:
                self.tree.write(path, knob, _FOREIGN, deadline=deadline)
            yield
        finally:
            deadline = Deadline.after(_CALL_SECONDS)
            for (path, knob), text in before.items():
                self.tree.write(path, knob, text, deadline=deadline)

    def _repaired(self, cgroup: PlannedCgroup, knob: Knob) -> Finding:
        expected = str(cgroup.knobs[knob].value)
        seen = wait_or_last(
            f"{knob} of {cgroup.path} is {expected} again",
            lambda: self._text(cgroup.path, knob),
            until=lambda text: text == expected,
            every=1.0,
            deadline=Deadline.after(self.repair_seconds),
        )
        return _finding(cgroup, subject_of(cgroup), knob, expected, seen)

    def never_repairs_pods(self) -> Sequence[Finding]:
        """A foreign memory.low of a pod's cgroup survives until the kubelet has repaired the classes.

        A class that it restores in the meantime shows that a period has passed. EnactorNotAbleError as in
        `repairs_classes`.
        """
        protected_classes(self.population.plan)
        pods = self.population.plan.pods
        with self._foreign((pod.cgroup.path, Knob.MEMORY_LOW) for pod in pods):
            found = self.repairs_classes()
            left = {pod.uid: self._text(pod.cgroup.path, Knob.MEMORY_LOW) for pod in pods}
        return [
            *found,
            *(
                _finding(pod.cgroup, subject_of(pod.cgroup, pod), Knob.MEMORY_LOW, _FOREIGN, left[pod.uid])
                for pod in pods
            ),
        ]

    def still_runs(self) -> Sequence[Finding]:
        """The kubelet reports under each name the container that it started, and that container runs."""
        items = {one["metadata"]["uid"]: one for one in self.answers.objects("v1", "pods")}
        found = []
        for uid, admitted in self.population.pods.items():
            status = items.get(uid, {}).get("status") or {}
            told = {one["name"]: one for one in status.get("containerStatuses") or ()}
            for name, handle in admitted.containers.items():
                now = told.get(name) or {}
                running = "running" in (now.get("state") or {})
                seen = now.get("containerID", "nothing").rpartition("://")[2]
                observed = f"{seen} {'running' if running else 'not running'}"
                expected = f"{handle.id} running"
                found.append(
                    Finding(
                        verdict=Verdict.of(observed == expected),
                        subject=Subject.of_container(name, self._pod_name(uid)),
                        cgroup=str(self.population.path_of(admitted.pod, name)),
                        knob="restart",
                        set_by=Setter.KUBELET,
                        expected=expected,
                        observed=observed,
                    )
                )
        return found

    def volume_sizes(self, volumes: Sequence[MemoryVolume], *, when: str = "") -> Sequence[Finding]:
        """The size of each memory-backed volume: the least of its sizeLimit, its pod's limit and the allocatable.

        The limit is that of the population's plan, so of the pod before a later resize. when: a moment, for subjects.
        """
        kubelet = self.population.kubelets[-1]
        allocatable = status_allocatable(kubelet)["memory"].value
        mounts = self._tmpfs_sizes()
        found = []
        for uid, admitted in self.population.pods.items():
            admitted.require()
            planned = self.population.plan.pod(uid)
            cgroup, subject = planned.cgroup, subject_of(planned.cgroup, planned)
            limit = cgroup.knobs[kubelet.files.memory_limit].value
            for volume in volumes:
                limits = [allocatable, *([limit.count] if isinstance(limit, Bytes) else [])]
                if volume.size_limit:
                    limits.append(Quantity.parse(volume.size_limit).value)
                page_size = self.population.node.page_size
                size = -(-min(limits) // page_size) * page_size
                folder = f"{_VOLUMES}/{uid}/volumes/kubernetes.io~empty-dir/{volume.name}"
                found.append(
                    Finding(
                        verdict=Verdict.of(mounts.get(folder) == size),
                        subject=subject.at(when) if when else subject,
                        cgroup=str(cgroup.path),
                        knob=f"size of volume {volume.name}",
                        set_by=Setter.KUBELET,
                        expected=str(size),
                        observed=str(mounts.get(folder, "no tmpfs")),
                    )
                )
        return found

    def _tmpfs_sizes(self) -> dict[str, int]:
        """The sizes in bytes of the machine's tmpfs mounts by folder; those without a size are left out."""
        data = self.tree.target.read("/proc/self/mounts", deadline=Deadline.after(_CALL_SECONDS)) or b""
        rows = [line.split() for line in data.decode("utf-8", "surrogateescape").splitlines()]
        sizes = {row[1]: _SIZE.search(row[3]) for row in rows if len(row) > 3 and row[2] == "tmpfs"}  # noqa: PLR2004
        return {folder: int(size[1]) << 10 for folder, size in sizes.items() if size}

    def volume_pages(self) -> Sequence[Finding]:
        """The shmem of each pod whose init container has written to a tmpfs (its arguments), and of its app containers.

        The kernel moves the pages of a removed cgroup to its parent, and charges no other container for them.
        """
        slack = CHARGE_BATCH * self.population.node.cpus * self.population.node.page_size
        found = []
        for uid, admitted in self.population.pods.items():
            planned = admitted.require().planned
            commands = [one.args for one in admitted.pod.init_containers if one.args[:1] == ("tmpfs",)]
            written = sum(Quantity.parse(args[2]).value for args in commands)
            cgroups = [(subject_of(planned.cgroup, planned), planned.cgroup.path, written)]
            for one in admitted.pod.containers:
                subject = Subject.of_container(one.name, self._pod_name(uid))
                cgroups.append((subject, self.population.path_of(admitted.pod, one.name), 0))
            for subject, path, expected in cgroups:
                shmem = self._stat(path).get("shmem", 0)
                found.append(
                    Finding(
                        verdict=Verdict.of(abs(shmem - expected) <= slack),
                        subject=subject,
                        cgroup=str(path),
                        knob="memory.stat shmem",
                        set_by=Setter.KERNEL,
                        expected=f"{expected} ± {slack}",
                        observed=str(shmem),
                        measured=True,
                    )
                )
        return found

    def memory_manager_places(self) -> Sequence[Finding]:
        """Each container's NUMA nodes and bytes in the Memory Manager's checkpoint; cpuset.mems of those that run.

        An init container that has ended has no entry: the kubelet removes it when it starts the next container
        (memorymanager manager.AddContainer).

        EnactorNotAbleError if the configuration gives no container NUMA nodes.
        """
        data = self.tree.target.read(_CHECKPOINT, deadline=Deadline.after(_CALL_SECONDS))
        entries = json.loads(data or b"{}").get("entries") or {}
        found, mems = [], list[Finding]()
        for pod in self.population.plan.pods:
            containers = self.population.pods[pod.uid].pod.all_containers
            requests = {one.name: one.resources.requests for one in containers}
            ended = {one.name for one in containers if one.kind is ContainerKind.INIT}
            for container in pod.containers:
                placed = container.cgroup.knobs.get(Knob.CPUSET_MEMS)
                if placed is None or isinstance(placed.written, Absent):
                    continue
                blocks = (entries.get(pod.uid) or {}).get(container.name) or ()
                memory = [one for one in blocks if one.get("type") == "memory"]
                seen = [f"{_listed(one.get('numaAffinity') or ())}: {one.get('size')} bytes" for one in memory]
                expected = f"{placed.value}: {requests[container.name]['memory'].value} bytes"
                if container.name in ended:
                    expected = "nothing"
                subject = subject_of(container.cgroup, pod)
                found.append(
                    _finding(
                        container.cgroup, subject, "memory_manager_state", expected, " and ".join(seen) or "nothing"
                    )
                )
            files = self.population.judge_pod(self.population.pods[pod.uid].pod)
            running = [one for one in files if one.subject.container and one.subject.container not in ended]
            mems += [one for one in running if one.knob == Knob.CPUSET_MEMS]
        if not found:
            raise EnactorNotAbleError(
                "no container gets NUMA nodes from the Memory Manager.",
                next_step="Take a configuration with memoryManagerPolicy: Static, and a Guaranteed pod.",
            )
        return [*found, *mems]

    def _stat(self, path: CgroupPath) -> dict[str, int]:
        return _numbers(self._text(path, "memory.stat"))

    def _pod_name(self, uid: str) -> str:
        pod = self.population.pods[uid].pod
        return f"{pod.namespace}/{pod.name}"

    def _text(self, path: CgroupPath, name: str) -> str:
        found: FileText = self.tree.read_text(path, name, deadline=Deadline.after(_CALL_SECONDS))
        return found.strip() if isinstance(found, str) else ""


def _listed(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))


def _numbers(text: str) -> dict[str, int]:
    """The lines of a flat-keyed file."""
    return {name: int(number) for name, number in (line.split() for line in text.splitlines())}


def _finding(cgroup: PlannedCgroup, subject: Subject, knob: str, expected: str, observed: str) -> Finding:
    return Finding(
        verdict=Verdict.of(observed == expected),
        subject=subject,
        cgroup=str(cgroup.path),
        knob=knob,
        set_by=Setter.KUBELET,
        expected=expected,
        observed=observed,
    )


_EVERY_SECONDS = 0.1
_PROTECTIONS = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
_WHEN = "while the kubelet restarts"


def protected_classes(plan: Plan) -> list[tuple[PlannedCgroup, Knob]]:
    """The planned protection above zero of each QoS class's cgroup.

    EnactorNotAbleError for a configuration that protects no class.
    """
    if not (found := _protected(plan.qos)):
        raise EnactorNotAbleError(
            "this configuration protects no QoS class.", next_step="Set memoryReservationPolicy: TieredReservation."
        )
    return found


def _protected(cgroups: Sequence[PlannedCgroup]) -> list[tuple[PlannedCgroup, Knob]]:
    return [
        (cgroup, knob)
        for cgroup in cgroups
        for knob in _PROTECTIONS
        if knob in cgroup.knobs
        and not isinstance(cgroup.knobs[knob].written, Absent)
        and str(cgroup.knobs[knob].value) != "0"
    ]


@dataclass(slots=True)
class ProtectionWatch:
    """memory.min and memory.low of kubepods and the QoS classes, as seen from inside the machine."""

    plan: Plan
    hierarchy: Hierarchy
    said: list[Said] = field(default_factory=list)

    def stays(self) -> Sequence[Finding]:
        """Each protection above zero held its planned value all the time.

        The watch reads the files ten times a second: a value that lasted less may be missed. EnactorNotAbleError as in
        `protected_classes`.
        """
        protected_classes(self.plan)
        return [self._stays(cgroup, knob) for cgroup, knob in _protected([self.plan.node, *self.plan.qos])]

    def _stays(self, cgroup: PlannedCgroup, knob: Knob) -> Finding:
        folder, expected = self.hierarchy.folder(cgroup.path), str(cgroup.knobs[knob].value)
        looks = [one for one in self.said if isinstance(one, Look) and one.folder == folder]
        seen = [(one.at, _shown(one, knob)) for one in looks if knob in one.files or one.why == "gone"]
        others = list(dict.fromkeys(text for _, text in seen if text != expected))
        why_not = "" if seen else f"{knob} was not read."
        if seen and seen[0][1] != expected:
            why_not = f"before the restart {knob} was {seen[0][1]}."
        return Finding(
            verdict=Verdict.of(not others, why_not=why_not),
            subject=subject_of(cgroup).at(_WHEN),
            cgroup=str(cgroup.path),
            knob=knob,
            set_by=Setter.KUBELET,
            expected=expected,
            observed=", ".join(others) if others else expected,
            why_not=why_not,
            evidence={"values": " ".join(f"{at - seen[0][0]:.1f}s:{text}" for at, text in seen)},
        )


def _shown(look: Look, knob: Knob) -> str:
    text = look.files.get(knob)
    return "no file" if text is None else text.strip()


@contextlib.contextmanager
def protection_watched(sampler: Sampler, hierarchy: Hierarchy, plan: Plan) -> Iterator[ProtectionWatch]:
    """Until the context ends, the levels above pods are watched. MachineryError if the watch itself ends before."""
    watch = ProtectionWatch(plan, hierarchy)
    with sampler.open([plan.node.path], list(_PROTECTIONS)) as sampling:
        watch.said += sampling.look(deadline=Deadline.after(_CALL_SECONDS))

        def read() -> None:
            # The sampling's buffer does not hold what it says for minutes.
            watch.said.extend(sampling.next(seconds=0))

        with repeatedly(read, every=_EVERY_SECONDS, name="memqos protection"):
            yield watch
        watch.said += sampling.look(deadline=Deadline.after(_CALL_SECONDS))
