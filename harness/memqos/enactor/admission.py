"""Starts pods in the kubelet's order, sandbox before containers, several pods at a time, and removes them.

Also starts and updates single containers, and finds out whether a runtime's error is about the request.
"""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline, wait
from memqos.enactor.base import AdmittedPod, Patience, RefusedRequest, Steering
from memqos.engine.answer.verdict import judged_files
from memqos.engine.cgroup.layout import Layout
from memqos.engine.plan import Plan, PlannedContainer, PlannedPod
from memqos.errors import DeadlineError, MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.pod import Container, ContainerKind, Pod
from memqos.runtime.base import (
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    Runtime,
    SandboxHandle,
    SandboxSpec,
)
from memqos.threads import submit

__all__ = [
    "HEARING_SECONDS",
    "Admission",
    "patience_with_pods",
    "refused_request",
    "start_container",
    "update_container",
]

Create = Callable[[SandboxHandle, ContainerSpec, Deadline], ContainerHandle]
"""A replacement for a runtime's `create`."""


def start_container(
    runtime: Runtime,
    admitted: AdmittedPod,
    container: Container,
    resources: ContainerResources,
    *,
    deadline: Deadline,
    create: Create | None = None,
) -> ContainerHandle:
    """Make a container in the pod's sandbox with these resources and start it; it is recorded even if the start fails.

    create: replaces the runtime's own verb. Raises the errors of the runtime's calls.
    """
    assert admitted.sandbox is not None  # noqa: S101 - a pod's containers come after its sandbox
    spec = ContainerSpec(
        name=container.name,
        image=container.image,
        command=container.command,
        args=container.args,
        log=f"{container.name}-{uuid.uuid4().hex}.log",
        mounts=admitted.mounts.get(container.name, ()),
        resources=resources,
    )
    if create is None:
        handle = runtime.create(admitted.sandbox, spec, deadline=deadline)
    else:
        handle = create(admitted.sandbox, spec, deadline)
    admitted.containers[container.name] = handle
    admitted.requested[container.name] = (resources,)
    runtime.start(handle, deadline=deadline)
    return handle


def update_container(
    runtime: Runtime, admitted: AdmittedPod, name: str, resources: ContainerResources, *, deadline: Deadline
) -> None:
    """Update a container of the pod to these resources; raises the error of the runtime's call."""
    runtime.update(admitted.containers[name], resources, deadline=deadline)
    admitted.requested[name] = (*admitted.requested[name], resources)


def refused_request(
    runtime: Runtime,
    admitted: AdmittedPod,
    container: Container,
    request: ContainerResources,
    error: RuntimeCallError,
    *,
    update: bool = False,
    deadline: Deadline,
) -> RefusedRequest | None:
    """The runtime's refusal of this request, proved by starting a container without resources in the same sandbox.

    None if that container does not start either. It is removed again.
    """
    plain = dataclasses.replace(container, name=f"{container.name}-plain")
    try:
        handle = start_container(runtime, admitted, plain, ContainerResources(), deadline=deadline)
        runtime.stop(handle, grace=0, deadline=deadline)
        runtime.remove(handle, deadline=deadline)
    except MachineryError:
        # Its remains are removed with the pod.
        return None
    del admitted.containers[plain.name]
    return RefusedRequest(container=container.name, request=request, update=update, error=error)


POD_SECONDS = 180.0
"""Seconds for a pod, from the sandbox to the last container's start, including init containers, on a busy host."""

REMOVAL_SECONDS = 120.0
HEARING_SECONDS = 30.0
"""Seconds for a runtime to notice that its containers were killed, before memqos asks it to stop them."""

LOGS = "/var/log/pods"
"""The kubelet's folder for containers' output."""


