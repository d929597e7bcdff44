"""Disk images as distributions publish them: bootable by themselves, and not made by memqos's builder.

mmdebstrap installs Debian and, in it, writes a boot partition with a boot loader; mke2fs, sfdisk and qemu-img make one
disk of that and of the system.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memqos.vm.cache.entry import Image
from memqos.vm.host.programs import find_program, search_path
from memqos.vm.image.making import find_mirror
from memqos.vm.profile import Profile

MIB = 1 << 20
BOOT_MIB, ROOT_MIB = 128, 1400
COMMAND_LINE = "root=LABEL=cloud-root rw console=tty0 console=ttyS0"
PACKAGES = (
    "linux-image-cloud-amd64", "initramfs-tools", "zstd", "systemd-sysv", "udev", "dbus", "iproute2", "openssh-server",
    "sudo", "python3", "containerd", "runc", "dosfstools", "mtools",
)  # fmt: skip
UNWANTED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """How a disk starts its kernel. packages: the boot loader's. table: sfdisk's, with the partition's type.

    boot: makes /layout/boot.img, the boot partition, in the installed system. code: of its MBR, a file there; "" for
    none.
    """

    packages: Sequence[str]
    table: str
    boot: str
    code: str = ""


FAT = f"""
cd /layout
truncate --size={BOOT_MIB}M boot.img
mkfs.vfat -n BOOT boot.img >mkfs.log
export MTOOLS_SKIP_CHECK=1
"""
OWN_KERNEL = """
mcopy -i boot.img /boot/vmlinuz-* ::/vmlinuz
mcopy -i boot.img /boot/initrd.img-* ::/initrd.img
"""
GPT = f"label: gpt\nstart=1MiB, size={BOOT_MIB}MiB, type=uefi\ntype=linux\n"


def _systemd_boot(processor: str, command_line: str) -> str:
    """systemd-boot as the default boot loader. processor: as UEFI calls it: x64, aa64."""
    return f"""
mmd -i boot.img ::/EFI ::/EFI/BOOT ::/loader ::/loader/entries
mcopy -i boot.img /usr/lib/systemd/boot/efi/systemd-boot{processor}.efi ::/EFI/BOOT/BOOT{processor.upper()}.EFI
printf 'timeout 0\\n' >loader.conf
printf 'title Debian\\nlinux /vmlinuz\\ninitrd /initrd.img\\noptions {command_line}\\n' >debian.conf
mcopy -i boot.img loader.conf ::/loader/loader.conf
mcopy -i boot.img debian.conf ::/loader/entries/debian.conf
"""


SYSTEMD_BOOT = Loader(
    packages=("systemd-boot-efi",), table=GPT, boot=FAT + OWN_KERNEL + _systemd_boot("x64", COMMAND_LINE)
)
SYSLINUX_WITHOUT_PSI = Loader(
    packages=("syslinux", "syslinux-common"),
    table=f"label: dos\nstart=1MiB, size={BOOT_MIB}MiB, type=c, bootable\ntype=83\n",
    boot=FAT
    + OWN_KERNEL
    + f"""
printf 'DEFAULT debian\\nLABEL debian\\n LINUX vmlinuz\\n INITRD initrd.img\\n APPEND {COMMAND_LINE} psi=0\\n' \\
  >syslinux.cfg
