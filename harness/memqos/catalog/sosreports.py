"""The node in an unpacked sosreport, whose plug-in `cgroups` copies /sys/fs/cgroup, as a recording.

A sosreport copies files one after the other, over minutes, and has no second reading. The notes name parts of a
recording that it lacks. `WANTED` has every file that is read.
Source: sosreport/sos, sos/report/plugins/{cgroups,kernel,numa,processor,process,host,filesys,crio,containerd,
kubernetes,openshift,dpkg,rpm}.py, 3.6 to 4.12.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memqos.catalog.node_facts import (
    amounts_of,
    page_size_in_diagnostics,
    page_size_of_amounts,
    page_size_of_kernel,
)
from memqos.collector import program as collector
from memqos.errors import UsageError

__all__ = ["WANTED", "node_in"]

WANTED = re.compile(
    r"sys/fs/cgroup/.+|proc/(meminfo|swaps|uptime|pressure/\w+|sys/vm/\w+|sys/kernel/osrelease|cpuinfo)|"
    r"proc/(1/mountinfo|self/mountinfo|\d+/(oom_score_adj|status))|"
    r"sys/devices/system/(cpu/online|node/node\d+/(meminfo|cpulist|distance))|etc/os-release|"
    r"etc/(kubernetes|openshift)/.+\.conf|sos_commands/process/ps_.*|var/lib/kubelet/(config\.(yaml|json)|\w+_state)|"
    r"sos_commands/.*(crictl_inspect.*|crictl_version)|sos_commands/containerd/containerd_config_dump|"
    r"sos_commands/system/ld\.so_--list-diagnostics|sos_commands/kernel/(uname_-a|sysctl_-a)|uname|"
    r"sos_commands/host/hostname|hostname|installed-(rpms|debs)|sos_commands/(rpm|dpkg)/.*|"
    r"sos_commands/kubernetes/(.*/)?kubectl.*_get_-o_json_.*(pods|nodes)|"
    r"sos_commands/openshift/namespaces/[^/]+/pods/[^/]+\.yaml"
)
_CONFIGS = ("/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/config.json")
_PACKAGES = {
    "containerd": r"containerd(?:\.io)?",
    "cri-o": r"cri-o",
    "runc": r"runc",
    "crun": r"crun",
    "systemd": r"systemd",
}
_LINE = r"(?m)^(?:[uihrp]i\s+)?"
"""The start of a package's line: of dpkg -l with any selection, such as `hi` of a package on hold, or of rpm -qa."""

_SCOPES = {"containerd": "cri-containerd", "cri-o": "crio"}
"""The start of the names that CRI servers give containers' scopes."""

_OPENSHIFT = 13
"""OpenShift 4.N has the kubelet of Kubernetes 1.(N + 13): 4.16 has 1.29, 4.19 has 1.32."""

_MOST_OUTPUT = 64 << 20


class _Files(collector.Node):
    """The archive's files. A link that leads out of it, to a file of this host, is no file."""

    def path(self, path: str) -> str:
        """As of a node; a path of no file for one out of the archive."""
        real = os.path.realpath(self.root + path)
        return real if real == self.root or real.startswith(self.root + os.sep) else os.devnull + path

    def output(self, path: str) -> str:
        """A file's text, "" without it or if it is too large."""
        return self.read(path, _MOST_OUTPUT) or ""

    def matching(self, folder: str, pattern: str) -> list[str]:
        """The paths of the files below a folder whose names match, sorted."""
        there = Path(self.path(folder))
        found = sorted(one for one in there.rglob(pattern) if one.is_file()) if there.is_dir() else []
        return [folder + "/" + str(one.relative_to(there)) for one in found]


