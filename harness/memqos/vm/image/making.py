"""Builds a profile's image and stores it in the cache: complete, or not at all.

Built in a temporary folder, under the profile's lock: packages, file system, a first boot in which the container images
are imported, and only then the rename that makes it an entry.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from memqos.clock import Deadline, wait
from memqos.errors import EnvironmentNotAbleError, ImageError
from memqos.model.topology import Topology, TopologyNode
from memqos.ownership import ProcessGroup
from memqos.target.base import Target, checked
from memqos.vm.architecture import AMD64, Architecture, architecture_of_machine
from memqos.vm.cache import entry
from memqos.vm.cache.entry import Image, load_image
from memqos.vm.cache.store import (
    Cache,
    client_key,
    locked_folder,
    make_key,
    need_space,
    no_space,
    public_half,
    remove_entry,
    sweep,
)
from memqos.vm.guest.view import kernel_config_of, packages_of, versions_of
from memqos.vm.host.programs import Qemu, find_program, find_qemu, need_namespaces, search_path
from memqos.vm.host.progress import SILENT, Progress, step
from memqos.vm.image import recipe
from memqos.vm.image.foreign import DATABASE, initrd, kernel_in, merge_roots, modules_for
from memqos.vm.image.programs import binary_of, need_programs
from memqos.vm.image.recipe import Mirror, container_image
from memqos.vm.profile import Profile, Program
from memqos.vm.qemu.accelerator import choose_accelerator
from memqos.vm.qemu.launch import HOST_ALIAS, Ingredients, launch
from memqos.vm.qemu.run import outliving_console
from memqos.vm.qemu.spec import Accelerator

__all__ = ["BUILDING_PREFIX", "Build", "ensure_image", "image_name", "need_mirror", "parse_targets"]

KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
"""Where the package debian-archive-keyring has Debian's keys."""

FIELDS = "$(ORIGIN)|$(LABEL)|$(SUITE)|$(COMPONENT)|$(REPO_URI)"


def parse_targets(text: str) -> str:
    """The address of Debian's main archive in lines of FIELDS; empty if apt has none.

    The security archive and other origins are skipped, and so are suites that only overlay the main one.
    """
    for line in text.splitlines():
        origin, label, suite, component, uri = (*line.split("|"), "", "", "", "", "")[:5]
        beside = suite.endswith(("-updates", "-backports", "-proposed-updates", "-security"))
        if (origin, label, component) == ("Debian", "Debian", "main") and not beside:
            return uri.rstrip("/")
    return ""


def find_mirror(environment: Mapping[str, str]) -> Mirror:
    """MEMQOS_DEBIAN_MIRROR if it is set, else apt's mirror of Debian, else mmdebstrap's own default."""
    keyring = next((str(path) for path in KEYRINGS if path.exists()), "")
    if chosen := environment.get("MEMQOS_DEBIAN_MIRROR"):
        return Mirror(uri=chosen, keyring=keyring)
    if shutil.which("apt-get") is None:
        return Mirror(keyring=keyring)
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", FIELDS, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    return Mirror(uri=parse_targets(told.stdout), keyring=keyring)


def need_mirror(mirror: Mirror, profile: Profile) -> None:
    """Raise EnvironmentNotAbleError if the profile mixes suites and no mirror is known.

    mmdebstrap has a mirror of its own for a single suite only.
    """
    if profile.suites[1:] and not mirror.uri:
        raise EnvironmentNotAbleError(
            f"the profile '{profile.name}' needs packages of {' and '.join(profile.suites)}, "
            "but this host's apt names no Debian mirror.",
            next_step="Set one in MEMQOS_DEBIAN_MIRROR.",
            data={"profile": profile.name, "suites": list(profile.suites)},
        )


PROBES = "/usr/lib/memqos"
"""The guest's folder of memqos's programs that run outside its containers."""

ROOTS = "/var/lib/memqos/rootfs"
"""The guest's root file systems of containers that an OCI runtime creates without a daemon, by program."""

PROVISION_SECONDS = 300

