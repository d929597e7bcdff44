"""Findings about a real kubelet's evictions for memory: which pods it evicts, and which it must not.

The kubelet compares the node's available memory (its capacity less the working set) with its threshold every ten
seconds. Below the threshold it evicts pods one at a time, those first that use more than they request.
Source: kubelet pkg/kubelet/eviction, managerImpl.synchronize, rankMemoryPressure.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.cgroupfs.parse import counters
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.enactor.base import KubeletAnswers
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict, subject_of
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.engine.numa.reservation import hard_eviction
from memqos.errors import DeadlineError, EnactorNotAbleError
from memqos.model.knob import Knob
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.model.quantity import Quantity
from memqos.node.kubelet_reports import SUMMARY
from memqos.node.pods.population import Population

__all__ = ["BeforeEviction", "EvictionVerbs"]

_CALL_SECONDS = 60.0
_PERIOD_SECONDS = 10
"""How often the kubelet compares the node's memory with its thresholds (pkg/kubelet `evictionMonitoringPeriod`)."""

_SHORT = 96 << 20
"""Bytes by which the node is then below the threshold: more than its use varies, less than the evicted pod has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeEviction:
    """The pods before a kubelet with a higher threshold takes over.

    threshold: bytes; the node has less available. kills: the kernel's OOM kills in all pods so far. anon: bytes of each
    container by its cgroup.
    """

    threshold: int
    kills: int
    anon: Mapping[CgroupPath, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionVerbs:
    """The verbs on one population.

    seconds: how long containers may take to use their memory, and the kubelet to look at the node's and to evict.
    every: seconds between looks.
    """

    answers: KubeletAnswers
    tree: CgroupTree
    population: Population
    seconds: float = 180.0
    every: float = 2.0

    def nothing_at_high(self) -> Sequence[Finding]:
        """Pods whose containers came above memory.high run on after the kubelet has twice looked at the node's memory.

        EnactorNotAbleError if no container has a memory.high or comes above it, and if the node is short of memory.
        """
        paths = list(self._containers().values())
        if all(self._text(path, Knob.MEMORY_HIGH).strip() in {"max", ""} for path in paths):
            raise EnactorNotAbleError(
                "no container has a memory.high.", next_step="Take a configuration with memoryThrottlingFactor."
            )
        try:
            wait(
                "a container came above its memory.high",
                lambda: sum(self._counters(path, "memory.events").get("high", 0) for path in paths),
                until=bool,
                every=self.every,
                deadline=Deadline.after(self.seconds),
            )
        except DeadlineError:
            raise EnactorNotAbleError("no container came above its memory.high in time.") from None
        kubelet = self.population.kubelets[-1]
        if self._available() <= hard_eviction(kubelet.settings, kubelet.node.memory).value:
            raise EnactorNotAbleError("the node itself has less memory available than its eviction threshold.")
        return [self._phase(uid, "Running") for uid in self.population.pods]

    def before(self, pod: Pod, *, uses: str) -> BeforeEviction:
        """The pods once this one has so much anonymous memory ("256Mi"), and a threshold that the node is then below.

        EnactorNotAbleError if it does not come to use them.
        """
        paths = [self.population.path_of(pod, one.name) for one in pod.containers]
        wanted = Quantity.parse(uses).value
        try:
            wait(
                f"{pod.name} uses {uses}",
                lambda: sum(map(self._anon, paths)),
                until=lambda now: now >= wanted - self._slack,
                every=self.every,
                deadline=Deadline.after(self.seconds),
            )
        except DeadlineError:
            raise EnactorNotAbleError(f"{pod.name} did not come to use {uses} in time.") from None
        return BeforeEviction(
            threshold=self._available(looks=1) + _SHORT,
            kills=self._kills(),
            anon={path: self._anon(path) for path in self._containers().values()},
        )

    def only(self, pod: Pod, before: BeforeEviction) -> Sequence[Finding]:
        """The kubelet evicts this pod, the kernel kills nothing, and all others run on with their memory."""

        def evicted() -> bool:
            return self._status(pod.uid).get("phase") == "Failed"

        try:
            wait(f"{pod.name} is evicted", evicted, until=bool, every=self.every, deadline=Deadline.after(self.seconds))
        except DeadlineError:
            pass
        else:
            # A kubelet that evicts one pod too many does so when it next looks.
            self._available()
        others = [uid for uid in self.population.pods if uid != pod.uid]
        node = self.population.plan.node
        kills = Finding(
            verdict=Verdict.of((now := self._kills()) == before.kills),
            subject=subject_of(node),
            cgroup=str(node.path),
            knob="memory.events oom_kill",
            set_by=Setter.KUBELET,
            expected=str(before.kills),
            observed=str(now),
            measured=True,
        )
        kept = [self._kept(path, before.anon[path], name) for name, path in self._names(others).items()]
        phases = [self._phase(uid, "Running") for uid in others]
        return [self._phase(pod.uid, "Failed Evicted"), kills, *phases, *kept]

    def _names(self, uids: Sequence[str]) -> dict[Subject, CgroupPath]:
        found = {}
        for (uid, container), path in self._containers().items():
            if uid in uids:
                pod = self.population.pods[uid].pod
                found[Subject.of_container(container, f"{pod.namespace}/{pod.name}")] = path
        return found

    def _kept(self, path: CgroupPath, before: int, subject: Subject) -> Finding:
        now = self._anon(path)
        return Finding(
            verdict=Verdict.of(now >= before - self._slack),
            subject=subject,
            cgroup=str(path),
            knob="memory.stat anon",
            set_by=Setter.KUBELET,
            expected=f"at least {max(before - self._slack, 0)}",
            observed=str(now),
            measured=True,
        )

    def _phase(self, uid: str, expected: str) -> Finding:
        status, planned = self._status(uid), self.population.pods[uid].planned
        observed = " ".join(str(status[name]) for name in ("phase", "reason") if status.get(name))
        return Finding(
            verdict=Verdict.of(observed == expected),
            subject=subject_of(planned.cgroup, planned),
            cgroup=str(planned.cgroup.path),
            knob="phase",
            set_by=Setter.KUBELET,
            expected=expected,
            observed=observed,
        )

    def _status(self, uid: str) -> Mapping[str, Any]:
        items = {one["metadata"]["uid"]: one.get("status") or {} for one in self.answers.objects("v1", "pods")}
        return items.get(uid, {})

    def _available(self, *, looks: int = 2) -> int:
        """The least of the node's available bytes until the kubelet has looked at them so often."""
        began = self._node_memory()
        later = wait(
            "the kubelet has looked at the node's memory again",
            self._node_memory,
            until=lambda now: now[0] - began[0] >= looks * _PERIOD_SECONDS,
            every=self.every,
            deadline=Deadline.after(self.seconds),
        )
        return min(began[1], later[1])

    def _node_memory(self) -> tuple[float, int]:
        """When the kubelet last read the node's memory, in seconds of the epoch, and the bytes available then."""
        summary = json.loads(self.answers.fetched(SUMMARY, seconds=_CALL_SECONDS))
        memory = summary["node"]["memory"]
        moment = datetime.datetime.fromisoformat(memory["time"].replace("Z", "+00:00"))
        return moment.timestamp(), int(memory["availableBytes"])

    @property
    def _slack(self) -> int:
        return CHARGE_BATCH * self.population.node.cpus * self.population.node.page_size

    def _containers(self) -> dict[tuple[str, str], CgroupPath]:
        return {
            (uid, name): self.population.path_of(admitted.pod, name)
            for uid, admitted in self.population.pods.items()
            for name in admitted.containers
        }

    def _kills(self) -> int:
        return self._counters(self.population.plan.node.path, "memory.events").get("oom_kill", 0)

    def _anon(self, path: CgroupPath) -> int:
        return self._counters(path, "memory.stat").get("anon", 0)

    def _counters(self, path: CgroupPath, name: str) -> Mapping[str, int]:
        text = self._text(path, name)
        return counters(text, path=str(path)) if text else {}

    def _text(self, path: CgroupPath, name: str) -> str:
        """A file's text; "" for a cgroup that is gone."""
        found = self.tree.read_text(path, name, deadline=Deadline.after(_CALL_SECONDS))
        return found if isinstance(found, str) else ""
