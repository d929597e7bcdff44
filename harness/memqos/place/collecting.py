"""Reads a node into a recording: with `collector.program`, or with shell commands on a node without Python.

A pod with minimal rights reads a node of a cluster: it sees only /proc and /sys, and has no token, no capability and no
user of the node. kubectl gets the rest from the API server.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import re
import shlex
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memqos.clock import Deadline, utc_now
from memqos.collector import program as collector
from memqos.errors import EnvironmentNotAbleError, MissingProgramError, TargetError, UnknownNameError, UsageError
from memqos.place.base import Health
from memqos.place.existing_machine import reached
from memqos.place.recording import recorded
from memqos.target.base import Target
from memqos.target.opening import check_url

__all__ = [
    "DEFAULT_IMAGE",
    "ClusterNode",
    "check_place",
    "collected",
    "collected_at",
    "collected_through",
    "document_in",
    "program",
]

COLLECT_SECONDS = 60.0
_CLOCK_SECONDS = 120.0
_CALLS = 8
"""At most so many calls of the program wait for their whole time: a server that does not answer is asked no more."""

POD_SECONDS = 180.0
DEFAULT_IMAGE = "python:3-alpine"
_MOST_BYTES = 256 << 20
NO_PYTHON = 97
PYTHON_SCRIPT = f"""\
for python in python3 /usr/libexec/platform-python /usr/bin/python3 /usr/local/bin/python3; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null; then
    exec "$python" - "$@"
  fi
done
exit {NO_PYTHON}
"""
_MOST_UNITS = 200
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_PARAMETERS = ("namespace", "image", "kubeconfig", "context")
_CLUSTER = "kubectl://"
_LOCAL = "local://"


def program() -> str:
    """The text of the program."""
    return (importlib.resources.files("memqos.collector") / "program.py").read_text(encoding="utf-8")


def collected_at(place: str, *, cri_socket: str = "", timeout: float | None = None) -> Mapping[str, Any]:
    """The recording of the node at this URL; errors as `collected`, and TargetError if it cannot be reached.

    kubectl://NODE is a node of a cluster by its name; local:///DIR is this host with its / mounted at /DIR.
    """
    check_place(place)
    if place.startswith(_CLUSTER):
        return ClusterNode.of(place).collected()
    root = place.removeprefix(_LOCAL) if place.startswith(_LOCAL) else ""
    return collected_through(_LOCAL if root else place, cri_socket=cri_socket, root=root, timeout=timeout)


def collected_through(
    url: str, *, cri_socket: str = "", root: str = "", timeout: float | None = None
) -> Mapping[str, Any]:
    """The recording of the machine at this target URL; kubectl://POD is an existing pod. The rest as `collected`."""
    with reached(url, Health()) as target:
        return collected(target, cri_socket=cri_socket, root=root, timeout=timeout)


def unit_properties(url: str, units: Sequence[str]) -> dict[str, dict[str, str]]:
    """The memory and CPU properties of each systemd unit on this node; {} if it does not report them.

    Errors as `collected_at`.
    """
    named = ("Id", "MemoryMin", "MemoryLow", "MemoryHigh", "MemoryMax", "MemorySwapMax", "TasksMax", "CPUWeight")
    argv = ["systemctl", "show", *(f"--property={name}" for name in named), "--", *units[:_MOST_UNITS]]
    if url.startswith(f"{_LOCAL}/"):
        return {}
    with reached(url, Health()) as target:
        result = target.run(argv, deadline=Deadline.after(COLLECT_SECONDS))
    found = {}
    for block in result.text.split("\n\n") if result.status == 0 else ():
        properties = dict(line.partition("=")[::2] for line in block.splitlines())
        if properties.get("Id") in units:
            found[properties["Id"]] = properties
    return found


def check_place(place: str) -> None:
    """Raise UsageError for anything but a node's URL."""
    if place.startswith(_CLUSTER):
        ClusterNode.of(place)
    elif not place.startswith(f"{_LOCAL}/"):
        check_url(place, where=place[:120])


