"""Finds the runtimes of a machine that memqos did not set up, by asking the servers on the usual sockets.

Also connects to a runtime: over a forwarded CRI or Docker socket, or by the runtime's own commands on the target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memqos.clock import Deadline
from memqos.engine.translate.versions import DRIVEN_DIRECTLY, RuntimeName, traits_of_program
from memqos.errors import EnvironmentNotAbleError, MachineryError, RuntimeCallError, UnfitFileError, UsageError
from memqos.model.node import CgroupDriver
from memqos.place.base import OciProgram, OfferedRuntime, RequestRecorder
from memqos.runtime import cri, docker
from memqos.runtime.base import Runtime, keep_none
from memqos.runtime.cri import CriRuntime, connect
from memqos.runtime.cri_wire import default_handler
from memqos.runtime.docker import DockerRuntime
from memqos.runtime.docker_wire import cgroup_driver_of
from memqos.runtime.oci import OciRuntime
from memqos.runtime.oci_commands import ROOTS
from memqos.runtime.oci_features import learn, need_driver
from memqos.target.attended import attended
from memqos.target.base import Target, checked, version_in

__all__ = [
    "CONTAINERD_SOCKET",
    "CRIO_SOCKET",
    "MACHINE_LOGS",
    "SOCKETS",
    "default_program",
    "discovered",
    "listening",
    "nothing_listens",
    "oci_program",
    "offers_of",
    "runtime_connected",
    "served_at",
    "with_subgroup",
]

CRIO_SOCKET = "/run/crio/crio.sock"
DOCKER_SOCKET = "/run/docker.sock"
SOCKETS = ("/run/containerd/containerd.sock", CRIO_SOCKET)

ALIVE_SECONDS = 20.0

LISTENING_SCRIPT = 'for socket; do [ ! -S "$socket" ] || echo "$socket"; done'

_ASKING = """\
[ -e "/run/$2" ] && was_there=yes
"$1" --version
status=$?
[ -n "$was_there" ] || rmdir "/run/$2" 2>/dev/null
exit $status
"""
"""crun creates its state folder even for --version."""

_CALLED = {"cri-o": "crio"}
"""Usual names of daemons that report another spelling."""

_RUNC_SHIM = "io.containerd.runc.v2"


def discovered(
    target: Target, *, first: str = "", engine: bool = False, direct: Sequence[str] = (), deadline: Deadline
) -> Mapping[str, OfferedRuntime]:
    """The runtimes that answer, by name; a server on the first socket has precedence.

    engine: whether to ask the Docker Engine too. direct: OCI runtimes to look for in the machine's PATH, which need no
    server.

    Raises EnvironmentNotAbleError if there is none, MachineryError for one that hangs.
    """
    sockets = (*([first] if first else []), *SOCKETS)
    found: dict[str, OfferedRuntime] = {}
    for socket in listening(target, *sockets, deadline=deadline):
        with target.forward(socket) as local, connect(local, name=socket, deadline=deadline) as runtime:
            for offer in _offers(target, runtime, socket, deadline=deadline):
                found.setdefault(offer.name, offer)
    if engine:
        sockets = (*sockets, DOCKER_SOCKET)
        for socket in listening(target, DOCKER_SOCKET, deadline=deadline):
            found.update({offer.name: offer for offer in _below_docker(target, socket, deadline=deadline)})
    found.update({offer.name: offer for offer in _alone(target, direct, deadline=deadline)})
    if not found and direct:
        raise _not_installed(target, direct)
    if not found:
        raise nothing_listens(target, sockets)
    return found


def _alone(target: Target, names: Sequence[str], *, deadline: Deadline) -> Iterator[OfferedRuntime]:
    """Those of these OCI runtimes that the machine has, each driven without a server."""
    for name in names:
        path = target.run(["sh", "-c", 'command -v "$1"', "sh", name], deadline=deadline).text.strip()
        if path.startswith("/"):
            program = replace(oci_program(target, name, path, deadline=deadline), place=path)
            handlers = dict.fromkeys(CgroupDriver, path)
            yield OfferedRuntime(name=f"oci:{name}", socket="", handlers=handlers, oci=program)


def _not_installed(target: Target, names: Sequence[str]) -> EnvironmentNotAbleError:
    return EnvironmentNotAbleError(
        f"it has no program {' or '.join(names)}.", where=target.address, next_step="Install it in its PATH."
    )


def listening(target: Target, *sockets: str, deadline: Deadline) -> tuple[str, ...]:
    """The existing ones of these sockets."""
    return tuple(target.run(["sh", "-c", LISTENING_SCRIPT, "sh", *sockets], deadline=deadline).text.split())


def nothing_listens(target: Target, sockets: Iterable[str]) -> EnvironmentNotAbleError:
    """The error of a machine without a container runtime."""
    return EnvironmentNotAbleError(
        f"no container runtime listens on {' or '.join(sockets)}.",
        where=target.address,
        next_step="Install and start one, such as containerd, and check that its CRI plugin is enabled.",
    )


def _below_docker(target: Target, socket: str, *, deadline: Deadline) -> Iterator[OfferedRuntime]:
    """The Docker Engine's OCI runtimes, under its single cgroup driver."""
    with target.forward(socket) as local:
        asked = DockerRuntime(local, name="docker", oci_runtime="", driver=CgroupDriver.SYSTEMD, record=keep_none)
        info = asked.info(deadline=deadline)
    driver = next((one for one in CgroupDriver if one == cgroup_driver_of(info)), None)
    if driver is None:
        return
    seen: set[str] = set()
    for name, runtime in sorted((info.get("Runtimes") or {}).items()):
        path = str(runtime.get("path") or "")
        program = path.rpartition("/")[2]
        if program and program not in seen:
            seen.add(program)
            yield OfferedRuntime(
                name=f"docker+{program}",
                socket="",
                docker_sockets={driver: socket},
                handlers={driver: name},
                oci=oci_program(target, program, path, deadline=deadline),
                hugetlb=False,
            )


