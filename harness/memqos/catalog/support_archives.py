"""Nodes from support archives: a sosreport, whose plug-in `cgroups` copies /sys/fs/cgroup, as a recording.

A sosreport copies files one after the other, over minutes, and has no second reading. The notes name parts of a
recording that it lacks. A must-gather has pods and no interface files: it is used as a source of pods.
Source: sosreport/sos, sos/report/plugins/{cgroups,kernel,numa,processor,crio,containerd,kubernetes,openshift}.py.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from memqos.catalog.page_sizes import (
    amounts_of,
    page_size_in_diagnostics,
    page_size_of_amounts,
    page_size_of_kernel,
)
from memqos.collector import program as collector
from memqos.errors import UsageError
from memqos.ownership import temporary_folder

__all__ = ["archived", "is_archive", "is_must_gather"]

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")
_MOST_FILES, _MOST_BYTES, _MOST_FILE = 1_000_000, 1 << 30, 1 << 20
_WANTED = re.compile(
    r"sys/fs/cgroup/.+|proc/(meminfo|swaps|mounts|uptime|pressure/\w+|sys/vm/\w+|sys/kernel/osrelease)|"
    r"sys/devices/system/(cpu/online|node/node\d+/(meminfo|cpulist|distance))|etc/os-release|"
    r"etc/(kubernetes|openshift)/.+\.conf|sos_commands/process/ps_.*|var/lib/kubelet/(config\.(yaml|json)|\w+_state)|"
    r"sos_commands/.*crictl_inspect.*|sos_commands/system/ld\.so_--list-diagnostics|sos_commands/kernel/(uname_-a|sysctl_-a)|uname|hostname|installed-(rpms|debs)|"
    r"sos_commands/(rpm|dpkg)/.*"
)
_CONFIGS = ("/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/config.json")
_PACKAGES = {
    "containerd": r"containerd(?:\.io)?",
    "cri-o": r"cri-o",
    "runc": r"runc",
    "crun": r"crun",
    "systemd": r"systemd",
}
_OPENSHIFT = 13
"""OpenShift 4.N has the kubelet of Kubernetes 1.(N + 13): 4.16 has 1.29, 4.19 has 1.32."""


def is_archive(place: str | Path) -> bool:
    """Whether a path is a support archive or the folder of an unpacked one."""
    path = Path(place)
    return str(path).endswith(_TARS) or (path.is_dir() and _root(path) is not None) or is_must_gather(path)


def is_must_gather(place: str | Path) -> bool:
    """Whether a folder is a must-gather: namespaces and cluster-scoped-resources, perhaps one folder deeper."""
    path = Path(place)
    if not path.is_dir():
        return False
    folders = (path, *(one for one in path.iterdir() if one.is_dir()))
    return any((one / "cluster-scoped-resources").is_dir() and (one / "namespaces").is_dir() for one in folders)


def _root(path: Path) -> Path | None:
    """The folder with the node's files: this one, or the only one in it."""
    below = [one for one in path.iterdir() if one.is_dir()] if path.is_dir() else []
    for folder in (path, *below):
        if (folder / "sys/fs/cgroup").is_dir() and (folder / "proc").is_dir():
            return folder
    return None


def archived(place: str | Path) -> Mapping[str, Any]:
    """The node in an archive as a recording's document.

    Raises UsageError for an unreadable archive, for one without interface files, and for a must-gather.
    """
    path = Path(place)
    if is_must_gather(path):
        raise UsageError(
            "a must-gather has pods and no interface file of a node.",
            where=str(place),
            next_step=f"Audit a sosreport or a recording of the node with --pods {place} -R.",
        )
    with _unpacked(path) as folder:
        root = _root(folder)
        if root is None:
            raise UsageError(
                "the archive has no folder sys/fs/cgroup.",
                where=str(place),
                next_step="Make it with the plug-in cgroups: sos report --enable-plugins cgroups.",
            )
        return _document(root, str(place))


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The folder itself, or for a tarball a new folder with the needed files."""
    if path.is_dir():
        yield path
        return
    with temporary_folder("memqos-archive-") as folder:
        try:
            _extract(path, folder)
        except (tarfile.TarError, OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise UsageError(
                f"the archive cannot be read: {str(error)[:200] or type(error).__name__}.",
                where=str(path),
                next_step="Give a sosreport as a tarball, or the folder that it was unpacked to.",
            ) from None
        yield folder


def _extract(path: Path, folder: Path) -> None:
    """Extract the needed plain files, without names outside of the folder, links and devices."""
    count = size = 0
    with _opened(path) as raw:
        stream = _Ending(raw)
        with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|") as archive:
            for member in archive:
                count += 1
                if count > _MOST_FILES or size > _MOST_BYTES:
                    raise tarfile.TarError(f"it has more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB")
                parts = PurePosixPath(member.name).parts
                if not member.isreg() or member.size > _MOST_FILE or not _is_wanted(parts):
                    continue
                file = archive.extractfile(member)
                if file is not None:
                    target = folder.joinpath("node", *parts[1:])
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(file.read(_MOST_FILE))
                    size += member.size
        stream.must_be_whole()


def _opened(path: Path) -> BinaryIO:
    """An archive's tar, decompressed by its first bytes and not by its name."""
    with path.open("rb") as file:
        magic = file.read(6)
    for first, read in ((b"\x1f\x8b", gzip.open), (b"\xfd7zXZ\0", lzma.open), (b"BZh", bz2.open)):
        if magic.startswith(first):
            return cast("BinaryIO", read(path, "rb"))
    return path.open("rb")


