"""A kernel built by the user: in its build tree, or in the layout of its install targets.

It becomes a Debian package in memory, which is installed in the machine like one of --kernel-deb: the machine generates
the initrd with the modules that it needs. Nothing is written to the tree.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import UsageError

__all__ = ["OPTION", "KernelTree", "kernel_tree"]

OPTION = "--kernel-tree"
BZIMAGE = "arch/x86/boot/bzImage"
RELEASE = "include/config/kernel.release"
MOST_BYTES = 1 << 30
"""The most bytes of a kernel and its modules without debug information: the machine's disk has some GiB."""

MAGIC, MAGIC_AT, VERSION_AT = b"HdrS", 0x202, 0x20E
"""The boot protocol's magic, and the offset of its version pointer (Documentation/arch/x86/boot.rst)."""

METADATA = ("modules.builtin", "modules.builtin.modinfo", "modules.order")
"""The files that depmod reads besides the modules."""

NEEDED = (
    "BLK_DEV_INITRD", "CGROUPS", "DEVTMPFS", "EXT4_FS", "INET", "MEMCG", "OVERLAY_FS", "SERIAL_8250_CONSOLE",
    "VIRTIO_BLK", "VIRTIO_NET", "VIRTIO_PCI",
)  # fmt: skip
"""Options without which the machine does not boot, or runs no containers."""