def served_at(
    target: Target, socket: str, *, handlers: Mapping[str, str], deadline: Deadline
) -> Mapping[str, OfferedRuntime]:
    """The runtimes of the server on the socket of --cri-socket, by name.

    handlers: requested handlers, by the names that they get.

    Raises UnfitFileError for a missing socket, and for one without a CRI server within the deadline.
    """
    if target.run(["test", "-S", socket], deadline=deadline).status != 0:
        raise UnfitFileError(
            f"the machine has no socket '{socket}'.",
            where="--cri-socket",
            next_step="Install a daemon that listens there with --guest-file and --guest-unit.",
        )
    try:
        with target.forward(socket) as local, connect(local, name=socket, deadline=deadline) as runtime:
            found = {offer.name: offer for offer in _offers(target, runtime, socket, deadline=deadline)}
            for name, handler in handlers.items():
                offer = _by_handler(target, runtime, socket, handler, deadline=deadline)
                found[name] = replace(offer, name=name)
    except MachineryError as error:
        # The machine itself may be the cause.
        checked(target.run(["true"], deadline=Deadline.after(ALIVE_SECONDS)), where=target.address)
        raise UnfitFileError(
            f"the server on '{socket}' does not serve CRI v1: {error.what.splitlines()[0]}",
            where="--cri-socket",
            next_step="Read its log with `memqos vm shell` and the same options.",
        ) from error
    return found


def _by_handler(
    target: Target, runtime: CriRuntime, socket: str, handler: str, *, deadline: Deadline
) -> OfferedRuntime:
    """A requested handler; the server reports its program and driver, or only its driver, or neither (then any)."""
    configuration = runtime.configuration(deadline=deadline)
    known = [entry for entry, one in handlers_of(configuration) if one == handler]
    program, path, driver = known[0] if known else (handler, handler, runtime.reported_driver)
    return OfferedRuntime(
        name=handler,
        socket=socket,
        handlers=dict.fromkeys(CgroupDriver if driver is None else [driver], handler),
        oci=oci_program(target, program, path, deadline=deadline),
        hugetlb=configuration.get("disableHugetlbController") is not True,
    )


def _offers(target: Target, runtime: CriRuntime, socket: str, *, deadline: Deadline) -> Iterator[OfferedRuntime]:
    """The OCI runtimes of this daemon."""
    said = runtime.version(deadline=deadline).name
    name = _CALLED.get(said, said)
    configuration = runtime.configuration(deadline=deadline)
    handlers = offers_of(configuration)
    if not handlers and runtime.reported_driver is not None:
        names = runtime.handlers(deadline=deadline)
        handlers = {(name, name, runtime.reported_driver): name for name in names}
        handlers = handlers or {("runc", "runc", runtime.reported_driver): ""}
    hugetlb = configuration.get("disableHugetlbController") is not True
    by_program: dict[tuple[str, str], dict[CgroupDriver, str]] = {}
    for (program, path, driver), handler in handlers.items():
        by_program.setdefault((program, path), {}).setdefault(driver, handler)
    for (program, path), drivers in by_program.items():
        yield OfferedRuntime(
            name=f"{name}+{program}",
            socket=socket,
            handlers=drivers,
            oci=oci_program(target, program, path, deadline=deadline),
            hugetlb=hugetlb,
        )


def oci_program(target: Target, name: str, path: str, *, deadline: Deadline) -> OciProgram:
    """The program in the first line of its version output: "crun version 1.21"."""
    told = target.run(["sh", "-c", _ASKING, "sh", path, name], deadline=deadline)
    said = told.text.split()[0] if told.status == 0 and told.text.split() else name
    return OciProgram(name=said, version=(version_in(told.text) or "") if told.status == 0 else "")


def with_subgroup(target: Target, program: OciProgram, *, deadline: Deadline) -> OciProgram:
    """An OCI runtime with the cgroup in which it keeps processes, if it is not modelled: found with a test container.

    The specification does not define that cgroup. A runtime that creates no container there, or has no systemd driver,
    is left as it is.
    """
    oci = traits_of_program(program.name, program.version, DRIVEN_DIRECTLY)
    if oci.modelled:
        return program
    runtime = OciRuntime(target, program=program.place, driver=CgroupDriver.SYSTEMD, oci=oci)
    with contextlib.suppress(RuntimeCallError, UsageError, EnvironmentNotAbleError):
        runtime.greet(deadline=deadline)
        return replace(program, below=runtime.subgroup(deadline=deadline))
    return program


