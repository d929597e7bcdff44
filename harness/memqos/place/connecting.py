"""A runtime of a place: over CRI or Docker's API, whose socket is forwarded, or by its own commands on the target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from memqos.clock import Deadline
from memqos.engine.translate.versions import DRIVEN_DIRECTLY, RuntimeName, traits_of_program
from memqos.errors import UnfitFileError
from memqos.model.node import CgroupDriver
from memqos.place.base import OfferedRuntime, RequestRecorder
from memqos.runtime import cri, docker
from memqos.runtime.base import Runtime
from memqos.runtime.oci import OciRuntime
from memqos.runtime.oci_commands import ROOTS
from memqos.target.attended import attended
from memqos.target.base import Target, checked

__all__ = ["CONTAINERD_SOCKET", "MACHINE_LOGS", "runtime_connected"]

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
}


CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


@contextlib.contextmanager
def runtime_connected(
    target: Target, offer: OfferedRuntime, driver: CgroupDriver, *, record: RequestRecorder, deadline: Deadline
) -> Iterator[Runtime]:
    """The runtime, as `Place.connect` gives it; the offer has a handler for the driver."""
    if offer.is_direct:
        oci = traits_of_program(offer.oci.name, offer.oci.version, DRIVEN_DIRECTLY)
        with attended(target) as near:
            direct = OciRuntime(near, program=offer.handlers[driver], driver=driver, oci=oci, record=record)
            direct.greet(deadline=deadline)
            yield direct
        return
    if offer.oci.name == RuntimeName.RUNSC:
        raise UnfitFileError(
            f"the program below {offer.name} is runsc, which containerd, CRI-O and Docker do not run like runc.",
            where="--runtime-binary",
            next_step=f"Drive it directly: --runtime oci:{offer.name.rpartition('+')[2]}.",
        )
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
    """Make images of the root file systems that the target has for programs of ours, where the engine has none."""
    for program in target.list(ROOTS, deadline=deadline) or ():
        image = f"memqos.local/{program}:1"
        if not engine.has_image(image, deadline=deadline):
            packed = target.run(["tar", "--create", "--directory", f"{ROOTS}/{program}", "."], deadline=deadline)
            root = checked(packed, where=target.address).stdout
            engine.import_image(image, program, root, deadline=deadline)
