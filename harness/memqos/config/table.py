"""The one table of settings: name, default, environment variable, and help.

The options of every verb and of the pytest plugin, the keys of files, and the attributes of `Settings` are made from
this table or tested against it, so they cannot drift apart.

Also the definition of a setting, and the notation of runtimes under test: an OCI runtime, alone or below what drives
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from memqos.engine.translate.versions import DRIVEN_DIRECTLY, OCI_RUNTIMES, RuntimeName
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = [
    "ANY_RUNTIME",
    "ARCHITECTURES",
    "BELOW_DOCKER",
    "BELOW_PODMAN",
    "BY_HANDLER",
    "DIRECTLY",
    "OTHER_VARIABLES",
    "OVER_CONTAINERD",
    "OVER_CRIO",
    "PREFIX",
    "PROGRAM_NAME",
    "ROOTLESS",
    "RUNTIMES",
    "SETTINGS",
    "Kind",
    "Setting",
    "below_docker",
    "below_podman",
    "direct_prefix",
    "is_direct",
    "is_gvisor",
    "is_rootless",
    "oci_runtime",
    "offered_name",
    "runtime_prefix",
]

DIRECTLY = "oci:"
"""The prefix of an OCI runtime that is driven without a daemon."""
ROOTLESS = "rootless:"
"""The prefix of an OCI runtime that an ordinary user drives without a daemon, in a cgroup that systemd delegates."""
OVER_CONTAINERD = "containerd+"
OVER_CRIO = "crio+"
BELOW_DOCKER = "docker+"
BELOW_PODMAN = "podman+"
"""Before an OCI runtime below Podman's service, which speaks Docker's API."""
BY_HANDLER = "cri+"
"""The prefix of a handler of the server on the user's socket."""
RUNTIMES = tuple(
    f"{prefix}{name}"
    for prefix, names in (
        *((one, OCI_RUNTIMES) for one in ("", OVER_CONTAINERD, OVER_CRIO, BELOW_DOCKER, BELOW_PODMAN, ROOTLESS)),
        (DIRECTLY, DRIVEN_DIRECTLY),
    )
    for name in names
)


_PREFIXES = (DIRECTLY, ROOTLESS, OVER_CONTAINERD, OVER_CRIO, BELOW_DOCKER, BELOW_PODMAN)
_ANY_PREFIX = "|".join(map(re.escape, _PREFIXES))
PROGRAM_NAME = re.compile(r"[A-Za-z][\w.-]{0,62}", re.ASCII)
"""The syntax of an OCI runtime's name, which also names folders, handlers and columns."""
ANY_RUNTIME = re.compile(
    rf"{re.escape(BY_HANDLER)}[\w.-]+"
    rf"|(?!{re.escape(BY_HANDLER)})(?:{_ANY_PREFIX})?[^,\n]*/[^,\n]*"
    rf"|(?:{_ANY_PREFIX}){PROGRAM_NAME.pattern}",
    re.ASCII,
)
"""What else --runtime accepts than RUNTIMES: a handler, a program of any name, or a program's path."""


def runtime_prefix(chosen: str) -> str:
    """The prefix of an OCI runtime in a choice, "oci:" or "containerd+"; "" without one."""
    return next((prefix for prefix in (*_PREFIXES, BY_HANDLER) if chosen.startswith(prefix)), "")


def offered_name(chosen: str) -> str:
    """The runtime in the places' notation, such as "oci:runc"; an OCI runtime alone is one below containerd."""
    return chosen if runtime_prefix(chosen) else f"{OVER_CONTAINERD}{chosen}"


def below_docker(chosen: str) -> bool:
    """Whether the Docker Engine creates the containers of a choice."""
    return chosen.startswith(BELOW_DOCKER)


def below_podman(chosen: str) -> bool:
    """Whether Podman makes the containers of a choice."""
    return chosen.startswith(BELOW_PODMAN)


def direct_prefix(chosen: str) -> str:
    """What stands before an OCI runtime without a daemon, "oci:" or "rootless:"; "" for one below a daemon."""
    return runtime_prefix(chosen) if is_direct(chosen) else ""


def is_direct(chosen: str) -> bool:
    """Whether no daemon is above the OCI runtime of a choice."""
    return chosen.startswith((DIRECTLY, ROOTLESS))