mcopy -i boot.img syslinux.cfg ::/syslinux.cfg
syslinux --install boot.img
cp /usr/lib/syslinux/mbr/mbr.bin .
""",
    code="mbr.bin",
)

NETWORK = "[Match]\nType=ether\n\n[Network]\nDHCP=yes\n"

PACK = """
tar --extract --file "$2" --directory "$1" --numeric-owner
mkdir -p "$1/dev"
mke2fs -q -F -t ext4 -L cloud-root -d "$1" "$3"
"""


def cloud_image(
    folder: Path, loader: Loader, *, packages: Sequence[str] = (), user: str = "", public_key: str = ""
) -> Path:
    """A disk image in qcow2 format in this folder, which must be missing.

    packages: further ones. user, public_key: an account that may become root with sudo; "" for none.
    """
    _prepare(folder, {"dhcp.network": NETWORK, "boot.sh": loader.boot, "authorized_keys": public_key})
    made = ["/layout/boot.img", *([f"/layout/{loader.code}"] if loader.code else [])]
    hooks = [
        'mkdir "$1/layout"',
        f"copy-in {folder}/boot.sh {folder}/dhcp.network {folder}/authorized_keys /layout",
        'chroot "$1" sh -eu /layout/boot.sh',
        'cp "$1/layout/dhcp.network" "$1/etc/systemd/network/80-dhcp.network"',
        'chroot "$1" systemctl enable systemd-networkd',
        *(_account(user) if user else ()),
        f"copy-out {' '.join(made)} {folder}",
        'rm -r "$1/layout"',
        'echo cloud >"$1/etc/hostname"; : >"$1/etc/machine-id"',
        # cloud-init makes them; without it the image keeps those that its package made.
        *([] if user else ['rm "$1"/etc/ssh/ssh_host_*_key*']),
    ]
    _install(folder, "amd64", (*PACKAGES, *loader.packages, *packages), hooks)
    return _disk(folder, loader, _system(folder))


def image_of_profile(folder: Path, image: Image, profile: Profile) -> Path:
    """A profile's system as a disk image of arm64 with a boot loader; its kernel and initrd are in the boot partition.

    This host runs no program of it.
    """
    words = " ".join(word for word in profile.kernel_arguments if not word.startswith("root="))
    copied = f"{FAT}\nmcopy -i boot.img vmlinuz initrd.img ::/\n"
    loader = Loader(
        packages=("systemd-boot-efi:arm64", "dosfstools", "mtools"),
        table=GPT,
        boot=copied + _systemd_boot("aa64", f"root=/dev/vda2 {words}"),
    )
    _prepare(folder, {"boot.sh": loader.boot})
    hooks = [
        'mkdir "$1/layout"',
        f"copy-in {folder}/boot.sh {image.kernel} {image.initrd} /layout",
        'chroot "$1" sh -eu /layout/boot.sh',
        f"copy-out /layout/boot.img {folder}",
    ]
    _install(folder, "amd64,arm64", loader.packages, hooks)
    return _disk(folder, loader, image.disk)


def _prepare(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir()
    folder.chmod(0o777)  # As an ordinary user mmdebstrap writes to it with other ids.
    for name, text in files.items():
        (folder / name).write_text(text)


def _install(folder: Path, architectures: str, packages: Sequence[str], hooks: Sequence[str]) -> None:
    """Install Debian packages, run the hooks, and write the archive of the root."""
    mirror = find_mirror(os.environ)
    _run(
        [
            str(find_program("mmdebstrap")),
            f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
            "--variant=apt",
            f"--architectures={architectures}",
            f"--include={','.join(packages)}",
            *([f"--keyring={mirror.keyring}"] if mirror.keyring else []),
            '--aptopt=APT::Install-Recommends "false"',
            '--aptopt=Acquire::Languages "none"',
            '--aptopt=Acquire::Check-Valid-Until "false"',
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude={path}" for path in UNWANTED),
            *(f"--customize-hook={hook}" for hook in hooks),
            "--skip=output/dev",
            "trixie",
            str(folder / "root.tar"),
            *([f"deb {mirror.uri} trixie main"] if mirror.uri else []),
        ]
    )


def _account(user: str) -> list[str]:
    name = shlex.quote(user)
    return [
        f'chroot "$1" useradd --create-home --shell /bin/bash {name}',
        f'chroot "$1" install -D -m 600 -o {name} -g {name} /layout/authorized_keys /home/{name}/.ssh/authorized_keys',
        f'echo "{user} ALL=(ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/{user}"',
    ]


def _system(folder: Path) -> Path:
    """The file system of the archive of the root."""
    system = folder / "root.img"
    system.write_bytes(b"")
    os.truncate(system, ROOT_MIB * MIB)
    (folder / "root").mkdir()
    pack = ["sh", "-euc", PACK, "pack", str(folder / "root"), str(folder / "root.tar"), str(system)]
    if os.geteuid() != 0:
        pack[2] = 'mount -t tmpfs -o mode=0755 root "$1"' + PACK
        pack[:0] = [str(find_program("unshare")), "--user", "--map-root-user", "--map-auto", "--mount"]
    _run(pack)
    return system


def _disk(folder: Path, loader: Loader, system: Path) -> Path:
    """The disk, of the boot partition and a file system."""
    disk, image = folder / "disk.raw", folder / "cloud.qcow2"
    disk.write_bytes(b"")
    os.truncate(disk, (1 + BOOT_MIB + 1) * MIB + system.stat().st_size)
    _run([str(find_program("sfdisk")), "--quiet", str(disk)], given=loader.table)
    with disk.open("r+b") as file:
        if loader.code:
            file.write((folder / loader.code).read_bytes()[:440])
    for part, at in ((folder / "boot.img", 1), (system, 1 + BOOT_MIB)):
        _run(["dd", f"if={part}", f"of={disk}", "bs=1M", f"seek={at}", "conv=notrunc,sparse", "status=none"])
    _run([str(find_program("qemu-img")), "convert", "-f", "raw", "-O", "qcow2", str(disk), str(image)])
    return image


def _run(argv: list[str], *, given: str = "") -> None:
    done = subprocess.run(
        argv,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": search_path(os.environ), "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, f"{argv[0]} ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