TOPOLOGY = Topology(name="provisioning", cpus=2, numa_nodes=(TopologyNode(id=0, memory_bytes=1 << 30, cpus=(0, 1)),))


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
    """Boot the image in `folder` on its own disk, install its container images, and power it off cleanly.

    Returns the manifest's facts: versions by component, and packages with their versions.
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
        architecture=profile.architecture,
    )
    deadline = Deadline.after(PROVISION_SECONDS)
    with launch(ingredients, cache=cache, deadline=deadline, progress=progress) as machine:
        target = machine.target
        if profile.init is not None:
            run_in_guest(target, ["ldconfig"], deadline)
        lay_down(target, programs, probes, deadline, architecture=profile.architecture)
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


def lay_down(
    target: Target,
    programs: Mapping[str, bytes],
    probes: Mapping[str, bytes],
    deadline: Deadline,
    *,
    architecture: Architecture = AMD64,
) -> None:
    """Install the probes, and each program twice: as an image in containerd's store, and as a root file system."""
    run_in_guest(target, ["mkdir", "-p", PROBES], deadline)
    for name, program in probes.items():
        target.write(f"{PROBES}/{name}", program, deadline=deadline, mode=0o755)
    for name, program in programs.items():
        image = container_image(name, program, architecture=architecture.name)
        run_in_guest(target, ["ctr", "--namespace=k8s.io", "images", "import", "-"], deadline, stdin=image)
        root = PurePosixPath(ROOTS, name)
        run_in_guest(target, ["mkdir", "-p", str(root)], deadline)
        run_in_guest(target, ["mkdir", "-m", "1777", str(root / "tmp")], deadline)
        target.write(str(root / name), program, deadline=deadline, mode=0o755)


def run_in_guest(target: Target, argv: Sequence[str], deadline: Deadline, *, stdin: bytes = b"") -> str:
    """A command's output in the guest; it must succeed."""
    return checked(target.run(argv, deadline=deadline, stdin=stdin), where=target.address).text


BUILD_SECONDS = 1800
"""The time limit for one tool of a build: long enough for a slow mirror, short enough to notice a hanging one."""

BUILDING_PREFIX = ".building-"

NO_ROOM = (
    "No space left on device",
    "Disk quota exceeded",
    "Could not allocate block",
    "You don't have enough free space",
)
FULL_BYTES = 16 << 20
"""With less room than this, a failed tool may not even have been able to report the full disk."""

MISSING = "  404  Not Found"
"""apt's words for a package that the mirror's index lists and the mirror does not have."""

NOT_ON_THE_MIRROR = (
    "the mirror lacks packages that its index lists. Set another mirror in MEMQOS_DEBIAN_MIRROR, build later, "
    "or choose a profile of another suite."
)

STALE = ("is expired (invalid since", "is not valid yet")


def image_name(profile: Profile, cache: Cache, *, progress: Progress = SILENT) -> str:
    """The name of the entry for this profile's image, existing or not: PROFILE-FINGERPRINT."""
    public = public_half(client_key(cache, progress=progress)).read_text()
    return f"{profile.name}-{recipe.fingerprint(profile, public)}"


def ensure_image(profile: Profile, cache: Cache, *, progress: Progress = SILENT) -> Image:
    """The profile's image, built now if the cache has no complete one.

    Raises MissingProgramError, NoSpaceError or ImageError; then the cache is unchanged.
    """
    folder = cache.images / image_name(profile, cache, progress=progress)
    if image := load_image(folder):
        return image
    waiting = f"waiting for another process that is building the image '{profile.name}'"
    with cache.lock(f"image-{profile.name}", progress=progress, waiting=waiting):
        if image := load_image(folder):
            return image
        sweep(cache.images, f"{BUILDING_PREFIX}{profile.name}-")
        if folder.exists():
            progress.note(f"the image '{folder.name}' in the cache is damaged and is rebuilt.")
            remove_entry(folder)
        need_space(cache.images, recipe.BUILD_BYTES)
        need_namespaces()
        need_tools(profile)
        with locked_folder(cache.images, f"{BUILDING_PREFIX}{profile.name}-") as work, outliving_console(work):
            finished = Build(profile=profile, cache=cache, work=work, progress=progress).run()
            finished.rename(folder)
    image = load_image(folder)
    if image is None:
        raise ImageError("the new image is incomplete.", where=str(folder))
    return image


def native_architecture() -> Architecture | None:
    """This host's architecture; None for one without memqos programs."""
    return architecture_of_machine(platform.machine())