def node_in(root: Path, place: str) -> dict[str, Any]:
    """The node whose files are in this folder, as a recording's document. place: the archive, for errors.

    Raises UsageError for one without cgroup v2, and for one without a kubelet.
    """
    node = _Files(os.path.realpath(root))
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
    removed = [path for path, files in cgroups.items() if _drop_unread(files)]
    name = node.line("/hostname") or node.line("/sos_commands/host/hostname")
    packages = _packages(node)
    found: dict[str, Any] = {
        "memqos_collect": collector.FORMAT,
        "source": name or place,
        "node": {},
        "machine": collector.machine_of(node, tree),
        "containers": dict(_containers(node)),
        "cgroups": cgroups,
        **({"kubelet": packages["kubelet"]} if "kubelet" in packages else {}),
        **_configured(node),
        "node_info": (info := _node_info(node, name)),
        "notes": {},
    }
    architecture = _architecture(node)
    page_size, taken = _page_size(node, architecture, cgroups)
    facts = collector.facts_of(node, tree) | {"page_size": page_size, "architecture": architecture}
    swappiness = re.search(r"(?m)^vm\.swappiness = (\d+)$", node.output("/sos_commands/kernel/sysctl_-a"))
    facts |= {"swappiness": int(swappiness[1])} if swappiness else {}
    facts["cpus"] = _cpus(node, cgroups, place)
    if not facts["mem_total_kib"]:
        raise UsageError(
            "its proc/meminfo does not show the node's memory (MemTotal).",
            where=place,
            next_step="Make it with the plug-in memory: sos report --enable-plugins memory.",
        )
    bound = "numa" not in facts and collector.numbers_in(cgroups.get("/", {}).get("cpuset.mems.effective", "")) > 1
    if bound:
        # Which NUMA nodes a container gets follows from their amounts of memory.
        found.pop("memory_manager_state", None)
        for files in cgroups.values():
            files.pop("cpuset.mems", None)
    found["node"] = facts | _runtimes(node, packages, info, cgroups)
    if pods := [*_pods(node), *_manifests(node)]:
        found["pods"] = pods
    collector.complete(found)
    found["notes"] = dict(_missing(found, removed)) | ({"page_size": taken} if taken else {})
    if bound:
        found["notes"]["numa"] = "the plug-in numa, which needs numactl, did not run: NUMA nodes are not judged"
    return found


def _drop_unread(files: dict[str, str]) -> bool:
    """Leave out what was not read of a cgroup; whether the cgroup was removed while it was copied.

    A file that cannot be read is empty in the archive. A container that ended in between has no process: none of its
    files shows whether its processes were in its cgroup.
    """
    removed = any(files.get(name) == "" for name in ("memory.current", "memory.max"))
    for name in [name for name, text in files.items() if removed and not text]:
        del files[name]
    if files.get("processes") == "0":
        del files["processes"]
    return removed


def _cpus(node: _Files, cgroups: Mapping[str, Mapping[str, str]], place: str) -> int:
    """The number of CPUs: of the list of those online, else of /proc/cpuinfo, else of the root cgroup's set."""
    found = collector.numbers_in(node.line("/sys/devices/system/cpu/online"))
    found = found or len(re.findall(r"(?m)^processor\s*:", node.output("/proc/cpuinfo")))
    found = found or collector.numbers_in(cgroups.get("/", {}).get("cpuset.cpus.effective", ""))
    if not found:
        raise UsageError(
            "no file in it shows how many CPUs the node has.",
            where=place,
            next_step="Make it with the plug-in processor: sos report --enable-plugins processor.",
        )
    return found


def _page_size(node: _Files, architecture: str, cgroups: Mapping[str, Mapping[str, str]]) -> tuple[int, str]:
    """Bytes of a page, and why they are taken so; "" where they are certain."""
    printed = page_size_in_diagnostics(node.read("/sos_commands/system/ld.so_--list-diagnostics", 1 << 20) or "")
    if printed is not None:
        return printed, ""
    release = node.line("/proc/sys/kernel/osrelease") or next(iter(_uname(node)[2:]), "")
    named, is_certain = page_size_of_kernel(architecture, release)
    used = (files.get("memory.current", "") for files in cgroups.values())
    counted = page_size_of_amounts(amounts_of(node.read("/proc/meminfo") or "", used))
    if is_certain and (counted is None or counted[0] >= named):
        return named, ""
    on = architecture or "an architecture that is not told"
    if counted is None:
        return named, f"it is taken as {named} bytes, as most kernels have on {on}"
    why = "an amount of memory is not a multiple of more" if counted[1] else "all amounts of memory are multiples"
    said = f", against the kernel's name {release}" if is_certain else ""
    return counted[0], "" if counted[1] and not said else f"it is taken as {counted[0]} bytes on {on}: {why}{said}"


def _uname(node: _Files) -> list[str]:
    return (node.line("/sos_commands/kernel/uname_-a") or node.line("/uname")).split()


def _architecture(node: _Files) -> str:
    return next((word for word in _uname(node) if word in {"x86_64", "aarch64", "ppc64le", "s390x"}), "")


