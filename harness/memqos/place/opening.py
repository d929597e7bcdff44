"""Opens places by settings, and how many fit on this host; the only module that chooses between adapters."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.config.settings import Settings
from memqos.config.systems import SystemKey, named_runtime_files, one_oci_runtime
from memqos.config.table import (
    BELOW_DOCKER,
    BELOW_PODMAN,
    BY_HANDLER,
    DIRECTLY,
    OVER_CONTAINERD,
    OVER_CRIO,
    ROOTLESS,
    RUNTIMES,
    below_docker,
    below_podman,
    is_gvisor,
    is_rootless,
    oci_runtime,
)
from memqos.errors import EnvironmentNotAbleError, UnknownNameError, UsageError
from memqos.model.node import CgroupVersion
from memqos.place.base import Place, offered
from memqos.place.discovery import CRIO_SOCKET
from memqos.place.disk_image import booted_image, opened_image
from memqos.place.existing_machine import opened_existing
from memqos.place.vm import DOCKER, GVISOR, PODMAN, opened_vm
from memqos.target.opening import check_url
from memqos.vm.architecture import ARCHITECTURES, Architecture
from memqos.vm.cache.entry import Image, list_images
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.checkpoint import list_checkpoints
from memqos.vm.cloud.booting import Login, check_login
from memqos.vm.cloud.disk_file import disk_file
from memqos.vm.host.capacity import Capacity, capacity, check_room, fastest, read_host
from memqos.vm.host.programs import find_qemu
from memqos.vm.host.progress import Progress
from memqos.vm.image.making import ensure_image
from memqos.vm.kernel_tree import KernelTree
from memqos.vm.options import BootOptions, Brought, RuntimeBinary, check_options, kernel_words
from memqos.vm.qemu.accelerator import choose_accelerator, kvm_device_obstacle
from memqos.vm.qemu.spec import Accelerator
from memqos.vm.trees import BroughtTree, CopiedTree

__all__ = [
    "KUBELET_BINARY",
    "KUBELET_UPGRADE",
    "Places",
    "boot_options",
    "cache_root",
    "check_host",
    "check_places",
    "image_login",
    "prepare_places",
    "room_for",
]


OF_BOOTED_MACHINES = (
    "profile", "arch", "topology", "no_recursiveprot", "runtime_binary", "runtime_deb", "containerd_binary",
    "containerd_config", "guest_file", "guest_unit", "guest_deb", "kernel_image", "initrd", "kernel_deb", "kernel_tree",
    "no_checkpoint", "keep_vm", "kubelet_binary", "kubelet_upgrade", "image", "ssh_user", "ssh_key",
)  # fmt: skip
"""The settings that describe a booted machine; they do not apply to existing ones."""

OF_IMAGES = ("ssh_user", "ssh_key")
OF_PROFILES = tuple(
    name for name in OF_BOOTED_MACHINES if name not in {"topology", "no_checkpoint", "keep_vm", "image", *OF_IMAGES}
)
"""The settings about what a profile's machine contains; a disk image has its own."""


KUBELET_BINARY = "/usr/local/bin/kubelet"
"""The path of the kubelet under test in the machine."""

KUBELET_UPGRADE = "/usr/local/bin/kubelet-upgrade"
"""The path of the kubelet for upgrades in the machine."""

LONGEST_SOCKET = 100
"""Bytes; the kernel's limit is 107."""


