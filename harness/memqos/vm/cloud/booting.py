"""Boots a machine from a distribution's disk image: a layer over the file is started by its own boot loader.

The image's kernel, command line and units stay unchanged. Parts of the topology other than CPUs, NUMA nodes and memory
are set up from inside; a part that the system does not support is noted, and the machine is used without it.

UEFI is found by the descriptors in every distribution's QEMU firmware packages. Their format is
docs/interop/firmware.json of QEMU; files of a folder are tried in the order of their names, the administrator's first.

A NoCloud seed is a small ISO 9660 image, a disk labelled "cidata" with the files meta-data and user-data (cloud-init's
documentation, datasources, NoCloud), byte for byte the same for the same user and key.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.clock import Deadline
from memqos.errors import MachineError, MissingProgramError, UsageError
from memqos.model.topology import Topology
from memqos.target.base import Target, checked
from memqos.vm.architecture import Architecture
from memqos.vm.boot import make_log_dir, rechecking, restore_machine, start_machine
from memqos.vm.cache.entry import Image, list_images
from memqos.vm.cache.store import Cache, client_key, public_half
from memqos.vm.checkpoint import Making
from memqos.vm.cloud.disk_file import OPTION, DiskFile, Firmware
from memqos.vm.guest.view import Declared, pool_words, read_view, view_differences
from memqos.vm.host.capacity import check_room
from memqos.vm.host.programs import find_qemu, install_advice
from memqos.vm.host.progress import SILENT, Progress
from memqos.vm.qemu.accelerator import choose_accelerator
from memqos.vm.qemu.launch import ROOT, Ingredients
from memqos.vm.qemu.machine import Machine
from memqos.vm.qemu.spec import Accelerator, DiskFormat, Flash

__all__ = ["Login", "boot_image", "check_login", "find_uefi", "seed_image", "user_data"]


FOLDERS = (Path("/etc/qemu/firmware"), Path("/usr/share/qemu/firmware"))
MACHINES = {"amd64": ("q35", "ovmf"), "arm64": ("virt", "qemu-efi-aarch64")}
"""By architecture, QEMU's machine type, and Debian's package with a UEFI for it."""

UNWANTED = frozenset({"requires-smm", "enrolled-keys", "secure-boot"})
"""Features that need another machine type, or refuse kernels without a known signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uefi:
    """Files of a UEFI, raw: the code, and the template of its variables, which each machine copies."""

    code: Path
    variables: Path


def find_uefi(architecture: Architecture, *, folders: Sequence[Path] = FOLDERS) -> Uefi:
    """The first UEFI without secure boot for the machines of this architecture.

    Raises MissingProgramError naming the package, and KeyError for an architecture whose machines have no UEFI.
    """
    machine, package = MACHINES[architecture.name]
    for descriptor in _descriptors(folders):
        found = _of(descriptor, architecture.machine, machine)
        if found is not None and found.code.is_file() and found.variables.is_file():
            return found
    raise MissingProgramError(
        f"the image boots by UEFI, and this host has no UEFI for QEMU's {architecture.machine}.",
        next_step=install_advice([package]),
        data={"program": package, "package": package},
    )