def need_tools(profile: Profile) -> None:
    """Raise EnvironmentNotAbleError, before anything is fetched, if this host lacks what this profile's build needs.

    For another architecture that is its QEMU, its compiler and depmod. An amd64 image, whose own tool generates the
    initrd, can only be built on a host of that architecture.
    """
    find_qemu(profile.architecture)
    own = (*profile.programs, *profile.probes, *([profile.init] if profile.init else []))
    need_programs(own, profile.architecture)
    if profile.architecture is native_architecture():
        return
    if profile.init is None:
        raise EnvironmentNotAbleError(
            f"the image '{profile.name}' is of {profile.architecture.name}, and is only built on a host of that "
            f"architecture; this one is {platform.machine()}.",
            next_step="Choose a profile of this host's architecture with --arch, or test a machine with --target.",
            data={"profile": profile.name, "machine": platform.machine()},
        )
    find_program("depmod")


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build of one image in its own folder."""

    profile: Profile
    cache: Cache
    work: Path
    progress: Progress

    def run(self) -> Path:
        """Build everything; returns the finished entry's folder."""
        finished = self.work / "entry"
        finished.mkdir()
        with (
            self.translating(),
            self.tree_folder() as trees,
            ProcessGroup(folders=(self.work, trees), grace=10) as group,
        ):
            qemu = find_qemu(self.profile.architecture)
            with step(self.progress, "make the workload"):
                programs = {one.name: self.compile(group, one) for one in self.profile.programs}
                probes = {one.name: self.compile(group, one) for one in self.profile.probes}
            with step(
                self.progress, f"install Debian {self.profile.suite} with {len(self.profile.packages) + 1} packages"
            ):
                keys = self.make_keys(finished)
                self.install(group, keys, trees=trees)
            with step(self.progress, "create the file system"):
                self.make_disk(group, finished, init=self.init(group))
            choice = choose_accelerator(
                qemu, finished / entry.KERNEL, cache=self.cache, architecture=self.profile.architecture
            )
            with step(self.progress, "boot it once and import the container images"):
                facts = provision(
                    self.profile,
                    folder=finished,
                    programs=programs,
                    probes=probes,
                    qemu=qemu,
                    accelerator=choice.accelerator,
                    identity=client_key(self.cache, progress=self.progress),
                    cache=self.cache,
                    log_dir=self.work,
                    progress=self.progress,
                )
            named = {"profile": self.profile.name, "suite": self.profile.suite}
            entry.seal_image(finished, {**named, "architecture": self.profile.architecture.name, **facts})
        return finished

    def compile(self, group: ProcessGroup, program: Program) -> bytes:
        """One program of memqos: the wheel's, or compiled."""
        return binary_of(program, self.profile.architecture, run=lambda argv: self.tool(group, argv))

    def init(self, group: ProcessGroup) -> bytes | None:
        """The program of memqos's own initrd; None if the image's own tool generated it."""
        return None if self.profile.init is None else self.compile(group, self.profile.init)

    def make_keys(self, finished: Path) -> recipe.Keys:
        """The guest's host key, and the known_hosts file with it."""
        host = self.work / "host_key"
        make_key(host)
        public = public_half(host).read_text()
        (finished / entry.KNOWN_HOSTS).write_text(f"{HOST_ALIAS} {public}")
        return recipe.Keys(
            client_public=public_half(client_key(self.cache, progress=self.progress)).read_text(),
            host_private=host.read_text(),
            host_public=public,
        )

    @contextlib.contextmanager
    def tree_folder(self) -> Iterator[Path]:
        """Where mmdebstrap creates the root's tree; it is removed with the build.

        As root it is the build's own folder. An ordinary user's namespace cannot access that one, and gets one in the
        temporary folder, which every user may enter.
        """
        if os.geteuid() == 0:
            yield self.work
            return
        with tempfile.TemporaryDirectory(prefix="memqos-build-", ignore_cleanup_errors=True) as name:
            Path(name).chmod(0o755)
            yield Path(name)

    def install(self, group: ProcessGroup, keys: recipe.Keys, *, trees: Path) -> None:
        """Install the packages into an archive of the root; again if only the mirror's date is the obstacle."""
        overlay = self.work / "overlay.tar"
        overlay.write_bytes(recipe.overlay_archive(self.profile, keys))
        overlay.chmod(0o600)
        (self.work / "boot").mkdir()
        try:
            self.mmdebstrap(group, overlay, trees=trees, stale=False)
        except ImageError as error:
            if not any(sign in str(error.data["output"]) for sign in STALE):
                raise
            self.progress.note("the mirror's Release file is past its Valid-Until date and is accepted for this build.")
            self.mmdebstrap(group, overlay, trees=trees, stale=True)

    def mmdebstrap(self, group: ProcessGroup, overlay: Path, *, trees: Path, stale: bool) -> None:
        """One run of mmdebstrap."""
        mode = "root" if os.geteuid() == 0 else "unshare"
        mirror = find_mirror(os.environ)
        need_mirror(mirror, self.profile)
        mmdebstrap, environment = str(find_program("mmdebstrap")), {"TMPDIR": str(trees), **recipe.ENVIRONMENT}
        native = native_architecture()
        is_foreign = native is not None and native is not self.profile.architecture
        if is_foreign:
            foreign_root = str(self.work / "foreign.tar")
            argv = recipe.extract_arguments(
                mmdebstrap, self.profile, mirror, mode=mode, target=foreign_root, database=DATABASE, stale=stale
            )
            self.tool(group, argv, environment=environment)
        argv = recipe.mmdebstrap_arguments(
            mmdebstrap,
            self.profile,
            mirror,
            mode=mode,
            target=str(self.work / ("native.tar" if is_foreign else "root.tar")),
            overlay=str(overlay),
            boot=str(self.work),
            stale=stale,
            native=native.debian if native is not None and is_foreign else "",
        )
        self.tool(group, argv, environment=environment)
        if is_foreign:
            merge_roots(self.work / "native.tar", self.work / "foreign.tar", self.work / "root.tar")

    def make_disk(self, group: ProcessGroup, finished: Path, *, init: bytes | None) -> None:
        """The root disk from the archive; kernel and initrd next to it.

        init: the program of memqos's own initrd, None if the image's own tool generated it.
        """
        disk = finished / entry.DISK
        with disk.open("wb") as file:
            file.truncate(recipe.DISK_BYTES)
        folder = self.work / "root"
        folder.mkdir()
        self.tool(
            group,
            recipe.pack_arguments(
                str(find_program("unshare")),
                folder=str(folder),
                archive=str(self.work / "root.tar"),
                disk=str(disk),
                root=os.geteuid() == 0,
            ),
        )
        if init is None:
            shutil.copyfile(only(self.work / "boot", "vmlinuz-*"), finished / entry.KERNEL)
            shutil.copyfile(only(self.work / "boot", "initrd.img-*"), finished / entry.INITRD)
        else:
            release, kernel = kernel_in(self.work / "root.tar", self.work)
            kernel.rename(finished / entry.KERNEL)
            (finished / entry.INITRD).write_bytes(initrd(init, modules_for(self.work / "root.tar", release)))
        (self.work / "root.tar").unlink()

    def tool(self, group: ProcessGroup, argv: list[str], *, environment: dict[str, str] | None = None) -> None:
        """Run one tool to its end; ImageError with its output if it fails."""
        log = self.work / "tool.log"
        with log.open("wb") as output:
            process = group.start(
                argv, output=output, environment={"PATH": search_path(os.environ), **(environment or {})}
            )
            wait(
                f"{Path(argv[0]).name} ends",
                lambda: process.poll() is not None,
                deadline=Deadline.after(BUILD_SECONDS),
                every=0.05,
            )
        if process.returncode == 0:
            return
        said = log.read_text(errors="backslashreplace")
        if any(sign in said for sign in NO_ROOM) or shutil.disk_usage(self.work).free < FULL_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        name = Path(argv[0]).name
        advice = NOT_ON_THE_MIRROR if MISSING in said else "fix the cause and build again."
        raise ImageError(
            f"{name} ended with status {process.returncode}. It printed:\n{said.strip()[-2500:]}",
            where=f"image '{self.profile.name}'",
            next_step=f"The cache is unchanged; {advice}",
            data={"argv": argv, "status": process.returncode, "output": said},
        )

    @contextlib.contextmanager
    def translating(self) -> Iterator[None]:
        """Turn a full disk, and a folder that was removed meanwhile, into a specific error."""
        try:
            yield
        except OSError as error:
            if not self.work.is_dir():
                raise self.removed() from error
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            free = shutil.disk_usage(self.work).free
            raise no_space(self.work.parent, free=free, needed=recipe.BUILD_BYTES) from error
        except subprocess.SubprocessError as error:
            raise EnvironmentNotAbleError(f"a tool of the build could not be run: {error}") from error

    def removed(self) -> ImageError:
        """The error if the build's folder is gone."""
        return ImageError(
            f"the folder of the image '{self.profile.name}' was removed during its build.",
            where=str(self.work),
            next_step="Do not change the cache while an image is built, and build again.",
        )


def only(folder: Path, pattern: str) -> Path:
    """The single file of this pattern; ImageError if there are none or several."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ImageError(f"the image must have one '{pattern}' in /boot, and has {len(found)}.", where=str(folder))
    return found[0]
