"""A kernel's build tree becomes a package for the machine, or the error names the command that is missing."""

import io
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from memqos.errors import UsageError
from memqos.vm.kernel_tree import NEEDED, kernel_tree

RELEASE = "7.3.0-rc1-test+"


def bzimage(release=RELEASE):
    """The boot protocol's header (Documentation/arch/x86/boot.rst): HdrS at 0x202, the version's offset at 0x20e."""
    data = bytearray(0x1000)
    data[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", data, 0x20E, 0x400)
    text = f"{release} (me@host) #1 SMP\0".encode()
    data[0x600 : 0x600 + len(text)] = text
    return bytes(data)


def configuration(*without):
    return (
        "".join(f"CONFIG_{name}=y\n" for name in NEEDED if name not in without)
        + "CONFIG_MODULES=y\nCONFIG_BTRFS_FS=m\n"
    )


@pytest.fixture
def built(tmp_path):
    """A build tree with two modules."""
    files = {
        "Makefile": "", "Kbuild": "", ".config": configuration(), "include/config/kernel.release": f"{RELEASE}\n",
        "modules.order": "drivers/block/virtio_blk.o\nkernel/fs/btrfs/btrfs.ko\n",
        "modules.builtin": "kernel/fs/ext4/ext4.ko\n",
        "drivers/block/virtio_blk.ko": "blk", "fs/btrfs/btrfs.ko": "btrfs", "fs/old/stale.ko": "stale",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "arch/x86/boot").mkdir(parents=True)
    (tmp_path / "arch/x86/boot/bzImage").write_bytes(bzimage())
    return tmp_path


@pytest.fixture
def installed(tmp_path):
    """The layout of modules_install and install."""
    for name in ("kernel/drivers/block/virtio_blk.ko.xz", "modules.builtin", "modules.dep"):
        (tmp_path / "lib/modules" / RELEASE / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib/modules" / RELEASE / name).write_text(name)
    (tmp_path / "boot").mkdir()
    (tmp_path / f"boot/vmlinuz-{RELEASE}").write_bytes(bzimage())
    (tmp_path / f"boot/config-{RELEASE}").write_text(configuration())
    return tmp_path


def names_in(package, tmp_path):
    """The files of a Debian package, as dpkg-deb lists them."""
    file = tmp_path / "kernel.deb"
    file.write_bytes(package)
    told = subprocess.run(["dpkg-deb", "--fsys-tarfile", file], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(told.stdout)) as archive:
        return {member.name for member in archive if member.isfile()}


def refused(path):
    with pytest.raises(UsageError) as error:
        kernel_tree(path)
    assert error.value.where == "--kernel-tree"
    return error.value


def test_a_build_tree_becomes_a_package(built, tmp_path):
    tree = kernel_tree(built)

    assert (tree.release, tree.facts["modules"]) == (RELEASE, 2)
    assert names_in(tree.content(), tmp_path) == {
        f"./boot/vmlinuz-{RELEASE}",
        f"./boot/config-{RELEASE}",
        f"./lib/modules/{RELEASE}/modules.builtin",
        f"./lib/modules/{RELEASE}/modules.order",
        f"./lib/modules/{RELEASE}/kernel/drivers/block/virtio_blk.ko",
        f"./lib/modules/{RELEASE}/kernel/fs/btrfs/btrfs.ko",
    }
    assert tree.content() == tree.content()


def test_an_installed_kernel_is_read_too(installed, tmp_path):
    tree = kernel_tree(installed)

    assert names_in(tree.content(), tmp_path) == {
        f"./boot/vmlinuz-{RELEASE}",
        f"./boot/config-{RELEASE}",
        f"./lib/modules/{RELEASE}/modules.builtin",
        f"./lib/modules/{RELEASE}/kernel/drivers/block/virtio_blk.ko.xz",
    }


def test_a_new_build_is_another_kernel(built):
    before = kernel_tree(built)
    (built / "arch/x86/boot/bzImage").write_bytes(bzimage() + b"changed")

    assert kernel_tree(built).sha256 != before.sha256
    with pytest.raises(UsageError, match="was changed while it was in use"):
        before.content()


@pytest.mark.parametrize(
    ("gone", "what", "next_step"),
    [
        (("arch/x86/boot/bzImage",), "is not built: it lacks arch/x86/boot/bzImage", "bzImage modules"),
        (("arch/x86/boot/bzImage", ".config"), "it lacks its configuration, .config", "defconfig kvm_guest.config"),
        (("include/config/kernel.release",), "no release in include/config/kernel.release", "bzImage modules"),
        (("modules.order",), "whose modules are not built: modules.order is missing", "modules"),
        (("fs/btrfs/btrfs.ko",), "the module 'fs/btrfs/btrfs.ko' of modules.order is not built", "modules"),
        (("arch/x86/boot/bzImage", "Kbuild"), "is not a kernel's build tree", "INSTALL_MOD_PATH"),
    ],
)
def test_an_unbuilt_tree_gets_the_make_command(built, gone, what, next_step):
    for name in gone:
        (built / name).unlink()

    error = refused(built)

    assert what in error.what
    assert next_step in error.next_step


def test_a_kernel_without_modules_is_complete(built):
    (built / "modules.order").unlink()
    (built / ".config").write_text(configuration().replace("=m", "=y"))
    assert kernel_tree(built).facts["modules"] == 0


def test_a_kernel_of_another_cpu_is_refused(built):
    (built / "arch/x86/boot/bzImage").unlink()
    (built / "arch/arm64/boot").mkdir(parents=True)
    (built / "arch/arm64/boot/Image").write_bytes(b"MZ")
    error = refused(built)
    assert "a kernel for another CPU, arch/arm64/boot/Image" in error.what


def test_what_the_machine_needs_is_named(built):
    (built / ".config").write_text(configuration("EXT4_FS", "VIRTIO_BLK"))
    error = refused(built)
    assert "was built without CONFIG_EXT4_FS, CONFIG_VIRTIO_BLK, which the machine needs" in error.what
    assert "scripts/config -e EXT4_FS -e VIRTIO_BLK" in error.next_step


def test_a_kernel_and_modules_of_two_versions_are_refused(built):
    (built / "arch/x86/boot/bzImage").write_bytes(bzimage("6.12.1"))
    assert f"is the kernel 6.12.1, but '{built}' has the modules of {RELEASE}" in refused(built).what


def test_what_is_no_bzimage_is_refused(built):
    (built / "arch/x86/boot/bzImage").write_bytes(b"\x7fELF" + bytes(0x1000))
    assert "is not a kernel that QEMU can start" in refused(built).what


def test_modules_of_several_kernels_or_without_a_kernel_are_refused(installed):
    (installed / "lib/modules/6.1.0").mkdir()
    assert f"the modules of 2 kernels instead of one: 6.1.0, {RELEASE}" in refused(installed).what
    (installed / "lib/modules/6.1.0").rmdir()
    (installed / f"boot/vmlinuz-{RELEASE}").unlink()
    assert f"but no kernel boot/vmlinuz-{RELEASE}" in refused(installed).what


@pytest.mark.parametrize("make", [str, Path.touch])
def test_what_is_no_folder_is_refused(tmp_path, make):
    path = tmp_path / "linux"
    make(path)
    assert "'" + str(path) + "'" in refused(path).what
