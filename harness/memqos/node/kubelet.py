"""Findings about a real kubelet: which foreign writes it repairs, which it never does, and its memory metrics."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait_or_last
from memqos.enactor.base import KubeletAnswers, MemoryVolume
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.node.placement import status_allocatable
from memqos.engine.plan import PlannedCgroup
from memqos.errors import EnactorNotAbleError
from memqos.model.knob import Absent, Bytes, Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import ContainerKind
from memqos.model.quantity import Quantity
from memqos.model.reading import FileText
from memqos.node.kubelet_reports import (
    Report,
    memory_in_metrics,
    memory_in_summary,
    metrics_of_cgroup,
    pressure_in_metrics,
    pressure_in_summary,
)
from memqos.node.pods.population import Population
from memqos.target.base import checked

__all__ = ["KubeletVerbs"]

_PERIOD_SECONDS = 60.0
"""How often a kubelet writes the cgroups of QoS classes (pkg/kubelet/cm `periodicQOSCgroupUpdateInterval`)."""

_CALL_SECONDS = 60.0
_RECLAIMED = 8 << 20
_FOREIGN = "1048576"
"""The value that a foreign writer leaves: 1 MiB, which no plan has."""

_SUMMARY = "https://127.0.0.1:10250/stats/summary"
_METRICS = "https://127.0.0.1:10250/metrics/resource"
_MEMORY_FIELDS: Mapping[str, str] = {
    "workingSetBytes": "container_memory_working_set_bytes",
    "swapUsageBytes": "container_swap_usage_bytes",
}
"""The amounts of memory in /stats/summary, and their names in /metrics/resource."""
_PRESSURE_SOURCES = ("/stats/summary", "/metrics/cadvisor")
_CADVISOR = "https://127.0.0.1:10250/metrics/cadvisor"
_STALLED: Mapping[str, str] = {"some": "waiting", "full": "stalled"}
"""cadvisor's names for the two lines of a pressure file: container_pressure_cpu_waiting_seconds_total."""

_VOLUMES = "/var/lib/kubelet/pods"
_SIZE = re.compile(r"(?:^|,)size=(\d+)k(?:,|$)")
_CHECKPOINT = "/var/lib/kubelet/memory_manager_state"
_CHARGE_BATCH = 64
"""Pages that each CPU may charge ahead, and by which memory.stat may lag (mm/memcontrol.c, MEMCG_CHARGE_BATCH)."""

_Key = TypeVar("_Key")
_Seen = TypeVar("_Seen")
_Amount = tuple[tuple[str, str], str]
"""A container, by its pod's uid and its name, and a field."""

