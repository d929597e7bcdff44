"""A root of another architecture from two archives: packages' files of the one, configuration of the other."""

import io
import lzma
import subprocess
import tarfile
from pathlib import Path

import pytest

from memqos.errors import ImageError
from memqos.vm.image.foreign import DATABASE, initrd, kernel_in, merge_roots, modules_for


def archive(path, members):
    """A tar of these: path to content, or to (content, uid, mode); None is a folder, ("->", target) a link."""
    with tarfile.open(path, "w") as tar:
        for name, what in members.items():
            member = tarfile.TarInfo(f"./{name}")
            content, member.uid, member.mode = what if isinstance(what, tuple) and len(what) == 3 else (what, 0, 0o644)
            if content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
            elif isinstance(content, tuple):
                member.type, member.linkname = tarfile.SYMTYPE, content[1]
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


def members(path):
    with tarfile.open(path) as tar:
        return {one.name.removeprefix("./"): (one, tar.extractfile(one).read() if one.isreg() else None) for one in tar}


LISTS = (
    b"/.\n/usr\n/usr/bin\n/usr/bin/helper\n/lib/x86_64-linux-gnu/libc.so.6\n/etc/tool.conf\n/etc/ld.so.conf.d/x.conf\n"
)

NATIVE = {
    "usr": None,
    "usr/bin": None,
    "bin": ("->", "usr/bin"),
    "usr/bin/helper": (b"x86", 7, 0o4754),
    "usr/lib/x86_64-linux-gnu/libc.so.6": b"x86 libc",
    "usr/lib/memqos/swap-on": b"#!/bin/sh\n",
    "etc/passwd": b"root:x:0:0\n_chrony:x:101\n",
    "etc/tool.conf": b"as configured\n",
    "etc/ld.so.conf.d/x.conf": b"/lib/x86_64-linux-gnu\n",
    "etc/ld.so.cache": b"x86 cache",
    "etc/alternatives/awk": ("->", "/usr/bin/mawk"),
    "var/lib/dpkg/status": b"x86 status",
    "var/lib/dpkg/info/tool.list": LISTS,
    "var/lib/dpkg/statoverride": b"root 7 4754 /usr/bin/helper\n",
}

FOREIGN = {
    "usr": None,
    "usr/bin": None,
    "bin": ("->", "usr/bin"),
    "usr/bin/helper": b"arm",
    "usr/lib/aarch64-linux-gnu": None,
    "usr/lib/aarch64-linux-gnu/libc.so.6": b"arm libc",
    "usr/share/doc/tool/README": b"not wanted",
    "etc/tool.conf": b"as shipped\n",
    "etc/new.conf": b"only there\n",
    "var/lib/dpkg/status": b"arm status",
    "var/lib/dpkg/info/tool.list": b"/.\n",
}


@pytest.fixture
def merged(tmp_path):
    native, foreign = archive(tmp_path / "native.tar", NATIVE), archive(tmp_path / "foreign.tar", FOREIGN)
    merge_roots(native, foreign, tmp_path / "root.tar")
    return members(tmp_path / "root.tar")


def test_files_of_packages_are_the_other_architectures(merged):
    assert merged["usr/bin/helper"][1] == b"arm"
    assert merged["usr/lib/aarch64-linux-gnu/libc.so.6"][1] == b"arm libc"
    assert "usr/lib/x86_64-linux-gnu/libc.so.6" not in merged, "its list names it by the link /lib"
    assert "etc/ld.so.conf.d/x.conf" not in merged
    assert "usr/share/doc/tool/README" not in merged


def test_owner_and_mode_come_from_the_maintainer_script(merged):
    helper, _ = merged["usr/bin/helper"]
    assert (helper.uid, helper.mode) == (7, 0o4754)


def test_configuration_comes_from_the_maintainer_scripts(merged):
    assert merged["etc/passwd"][1] == b"root:x:0:0\n_chrony:x:101\n"
    assert merged["etc/tool.conf"][1] == b"as configured\n"
    assert merged["etc/new.conf"][1] == b"only there\n"
    assert merged["etc/alternatives/awk"][0].linkname == "/usr/bin/mawk"
    assert merged["usr/lib/memqos/swap-on"][1] == b"#!/bin/sh\n"
    assert "var/lib/dpkg/statoverride" in merged


def test_architecture_dependent_files_are_left_to_be_generated(merged):
    assert "etc/ld.so.cache" not in merged
    assert merged["var/lib/dpkg/status"][1] == b"arm status"
    assert merged["var/lib/dpkg/info/tool.list"][1] == b"/.\n"


def test_no_path_occurs_twice(tmp_path, merged):
    with tarfile.open(tmp_path / "root.tar") as tar:
        names = tar.getnames()
    assert sorted(names) == sorted(set(names))