def _configured(node: _Files) -> dict[str, Any]:
    """The kubelet's configuration file, drop-ins, command line and checkpoints.

    Flags win over the file, and name it. Without the command line the usual file is taken, and the configuration is not
    completely known.
    """
    kubelet = collector.Kubelet()
    words, why = _command_line(node, kubelet)
    collector.read_flags(words or [], kubelet)
    found = collector.configured(node, kubelet)
    path = kubelet.path("config")
    if path and "config" not in found and node.read(path) is None:
        found["config_unread"] = f"the kubelet's command line names {path}, which the archive does not contain"
    if words is not None or kubelet.inside:
        return found
    del found["unread"], found["flags_omitted"]
    found["drop_ins_unread"] = {"the kubelet's flags": why}
    for path in _CONFIGS:
        text = node.read(path)
        kept = None if text is None else collector.kept_lines(text)
        if kept is not None and "KubeletConfiguration" in kept:
            return found | {"config": kept}
    return found | {"config_unread": "a sosreport has it only in " + " or ".join(_CONFIGS)}


def _command_line(node: _Files, kubelet: collector.Kubelet) -> tuple[list[str] | None, str]:
    """The words of the kubelet's command line after its name, from the output of ps; None and why if it is unknown.

    Sets `inside` of the kubelet if only a program that contains one runs.
    """
    inside = ""
    for path in node.matching("/sos_commands/process", "ps_*"):
        found: list[list[str]] = []
        for words in _commands(node.output(path)):
            name = words[0].rpartition("/")[2]
            start = 2 if name == "hyperkube" and words[1:2] == ["kubelet"] else 1
            if name == "kubelet" or start > 1:
                found.append(words[start:])
            inside = name if name in collector.INSIDE else inside
        if any(words != found[0] for words in found):
            return None, f"{Path(path).name} shows {len(found)} kubelets"
        if found:
            return found[0], ""
    kubelet.inside = inside
    return None, "sos_commands/process has no ps with its command line"


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command in the output of ps; none of an output without a last column for it."""
    lines = text.splitlines()
    heads = lines[0].split() if lines else []
    # STARTED is one head over five words.
    if not heads or heads[-1] not in {"COMMAND", "CMD"} or "STARTED" in heads:
        return
    for line in lines[1:]:
        words = line.split()[len(heads) - 1 :]
        while words and words[0] in {"|", "\\_"}:
            del words[0]
        if words:
            yield words


def _packages(node: _Files) -> dict[str, str]:
    """The versions of installed packages: kubelet as a release, others in the form of their programs' output."""
    lists = ["/installed-rpms", "/installed-debs"]
    lists += [*node.matching("/sos_commands/rpm", "*"), *node.matching("/sos_commands/dpkg", "*")]
    text = "\n".join(map(node.output, lists))
    found: dict[str, str] = {}
    for name, pattern in _PACKAGES.items():
        match = re.search(rf"{_LINE}{pattern}(?::\w+)?(?:-|\s+)(?:\d+:)?(\d+(?:\.\d+)*)", text)
        if match:
            found[name] = match[1]
    if "systemd" in found:
        found["systemd"] = f"{found['systemd'].partition('.')[0]} ({found['systemd']})"
    kubelet = re.search(rf"{_LINE}(openshift-)?(?:hyperkube|kubelet)(?:-|\s+)(?:\d+:)?(\d+)\.(\d+)\.(\d+)", text)
    if kubelet and not kubelet[1]:
        found["kubelet"] = f"v{kubelet[2]}.{kubelet[3]}.{kubelet[4]}"
    elif kubelet and kubelet[2] == "4":
        found["kubelet"] = f"v1.{int(kubelet[3]) + _OPENSHIFT}.0"
    return found


