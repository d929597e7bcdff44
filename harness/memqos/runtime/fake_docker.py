"""A Docker Engine in memory over a fake cgroup tree: the fake runtime, asked in Docker's own words as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memqos.clock import Deadline
from memqos.engine.translate import docker as dockerd
from memqos.engine.translate.docker import DockerdAnswer, HostConfig
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.runtime.base import Capability, ContainerHandle, ContainerSpec, SandboxHandle
from memqos.runtime.docker_words import CAPABILITIES
from memqos.runtime.fake import FakeRuntime

__all__ = ["FakeDockerRuntime"]


class FakeDockerRuntime(FakeRuntime):
    """The Runtime port in memory as Docker keeps it, for runtimes whose `cri` is Docker."""

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
        """Make a container from this request."""
        answer = _accepted("ContainerCreate", dockerd.docker_created(config))
        resources = ContainerResources(oom_score_adj=int(config.get("OomScoreAdj", 0)))
        handle = self._made(sandbox, spec, resources, answer.resources)
        self._kept[handle.id] = answer.held
        return handle

    def update_as(self, container: ContainerHandle, config: HostConfig, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Write what is named; the daemon keeps it beside what it was told before."""
        known = self._known(container, "ContainerUpdate")
        answer = _accepted("ContainerUpdate", dockerd.docker_updated(self._kept[container.id], config))
        self.write_as_oci("ContainerUpdate", known.cgroup, answer.resources, known.specification)
        known.specification = answer.resources.over(known.specification)
        self._kept[container.id] = answer.held

    def stats(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:  # noqa: ARG002
        """What the files of its cgroup show, as the API names it."""
        cgroup = self._known(container, "ContainerStats").cgroup
        limit = self._cgroups.text(cgroup, "memory.max").strip()
        usage = int(self._cgroups.text(cgroup, "memory.current"))
        return {"memory_stats": {"usage": usage, **({"limit": int(limit)} if limit.isdecimal() else {}), "stats": {}}}


def _accepted(method: str, answer: DockerdAnswer) -> DockerdAnswer:
    if answer.refusal:
        data = {"method": method, "code": "400", "details": answer.refusal}
        raise RuntimeCallError(f"fake answered 400: {answer.refusal}", where=method, data=data)
    return answer