def _descriptors(folders: Sequence[Path]) -> Iterator[dict[str, object]]:
    names: dict[str, Path] = {}
    for folder in reversed(folders):
        names |= {file.name: file for file in folder.glob("*.json")}
    for name in sorted(names):
        try:
            read = json.loads(names[name].read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(read, dict):
            yield read


def _of(descriptor: dict[str, object], architecture: str, machine: str) -> Uefi | None:
    """The files of a matching descriptor; None for others, and for one that is malformed."""
    try:
        mapping, targets = descriptor["mapping"], descriptor["targets"]
        fits = any(
            target["architecture"] == architecture and any(f"-{machine}-" in f"-{name}-" for name in target["machines"])
            for target in targets  # type: ignore[attr-defined]
        )
        code, variables = mapping["executable"], mapping["nvram-template"]  # type: ignore[index]
        is_plain = mapping["device"] == "flash" and {code["format"], variables["format"]} == {"raw"}  # type: ignore[index]
        kinds, features = descriptor["interface-types"], set(descriptor["features"])  # type: ignore[call-overload]
        if fits and is_plain and "uefi" in kinds and not features & UNWANTED:  # type: ignore[operator]
            return Uefi(code=Path(code["filename"]), variables=Path(variables["filename"]))
    except (KeyError, TypeError, IndexError):
        pass
    return None


SECTOR = 2048
FIRST = 16
"""The sectors before the volume descriptors belong to the system."""

LABEL = "cidata"
INSTANCE = "memqos"


def user_data(user: str, public_key: str) -> str:
    """The cloud-config: this user may log in with the key, and becomes root without a password."""
    account: dict[str, object] = {"name": user, "ssh_authorized_keys": [public_key.strip()], "lock_passwd": True}
    if user != "root":
        account |= {"sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/sh"}
    document = {
        "disable_root": False,
        "users": [account],
        "package_update": False,
        "package_upgrade": False,
    }
    # JSON is YAML.
    return "#cloud-config\n" + json.dumps(document, indent=1) + "\n"


def seed_image(user: str, public_key: str) -> bytes:
    """The image with the two files."""
    meta = json.dumps({"instance-id": INSTANCE, "local-hostname": INSTANCE}) + "\n"
    return iso_image(LABEL, {"META-DATA.;1": meta.encode(), "USER-DATA.;1": user_data(user, public_key).encode()})


def iso_image(label: str, files: dict[str, bytes]) -> bytes:
    """An ISO 9660 image with these files in its root; Linux shows NAME.;1 as name (fs/isofs/dir.c)."""
    little, big, root, first = FIRST + 2, FIRST + 3, FIRST + 4, FIRST + 5
    records, contents, place = [], b"", first
    for name, content in sorted(files.items()):
        records.append(_record(name.encode(), place, len(content), folder=False))
        contents += _padded(content)
        place = first + len(contents) // SECTOR
    itself = _record(b"\0", root, SECTOR, folder=True)
    folder = _padded(b"".join([itself, _record(b"\1", root, SECTOR, folder=True), *records]))
    descriptor = _descriptor(label, sectors=place, little=little, big=big, root=itself)
    end = _padded(b"\xffCD001\x01")
    tables = [_padded(struct.pack(f"{order}BBIHBx", 1, 0, root, 1, 0)) for order in "<>"]
    return bytes(FIRST * SECTOR) + descriptor + end + b"".join(tables) + folder + contents


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % SECTOR)


def _both(number: int, form: str) -> bytes:
    """A number in both byte orders."""
    return struct.pack(f"<{form}", number) + struct.pack(f">{form}", number)


def _record(name: bytes, place: int, size: int, *, folder: bool) -> bytes:
    """A directory record; without a time."""
    body = b"".join(
        [b"\0", _both(place, "I"), _both(size, "I"), bytes(7), bytes([2 if folder else 0]), b"\0\0", _both(1, "H")]
    )
    body += bytes([len(name)]) + name
    length = len(body) + 1
    return bytes([length + length % 2]) + body + bytes(length % 2)


def _descriptor(label: str, *, sectors: int, little: int, big: int, root: bytes) -> bytes:
    """The primary volume descriptor."""
    unknown = b"0" * 16 + b"\0"
    fields = b"".join(
        [
            b"\x01CD001\x01\0", b" " * 32, label.encode().ljust(32), bytes(8), _both(sectors, "I"), bytes(32),
            _both(1, "H"), _both(1, "H"), _both(SECTOR, "H"), _both(10, "I"),
            struct.pack("<II", little, 0), struct.pack(">II", big, 0), root,
            b" " * 128, b" " * 128, b" " * 128, b"MEMQOS".ljust(128), b" " * 37, b" " * 37, b" " * 37,
            unknown * 4, b"\x01\0",
        ]
    )  # fmt: skip
    return _padded(fields)


