"""Which runtimes a machine has that somebody else set up: asked of what listens on the usual sockets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError
from memqos.model.node import CgroupDriver
from memqos.place.base import OciProgram, OfferedRuntime
from memqos.runtime.cri import CriRuntime, connect
from memqos.target.base import Target
from memqos.target.programs import version_in

__all__ = ["SOCKETS", "discovered", "offers_of"]

SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock")

_LISTENING = 'for socket; do [ ! -S "$socket" ] || echo "$socket"; done'

_ASKING = """\
[ -e "/run/$2" ] && was_there=yes
"$1" --version
status=$?
[ -n "$was_there" ] || rmdir "/run/$2" 2>/dev/null
exit $status
"""
"""crun makes the folder of its state when it is asked anything at all."""

_RUNC_SHIM = "io.containerd.runc.v2"


def discovered(target: Target, *, deadline: Deadline) -> Mapping[str, OfferedRuntime]:
    """The runtimes that answer, by name. EnvironmentNotAbleError if none does, MachineryError for one that hangs."""
    listening = target.run(["sh", "-c", _LISTENING, "sh", *SOCKETS], deadline=deadline)
    found: dict[str, OfferedRuntime] = {}
    for socket in listening.text.split():
        with target.forward(socket) as local, connect(local, name=socket, deadline=deadline) as runtime:
            for offer in _offers(target, runtime, socket, deadline=deadline):
                found.setdefault(offer.name, offer)
    if not found:
        raise EnvironmentNotAbleError(
            f"no container runtime listens on {' or '.join(SOCKETS)}.",
            where=target.address,
            next_step="Install and start one, such as containerd, and see that its CRI plugin is on.",
        )
    return found


def _offers(target: Target, runtime: CriRuntime, socket: str, *, deadline: Deadline) -> Iterator[OfferedRuntime]:
    """What this daemon has below it."""
    name = runtime.version(deadline=deadline).name
    configuration = runtime.configuration(deadline=deadline)
    handlers = offers_of(configuration)
    if not handlers and runtime.reported_driver is not None:
        handlers = {("runc", "runc", runtime.reported_driver): ""}
    hugetlb = configuration.get("disableHugetlbController") is not True
    by_program: dict[tuple[str, str], dict[CgroupDriver, str]] = {}
    for (program, path, driver), handler in handlers.items():
        by_program.setdefault((program, path), {}).setdefault(driver, handler)
    for (program, path), drivers in by_program.items():
        yield OfferedRuntime(
            name=f"{name}+{program}",
            socket=socket,
            handlers=drivers,
            oci=_oci_program(target, program, path, deadline=deadline),
            hugetlb=hugetlb,
        )


def _oci_program(target: Target, name: str, path: str, *, deadline: Deadline) -> OciProgram:
    """The program by what it says of itself, in its first line: "crun version 1.21"."""
    told = target.run(["sh", "-c", _ASKING, "sh", path, name], deadline=deadline)
    said = told.text.split()[0] if told.status == 0 and told.text.split() else name
    return OciProgram(name=said, version=(version_in(told.text) or "") if told.status == 0 else "")


def offers_of(configuration: Mapping[str, Any]) -> dict[tuple[str, str, CgroupDriver], str]:
    """The handlers in containerd's configuration: program, its path and cgroup driver to the handler's name.

    PURE. Of shims other than that of runc nothing is known. A program without a path of its own is found by its name,
    which is runc's unless it is said.
    """
    runtimes = configuration.get("containerd", {}).get("runtimes") or {}
    found: dict[tuple[str, str, CgroupDriver], str] = {}
    for handler, runtime in sorted(runtimes.items()):
        options = runtime.get("options") or {}
        if runtime.get("runtimeType") != _RUNC_SHIM:
            continue
        path = str(options.get("BinaryName") or "runc")
        driver = CgroupDriver.SYSTEMD if options.get("SystemdCgroup") is True else CgroupDriver.CGROUPFS
        found.setdefault((path.rpartition("/")[2], path, driver), handler)
    return found
