"""Installs memqos's parts on an existing machine, without a registry: the workload's images, and memwatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memqos.catalog.profiles import load_profile
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, MissingProgramError, RuntimeCallError, UnfitFileError
from memqos.model.node import CgroupDriver
from memqos.place.base import OfferedRuntime
from memqos.place.guard import FOLDER, Guard
from memqos.probe.sampler import MEMWATCH
from memqos.runtime.cri import CriRuntime, connect
from memqos.runtime.docker import connect_docker
from memqos.runtime.oci_commands import ROOTS
from memqos.target.base import Target, checked
from memqos.vm.architecture import Architecture, architecture_of_machine
from memqos.vm.image.programs import binary_of, need_programs
from memqos.vm.image.recipe import container_image, container_image_name, root_of
from memqos.vm.profile import Program

__all__ = [
    "architecture_of",
    "bring_images",
    "bring_images_served",
    "bring_images_to_docker",
    "bring_memwatch",
    "bring_roots",
    "memwatch_of",
]

PROFILE = "trixie"
"""The profile whose programs are installed; all profiles have the same."""

BROUGHT_MEMWATCH = f"{FOLDER}/memwatch"
"""Where memwatch is on a machine that got it from a run."""

WITHOUT_OURS = """\
before=$1; shift
"$@" list --quiet | grep -vxF -e "$before" | xargs -r "$@" remove --sync
"""
"""Removes the images that were not there before: memqos's own, and the id entries that CRI adds for each."""


def architecture_of(target: Target, *, deadline: Deadline) -> Architecture:
    """The architecture of a machine, for which this installation has memqos's programs, or a compiler.

    Raises EnvironmentNotAbleError, before any change to the machine, for a CPU without either.
    """
    machine = checked(target.run(["uname", "-m"], deadline=deadline), where=target.address).text.strip()
    architecture = architecture_of_machine(machine)
    if architecture is None:
        raise EnvironmentNotAbleError(
            f"the machine's CPU is {machine[:40]}, for which memqos has no programs.",
            where=target.address,
            next_step="Run memqos on a host with that CPU.",
        )
    profile = load_profile(PROFILE)
    try:
        need_programs((*profile.programs, *profile.probes), architecture)
    except MissingProgramError as error:
        raise MissingProgramError(
            f"memqos installs its own programs on the machine, but {error.what}",
            where=target.address,
            next_step=f"{error.next_step.removesuffix('.')}. Or run memqos on a host with that CPU.",
            data=error.data,
        ) from error
    return architecture


def memwatch_of(target: Target, *, deadline: Deadline) -> str:
    """Where memwatch is on the target, "" if it is missing."""
    argv = ["sh", "-c", 'for file; do [ ! -x "$file" ] || echo "$file"; done', "sh", MEMWATCH, BROUGHT_MEMWATCH]
    return (target.run(argv, deadline=deadline).text.split() or [""])[0]


def bring_memwatch(target: Target, architecture: Architecture, *, deadline: Deadline) -> str:
    """Where memwatch is on the target; installed if it was missing. Its folder is removed by the guard."""
    if place := memwatch_of(target, deadline=deadline):
        return place
    place = BROUGHT_MEMWATCH
    [program] = [one for one in load_profile(PROFILE).probes if one.name == "memwatch"]
    checked(target.run(["mkdir", "-p", FOLDER], deadline=deadline), where=target.address)
    target.write(place, binary_of(program, architecture), deadline=deadline, mode=0o755)
    return place


def bring_images(
    target: Target, offer: OfferedRuntime, guard: Guard | None, architecture: Architecture, *, deadline: Deadline
) -> None:
    """Load missing images into the runtime's store, and have the guard remove them at the end.

    guard: None on a machine that is thrown away. Raises EnvironmentNotAbleError for a store that cannot load images.
    """
    with target.forward(offer.socket) as local, connect(local, name=offer.name, deadline=deadline) as runtime:
        missing = list(_missing(runtime, deadline=deadline))
    if not missing:
        return
    if not offer.name.startswith("containerd+"):
        raise EnvironmentNotAbleError(
            f"its store has no image {', '.join(missing[0][1])}, and memqos can load images into containerd's only.",
            where=target.address,
            next_step="Load it there first; a machine of `memqos vm shell` has it.",
        )
    before = checked(target.run([*_ctr(offer.socket), "list", "--quiet"], deadline=deadline), where=target.address)
    if guard is not None:
        guard.at_the_end(["sh", "-c", WITHOUT_OURS, "sh", before.text.strip(), *_ctr(offer.socket)])
    _import(target, offer.socket, missing, architecture, deadline=deadline)


