"""An OCI runtime in memory over a fake cgroup tree: the fake runtime, asked in the words of bundles as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memqos.clock import Deadline
from memqos.engine.translate.requested import OciRequest
from memqos.engine.translate.systemd import files_of_properties
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime.base import Capability, ContainerHandle, ContainerSpec, SandboxHandle
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.oci_answers import able

__all__ = ["FakeOciRuntime"]


class FakeOciRuntime(FakeRuntime):
    """The Runtime port in memory as an OCI runtime keeps it that is driven directly."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bundles: dict[str, OciRequest] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        """As the adapter's."""
        return able(self._runtimes.oci, self._host.driver)

    def create_from(
        self,
        sandbox: SandboxHandle,
        spec: ContainerSpec,
        request: OciRequest,
        *,
        deadline: Deadline,  # noqa: ARG002
    ) -> ContainerHandle:
        """Make a container of this bundle."""
        handle = self._made(sandbox, spec, ContainerResources(), request.resources)
        self._bundles[handle.id] = request
        return handle

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """Start it, in a unit with the properties that its annotations ask for."""
        request = self._bundles.get(container.id, OciRequest())
        if request.unit_properties and self._host.driver is CgroupDriver.SYSTEMD:
            unit = self._known(container, "start").cgroup
            self._cgroups.make(unit)
            for name, text in files_of_properties(request.unit_properties).items():
                self._cgroups.put(unit, name, text)
        super().start(container, deadline=deadline)

    def update_with(self, container: ContainerHandle, request: OciRequest, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Write what is named, unless less is allowed than is used and that was to be seen to."""
        known = self._known(container, "update")
        asked = request.resources
        used = int(self._cgroups.text(known.cgroup, "memory.current"))
        if asked.check_before_update and asked.memory_limit is not None and asked.memory_limit <= used:
            details = f"rejecting memory limit {asked.memory_limit} <= usage {used}"
            data = {"method": "update", "code": "status 1", "details": details}
            raise RuntimeCallError(f"fake answered: {details}", where="update", data=data)
        self.write_as_oci("update", known.cgroup, asked, known.specification)
        known.specification = asked.over(known.specification)

    def stats_event(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:  # noqa: ARG002
        """What the files of its cgroup show, as runc tells it."""
        cgroup = self._known(container, "events").cgroup
        limit = self._cgroups.text(cgroup, "memory.max").strip()
        usage = int(self._cgroups.text(cgroup, "memory.current"))
        return {
            "memory": {"usage": {"usage": usage, **({"limit": int(limit)} if limit.isdecimal() else {})}, "raw": {}}
        }

    def follow(self, container: ContainerHandle, *, deadline: Deadline) -> None:  # noqa: ARG002
        """Nothing happens here that is not seen."""
        self._known(container, "events")

    def followed(self, container: ContainerHandle, *, deadline: Deadline) -> Sequence[str]:  # noqa: ARG002
        """An OOM kill, if that is how it ended."""
        return ["oom"] if self._known(container, "events").reason == "OOMKilled" else []
