"""Reads a node on which a kubelet runs into one JSON document that `memqos audit` judges. It writes nothing there.

    python3 memqos-collect.py > node7.json

It needs only Python 3.6 or later. Run it as root; without root the document names the unreadable parts.
docs/reference/recorded-trees.md describes the fields.

The lists below determine what leaves the node: interface files of cgroups by prefix, and by name the fields of pods, of
the kubelet's configuration and of its command line. Not collected: environment variables, commands, arguments, labels,
secrets, tokens, and annotations other than those that write cgroups. It starts only `kubelet --version` and
`runc --version`.

It travels to nodes as one file, so all of its parts stay in one module.
"""

import argparse
import http.client
import json
import os
import re
import socket
import ssl
import stat
import struct
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Set, Tuple

FORMAT = 1
"""The format of the document; raised if a field changes its meaning."""

CONTROL_FILES = re.compile(
    r"(memory|cpu|cpuset|hugetlb|pids)\.[a-zA-Z0-9_.]+|"
    r"cgroup\.(controllers|subtree_control|events|stat|type|freeze|max\.depth|max\.descendants)|"
    r"(cpu|memory|io|irq)\.pressure|notify_on_release"
)
NOT_READ = re.compile(
    r"memory\.(reclaim|peak_reset|force_empty|kmem\.slabinfo|pressure_level|move_charge_at_immigrate)|"
    r"hugetlb\..*\.numa_stat|cpuset\.(memory_spread_.*|sched_.*)|cpu\.(cfs_burst_us|rt_.*)|memory\.numa_stat"
)
"""Write-only files, and long ones that no rule reads; memory.numa_stat is read on nodes with NUMA nodes."""

SETTINGS = (
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "memory.swap.max",
    "memory.zswap.max",
    "memory.oom.group",
    "cpu.weight",
    "cpu.max",
    "cpuset.cpus",
    "cpuset.mems",
    "pids.max",
)
COUNTERS = ("memory.current", "memory.stat", "memory.events", "memory.pressure", "memory.swap.current")
"""The files of pods' cgroups that are read a second time."""

CGROUP2 = "/sys/fs/cgroup"
MOST_CGROUPS = 50000
MOST_FILE = 1 << 20
MOST_ANSWER = 64 << 20
MOST_DROP_INS = 256
OTHER_SECONDS = 0.8
"""Seconds of CPU time; cgroups outside the kubelet's that are left out after that are counted in the document."""

WHOLE_SECONDS = 1.8
"""All there is for a node; what is left of it at the end goes to a kubelet that is slow to print its version."""

LEAST_SECONDS = 0.3
VERSION = re.compile(r"v\d+\.\d+\.\d+\S*")

SETTING_FLAGS = frozenset(
    """
cgroup-driver cgroup-root cgroups-per-qos cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy
cpu-manager-policy-options enforce-node-allocatable eviction-hard eviction-max-pod-grace-period
eviction-minimum-reclaim eviction-pressure-transition-period eviction-soft eviction-soft-grace-period fail-swap-on
feature-gates kube-reserved kube-reserved-cgroup kubelet-cgroups max-pods memory-manager-policy oom-score-adj
pod-manifest-path pod-max-pids pods-per-core protect-kernel-defaults qos-reserved reserved-cpus reserved-memory
system-cgroups system-reserved system-reserved-cgroup topology-manager-policy topology-manager-policy-options
topology-manager-scope config-dir experimental-allocatable-ignore-eviction
""".split()
)
"""Flags whose values are recorded. For all others only the names are."""

PATH_FLAGS = ("config", "config-dir", "root-dir", "container-runtime-endpoint", "port", "read-only-port")
"""Flags with paths; their values are used, but not recorded."""

BOOL_FLAGS = frozenset(
    """
add-dir-header alsologtostderr anonymous-auth authentication-token-webhook boot-id-file contention-profiling
enable-cadvisor-json-endpoints enable-controller-attach-detach enable-debugging-handlers enable-load-reader
enable-server exit-on-lock-contention help keep-terminated-pod-volumes kernel-memcg-notification
experimental-kernel-memcg-notification local-storage-capacity-isolation log-text-split-stream logtostderr
make-iptables-util-chains one-output really-crash-for-testing redirect-container-streaming register-node
rotate-certificates rotate-server-certificates runonce seccomp-default serialize-image-pulls skip-headers
skip-log-headers storage-driver-secure version experimental-allocatable-ignore-eviction
cgroups-per-qos cpu-cfs-quota fail-swap-on protect-kernel-defaults
""".split()
)
"""Flags without a separate value word."""

CONFIG_FIELDS = frozenset(
    """
apiVersion kind cgroupDriver cgroupRoot cgroupsPerQOS containerRuntimeEndpoint cpuCFSQuota cpuCFSQuotaPeriod
cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod enforceNodeAllocatable evictionHard
evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod
failCgroupV1 failSwapOn featureGates kernelMemcgNotification kubeReserved kubeReservedCgroup kubeletCgroups
localStorageCapacityIsolation maxPods memoryManagerPolicy memoryManagerPolicyOptions memoryReservationPolicy memorySwap
memoryThrottlingFactor mergeDefaultEvictionSettings oomScoreAdj podPidsLimit podsPerCore port protectKernelDefaults
qosReserved readOnlyPort reservedMemory reservedSystemCPUs singleProcessOOMKill staticPodPath syncFrequency
systemCgroups systemPartition systemReserved systemReservedCgroup topologyManagerPolicy topologyManagerPolicyOptions
topologyManagerScope userNamespaces
""".split()
)
"""Recorded fields of a KubeletConfiguration. staticPodURLHeader is excluded, since it may hold a password."""

CGROUP_ANNOTATIONS = (
    "kubernetes.io/config.",
    "io.kubernetes.cri-o.UnifiedCgroup",
    "unified-cgroup.crio.io",
    "org.systemd.property.",
    "cpu-quota.crio.io",
    "cpu-shared.crio.io",
    "resources.workload.openshift.io/",
    "target.workload.openshift.io/",
)
"""Prefixes of recorded annotations: those that write cgroups, and the origin of a kubelet's pod."""
FOREIGN_MARKS = ("koordinator.sh/", "katalyst.kubewharf.io/", "volcano.sh/qos-level", "class.memory-qos.nri.io")
"""Annotations by which other programs change cgroups: their names are recorded, and their values are not."""