class Places:
    """Opens the places of one process, one after another or several at a time."""

    def __init__(self, settings: Settings, *, progress: Progress, builds: Mapping[str, str]) -> None:
        """builds: by path, the SHA-256 of each of the user's files when the run began."""
        self._settings = settings
        self._progress = progress
        self._builds = builds

    @contextlib.contextmanager
    def opened(self, key: SystemKey, *, folder: Path) -> Iterator[Place]:
        """Open a place with this system, with its logs in this folder.

        Raises UsageError for impossible settings, EnvironmentNotAbleError if the host lacks something or the machine is
        not free, and MachineryError for a failure: DamagedOriginError if another attempt will use another origin.
        """
        if self._settings.target:
            opened = self._there(self._settings.target, key)
        elif self._settings.image:
            opened = self._from_image(self._settings.image, key, folder)
        else:
            opened = self._booted(key, folder)
        with opened as place:
            yield place

    def are_of_one(self, one: SystemKey, other: SystemKey) -> bool:
        """Whether one place has both systems.

        An existing machine is prepared for one runtime at a time.
        """
        return one.place == other.place and not self._settings.target

    @contextlib.contextmanager
    def _booted(self, key: SystemKey, folder: Path) -> Iterator[Place]:
        options = boot_options(self._settings)
        self.need_same_files(check_options(options, _architectures([key.profile])).files)
        with opened_vm(
            key.place,
            options,
            folder=folder,
            progress=self._progress,
            keepable=self._settings.keep_vm,
            cri_socket=cri_socket(self._settings),
            handlers=_handlers(self._settings),
            others=_beyond_images(
                self._settings, *_WITHOUT_A_SERVER, *([] if cri_socket(self._settings) else [OVER_CONTAINERD])
            ),
            additions=additions_for(self._settings),
            own_user_namespace=not self._settings.no_userns,
        ) as place:
            yield place

    @contextlib.contextmanager
    def _from_image(self, path: Path, key: SystemKey, folder: Path) -> Iterator[Place]:
        settings = self._settings
        file = disk_file(path)
        if self._builds.get(str(file.path), file.sha256) != file.sha256:
            raise _changed(str(file.path), settings.origins["image"])
        socket, engine = cri_socket(settings), any(map(below_docker, settings.runtime))
        direct = _driven_directly(settings)
        booted = booted_image(
            file,
            key.topology,
            image_login(settings),
            folder=folder,
            progress=self._progress,
            cri_socket=socket,
            engine=engine,
            direct=direct,
            keepable=settings.keep_vm,
            checkpoint=not settings.no_checkpoint,
        )
        with opened_image(booted, cri_socket=socket, engine=engine, direct=direct) as place:
            self._require_chosen(place)
            yield place

    def _require_chosen(self, place: Place) -> None:
        """Raise unless an existing machine or disk image has the cgroup version and the runtimes of the settings."""
        found, asked = place.facts.node.cgroup_version, self._settings.cgroup
        if found != asked:
            raise EnvironmentNotAbleError(
                f"it has cgroup {found}, but the run needs {asked}.",
                where=place.target.address,
                next_step=f"Use --cgroup {found}.",
            )
        for runtime, driver in product(self._settings.runtime, self._settings.driver):
            offered(place, runtime, driver)

    @contextlib.contextmanager
    def _there(self, url: str, key: SystemKey) -> Iterator[Place]:
        settings = self._settings
        engine, direct = any(map(below_docker, settings.runtime)), _driven_directly(settings)
        with opened_existing(url, cri_socket=cri_socket(settings), engine=engine, direct=direct) as place:
            self._require_chosen(place)
            with place.used(key.runtime, key.driver):
                yield place

    def need_same_files(self, brought: tuple[Brought | BroughtTree | KernelTree, ...]) -> None:
        """Raise UsageError if a file changed since the run began: one run judges one build."""
        for now in brought:
            if self._builds.get(str(now.path), now.sha256) != now.sha256:
                raise _changed(str(now.path), now.option)


def _changed(path: str, option: str) -> UsageError:
    return UsageError(
        f"'{path}' changed after the run began.",
        where=option,
        next_step="Run again, and build into another file while it runs.",
    )


def image_login(settings: Settings) -> Login:
    """The login for the machine of --image."""
    return Login(user=settings.ssh_user, key=settings.ssh_key)


