"""Containers that a test makes in a pod that stands, with the program and the resources that it chooses."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from memqos.clock import SYSTEM_CLOCK, Deadline, wait
from memqos.enactor.base import AdmittedPod
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, PROCESSES
from memqos.errors import UsageError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText
from memqos.node.pods.membership import place_outside
from memqos.node.pods.refusing import NAME, SUBJECT
from memqos.node.requests.requesting import Requests
from memqos.runtime.base import (
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    SandboxHandle,
)
from memqos.runtime.speaking import SpeaksCri
from memqos.threads import submit
from memqos.workload.command import PROGRAM, Command, Hold, arguments

__all__ = ["Containers", "observed", "soon"]

CALL_SECONDS = 60.0
BETWEEN_LOOKS = 0.1
"""Seconds between two looks at a program that takes two seconds or more."""
_NOTHING = ContainerResources()


class Containers(Requests):
    """Makes containers one at a time beside the pod's own, and removes each."""

    @property
    def _pod(self) -> AdmittedPod:
        [pod] = self.population.pods.values()
        return pod

    @property
    def _sandbox(self) -> SandboxHandle:
        sandbox = self._pod.sandbox
        assert sandbox is not None  # noqa: S101 - the pod came up
        return sandbox

    @property
    def _cri(self) -> SpeaksCri:
        if not isinstance(self.runtime, SpeaksCri):
            raise UsageError(f"{self.runtime.name} is not used over CRI.", next_step="Let the claim need CRI.")
        return self.runtime

    def _apart(self) -> Self:
        """The same pod, in which what this one makes stands beside what others make."""
        pod = dataclasses.replace(self._pod, containers=dict(self._pod.containers), asked=dict(self._pod.asked))
        population = dataclasses.replace(self.population, pods={pod.pod.uid: pod})
        return dataclasses.replace(self, population=population)

    def _made(
        self, resources: ContainerResources, *commands: Command, pod: AdmittedPod | None = None, name: str = NAME
    ) -> ContainerHandle:
        """A container that is not started, of the pod or of another one beside it; removed with `_remove`.

        name: the runtime's for it, which no two of a sandbox may have at a time.
        """
        pod = pod or self._pod
        spec = ContainerSpec(
            name=name,
            image=self._pod.pod.containers[0].image,
            args=arguments(commands or (Hold(),)),
            log=f"{NAME}-{uuid.uuid4().hex}.log",
            resources=resources,
        )
        assert pod.sandbox is not None  # noqa: S101 - the pod came up
        handle = dataclasses.replace(self.runtime.create(pod.sandbox, spec, deadline=soon()), name=NAME)
        pod.containers[NAME] = handle
        return handle

    @contextlib.contextmanager
    def _second_sandbox(self, name: str, resources: ContainerResources = _NOTHING) -> Iterator[SandboxHandle]:
        """A further sandbox in the same parent. resources: the pod's, and its overhead as well."""
        uid = uuid.uuid4().hex
        spec = dataclasses.replace(
            self._sandbox.spec, name=f"{name}-{uid[:8]}", uid=uid, resources=resources, overhead=resources
        )
        sandbox = self.runtime.run_sandbox(spec, deadline=soon())
        try:
            yield sandbox
        finally:
            self.runtime.remove_sandbox(sandbox, deadline=soon())

    @contextlib.contextmanager
    def _running(
        self,
        resources: ContainerResources,
        *commands: Command,
        sandbox: SandboxHandle | None = None,
        name: str = NAME,
    ) -> Iterator[ContainerHandle]:
        """A container in the pod, or in a further sandbox: several threads may have one in a sandbox each."""
        pod = self._pod if sandbox is None else dataclasses.replace(self._pod, sandbox=sandbox, containers={})
        with self._removing(pod):
            handle = self._made(resources, *commands, pod=pod, name=name)
            self.runtime.start(handle, deadline=soon())
            yield handle

    def _cgroup_of(self, handle: ContainerHandle) -> CgroupPath:
        return self.kubelet.layout.container(self._pod.planned.cgroup.path, handle.id)

    def _files(self, path: CgroupPath, names: Sequence[str]) -> Mapping[str, FileText]:
        return self.tree.read_cgroups([path], names, deadline=soon()).cgroups[path].files

    def _entered(self, handle: ContainerHandle, score: int, program: Command) -> tuple[int, list[Finding]]:
        """The exit code of a program that the runtime starts in a container, and what was seen of it while it ran.

        It must be in the container's cgroup, with its oom_score_adj. score: the container's. program: takes seconds.
        """
        path, seen, where = self._cgroup_of(handle), dict[int, str](), ""
        whole = self.kubelet.layout.whole(self._pod.planned.cgroup.path, handle.id)
        before = self._scores_in(path)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="exec") as pool:
            running = submit(pool, self.runtime.exec, handle, (PROGRAM, *arguments([program])), deadline=soon())
            is_over = False
            while not is_over:
                # One look more after its end: a program that was never seen was not there.
                is_over = running.done()
                now = self._scores_in(path)
                seen |= {pid: text for pid, text in now.items() if pid not in before}
                where = where or place_outside(self.tree, whole, [pid for pid in seen if pid not in now])
                SYSTEM_CLOCK.sleep(0 if is_over else BETWEEN_LOOKS)
            code, _, _ = running.result()
        scores, failed = ", ".join(sorted(set(seen.values()))), f"the program ended with {code}" if code else ""
        inside = f"in {where}" if where else "there" if seen else "none"
        return code, [
            observed(f"{PROCESSES} of exec", "there", inside, cgroup=str(path), why_not=failed),
            *([observed(f"{OOM_SCORE_ADJ} of exec", str(score), scores, cgroup=str(path))] if seen else []),
        ]

    def _scores_in(self, path: CgroupPath) -> Mapping[int, str]:
        """By the number of each process in a cgroup that runs the workload its oom_score_adj."""
        name = posixpath.basename(PROGRAM)
        found = self.tree.read_named_processes(path, OOM_SCORE_ADJ, name, deadline=soon())
        return {pid: text.strip() for pid, text in found.items()}

    def _end(self, handle: ContainerHandle) -> ContainerStatus:
        """Kill what runs in it."""
        path = self.kubelet.layout.whole(self._pod.planned.cgroup.path, handle.id)
        self.tree.kill([path], deadline=soon())
        return self._ended(handle)

    def _ended(self, handle: ContainerHandle) -> ContainerStatus:
        """What the runtime says of it once it has ended."""
        return wait(
            "the container has ended",
            lambda: self.runtime.status(handle, deadline=soon()),
            until=lambda status: status.state is ContainerState.EXITED,
            deadline=soon(),
        )


def observed(knob: str, expected: str, seen: str, *, cgroup: str = "", why_not: str = "") -> Finding:
    """What the runtime did, held against what it had to do; why_not: why it could not be observed."""
    verdict = Verdict.CONFORMS if seen == expected else Verdict.DEVIATES
    return Finding(
        verdict=Verdict.NOT_OBSERVABLE if why_not else verdict,
        subject=SUBJECT,
        cgroup=cgroup,
        knob=knob,
        set_by=Setter.RUNTIME,
        expected=expected,
        observed=seen,
        why_not=why_not,
    )


def soon() -> Deadline:
    """When one call, and what it brings about, has to be over."""
    return Deadline.after(CALL_SECONDS)
