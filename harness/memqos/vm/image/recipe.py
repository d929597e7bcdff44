"""From a profile to the commands and files of its image: pure, so that a test can read it.

A static program becomes a container image without registry or builder: the bytes of a docker-archive. The image's id
depends on its content only.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from memqos.vm.profile import GuestFile, Profile

__all__ = [
    "BUILD_BYTES",
    "DISK_BYTES",
    "ENVIRONMENT",
    "Keys",
    "Mirror",
    "compile_arguments",
    "container_image",
    "container_image_name",
    "extract_arguments",
    "fingerprint",
    "mmdebstrap_arguments",
    "overlay_archive",
    "pack_arguments",
    "root_of",
]

BUILD_BYTES = 2 << 30
"""Disk space that a build needs in the cache: the unpacked root, its archive, the disk."""

DISK_BYTES = 4 << 30
"""The size of the guest's root disk: the system, and room for what containers write. Its file is sparse."""

NOT_IN_THE_IMAGE = ("purpose", "cgroup_v1", "additions", "architecture", "init")
"""Fields of a profile that do not affect its image, or are added separately."""

UNWANTED_PATHS = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The source of Debian packages.

    uri: empty leaves it to mmdebstrap's own default. keyring: a file or folder of keys; empty as for uri.
    """

    uri: str = ""
    keyring: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys in an image, in OpenSSH's text formats: the key that may log in, and the host key."""

    client_public: str
    host_private: str
    host_public: str


def fingerprint(profile: Profile, client_public: str) -> str:
    """What the image depends on, as 12 hexadecimal digits: profile, commands, container images, and the client's key.

    The mirror is not included: it has the same packages as any other, only newer ones as time passes.
    """
    install = mmdebstrap_arguments(
        "mmdebstrap", profile, Mirror(), mode="", target="", overlay="", boot="", stale=False
    )
    facts = {
        "profile": {name: value for name, value in asdict(profile).items() if name not in NOT_IN_THE_IMAGE},
        "client": client_public,
        "commands": [ENVIRONMENT, install, IN_MEMORY, PACK, compile_arguments("gcc", (), "")],
        "disk": DISK_BYTES,
        "container": container_image("any", b"", architecture=profile.architecture.name),
    }
    if profile.init is not None:
        extract = extract_arguments("mmdebstrap", profile, Mirror(), mode="", target="", database="", stale=False)
        facts |= {"architecture": profile.architecture.name, "init": asdict(profile.init), "extract": extract}
    text = json.dumps(facts, sort_keys=True, default=lambda content: hashlib.sha256(content).hexdigest())
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def mmdebstrap_arguments(
    program: str, profile: Profile, mirror: Mirror, *, mode: str, target: str, overlay: str, boot: str, stale: bool,
    native: str = "",
) -> list[str]:  # fmt: skip
    """The command that installs the packages, adds memqos's files and copies /boot out; run with ENVIRONMENT.

    mode: root or unshare. target: the archive to write, a path ending in .tar. overlay: the archive of memqos's files.
    boot: the folder that receives /boot. stale: accept a Release file that is past its Valid-Until. native: dpkg's name
    of the host's architecture, for a root of that one without a kernel, whose configuration goes into an image of
    another architecture; "" for the profile's own.
    """
    return [
        program,
        f"--mode={mode}",
        "--variant=apt",
        f"--architectures={native or profile.architecture.debian}",
        "--components=main",
        f"--include={','.join((*(() if native else (_kernel(profile),)), *profile.packages))}",
        *_apt_options(mirror, stale=stale),
        *(f"--dpkgopt=path-exclude={path}" for path in UNWANTED_PATHS),
        "--dpkgopt=force-unsafe-io",
        f"--customize-hook=tar-in {overlay} /",
        '--customize-hook=rm -f "$1"/etc/apt/sources.list "$1"/etc/ssh/ssh_host_[re]?[as]*_key*',
        *(
            []
            if native
            else ['--customize-hook=chroot "$1" update-initramfs -c -k all', f"--customize-hook=copy-out /boot {boot}"]
        ),
        *_outputs(profile, mirror, mode=mode, target=target),
    ]


def extract_arguments(
    program: str, profile: Profile, mirror: Mirror, *, mode: str, target: str, database: str, stale: bool
) -> list[str]:
    """The command that extracts all packages of a profile that this host cannot run, without running any program.

    database: the script that writes dpkg's database from the packages, memqos.vm.image.foreign. The rest: as above.
    """
    return [
        program,
        f"--mode={mode}",
        "--variant=extract",
        f"--architectures={profile.architecture.debian}",
        "--components=main",
        "--include=?essential",
        f"--include={','.join(('apt', _kernel(profile), *profile.packages))}",
        *_apt_options(mirror, stale=stale),
        f"--extract-hook={database}",
        # The last hooks that this variant runs.
        '--extract-hook=rm -f "$1"/etc/apt/sources.list',
        '--extract-hook=depmod --basedir="$1" "$(ls "$1"/usr/lib/modules)"',
        *_outputs(profile, mirror, mode=mode, target=target),
    ]


def _kernel(profile: Profile) -> str:
    """The kernel's package in apt's notation."""
    return f"{profile.kernel}/{profile.kernel_suite}" if profile.kernel_suite else profile.kernel


