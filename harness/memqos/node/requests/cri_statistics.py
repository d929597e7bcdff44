"""CRI's statistics of containers and pods, compared with the files that the kernel has at the time.

names: of figures in `reported.FIGURES`. A list must have one entry for what is asked for.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memqos.clock import SYSTEM_CLOCK
from memqos.engine.answer.finding import Finding, Subject
from memqos.engine.plan import Level
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.node.pods.refusal import SUBJECT
from memqos.node.requests.containers import HELD, HELD_IN_ALL, OF_EACH_KIND, Containers, observed, soon
from memqos.node.requests.reported import FILES, figure_finding
from memqos.runtime.base import ContainerHandle
from memqos.workload.command import Anon, Hold

__all__ = ["LIMIT", "LIMITED", "Statistics", "part_of", "refused_call"]

LIMIT = 48 << 20
"""The limit in bytes of a container whose programs use memory, without swap."""
LIMITED = ContainerResources(memory_limit_in_bytes=LIMIT, memory_swap_limit_in_bytes=LIMIT)
_LOOKS = 3
_APART = 0.7
"""Seconds between two looks."""


def refused_call(knob: str, expected: str, error: RuntimeCallError) -> Finding:
    """The finding about a call that the runtime refuses; not observable for one that it does not have."""
    details = error.data["details"]
    why = f"the runtime does not support it: {details}" if error.data["code"] == "UNIMPLEMENTED" else ""
    return observed(knob, expected, f"refused: {details}", why_not=why)


def part_of(value: object) -> Mapping[str, object]:
    """A part of an answer; empty if it is missing."""
    return value if isinstance(value, Mapping) else {}


def _containers_in(pod: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    """The entries for containers in the statistics of a pod."""
    containers = part_of(pod.get("linux")).get("containers", [])
    return [part_of(one) for one in containers] if isinstance(containers, list) else []


@dataclass(frozen=True, slots=True)
class Statistics:
    """Asks for statistics of a container, and of its pod. containers: creates it."""

    containers: Containers

    def at_rest(self, look: Callable[[ContainerHandle], Sequence[Finding]]) -> Sequence[Finding]:
        """One look at a container whose program has its memory, of each kind."""
        with self.containers.running(LIMITED, *OF_EACH_KIND) as handle:
            self.containers.settled(handle, HELD_IN_ALL)
            return look(handle)

    def under_load(self, look: Callable[[ContainerHandle], Sequence[Finding]]) -> Sequence[Finding]:
        """Several looks at a container whose program takes more and more memory."""
        with self.containers.running(LIMITED, Anon(size=HELD, rate=HELD // 8), Hold()) as handle:
            several = []
            for _ in range(_LOOKS):
                several.append(look(handle))
                # Long enough to grow by more than CPUs have charged ahead: a stale answer is then too small.
                SYSTEM_CLOCK.sleep(_APART)
        return [finding for findings in several for finding in findings]

    def of_pod(self, names: Sequence[str]) -> Sequence[Finding]:
        """PodSandboxStats of the pod itself."""
        pod = self.containers.requests.pod

        def ask() -> Mapping[str, object]:
            return part_of(self.containers.cri.sandbox_stats(self.containers.sandbox, deadline=soon()).get("linux"))

        subject = Subject(level=Level.POD, pod=pod.pod.name)
        return self._answered("PodSandboxStats", names, pod.planned.cgroup.path, ask, subject=subject)

    def listed(self, names: Sequence[str], handle: ContainerHandle) -> Sequence[Finding]:
        """ListContainerStats of the sandbox."""

        def entries() -> Sequence[Mapping[str, object]]:
            return self.containers.cri.listed_stats(self.containers.sandbox, deadline=soon())

        return self._entries(names, entries, handle)

    def pod_listed(self, names: Sequence[str]) -> Sequence[Finding]:
        """ListPodSandboxStats of the pod itself."""
        pod = self.containers.requests.pod

        def entries() -> Sequence[Mapping[str, object]]:
            listed = self.containers.cri.listed_sandbox_stats(self.containers.sandbox, deadline=soon())
            return [{**one, **part_of(one.get("linux"))} for one in listed]

        path, subject = pod.planned.cgroup.path, Subject(level=Level.POD, pod=pod.pod.name)
        return self._in_list(names, entries, self.containers.sandbox.id, path, subject=subject)

    def in_pod(self, names: Sequence[str], handle: ContainerHandle) -> Sequence[Finding]:
        """The entries for containers in PodSandboxStats."""

        def entries() -> Sequence[Mapping[str, object]]:
            return _containers_in(self.containers.cri.sandbox_stats(self.containers.sandbox, deadline=soon()))

        return self._entries(names, entries, handle)

    def in_listed_pods(self, names: Sequence[str], handle: ContainerHandle) -> Sequence[Finding]:
        """The entries for containers in ListPodSandboxStats."""

        def entries() -> Sequence[Mapping[str, object]]:
            listed = self.containers.cri.listed_sandbox_stats(self.containers.sandbox, deadline=soon())
            return [one for pod in listed for one in _containers_in(pod)]

        return self._entries(names, entries, handle)

    def of_container(self, names: Sequence[str], handle: ContainerHandle) -> Sequence[Finding]:
        """ContainerStats."""
        path = self.containers.cgroup_of(handle)
        ask = functools.partial(self.containers.cri.stats, handle, deadline=soon())
        return self._answered("ContainerStats", names, path, ask, subject=SUBJECT)

    def _entries(
        self, names: Sequence[str], entries: Callable[[], Sequence[Mapping[str, object]]], handle: ContainerHandle
    ) -> Sequence[Finding]:
        return self._in_list(names, entries, handle.id, self.containers.cgroup_of(handle), subject=SUBJECT)

    def _in_list(
        self,
        names: Sequence[str],
        entries: Callable[[], Sequence[Mapping[str, object]]],
        identity: str,
        path: CgroupPath,
        *,
        subject: Subject,
    ) -> Sequence[Finding]:
        """Whether a list has one entry for this container or sandbox, and whether it holds what the files hold."""
        own: list[Mapping[str, object]] = []

        def ask() -> Mapping[str, object]:
            own[:] = [one for one in entries() if part_of(one.get("attributes")).get("id") == identity]
            return own[0] if own else {}

        try:
            figures = self._figures(names, path, ask, subject=subject)
        except RuntimeCallError as error:
            return [refused_call("entries", "1", error)]
        counted = observed("entries", "1", str(len(own)), cgroup=str(path))
        return [counted, *(figures if own else [])]

    def _answered(
        self,
        method: str,
        names: Sequence[str],
        path: CgroupPath,
        ask: Callable[[], Mapping[str, object]],
        *,
        subject: Subject,
    ) -> Sequence[Finding]:
        """As `_figures`; one finding about the method if the runtime refuses it."""
        try:
            return self._figures(names, path, ask, subject=subject)
        except RuntimeCallError as error:
            return [dataclasses.replace(refused_call(method, "answered", error), subject=subject)]

    def _figures(
        self, names: Sequence[str], path: CgroupPath, ask: Callable[[], Mapping[str, object]], *, subject: Subject
    ) -> Sequence[Finding]:
        before = self.containers.requests.read([path], FILES).cgroups[path].files
        answer = ask()
        after = self.containers.requests.read([path], FILES).cgroups[path].files
        stock = self.containers.stock
        return [
            figure_finding(name, answer, before, after, subject=subject, cgroup=str(path), stock=stock)
            for name in names
        ]
