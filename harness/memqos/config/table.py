"""The one table of settings: name, default, environment variable, and what people are told of it.

The options of every verb and of the pytest plugin, the keys of files, and the attributes of `Settings` are made from
this table or tested against it, so they cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from memqos.config.kinds import Kind, Setting
from memqos.config.runtimes import RUNTIMES, offered_name
from memqos.engine.translate.versions import DRIVEN_DIRECTLY
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = ["OTHER_VARIABLES", "SETTINGS"]

OTHER_VARIABLES: Mapping[str, str] = {
    "MEMQOS_CACHE": "the folder of images and checkpoints",
    "MEMQOS_DEBIAN_MIRROR": "where an image's packages come from",
    "MEMQOS_PYTHON": "the Python that `./memqos` takes",
}
"""The ones that are no setting of a run, and what they say."""

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="profile",
        kind=Kind.WORDS,
        default=("trixie",),
        metavar="NAME[,NAME...]",
        help="machines to boot: kernel, runtimes and systemd of vm/profiles/NAME.toml; every case runs on each",
    ),
    Setting(
        name="target",
        kind=Kind.WORD,
        metavar="URL",
        help="use this machine, which is there, instead of booting one: ssh://root@node7:22 or local://; it must be "
        "free of pods and kubelets, and is left as it was",
    ),
    Setting(
        name="topology",
        kind=Kind.NAME_OR_FILE,
        default="two-zones",
        metavar="NAME|FILE",
        help="CPUs, NUMA zones, memory and swap of fixtures/topologies/NAME.json, or of a file of your own",
    ),
    Setting(
        name="cgroup",
        kind=Kind.HIERARCHY,
        default=CgroupVersion.V2,
        choices=tuple(CgroupVersion),
        metavar="VERSION",
        help="cgroup hierarchy that the machines boot with; v1 needs a profile that can, see `memqos vm list`",
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
        "(crio+crun) or Docker (docker+runc), cri+HANDLER for any other server of CRI, or oci:runc, which is driven "
        "directly, with no daemon in between (as oci:runsc, gVisor, is); every case runs with each",
    ),
    Setting(
        name="cri-socket",
        kind=Kind.WORD,
        metavar="PATH",
        help="speak CRI on this socket in the machine, such as that of a daemon of yours; every name of --runtime with "
        "a plus sign, but for Docker's, is then of the server that listens there",
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
        help="run only the revisions of these releases; all of them if not given",
    ),
    Setting(
        name="all",
        kind=Kind.FLAG,
        default=False,
        help="run also what a run of whole suites leaves out to be done within minutes; what is named, by a chapter, a "
        "file or -k, is never left out",
    ),
    Setting(
        name="runtime-binary",
        kind=Kind.FILE,
        metavar="PATH",
        help="put this file in the place of the OCI runtime inside the machine; the image's own stays beside it "
        "as NAME.dist",
    ),
    Setting(
        name="runtime-version",
        kind=Kind.RUNTIME,
        metavar="[NAME@]VERSION",
        choices=tuple(map(str, DRIVEN_DIRECTLY)),
        help="expect what this version of the OCI runtime does, such as 1.3.6 or crun@1.21, whatever the runtime says "
        "that it is",
    ),
    Setting(
        name="runtime-deb",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="install this Debian package in the machine, such as a runtime of yours; may be given several times",
    ),
    Setting(
        name="containerd-binary",
        kind=Kind.FILE,
        metavar="PATH",
        help="put this file in the place of containerd inside the machine; the image's own stays beside it",
    ),
    Setting(
        name="containerd-config",
        kind=Kind.FILE,
        metavar="PATH",
        help="put this file in the place of /etc/containerd/config.toml inside the machine",
    ),
    Setting(
        name="guest-file",
        kind=Kind.PLACED,
        default=(),
        metavar="SRC:DST[:MODE]",
        help="put this file or folder into the machine before it is saved, such as a daemon that no profile has; may "
        "be given several times",
    ),
    Setting(
        name="guest-unit",
        kind=Kind.UNITS,
        default=(),
        metavar="NAME",
        help="enable and start this systemd unit in the machine before it is saved, once what was brought is there; "
        "may be given several times",
    ),
    Setting(
        name="guest-deb",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="install this Debian package in the machine, such as what a daemon needs; may be given several times",
    ),
    Setting(
        name="kernel-image",
        kind=Kind.FILE,
        metavar="PATH",
        help="boot this kernel (bzImage); its modules are not there, so it has to do without them or bring an initrd",
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
        name="no-checkpoint",
        kind=Kind.FLAG,
        default=False,
        help="boot every machine instead of restoring it from its checkpoint; slower, and nothing else should change",
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
        help="list of deviations that are known to you, with the fields of vm/known.toml, beside which it is read: "
        "such a deviation is told as known and fails no run; may be given several times",
    ),
    Setting(
        name="strict-known",
        kind=Kind.FLAG,
        default=False,
        help="fail the run where a deviation that is listed as known (vm/known.toml, --known) was looked for and is "
        "not there",
    ),
    Setting(
        name="baseline",
        kind=Kind.FILE,
        metavar="PATH",
        help="accept the deviations in this file, each until its day: they are told as known, and fail nothing",
    ),
    Setting(
        name="last-failed",
        kind=Kind.FLAG,
        default=False,
        help="run only the cases that deviated or ended in an error in the run before, whose results are in the "
        "folder of --results or the newest in results",
    ),
    Setting(
        name="shard",
        kind=Kind.SHARD,
        metavar="K/N",
        help="run the K-th of N parts of the cases, one for each of N jobs; parts take nearly the same time as far as "
        "it is known from earlier runs, and are the same wherever the same is known",
    ),
    Setting(
        name="results",
        kind=Kind.FOLDER,
        metavar="DIR",
        help="folder for the results; results/TIME in the current folder if not given",
    ),
    Setting(
        name="parallel",
        kind=Kind.COUNT,
        default=2,
        metavar="N",
        help="pods that are started, and requests that are judged, at the same time in one machine",
    ),
    Setting(
        name="time-budget",
        kind=Kind.DURATION,
        metavar="TIME",
        help="after this time (20m, 1h30m) no further case is begun; what is left counts as not run, and the run as "
        "interrupted",
    ),
)