_RESOURCES: Dict[str, Any] = {"requests": None, "limits": None, "claims": {"name": None, "request": None}}
_CONTAINER: Dict[str, Any] = {
    "name": None,
    "resources": _RESOURCES,
    "resizePolicy": None,
    "restartPolicy": None,
    "targetContainerName": None,
    "volumeMounts": {"name": None},
}
_STATE = {"startedAt": None, "finishedAt": None, "reason": None, "exitCode": None}
_STATUS: Dict[str, Any] = {
    "name": None,
    "containerID": None,
    "allocatedResources": None,
    "resources": _RESOURCES,
    "restartCount": None,
    "ready": None,
    "started": None,
    "state": {"running": _STATE, "waiting": _STATE, "terminated": _STATE},
    "lastState": {"terminated": _STATE},
}
POD_FIELDS: Dict[str, Any] = {
    "apiVersion": None,
    "kind": None,
    "metadata": {
        "name": None,
        "namespace": None,
        "uid": None,
        "generation": None,
        "annotations": None,
        "creationTimestamp": None,
        "deletionTimestamp": None,
        "deletionGracePeriodSeconds": None,
        "ownerReferences": {"apiVersion": None, "kind": None, "name": None, "uid": None, "controller": None},
    },
    "spec": {
        "containers": _CONTAINER,
        "initContainers": _CONTAINER,
        "ephemeralContainers": _CONTAINER,
        "nodeName": None,
        "overhead": None,
        "priority": None,
        "priorityClassName": None,
        "restartPolicy": None,
        "runtimeClassName": None,
        "resources": _RESOURCES,
        "os": {"name": None},
        "schedulingGates": {"name": None},
        "resourceClaims": {"name": None, "resourceClaimName": None, "resourceClaimTemplateName": None},
        "hostUsers": None,
        "volumes": {"name": None, "emptyDir": {"medium": None, "sizeLimit": None}},
    },
    "status": {
        "phase": None,
        "reason": None,
        "qosClass": None,
        "startTime": None,
        "observedGeneration": None,
        "resize": None,
        "allocatedResources": None,
        "resources": _RESOURCES,
        "conditions": {
            "type": None,
            "status": None,
            "reason": None,
            "lastTransitionTime": None,
            "observedGeneration": None,
        },
        "containerStatuses": _STATUS,
        "initContainerStatuses": _STATUS,
        "ephemeralContainerStatuses": _STATUS,
        "nodeAllocatableResourceClaimStatuses": None,
    },
}
"""The recorded fields of pods; None: the field and everything in it. For lists, of each element."""

CHECKPOINTS = (
    "memory_manager_state",
    "cpu_manager_state",
    "pod_status_manager_state",
    "allocated_pods_state",
    "actuated_pods_state",
)
SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
)
INSIDE = ("k3s", "k3s-server", "k3s-agent", "kubelite")
"""Programs that contain a kubelet."""
CREDENTIAL = "/var/run/secrets/kubernetes.io/serviceaccount/token"
"""The API server of the pod in which this program runs, if any."""
CLUSTER_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


class Node:
    """The node's files. root: the mount point of its /. notes: what could not be read, with the reason."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.notes: Dict[str, str] = {}

    def path(self, path: str) -> str:
        """The path here of this path of the node."""
        return self.root + path

    def read(self, path: str, most: int = MOST_FILE) -> Optional[str]:
        """A plain file's text; None, with a note, if it cannot be read; None without a note if it does not exist."""
        try:
            descriptor = os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, NotADirectoryError, ProcessLookupError)):
                self.notes[path] = error.strerror or str(error)
            return None
        try:
            if not is_plain(descriptor):
                self.notes[path] = "it is not a regular file"
                return None
            return text_of(all_of(descriptor, most))
        except OSError as error:
            self.notes[path] = error.strerror or str(error)
            return None
        finally:
            os.close(descriptor)

    def line(self, path: str) -> str:
        """A small file's stripped text, "" if there is none."""
        return (self.read(path) or "").strip()

    def names(self, path: str) -> List[str]:
        """The names in a folder; empty if it cannot be read."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self.notes[path] = error.strerror or str(error)
            return []


def is_plain(descriptor: int) -> bool:
    """Whether it is a regular file: a device has no end, and a FIFO waits for a writer."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def all_of(descriptor: int, most: int) -> bytes:
    """The next bytes; OSError for more than so many."""
    parts: List[bytes] = []
    size = 0
    while True:
        part = os.read(descriptor, 65536)
        size += len(part)
        if size > most:
            raise OSError(27, "it has more than %d bytes" % most)
        if not part:
            return b"".join(parts)
        parts.append(part)


def text_of(data: bytes) -> str:
    """Bytes as text; those that are not UTF-8 as escapes."""
    return data.decode("utf-8", "backslashreplace")


# --- cgroups ---------------------------------------------------------------------------------------------------------


def mounts_of(node: Node) -> List[Tuple[str, str, str, str]]:
    """(root, mount point, type, options) of the mounts that PID 1 sees, else we."""
    found = []
    text = node.read("/proc/1/mountinfo") or node.read("/proc/self/mountinfo") or ""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words, rest = before.split(" "), after.split(" ")
        if len(words) >= 6 and len(rest) >= 3:  # noqa: PLR2004 - proc(5)
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), words[4])
            found.append((words[3], point, rest[0], words[5] + "," + rest[2]))
    return found