MODULE = (".ko", ".ko.xz", ".ko.gz", ".ko.zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTree:
    """A built kernel. modules: their files, by path below /lib/modules/RELEASE.

    sha256: of the kernel, its configuration, and the modules' names, sizes and modification times. size: in bytes.
    """

    path: Path
    release: str
    image: Path
    config: Path | None
    modules: Mapping[str, Path]
    sha256: str
    size: int

    @property
    def option(self) -> str:
        """The option that named it."""
        return OPTION

    @property
    def facts(self) -> dict[str, object]:
        """Its JSON in a bundle."""
        return {
            "path": str(self.path),
            "release": self.release,
            "modules": sum(name.endswith(MODULE) for name in self.modules),
            "sha256": self.sha256,
            "bytes": self.size,
        }

    def content(self) -> bytes:
        """The Debian package; modules without their debug information if this host has strip.

        Raises UsageError if the tree has changed since it was read, or is too large.
        """
        if kernel_tree(self.path).sha256 != self.sha256:
            raise UsageError(f"'{self.path}' was changed while it was in use.", where=OPTION)
        with tempfile.TemporaryDirectory(prefix="memqos-kernel-") as name:
            return _package(self, _stripped(self, Path(name)))


def kernel_tree(path: Path) -> KernelTree:
    """Read a build tree (arch/x86/boot/bzImage), or a folder with lib/modules/RELEASE and boot/vmlinuz-RELEASE.

    Raises UsageError, naming --kernel-tree and the command that helps, for a tree that is not built, is of another
    architecture, is of two versions, or lacks what the machine needs.
    """
    if not path.is_dir():
        raise UsageError(
            f"'{path}' is not a folder." if path.exists() else f"the folder '{path}' does not exist.",
            where=OPTION,
            next_step="Name the folder in which the kernel was built.",
        )
    try:
        installed = path / "lib" / "modules"
        found = _installed(path, installed) if installed.is_dir() else _built(path)
        _check_image(found)
        _check_config(found)
    except OSError as error:
        raise UsageError(f"'{error.filename}' cannot be read: {error.strerror}.", where=OPTION) from error
    return found


def _built(path: Path) -> KernelTree:
    """A build tree, in or outside the source."""
    image = path / BZIMAGE
    if not image.is_file():
        raise _not_built(path)
    release = (path / RELEASE).read_text().strip() if (path / RELEASE).is_file() else ""
    if not re.fullmatch(r"[\w.+~-]+", release, re.ASCII):
        raise UsageError(
            f"'{path}' has a kernel, but no release in {RELEASE}.",
            where=OPTION,
            next_step=f"make -C '{path}' bzImage modules",
        )
    config = path / ".config"
    order = path / "modules.order"
    if not order.is_file() and _has_modules(config):
        raise UsageError(
            f"'{path}' has a kernel whose modules are not built: modules.order is missing.",
            where=OPTION,
            next_step=f"make -C '{path}' modules",
        )
    modules = {name: path / name for name in METADATA if (path / name).is_file()}
    for line in order.read_text().split() if order.is_file() else ():
        # Before 5.19 names begin with kernel/, from 6.3 on they end in .o.
        name = re.sub(r"\.o$", ".ko", line.removeprefix("kernel/"))
        file = path / name
        if not file.is_file():
            raise UsageError(
                f"the module '{name}' of modules.order is not built in '{path}'.",
                where=OPTION,
                next_step=f"make -C '{path}' modules",
            )
        modules[f"kernel/{name}"] = file
    return _tree(path, release, image, config if config.is_file() else None, modules)


def _installed(path: Path, folder: Path) -> KernelTree:
    """The result of `make modules_install INSTALL_MOD_PATH=DIR` and `make install INSTALL_PATH=DIR/boot`."""
    releases = sorted(one.name for one in folder.iterdir() if one.is_dir())
    if len(releases) != 1:
        shown = ", ".join(releases) or "none"
        raise UsageError(
            f"'{folder}' has the modules of {len(releases)} kernels instead of one: {shown}.",
            where=OPTION,
            next_step="Install one kernel into a folder of its own.",
        )
    [release] = releases
    names = (
        f"boot/vmlinuz-{release}",
        f"vmlinuz-{release}",
        "boot/vmlinuz",
        "boot/bzImage",
        f"lib/modules/{release}/vmlinuz",
        BZIMAGE,
    )
    image = next((path / name for name in names if (path / name).is_file()), None)
    if image is None:
        raise UsageError(
            f"'{path}' has modules of {release}, but no kernel boot/vmlinuz-{release}.",
            where=OPTION,
            next_step=f"In the kernel's tree: mkdir -p '{path}/boot' && cp {BZIMAGE} '{path}/boot/vmlinuz-{release}'",
        )
    places = (path / "boot" / f"config-{release}", path / f"config-{release}", folder / release / "config")
    modules = {
        file.relative_to(folder / release).as_posix(): file
        for file in sorted((folder / release).rglob("*"))
        if file.is_file() and (file.name.endswith(MODULE) or file.name in METADATA)
    }
    return _tree(path, release, image, next((one for one in places if one.is_file()), None), modules)


def _tree(path: Path, release: str, image: Path, config: Path | None, modules: Mapping[str, Path]) -> KernelTree:
    digest, size = hashlib.sha256(release.encode()), 0
    for file in (image, *([config] if config else [])):
        content = file.read_bytes()
        digest.update(hashlib.sha256(content).digest())
        size += len(content)
    for name, file in sorted(modules.items()):
        status = file.stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        size += status.st_size
    return KernelTree(
        path=path.absolute(), release=release, image=image, config=config, modules=modules,
        sha256=digest.hexdigest(), size=size,
    )  # fmt: skip


def _not_built(path: Path) -> UsageError:
    other = next(iter(sorted(path.glob("arch/*/boot/Image*"))), None)
    if other is not None:
        return UsageError(
            f"'{path}' has a kernel for another CPU, {other.relative_to(path)}; the machines are x86-64.",
            where=OPTION,
            next_step=f"make -C '{path}' ARCH=x86_64 bzImage modules",
        )
    if (path / "Kbuild").is_file() and (path / "Makefile").is_file():
        lacking = "its configuration, .config" if not (path / ".config").is_file() else BZIMAGE
        configure = "" if (path / ".config").is_file() else f"make -C '{path}' defconfig kvm_guest.config && "
        return UsageError(
            f"the kernel in '{path}' is not built: it lacks {lacking}.",
            where=OPTION,
            next_step=f"{configure}make -C '{path}' -j$(nproc) bzImage modules",
        )
    return UsageError(
        f"'{path}' is not a kernel's build tree: it has neither {BZIMAGE} nor lib/modules.",
        where=OPTION,
        next_step="Name the folder in which the kernel was built (O=), or INSTALL_MOD_PATH of make modules_install.",
    )


def _options(config: Path | None) -> dict[str, str]:
    """The set options of a configuration, without CONFIG_."""
    if config is None or not config.is_file():
        return {}
    pairs = re.findall(r"(?m)^CONFIG_(\w+)=(.*)$", config.read_text(errors="replace"))
    return {str(name): str(value) for name, value in pairs}


def _has_modules(config: Path) -> bool:
    return "m" in _options(config).values()


def _check_image(tree: KernelTree) -> None:
    """UsageError for a file that is not a bzImage, and for one of another version than the modules."""
    data = tree.image.read_bytes()
    if data[MAGIC_AT : MAGIC_AT + 4] != MAGIC:
        raise UsageError(
            f"'{tree.image}' is not a kernel that QEMU can start.",
            where=OPTION,
            next_step=f"make -C '{tree.path}' bzImage",
        )
    [place] = struct.unpack_from("<H", data, VERSION_AT)
    said = data[place + 0x200 :].partition(b"\0")[0].decode("ascii", "replace").partition(" ")[0] if place else ""
    if said and said != tree.release:
        raise UsageError(
            f"'{tree.image}' is the kernel {said[:80]}, but '{tree.path}' has the modules of {tree.release}.",
            where=OPTION,
            next_step="Build both again: make bzImage modules",
        )


def _check_config(tree: KernelTree) -> None:
    """UsageError for a kernel built without what the machine needs; one without configuration is tried."""
    options = _options(tree.config)
    if options and (lacking := [name for name in NEEDED if options.get(name) not in {"y", "m"}]):
        flags = " ".join(f"-e {name}" for name in lacking)
        raise UsageError(
            f"the kernel in '{tree.path}' was built without {', '.join(f'CONFIG_{name}' for name in lacking)}, "
            "which the machine needs.",
            where=OPTION,
            next_step=f"scripts/config {flags} && make olddefconfig && make -j$(nproc) bzImage modules",
        )


def _stripped(tree: KernelTree, folder: Path) -> dict[str, Path]:
    """The modules without debug information, as copies; the originals if they have none, or without strip."""
    strip = shutil.which("strip")
    if strip is None or _options(tree.config).get("DEBUG_INFO") != "y":
        return dict(tree.modules)
    found = dict(tree.modules)
    for number, (name, file) in enumerate(tree.modules.items()):
        if name.endswith(".ko"):
            found[name] = Path(shutil.copyfile(file, folder / f"{number}.ko"))
    copies = [str(file) for name, file in found.items() if name.endswith(".ko")]
    for start in range(0, len(copies), 500):
        # A module that strip cannot read stays unchanged.
        subprocess.run([strip, "--strip-debug", *copies[start : start + 500]], capture_output=True, check=False)
    return found


def _package(tree: KernelTree, modules: Mapping[str, Path]) -> bytes:
    """An archive in the format deb(5), as `make bindeb-pkg` would fill it; deterministic for the same files."""
    total = sum(file.stat().st_size for file in (tree.image, *modules.values()))
    if total > MOST_BYTES:
        raise UsageError(
            f"the kernel and its modules in '{tree.path}' are {total >> 20} MiB; {MOST_BYTES >> 20} MiB are allowed.",
            where=OPTION,
            next_step="Install strip (binutils), or build fewer modules: make localmodconfig kvm_guest.config",
        )
    control = (
        "Package: memqos-kernel-tree\nVersion: 1\nArchitecture: amd64\nMaintainer: memqos\n"
        f"Description: kernel {tree.release} of a build tree\n"
    )
    files = [(f"boot/vmlinuz-{tree.release}", tree.image)]
    files += [(f"boot/config-{tree.release}", tree.config)] if tree.config else []
    files += [(f"lib/modules/{tree.release}/{name}", file) for name, file in sorted(modules.items())]
    return b"!<arch>\n" + b"".join(
        _member(name, content)
        for name, content in (
            ("debian-binary", b"2.0\n"),
            ("control.tar", _tar([("control", control.encode())])),
            ("data.tar", _tar((name, file.read_bytes()) for name, file in files)),
        )
    )


def _member(name: str, content: bytes) -> bytes:
    """A member of an ar archive."""
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
    return head.encode() + content + b"\n" * (len(content) % 2)


def _tar(files: Iterator[tuple[str, bytes]] | list[tuple[str, bytes]]) -> bytes:
    """A tar of these files and their parent folders, owned by root and without times."""
    buffer, made = io.BytesIO(), set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files:
            for folder in reversed([str(one) for one in Path(name).parents if str(one) != "."]):
                if folder not in made:
                    made.add(folder)
                    entry = tarfile.TarInfo(f"./{folder}")
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(entry)
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