def _runtimes(
    node: _Files, packages: Mapping[str, str], info: Mapping[str, str], cgroups: Mapping[str, object]
) -> dict[str, Any]:
    """The runtimes and systemd in the fields of a recording.

    The CRI server is the one that crictl or the Node object reports, else the one whose names containers' cgroups have,
    else the installed one.
    """
    found: dict[str, Any] = {name: f"{name} {version}" for name, version in packages.items() if name != "kubelet"}
    told = map(node.output, node.matching("/sos_commands", "crictl_version"))
    name, _, version = info.get("containerRuntimeVersion", "").partition("://")
    fields = {"Name": name, "Version": version}
    fields |= dict(re.findall(r"(?m)^Runtime(Name|Version):\s+(\S+)$", "\n".join(told)))
    named = {name for name, prefix in _SCOPES.items() if any(f"/{prefix}-" in path for path in cgroups)}
    if fields["Name"] in _SCOPES:
        named, packages = {fields["Name"]}, {**packages, fields["Name"]: fields["Version"]}
    if len(named) == 1:
        found = {name: text for name, text in found.items() if name not in _SCOPES}
        found |= {name: f"{name} {packages.get(name, '')}".rstrip() for name in named}
    dump = node.output("/sos_commands/containerd/containerd_config_dump")
    huge = re.search(r"(?m)^\s*disable_hugetlb_controller\s*=\s*(true|false)", dump)
    return found | ({"hugetlb": huge[1] == "false"} if huge and "containerd" in found else {})


def _containers(node: _Files) -> Iterator[tuple[str, list[str]]]:
    """The running containers in the output of `crictl inspect`."""
    for path in node.matching("/sos_commands", "crictl_inspect_*"):
        document = _json(node.output(path))
        status = document.get("status") if isinstance(document, dict) else None
        labels = status.get("labels") if isinstance(status, dict) else None
        if not isinstance(status, dict) or not isinstance(labels, dict):
            continue
        names = [labels.get(f"io.kubernetes.{one}") for one in ("pod.name", "container.name", "pod.uid")]
        id_ = status.get("id")
        if isinstance(id_, str) and status.get("state") == "CONTAINER_RUNNING" and all(map(_is_name, names)):
            yield id_, [str(one) for one in names]


def _json(text: str) -> Any:
    """The document in a command's output, after warnings of crictl and kubectl; None for another text."""
    start = re.search(r"(?m)^[{\[]", text)
    try:
        return None if start is None else json.JSONDecoder().raw_decode(text, start.start())[0]
    except (ValueError, RecursionError):
        return None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _pods(node: _Files) -> Iterator[Any]:
    """The pods that kubectl printed as JSON, each once: on control planes, with `-k kubernetes.all`."""
    seen: set[str] = set()
    for path in node.matching("/sos_commands/kubernetes", "kubectl*_get_-o_json_*pods"):
        try:
            listed = collector.pods_in(_json(node.output(path)))
        except ValueError:
            continue
        for pod in listed:
            uid = str((pod.get("metadata") or {}).get("uid", ""))
            if uid not in seen:
                seen.add(uid)
                yield pod


def _manifests(node: _Files) -> Iterator[str]:
    """The texts of pods that the plug-in openshift prints."""
    for path in node.matching("/sos_commands/openshift/namespaces", "*.yaml"):
        text = node.output(path) if path.split("/")[-2] == "pods" else ""
        if re.search(r"(?m)^kind: Pod$", text):
            yield text


def _node_info(node: _Files, name: str) -> dict[str, str]:
    """The versions in the Node object of this name, on control planes; {} without it."""
    for path in node.matching("/sos_commands/kubernetes", "kubectl*_get_-o_json_nodes"):
        document = _json(node.output(path))
        for item in document.get("items") or () if isinstance(document, dict) else ():
            about = item.get("metadata") if isinstance(item, dict) else None
            if name and isinstance(about, dict) and about.get("name") == name:
                with contextlib.suppress(ValueError):
                    return collector.node_info_of(item)
    return {}


def _missing(found: Mapping[str, Any], removed: list[str]) -> Iterator[tuple[str, str]]:
    """Notes about parts of a recording that the archive lacks."""
    if "pods" not in found:
        yield "pods", "a sosreport has no manifests: the pods are those of --pods"
    if not found["containers"]:
        why = "it has no output of crictl inspect: containers are found by the status of the pods (containerID)"
        yield "containers", why
    if "config" not in found and "config_unread" in found:
        yield "config", "it has no kubelet configuration: --kubelet-config gives it"
    if "kubelet" not in found:
        yield "kubelet", "no package shows the kubelet's release: give it with --kubernetes"
    if not any("oom_score_adj" in files for files in found["cgroups"].values()):
        yield "processes", "it has no oom_score_adj of processes"
    if removed:
        yield "removed", f"cgroups were removed while sos copied them: {len(removed)}, such as {removed[0]}"