def check_places(settings: Settings) -> dict[str, str]:
    """Raise UsageError for settings that fit none of the run's places, before any is opened.

    Returns the SHA-256 of each of the user's files, by path.
    """
    if settings.runtime_version is not None:
        one_oci_runtime(settings, option=settings.origins["runtime_version"])
    cri_socket(settings)
    _check_rootless(settings)
    _need_profile(settings, next(filter(below_podman, settings.runtime), ""), "starts Podman's service")
    if settings.target:
        _check_target(settings.target, settings)
        return {}
    load_topology(settings.topology)
    if settings.image:
        return _check_image(settings.image, settings)
    for name in OF_IMAGES:
        if settings.origins[name].startswith("--"):
            raise UsageError(
                f"{settings.origins[name]} needs --image.", next_step="Name the disk image, or leave it out."
            )
    _need_programs(settings)
    choices = check_options(boot_options(settings), _architectures(settings.profile))
    for name in settings.profile:
        kernel_words(load_profile(name), choices.options)
    return {str(file.path): file.sha256 for file in choices.files}


def _architectures(profiles: Sequence[str]) -> tuple[Architecture, ...]:
    return tuple(dict.fromkeys(load_profile(name).architecture for name in profiles))


def _need_profile(settings: Settings, runtime: str, what: str) -> None:
    """Raise UsageError for a runtime on a machine that memqos does not prepare. what: memqos does in a profile's."""
    for name in ("target", "image"):
        if runtime and getattr(settings, name):
            raise UsageError(
                f"{runtime} needs a machine of a profile, in which memqos {what}: {settings.origins[name]} "
                "names another.",
                where=settings.origins["runtime"],
                next_step=f"Leave {settings.origins[name]} out.",
            )


def _check_rootless(settings: Settings) -> None:
    """Raise UsageError for an ordinary user's runtime on a machine that memqos does not prepare for one."""
    rootless = next(filter(is_rootless, settings.runtime), "")
    if settings.no_userns and not rootless:
        raise UsageError(
            f"{settings.origins['no_userns']} is about rootless: runtimes, and none is chosen.",
            next_step="Name one: --runtime rootless:crun.",
        )
    _need_profile(settings, rootless, "makes the user")
    if rootless and settings.cgroup is CgroupVersion.V1:
        raise UsageError(
            f"{rootless} needs cgroup v2: no part of cgroup v1 is delegated to ordinary users.",
            where=settings.origins["cgroup"],
            next_step=f"Give --cgroup {CgroupVersion.V2}.",
        )


def cri_socket(settings: Settings) -> str:
    """The socket of the user's own CRI server in booted machines; "" for the image's server.

    Raises UsageError for an invalid path, for a server without a name, and for one that no profile or option provides.
    """
    socket, where = settings.cri_socket, settings.origins["cri_socket"]
    plus = [one for one in settings.runtime if "+" in one and not one.startswith((BELOW_DOCKER, BELOW_PODMAN))]
    if socket is not None:
        if not re.fullmatch(r"(/[\w.@+-]+)+", socket, re.ASCII) or len(socket) > LONGEST_SOCKET:
            raise UsageError(f"'{socket}' is not the path of a socket.", where=where, next_step="Use an absolute path.")
        if not plus:
            raise UsageError("none of the runtimes uses a socket.", where=where, next_step="Name one: cri+HANDLER.")
        return socket
    if meant := [one for one in plus if one.startswith(BY_HANDLER)]:
        raise UsageError(
            f"{meant[0]} is a handler of the server on --cri-socket, which is missing.",
            where=settings.origins["runtime"],
            next_step="Give its socket in the machine: --cri-socket PATH.",
        )
    if meant := [one for one in plus if one.startswith(OVER_CRIO)]:
        if not (settings.guest_file or settings.guest_deb or settings.target or settings.image):
            raise UsageError(
                f"{meant[0]}: no profile has CRI-O.",
                where=settings.origins["runtime"],
                next_step="Install it with --guest-file and --guest-unit: see docs/how-to/bring-a-cri-server.md.",
            )
        return CRIO_SOCKET
    return ""


