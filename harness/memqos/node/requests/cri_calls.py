"""Verbs that only CRI offers: sandboxes, containers that do not run, and reported resources."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from memqos.catalog.requests import RequestCase
from memqos.cgroupfs import parse
from memqos.engine.answer.finding import Finding
from memqos.engine.translate.requested import requested
from memqos.engine.translate.versions import RuntimeName
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.node.behaviour.oom import OOM_EXIT_CODE, exit_code_of_kill, reason_of_another_end, reason_of_kill
from memqos.node.pods.refusal import NAME
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.containers import HELD, Containers, exec_end, observed, soon
from memqos.node.requests.cri_statistics import LIMIT, LIMITED, Statistics, part_of, refused_call
from memqos.node.requests.reported import asked_in_all, text_of, unrequested
from memqos.node.requests.verbs import verb
from memqos.runtime.base import ContainerHandle, ContainerState
from memqos.target.base import checked
from memqos.workload.command import PROGRAM, Anon, Hold, arguments

__all__ = ["CriVerbs"]

_MIB = 1 << 20
TOO_MUCH = 64 * _MIB
SCORE = 500
"""An oom_score_adj that no process has by itself."""
GONE = "its cgroup is gone"
_NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Executed:
    """Findings on a program started by ExecSync: whether it was charged, and whether it is like its container."""

    charged: Sequence[Finding]
    alike: Sequence[Finding]


def _argv(program: Anon) -> tuple[str, ...]:
    """The arguments that start a program in a running container."""
    return (PROGRAM, *arguments([program]))


_SANDBOX = ContainerResources(cpu_shares=2, oom_score_adj=-998)
"""What containerd gives a sandbox's own process, and no more: the pod's cgroup is the kubelet's.

