"""Findings about a real kubelet's reports of memory and CPU pressure: they must be the kernel's values.

It reports them in /stats/summary, /metrics/resource and /metrics/cadvisor.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait, wait_or_last
from memqos.enactor.base import KubeletAnswers
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.engine.plan import PlannedCgroup
from memqos.errors import DeadlineError, EnactorNotAbleError
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText
from memqos.node.pods.population import Population
from memqos.target.base import checked

__all__ = ["SUMMARY", "ReportVerbs"]


SUMMARY = "https://127.0.0.1:10250/stats/summary"
RESOURCE_METRICS = "https://127.0.0.1:10250/metrics/resource"
CADVISOR_METRICS = "https://127.0.0.1:10250/metrics/cadvisor"

_METRIC = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)(?: (?P<moment>\d+))?", re.MULTILINE)
"""Prometheus text: the moment is in milliseconds."""

_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Report(NamedTuple):
    """A total in ns, None if it is missing, and when the kubelet read it, in seconds of the epoch; 0 if unknown."""

    total: int | None
    moment: float


def memory_in_summary(summary: Mapping[str, object], uid: str, container: str, field: str) -> int | None:
    """A container's amount in /stats/summary: of memory, or of swap; None if it is missing."""
    pods = summary.get("pods")
    for pod in pods if isinstance(pods, list) else ():
        if pod["podRef"]["uid"] != uid:
            continue
        for one in pod.get("containers") or ():
            if one["name"] == container:
                part = one.get("swap" if field == "swapUsageBytes" else "memory") or {}
                value = part.get(field)
                return None if value is None else int(value)
    return None


def memory_in_metrics(text: str, name: str, namespace: str, pod: str, container: str) -> int | None:
    """A container's amount in /metrics/resource; None if it is missing."""
    for match in _METRIC.finditer(text):
        labels = dict(_LABEL.findall(match["labels"]))
        if match["name"] == name and (labels.get("namespace"), labels.get("pod"), labels.get("container")) == (
            namespace,
            pod,
            container,
        ):
            return int(float(match["value"]))
    return None


def pressure_in_summary(cpu: Mapping[str, Any], line: str) -> Report:
    """A total of a pod's CPU pressure in /stats/summary."""
    total = ((cpu.get("psi") or {}).get(line) or {}).get("total")
    moment = datetime.datetime.fromisoformat(cpu["time"]).timestamp() if cpu.get("time") else 0.0
    return Report(None if total is None else int(total), moment)


def metrics_of_cgroup(text: str, cgroup: str) -> dict[str, tuple[float, float]]:
    """A cgroup's metrics in /metrics/cadvisor by name: value, and moment in seconds of the epoch."""
    return {
        match["name"]: (float(match["value"]), int(match["moment"] or 0) / 1000)
        for match in _METRIC.finditer(text)
        if dict(_LABEL.findall(match["labels"])).get("id") == cgroup
    }


def pressure_in_metrics(rows: Mapping[str, tuple[float, float]], name: str) -> Report:
    """A total of seconds among a cgroup's metrics, in ns; without it the moment is that of the others."""
    if name in rows:
        seconds, moment = rows[name]
        return Report(round(seconds * 1e9), moment)
    return Report(None, max((moment for _, moment in rows.values()), default=0.0))


_CALL_SECONDS = 60.0
_RECLAIMED = 8 << 20
_SWAP = "swapUsageBytes"
_MEMORY_FIELDS: Mapping[str, str] = {
    "workingSetBytes": "container_memory_working_set_bytes",
    _SWAP: "container_swap_usage_bytes",
}
"""The amounts of memory in /stats/summary, and their names in /metrics/resource."""
_PRESSURE_SOURCES = ("/stats/summary", "/metrics/cadvisor")
_STALLED: Mapping[str, str] = {"some": "waiting", "full": "stalled"}
"""cadvisor's names for the two lines of a pressure file: container_pressure_cpu_waiting_seconds_total."""


_Key = TypeVar("_Key")
_Seen = TypeVar("_Seen")
_Amount = tuple[tuple[str, str], str]
"""A container, by its pod's uid and its name, and a field."""