def collected(
    target: Target, *, cri_socket: str = "", root: str = "", timeout: float | None = None
) -> Mapping[str, Any]:
    """The recording of a node.

    cri_socket: the runtime's socket; "" for the kubelet's setting or the usual paths. root: the mount point of the
    node's / on the target, "" for the target's own. timeout: seconds for each call to the kubelet and the runtime, None
    for the program's default.

    Raises EnvironmentNotAbleError for a machine without pods' cgroups, TargetError for an invalid answer.
    """
    words = [*(["--cri-socket", cri_socket] if cri_socket else []), *(["--root", root] if root else [])]
    words += [] if timeout is None else ["--timeout", f"{timeout:g}"]
    deadline = Deadline.after(COLLECT_SECONDS + _CALLS * (timeout or 0.0))
    result = target.run(["sh", "-c", PYTHON_SCRIPT, "sh", *words], deadline=deadline, stdin=program().encode())
    if result.status in {NO_PYTHON, 127} and not root:
        document: dict[str, Any] = dict(recorded(target, cri_socket=cri_socket))
        counters = "the node has no Python 3.6: shell commands read it, without daemons and a second reading"
        return document | {"notes": {"counters": counters} | document["notes"]}
    found = document_in(result.stdout, result.status, result.error_text, where=target.address)
    off = _clock_off(str(found.get("collected_at", "")))
    if off:
        found.setdefault("notes", {})["clock"] = off
    return found | {"source": target.address}


def _clock_off(text: str) -> str:
    """The difference between the node's clock and this host's as a note, "" for none."""
    try:
        seconds = (datetime.fromisoformat(text) - utc_now()).total_seconds()
    except (ValueError, TypeError):
        return ""
    if abs(seconds) < _CLOCK_SECONDS:
        return ""
    return f"the node's clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this host's"


