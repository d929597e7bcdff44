"""The adapter of directly driven OCI runtimes: bundles and the runtime's own commands, without a daemon.

memqos takes the place of a CRI runtime: it builds linux.resources from a request by the engine's translation, as the
newest containerd does, and remembers the requests so far. So the values in a container's cgroup come from the OCI
runtime alone. A sandbox is only a name: it has no process and no cgroup.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memqos.clock import Deadline
from memqos.engine.translate import oci as translate
from memqos.engine.translate.memory_policy import MemoryPolicy
from memqos.engine.translate.requested import OciRequest, UpdateInput
from memqos.engine.translate.resources import OciResources, OciTranslation
from memqos.engine.translate.runsc import as_read
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE
from memqos.engine.translate.versions import Traits
from memqos.errors import EnvironmentNotAbleError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.path import ROOT, CgroupPath
from memqos.runtime import oci_commands
from memqos.runtime.base import (
    CallRecorder,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    Mount,
    RecordedCalls,
    RuntimeVersion,
    SandboxHandle,
    SandboxSpec,
    Traces,
    keep_none,
)
from memqos.runtime.delegation import Delegation
from memqos.runtime.oci_commands import GONE, BundleFolders, SeenContainer, command_refusal
from memqos.runtime.oci_features import UNASKED, learn, need_driver, need_hierarchy
from memqos.target.base import CommandResult, Target

__all__ = ["OciRuntime"]

PREFIX = "memqos"
"""The prefix of scopes' names, like containerd's cri-containerd."""

_CAPABILITIES = tuple(
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
)  # fmt: skip
"""The capabilities that containerd and Docker leave to a root container."""

_NAMESPACES = ("pid", "ipc", "uts", "mount", "cgroup")
"""Without the network: no claim is about it, and removing its namespace takes the kernel long."""

_MOUNTS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("/proc", "proc", "proc", ("nosuid", "noexec", "nodev")),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/shm", "tmpfs", "shm", ("nosuid", "noexec", "nodev", "mode=1777", "size=65536k")),  # noqa: S108 - a place in the container
    ("/sys/fs/cgroup", "cgroup", "cgroup", ("nosuid", "noexec", "nodev", "relatime", "ro")),
)


def cgroups_path(parent: CgroupPath, container_id: str, driver: CgroupDriver, *, above: CgroupPath = ROOT) -> str:
    """`linux.cgroupsPath`: "SLICE:memqos:ID" for the systemd driver, a folder below the parent for cgroupfs.

    above: the cgroup below which the parent's path is; systemd's slices are below that of the systemd that is asked.
    """
    if driver is CgroupDriver.SYSTEMD:
        return f"{parent.name}:{PREFIX}:{container_id}"
    return str(CgroupPath((*above.parts, *parent.parts)).child(f"{PREFIX}-{container_id}"))


def bundle_config(
    *,
    args: Sequence[str],
    cgroups_path: str,
    resources: OciResources,
    oom_score_adj: int,
    mounts: Sequence[Mount] = (),
    annotations: Mapping[str, str] | None = None,
    memory_policy: MemoryPolicy | None = None,
    user: Delegation | None = None,
) -> dict[str, object]:
    """config.json of a container whose root file system is the bundle's folder `rootfs`.

    args: the program and its arguments. oom_score_adj: of its process, -1000 to 1000; always set, since a process would
    otherwise inherit the value of its parent. user: runs the runtime; None is root.
    """
    user_namespace = user.namespaces() if user else {}
    namespaces = (*(["user"] if user_namespace else []), *_NAMESPACES)
    resources_document: dict[str, object] = {"devices": [{"allow": False, "access": "rwm"}], **resources.document()}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(args),
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/",
            "capabilities": {kind: list(_CAPABILITIES) for kind in ("bounding", "effective", "permitted")},
            "noNewPrivileges": True,
            "oomScoreAdj": oom_score_adj,
        },
        "root": {"path": "rootfs"},
        "hostname": PREFIX,
        "mounts": [
            *(
                {"destination": place, "type": kind, "source": source, "options": list(options)}
                for place, kind, source, options in _MOUNTS
            ),
            *(_bind(mount) for mount in mounts),
        ],
        "annotations": dict(annotations or {}),
        "linux": {
            "cgroupsPath": cgroups_path,
            "resources": resources_document,
            "namespaces": [{"type": name} for name in namespaces],
            **user_namespace,
            **({} if memory_policy is None else {"memoryPolicy": memory_policy.document()}),
        },
    }


def _bind(mount: Mount) -> dict[str, object]:
    return {
        "destination": mount.container_path,
        "type": "bind",
        "source": mount.host_path,
        "options": ["rbind", "rprivate", "ro" if mount.readonly else "rw"],
    }


_STARTTIME = 19
"""The index of starttime among the fields of /proc/PID/stat after the state."""


class FirstProcesses:
    """The first process of each container on a target, and whether the runtime has reported it as running."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._made: dict[str, tuple[int, str | None]] = {}
        self._running: set[str] = set()

    def add(self, container: str, pid: int, *, deadline: Deadline) -> None:
        """A container was created; its first process waits to be started."""
        self._made[container] = (pid, self._birth(pid, deadline))

    def pid(self, container: str) -> int:
        """The first process of a created container."""
        return self._made[container][0]

    def said_to_run(self, container: str) -> None:
        """The runtime reported it as running."""
        self._running.add(container)

    def still_runs(self, container: str, *, deadline: Deadline) -> bool:
        """Whether the runtime reported it as running, and its first process lives."""
        if container not in self._running or container not in self._made:
            return False
        pid, born = self._made[container]
        return born is not None and born == self._birth(pid, deadline)

    def forget(self, container: str) -> None:
        """It was removed."""
        self._made.pop(container, None)
        self._running.discard(container)

    def _birth(self, pid: int, deadline: Deadline) -> str | None:
        stat = self._target.read(f"/proc/{pid}/stat", deadline=deadline)
        return None if stat is None else birth(stat.decode("utf-8", "replace"))