def patience_with_pods() -> Patience:
    """New time limits for starting pods."""
    return Patience(longest=POD_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Starts and removes pods through one runtime.

    layout: the runtime's cgroup layout. parallel: pods at the same time (>= 1). patience: the time limits of starts,
    shared by all plans, so that a runtime that hangs costs minutes only for its first pods. unfinished: calls in
    progress at an interrupt; they have to end before anything is removed.
    """

    runtime: Runtime
    tree: CgroupTree
    layout: Layout
    parallel: int = 1
    patience: Patience = field(default_factory=patience_with_pods)
    unfinished: list[ThreadPoolExecutor] = field(default_factory=list)

    def start(
        self,
        plan: Plan,
        pods: Sequence[Pod],
        *,
        standing: Mapping[str, AdmittedPod],
        into: dict[str, AdmittedPod],
        steering: Steering,
    ) -> None:
        """Start every pod of the plan.

        steering: which workloads take commands. standing: pods whose sandboxes and remaining containers are reused.
        into: receives each pod before its start, so that everything can be removed after any error. A pod that fails
        keeps its MachineryError and the others still start. After several equal failures in a row the remaining pods
        get that failure without an attempt.
        """
        by_uid = {pod.uid: pod for pod in steering.pods(pods)}
        for planned in plan.pods:
            pod = by_uid[planned.uid]
            admitted = AdmittedPod(pod=pod, planned=planned, mounts=steering.mounts(pod))
            before = standing.get(planned.uid)
            if before is not None and before.sandbox is not None:
                # CreateContainer repeats the sandbox's configuration: it must be the new plan's.
                admitted.sandbox = SandboxHandle(id=before.sandbox.id, spec=_sandbox_spec(planned))
                admitted.containers, admitted.early = before.containers, before.early
                admitted.requested = before.requested
            into[planned.uid] = admitted
        self.patience.try_again()
        missing = {uid: admitted for uid, admitted in into.items() if not admitted.containers}
        self._for_each(missing, self._start_pod)

    def remove_pods(self, pods: Mapping[str, AdmittedPod]) -> None:
        """Kill and remove these pods with their sandboxes; raises the first error after an attempt at each."""
        until = self._kill(pods, with_sandboxes=True)
        self._each_tried(pods, functools.partial(self._remove_pod, until=until))

    def remove_containers(self, pods: Mapping[str, AdmittedPod]) -> None:
        """Kill and remove the containers of these pods, and leave the sandboxes; errors as above."""
        until = self._kill(pods)
        self._each_tried(pods, functools.partial(self._remove_containers, until=until))

    def _kill(self, pods: Mapping[str, AdmittedPod], *, with_sandboxes: bool = False) -> Deadline:
        """Kill all containers at once, since the runtime would stop them one after another.

        Kills sandboxes with a process too, so that the runtime handles all ends at the same time. Returns the deadline
        by which the runtime must have noticed.
        """
        while self.unfinished:
            self.unfinished.pop().shutdown()
        paths = [
            self.layout.whole(admitted.planned.cgroup.path, handle.id)
            for admitted in pods.values()
            for handle in (*admitted.containers.values(), *((admitted.sandbox,) if with_sandboxes else ()))
            if handle is not None
        ]
        if paths:
            self.tree.kill(paths, deadline=Deadline.after(REMOVAL_SECONDS))
        return Deadline.after(HEARING_SECONDS)

    def _each_tried(self, pods: Mapping[str, AdmittedPod], work: Callable[[AdmittedPod, Deadline], None]) -> None:
        errors: list[MachineryError] = []
        patience = Patience(longest=REMOVAL_SECONDS)

        def tried(admitted: AdmittedPod) -> None:
            if patience.enough is not None:
                return
            deadline = patience.deadline()
            try:
                work(admitted, deadline)
            except MachineryError as error:
                patience.failed(error, deadline)
                errors.append(error)
            else:
                patience.succeeded(deadline)

        self._for_each(pods, tried)
        if errors:
            raise errors[0]

    def _for_each(self, pods: Mapping[str, AdmittedPod], work: Callable[[AdmittedPod], None]) -> None:
        pool = ThreadPoolExecutor(max_workers=self.parallel, thread_name_prefix="pod")
        self.unfinished.append(pool)
        try:
            futures = [submit(pool, work, admitted) for admitted in pods.values()]
            for future in futures:
                future.result()
        except BaseException as error:
            # An interrupt reaches this thread only: pending pods must not start, and running ones may hang.
            pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
            raise
        pool.shutdown()
        self.unfinished.remove(pool)

    def _start_pod(self, admitted: AdmittedPod) -> None:
        admitted.failure = self.patience.enough
        if admitted.failure is not None:
            return
        deadline = self.patience.deadline()
        try:
            self._start_sandbox(admitted, deadline)
            planned = {container.name: container for container in admitted.planned.containers}
            for container in admitted.pod.all_containers:
                if container.kind is not ContainerKind.EPHEMERAL:
                    self._start_container(admitted, container, planned[container.name], deadline=deadline)
        except MachineryError as error:
            admitted.failure = error
            if admitted.refused is None:
                self.patience.failed(error, deadline)
                return
        self.patience.succeeded(deadline)

    def _start_sandbox(self, admitted: AdmittedPod, deadline: Deadline) -> None:
        if admitted.sandbox is None:
            admitted.sandbox = self.runtime.run_sandbox(_sandbox_spec(admitted.planned), deadline=deadline)

    def _start_container(
        self, admitted: AdmittedPod, container: Container, planned: PlannedContainer, *, deadline: Deadline
    ) -> None:
        try:
            handle = start_container(self.runtime, admitted, container, planned.resources, deadline=deadline)
        except RuntimeCallError as error:
            admitted.refused = refused_request(
                self.runtime, admitted, container, planned.resources, error, deadline=deadline
            )
            raise
        if container.kind is ContainerKind.INIT:
            path = self.layout.container(planned.cgroup.path, handle.id)
            reading = self.tree.read_cgroups([path], judged_files(self.tree.hierarchy.version), deadline=deadline)
            admitted.early.update(reading.cgroups)
            self._await_completion(handle, container.name, deadline)

    def _await_completion(self, handle: ContainerHandle, name: str, deadline: Deadline) -> None:
        status = wait(
            f"the init container '{name}' has ended",
            lambda: self.runtime.status(handle, deadline=deadline),
            until=lambda seen: seen.state is ContainerState.EXITED,
            deadline=deadline,
        )
        if status.exit_code != 0:
            raise MachineryError(
                f"the init container '{name}' ended with {status.exit_code} ({status.reason or 'no reason given'}).",
                next_step="Its program must end with 0 before the pod's other containers start.",
                data={"exit_code": status.exit_code, "reason": status.reason},
            )

    def _remove_pod(self, admitted: AdmittedPod, deadline: Deadline, *, until: Deadline) -> None:
        trouble: MachineryError | None = None
        try:
            self._remove_containers(admitted, deadline.sooner(deadline.remaining / 2), until=until)
        except MachineryError as error:
            # Removing the sandbox also removes its containers; their error is still raised.
            trouble = error
        if admitted.sandbox is not None:
            self.runtime.remove_sandbox(admitted.sandbox, deadline=deadline)
        if trouble is not None:
            raise trouble

    def _remove_containers(self, admitted: AdmittedPod, deadline: Deadline, *, until: Deadline) -> None:
        for name, handle in list(admitted.containers.items()):
            # A runtime cannot cleanly remove a killed container before it has noticed the end.
            try:
                self._wait_for_end(name, handle, deadline.sooner(until.remaining))
            except DeadlineError:
                # A process outside its cgroup was not killed: only the runtime knows it.
                self.runtime.stop(handle, grace=0, deadline=deadline)
                self._wait_for_end(name, handle, deadline)
            self.runtime.remove(handle, deadline=deadline)
            del admitted.containers[name]
        admitted.early.clear()

    def _wait_for_end(self, name: str, handle: ContainerHandle, deadline: Deadline) -> None:
        wait(
            f"the runtime knows that '{name}' has ended",
            lambda: self.runtime.status(handle, deadline=deadline),
            until=lambda status: status.state is not ContainerState.RUNNING,
            deadline=deadline,
        )


def _sandbox_spec(planned: PlannedPod) -> SandboxSpec:
    return SandboxSpec(
        name=planned.name,
        namespace=planned.namespace,
        uid=planned.uid,
        cgroup_parent=str(planned.cgroup.path),
        log_directory=f"{LOGS}/{planned.namespace}_{planned.name}_{planned.uid}",
        resources=planned.sandbox_resources,
        overhead=planned.sandbox_overhead,
    )