class _Ending:
    """A stream of bytes that keeps the last ones: tarfile accepts a truncated tar."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self._last = raw, b""

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all of them if negative; b"" at the end."""
        found = self._raw.read(size)
        self._last = (self._last + found)[-tarfile.BLOCKSIZE :]
        return found

    def must_be_whole(self) -> None:
        """Read the rest. Raises TarError if the last block is not the empty one that ends every tar."""
        while self.read(1 << 20):
            pass
        if self._last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.TarError("it is truncated")


def _is_wanted(parts: tuple[str, ...]) -> bool:
    """Whether it is a needed file in the archive's only folder."""
    below = parts[1:]
    return bool(below) and ".." not in parts and parts[0] != "/" and bool(_WANTED.fullmatch("/".join(below)))


def _document(root: Path, place: str) -> dict[str, Any]:
    node = collector.Node(str(root))
    tree = collector.Tree(node, "")
    if not tree.version:
        raise UsageError(
            "its sys/fs/cgroup has no cgroup v2 with the memory controller.",
            where=place,
            next_step="Collect the node itself: memqos collect --print.",
        )
    cgroups, ours = collector.cgroups_of(node, tree, float("inf"))
    if not ours:
        raise UsageError(
            "no cgroup in it is called kubepods or kubepods.slice.",
            where=place,
            next_step="Give the sosreport of a node on which a kubelet runs.",
        )
    packages = _packages(root)
    architecture = _architecture(node)
    page_size, taken = _page_size(node, architecture, cgroups)
    facts = collector.facts_of(node, tree) | {"page_size": page_size, "architecture": architecture}
    facts |= {name: f"{name} {version}" for name, version in packages.items() if name != "kubelet"}
    swappiness = re.search(r"(?m)^vm\.swappiness = (\d+)$", node.read("/sos_commands/kernel/sysctl_-a", 1 << 24) or "")
    facts |= {"swappiness": int(swappiness[1])} if swappiness else {}
    found = {
        "memqos_collect": collector.FORMAT,
        "source": node.line("/hostname") or place,
        "node": facts,
        "machine": collector.machine_of(node, tree),
        "containers": dict(_containers(root)),
        "cgroups": cgroups,
        **({"kubelet": packages["kubelet"]} if "kubelet" in packages else {}),
        **_configured(node, root),
    }
    if "config" not in found:
        found["config_unread"] = "a sosreport has it only in " + " or ".join(_CONFIGS)
    notes = dict(_missing(found)) | ({"page_size": taken} if taken else {})
    return found | {"notes": notes}


def _page_size(node: collector.Node, architecture: str, cgroups: Mapping[str, Mapping[str, str]]) -> tuple[int, str]:
    """Bytes of a page, and why they are taken so; "" where they are certain."""
    printed = page_size_in_diagnostics(node.read("/sos_commands/system/ld.so_--list-diagnostics", 1 << 20) or "")
    if printed is not None:
        return printed, ""
    release = node.line("/proc/sys/kernel/osrelease") or next(iter(_uname(node)[2:]), "")
    named, is_certain = page_size_of_kernel(architecture, release)
    counted = page_size_of_amounts(amounts_of(node.read("/proc/meminfo") or "", cgroups.values()))
    if is_certain and (counted is None or counted[0] >= named):
        return named, ""
    on = architecture or "an architecture that is not told"
    if counted is None:
        return named, f"it is taken as {named} bytes, as most kernels have on {on}"
    why = "an amount of memory is not a multiple of more" if counted[1] else "all amounts of memory are multiples"
    said = f", against the kernel's name {release}" if is_certain else ""
    return counted[0], "" if counted[1] and not said else f"it is taken as {counted[0]} bytes on {on}: {why}{said}"


