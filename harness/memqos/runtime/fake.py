"""In-memory runtimes over a fake cgroup tree, which treat resources as containerd and runc do.

For developing suites and for tests of memqos itself, never for conformance results: a fake implements memqos's model of
a runtime, and so can only agree. Its containers run nothing; a test ends one with `finish`. Besides CRI, one fake takes
the Docker Engine's own words, and one those of OCI bundles.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.clock import Deadline
from memqos.engine.translate import docker as dockerd
from memqos.engine.translate import oci
from memqos.engine.translate.docker import DockerdAnswer, HostConfig
from memqos.engine.translate.requested import OciRequest
from memqos.engine.translate.resources import OciResources, OciTranslation, RuntimeHost
from memqos.engine.translate.runtime_rules import runtime_writes, scope_held
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.systemd import files_of_properties
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.path import CgroupPath
from memqos.runtime.base import (
    OF_BUNDLES,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    RuntimeVersion,
    SandboxHandle,
    SandboxSpec,
    Traces,
)
from memqos.runtime.cri_wire import container_handle
from memqos.runtime.docker_wire import CAPABILITIES, OF_PODMAN
from memqos.runtime.fake_cgroups import FakeCgroups
from memqos.runtime.oci_commands import able
from memqos.target.fake import RefusedError

__all__ = ["FakeDockerRuntime", "FakeOciRuntime", "FakePodmanRuntime", "FakeRuntime"]

_KILLED = 137
_TERMINATED = 143
_SANDBOX = OciResources(cpu_shares=2)
_SANDBOX_SCORE = -998
"""The oom_score_adj of a sandbox: kubelet, and containerd defaultSandboxOOMAdj."""


@dataclass(slots=True, kw_only=True)
class _Container:
    """One container: its requests so far, in CRI's and in OCI's words, and its state."""

    cgroup: CgroupPath
    resources: ContainerResources
    specification: OciResources
    state: ContainerState = ContainerState.CREATED
    exit_code: int | None = None
    reason: str = ""


class FakeRuntime:
    """The Runtime port in memory.

    driver: how cgroups are named. runtimes: the CRI and OCI runtime that it imitates; resources go through the engine's
    translation.

    Attributes that a test may change: exec_score, the oom_score_adj of processes that `exec` starts, None for the
    container's; keeps_cgroups, whether the cgroup of an ended container stays until it is removed.
    """

    def __init__(
        self, cgroups: FakeCgroups, *, driver: CgroupDriver = CgroupDriver.SYSTEMD, runtimes: Runtimes = TRIXIE
    ) -> None:
        self._cgroups = cgroups
        self._runtimes = runtimes
        self._layout = runtimes.layout(driver)
        self._host = RuntimeHost(
            driver=driver,
            cgroup_version=cgroups.hierarchy.version,
            systemd=runtimes.systemd,
            hugetlb_reservations=cgroups.hierarchy.version is CgroupVersion.V2,
            page_size=cgroups.page_size,
        )
        self.exec_score: int | None = None
        self.keeps_cgroups = False
        self._numbers = itertools.count(1)
        self._sandboxes: dict[str, CgroupPath] = {}
        self._containers: dict[str, _Container] = {}
        self._sandbox_of: dict[str, str] = {}

    @property
    def name(self) -> str:
        """Its name in reports."""
        return "fake"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """As containerd 1.7."""
        return frozenset(Capability) - {Capability.CGROUP_DRIVER_REPORT, Capability.HOST_CONFIG, *OF_BUNDLES}

    def version(self, *, deadline: Deadline) -> RuntimeVersion:  # noqa: ARG002 - nothing takes time here
        """Itself."""
        return RuntimeVersion(name="fake", version="0", api_version="v1")

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:  # noqa: ARG002
        """Create the sandbox's cgroup below the pod's, which must exist."""
        parent = CgroupPath.parse(spec.cgroup_parent)
        if parent not in self._cgroups:
            raise _error("RunPodSandbox", f"the cgroup parent '{parent}' does not exist")
        sandbox_id = self._new_id()
        self._sandboxes[sandbox_id] = self._layout.whole(parent, sandbox_id)
        holder = self.write_as_oci("RunPodSandbox", self._sandboxes[sandbox_id], _SANDBOX)
        self._cgroups.run_in(holder, _SANDBOX_SCORE)
        return SandboxHandle(id=sandbox_id, spec=spec)

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:  # noqa: ARG002
        """Create a container and its cgroup."""
        if sandbox.id not in self._sandboxes:
            raise _error("CreateContainer", f"there is no sandbox '{sandbox.id}'")
        cri, runc_or_crun = self._runtimes.cri, self._runtimes.oci.runtime
        sent = oci.oci_for_create(spec.resources, cri, hugetlb=self._runtimes.passes_huge_pages, oci=runc_or_crun)
        return self._made(sandbox, spec, spec.resources, _accepted("CreateContainer", sent))

    def _made(
        self, sandbox: SandboxHandle, spec: ContainerSpec, resources: ContainerResources, asked: OciResources
    ) -> ContainerHandle:
        """A container whose OCI runtime gets these values. resources: in CRI's words."""
        container_id = self._new_id()
        parent = CgroupPath.parse(sandbox.spec.cgroup_parent)
        self._containers[container_id] = _Container(
            cgroup=self._layout.whole(parent, container_id), resources=resources, specification=asked
        )
        self._sandbox_of[container_id] = sandbox.id
        return container_handle(sandbox, spec, container_id)

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Start it: the cgroup appears with its values."""
        known = self._known(container, "StartContainer")
        if known.state is not ContainerState.CREATED:
            raise _error("StartContainer", f"the container is {known.state}")
        self._fill(known)
        known.state = ContainerState.RUNNING

    def _fill(self, known: _Container) -> None:
        """Create a container's cgroup with its values and its first process."""
        holder = self.write_as_oci("StartContainer", known.cgroup, known.specification)
        self._cgroups.run_in(holder, known.resources.oom_score_adj)

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Write what the CRI runtime passes on: containerd everything requested so far, CRI-O only the request.

        For a container that does not run nothing is written; the request is remembered.
        """
        known = self._known(container, "UpdateContainerResources")
        sent_on = oci.oci_for_update(
            known.specification, resources, self._runtimes.cri, hugetlb=self._runtimes.passes_huge_pages
        )
        asked = _accepted("UpdateContainerResources", sent_on)
        if known.state is ContainerState.RUNNING:
            self.write_as_oci("UpdateContainerResources", known.cgroup, asked, known.specification)
        known.specification = asked
        known.resources = resources.over(known.resources)

    def update_sandbox(
        self,
        sandbox: SandboxHandle,
        *,
        overhead: ContainerResources,  # noqa: ARG002
        resources: ContainerResources,  # noqa: ARG002 - containerd remembers both, and writes nothing
        deadline: Deadline,  # noqa: ARG002
    ) -> None:
        """Accept the pod's new size without effect, as containerd 2.1 does; older ones do not have the call."""
        if sandbox.id not in self._sandboxes:
            raise _error("UpdatePodSandboxResources", f"there is no sandbox '{sandbox.id}'")

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:  # noqa: ARG002
        """Its status."""
        known = self._known(container, "ContainerStatus")
        return ContainerStatus(
            state=known.state, exit_code=known.exit_code, reason=known.reason, message="", resources=known.resources
        )

    @property
    def reported_driver(self) -> CgroupDriver | None:
        """None: RuntimeConfig is not supported, as in containerd 1.7."""
        return None

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:  # noqa: ARG002
        """The values of its cgroup, as containerd 1.7 computes them."""
        self._known(container, "ContainerStats")
        return self._stats_of(container.id)

    def sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Mapping[str, object]:  # noqa: ARG002
        """The values of the pod's cgroup, and those of its containers."""
        values = self._cgroups.stats(CgroupPath.parse(sandbox.spec.cgroup_parent))
        return {"attributes": {"id": sandbox.id}, "linux": {**values, "containers": self._stats_in(sandbox)}}

    def listed_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:  # noqa: ARG002
        """The values of the running containers in this sandbox."""
        return self._stats_in(sandbox)

    def listed_sandbox_stats(self, sandbox: SandboxHandle, *, deadline: Deadline) -> Sequence[Mapping[str, object]]:
        """The values of this sandbox alone."""
        return [FakeRuntime.sandbox_stats(self, sandbox, deadline=deadline)]

    def listed(self, *, deadline: Deadline) -> frozenset[str]:  # noqa: ARG002
        """The ids of all sandboxes and containers that were not removed."""
        return frozenset([*self._sandboxes, *self._containers])

    def _stats_of(self, container_id: str) -> Mapping[str, object]:
        return {"attributes": {"id": container_id}, **self._cgroups.stats(self._containers[container_id].cgroup)}

    def _stats_in(self, sandbox: SandboxHandle) -> Sequence[Mapping[str, object]]:
        inside = [one for one, of in self._sandbox_of.items() if of == sandbox.id and one in self._containers]
        return [self._stats_of(one) for one in inside if self._containers[one].state is ContainerState.RUNNING]

    def traces(self, container: ContainerHandle, *, deadline: Deadline) -> Traces:  # noqa: ARG002
        """The stored specification; there is no bundle."""
        known = self._known(container, "ContainerStatus")
        score = {"oomScoreAdj": known.resources.oom_score_adj}
        return Traces(spec={"process": score, "linux": {"resources": known.specification.document()}})

    def exec(
        self,
        container: ContainerHandle,
        argv: tuple[str, ...],  # noqa: ARG002 - there is nothing to run in
        *,
        deadline: Deadline,  # noqa: ARG002
    ) -> tuple[int, bytes, bytes]:
        """Nothing runs here: every command ends with 0 and no output, and was seen in the cgroup."""
        known = self._known(container, "ExecSync")
        if known.state is not ContainerState.RUNNING:
            raise _error("ExecSync", "the container does not run")
        holder = self._layout.container(known.cgroup.parent, container.id)
        score = known.resources.oom_score_adj if self.exec_score is None else self.exec_score
        self._cgroups.run_second(holder, score)
        return 0, b"", b""

    def stop(self, container: ContainerHandle, *, grace: int, deadline: Deadline) -> None:  # noqa: ARG002
        """End it by TERM, or by KILL without grace."""
        if self._known(container, "StopContainer").state is ContainerState.RUNNING:
            self.finish(container, exit_code=_TERMINATED if grace else _KILLED)

    def remove(self, container: ContainerHandle, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Remove it, running or not; a missing one is not an error."""
        known = self._containers.pop(container.id, None)
        self._sandbox_of.pop(container.id, None)
        if known:
            self._cgroups.remove(known.cgroup)

    def remove_sandbox(self, sandbox: SandboxHandle, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Remove it with its containers; a missing one is not an error."""
        for container_id in [one for one, owner in self._sandbox_of.items() if owner == sandbox.id]:
            self._cgroups.remove(self._containers.pop(container_id).cgroup)
            del self._sandbox_of[container_id]
        if cgroup := self._sandboxes.pop(sandbox.id, None):
            self._cgroups.remove(cgroup)

    def close(self) -> None:
        """Nothing to close."""

    def finish(self, container: ContainerHandle, *, exit_code: int, reason: str = "") -> None:
        """End a running container with this code; reason: as reported, derived from the code if ""."""
        self._end(self._known(container, "finish"), exit_code, reason)

    def _end(self, container: _Container, exit_code: int, reason: str) -> None:
        container.state = ContainerState.EXITED
        container.exit_code = exit_code
        container.reason = reason or ("Error" if exit_code else "Completed")
        if self.keeps_cgroups:
            self._cgroups.lose_process(container.cgroup)
        else:
            self._cgroups.remove(container.cgroup)

    @property
    def container_ids(self) -> frozenset[str]:
        """The containers that were created and not removed."""
        return frozenset(self._containers)

    @property
    def sandbox_ids(self) -> frozenset[str]:
        """The sandboxes that were created and not removed."""
        return frozenset(self._sandboxes)

    def cgroup_of(self, container: ContainerHandle) -> CgroupPath:
        """The container's cgroup in this runtime; RuntimeCallError if it does not exist."""
        return self._known(container, "cgroup_of").cgroup

    def sandbox_cgroup_of(self, sandbox: SandboxHandle) -> CgroupPath:
        """The sandbox's cgroup in this runtime; KeyError if it does not exist."""
        return self._sandboxes[sandbox.id]

    def state_of(self, container: ContainerHandle) -> ContainerState:
        """A container's state, without a request; RuntimeCallError if it does not exist."""
        return self._known(container, "state_of").state

    def resources_of(self, container: ContainerHandle) -> ContainerResources:
        """The requests for a container so far; RuntimeCallError if it does not exist."""
        return self._known(container, "resources_of").resources

    def misplace(self, container: ContainerHandle, cgroup: CgroupPath) -> None:
        """Assign this cgroup to a container; creates, moves and removes nothing."""
        self._known(container, "misplace").cgroup = cgroup

    def specification_of(self, container: ContainerHandle) -> OciResources:
        """The resources in a container's stored spec; RuntimeCallError if there is no such container."""
        return self._known(container, "specification_of").specification

    def remember(self, container: ContainerHandle, specification: OciResources) -> None:
        """Store these resources in a container's spec, and write nothing."""
        self._known(container, "remember").specification = specification

    def finish_all(self, folders: Collection[str] | None = None) -> None:
        """End everything in these cgroups as a kill does; folders: of the cgroups, None for all."""
        for container in self._containers.values():
            own = self._cgroups.hierarchy.folder(container.cgroup)
            if container.state is ContainerState.RUNNING and (folders is None or own in folders):
                self._end(container, _KILLED, "")

    def _known(self, container: ContainerHandle, method: str) -> _Container:
        if container.id not in self._containers:
            raise _error(method, f"there is no container '{container.id}'")
        return self._containers[container.id]

    def _new_id(self) -> str:
        return hashlib.sha256(str(next(self._numbers)).encode()).hexdigest()

    def write_as_oci(
        self, method: str, cgroup: CgroupPath, asked: OciResources, stored: OciResources | None = None
    ) -> CgroupPath:
        """Have the OCI runtime write; the error names the file."""
        if (writes := runtime_writes(asked, self._runtimes.oci, self._host, stored=stored)).refusal:
            raise _error(method, writes.refusal)
        holder = cgroup.child(writes.subgroup) if writes.subgroup else cgroup
        self._cgroups.make(holder)
        try:
            for name, text in writes.files:
                self._cgroups.put(holder, name, text)
            if writes.subgroup:
                for name, text in scope_held(writes, page_size=self._host.page_size).items():
                    self._cgroups.put(cgroup, name, text)
        except RefusedError as error:
            raise _error(method, f"failed to write '{text}' to {holder}/{name}: {error}") from error
        return holder


def _accepted(method: str, translation: OciTranslation) -> OciResources:
    """The OCI runtime's part of a request; the CRI runtime's refusal is this runtime's answer."""
    if translation.refusal:
        raise _error(method, translation.refusal)
    return translation.resources


def _error(method: str, details: str, code: str = "UNKNOWN") -> RuntimeCallError:
    data = {"method": method, "code": code, "details": details}
    return RuntimeCallError(f"fake answered {code}: {details}", where=method, data=data)


class FakePodmanRuntime(FakeRuntime):
    """The Runtime port in memory with what can be said to Podman's service, for runtimes whose `cri` is Podman."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """As Podman's."""
        return OF_PODMAN


class FakeDockerRuntime(FakeRuntime):
    """The Runtime port in memory with Docker's behaviour, for runtimes whose `cri` is Docker."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._kept: dict[str, HostConfig] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """As Docker's."""
        return CAPABILITIES

    def create_as(
        self,
        sandbox: SandboxHandle,
        spec: ContainerSpec,
        config: HostConfig,
        *,
        deadline: Deadline,  # noqa: ARG002
    ) -> ContainerHandle:
        """Create a container from this request."""
        answer = _docker_accepted("ContainerCreate", dockerd.docker_created(config))
        resources = ContainerResources(oom_score_adj=int(config.get("OomScoreAdj", 0)))
        handle = self._made(sandbox, spec, resources, answer.resources)
        self._kept[handle.id] = answer.held
        return handle

    def update_as(self, container: ContainerHandle, config: HostConfig, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Write the named fields; the daemon stores them with the earlier ones."""
        known = self._known(container, "ContainerUpdate")
        answer = _docker_accepted("ContainerUpdate", dockerd.docker_updated(self._kept[container.id], config))
        self.write_as_oci("ContainerUpdate", known.cgroup, answer.resources, known.specification)
        known.specification = answer.resources.over(known.specification)
        self._kept[container.id] = answer.held

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:  # noqa: ARG002
        """The values of its cgroup's files, with the API's names."""
        known = self._known(container, "ContainerStats")
        return {"memory_stats": {**self._cgroups.memory(known.cgroup), "stats": {}}}


def _docker_accepted(method: str, answer: DockerdAnswer) -> DockerdAnswer:
    if answer.refusal:
        raise _error(method, answer.refusal, "400")
    return answer


class FakeOciRuntime(FakeRuntime):
    """The Runtime port in memory with the behaviour of a directly driven OCI runtime."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """As the adapter's."""
        return able(self._runtimes.oci, self._host.driver)

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """Create a container; its cgroup has its values from now on, as the OCI runtime specification wants it."""
        handle = super().create(sandbox, spec, deadline=deadline)
        self._fill_or_forget(handle)
        return handle

    def _fill_or_forget(self, container: ContainerHandle) -> None:
        """Create the container's cgroup; a container whose creation is refused leaves nothing."""
        try:
            self._fill(self._known(container, "create"))
        except RuntimeCallError:
            FakeRuntime.remove(self, container, deadline=Deadline.after(0))
            raise

    def create_from(
        self,
        sandbox: SandboxHandle,
        spec: ContainerSpec,
        request: OciRequest,
        *,
        deadline: Deadline,  # noqa: ARG002
    ) -> ContainerHandle:
        """Create a container of this bundle, in a unit with the properties that its annotations ask for.

        A memory policy counts where the version knows it.
        """
        policy = request.memory_policy if Capability.MEMORY_POLICY in self.capabilities else None
        if policy and policy.refusal:
            raise _error("create", policy.refusal)
        handle = self._made(sandbox, spec, ContainerResources(), request.resources)
        known = self._known(handle, "create")
        if request.unit_properties and self._host.driver is CgroupDriver.SYSTEMD:
            self._cgroups.make(known.cgroup)
            for name, text in files_of_properties(request.unit_properties).items():
                self._cgroups.put(known.cgroup, name, text)
        self._fill_or_forget(handle)
        if policy:
            own = known.cgroup.child(self._runtimes.oci.subgroup) if self._runtimes.oci.subgroup else known.cgroup
            self._cgroups.policies[own if own in self._cgroups else known.cgroup] = policy.shown
        return handle

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Start it: nothing changes in its cgroup."""
        known = self._known(container, "start")
        if known.state is not ContainerState.CREATED:
            raise _error("start", f"the container is {known.state}")
        known.state = ContainerState.RUNNING

    def update_with(self, container: ContainerHandle, request: OciRequest, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Write the named fields, unless the limit is below the usage and the request asks for that check."""
        known = self._known(container, "update")
        asked = request.resources
        used = self._cgroups.memory(known.cgroup)["usage"]
        if asked.check_before_update and asked.memory_limit is not None and asked.memory_limit <= used:
            details = f"rejecting memory limit {asked.memory_limit} <= usage {used}"
            raise _error("update", details, "status 1")
        self.write_as_oci("update", known.cgroup, asked, known.specification)
        known.specification = asked.over(known.specification)

    def stats_event(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:  # noqa: ARG002
        """The values of its cgroup's files, with runc's names."""
        return {"memory": {"usage": self._cgroups.memory(self._known(container, "events").cgroup), "raw": {}}}

    def follow(self, container: ContainerHandle, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Nothing happens here that is not recorded."""
        self._known(container, "events")

    def followed(self, container: ContainerHandle, *, deadline: Deadline) -> Sequence[str]:  # noqa: ARG002
        """An OOM kill, if the container ended with one."""
        return ["oom"] if self._known(container, "events").reason == "OOMKilled" else []