def bring_images_served(target: Target, socket: str, *, deadline: Deadline) -> None:
    """Load missing images into a server's store, on a booted machine: containerd imports them, others pull.

    Raises UnfitFileError with the server's own message for an image that it cannot pull.
    """
    with target.forward(socket) as local, connect(local, name=socket, deadline=deadline) as runtime:
        missing = list(_missing(runtime, deadline=deadline))
        if runtime.version(deadline=deadline).name == "containerd":
            _import(target, socket, missing, architecture_of(target, deadline=deadline), deadline=deadline)
            return
        for image in (image for _, names in missing for image in names):
            try:
                runtime.pull_image(image, deadline=deadline)
            except RuntimeCallError as error:
                raise UnfitFileError(
                    f"the server on '{socket}' has no image {image}, and cannot pull it: {error.what}",
                    where="--cri-socket",
                    next_step="Load it, or serve it from a registry in the machine that a unit of --guest-unit starts.",
                ) from error


def bring_images_to_docker(
    target: Target, offer: OfferedRuntime, driver: CgroupDriver, architecture: Architecture, *, deadline: Deadline
) -> None:
    """Load missing images into the engine's store; the guard recognizes them by their label and removes them."""
    with (
        target.forward(offer.docker_sockets[driver]) as local,
        connect_docker(
            local, name=offer.name, oci_runtime=offer.handlers[driver], driver=driver, deadline=deadline
        ) as engine,
    ):
        for program in load_profile(PROFILE).programs:
            name = container_image_name(program.name)
            if program.name != "pause" and not engine.has_image(name, deadline=deadline):
                root = root_of(program.name, binary_of(program, architecture))
                engine.import_image(name, program.name, root, deadline=deadline)


def bring_roots(target: Target, architecture: Architecture, *, deadline: Deadline) -> None:
    """Install missing root file systems of the programs, for an OCI runtime without a server.

    The guard removes their folder.
    """
    there = target.list(ROOTS, deadline=deadline) or ()
    for program in load_profile(PROFILE).programs:
        if program.name not in there:
            root = f"{ROOTS}/{program.name}"
            checked(target.run(["mkdir", "-p", root], deadline=deadline), where=target.address)
            packed = root_of(program.name, binary_of(program, architecture))
            unpack = target.run(["tar", "-x", "-C", root], stdin=packed, deadline=deadline)
            checked(unpack, where=target.address)


def _ctr(socket: str) -> tuple[str, ...]:
    return "ctr", f"--address={socket}", "--namespace=k8s.io", "images"


def _import(
    target: Target,
    socket: str,
    missing: Sequence[tuple[Program, list[str]]],
    architecture: Architecture,
    *,
    deadline: Deadline,
) -> None:
    """Import the images of these programs into containerd, under these names."""
    for program, names in missing:
        own = container_image_name(program.name)
        archive = container_image(program.name, binary_of(program, architecture), architecture=architecture.name)
        checked(target.run([*_ctr(socket), "import", "-"], stdin=archive, deadline=deadline), where=target.address)
        for name in names:
            if name != own:
                argv = [*_ctr(socket), "tag", "--force", own, name]
                checked(target.run(argv, deadline=deadline), where=target.address)


def _missing(runtime: CriRuntime, *, deadline: Deadline) -> Iterator[tuple[Program, list[str]]]:
    """The memqos programs needed, with the names of images that the store lacks."""
    sandbox = _sandbox_image(runtime, deadline=deadline)
    for program in load_profile(PROFILE).programs:
        names = [sandbox if program.name == "pause" else container_image_name(program.name)]
        if lacking := [name for name in names if not runtime.has_image(name, deadline=deadline)]:
            yield program, lacking


def _sandbox_image(runtime: CriRuntime, *, deadline: Deadline) -> str:
    """The image with which the daemon starts a sandbox; containerd reports it in one of two places, by version."""
    configuration = runtime.configuration(deadline=deadline)
    pinned = configuration.get("pinnedImages") or {}
    return str(configuration.get("sandboxImage") or pinned.get("sandbox") or container_image_name("pause"))