def _uname(node: collector.Node) -> list[str]:
    return (node.line("/sos_commands/kernel/uname_-a") or node.line("/uname")).split()


def _architecture(node: collector.Node) -> str:
    return next((word for word in _uname(node) if word in {"x86_64", "aarch64", "ppc64le", "s390x"}), "")


def _configured(node: collector.Node, root: Path) -> dict[str, Any]:
    """The kubelet's configuration file, drop-ins, command line and checkpoints.

    Flags win over the file, so without the command line the configuration is not completely known.
    """
    kubelet = collector.Kubelet()
    words = _command_line(root)
    collector.read_flags(words, kubelet)
    found = collector.configured(node, kubelet)
    if not words:
        del found["unread"], found["flags_omitted"]
        found["drop_ins_unread"] = {"the kubelet's flags": "sos_commands/process has no ps with its command line"}
    for path in () if "config" in found else _CONFIGS:
        text = node.read(path)
        kept = None if text is None else collector.kept_lines(text)
        if kept is not None and "KubeletConfiguration" in kept:
            found.pop("config_unread", None)
            found["config"] = kept
            break
    return found


def _command_line(root: Path) -> list[str]:
    """The words of the kubelet's command line after its name, from the output of ps; none if no process shows it."""
    for path in sorted((root / "sos_commands/process").glob("ps_*")):
        for line in path.read_text(errors="replace").splitlines():
            words = line.split()
            start = next((at for at, word in enumerate(words, 1) if word.rpartition("/")[2] == "kubelet"), len(words))
            if any(word.startswith("--") for word in words[start : start + 1]):
                return words[start:]
    return []


def _packages(root: Path) -> dict[str, str]:
    """The versions of installed packages: kubelet as a release, others in the form of their programs' output."""
    lists = [root / "installed-rpms", root / "installed-debs", *(root / "sos_commands/rpm").glob("*")]
    lists += (root / "sos_commands/dpkg").glob("*")
    text = "\n".join(one.read_text(errors="replace") for one in lists if one.is_file())
    found: dict[str, str] = {}
    for name, pattern in _PACKAGES.items():
        match = re.search(rf"(?m)^(?:ii\s+)?{pattern}(?:-|\s+)(?:\d+:)?(\d+(?:\.\d+)*)", text)
        if match:
            found[name] = match[1]
    kubelet = re.search(r"(?m)^(?:ii\s+)?(openshift-)?(?:hyperkube|kubelet)(?:-|\s+)(?:\d+:)?(\d+)\.(\d+)\.(\d+)", text)
    if kubelet and kubelet[1]:
        found["kubelet"] = f"v1.{int(kubelet[3]) + _OPENSHIFT}.0"
    elif kubelet:
        found["kubelet"] = f"v{kubelet[2]}.{kubelet[3]}.{kubelet[4]}"
    return found


def _containers(root: Path) -> Iterator[tuple[str, list[str]]]:
    """The running containers in the output of `crictl inspect`."""
    for path in sorted((root / "sos_commands").rglob("crictl_inspect*")) if (root / "sos_commands").is_dir() else ():
        try:
            document = json.loads(path.read_text(errors="replace"))
        except (ValueError, OSError, RecursionError):
            continue
        status = document.get("status") if isinstance(document, dict) else None
        labels = status.get("labels") if isinstance(status, dict) else None
        if not isinstance(status, dict) or not isinstance(labels, dict):
            continue
        names = [labels.get(f"io.kubernetes.{one}") for one in ("pod.name", "container.name", "pod.uid")]
        id_ = status.get("id")
        if isinstance(id_, str) and status.get("state") == "CONTAINER_RUNNING" and all(map(_is_name, names)):
            yield id_, [str(one) for one in names]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _missing(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Notes about parts of a recording that the archive lacks."""
    yield "pods", "a sosreport has no manifests: give them with --pods, such as those of a must-gather"
    if not found["containers"]:
        yield "containers", "it has no output of crictl inspect: values cannot be assigned to containers"
    if "config" not in found:
        yield "config", "it has no kubelet configuration: give it with --kubelet-config"
    if "kubelet" not in found:
        yield "kubelet", "no package shows the kubelet's release: give it with --kubernetes"
    yield "processes", "it has no oom_score_adj of processes"