BOOT_SECONDS = 900
"""A distribution's first boot does more than a profile's: keys, growing file systems, cloud-init."""

PREPARE_SECONDS = 120


KEY_BEGINS = b"-----BEGIN "

WARM = "python3 -c 'import errno, json, os, pathlib, subprocess, sys, threading' || :; sync"

SET_UP = r"""
failed() { echo "$1"; }
for disk in /sys/block/vd*; do
    serial=
    read -r serial <"$disk/serial" || :
    case $serial in memqos-swap[0-9]*) ;; *) continue ;; esac
    device=/dev/${disk##*/} priority=
    for word; do case $word in "${serial#memqos-}="*) priority=${word#*=} ;; esac; done
    mkswap "$device" >/dev/null && swapon ${priority:+--priority "$priority"} "$device" || failed "$serial"
done
for word; do
    case $word in
        zswap=*) echo "${word#*=}" >/sys/module/zswap/parameters/enabled || failed zswap ;;
        /sys/*=*) echo "${word#*=}" >"${word%%=*}" || failed "${word%%=*}" ;;
    esac
done
exit 0
"""
"""Sets up swap, zswap and huge pages from these words: swapN=PRIORITY, zswap=0|1, FILE=COUNT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The login for an image. key: the private key of an account in it; None to have cloud-init create the account."""

    user: str = ROOT
    key: Path | None = None


def check_login(login: Login) -> None:
    """Raise UsageError for an invalid user name, and for a key that is unreadable or not a private key."""
    if not re.fullmatch(r"[a-z_][\w.-]{0,31}", login.user, re.ASCII):
        raise UsageError(f"'{login.user}' is not a valid user name.", where="--ssh-user")
    if login.key is None:
        return
    try:
        begins = login.key.read_bytes()[:64]
    except OSError as error:
        raise UsageError(f"'{login.key}' cannot be read: {error.strerror}.", where="--ssh-key") from error
    if begins.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        raise UsageError(
            f"'{login.key}' is a public key.", where="--ssh-key", next_step="Name the private key, without .pub."
        )
    if not begins.startswith(KEY_BEGINS):
        raise UsageError(f"'{login.key}' is not a private key in OpenSSH's or PEM format.", where="--ssh-key")


@contextlib.contextmanager
def boot_image(
    file: DiskFile,
    topology: Topology,
    login: Login,
    *,
    cache: Cache,
    log_dir: Path,
    prepare: Callable[[Machine], None],
    checkpoint: bool = True,
    progress: Progress = SILENT,
    keepable: bool = False,
    temporary_logs: bool = False,
) -> Iterator[Machine]:
    """A ready machine from this file; QEMU and its files are gone when the context ends, and the file is unchanged.

    prepare: called as root in the booted machine, before it is saved. checkpoint: restore it from a checkpoint, which
    is created if there is none. The other arguments are those of `memqos.vm.boot.boot`.

    Raises UnfitFileError for an image that does not admit the user, or not as root; EnvironmentNotAbleError for what
    the host lacks; MachineryError for other failures.
    """
    check_room(topology.name, topology.memory_bytes)
    make_log_dir(log_dir)
    ingredients = replace(
        ingredients_of(file, topology, login, cache=cache, log_dir=log_dir.absolute(), progress=progress),
        keepable=keepable,
        temporary_logs=temporary_logs,
    )
    making = making_of_file(file, ingredients, prepare, progress)
    with contextlib.ExitStack() as stack:
        with _naming_the_option():
            machine = restore_machine(stack, making, cache, progress) if checkpoint else None
            machine = machine or start_machine(stack, making, cache, progress, seconds=BOOT_SECONDS)
        with rechecking(machine):
            yield machine


@contextlib.contextmanager
def _naming_the_option() -> Iterator[None]:
    """A failed boot may be the image's fault: the error says what an image needs."""
    try:
        yield
    except MachineError as error:
        needs = "An image needs a boot loader without a prompt, virtio disk and network drivers, DHCP, and an sshd."
        error.next_step = f"{needs} {error.next_step}"
        error.where = OPTION
        raise