def _apt_options(mirror: Mirror, *, stale: bool) -> list[str]:
    return [
        *([f"--keyring={mirror.keyring}"] if mirror.keyring else []),
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        *(['--aptopt=Acquire::Check-Valid-Until "false"'] if stale else []),
    ]


def _outputs(profile: Profile, mirror: Mirror, *, mode: str, target: str) -> list[str]:
    """Excluded files, the suite, the target, and the sources of packages."""
    return [
        # Nothing is mounted into the tree: its removal cannot affect the host.
        *(["--skip=chroot/mount"] if mode == "root" else []),
        "--skip=output/dev",
        profile.suite,
        target,
        *([f"deb {mirror.uri} {suite} main" for suite in profile.suites] if mirror.uri or profile.suites[1:] else []),
    ]


ENVIRONMENT = {"LC_ALL": "C.UTF-8", "INITRD": "No"}
"""INITRD=No: the kernel's package, and a trigger after it, generate no initrd.

The command generates the one that includes memqos's files.
"""

PACK = """
tar --extract --file "$2" --directory "$1" --numeric-owner --xattrs --xattrs-include='*'
mkdir -p "$1/dev"
mke2fs -q -F -t ext4 -L memqos-root -E lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0 -d "$1" "$3"
"""
"""Unpacks the root and makes a file system of it; $1 folder, $2 archive, $3 disk, a file of the final size."""

IN_MEMORY = 'mount -t tmpfs -o mode=0755 memqos-root "$1"'
"""For an ordinary user: files of further ids that a killed build leaves on the disk could not be removed."""


def pack_arguments(unshare: str, *, folder: str, archive: str, disk: str, root: bool) -> list[str]:
    """The command that turns the archive of a root into a file system.

    Without root it runs in a user namespace in which it is root and has further ids, so that files keep their owners.
    As root it needs no namespace, and so also works in a container without that permission.
    """
    words = ["memqos-pack", folder, archive, disk]
    if root:
        return ["sh", "-euc", PACK, *words]
    return [
        unshare, "--user", "--map-root-user", "--map-auto", "--mount",
        "sh", "-euc", IN_MEMORY + PACK, *words,
    ]  # fmt: skip


def compile_arguments(program: str, sources: Sequence[str], binary: str) -> list[str]:
    """The command that compiles one workload program statically."""
    return [program, "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-s", "-o", binary, *sources]


def overlay_archive(profile: Profile, keys: Keys) -> bytes:
    """All of memqos's files in the guest, as a tar owned by root: files, keys, masked and enabled units."""
    units = "/etc/systemd/system"
    links = {f"{units}/{unit}": "/dev/null" for unit in profile.masked_units}
    links |= {f"{units}/multi-user.target.wants/{unit}": f"../{unit}" for unit in profile.enabled_units}
    files = [(file.path, file.content, file.mode) for file in (*profile.files, *_key_files(keys))]
    private = ("/etc/ssh/ssh_host_ed25519_key", "/root/.ssh/authorized_keys")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        # The other folders exist already, or are created properly when a file needs them.
        archive.addfile(_member("/root/.ssh", tarfile.DIRTYPE, 0o700))
        for path, content, mode in files:
            member = _member(path, tarfile.REGTYPE, 0o600 if path in private else mode)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for path, where in sorted(links.items()):
            member = _member(path, tarfile.SYMTYPE, 0o777)
            member.linkname = where
            archive.addfile(member)
    return buffer.getvalue()


def _key_files(keys: Keys) -> tuple[GuestFile, ...]:
    return (
        GuestFile(path="/root/.ssh/authorized_keys", content=keys.client_public.encode()),
        GuestFile(path="/etc/ssh/ssh_host_ed25519_key", content=keys.host_private.encode()),
        GuestFile(path="/etc/ssh/ssh_host_ed25519_key.pub", content=keys.host_public.encode()),
    )


def _member(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(f".{path}")
    member.type, member.mode = kind, mode
    return member


EPOCH = "1970-01-01T00:00:00Z"


def container_image_name(program: str) -> str:
    """The name of a program's image in the guest's store: memqos.local/memload:1."""
    return f"memqos.local/{program}:1"


def container_image(program: str, binary: bytes, *, architecture: str) -> bytes:
    """A docker-archive with one layer: the program at /NAME, which is also the entry point, and an empty /tmp."""
    layer = root_of(program, binary)
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "created": EPOCH,
            # youki starts nothing without PATH, though the entry point is an absolute path.
            "config": {"Entrypoint": [f"/{program}"], "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{"created": EPOCH, "created_by": "memqos"}],
        }
    )
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = _json([{"Config": config_name, "RepoTags": [container_image_name(program)], "Layers": ["layer.tar"]}])
    return _tar(
        [_file(config_name, config), _file("layer.tar", layer), _file("manifest.json", manifest)],
    )


def root_of(program: str, binary: bytes) -> bytes:
    """The root file system of a program's image, as a tar: the program, and an empty /tmp."""
    return _tar([_folder("tmp", 0o1777), _file(program, binary, 0o755)])


Member = tuple[tarfile.TarInfo, bytes]


def _file(name: str, content: bytes, mode: int = 0o644) -> Member:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    return member, content


def _folder(name: str, mode: int) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    return member, b""


def _tar(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