def _need_programs(settings: Settings) -> None:
    """Raise UnknownNameError for an OCI runtime that no image has and no option installs."""
    files = {file.name for file in settings.runtime_binary}
    brings = settings.guest_file or settings.guest_deb or settings.runtime_deb or settings.cri_socket
    for one in settings.runtime:
        name = oci_runtime(one)
        if one in RUNTIMES or one.startswith(BY_HANDLER) or brings or files & {name, ""}:
            continue
        known = UnknownNameError.of("runtime", one, list(RUNTIMES), where=settings.origins["runtime"])
        raise UnknownNameError(
            known.what,
            where=known.where,
            next_step=f"{known.next_step} Bring any other: --runtime-binary {name}=PATH, or a path in --runtime.",
            data=known.data,
        )


_WITHOUT_A_SERVER = (DIRECTLY, ROOTLESS, BELOW_DOCKER, BELOW_PODMAN)
"""The prefixes of runtimes that no CRI server is above."""


def _beyond_images(settings: Settings, *prefixes: str) -> tuple[str, ...]:
    """The OCI runtimes with these prefixes that no image has."""
    found = (one for one in settings.runtime if one.startswith(prefixes) and one not in RUNTIMES)
    return tuple(dict.fromkeys(map(oci_runtime, found)))


def _driven_directly(settings: Settings) -> tuple[str, ...]:
    """The OCI runtimes that are driven without a server, by their names in the machine's PATH."""
    return tuple(dict.fromkeys(oci_runtime(one) for one in settings.runtime if one.startswith(DIRECTLY)))


def _handlers(settings: Settings) -> dict[str, str]:
    """The runtimes that are named by handlers, with the handlers."""
    return {one: one.removeprefix(BY_HANDLER) for one in settings.runtime if one.startswith(BY_HANDLER)}


def _need_names(settings: Settings, *, where: str) -> None:
    """Raise UsageError for an OCI runtime by the path of a file of this host, on a machine to which none is copied."""
    by_path = [file for file in settings.runtime_binary if file.option == settings.origins["runtime"]]
    if by_path:
        raise UsageError(
            f"'{by_path[0].path}' is a file of this host, and {where} names a machine to which no runtime is copied.",
            where=settings.origins["runtime"],
            next_step=f"Install it in that machine's PATH, and give its name, such as oci:{by_path[0].name}.",
        )


def _check_target(url: str, settings: Settings) -> None:
    where = settings.origins["target"]
    check_url(url, where=where)
    _need_names(settings, where=where)
    origins = [settings.origins[name] for name in OF_BOOTED_MACHINES]
    if meant := [origin for origin in origins if origin.startswith("--")]:
        raise UsageError(
            f"{meant[0]} applies to machines that memqos boots, but {where} names an existing one.",
            next_step="Give one or the other.",
        )


def _check_image(path: Path, settings: Settings) -> dict[str, str]:
    """The file's SHA-256 by its path; UsageError for options that conflict with it, and for an unfit file."""
    _need_names(settings, where=settings.origins["image"])
    origins = [settings.origins[name] for name in OF_PROFILES]
    if meant := [origin for origin in origins if origin.startswith("--")]:
        raise UsageError(
            f"{meant[0]} applies to machines of a profile, but {settings.origins['image']} names a disk image.",
            next_step="Give one or the other, or install what the machine needs in the image.",
        )
    check_login(image_login(settings))
    file = disk_file(path)
    return {str(file.path): file.sha256}


def check_host(settings: Settings) -> None:
    """Raise EnvironmentNotAbleError if this host lacks memory for one of the run's machines."""
    if not settings.target:
        topology = load_topology(settings.topology)
        check_room(topology.name, topology.memory_bytes)