_Total = tuple[str, str, str]
"""A pod's uid, an endpoint and a line of the pressure file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletVerbs:
    """The verbs on one population.

    repair_seconds, report_seconds: how long the kubelet may take to repair a write, and to report the kernel's values.
    """

    answers: KubeletAnswers
    tree: CgroupTree
    population: Population
    repair_seconds: float = 3 * _PERIOD_SECONDS
    report_seconds: float = 90.0

    def repairs_classes(self) -> Sequence[Finding]:
        """The kubelet overwrites a foreign memory.min or memory.low of each class that has one within a few periods.

        EnactorNotAbleError for a configuration that protects no class.
        """
        written = self._protected_classes()
        with self._foreign((cgroup.path, knob) for cgroup, knob in written):
            return [self._repaired(cgroup, knob) for cgroup, knob in written]

    def _protected_classes(self) -> list[tuple[PlannedCgroup, Knob]]:
        found = [(cgroup, knob) for cgroup in self.population.plan.qos for knob in _protections(cgroup)]
        if not found:
            raise EnactorNotAbleError(
                "this configuration protects no QoS class.", next_step="Set memoryReservationPolicy: TieredReservation."
            )
        return found

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
        self._protected_classes()
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

    def reports_memory(self) -> Sequence[Finding]:
        """The kubelet reports the working set and the swap of each container as the kernel's files have them.

        Some memory of each container is reclaimed first, so that a container that may swap has some in swap. The
        reported value must lie between two readings of the kernel, with a tolerance of what CPUs charge ahead.
        """
        paths = dict(self._containers())
        for path in paths.values():
            self._reclaim(path)
        slack = _CHARGE_BATCH * self.population.node.cpus * self.population.node.page_size
        wanted = [(key, field) for key in paths for field in _MEMORY_FIELDS]

        def look(left: Collection[_Amount]) -> dict[_Amount, tuple[int, Mapping[str, int | None]]]:
            kernel = {(key, field): self._kernel(paths[key], field) for key, field in left}
            told = self._told(left)
            return {one: (kernel[one], told[one]) for one in left}

        def agree(seen: tuple[int, Mapping[str, int | None]]) -> bool:
            kernel, told = seen
            return all(one is not None and abs(one - kernel) <= slack for one in told.values())

        seen = self._seen("the kubelet reports the memory of all containers", wanted, look, agree)
        return [
            Finding(
                verdict=Verdict.of(agree(seen[key, field])),
                subject=Subject.of_container(key[1], self._pod_name(key[0])),
                cgroup=str(paths[key]),
                knob=field,
                set_by=Setter.KUBELET,
                expected=f"{seen[key, field][0]} ± {slack}",
                observed=", ".join(f"{name}: {value}" for name, value in seen[key, field][1].items()),
                measured=True,
            )
            for key, field in wanted
        ]

    def _seen(
        self,
        what: str,
        wanted: Collection[_Key],
        look: Callable[[Collection[_Key]], Mapping[_Key, _Seen]],
        decides: Callable[[_Seen], bool],
    ) -> Mapping[_Key, _Seen]:
        """Of each wanted value the first look that decides, or the last one at the deadline, which all share.

        look: reads all values that are left; a look takes two answers of the kubelet however many these are.
        """
        found: dict[_Key, _Seen] = {}
        left = list(wanted)

        def none_left() -> bool:
            found.update(look(left))
            left[:] = [one for one in left if not decides(found[one])]
            return not left

        wait_or_last(what, none_left, every=2.0, deadline=Deadline.after(self.report_seconds))
        return found

    def _containers(self) -> Iterator[tuple[tuple[str, str], CgroupPath]]:
        for uid, admitted in self.population.pods.items():
            for name in admitted.containers:
                path = self.population.path_of(admitted.pod, name)
                yield (uid, name), path

    def reports_pressure(self) -> Sequence[Finding]:
        """The kubelet reports the kernel's totals of CPU pressure for each pod: in ns, and in seconds in metrics.

        A total must lie between a reading of the kernel's before and one after. A report from before the first reading
        may have less, so only a later one is decisive. EnactorNotAbleError for a kubelet that reports no pressure
        (before 1.34 without the gate KubeletPSI), and for pods that never waited for a CPU.
        """
        cgroups = {uid: admitted.planned.cgroup for uid, admitted in self.population.pods.items()}
        before = {uid: self._stalls(cgroup.path) for uid, cgroup in cgroups.items()}
        began = self._now()
        cgroups = {uid: cgroup for uid, cgroup in cgroups.items() if before[uid]["some"]}
        if not cgroups:
            raise EnactorNotAbleError("no pod waited for a CPU, and zero does not show the unit.")
        wanted = [(uid, source, line) for uid in cgroups for source in _PRESSURE_SOURCES for line in _STALLED]
        without = EnactorNotAbleError("this kubelet reports no pressure.", next_step="Use a kubelet of 1.34 or later.")

        def look(left: Collection[_Total]) -> dict[_Total, tuple[Report, int, int]]:
            told = self._pressures({uid: cgroups[uid] for uid, _, _ in left})
            if len(left) == len(wanted) and _lacks_all(told, began):
                raise without
            after = {uid: self._stalls(cgroups[uid].path) for uid, _, _ in left}
            return {one: (told[one], before[one[0]][one[2]] * 1000, after[one[0]][one[2]] * 1000) for one in left}

        def agree(seen: tuple[Report, int, int]) -> bool:
            told, least, most = seen
            return told.total is not None and least <= told.total <= most

        def decides(seen: tuple[Report, int, int]) -> bool:
            # In whole seconds, rounded down, as the summary has them.
            return agree(seen) or (seen[0].total is not None and int(seen[0].moment) > began)

        seen = self._seen("the kubelet reports the CPU pressure of all pods", wanted, look, decides)
        if all(told.total is None for told, _, _ in seen.values()):
            raise without
        return [
            Finding(
                verdict=Verdict.of(agree(seen[one])),
                subject=subject_of(cgroups[one[0]], self.population.pods[one[0]].planned),
                cgroup=str(cgroups[one[0]].path),
                knob=f"cpu.pressure {one[2]} in {one[1]}",
                set_by=Setter.KUBELET,
                expected=f"{seen[one][1]} to {seen[one][2]} ns",
                observed=f"{total} ns" if (total := seen[one][0].total) is not None else "nothing",
                measured=True,
            )
            for one in wanted
        ]

    def _now(self) -> int:
        """The machine's time in seconds of the epoch, rounded down."""
        target = self.tree.target
        done = checked(target.run(["date", "+%s"], deadline=Deadline.after(_CALL_SECONDS)), where=target.address)
        return int(done.stdout)

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
        slack = _CHARGE_BATCH * self.population.node.cpus * self.population.node.page_size
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
        """The NUMA nodes and bytes of each container in the Memory Manager's checkpoint, against the plan.

        An init container that has ended has none: the kubelet removes its entry when it starts the next container
        (memorymanager manager.AddContainer).

        EnactorNotAbleError if the configuration gives no container NUMA nodes.
        """
        data = self.tree.target.read(_CHECKPOINT, deadline=Deadline.after(_CALL_SECONDS))
        entries = json.loads(data or b"{}").get("entries") or {}
        found = []
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
        if not found:
            raise EnactorNotAbleError(
                "no container gets NUMA nodes from the Memory Manager.",
                next_step="Take a configuration with memoryManagerPolicy: Static, and a Guaranteed pod.",
            )
        return found

    def _stat(self, path: CgroupPath) -> dict[str, int]:
        return _numbers(self._text(path, "memory.stat"))

    def _stalls(self, path: CgroupPath) -> dict[str, int]:
        """The totals of a cgroup's cpu.pressure by line, in microseconds; empty if it has no such file."""
        lines = [line.split() for line in self._text(path, "cpu.pressure").splitlines()]
        found = {words[0]: int(words[-1].partition("=")[2]) for words in lines if words}
        return {"some": 0, "full": 0, **found}

    def _pressures(self, cgroups: Mapping[str, PlannedCgroup]) -> dict[_Total, Report]:
        """What both endpoints report of each pod's CPU pressure; cgroups: by the pod's uid."""
        summary = json.loads(self.answers.fetched(_SUMMARY, seconds=_CALL_SECONDS))
        metrics = self.answers.fetched(_CADVISOR, seconds=_CALL_SECONDS)
        cpus = {pod["podRef"]["uid"]: pod.get("cpu") or {} for pod in summary.get("pods") or ()}
        found: dict[_Total, Report] = {}
        for uid, cgroup in cgroups.items():
            rows = metrics_of_cgroup(metrics, str(cgroup.path))
            for line, word in _STALLED.items():
                found[uid, _PRESSURE_SOURCES[0], line] = pressure_in_summary(cpus.get(uid, {}), line)
                found[uid, _PRESSURE_SOURCES[1], line] = pressure_in_metrics(
                    rows, f"container_pressure_cpu_{word}_seconds_total"
                )
        return found

    def _pod_name(self, uid: str) -> str:
        pod = self.population.pods[uid].pod
        return f"{pod.namespace}/{pod.name}"

    def _told(self, wanted: Collection[_Amount]) -> dict[_Amount, dict[str, int | None]]:
        """Each amount of a container from both endpoints; None if missing."""
        summary = json.loads(self.answers.fetched(_SUMMARY, seconds=_CALL_SECONDS))
        metrics = self.answers.fetched(_METRICS, seconds=_CALL_SECONDS)
        found = {}
        for (uid, container), field in wanted:
            pod = self.population.pods[uid].pod
            found[(uid, container), field] = {
                "/stats/summary": memory_in_summary(summary, uid, container, field),
                "/metrics/resource": memory_in_metrics(
                    metrics, _MEMORY_FIELDS[field], pod.namespace, pod.name, container
                ),
            }
        return found

    def _kernel(self, path: CgroupPath, field: str) -> int:
        """The working set: usage less inactive_file (cadvisor and the CRI servers)."""
        if field == "swapUsageBytes":
            return int(self._text(path, "memory.swap.current"))
        used = int(self._text(path, "memory.current"))
        return max(0, used - self._stat(path)["inactive_file"])

    def _reclaim(self, path: CgroupPath) -> None:
        """Have the kernel reclaim some of its memory, as much as it can; EAGAIN means less than requested."""
        command = ["sh", "-c", 'echo "$1" > "$2" || true', "sh", str(_RECLAIMED)]
        file = self.tree.hierarchy.file(path, "memory.reclaim")
        self.tree.target.run([*command, file], deadline=Deadline.after(_CALL_SECONDS))

    def _text(self, path: CgroupPath, name: str) -> str:
        found: FileText = self.tree.read_text(path, name, deadline=Deadline.after(_CALL_SECONDS))
        return found.strip() if isinstance(found, str) else ""


def _lacks_all(told: Mapping[_Total, Report], began: int) -> bool:
    """Whether no total is reported, although cadvisor has measured every pod since then, in seconds of the epoch.

    The summary also has moments of pods that cadvisor does not know yet.
    """
    measured = all(int(one.moment) > began for (_, source, _), one in told.items() if source == _PRESSURE_SOURCES[1])
    return measured and all(one.total is None for one in told.values())


def _listed(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))


def _numbers(text: str) -> dict[str, int]:
    """The lines of a flat-keyed file."""
    return {name: int(number) for name, number in (line.split() for line in text.splitlines())}


def _protections(cgroup: PlannedCgroup) -> list[Knob]:
    """The planned protection of this cgroup, where it is above zero."""
    return [
        knob
        for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
        if knob in cgroup.knobs
        and not isinstance(cgroup.knobs[knob].written, Absent)
        and str(cgroup.knobs[knob].value) != "0"
    ]


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
