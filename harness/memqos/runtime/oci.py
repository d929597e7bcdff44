"""The adapter of OCI runtimes that are driven directly: bundles and the runtime's own commands, with no daemon between.

memqos does what a CRI runtime would: it makes linux.resources of a request by the engine's translation, as the newest
containerd does, and remembers what was asked for so far. So what a container's cgroup shows is the OCI runtime's own
doing. A sandbox is a name alone: it has no process and no cgroup.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from collections.abc import Mapping, Sequence

from memqos.clock import Deadline
from memqos.engine.translate import oci as translate
from memqos.engine.translate.requested import OciRequest, ToldBy
from memqos.engine.translate.resources import OciResources, OciTranslation
from memqos.engine.translate.runsc import as_read
from memqos.engine.translate.versions import BUNDLES, TRIXIE, Traits
from memqos.errors import EnvironmentNotAbleError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.runtime import oci_answers, oci_commands
from memqos.runtime.base import (
    CallRecorder,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    RuntimeVersion,
    SandboxHandle,
    SandboxSpec,
    Traces,
    keep_none,
)
from memqos.runtime.bundle import bundle_config, cgroups_path
from memqos.runtime.oci_answers import command_refusal
from memqos.runtime.oci_commands import GONE, BundleFolders, SeenContainer
from memqos.runtime.oci_processes import FirstProcesses
from memqos.runtime.recorded import RecordedCalls
from memqos.target.base import CommandResult, Target

__all__ = ["OciRuntime"]


class OciRuntime:
    """The Runtime port over an OCI runtime's command line on a target.

    program: "runc", "crun" or another file on the target that keeps to runc's commands. oci: what it is, by which the
    request is made: of what runsc does not read nothing is in its bundle. Several threads may use one.
    """

    def __init__(
        self,
        target: Target,
        *,
        program: str,
        driver: CgroupDriver,
        oci: Traits = TRIXIE.oci,
        record: CallRecorder = keep_none,
    ) -> None:
        self._target = target
        self._name = f"oci:{posixpath.basename(program)}"
        self._driver = driver
        self._oci = oci
        self._calls = RecordedCalls(record)
        self._places = BundleFolders(
            program=program,
            name=posixpath.basename(program),
            systemd=driver is CgroupDriver.SYSTEMD,
            options=oci_answers.OPTIONS.get(oci.runtime, ()),
        )
        self._asked: dict[str, OciResources] = {}
        self._first = FirstProcesses(target)

    @property
    def name(self) -> str:
        """How reports call it: oci:runc."""
        return self._name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that is not CRI's or Docker's alone, and of crun and runsc what they can."""
        return oci_answers.able(self._oci, self._driver)

    def greet(self, *, deadline: Deadline) -> None:
        """See that the target has what this adapter needs; EnvironmentNotAbleError naming what it has not."""
        self.version(deadline=deadline)
        if self._target.run(["sh", "-c", "command -v conmon"], deadline=deadline).status:
            raise EnvironmentNotAbleError(
                "conmon is not there, which keeps the exit codes of containers.",
                where=self._target.address,
                next_step="Install Debian's package conmon on that machine.",
            )

    def version(self, *, deadline: Deadline) -> RuntimeVersion:
        """`--version`: name and version of its first line, and the version of the specification it keeps."""
        result = self._target.run([self._places.program, "--version"], deadline=deadline)
        found = oci_answers.version_of(result.text)
        if result.status or found is None:
            raise self._error("version", result)
        return found

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:  # noqa: ARG002 - nothing is run
        """Name it: no process holds anything for a pod whose containers share no network."""
        return SandboxHandle(id=uuid.uuid4().hex, spec=spec)

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """Write a bundle and `create` from it."""
        return self._made(
            sandbox, spec, translate.oci_for_create(spec.resources, BUNDLES, hugetlb=True), deadline=deadline
        )

    def create_from(
        self, sandbox: SandboxHandle, spec: ContainerSpec, request: OciRequest, *, deadline: Deadline
    ) -> ContainerHandle:
        """The same of linux.resources and annotations as they are."""
        asked = OciTranslation(resources=request.resources)
        return self._made(sandbox, spec, asked, annotations=request.annotations, deadline=deadline)

    def _made(
        self,
        sandbox: SandboxHandle,
        spec: ContainerSpec,
        translation: OciTranslation,
        *,
        annotations: Mapping[str, str] | None = None,
        deadline: Deadline,
    ) -> ContainerHandle:
        program = oci_commands.program_of(spec.image)
        if program is None:
            raise command_refusal("create", "NOT_FOUND", f"there is no root file system of the image '{spec.image}'")
        container_id = uuid.uuid4().hex + uuid.uuid4().hex
        asked = self._read("create", translation)
        log = posixpath.join(sandbox.spec.log_directory, spec.log or f"{spec.name}.log")
        config = bundle_config(
            args=[*(spec.command or (f"/{program}",)), *spec.args],
            cgroups_path=cgroups_path(CgroupPath.parse(sandbox.spec.cgroup_parent), container_id, self._driver),
            resources=asked,
            oom_score_adj=spec.resources.oom_score_adj,
            mounts=spec.mounts,
            annotations=annotations,
        )
        argv = oci_commands.making(self._places, sandbox=sandbox.id, container=container_id, program=program, log=log)
        result = self._run("create", container_id, argv, deadline=deadline, document=config)
        if result.status or not result.text.strip():
            raise self._error("create", result)
        pid, words = oci_commands.conmon_answer(result.text)
        if not pid:
            self._run("delete", container_id, self._deleting(sandbox, container_id), deadline=deadline)
            raise command_refusal("create", "REFUSED", f"{self._name} {words}")
        self._asked[container_id] = asked
        self._first.add(container_id, pid, deadline=deadline)
        return ContainerHandle(id=container_id, name=spec.name, sandbox=sandbox, log_path=log)

    def start(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """`start`."""
        self._must("start", container, [*self._places.command, "start", container.id], deadline=deadline)

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """`update --resources -` with all that was asked for so far, as containerd does."""
        before = self._asked.get(container.id, OciResources())
        asked = self._read("update", translate.oci_for_update(before, resources, BUNDLES, hugetlb=True))
        argv = [*self._places.command, "update", "--resources", "-", container.id]
        self._must("update", container, argv, deadline=deadline, document=asked.document())
        self._asked[container.id] = asked

    def update_with(self, container: ContainerHandle, request: OciRequest, *, deadline: Deadline) -> None:
        """`update` with what is named alone."""
        document = None if request.told_by is ToldBy.OPTIONS else request.resources.document()
        file = f"{self._places.bundle(container.sandbox.id, container.id)}/update.json"
        if request.told_by is ToldBy.FILE:
            self._target.write(file, json.dumps(document).encode(), deadline=deadline)
        argv = [*self._places.command, "update", *request.told(file), container.id]
        self._must("update", container, argv, deadline=deadline, document=document)
        self._asked[container.id] = request.resources.over(self._asked.get(container.id, OciResources()))

    def stats_event(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """`events --stats`."""
        argv = [*self._places.command, "events", "--stats", container.id]
        return oci_answers.stats_of(self._must("events", container, argv, deadline=deadline).text)

    def follow(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """`events`, with its output in the bundle."""
        argv = oci_commands.following(self._places, sandbox=container.sandbox.id, container=container.id)
        self._must("events", container, argv, deadline=deadline)

    def followed(self, container: ContainerHandle, *, deadline: Deadline) -> Sequence[str]:
        """What `events` wrote there until now; RuntimeCallError with its words if it failed."""
        argv = oci_commands.followed(self._places, sandbox=container.sandbox.id, container=container.id)
        return oci_answers.event_types(self._must("events", container, argv, deadline=deadline).text)

    def update_sandbox(
        self,
        sandbox: SandboxHandle,
        *,
        overhead: ContainerResources,  # noqa: ARG002 - a sandbox is a name alone
        resources: ContainerResources,  # noqa: ARG002
        deadline: Deadline,  # noqa: ARG002
    ) -> None:
        """No command of an OCI runtime is about pods."""
        raise command_refusal(
            "UpdatePodSandboxResources", "UNIMPLEMENTED", f"{self._name} knows no sandbox {sandbox.id}"
        )

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:
        """`state` until it says running, which holds while the first process lives; and what conmon kept of an end."""
        if self._first.still_runs(container.id, deadline=deadline):
            return oci_answers.status_of(SeenContainer(state=ContainerState.RUNNING))
        argv = oci_commands.looking(self._places, sandbox=container.sandbox.id, container=container.id)
        result = self._run("state", container.id, argv, deadline=deadline)
        if result.status == GONE:
            raise command_refusal("state", "NOT_FOUND", f"there is no container '{container.id}'")
        if result.status:
            raise self._error("state", result)
        seen = oci_commands.seen(result.text)
        if seen.state is ContainerState.RUNNING:
            self._first.said_to_run(container.id)
        return oci_answers.status_of(seen)

    def traces(self, container: ContainerHandle, *, deadline: Deadline) -> Traces:  # noqa: ARG002 - nobody is asked
        """The bundle, which memqos wrote, and what the runtime keeps below its `--root`."""
        bundle = self._places.bundle(container.sandbox.id, container.id)
        return Traces(
            config=(f"{bundle}/config.json",),
            state=(f"{self._places.state}/{container.id}/state.json",),
            log=(f"{bundle}/conmon.out",),
        )

    def exec(
        self, container: ContainerHandle, argv: tuple[str, ...], *, deadline: Deadline
    ) -> tuple[int, bytes, bytes]:
        """`exec`; what the runtime itself says of a failure is in the standard error."""
        result = self._run(
            "exec", container.id, oci_commands.entering(self._places, container.id, argv), deadline=deadline
        )
        return result.status, result.stdout, result.stderr

    def stop(self, container: ContainerHandle, *, grace: int, deadline: Deadline) -> None:
        """`kill`: TERM, then KILL after `grace` seconds (0: KILL at once)."""
        argv = oci_commands.killing(self._places, sandbox=container.sandbox.id, container=container.id, grace=grace)
        self._must("kill", container, argv, deadline=deadline)

    def remove(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """`delete --force`, and the bundle; one that is gone is no error."""
        self._must("delete", container, self._deleting(container.sandbox, container.id), deadline=deadline)
        self._asked.pop(container.id, None)
        self._first.forget(container.id)

    def remove_sandbox(self, sandbox: SandboxHandle, *, deadline: Deadline) -> None:
        """The same for all that is left in it."""
        argv = oci_commands.deleting(self._places, sandbox=sandbox.id)
        result = self._run("delete", sandbox.id, argv, deadline=deadline)
        if result.status:
            raise self._error("delete", result)

    def close(self) -> None:
        """Nothing is held open."""

    def _read(self, method: str, translation: OciTranslation) -> OciResources:
        """What of a request the program reads."""
        return oci_answers.accepted(method, as_read(translation, self._oci, self._driver))

    def _deleting(self, sandbox: SandboxHandle, container_id: str) -> list[str]:
        return oci_commands.deleting(self._places, sandbox=sandbox.id, container=container_id)

    def _must(
        self,
        method: str,
        container: ContainerHandle,
        argv: Sequence[str],
        *,
        deadline: Deadline,
        document: object = None,
    ) -> CommandResult:
        result = self._run(method, container.id, argv, deadline=deadline, document=document)
        if result.status:
            raise self._error(method, result)
        return result

    def _run(
        self, method: str, about: str, argv: Sequence[str], *, deadline: Deadline, document: object = None
    ) -> CommandResult:
        """One command, with its record: what was asked for and what came back."""
        said = {} if document is None else {"document": document}
        stdin = b"" if document is None else json.dumps(document).encode()
        with self._calls.call(method, {"id": about, "argv": list(argv), **said}, deadline) as call:
            result = self._target.run(argv, deadline=deadline, stdin=stdin)
            call.reply = oci_answers.answer(result)
        return result

    def _error(self, method: str, result: CommandResult) -> RuntimeCallError:
        said = (result.error_text.strip() or result.text.strip())[-600:]
        return command_refusal(method, f"status {result.status}", f"{self._name}: {said or 'it gave no reason'}")