def document_in(stdout: bytes, status: int, said: str, *, where: str) -> dict[str, Any]:
    """The recording in the program's output. where: the node, for errors, which are those of `collected`."""
    try:
        document = json.loads(stdout[:_MOST_BYTES])
    except ValueError:
        raise TargetError(
            f"the collecting program ended with status {status}: {said.strip()[-300:] or 'it printed no document'}",
            where=where,
            next_step="Run it by hand: memqos collect --print.",
        ) from None
    if not isinstance(document, dict):
        raise TargetError("the collecting program printed no recording.", where=where)
    if not document.get("cgroups"):
        raise EnvironmentNotAbleError(
            "no mounted cgroup hierarchy with the memory controller can be read.",
            where=where,
            next_step="Name a node with cgroups, and read it as root.",
        )
    if "kubepods" in document.get("notes", {}):
        raise EnvironmentNotAbleError(
            "it has no pods of a kubelet: no cgroup is called kubepods or kubepods.slice.",
            where=where,
            next_step="Name a node on which a kubelet runs, with cgroupsPerQOS.",
        )
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node of a cluster. words: kubectl with the options for the cluster."""

    name: str
    namespace: str
    image: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, url: str) -> ClusterNode:
        """The node of kubectl://NODE?namespace=…&image=…&kubeconfig=…&context=…; UsageError for another form."""
        name, _, query = url.removeprefix(_CLUSTER).partition("?")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"'{url[:120]}' names no node of a cluster.",
                next_step="Write kubectl://NODE, with ?namespace=NAME&image=NAME behind it if need be.",
            )
        given: dict[str, str] = {}
        for key, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
            if key not in _PARAMETERS:
                raise UnknownNameError.of("parameter of kubectl://NODE", key, list(_PARAMETERS), where=url[:120])
            if not value or value.startswith("-"):
                raise UsageError(f"'{value[:80]}' is not a value of {key}.", where=url[:120])
            given[key] = value
        options = [word for key in ("kubeconfig", "context") if key in given for word in (f"--{key}", given[key])]
        return cls(
            name=name,
            namespace=given.get("namespace", "kube-system"),
            image=given.get("image", DEFAULT_IMAGE),
            words=("kubectl", *options),
        )

    def manifest(self) -> dict[str, Any]:
        """The manifest of the pod that reads the node: it sees the node's /proc and /sys, read-only, without rights."""
        mounts = {"proc": "/proc", "sys": "/sys"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "memqos-collect-",
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/name": "memqos-collect"},
            },
            "spec": {
                "nodeName": self.name,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": int(POD_SECONDS),
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {
                        "name": "collect",
                        "image": self.image,
                        "command": ["sleep", str(int(POD_SECONDS))],
                        "resources": {
                            "requests": {"cpu": "10m", "memory": "64Mi"},
                            "limits": {"memory": "128Mi"},
                        },
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "readOnlyRootFilesystem": True,
                            "runAsNonRoot": True,
                            "runAsUser": 65534,
                            "runAsGroup": 65534,
                            "capabilities": {"drop": ["ALL"]},
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "volumeMounts": [
                            {"name": name, "mountPath": f"/host{path}", "readOnly": True}
                            for name, path in mounts.items()
                        ],
                    }
                ],
                "volumes": [
                    {"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, path in mounts.items()
                ],
            },
        }

    def collected(self) -> dict[str, Any]:
        """The recording of the node; errors as the function `collected`. The pod is removed in any case."""
        with self._pod() as pod:
            own = ["-n", self.namespace]
            argv = ["exec", "-i", *own, pod, "--", "python3", "-", "--root", "/host", "--no-api", "--source", self.name]
            result = self._run(argv, stdin=program().encode(), fails=False)
            document = document_in(
                result.stdout, result.returncode, result.stderr.decode(errors="replace"), where=_CLUSTER + self.name
            )
        return self._completed(document) | {"source": _CLUSTER + self.name}

    def _completed(self, document: dict[str, Any]) -> dict[str, Any]:
        """The recording with data from the API server: pods, the running configuration, versions."""
        asked = {
            "pods": ["get", "pods", "-A", "--field-selector", f"spec.nodeName={self.name}", "-o", "json"],
            "configz": ["get", "--raw", f"/api/v1/nodes/{self.name}/proxy/configz"],
            "node_info": ["get", "node", self.name, "-o", "json"],
        }
        read = {
            "pods": collector.pods_in,
            "configz": collector.configz_of,
            "node_info": collector.node_info_of,
        }
        for what, argv in asked.items():
            document["notes"].pop(what, None)
            result = self._run(argv, fails=False)
            if result.returncode:
                document["notes"][what] = f"kubectl {argv[0]}: {result.stderr.decode(errors='replace').strip()[-200:]}"
                continue
            try:
                document[what] = read[what](json.loads(result.stdout))
            except ValueError as error:
                document["notes"][what] = f"kubectl {argv[0]}: {error}"
        if "pods" in document:
            document["notes"].pop("containers", None)
        collector.complete(document)
        return document

    @contextlib.contextmanager
    def _pod(self) -> Iterator[str]:
        """Run the pod until the context ends; its name."""
        made = self._run(["create", "-f", "-", "-o", "name"], stdin=json.dumps(self.manifest()).encode())
        pod = made.stdout.decode(errors="replace").strip()
        if not re.fullmatch(r"pod/[a-z0-9.-]+", pod):
            raise TargetError(f"kubectl create answered '{pod[:80]}' and no pod.", where=_CLUSTER + self.name)
        own = ["-n", self.namespace]
        try:
            self._run(["wait", *own, "--for=condition=Ready", f"--timeout={int(POD_SECONDS)}s", pod])
            yield pod
        finally:
            self._run(["delete", *own, "--wait=false", "--now", pod], fails=False)

    def _run(
        self, argv: Sequence[str], *, stdin: bytes = b"", fails: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run kubectl; TargetError if it fails, unless the caller handles failures."""
        line = [*self.words, *argv]
        try:
            done = subprocess.run(line, input=stdin, capture_output=True, check=False, timeout=POD_SECONDS + 30)
        except FileNotFoundError:
            raise MissingProgramError(
                "the program 'kubectl' is not installed, and memqos reaches the nodes of a cluster through it.",
                data={"program": "kubectl"},
            ) from None
        except subprocess.TimeoutExpired:
            raise TargetError(f"'{shlex.join(line)[:200]}' did not end.", where=_CLUSTER + self.name) from None
        if done.returncode and fails:
            raise TargetError(
                f"'{shlex.join(line)[:200]}' failed: {done.stderr.decode(errors='replace').strip()[-300:]}",
                where=_CLUSTER + self.name,
                next_step="Run it by hand; the pod needs an image with python3 (?image=NAME), and hostPath volumes.",
            )
        return done