def ingredients_of(
    file: DiskFile, topology: Topology, login: Login, *, cache: Cache, log_dir: Path, progress: Progress
) -> Ingredients:
    """The ingredients for launching the machine."""
    architecture = file.architecture
    qemu = find_qemu(architecture)
    choice = choose_accelerator(qemu, kernel_to_try(cache, architecture), cache=cache, architecture=architecture)
    if choice.accelerator is Accelerator.TCG:
        progress.note(choice.reason)
    flash = None
    if file.firmware is Firmware.UEFI:
        uefi = find_uefi(architecture)
        flash = Flash(code=uefi.code, variables=uefi.variables)
    own = client_key(cache, progress=progress)
    seed = b"" if login.key else seed_image(login.user, public_half(own).read_text())
    name = re.sub(r"[^\w.-]", "_", file.path.stem, flags=re.ASCII)[:40]
    return Ingredients(
        name=f"{name}-{topology.name}",
        qemu=qemu,
        accelerator=choice.accelerator,
        topology=topology,
        kernel=None,
        initrd=None,
        kernel_arguments=(),
        disk=file.path,
        disk_format=DiskFormat.QCOW2,
        identity=login.key or own,
        known_hosts=None,
        log_dir=log_dir,
        user=login.user,
        flash=flash,
        seed=seed,
        architecture=architecture,
    )


def kernel_to_try(cache: Cache, architecture: Architecture) -> Path | None:
    """A kernel for trying KVM, since the image's own is inside it: of a profile's image, or this host's.

    Only a kernel of this architecture can be tried; KVM is not tried for another than the host's.
    """
    own = [Path("/boot") / f"vmlinuz-{platform.release()}", Path("/lib/modules") / platform.release() / "vmlinuz"]
    kernels = [*(image.kernel for image in list_images(cache) if image.architecture == architecture.name), *own]
    return next((kernel for kernel in kernels if os.access(kernel, os.R_OK)), None)


def making_of_file(
    file: DiskFile, ingredients: Ingredients, prepare: Callable[[Machine], None], progress: Progress
) -> Making:
    """The ingredients of its checkpoint."""
    topology = ingredients.topology

    def prepared(machine: Machine) -> None:
        machine.note({"disk_image": file.facts, "login": ingredients.user, "cloud_init_seed": bool(ingredients.seed)})
        if lacking := set_up(machine.target, topology):
            machine.note({"lacking": lacking})
            progress.note(f"{file.path.name} lacks parts of the topology '{topology.name}': {'; '.join(lacking)}")
        prepare(machine)

    status = file.path.stat()
    return Making(
        ingredients=ingredients,
        image=Image(folder=file.path, manifest={"profile": file.path.name, "sha256_of_file": file.sha256}),
        contents={"set up": SET_UP},
        prepare=prepared,
        boot_seconds=BOOT_SECONDS,
        warm=WARM,
        disk_file={"path": str(file.path), "bytes": status.st_size, "changed": status.st_mtime_ns},
    )


def set_up(target: Target, topology: Topology) -> list[str]:
    """Set up swap, zswap and huge pages of a topology; returns what the system lacks, each as a clause."""
    deadline = Deadline.after(PREPARE_SECONDS)
    words = [
        f"swap{number}={device.priority}" for number, device in enumerate(topology.swap) if device.priority is not None
    ]
    words += [f"zswap={int(topology.zswap)}"] if topology.zswap is not None else []
    words += pool_words(topology)
    checked(target.run(["sh", "-c", SET_UP, "sh", *words], deadline=deadline), where=target.address)
    view = read_view(target, deadline=deadline)
    if view.cgroup is None:
        return list(view_differences(Declared(topology=topology), view))
    declared = Declared(topology=topology, cgroup=view.cgroup, recursiveprot=view.recursiveprot)
    return list(view_differences(declared, view))