def prepare_places(settings: Settings, *, progress: Progress) -> None:
    """Check that this host can run a machine, and build the images of a run; may take minutes."""
    if settings.target:
        return
    if settings.image:
        find_qemu(disk_file(settings.image).architecture)
        return
    for name in settings.profile:
        profile = load_profile(name, additions=additions_for(settings))
        find_qemu(profile.architecture)
        ensure_image(profile, default_cache(os.environ), progress=progress)


def additions_for(settings: Settings) -> tuple[str, ...]:
    """The additions to the profiles' images that the chosen runtimes need."""
    wanted = {DOCKER: below_docker, GVISOR: is_gvisor, PODMAN: below_podman}
    return tuple(name for name, is_wanted in wanted.items() if any(map(is_wanted, settings.runtime)))


def boot_options(settings: Settings) -> BootOptions:
    """The options of a virtual machine besides its profile and topology.

    Raises UsageError for a file that could replace several OCI runtimes.
    """
    return BootOptions(
        # For containerd+runc and oci:runc the file replaces runc.
        runtime_files=tuple(
            RuntimeBinary(name=one.name, path=one.path, option=one.option) for one in named_runtime_files(settings)
        ),
        handlers=_beyond_images(settings, OVER_CONTAINERD),
        docker_runtimes=_beyond_images(settings, BELOW_DOCKER),
        podman_runtimes=_beyond_images(settings, BELOW_PODMAN),
        containerd_binary=settings.containerd_binary,
        containerd_config=settings.containerd_config,
        runtime_debs=settings.runtime_deb,
        guest_files=(
            *(CopiedTree(one.source, one.destination, one.mode) for one in settings.guest_file),
            *((CopiedTree(kubelet, KUBELET_BINARY, 0o755),) if (kubelet := settings.kubelet_binary) else ()),
            *((CopiedTree(later, KUBELET_UPGRADE, 0o755),) if (later := settings.kubelet_upgrade) else ()),
        ),
        guest_units=settings.guest_unit,
        guest_debs=settings.guest_deb,
        kernel_debs=settings.kernel_deb,
        kernel_tree=settings.kernel_tree,
        kernel_image=settings.kernel_image,
        initrd=settings.initrd,
        cgroup=settings.cgroup,
        recursiveprot=not settings.no_recursiveprot,
        checkpoint=not settings.no_checkpoint,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCapacity:
    """most: the number that fits on this host; best: the number that is fastest."""

    most: Capacity
    best: Capacity


def room_for(settings: Settings) -> RunCapacity:
    """The room for this run's machines. Raises MemqosError for settings without a machine."""
    if settings.target:
        one = Capacity(machines=1, reason=f"{settings.origins['target']} names one machine")
        return RunCapacity(most=one, best=one)
    topology = load_topology(settings.topology)
    cache, host = default_cache(os.environ), read_host()
    ready = [
        one.used_bytes
        for one in list_checkpoints(cache)
        if one.profile in settings.profile and one.topology == topology.name
    ]
    most = capacity(host, memory_bytes=topology.memory_bytes, checkpoint_bytes=max(ready, default=0))
    return RunCapacity(most=most, best=fastest(host, most, cpus=topology.cpus, emulated=is_emulated(settings, cache)))


def is_emulated(settings: Settings, cache: Cache) -> bool:
    """Whether machines run under software emulation; True until an image exists to try KVM with."""
    if kvm_device_obstacle():
        return True
    images = [image for image in list_images(cache) if image.profile in settings.profile]
    if not images:
        return True
    return any(_accelerator_of(image, cache) is Accelerator.TCG for image in images)


def _accelerator_of(image: Image, cache: Cache) -> Accelerator:
    architecture = next(one for one in ARCHITECTURES if one.name == image.architecture)
    qemu = find_qemu(architecture)
    return choose_accelerator(qemu, image.kernel, cache=cache, architecture=architecture).accelerator


def cache_root() -> Path:
    """The cache's folder, by environment variables; it may not exist."""
    return default_cache(os.environ).root