def birth(stat: str) -> str | None:
    """A process's start time in ticks since boot, from /proc/PID/stat (proc_pid_stat(5)); None if it has ended.

    Pids are reused, pairs of pid and start time are not. A zombie counts as ended.
    """
    state, *fields = stat.rpartition(")")[2].split() or [""]
    return None if state in {"", "Z", "X"} or len(fields) < _STARTTIME else fields[_STARTTIME - 1]


_PROBE = SandboxSpec(
    name="probe", namespace="memqos", uid="probe", cgroup_parent="/system.slice", log_directory="/var/log/memqos-probe"
)


class OciRuntime:
    """The Runtime port over an OCI runtime's command line on a target.

    program: "runc", "crun" or another file on the target. name: its name in reports. oci: its kind, which decides the
    request: fields that runsc does not read are not in its bundle. Several threads may use one.
    """

    def __init__(
        self,
        target: Target,
        *,
        program: str,
        driver: CgroupDriver,
        name: str = "",
        oci: Traits = TRIXIE.oci,
        record: CallRecorder = keep_none,
        delegation: Delegation | None = None,
    ) -> None:
        self._target = target
        self._delegation = delegation
        self._name = name or f"oci:{posixpath.basename(program)}"
        self._learned = UNASKED
        self._driver = driver
        self._oci = oci
        self._calls = RecordedCalls(record)
        self._places = BundleFolders(
            program=program,
            name=posixpath.basename(program),
            systemd=driver is CgroupDriver.SYSTEMD,
            options=oci_commands.OPTIONS.get(oci.runtime, ()),
            **oci_commands.folders_of(delegation),
        )
        self._asked: dict[str, OciResources] = {}
        self._first = FirstProcesses(target)

    @property
    def name(self) -> str:
        """Its name in reports: oci:runc."""
        return self._name

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All capabilities that are not specific to CRI or Docker, and those specific to crun and runsc."""
        found = oci_commands.able(self._oci, self._driver, self._learned)
        user = self._delegation
        return found - {Capability.CPUSET_MEMS} if user and "cpuset" not in user.controllers else found

    @property
    def delegation(self) -> Delegation | None:
        """The ordinary user that runs it; None for root."""
        return self._delegation

    def greet(self, *, deadline: Deadline) -> None:
        """Check that the target has what this adapter needs, and query what the runtime supports.

        Raises EnvironmentNotAbleError for what the target lacks, UsageError for a cgroup driver or a cgroup version
        that the runtime reports as unsupported.
        """
        self.version(deadline=deadline)
        self._learned = learn(self._target, self._places.program, deadline=deadline)
        need_driver(self._learned, self._driver, runtime=self._name)
        need_hierarchy(self._learned, self._hierarchy(deadline), runtime=self._name)
        if not self._oci.modelled:
            self._places = replace(self._places, takes_root=not self._learned.lacks("--root"), is_plain=True)
        if self._target.run(["sh", "-c", "command -v conmon"], deadline=deadline).status:
            raise EnvironmentNotAbleError(
                "conmon is not installed, but memqos needs it for the exit codes of containers.",
                where=self._target.address,
                next_step="Install Debian's package conmon on that machine.",
            )

    def _hierarchy(self, deadline: Deadline) -> CgroupVersion:
        seen = self._target.run(["test", "-e", "/sys/fs/cgroup/cgroup.controllers"], deadline=deadline)
        return CgroupVersion.V1 if seen.status else CgroupVersion.V2

    def version(self, *, deadline: Deadline) -> RuntimeVersion:
        """`--version`: name and version from its first line, and the version of the specification."""
        result = self._target.run([self._places.program, "--version"], deadline=deadline)
        found = oci_commands.version_of(result.text)
        if not result.status and found is not None:
            return found
        oci_commands.need_start(result, runtime=self._name, where=self._target.address)
        if self._oci.modelled:
            raise self._error("version", result)
        # The specification has no such option.
        return RuntimeVersion(name=self._places.name, version="", api_version="OCI")

    def subgroup(self, *, deadline: Deadline) -> str:
        """The cgroup below a systemd scope that holds a container's processes, "" for the scope itself.

        Found with a temporary container. RuntimeCallError if the runtime cannot create one, "" with cgroupfs.
        """
        programs = self._target.list(oci_commands.ROOTS, deadline=deadline)
        if self._driver is CgroupDriver.CGROUPFS or not programs:
            return ""
        sandbox = self.run_sandbox(_PROBE, deadline=deadline)
        spec = ContainerSpec(name="probe", image=f"memqos.local/{programs[0]}:1")
        try:
            made = self.create(sandbox, spec, deadline=deadline)
            lines = self._target.read(f"/proc/{self._first.pid(made.id)}/cgroup", deadline=deadline) or b""
        finally:
            self.remove_sandbox(sandbox, deadline=deadline)
        path = next((line[3:] for line in lines.decode().splitlines() if line.startswith("0::")), "")
        return path.partition(".scope/")[2]

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:  # noqa: ARG002 - nothing is run
        """Only names it: no process is needed for a pod whose containers share no network."""
        return SandboxHandle(id=uuid.uuid4().hex, spec=spec)

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        """Write a bundle and `create` from it."""
        asked = translate.oci_for_create(spec.resources, BUNDLES, hugetlb=self._has_hugetlb)
        return self._made(sandbox, spec, asked, deadline=deadline)

    def create_from(
        self, sandbox: SandboxHandle, spec: ContainerSpec, request: OciRequest, *, deadline: Deadline
    ) -> ContainerHandle:
        """The same with given linux.resources and annotations."""
        asked, policy = OciTranslation(resources=request.resources), request.memory_policy
        return self._made(
            sandbox, spec, asked, annotations=request.annotations, memory_policy=policy, deadline=deadline
        )

    def _made(
        self,
        sandbox: SandboxHandle,
        spec: ContainerSpec,
        translation: OciTranslation,
        *,
        annotations: Mapping[str, str] | None = None,
        memory_policy: MemoryPolicy | None = None,
        deadline: Deadline,
    ) -> ContainerHandle:
        program = oci_commands.program_of(spec.image)
        if program is None:
            raise command_refusal("create", "NOT_FOUND", f"there is no root file system of the image '{spec.image}'")
        container_id = uuid.uuid4().hex + uuid.uuid4().hex
        asked = self._read("create", translation)
        user, score = self._delegation, spec.resources.oom_score_adj
        folder = user.folders.log(sandbox.spec.log_directory) if user else sandbox.spec.log_directory
        log = posixpath.join(folder, spec.log or f"{spec.name}.log")
        parent = CgroupPath.parse(sandbox.spec.cgroup_parent)
        config = bundle_config(
            args=[*(spec.command or (f"/{program}",)), *spec.args],
            cgroups_path=cgroups_path(parent, container_id, self._driver, above=user.above if user else ROOT),
            resources=asked,
            # As containerd's restrict_oom_score_adj: the OCI runtimes fail with a score that cannot be set.
            oom_score_adj=max(score, user.score) if user else score,
            mounts=spec.mounts,
            annotations=annotations,
            memory_policy=memory_policy,
            user=user,
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
        self._must("start", container.id, [*self._places.command, "start", container.id], deadline=deadline)

    def update(self, container: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """`update --resources -` with everything requested so far, as containerd does."""
        before = self._asked.get(container.id, OciResources())
        asked = self._read("update", translate.oci_for_update(before, resources, BUNDLES, hugetlb=self._has_hugetlb))
        argv = [*self._places.command, "update", "--resources", "-", container.id]
        self._must("update", container.id, argv, deadline=deadline, document=asked.document())
        self._asked[container.id] = asked

    def update_with(self, container: ContainerHandle, request: OciRequest, *, deadline: Deadline) -> None:
        """`update` with only the named fields."""
        document = None if request.update_input is UpdateInput.OPTIONS else request.resources.document()
        file = f"{self._places.bundle(container.sandbox.id, container.id)}/update.json"
        if request.update_input is UpdateInput.FILE:
            self._target.write(file, json.dumps(document).encode(), deadline=deadline)
        argv = [*self._places.command, "update", *request.update_options(file), container.id]
        self._must("update", container.id, argv, deadline=deadline, document=document)
        self._asked[container.id] = request.resources.over(self._asked.get(container.id, OciResources()))

    def stats_event(self, container: ContainerHandle, *, deadline: Deadline) -> Mapping[str, object]:
        """`events --stats`."""
        argv = [*self._places.command, "events", "--stats", container.id]
        return oci_commands.stats_of(self._must("events", container.id, argv, deadline=deadline).text)

    def follow(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """`events`, with its output in the bundle."""
        argv = oci_commands.following(self._places, sandbox=container.sandbox.id, container=container.id)
        self._must("events", container.id, argv, deadline=deadline)

    def followed(self, container: ContainerHandle, *, deadline: Deadline) -> Sequence[str]:
        """The output of `events` so far; RuntimeCallError with its message if it failed."""
        argv = oci_commands.followed(self._places, sandbox=container.sandbox.id, container=container.id)
        return oci_commands.event_types(self._must("events", container.id, argv, deadline=deadline).text)

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
        """`state` until it reports running (valid while the first process lives); and conmon's record of an end."""
        if self._first.still_runs(container.id, deadline=deadline):
            return oci_commands.status_of(SeenContainer(state=ContainerState.RUNNING))
        argv = oci_commands.looking(self._places, sandbox=container.sandbox.id, container=container.id)
        result = self._run("state", container.id, argv, deadline=deadline)
        if result.status == GONE:
            raise command_refusal("state", "NOT_FOUND", f"there is no container '{container.id}'")
        if result.status:
            raise self._error("state", result)
        seen = oci_commands.seen(result.text)
        if seen.state is ContainerState.RUNNING:
            self._first.said_to_run(container.id)
        return oci_commands.status_of(seen)

    def traces(self, container: ContainerHandle, *, deadline: Deadline) -> Traces:  # noqa: ARG002 - no call is made
        """The bundle, which memqos wrote, and the runtime's files below its `--root`."""
        bundle = self._places.bundle(container.sandbox.id, container.id)
        return Traces(
            config=(f"{bundle}/config.json",),
            state=(f"{self._places.state}/{container.id}/state.json",),
            log=(f"{bundle}/conmon.out",),
        )

    def exec(
        self, container: ContainerHandle, argv: tuple[str, ...], *, deadline: Deadline
    ) -> tuple[int, bytes, bytes]:
        """`exec`; the runtime's own error messages are in the standard error."""
        entering = oci_commands.entering(self._places, container.id, argv)
        result = self._run("exec", container.id, entering, deadline=deadline)
        return result.status, result.stdout, result.stderr

    def stop(self, container: ContainerHandle, *, grace: int, deadline: Deadline) -> None:
        """`kill`: TERM, then KILL after `grace` seconds (0: KILL at once)."""
        argv = oci_commands.killing(self._places, sandbox=container.sandbox.id, container=container.id, grace=grace)
        self._must("kill", container.id, argv, deadline=deadline)

    def remove(self, container: ContainerHandle, *, deadline: Deadline) -> None:
        """`delete --force`, and removal of the bundle; a missing container is not an error."""
        self._must("delete", container.id, self._deleting(container.sandbox, container.id), deadline=deadline)
        self._asked.pop(container.id, None)
        self._first.forget(container.id)

    def remove_sandbox(self, sandbox: SandboxHandle, *, deadline: Deadline) -> None:
        """The same for every container left in it."""
        argv = oci_commands.deleting(self._places, sandbox=sandbox.id)
        self._must("delete", sandbox.id, argv, deadline=deadline)

    def close(self) -> None:
        """Nothing stays open."""

    @property
    def _has_hugetlb(self) -> bool:
        """Whether limits of huge pages are passed on.

        Where the controller is missing they are left out, as containerd does (tolerate_missing_hugetlb_controller).
        """
        return self._delegation is None or "hugetlb" in self._delegation.controllers

    def _read(self, method: str, translation: OciTranslation) -> OciResources:
        """The fields of a request that the program reads."""
        return oci_commands.accepted(method, as_read(translation, self._oci, self._driver))

    def _deleting(self, sandbox: SandboxHandle, container_id: str) -> list[str]:
        return oci_commands.deleting(self._places, sandbox=sandbox.id, container=container_id)

    def _must(
        self, method: str, about: str, argv: Sequence[str], *, deadline: Deadline, document: object = None
    ) -> CommandResult:
        result = self._run(method, about, argv, deadline=deadline, document=document)
        if result.status:
            raise self._error(method, result)
        return result

    def _run(
        self, method: str, about: str, argv: Sequence[str], *, deadline: Deadline, document: object = None
    ) -> CommandResult:
        """One command, with its record: input and result."""
        said = {} if document is None else {"document": document}
        stdin = b"" if document is None else json.dumps(document).encode()
        with self._calls.call(method, {"id": about, "argv": list(argv), **said}, deadline) as call:
            result = self._target.run(argv, deadline=deadline, stdin=stdin)
            call.reply = oci_commands.answer(result)
        return result

    def _error(self, method: str, result: CommandResult) -> RuntimeCallError:
        return command_refusal(method, f"status {result.status}", f"{self._name}: {oci_commands.words_of(result)}")