_Total = tuple[str, str, str]
"""A pod's uid, an endpoint and a line of the pressure file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportVerbs:
    """The verbs on one population. seconds: how long the kubelet may take to report the kernel's values."""

    answers: KubeletAnswers
    tree: CgroupTree
    population: Population
    seconds: float = 90.0

    def memory(self) -> Sequence[Finding]:
        """The kubelet reports the working set and the swap of each container as the kernel's files have them.

        Some memory of each container is reclaimed first, so that a container that may swap has some in swap. The
        reported value must lie between two readings of the kernel, with a tolerance of what CPUs charge ahead.
        """
        paths = dict(self._containers())
        slack = CHARGE_BATCH * self.population.node.cpus * self.population.node.page_size
        self._await_use(list(paths.values()), above=slack)
        wanted = [(key, field) for key in paths for field in _MEMORY_FIELDS]

        def look(left: Collection[_Amount]) -> dict[_Amount, tuple[int, Mapping[str, int | None]]]:
            kernel = {(key, field): self._kernel(paths[key], field) for key, field in left}
            told = self._told(left)
            return {one: (kernel[one], told[one]) for one in left}

        def near(kernel: int, told: int | None) -> bool:
            return told is not None and abs(told - kernel) <= slack

        def agree(seen: tuple[int, Mapping[str, int | None]]) -> bool:
            return all(near(seen[0], one) for one in seen[1].values())

        seen = self._seen("the kubelet reports the memory of all containers", wanted, look, agree)
        swaps = [one for key in paths for one in seen[key, _SWAP][1].values()]
        no_swap = "this kubelet reports no swap (before 1.28)" if set(swaps) == {None} else ""
        return [
            Finding(
                verdict=Verdict.of(near(seen[key, field][0], told), why_not=no_swap if field == _SWAP else ""),
                subject=Subject.of_container(key[1], self._pod_name(key[0])),
                cgroup=str(paths[key]),
                knob=f"{field} in {source}",
                set_by=Setter.KUBELET,
                expected=f"{seen[key, field][0]} ± {slack}",
                observed="nothing" if told is None else str(told),
                why_not=no_swap if field == _SWAP else "",
                measured=True,
            )
            for key, field in wanted
            for source, told in seen[key, field][1].items()
        ]

    def _await_use(self, paths: Sequence[CgroupPath], *, above: int) -> None:
        """Wait until one container has more memory than this, and one more swap; some of the memory is reclaimed.

        EnactorNotAbleError if none comes to: a kubelet that reports none at all would seem right.
        """

        def most() -> dict[str, int]:
            for path in paths:
                self._reclaim(path)
            return {field: max(self._kernel(path, field) for path in paths) for field in _MEMORY_FIELDS}

        what = f"containers have more than {above} bytes of memory and of swap"
        deadline = Deadline.after(self.seconds)
        try:
            wait(what, most, until=lambda found: min(found.values()) > above, every=1.0, deadline=deadline)
        except DeadlineError:
            raise EnactorNotAbleError("no container has enough memory and swap to tell a report from none.") from None

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

        wait_or_last(what, none_left, every=2.0, deadline=Deadline.after(self.seconds))
        return found

    def _containers(self) -> Iterator[tuple[tuple[str, str], CgroupPath]]:
        for uid, admitted in self.population.pods.items():
            for name in admitted.containers:
                path = self.population.path_of(admitted.pod, name)
                yield (uid, name), path

    def pressure(self) -> Sequence[Finding]:
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

    def _stalls(self, path: CgroupPath) -> dict[str, int]:
        """The totals of a cgroup's cpu.pressure by line, in microseconds; empty if it has no such file."""
        lines = [line.split() for line in self._text(path, "cpu.pressure").splitlines()]
        found = {words[0]: int(words[-1].partition("=")[2]) for words in lines if words}
        return {"some": 0, "full": 0, **found}

    def _pressures(self, cgroups: Mapping[str, PlannedCgroup]) -> dict[_Total, Report]:
        """What both endpoints report of each pod's CPU pressure; cgroups: by the pod's uid."""
        summary = json.loads(self.answers.fetched(SUMMARY, seconds=_CALL_SECONDS))
        metrics = self.answers.fetched(CADVISOR_METRICS, seconds=_CALL_SECONDS)
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
        summary = json.loads(self.answers.fetched(SUMMARY, seconds=_CALL_SECONDS))
        metrics = self.answers.fetched(RESOURCE_METRICS, seconds=_CALL_SECONDS)
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
        """The working set: usage less inactive_file (cadvisor and the CRI servers).

        EnactorNotAbleError if the container has ended, as one does that may not swap and takes more than its limit.
        """
        name = "memory.swap.current" if field == _SWAP else "memory.current"
        if not (used := self._text(path, name)):
            raise EnactorNotAbleError(f"a container has ended: {path} has no {name}.")
        if field == _SWAP:
            return int(used)
        return max(0, int(used) - self._stat(path).get("inactive_file", 0))

    def _reclaim(self, path: CgroupPath) -> None:
        """Have the kernel reclaim some of its memory, as much as it can; EAGAIN means less than requested."""
        command = ["sh", "-c", 'echo "$1" > "$2" || true', "sh", str(_RECLAIMED)]
        file = self.tree.hierarchy.file(path, "memory.reclaim")
        self.tree.target.run([*command, file], deadline=Deadline.after(_CALL_SECONDS))

    def _stat(self, path: CgroupPath) -> dict[str, int]:
        """The lines of memory.stat."""
        lines = self._text(path, "memory.stat").splitlines()
        return {name: int(number) for name, number in (line.split() for line in lines)}

    def _text(self, path: CgroupPath, name: str) -> str:
        found: FileText = self.tree.read_text(path, name, deadline=Deadline.after(_CALL_SECONDS))
        return found.strip() if isinstance(found, str) else ""


def _lacks_all(told: Mapping[_Total, Report], began: int) -> bool:
    """Whether no total is reported, although cadvisor has measured every pod since then, in seconds of the epoch.

    The summary also has moments of pods that cadvisor does not know yet.
    """
    measured = all(int(one.moment) > began for (_, source, _), one in told.items() if source == _PRESSURE_SOURCES[1])
    return measured and all(one.total is None for one in told.values())