class Tree:
    """The cgroups of a node. folders: mount points by controller; for version 2 one, called ""."""

    def __init__(self, node: Node, given: str) -> None:
        mounts = mounts_of(node)
        self.node = node
        self.version, self.options, self.mount = "", "", ""
        self.folders: Dict[str, str] = {}
        unified = [(point, options) for _, point, kind, options in mounts if kind == "cgroup2"] or [(CGROUP2, "")]
        for point, options in [(given, "")] if given else unified:
            if "memory" in (node.read(point + "/cgroup.controllers") or "").split():
                self.version, self.options, self.mount = "v2", options or dict(unified).get(point, ""), point
                self.folders = {"": point}
                return
        for _, point, kind, options in mounts:
            if kind == "cgroup":
                for controller in set(options.split(",")) & {"memory", "cpu", "cpuset", "hugetlb", "pids"}:
                    self.folders.setdefault(controller, point)
        if "memory" in self.folders:
            self.version, self.mount = "v1", self.folders["memory"]

    def paths(self) -> List[str]:
        """All cgroups, "/" first; parents before their children."""
        found, index = ["/"], 0
        base = self.node.path(self.mount)
        while index < len(found) and len(found) < MOST_CGROUPS:
            above = found[index]
            index += 1
            try:
                with os.scandir(base + above) as entries:
                    below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            except OSError:
                continue
            found += [above.rstrip("/") + "/" + name for name in below]
        if len(found) >= MOST_CGROUPS:
            self.node.notes[self.mount] = "only the first %d cgroups are read" % MOST_CGROUPS
        return found

    def read(self, path: str, names: Optional[Tuple[str, ...]] = None, numa: bool = False) -> Optional[Dict[str, str]]:
        """The interface files of one cgroup, only those with these names if any are given; None if it is gone."""
        found: Dict[str, str] = {}
        gone = True
        for controller, point in self.folders.items():
            try:
                folder = os.open(self.node.path(point) + path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                there = names if names is not None else os.listdir(folder)
                gone = False
                for name in there:
                    if names is None and not self._wanted(name, controller, numa):
                        continue
                    text = self._file(name, folder)
                    if text is not None:
                        found[name] = text
            except OSError:
                continue
            finally:
                os.close(folder)
        return None if gone else found

    @staticmethod
    def _wanted(name: str, controller: str, numa: bool) -> bool:
        if name == "cgroup.procs":
            return controller in {"", "memory"}
        if controller and not name.startswith(controller + "."):
            return False
        if not CONTROL_FILES.fullmatch(name):
            return False
        return not NOT_READ.fullmatch(name) or (numa and name == "memory.numa_stat")

    @staticmethod
    def _file(name: str, folder: int) -> Optional[str]:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
        except OSError:
            return None
        try:
            data = os.read(descriptor, 65536)
            while len(data) % 4096 == 0 and len(data) < MOST_FILE:
                more = os.read(descriptor, 65536)
                if not more:
                    break
                data += more
            return sys.intern(text_of(data).rstrip("\n"))
        except OSError:
            return None
        finally:
            os.close(descriptor)


def is_parent_of_pods(path: str) -> bool:
    """Whether this is the cgroup of all pods: kubepods, kubepods.slice, kubelet-kubepods.slice."""
    name = path.rpartition("/")[2]
    return name in {"kubepods", "kubepods.slice"} or name.endswith("-kubepods.slice")


def parents_of_pods(paths: List[str]) -> List[str]:
    """Those nearest to the root: a node in a container, as of kind, has its own further below."""
    found = [path for path in paths if is_parent_of_pods(path)]
    least = min((path.count("/") for path in found), default=0)
    return [path for path in found if path.count("/") == least]


def shown(path: str) -> str:
    """A cgroup's path as text; bytes that are not UTF-8 as escapes."""
    return text_of(os.fsencode(path))


def cgroups_of(node: Node, tree: Tree, seconds: float) -> Tuple[Dict[str, Any], List[str]]:
    """The files of each cgroup with its first process, and the paths of pods' cgroups."""
    paths = tree.paths()
    parents = parents_of_pods(paths)
    ours = [one for one in paths if any(one == parent or one.startswith(parent + "/") for parent in parents)]
    own = set(ours)
    others = sorted((one for one in paths if one not in own), key=lambda one: one.count("/"))
    numa = len([name for name in node.names("/sys/devices/system/node") if re.fullmatch(r"node\d+", name)]) > 1
    found: Dict[str, Any] = {}
    until = time.process_time() + seconds
    left_out = 0
    unseen: Dict[str, str] = {}
    for number, path in enumerate(ours + others):
        if number >= len(ours) and path.count("/") > 1 and time.process_time() > until:
            left_out += 1
            continue
        files = tree.read(path, numa=numa)
        if files is not None:
            if path in own and "0" in files.get("cgroup.procs", "").split():
                unseen = unseen or first_processes(node)
                files["cgroup.procs"] = files["cgroup.procs"].replace("0", unseen.get(path.rpartition("/")[2], "0"), 1)
            of_processes(node, files, first=path in own)
            found[shown(path)] = files
    if left_out:
        node.notes["cgroups"] = "%d outside the kubelet's were left out to be done in time" % left_out
    return found, ours


def first_processes(node: Node) -> Dict[str, str]:
    """One process for each cgroup, by the cgroup's name; for processes that this PID namespace shows as 0."""
    found: Dict[str, str] = {}
    for pid in node.names("/proc"):
        if pid.isdigit():
            name = cgroup_of(node, pid).rpartition("/")[2]
            found[name] = min(found.get(name, pid), pid, key=int)
    return found


def cgroup_of(node: Node, pid: str) -> str:
    """The cgroup of a process, without the ".." that a cgroup namespace shows; "" if it cannot be read."""
    text = node.read("/proc/%s/cgroup" % pid) or ""
    match = re.search(r"(?m)^(?:0:|\d+:[^:]*\bmemory\b[^:]*):(.*)$", text)
    return re.sub(r"^(/\.\.)+", "", match.group(1)) if match else ""


def of_processes(node: Node, files: Dict[str, str], first: bool) -> None:
    """Replaces the list of processes by their number. first: the first one's name and score."""
    text = files.pop("cgroup.procs", None)
    if text is None:
        return
    pids = text.split()
    files["processes"] = str(len(pids))
    for pid in pids[:1] if first else ():
        for name in ("oom_score_adj", "comm"):
            text = node.read("/proc/%s/%s" % (pid, name))
            if text is not None:
                files[name] = text.strip()
        match = re.search(r"(?m)^Mems_allowed_list:\s*(\S+)", node.read("/proc/%s/status" % pid) or "")
        if match:
            files["mems_allowed"] = match.group(1)


def second_look(tree: Tree, paths: List[str], first: Dict[str, Any]) -> Dict[str, Any]:
    """Changes since then: settings with other values, removed and new cgroups, and the current counters."""
    changed: Dict[str, Any] = {}
    counters: Dict[str, Any] = {}
    gone: List[str] = []
    for path in paths:
        before = first.get(shown(path))
        if before is None:
            continue
        now = tree.read(path, SETTINGS + COUNTERS)
        if now is None:
            gone.append(shown(path))
            continue
        if before.get("processes") == "0":
            again = tree.read(path, ("cgroup.procs",)) or {}
            if again.get("cgroup.procs", "").split():
                now["processes"] = str(len(again["cgroup.procs"].split()))
                changed[shown(path)] = {"processes": now["processes"]}
        other = {name: now[name] for name in SETTINGS if name in now and now[name] != before.get(name)}
        if other:
            changed.setdefault(shown(path), {}).update(other)
        counters[shown(path)] = {name: now[name] for name in COUNTERS if name in now and now[name] != before.get(name)}
    return {"changed": changed, "gone": gone, "counters": {path: one for path, one in counters.items() if one}}


# --- the machine -----------------------------------------------------------------------------------------------------


def numbers_in(text: str) -> int:
    """The number of entries in a list such as "0-1,4"; 0 for another text."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        return 0
    spans = re.findall(r"(\d+)(?:-(\d+))?", text)
    return sum(int(last or first) - int(first) + 1 for first, last in spans)


def first_number(text: str) -> str:
    """The number that a text begins with, "" for another one."""
    match = re.match(r"\d+(\.\d+)?", text)
    return match.group(0) if match else ""


def facts_of(node: Node, tree: Tree) -> Dict[str, Any]:
    """The node's memory, swap, CPUs, NUMA nodes and kernel, in the fields of a recorded tree."""
    meminfo = dict(re.findall(r"(?m)^(\w+(?:\(\w+\))?): +(\d+)(?: kB)?$", node.read("/proc/meminfo") or ""))
    folder = "/sys/devices/system/node"
    numa = {}
    for name in node.names(folder):
        match = (
            re.search(r"MemTotal: +(\d+) kB", node.read("%s/%s/meminfo" % (folder, name)) or "")
            if re.fullmatch(r"node\d+", name)
            else None
        )
        if match:
            numa[name] = int(match.group(1))
    cpus = node.line("/sys/devices/system/cpu/online")
    found = {
        "mem_total_kib": int(meminfo.get("MemTotal", 0)),
        "swap_total_kib": int(meminfo.get("SwapTotal", 0)),
        "cpus": numbers_in(cpus) or os.cpu_count() or 1,
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "cgroup": tree.version,
        "swappiness": int(first_number(node.line("/proc/sys/vm/swappiness")) or 60),
        "kernel": node.line("/proc/sys/kernel/osrelease"),
        "architecture": os.uname().machine,
    }
    if numa:
        found["numa"] = numa
    version = systemd_version(node)
    if version:
        found["systemd"] = version
    return found


def systemd_version(node: Node) -> str:
    """The version from `systemctl --version`, or from the name of systemd's own library; "" without one."""
    multiarch = ["/usr/lib/%s/systemd" % name for name in node.names("/usr/lib") if name.endswith("-linux-gnu")]
    for folder in ["/usr/lib/systemd", "/lib/systemd", "/usr/lib64/systemd", *multiarch]:
        for name in node.names(folder):
            match = re.fullmatch(r"libsystemd-shared-(\d+)(.*)\.so", name)
            if match:
                return "systemd %s (%s%s)" % (match.group(1), match.group(1), match.group(2))
    return ""


def machine_of(node: Node, tree: Tree) -> Dict[str, Any]:
    """Facts that no kubelet rule reads, for engineers: swap, zswap, pressure, mounts, huge pages."""
    zswap = "/sys/module/zswap/parameters"
    vm = (
        "min_free_kbytes",
        "watermark_scale_factor",
        "overcommit_memory",
        "overcommit_ratio",
        "zone_reclaim_mode",
        "panic_on_oom",
        "oom_kill_allocating_task",
    )
    huge = "/sys/kernel/mm/hugepages"
    release = dict(re.findall(r'(?m)^(ID|VERSION_ID)="?([^"\n]*)"?$', node.read("/etc/os-release") or ""))
    return {
        "cgroup_mount": {"path": tree.mount, "options": tree.options},
        "meminfo": node.read("/proc/meminfo") or "",
        "swaps": node.read("/proc/swaps") or "",
        "zswap": {name: node.line("%s/%s" % (zswap, name)) for name in node.names(zswap)},
        "pressure": {name: node.line("/proc/pressure/" + name) for name in ("memory", "cpu", "io")},
        "vm": {name: node.line("/proc/sys/vm/" + name) for name in vm},
        "hugepages": {name: node.line("%s/%s/nr_hugepages" % (huge, name)) for name in node.names(huge)},
        "uptime_seconds": float(first_number(node.line("/proc/uptime")) or 0),
        "os": release,
        "mounts": [
            {"path": point, "type": kind, "options": options}
            for _, point, kind, options in mounts_of(node)
            if kind in {"cgroup", "cgroup2", "hugetlbfs"} or (kind == "tmpfs" and "kubernetes.io~empty-dir" in point)
        ],
    }


def processes_of(node: Node) -> Dict[str, str]:
    """The program's name by process id."""
    found = {}
    for pid in node.names("/proc"):
        if pid.isdigit():
            try:
                with open(node.path("/proc/%s/comm" % pid), "rb") as file:
                    found[pid] = text_of(file.read(64)).strip()
            except OSError:
                continue
    return found


def daemons_of(node: Node, names: Dict[str, str], pods: Set[str]) -> List[Dict[str, Any]]:
    """Processes outside pods with memory of their own: name, cgroup, score, bytes; the largest first."""
    found = []
    page = os.sysconf("SC_PAGE_SIZE")
    for pid, name in names.items():
        size = node.line("/proc/%s/statm" % pid).split()
        where = cgroup_of(node, pid)
        if len(size) < 2 or size[1] == "0" or "kubepods" in where or where.rpartition("/")[2] in pods:  # noqa: PLR2004 - proc(5)
            continue
        score = node.line("/proc/%s/oom_score_adj" % pid)
        found.append(
            {"name": name, "cgroup": shown(where), "oom_score_adj": int(score or 0), "bytes": int(size[1]) * page}
        )
    return sorted(found, key=lambda one: -int(str(one["bytes"])))


# --- the kubelet -----------------------------------------------------------------------------------------------------


class Kubelet:
    """A kubelet's process: its flags by name, its recorded words, its folder, and `--version`."""

    def __init__(self) -> None:
        self.inside, self.folder = "", "/"
        self.flags: Dict[str, str] = {}
        self.kept: List[str] = []
        self.omitted: List[str] = []
        self.process: "Optional[subprocess.Popen[bytes]]" = None
        self.program = ""

    def path(self, flag: str, default: str = "") -> str:
        """The file that a flag names, "" for none."""
        said = self.flags.get(flag, default)
        return os.path.join(self.folder, said) if said else ""


def kubelet_of(node: Node, names: Dict[str, str]) -> Optional[Kubelet]:
    """The kubelet in PID 1's mount namespace; None without one, with a note if there are several."""
    pids = [pid for pid, name in names.items() if name == "kubelet"]
    own = link_of(node, "/proc/1/ns/mnt")
    here = [pid for pid in pids if not own or link_of(node, "/proc/%s/ns/mnt" % pid) in {own, ""}]
    found = Kubelet()
    if not here:
        found.inside = next((name for name in names.values() if name in INSIDE), "")
        return found if found.inside else None
    if len(here) > 1:
        node.notes["kubelet"] = "%d kubelets run here, and none is chosen" % len(here)
        return None
    words = (node.read("/proc/%s/cmdline" % here[0]) or "").split("\0")
    found.folder = link_of(node, "/proc/%s/cwd" % here[0]) or "/"
    read_flags(words[1:], found)
    found.program = link_of(node, "/proc/%s/exe" % here[0]) or words[0]
    try:
        found.process = subprocess.Popen(
            [node.path("/proc/%s/exe" % here[0]), "--version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env={},
        )
    except OSError as error:
        node.notes["kubelet"] = "its version cannot be read: %s" % (error.strerror or error)
    return found


def version_of(node: Node, kubelet: Kubelet, seconds: float) -> str:
    """What `kubelet --version` prints within this time, else what the path of its program names; "" for neither.

    Installers put each version into a folder of its own: /var/lib/minikube/binaries/v1.36.2/kubelet.
    """
    version = VERSION.search(ended(kubelet.process, seconds))
    if version:
        return version.group(0)
    for part in reversed(kubelet.program.replace(" (deleted)", "").split("/")):
        named = re.fullmatch(r"(?:kubelet[-_.]?)?v?(1\.\d{1,3}\.\d{1,3}(?:[-+][0-9A-Za-z.+-]{1,40})?)", part)
        if named:
            node.notes.setdefault("kubelet", "it did not print its version in time; the path of its program names it")
            return "v" + named.group(1)
    node.notes.setdefault("kubelet", "it did not print its version")
    return ""


def link_of(node: Node, path: str) -> str:
    """The target of a link, "" if it cannot be read."""
    try:
        return os.readlink(node.path(path))
    except OSError:
        return ""


def read_flags(words: List[str], kubelet: Kubelet) -> None:
    """Parses the flags of a command line, as pflag does."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not word.startswith("-") or not name:
            continue
        if not equals and name not in BOOL_FLAGS and index < len(words) and not words[index].startswith("-"):
            value, equals = words[index], "="
            index += 1
        if name in PATH_FLAGS:
            kubelet.flags[name] = value
        if name in SETTING_FLAGS:
            kubelet.kept.append("--" + name + equals + value)
        elif name not in PATH_FLAGS:
            kubelet.omitted.append("--" + name)


def kept_lines(text: str) -> Optional[str]:
    """A KubeletConfiguration's text with the recorded fields, each on its own line; None for other forms of YAML.

    Line numbers stay, since reasons name them; other fields and all comments leave empty lines. A JSON file comes back
    as one line.
    """
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return json.dumps({name: value for name, value in document.items() if name in CONFIG_FIELDS})
    lines: List[str] = []
    keep = False
    for line in text.splitlines():
        top = re.match(r"""(["']?)([A-Za-z][\w. -]*)\1\s*:(\s|$)""", line)
        if top:
            keep = top.group(2) in CONFIG_FIELDS
        elif line.strip() in {"---", "..."} or not line.strip() or line.lstrip().startswith("#"):
            lines.append("---" if line.strip() == "---" and not any(lines) else "")
            continue
        elif line[0] not in " -":
            return None
        if keep and re.search(r"""(^|[\s:\[{,-])[&*!][A-Za-z]""", line):
            return None
        lines.append(without_comment(line) if keep else "")
    return "\n".join(lines) + "\n"


def without_comment(line: str) -> str:
    """A line of YAML without its trailing comment, unless it has quotes, which may contain the sign."""
    return line if '"' in line or "'" in line else re.sub(r"\s#.*$", "", line)


def configured(node: Node, kubelet: Kubelet) -> Dict[str, Any]:
    """The kubelet's configuration file and drop-ins, its command line and its checkpoints."""
    found: Dict[str, Any] = {}
    if kubelet.inside:
        found["kubelet_inside"] = kubelet.inside
    else:
        found["unread"] = kubelet.kept
        found["flags_omitted"] = sorted(set(kubelet.omitted))
        path = kubelet.path("config")
        if path:
            found.update(config_in(node, path))
        folder = kubelet.path("config-dir")
        if folder:
            found.update(drop_ins_of(node, folder))
    damaged = {}
    for name in CHECKPOINTS:
        text = node.read(kubelet.path("root-dir", "/var/lib/kubelet").rstrip("/") + "/" + name, 16 << 20)
        if text is not None:
            try:
                found[name] = json.loads(text)
            except ValueError:
                damaged[name] = "the file is not JSON"
            if name in found and not isinstance(found[name], dict):
                del found[name]
                damaged[name] = "the file has no object"
    if damaged:
        found["checkpoints_unread"] = damaged
    return found


def config_in(node: Node, path: str) -> Dict[str, str]:
    """The configuration in a file, or why it is missing."""
    text = node.read(path)
    kept = None if text is None else kept_lines(text)
    if kept is not None:
        return {"config": kept}
    if text is not None:
        node.notes[path] = "its form of YAML is not kept here (anchors, aliases, tags or one line)"
    node.notes.setdefault(path, "it does not exist")
    return {"config_unread": "%s: %s" % (path, node.notes[path])}


def drop_ins_of(node: Node, folder: str) -> Dict[str, Any]:
    """The *.conf files of a folder, in the order of the kubelet, which sorts by the bytes of names."""
    texts: Dict[str, str] = {}
    unread: Dict[str, str] = {}
    if not os.path.isdir(node.path(folder)):
        return {"drop_ins": {}, "drop_ins_unread": {folder: "the folder no longer exists"}}
    paths = []
    for above, _, names in os.walk(node.path(folder)):
        paths += [os.path.join(above, name)[len(node.root) :] for name in names if name.endswith(".conf")]
    paths.sort(key=lambda path: os.fsencode(path).split(b"/"))
    for path in paths:
        text = node.read(path) if len(texts) < MOST_DROP_INS else None
        kept = None if text is None else kept_lines(text)
        if kept is None:
            unread[shown(path)] = node.notes.pop(path, "memqos reads %d files, one field on each line" % MOST_DROP_INS)
        else:
            texts[shown(path)] = kept
    return dict({"drop_ins": texts}, **({"drop_ins_unread": unread} if unread else {}))


def ended(process: "Optional[subprocess.Popen[bytes]]", seconds: float) -> str:
    """The first line of a program's output, "" if it does not end in time."""
    if process is None:
        return ""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return ""
    return text_of(out).partition("\n")[0].strip()


# --- the kubelet's API -----------------------------------------------------------------------------------------------


def asked(url: str, path: str, token: str, ca: str, seconds: float) -> Any:
    """A document from the kubelet; OSError or ValueError without one."""
    match = re.fullmatch(r"(https?)://([^/:\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d+)/?", url)
    if not match:
        raise ValueError("'%s' is no URL of a kubelet" % url[:80])
    secure, host, port = match.group(1) == "https", match.group(2).strip("[]"), int(match.group(3))
    local = host in {"127.0.0.1", "::1", "localhost"}
    if token and not (secure and (ca or local)):
        raise ValueError("a token is sent to this very node, or over TLS with --ca-file")
    if secure:
        context = ssl.create_default_context(cafile=ca or None)
        if not ca:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=seconds)  # type: ignore[assignment]
    try:
        connection.request("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
        answer = connection.getresponse()
        if answer.status != 200:  # noqa: PLR2004 - OK
            raise ValueError("the kubelet answers %d" % answer.status)
        data = answer.read(MOST_ANSWER + 1)
        if len(data) > MOST_ANSWER:
            raise ValueError("the answer has more than %d bytes" % MOST_ANSWER)
        return json.loads(text_of(data))
    finally:
        connection.close()


def of_the_api(node: Node, urls: List[str], token: str, ca: str, seconds: float) -> Dict[str, Any]:
    """The kubelet's own configuration and pods, if it returns them; reasons are notes."""
    found: Dict[str, Any] = {}
    for name, path in (("configz", "/configz"), ("pods", "/pods")):
        why = ""
        for url in urls:
            try:
                said = asked(url, path, token if url.startswith("https") else "", ca, seconds)
                found[name] = configz_of(said) if name == "configz" else pods_in(said)
                break
            except (OSError, ValueError, http.client.HTTPException) as error:
                why = why or "%s%s: %s" % (url, path, said_of(error, seconds))
        if name not in found:
            node.notes[name] = why[:300]
    return found


def said_of(error: Exception, seconds: float) -> str:
    """The reason why a server gave no answer."""
    said = str(getattr(error, "strerror", None) or error)
    return "no answer in %g s; --timeout SECONDS allows more" % seconds if "timed out" in said else said


def of_the_api_server(node: Node, url: str, name: str, token: str, ca: str, *, seconds: float) -> Dict[str, Any]:
    """The API server's data about this node: its kubelet's and its runtime's version, and its pods."""
    found: Dict[str, Any] = {}
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", name):
        node.notes["api server"] = "'%s' is no name of a node" % name[:80]
        return found
    paths = {"node_info": "/api/v1/nodes/" + name, "pods": "/api/v1/pods?fieldSelector=spec.nodeName%3D" + name}
    for what, path in paths.items():
        try:
            said = asked(url, path, token, ca, seconds)
            found[what] = pods_in(said) if what == "pods" else node_info_of(said)
        except (OSError, ValueError, http.client.HTTPException) as error:
            node.notes["api server"] = "%s%s: %s" % (url, path, said_of(error, seconds))
    return found


def node_info_of(said: Any) -> Dict[str, str]:
    """The versions in status.nodeInfo; ValueError for another document."""
    status = said.get("status") if isinstance(said, dict) else None
    info = status.get("nodeInfo") if isinstance(status, dict) else None
    if not isinstance(info, dict):
        raise ValueError("the answer is no node")  # noqa: TRY004 - as for what does not parse
    return {name: str(info[name]) for name in ("kubeletVersion", "containerRuntimeVersion") if name in info}


def containers_in(pods: List[Any]) -> Dict[str, List[str]]:
    """The running containers by the status of pods, in the form of the runtime's lists."""
    found: Dict[str, List[str]] = {}
    for pod in pods:
        names, status = pod.get("metadata"), pod.get("status")
        if not isinstance(names, dict) or not isinstance(status, dict):
            continue
        for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
            for one in status.get(kind) or []:
                if not isinstance(one, dict) or not isinstance(one.get("state"), dict) or "running" not in one["state"]:
                    continue
                id_ = str(one.get("containerID", "")).rpartition("://")[2]
                texts = [str(names.get("name", "")), str(one.get("name", "")), str(names.get("uid", ""))]
                if id_ and all(texts):
                    found[id_] = texts
    return found


def complete(document: Dict[str, Any]) -> None:
    """Adds the API servers' data where the runtime and the kubelet's process had none."""
    info = document.pop("node_info", {})
    pods = document.get("pods")
    if not document["containers"] and pods:
        document["containers"] = containers_in(pods)
    if "kubelet" not in document and info.get("kubeletVersion"):
        document["kubelet"] = info["kubeletVersion"]
        document["notes"].pop("kubelet", None)
    name, _, version = info.get("containerRuntimeVersion", "").partition("://")
    known = [one for one in ("containerd", "cri-o", "docker", "cri") if one in document["node"]]
    if name and not known:
        key = name if name in {"containerd", "cri-o", "docker"} else "cri"
        document["node"][key] = "%s %s" % (name, version)


def configz_of(said: Any) -> Dict[str, Any]:
    """The recorded fields of /configz; ValueError for another document."""
    inner = said.get("kubeletconfig") if isinstance(said, dict) else None
    if not isinstance(inner, dict):
        raise ValueError("the answer is no configuration")  # noqa: TRY004 - as for what does not parse
    kept = {name: value for name, value in inner.items() if name in CONFIG_FIELDS}
    return {"kubeletconfig": kept}


def pods_in(said: Any) -> List[Any]:
    """The pods of a list, with the recorded fields; ValueError for another document."""
    items = said.get("items") if isinstance(said, dict) else None
    if items is None and isinstance(said, dict) and str(said.get("kind", "")).endswith("List"):
        items = []
    if not isinstance(items, list):
        raise ValueError("the answer is no list of pods")  # noqa: TRY004 - as for what does not parse
    found = []
    for one in items:
        if isinstance(one, dict):
            pod = dict(kept_fields(one, POD_FIELDS), apiVersion="v1", kind="Pod")
            annotations = pod.get("metadata", {}).get("annotations")
            if isinstance(annotations, dict):
                pod["metadata"]["annotations"] = kept_annotations(annotations)
            found.append(pod)
    return found


def kept_fields(value: Any, fields: Optional[Dict[str, Any]]) -> Any:
    """The value with these fields only."""
    if fields is None:
        return value
    if isinstance(value, list):
        return [kept_fields(one, fields) for one in value]
    if not isinstance(value, dict):
        return None
    return {name: kept_fields(value[name], below) for name, below in fields.items() if name in value}


def kept_annotations(annotations: Dict[str, Any]) -> Dict[str, Any]:
    """The annotations that write cgroups; only the names of those that belong to other programs."""
    kept = {name: value for name, value in annotations.items() if name.startswith(CGROUP_ANNOTATIONS)}
    for name in annotations:
        if name.startswith(FOREIGN_MARKS) or ".memory-qos.nri.io" in name:
            kept[name] = ""
    return kept


# --- the runtime: the few calls of CRI for lists, over a minimal HTTP/2 ----------------------------------------------

READY, RUNNING = 0, 1


def varint(data: bytes, index: int) -> Tuple[int, int]:
    """A protobuf varint, and where it ends."""
    value = shift = 0
    while True:
        byte = data[index]
        index += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return value, index
        shift += 7


def message(data: bytes) -> Dict[int, List[Any]]:
    """The fields of a protobuf message by number; ValueError if it does not parse."""
    found: Dict[int, List[Any]] = {}
    index = 0
    value: Any
    try:
        while index < len(data):
            key, index = varint(data, index)
            kind = key & 7
            if kind == 0:
                value, index = varint(data, index)
            elif kind == 2:  # noqa: PLR2004 - wire type LEN
                size, index = varint(data, index)
                value, index = data[index : index + size], index + size
            elif kind in {1, 5}:
                size = 8 if kind == 1 else 4
                value, index = data[index : index + size], index + size
            else:
                raise ValueError("wire type %d" % kind)
            found.setdefault(key >> 3, []).append(value)
    except IndexError:
        raise ValueError("it ends in the middle") from None
    return found


def word(fields: Dict[int, List[Any]], number: int) -> str:
    """A text field, "" without it."""
    value = fields.get(number, [b""])[-1]
    return text_of(value) if isinstance(value, bytes) else ""


def count(fields: Dict[int, List[Any]], number: int) -> int:
    """A number field, 0 without it."""
    value = fields.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def header(name: str, value: str) -> bytes:
    """An HTTP/2 header that is in no table (RFC 7541, 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """An HTTP/2 frame (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes; OSError if the connection ends before."""
    parts = []
    while size:
        part = connection.recv(min(size, 65536))
        if not part:
            raise OSError(104, "the runtime closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def call(path: str, method: str, request: bytes, seconds: float) -> Dict[int, List[Any]]:
    """One call of the runtime service on this socket; OSError or ValueError without an answer."""
    DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8  # noqa: N806 - RFC 9113
    until = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(path)
        fields = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/runtime.v1.RuntimeService/" + method),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 30))
            + frame(WINDOW, 0, 0, struct.pack(">I", 1 << 30))
            + frame(HEADERS, 4, 1, b"".join(header(name, value) for name, value in fields))
            + frame(DATA, 1, 1, b"\0" + struct.pack(">I", len(request)) + request)
        )
        answer: List[bytes] = []
        size = 0
        while True:
            connection.settimeout(max(0.001, until - time.monotonic()))
            head = exactly(connection, 9)
            length, kind, flags = struct.unpack(">I", b"\0" + head[:3])[0], head[3], head[4]
            payload = exactly(connection, length)
            if kind == SETTINGS and not flags & 1:
                connection.sendall(frame(SETTINGS, 1, 0, b""))
            elif kind == PING and not flags & 1:
                connection.sendall(frame(PING, 1, 0, payload))
            elif kind in {RST, GOAWAY}:
                raise OSError(104, "the runtime refuses the call")
            elif kind == DATA:
                answer.append(payload[1 : len(payload) - payload[0]] if flags & 8 else payload)
                size += len(payload)
                if size > MOST_ANSWER:
                    raise ValueError("the answer has more than %d bytes" % MOST_ANSWER)
            if kind in {DATA, HEADERS} and flags & 1:
                break
    data = b"".join(answer)
    if len(data) < 5:  # noqa: PLR2004 - the head of a gRPC message
        raise ValueError("the runtime answers %s with an error" % method)
    return message(data[5 : 5 + struct.unpack(">I", data[1:5])[0]])


class Runtime:
    """The runtime on one socket: its containers by id, the ended ones, and the versions of its programs."""

    def __init__(self, node: Node, path: str, seconds: float) -> None:
        local = node.path(path)
        told = call(local, "Version", b"", seconds)
        self.name, self.version = word(told, 2), word(told, 3)
        self.containers: Dict[str, List[str]] = {}
        self.pods: Dict[str, Dict[str, Any]] = {}
        self._sandboxes(call(local, "ListPodSandbox", b"", seconds))
        self._inside(call(local, "ListContainers", b"", seconds))
        try:
            self.configuration = self._configured(call(local, "Status", b"\x08\x01", seconds))
        except (OSError, ValueError):
            self.configuration = {}

    def _sandboxes(self, answer: Dict[int, List[Any]]) -> None:
        for item in answer.get(1, []):
            one = message(item)
            names = message(one.get(2, [b""])[0])
            pod: Dict[str, Any] = {
                "name": word(names, 1),
                "uid": word(names, 2),
                "namespace": word(names, 3),
                "containers": [],
                "ready": count(one, 3) == READY,
            }
            self.pods[word(one, 1)] = pod
            if pod["ready"] and pod["uid"]:
                self.containers[word(one, 1)] = [pod["name"], "(sandbox)", pod["uid"]]

    def _inside(self, answer: Dict[int, List[Any]]) -> None:
        for item in answer.get(1, []):
            one = message(item)
            pod = self.pods.get(word(one, 2))
            names = message(one.get(3, [b""])[0])
            if pod is None:
                continue
            running = count(one, 6) == RUNNING
            pod["containers"].append(
                {"name": word(names, 1), "id": word(one, 1), "attempt": count(names, 2), "running": running}
            )
            if running and pod["uid"]:
                self.containers[word(one, 1)] = [pod["name"], word(names, 1), pod["uid"]]

    @staticmethod
    def _configured(answer: Dict[int, List[Any]]) -> Dict[str, Any]:
        for item in answer.get(2, []):
            entry = message(item)
            if word(entry, 1) == "config":
                said = json.loads(word(entry, 2))
                return said if isinstance(said, dict) else {}
        return {}

    def programs(self) -> Dict[str, Any]:
        """The container in the fields of a recorded tree."""
        name = self.name.lower()
        known = {"containerd": "containerd", "cri-o": "cri-o", "docker": "docker"}
        found: Dict[str, Any] = {known.get(name, "cri"): "%s %s" % (name, self.version)}
        if self.configuration:
            found["hugetlb"] = self.configuration.get("disableHugetlbController") is not True
        return found

    def program(self) -> str:
        """The path of the OCI runtime for pods without a class, as containerd reports it; "" if it does not."""
        inner = self.configuration.get("containerd")
        inner = inner if isinstance(inner, dict) else {}
        runtimes = inner.get("runtimes")
        default = inner.get("defaultRuntimeName") or "runc"
        one = runtimes.get(default) if isinstance(runtimes, dict) else None
        if not isinstance(one, dict) or one.get("runtimeType") != "io.containerd.runc.v2":
            return ""
        options = one.get("options")
        return str((options if isinstance(options, dict) else {}).get("BinaryName") or "runc")


def runtimes_of(node: Node, sockets: List[str], seconds: float) -> Dict[str, Any]:
    """The containers of every runtime that answers, its pods, and its versions."""
    containers: Dict[str, Any] = {}
    pods: List[Any] = []
    programs: Dict[str, Any] = {}
    seen: Set[str] = set()
    why = ""
    for path in sockets:
        real = os.path.realpath(node.path(path))
        if real in seen or not os.path.exists(real):
            continue
        seen.add(real)
        try:
            one = Runtime(node, path, seconds)
        except (OSError, ValueError) as error:
            why = why or "%s: %s" % (path, getattr(error, "strerror", None) or error)
            continue
        containers.update(one.containers)
        pods += [pod for pod in one.pods.values() if pod["uid"]]
        if one.containers or not programs:
            programs = one.programs()
            said = oci_version(node, one.program())
            programs.update(said)
    if not seen:
        why = "no socket of a runtime is there: " + ", ".join(sockets)
    if not programs:
        node.notes["containers"] = why
    return {"containers": containers, "runtime_pods": pods, "programs": programs}


def oci_version(node: Node, program: str) -> Dict[str, str]:
    """The OCI runtime's version output; {} if none is known by name or path."""
    name = program.rpartition("/")[2]
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name):
        return {}
    key = name if name in {"runc", "crun"} else "oci"
    unknown = {key: "%s version UNKNOWN" % name}
    # crun creates its state folder with any command.
    if name == "crun" and not os.path.exists(node.path("/run/crun")):
        return unknown
    folders = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
    paths = [program] if program.startswith("/") else [folder + "/" + name for folder in folders]
    for path in paths:
        if os.access(node.path(path), os.X_OK):
            try:
                process = subprocess.Popen(
                    [node.path(path), "--version"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    stdin=subprocess.DEVNULL,
                    env={},
                )
            except OSError:
                return unknown
            said = ended(process, 0.7)
            return {key: said} if name in said.split() else unknown
    return unknown


# --- the document ----------------------------------------------------------------------------------------------------


def collected(options: argparse.Namespace) -> Dict[str, Any]:
    """The document of this node."""
    started = time.monotonic()
    node = Node(options.root)
    tree = Tree(node, options.cgroup_root)
    names = processes_of(node)
    names.pop(str(os.getpid()) if not node.root else "", None)
    kubelet = kubelet_of(node, names)
    document: Dict[str, Any] = {
        "memqos_collect": FORMAT,
        "source": options.source or options.node or os.environ.get("NODE_NAME") or os.uname().nodename,
        "collected_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "root": os.geteuid() == 0,
    }
    cgroups: Dict[str, Any] = {}
    ours: List[str] = []
    looked = time.monotonic()
    if tree.version:
        cgroups, ours = cgroups_of(node, tree, OTHER_SECONDS)
    else:
        node.notes["cgroups"] = "no mounted cgroup hierarchy has the memory controller"
    if tree.version and not ours:
        node.notes["kubepods"] = "no cgroup is called kubepods or kubepods.slice: no kubelet's pods"
    told = runtimes_of(node, sockets_of(options, kubelet), options.timeout)
    document["node"] = dict(facts_of(node, tree), **told["programs"])
    document.update({"containers": told["containers"], "runtime_pods": told["runtime_pods"]})
    if kubelet is not None:
        document.update(configured(node, kubelet))
    else:
        document["config_unread"] = node.notes.get("kubelet", "no process of a kubelet was seen")
    if not options.no_api:
        add_api_answers(document, node, kubelet, options)
    document["machine"] = machine_of(node, tree)
    document["daemons"] = daemons_of(node, names, {path.rpartition("/")[2] for path in ours})
    if ours and options.pause >= 0:
        time.sleep(max(0.0, options.pause - (time.monotonic() - looked)))
        document["second_look"] = second_look(tree, ours, cgroups)
        still_running(document, cgroups, node, sockets_of(options, kubelet), options.timeout)
        document["second_look"]["after_seconds"] = round(time.monotonic() - looked, 3)
    if kubelet is not None and not kubelet.inside:
        left = started + WHOLE_SECONDS - time.monotonic()
        version = version_of(node, kubelet, max(left, options.timeout, LEAST_SECONDS))
        if version:
            document["kubelet"] = version
    document["notes"] = node.notes
    complete(document)
    document["cgroups"] = cgroups
    document["took_seconds"] = round(time.monotonic() - started, 3)
    return document


def add_api_answers(
    document: Dict[str, Any], node: Node, kubelet: Optional[Kubelet], options: argparse.Namespace
) -> None:
    """Add what the kubelet's API reports, and what only the API server does."""
    token = token_of(node, options)
    document.update(of_the_api(node, urls_of(options, kubelet), token, options.ca_file, options.timeout))
    address, name = server_of(options)
    if address and name:
        pods = of_the_api_server(node, address, name, token, ca_of(options), seconds=options.timeout)
        document.update({what: one for what, one in pods.items() if what not in document})


def still_running(
    document: Dict[str, Any], cgroups: Dict[str, Any], node: Node, sockets: List[str], seconds: float
) -> None:
    """Removes containers without a process that have ended since they were listed."""
    empty = [path.rpartition("/")[2] for path, files in cgroups.items() if files.get("processes") == "0"]
    doubtful = [id_ for id_ in document["containers"] if any(id_ in name for name in empty)]
    if doubtful:
        now = runtimes_of(node, sockets, seconds)["containers"]
        document["containers"] = {
            id_: names for id_, names in document["containers"].items() if id_ not in doubtful or id_ in now
        }


def sockets_of(options: argparse.Namespace, kubelet: Optional[Kubelet]) -> List[str]:
    """The sockets of runtimes: the user's, else the kubelet's, else the usual ones."""
    if options.cri_socket:
        return [options.cri_socket]
    said = kubelet.flags.get("container-runtime-endpoint", "") if kubelet is not None else ""
    said = said[len("unix://") :] if said.startswith("unix://") else said
    return ([said] if said.startswith("/") else []) + list(SOCKETS)


def urls_of(options: argparse.Namespace, kubelet: Optional[Kubelet]) -> List[str]:
    """The address of the kubelet."""
    if options.kubelet_url:
        return [options.kubelet_url]
    flags = kubelet.flags if kubelet is not None else {}
    port, open_port = flags.get("port", "10250"), flags.get("read-only-port", "10255")
    return ["https://127.0.0.1:" + port, "http://127.0.0.1:" + open_port]


def server_of(options: argparse.Namespace) -> Tuple[str, str]:
    """The API server of the cluster in whose pod this runs, and the node's name; "" for neither."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    own = "https://%s:%s" % ("[%s]" % host if ":" in host else host, port) if host else ""
    return options.api_server or own, options.node or os.environ.get("NODE_NAME", "")


def ca_of(options: argparse.Namespace) -> str:
    """The CA file for the API server's certificate."""
    return options.api_ca_file or (CLUSTER_CA if os.path.exists(CLUSTER_CA) else "")


def token_of(node: Node, options: argparse.Namespace) -> str:
    """The user's token, else that of the pod in which this runs; it is sent to the kubelet only."""
    path = options.token_file or CREDENTIAL
    try:
        with open(path) as file:
            return file.read(65536).strip()
    except OSError as error:
        if options.token_file:
            node.notes["token"] = "%s: %s" % (path, error.strerror)
        return ""


def arguments(words: Optional[List[str]]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Read this node into a JSON document for `memqos audit`.")
    parser.add_argument("--root", default="/", metavar="DIR", help="where the node's / is mounted (default: /)")
    parser.add_argument("--cgroup-root", default="", metavar="DIR", help="the mount of cgroup2, if not as PID 1 has it")
    parser.add_argument("--source", default="", metavar="NAME", help="the node's name (default: the host's name)")
    parser.add_argument("--cri-socket", default="", metavar="PATH", help="where the runtime listens")
    parser.add_argument("--kubelet-url", default="", metavar="URL", help="such as https://127.0.0.1:10250")
    parser.add_argument("--token-file", default="", metavar="FILE", help="a token for the kubelet's /configz and /pods")
    parser.add_argument("--ca-file", default="", metavar="FILE", help="what signed the kubelet's certificate")
    parser.add_argument("--api-server", default="", metavar="URL", help="the cluster's, if not known from the pod")
    parser.add_argument("--api-ca-file", default="", metavar="FILE", help="what signed the API server's certificate")
    parser.add_argument("--node", default="", metavar="NAME", help="the node's name there (default: $NODE_NAME)")
    parser.add_argument("--no-api", action="store_true", help="ask neither the kubelet nor the API server")
    parser.add_argument("--timeout", type=float, default=0.7, metavar="SECONDS", help="for each call (default: 0.7)")
    parser.add_argument(
        "--pause",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="at least this long between the two readings of pods' cgroups; -1: one reading (default: 0.5)",
    )
    parser.add_argument("--output", default="", metavar="FILE", help="default: standard output")
    return parser.parse_args(words)


def written(document: Dict[str, Any], file: Any) -> None:
    """Writes the document piece by piece: the whole text would need as much memory again as the values."""
    file.write("{")
    separator = "\n"
    for name, value in document.items():
        if name == "cgroups":
            file.write(separator + '"cgroups": {')
            inner = "\n"
            for path, files in value.items():
                file.write("%s%s: %s" % (inner, json.dumps(path), json.dumps(files)))
                inner = ",\n"
            file.write("}")
        else:
            file.write("%s%s: %s" % (separator, json.dumps(name), json.dumps(value)))
        separator = ",\n"
    file.write("}\n")


def main(words: Optional[List[str]] = None) -> int:
    """0: a document with pods' cgroups; 5: one without any; 6: nothing of cgroups could be read."""
    options = arguments(words)
    document = collected(options)
    if options.output:
        descriptor = os.open(options.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            written(document, file)
    else:
        written(document, sys.stdout)
        sys.stdout.flush()
    for name, why in document["notes"].items():
        sys.stderr.write("memqos-collect: %s: %s\n" % (json.dumps(name)[1:-1], json.dumps(why)[1:-1]))
    if not document["cgroups"]:
        return 6
    return 5 if "kubepods" in document["notes"] else 0


if __name__ == "__main__":
    try:
        STATUS = main()
    except KeyboardInterrupt:
        STATUS = 2
    except OSError as error:
        sys.stderr.write("memqos-collect: %s\n" % error)
        STATUS = 3
    sys.exit(STATUS)