def default_program(configuration: Mapping[str, Any]) -> tuple[str, str]:
    """The default runtime's program and path in containerd's configuration; "" if it names none.

    PURE.
    """
    default = default_handler(configuration) or "runc"
    for (program, path, _), handler in handlers_of(configuration):
        if handler == default:
            return program, path
    return "", ""


def offers_of(configuration: Mapping[str, Any]) -> dict[tuple[str, str, CgroupDriver], str]:
    """The handlers in containerd's configuration: program, its path and cgroup driver to the first handler's name.

    PURE.
    """
    found: dict[tuple[str, str, CgroupDriver], str] = {}
    for entry, handler in handlers_of(configuration):
        found.setdefault(entry, handler)
    return found


def handlers_of(configuration: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, CgroupDriver], str]]:
    """Every handler in containerd's configuration with its program, that one's path and its cgroup driver.

    PURE. Only runc's shim is known. A program without a configured path is found by its name, runc by default.
    """
    runtimes = configuration.get("containerd", {}).get("runtimes") or {}
    for handler, runtime in sorted(runtimes.items()):
        options = runtime.get("options") or {}
        if runtime.get("runtimeType") != _RUNC_SHIM:
            continue
        path = str(options.get("BinaryName") or "runc")
        driver = CgroupDriver.SYSTEMD if options.get("SystemdCgroup") is True else CgroupDriver.CGROUPFS
        yield (path.rpartition("/")[2], path, driver), handler


_CGROUP_DUMP = """\
cd /sys/fs/cgroup && grep -rsH '' --include='memory.*' --include='cpu.weight' --include='cpu.max' \
  --include='cpu.shares' --include='cpu.cfs_*' --include='pids.max' --include='cpuset.*' --include='cgroup.procs' \
  -- */ | head -c 2000000
"""

MACHINE_LOGS: Mapping[str, tuple[str, ...]] = {
    "dmesg.txt": ("sh", "-c", "dmesg | tail -n 200"),
    "containerd.txt": ("journalctl", "--no-pager", "--unit", "containerd", "--lines", "200"),
    "docker.txt": ("journalctl", "--no-pager", "--unit", "memqos-docker@*", "--unit", "docker", "--lines", "200"),
    "cgroups.txt": ("sh", "-c", _CGROUP_DUMP),
    "kubelet.txt": ("sh", "-c", "tail -c 500000 /run/memqos/kubelet/kubelet.log 2>/dev/null || true"),
    "kubelet-config.json": ("sh", "-c", "cat /run/memqos/kubelet/config.json 2>/dev/null || true"),
}


CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


@contextlib.contextmanager
def runtime_connected(
    target: Target, offer: OfferedRuntime, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
) -> Iterator[Runtime]:
    """Connect to a runtime, see `Place.connect`; the offer has a handler for the driver."""
    if offer.is_direct:
        oci = traits_of_program(offer.oci.name, offer.oci.version, DRIVEN_DIRECTLY)
        with attended(target) as near:
            direct = OciRuntime(
                near, program=offer.handlers[driver], driver=driver, name=offer.name, oci=oci, record=record
            )
            direct.greet(deadline=deadline)
            yield direct
        return
    if offer.oci.name == RuntimeName.RUNSC:
        raise UnfitFileError(
            f"the program below {offer.name} is runsc, which containerd, CRI-O and Docker do not run like runc.",
            where="--runtime-binary",
            next_step=f"Drive it directly: --runtime oci:{offer.name.rpartition('+')[2]}.",
        )
    if offer.oci.place:
        learned = learn(target, offer.oci.place, deadline=deadline)
        need_driver(learned, driver, runtime=offer.name)
    handler = offer.handlers[driver]
    if offer.docker_sockets:
        with (
            target.forward(offer.docker_sockets[driver]) as socket,
            docker.connect_docker(
                socket, name=offer.name, oci_runtime=handler, driver=driver, record=record, deadline=deadline
            ) as engine,
        ):
            bring_docker_images(target, engine, deadline=deadline)
            yield engine
        return
    with (
        target.forward(offer.socket) as socket,
        cri.connect(socket, name=offer.name, handler=handler, record=record, deadline=deadline) as runtime,
    ):
        yield runtime


def bring_docker_images(target: Target, engine: docker.DockerRuntime, *, deadline: Deadline) -> None:
    """Import images for memqos's programs from the target's root file systems, if the engine lacks them."""
    for program in target.list(ROOTS, deadline=deadline) or ():
        image = f"memqos.local/{program}:1"
        if not engine.has_image(image, deadline=deadline):
            packed = target.run(["tar", "--create", "--directory", f"{ROOTS}/{program}", "."], deadline=deadline)
            root = checked(packed, where=target.address).stdout
            engine.import_image(image, program, root, deadline=deadline)