Source: containerd sandboxContainerSpec, DefaultSandboxCPUshares and DefaultSandboxOOMAdj.
"""
_POD = ContainerResources(memory_limit_in_bytes=96 * _MIB, cpu_shares=512, cpu_quota=50000, cpu_period=100000)


@dataclasses.dataclass(frozen=True)
class CriVerbs:
    """The verbs of suites about CRI alone; each returns the findings of one claim."""

    requests: Requests

    @property
    def containers(self) -> Containers:
        """Creates the containers that the verbs look at."""
        return Containers(self.requests)

    @property
    def _statistics(self) -> Statistics:
        return Statistics(self.containers)

    @verb
    def uses(self, *names: str) -> Sequence[Finding]:
        """ContainerStats of a container at rest. names: of figures."""
        return self._statistics.at_rest(lambda handle: self._statistics.of_container(names, handle))

    @verb
    def stats_in_time(self) -> Sequence[Finding]:
        """The timestamp of ContainerStats is between the machine's clock before and after the call.

        An answer cannot tell 0 from no timestamp (proto3), and CRI requires one above 0.
        """
        with self.containers.running(LIMITED, Anon(size=HELD), Hold()) as handle:
            self.containers.settled(handle, HELD)
            before = self._clock()
            memory = part_of(self.containers.cri.stats(handle, deadline=soon()).get("memory"))
            after = self._clock() + 1
        why = "" if memory else "the runtime's answer has no memory"
        expected = f"{before} s to {after} s"
        seen = int(str(memory.get("timestamp", 0))) // _NANOSECONDS
        return [observed("timestamp", expected, expected if before <= seen <= after else f"{seen} s", why_not=why)]

    def _clock(self) -> int:
        """The machine's clock in seconds since 1970."""
        target = self.requests.tree.target
        return int(checked(target.run(["date", "+%s"], deadline=soon()), where=target.address).stdout)

    @verb
    def uses_under_load(self, *names: str) -> Sequence[Finding]:
        """ContainerStats of a container while it takes more and more memory."""
        return self._statistics.under_load(lambda handle: self._statistics.of_container(names, handle))

    @verb
    def pod_uses(self, *names: str) -> Sequence[Finding]:
        """PodSandboxStats of the pod with a container at rest in it, compared with the pod's own cgroup."""
        return self._statistics.at_rest(lambda _: self._statistics.of_pod(names))

    @verb
    def pod_uses_under_load(self, *names: str) -> Sequence[Finding]:
        """The same while the container takes more and more memory."""
        return self._statistics.under_load(lambda _: self._statistics.of_pod(names))

    @verb
    def lists_uses(self, *names: str) -> Sequence[Finding]:
        """ListContainerStats of the sandbox, with a container at rest in it: one entry, and what its files hold."""
        return self._statistics.at_rest(lambda handle: self._statistics.listed(names, handle))

    @verb
    def lists_uses_under_load(self, *names: str) -> Sequence[Finding]:
        """The same while the container takes more and more memory."""
        return self._statistics.under_load(lambda handle: self._statistics.listed(names, handle))

    @verb
    def lists_pod_uses(self, *names: str) -> Sequence[Finding]:
        """ListPodSandboxStats of the sandbox: one entry, and what the files of the pod's own cgroup hold."""
        return self._statistics.at_rest(lambda _: self._statistics.pod_listed(names))

    @verb
    def lists_pod_uses_under_load(self, *names: str) -> Sequence[Finding]:
        """The same while a container of the pod takes more and more memory."""
        return self._statistics.under_load(lambda _: self._statistics.pod_listed(names))

    @verb
    def pod_counts_uses(self, *names: str) -> Sequence[Finding]:
        """PodSandboxStats with a container at rest in the pod: one entry for it, and what its files hold."""
        return self._statistics.at_rest(lambda handle: self._statistics.in_pod(names, handle))

    @verb
    def lists_pod_counts_uses(self, *names: str) -> Sequence[Finding]:
        """The same for the pod's entry of ListPodSandboxStats."""
        return self._statistics.at_rest(lambda handle: self._statistics.in_listed_pods(names, handle))

    # ---- kills

    @verb
    def oom_kill_reported(self) -> Sequence[Finding]:
        """A container whose only program exceeds its limit ends with 137 and the reason OOMKilled."""
        with self.containers.running(LIMITED, Anon(size=TOO_MUCH), Hold()) as handle:
            status = self.containers.ended(handle)
        return [observed(*exit_code_of_kill(status)), observed(*reason_of_kill(status))]

    @verb
    def kill_reported(self) -> Sequence[Finding]:
        """A container that is killed below its limit ends with 137 and a reason other than OOMKilled."""
        with self.containers.running(LIMITED) as handle:
            status = self.containers.end(handle)
        return [observed(*exit_code_of_kill(status)), observed(*reason_of_another_end(status))]

    @verb
    def exec_is_charged(self) -> Sequence[Finding]:
        """The memory of a program started by ExecSync is charged to the container."""
        return self._executed.charged

    @verb
    def exec_is_alike(self) -> Sequence[Finding]:
        """A program started by ExecSync is in the container's cgroup, with the container's oom_score_adj."""
        return self._executed.alike

    @functools.cached_property
    def _executed(self) -> Executed:
        """A program started in a container with an oom_score_adj, looked at while it runs; once for both claims."""
        scored = dataclasses.replace(LIMITED, oom_score_adj=SCORE)
        with self.containers.running(scored) as handle:
            path = self.containers.cgroup_of(handle)
            ran, *alike = self.containers.entered(handle, SCORE, Anon(size=HELD, rate=HELD // 2))
            peak = self.containers.files(path, ("memory.peak",))["memory.peak"]
        if not isinstance(peak, str):
            return Executed([observed("memory.peak", "", "", why_not="the kernel has no memory.peak")], alike)
        charged = "charged" if int(peak) >= HELD else f"a peak of {peak.strip()} after a program used {HELD}"
        seen = observed("memory.peak", "charged", charged, cgroup=str(path))
        return Executed([ran, seen], alike)

    @verb
    def exec_is_bound(self) -> Sequence[Finding]:
        """A program started by ExecSync that exceeds the limit is killed, and the container lives."""
        with self.containers.running(LIMITED) as handle:
            return [*self._hog_in(handle), self._lives(handle)]

    @verb
    def group_is_killed(self) -> Sequence[Finding]:
        """With memory.oom.group, a program that exceeds the limit has the whole container killed."""
        group = dataclasses.replace(LIMITED, unified={"memory.oom.group": "1"})
        with self.containers.running(group) as handle:
            with contextlib.suppress(RuntimeCallError):
                # A container that is killed during the call may end it with an error.
                self.requests.runtime.exec(handle, _argv(Anon(size=TOO_MUCH)), deadline=soon())
            status = self.containers.ended(handle)
        return [observed(*exit_code_of_kill(status))]

    @verb
    def limited_below_use(self) -> Sequence[Finding]:
        """An update below the usage is refused without effect, or applied with the kill reported."""
        less = ContainerResources(memory_limit_in_bytes=HELD // 2, memory_swap_limit_in_bytes=HELD // 2)
        with self.containers.running(LIMITED, Anon(size=HELD), Hold()) as handle:
            path = self.containers.settled(handle, HELD)
            try:
                self.requests.runtime.update(handle, less, deadline=soon())
            except RuntimeCallError:
                limit = self.containers.files(path, ("memory.max",))["memory.max"]
                return [
                    self._lives(handle),
                    observed("memory.max", str(LIMIT), str(limit).strip(), cgroup=str(path)),
                ]
            status = self.containers.ended(handle)
        return [observed(*exit_code_of_kill(status)), observed(*reason_of_kill(status))]

    def _hog_in(self, handle: ContainerHandle) -> list[Finding]:
        path = self.containers.cgroup_of(handle)
        before = self._kills(path)
        ended = exec_end(lambda: self.requests.runtime.exec(handle, _argv(Anon(size=TOO_MUCH)), deadline=soon()))
        # A killed container may have no cgroup any more.
        seen = self._kills(path) if self.requests.tree.exists(path, deadline=soon()) else GONE
        return [
            observed("exec", str(OOM_EXIT_CODE), ended),
            observed("memory.events oom_kill", str(int(before) + 1), seen, cgroup=str(path)),
        ]

    def _kills(self, path: CgroupPath) -> str:
        text = self.containers.files(path, ("memory.events",))["memory.events"]
        where = str(path)
        return str(parse.entry(parse.counters(parse.present(text, path=where), path=where), "oom_kill", path=where))

    def _lives(self, handle: ContainerHandle) -> Finding:
        """Whether it still runs. A runtime may notice its end late, and its cgroup may be gone by then."""
        path = self.containers.cgroup_of(handle)
        is_there = self.requests.tree.exists(path, deadline=soon())
        state = self.requests.runtime.status(handle, deadline=soon()).state.value if is_there else GONE
        return observed("state", ContainerState.RUNNING.value, state, cgroup=str(path))

    # ---- sandboxes

    @verb
    def sandbox_in_its_parent(self) -> Sequence[Finding]:
        """The sandbox's cgroup is directly below the cgroup_parent of RunPodSandbox."""
        cgroup = self.requests.kubelet.layout.whole(self.requests.pod.planned.cgroup.path, self.containers.sandbox.id)
        seen = "there" if self.requests.tree.exists(cgroup, deadline=soon()) else "none"
        why = "" if self._is_containerd or seen == "there" else "this runtime keeps no process for a sandbox"
        return [observed("cgroup", "there", seen, cgroup=str(cgroup), why_not=why)]

    @verb
    def sandbox_as_it_comes(self) -> Sequence[Finding]:
        """The files of the sandbox's own cgroup have nothing of the pod's resources and overhead."""
        container = requested(_SANDBOX, self.requests.kubelet.runtimes, self.requests.kubelet.host)
        sandbox = self.containers.sandbox
        if not self._is_containerd:
            return [
                observed(
                    "sandbox",
                    "",
                    "",
                    why_not="the resources that this runtime gives a sandbox's process are not modelled",
                )
            ]
        handle = ContainerHandle(id=sandbox.id, name=NAME, sandbox=sandbox, log_path="")
        return self.requests.shown(container, self.requests.pod, handle)

    @verb
    def second_sandbox(self) -> Sequence[Finding]:
        """A second sandbox in the parent, with resources and overhead, changes nothing and leaves nothing behind."""
        pod = self.requests.pod
        before, below = self.requests.neighbours(pod), self.requests.below(pod)
        with self.containers.second_sandbox("beside", _POD):
            kept = self.requests.kept(before, self.requests.neighbours(pod))
        return [*kept, self.requests.nothing_left(pod, below)]

    @verb
    def forgets(self) -> Sequence[Finding]:
        """A container is not listed after RemoveContainer, nor a sandbox after RemovePodSandbox."""
        with self.containers.second_sandbox("removed") as sandbox:
            with self.containers.running(LIMITED, sandbox=sandbox) as handle:
                pass
            inside = self.containers.cri.listed(deadline=soon())
        after = self.containers.cri.listed(deadline=soon())
        return [
            observed(method, "not listed", "listed" if id_ in ids else "not listed")
            for method, id_, ids in (("ListContainers", handle.id, inside), ("ListPodSandbox", sandbox.id, after))
        ]

    @verb
    def sandbox_updated(self) -> Sequence[Finding]:
        """UpdatePodSandboxResources writes no interface file: the pod's cgroup is the kubelet's."""
        pod = self.requests.pod
        before = self.requests.neighbours(pod)
        try:
            self.requests.runtime.update_sandbox(
                self.containers.sandbox, overhead=_POD, resources=_POD, deadline=soon()
            )
        except RuntimeCallError as error:
            return [refused_call("UpdatePodSandboxResources", "taken", error)]
        return self.requests.kept(before, self.requests.neighbours(pod))

    @verb
    def driver(self) -> Sequence[Finding]:
        """RuntimeConfig reports the cgroup driver that creates the containers' cgroups."""
        told = self.containers.cri.reported_driver
        why = "" if told else "the runtime does not support RuntimeConfig, or reports it only for its default handler"
        expected = str(self.requests.kubelet.host.driver)
        return [observed("RuntimeConfig", expected, str(told or ""), why_not=why)]

    # ---- containers that do not run

    @verb
    def created_and_updated(self, case: RequestCase) -> Sequence[Finding]:
        """Updates of a container that was created and not started apply once it runs."""
        pod = self.requests.pod
        container = requested(case.create, self.requests.kubelet.runtimes, self.requests.kubelet.host)
        try:
            handle = self.containers.made(case.create)
            for update in case.updates:
                container = self.containers.updated(handle, container, update)
            with self.containers.judging_refusals(case.create, pod):
                self.requests.runtime.start(handle, deadline=soon())
            return self.requests.shown(container, pod, handle)
        finally:
            self.requests.remove(pod)

    @verb
    def ended_and_updated(self, case: RequestCase) -> Sequence[Finding]:
        """An update of an exited container is answered, creates no cgroup, and changes nothing else."""
        pod = self.requests.pod
        before = self.requests.neighbours(pod)
        with self.containers.running(case.create) as handle:
            self.containers.end(handle)
            cgroup = self.requests.kubelet.layout.whole(pod.planned.cgroup.path, handle.id)
            kept = self.requests.tree.exists(cgroup, deadline=soon())
            told = "taken"
            try:
                for update in case.updates:
                    self.requests.runtime.update(handle, update, deadline=soon())
            except RuntimeCallError:
                told = "refused"
            there = "there" if self.requests.tree.exists(cgroup, deadline=soon()) else "none"
            expected = "taken" if self._is_containerd else told
            # CRI-O without systemd does so; systemd and containerd's shim remove it at once.
            why = "the runtime keeps the cgroup of a container that has ended until it is removed" if kept else ""
            return [
                observed("update", expected, told),
                observed("cgroup", "none", there, cgroup=str(cgroup), why_not=why),
                *self.requests.kept(before, self.requests.neighbours(pod)),
            ]

    # ---- reports

    @verb
    def reports_resources(self, case: RequestCase) -> Sequence[Finding]:
        """ContainerStatus.resources has every field of the requests; later requests override earlier ones."""
        container = requested(case.create, self.requests.kubelet.runtimes, self.requests.kubelet.host)
        with self.containers.running(case.create) as handle:
            for update in case.updates:
                if case.refused:
                    with contextlib.suppress(RuntimeCallError):
                        self.requests.runtime.update(handle, update, deadline=soon())
                else:
                    container = self.containers.updated(handle, container, update)
            told = self.requests.runtime.status(handle, deadline=soon()).resources
        if told is None:
            return [observed("ContainerStatus.resources", "", "", why_not="the runtime reports no resources")]
        asked = case.requests[:-1] if case.refused else case.requests
        fields = asked_in_all(asked)
        return [observed(f"ContainerStatus.{name}", text, text_of(told, name)) for name, text in fields.items()]

    @verb
    def reports_no_more(self, case: RequestCase) -> Sequence[Finding]:
        """ContainerStatus.resources has no limit and no key of unified that nothing requested."""
        with self.containers.running(case.create) as handle:
            told = self.requests.runtime.status(handle, deadline=soon()).resources
        if told is None:
            return [observed("ContainerStatus.resources", "", "", why_not="the runtime reports no resources")]
        more = unrequested(told, case.create)
        return [observed(f"ContainerStatus.{name}", "nothing", text_of(told, name)) for name in more] or [
            observed("ContainerStatus.resources", "nothing more", "nothing more")
        ]

    @property
    def _is_containerd(self) -> bool:
        return self.requests.kubelet.runtimes.cri.runtime is RuntimeName.CONTAINERD
