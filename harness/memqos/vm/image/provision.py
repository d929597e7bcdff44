"""The first boot of a new image: the container images go into the guest's own store, and the guest says what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from memqos.clock import Deadline
from memqos.model.topology import Topology, Zone
from memqos.target.base import Target, checked
from memqos.vm.cache import entry
from memqos.vm.cache.store import Cache
from memqos.vm.guest.facts import kernel_config_of, packages_of, versions_of
from memqos.vm.host.programs import Qemu
from memqos.vm.host.progress import Progress
from memqos.vm.image.container_image import container_image
from memqos.vm.profile import Profile
from memqos.vm.qemu.launch import Ingredients, launch
from memqos.vm.qemu.spec import Accelerator

__all__ = ["provision"]

PROBES = "/usr/lib/memqos"
"""Where the guest has programs of ours that run beside its containers."""

ROOTS = "/var/lib/memqos/rootfs"
"""Where it has the root file systems of containers that an OCI runtime makes without a daemon, by program."""

PROVISION_SECONDS = 300

TOPOLOGY = Topology(name="provisioning", cpus=2, zones=(Zone(id=0, memory_bytes=1 << 30, cpus=(0, 1)),))


def provision(
    profile: Profile,
    *,
    folder: Path,
    programs: Mapping[str, bytes],
    probes: Mapping[str, bytes],
    qemu: Qemu,
    accelerator: Accelerator,
    identity: Path,
    cache: Cache,
    log_dir: Path,
    progress: Progress,
) -> dict[str, object]:
    """Boot the image in `folder` on its own disk, lay down what its containers run, and power it off in order.

    Returns what the manifest says of its content: versions by component, and packages with their versions.
    """
    ingredients = Ingredients(
        name=f"{profile.name}-provisioning",
        qemu=qemu,
        accelerator=accelerator,
        topology=TOPOLOGY,
        kernel=folder / entry.KERNEL,
        initrd=folder / entry.INITRD,
        kernel_arguments=profile.kernel_arguments,
        disk=folder / entry.DISK,
        identity=identity,
        known_hosts=folder / entry.KNOWN_HOSTS,
        log_dir=log_dir,
        writes_through=True,
    )
    deadline = Deadline.after(PROVISION_SECONDS)
    with launch(ingredients, cache=cache, deadline=deadline, progress=progress) as machine:
        target = machine.target
        lay_down(target, programs, probes, deadline)
        stored = run_in_guest(target, ["ctr", "--namespace=k8s.io", "images", "list", "--quiet"], deadline).split()
        versions = versions_of(target, deadline=deadline)
        facts: dict[str, object] = {
            "container_images": sorted(stored),
            "versions": versions,
            "kernel_config": kernel_config_of(target, versions["kernel"], deadline=deadline),
            "packages": packages_of(target, deadline=deadline),
        }
        machine.power_off(deadline=deadline)
    return facts


def lay_down(target: Target, programs: Mapping[str, bytes], probes: Mapping[str, bytes], deadline: Deadline) -> None:
    """Put the probes in their place, and each program in two: as an image in containerd's store, and as a root."""
    run_in_guest(target, ["mkdir", "-p", PROBES], deadline)
    for name, program in probes.items():
        target.write(f"{PROBES}/{name}", program, deadline=deadline, mode=0o755)
    for name, program in programs.items():
        image = container_image(name, program, architecture="amd64")
        run_in_guest(target, ["ctr", "--namespace=k8s.io", "images", "import", "-"], deadline, stdin=image)
        root = PurePosixPath(ROOTS, name)
        run_in_guest(target, ["mkdir", "-p", str(root)], deadline)
        run_in_guest(target, ["mkdir", "-m", "1777", str(root / "tmp")], deadline)
        target.write(str(root / name), program, deadline=deadline, mode=0o755)


def run_in_guest(target: Target, argv: Sequence[str], deadline: Deadline, *, stdin: bytes = b"") -> str:
    """A command's output in the guest; it must succeed."""
    return checked(target.run(argv, deadline=deadline, stdin=stdin), where=target.address).text