def test_the_kernel_is_found_by_either_name(tmp_path):
    modules = "usr/lib/modules/6.12.1-arm64"
    for name in ("boot/vmlinuz-6.12.1-arm64", "boot/vmlinux-6.12.1-arm64", f"{modules}/vmlinuz"):
        root = archive(
            tmp_path / "root.tar", {name: b"kernel", "boot/config-6.12.1-arm64": b"", f"{modules}/config": b""}
        )
        release, copy = kernel_in(root, tmp_path)
        assert (release, copy.read_bytes()) == ("6.12.1-arm64", b"kernel")


def test_a_kernel_beside_its_modules_and_in_boot_is_one_kernel(tmp_path):
    root = archive(tmp_path / "root.tar", {"boot/vmlinuz-7.2": b"kernel", "usr/lib/modules/7.2/vmlinuz": b"kernel"})
    assert kernel_in(root, tmp_path)[0] == "7.2"


def test_an_image_with_two_kernels_is_refused(tmp_path):
    root = archive(tmp_path / "root.tar", {"boot/vmlinuz-1": b"", "boot/vmlinuz-2": b""})
    with pytest.raises(ImageError, match="must have one kernel, and has 2"):
        kernel_in(root, tmp_path)


def module(depends="", softdep=""):
    said = f"\0license=GPL\0depends={depends}\0" + (f"softdep={softdep}\0" if softdep else "")
    return lzma.compress(b"\x7fELF" + said.encode())


def test_modules_come_after_those_that_they_need(tmp_path):
    folder = "usr/lib/modules/6.1/kernel"
    root = archive(
        tmp_path / "root.tar",
        {
            f"{folder}/fs/ext4/ext4.ko.xz": module("mbcache,jbd2", "pre: crc32c"),
            f"{folder}/fs/mbcache.ko.xz": module(),
            f"{folder}/fs/jbd2/jbd2.ko.xz": module(),
            f"{folder}/drivers/virtio_blk.ko.xz": module(),
            f"{folder}/drivers/virtio-pci.ko.xz": module("virtio_pci_modern_dev"),
            f"{folder}/drivers/virtio_pci_modern_dev.ko.xz": module(),
            f"{folder}/lib/crc32c.ko.xz": module(),
            f"{folder}/drivers/unrelated.ko.xz": module(),
            "usr/lib/modules/6.2/kernel/fs/ext4.ko.xz": module("wrong"),
        },
    )
    found = modules_for(root, "6.1")
    assert list(found) == ["virtio_pci_modern_dev", "virtio_pci", "virtio_blk", "mbcache", "jbd2", "crc32c", "ext4"]
    assert found["ext4"].startswith(b"\x7fELF")


def test_an_initrd_is_a_cpio_archive_that_cpio_reads(tmp_path):
    """Byte by byte, as in the kernel's buffer-format.rst."""
    made = initrd(b"program", {"a": b"12345", "b": b""})
    names, at = {}, 0
    while True:
        assert made[at : at + 6] == b"070701"
        fields = [int(made[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        size, length = fields[6], fields[11]
        name = made[at + 110 : at + 110 + length - 1].decode()
        data = at + (110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            break
        names[name] = (fields[1], tuple(fields[9:11]), made[data : data + size])
        at = data + (size + 3) // 4 * 4
    assert names["init"] == (0o100755, (0, 0), b"program")
    assert names["dev/console"] == (0o020600, (5, 1), b"")
    assert names["modules/00-a.ko"][2] == b"12345"
    assert list(names) == [
        "dev",
        "proc",
        "root",
        "modules",
        "dev/console",
        "init",
        "modules/00-a.ko",
        "modules/01-b.ko",
    ]


CONTROL = """Package: libtool
Version: 1.0
Architecture: arm64
Multi-Arch: same
Maintainer: memqos <memqos@example.org>
Description: a test
"""


def test_dpkg_reads_the_database(tmp_path):
    tree = tmp_path / "deb"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\nexit 1\n")
    (tree / "DEBIAN/postinst").chmod(0o755)
    (tree / "usr/lib").mkdir(parents=True)
    (tree / "usr/lib/libtool.so").write_text("x")
    root = tmp_path / "root"
    archives = root / "var/cache/apt/archives"
    archives.mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    subprocess.run(["dpkg-deb", "--build", "-Znone", tree, archives / "libtool_1.0_arm64.deb"], check=True)
    subprocess.run(["sh", "-c", DATABASE, "sh", root], check=True)
    database = root / "var/lib/dpkg"
    told = subprocess.run(
        ["dpkg-query", f"--admindir={database}", "-W", "-f", "${Package} ${Architecture} ${Status}\n"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert told.stdout == "libtool arm64 install ok installed\n"
    assert (database / "info/libtool:arm64.list").read_text().splitlines() == [
        "/.",
        "/usr",
        "/usr/lib",
        "/usr/lib/libtool.so",
    ]
    assert (database / "info/libtool:arm64.postinst").exists()
    assert not Path(database / "control").exists()