def is_rootless(chosen: str) -> bool:
    """Whether an ordinary user runs the OCI runtime of a choice."""
    return chosen.startswith(ROOTLESS)


def is_gvisor(chosen: str) -> bool:
    """Whether a choice is the machine's own runsc, which is added to images on request."""
    return chosen == f"{DIRECTLY}{RuntimeName.RUNSC}"


def oci_runtime(chosen: str) -> str:
    """The OCI runtime of a choice: "runc" of "runc", "containerd+runc", "docker+runc" and "oci:runc"."""
    return re.split(r"[+:]", chosen)[-1]


ARCHITECTURES = ("amd64", "arm64", "ppc64le")
"""The architectures of booted machines, in container images' spelling."""

PREFIX = "MEMQOS_"
"""The prefix of memqos's environment variables."""

Default = str | int | bool | CgroupVersion | tuple[str, ...] | None
"""A setting's default; None is "not set"."""


class Kind(Enum):
    """The type of a setting's text."""

    WORD = "a word"
    NAME_OR_FILE = "a name, or a file's path: what ends in .json or has a slash"
    DRIVERS = "cgroup drivers, separated by commas"
    HIERARCHY = "a version of cgroups"
    WORDS = "words, separated by commas"
    RUNTIMES = "runtimes, separated by commas"
    COUNT = "a whole number, 1 or more"
    FLAG = "yes or no"
    DURATION = "a time, such as 90s, 20m or 1h30m"
    RUNTIME = "a version such as 1.3.6, or one with its runtime's name, such as crun@1.21"
    FILE = "an existing file"
    FILES = "existing files, one for each option"
    FOLDER = "a folder"
    SHARD = "a part of several, such as 2/5"
    PLACED = "files or folders with their place in the machine, SRC:DST or SRC:DST:MODE, one for each option"
    UNITS = "systemd units, one for each option"
    PROGRAMS = "programs, PATH or NAME=PATH, one for each option"

    @property
    def is_repeated(self) -> bool:
        """Whether its option may be repeated, once for each value."""
        return self in {Kind.FILES, Kind.PLACED, Kind.UNITS, Kind.PROGRAMS}

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return self.is_repeated or self in {Kind.WORDS, Kind.RUNTIMES, Kind.DRIVERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of the table.

    name: as in `memqos run --NAME`; pytest's option is `--memqos-NAME`, the environment variable MEMQOS_NAME. default:
    None is "not set", which `help` explains. choices: empty if any word is accepted.
    """

    name: str
    kind: Kind
    help: str
    default: Default = None
    metavar: str = ""
    choices: tuple[str, ...] = ()

    @property
    def pytest_option(self) -> str:
        """The plugin's option; prefixed, since a plain name could belong to another plugin."""
        return f"--memqos-{self.name}"

    @property
    def environment(self) -> str:
        """The environment variable."""
        return f"{PREFIX}{self.name.upper().replace('-', '_')}"

    @property
    def ini(self) -> str:
        """The key in pytest's own file."""
        return f"{PREFIX.lower()}{self.key}"

    @property
    def key(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")


OTHER_VARIABLES: Mapping[str, str] = {
    "MEMQOS_CACHE": "the folder of images and checkpoints",
    "MEMQOS_DEBIAN_MIRROR": "the mirror for an image's packages",
    "MEMQOS_PYTHON": "the Python that `./memqos` uses",
}
"""Variables that are not settings of a run, with their meaning."""

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="profile",
        kind=Kind.WORDS,
        default=("trixie",),
        metavar="NAME[,NAME...]",
        help="machines to boot: kernel, runtimes and systemd from vm/profiles/NAME.toml; every case runs on each",
    ),
    Setting(
        name="arch",
        kind=Kind.WORD,
        choices=ARCHITECTURES,
        metavar="NAME",
        help="CPU architecture of the machines, where a profile has several: trixie with arm64 is trixie-arm64; "
        "one that is not this host's is emulated",
    ),
    Setting(
        name="target",
        kind=Kind.WORD,
        metavar="URL",
        help="test this existing machine instead of booting a VM: ssh://root@node7:22 or local://; it must have no "
        "pods and no kubelet, and is restored afterwards",
    ),
    Setting(
        name="image",
        kind=Kind.FILE,
        metavar="FILE.qcow2",
        help="boot this disk image of a distribution instead of a profile, such as its cloud image; its kernel and "
        "runtimes are used as they are, and the file stays unchanged",
    ),
    Setting(
        name="ssh-user",
        kind=Kind.WORD,
        default="root",
        metavar="NAME",
        help="log in to the machine of --image as this user, which must be root or become root by sudo without a "
        "password",
    ),
    Setting(
        name="ssh-key",
        kind=Kind.FILE,
        metavar="PATH",
        help="log in to the machine of --image with this private key; without it cloud-init in the image gets a key of "
        "memqos's own",
    ),
    Setting(
        name="topology",
        kind=Kind.NAME_OR_FILE,
        default="two-numa-nodes",
        metavar="NAME|FILE",
        help="CPUs, NUMA nodes, memory and swap from fixtures/topologies/NAME.json, or from a file of your own",
    ),
    Setting(
        name="cgroup",
        kind=Kind.HIERARCHY,
        default=CgroupVersion.V2,
        choices=tuple(CgroupVersion),
        metavar="VERSION",
        help="cgroup hierarchy that the machines boot with; v1 needs a profile that supports it, see `memqos vm list`",
    ),
    Setting(
        name="no-recursiveprot",
        kind=Kind.FLAG,
        default=False,
        help="mount cgroup v2 without memory_recursiveprot, as kernels before 5.7 have it",
    ),
    Setting(
        name="runtime",
        kind=Kind.RUNTIMES,
        default=(offered_name("runc"),),
        choices=RUNTIMES,
        metavar="NAME[,NAME...]",
        help="runtimes under test: an OCI runtime below containerd (runc is short for containerd+runc), CRI-O "
        "(crio+crun), Docker (docker+runc) or Podman (podman+crun), cri+HANDLER for any other CRI server, oci:runc, "
        "oci:crun or oci:runsc (gVisor) without a daemon, or rootless:runc or rootless:crun, without a daemon as an "
        "ordinary user; instead of the OCI runtime's name also the path of a program, which is copied into the machine "
        "(oci:./youki, containerd+./youki); every case runs with each",
    ),
    Setting(
        name="no-userns",
        kind=Kind.FLAG,
        default=False,
        help="give containers of rootless: runtimes no user namespace of their own: they share the one in which the "
        "runtime is started, as below rootless Docker or a kubelet in a user namespace",
    ),
    Setting(
        name="cri-socket",
        kind=Kind.WORD,
        metavar="PATH",
        help="use the CRI server on this socket in the machine; names of --runtime with a plus sign, except "
        "Docker's and Podman's, then refer to this server",
    ),
    Setting(
        name="driver",
        kind=Kind.DRIVERS,
        default=(CgroupDriver.SYSTEMD,),
        choices=tuple(CgroupDriver),
        metavar="NAME[,NAME...]",
        help="cgroup drivers of the kubelet whose rules are enforced; every case runs under each",
    ),
    Setting(
        name="kubernetes",
        kind=Kind.WORDS,
        default=(),
        metavar="X.Y[,X.Y...]",
        help="test only the revisions of these releases (default: all)",
    ),
    Setting(
        name="kubelet-binary",
        kind=Kind.FILE,
        metavar="PATH",
        help="test this kubelet: it runs in the machine against an API stand-in, and writes what memqos otherwise "
        "writes in its place; its version selects the rules; needs a CRI runtime",
    ),
    Setting(
        name="kubelet-upgrade",
        kind=Kind.FILE,
        metavar="PATH",
        help="upgrade to this kubelet, and roll back from it, in the claims about both; of another release than "
        "--kubelet-binary",
    ),
    Setting(
        name="kubelet-config",
        kind=Kind.FILES,
        default=(),
        metavar="FILE",
        help="run the cases under this KubeletConfiguration instead of the catalogue's; may be given several times",
    ),
    Setting(
        name="all",
        kind=Kind.FLAG,
        default=False,
        help="also run the claims that the default run skips for time; anything you name (a chapter, a file, -k) "
        "always runs",
    ),
    Setting(
        name="runtime-binary",
        kind=Kind.PROGRAMS,
        default=(),
        metavar="[NAME=]PATH",
        help="use this file as the OCI runtime of --runtime, or as the one called NAME; the image's own of that name "
        "stays available as NAME.dist; may be given several times",
    ),
    Setting(
        name="runtime-version",
        kind=Kind.RUNTIME,
        metavar="[NAME@]VERSION",
        help="expect the behaviour of this version of the OCI runtime, such as 1.3.6 or crun@1.21, regardless of the "
        "version that the runtime reports",
    ),
    Setting(
        name="runtime-deb",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="install this Debian package in the machine, such as your build of a runtime; may be given several times",
    ),
    Setting(
        name="containerd-binary",
        kind=Kind.FILE,
        metavar="PATH",
        help="replace containerd in the machine with this file; the image's own stays available",
    ),
    Setting(
        name="containerd-config",
        kind=Kind.FILE,
        metavar="PATH",
        help="replace /etc/containerd/config.toml in the machine with this file",
    ),
    Setting(
        name="guest-file",
        kind=Kind.PLACED,
        default=(),
        metavar="SRC:DST[:MODE]",
        help="copy this file or folder into the machine before it is saved, such as a daemon that no profile contains; "
        "may be given several times",
    ),
    Setting(
        name="guest-unit",
        kind=Kind.UNITS,
        default=(),
        metavar="NAME",
        help="enable and start this systemd unit in the machine before it is saved, after all files and packages are "
        "installed; may be given several times",
    ),
    Setting(
        name="guest-deb",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="install this Debian package in the machine, such as a daemon's dependency; may be given several times",
    ),
    Setting(
        name="kernel-image",
        kind=Kind.FILE,
        metavar="PATH",
        help="boot this kernel (bzImage) without modules: its drivers must be built in or in an initrd",
    ),
    Setting(
        name="initrd",
        kind=Kind.FILE,
        metavar="PATH",
        help="boot the kernel of --kernel-image with this initrd instead of the image's",
    ),
    Setting(
        name="kernel-deb",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="install this kernel's Debian package in the machine and boot it; may be given several times",
    ),
    Setting(
        name="kernel-tree",
        kind=Kind.FOLDER,
        metavar="DIR",
        help="install the kernel that is built in this folder, with its modules, and boot it: a build tree, or "
        "a folder with boot/vmlinuz-RELEASE and lib/modules/RELEASE",
    ),
    Setting(
        name="no-checkpoint",
        kind=Kind.FLAG,
        default=False,
        help="boot every machine instead of restoring it from its checkpoint; slower, with the same results",
    ),
    Setting(
        name="keep-vm",
        kind=Kind.FLAG,
        default=False,
        help="leave the machine of the first failure running, and print how to enter it and how to end it",
    ),
    Setting(
        name="known",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="your list of known deviations, in the format of vm/known.toml, used in addition to it: such a deviation "
        "is reported as known and does not fail the run; may be given several times",
    ),
    Setting(
        name="strict-known",
        kind=Kind.FLAG,
        default=False,
        help="fail the run if a deviation that is listed as known (vm/known.toml, --known) was tested and did not "
        "occur",
    ),
    Setting(
        name="baseline",
        kind=Kind.FILE,
        metavar="PATH",
        help="accept the deviations in this file, each until its date: they are reported as known and do not fail the "
        "run",
    ),
    Setting(
        name="last-failed",
        kind=Kind.FLAG,
        default=False,
        help="run only the cases that deviated or ended in an error in the previous run, from the folder of --results "
        "or the newest folder in results",
    ),
    Setting(
        name="shard",
        kind=Kind.SHARD,
        metavar="K/N",
        help="run the K-th of N parts of the cases, one for each of N jobs; the parts are balanced by the times of "
        "earlier runs, and are the same on all hosts with the same times",
    ),
    Setting(
        name="results",
        kind=Kind.FOLDER,
        metavar="DIR",
        help="folder for the results (default: results/TIME in the current folder)",
    ),
    Setting(
        name="parallel",
        kind=Kind.COUNT,
        default=2,
        metavar="N",
        help="how many pods start, and how many requests are judged, at the same time in one machine",
    ),
    Setting(
        name="time-budget",
        kind=Kind.DURATION,
        metavar="TIME",
        help="start no further case after this time (20m, 1h30m); the remaining cases count as not run, and the run as "
        "interrupted",
    ),
)
