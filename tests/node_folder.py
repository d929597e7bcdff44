"""A folder that looks like a node's / to the collecting program: cgroups, processes, the kubelet's files, its sockets.

Planted in it are secrets, in every place where nodes have them: SECRET must be in nothing that leaves the node.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from memqos.place import collecting
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc
from tests.live_node import Lists
from tests.recorded_nodes import CONFIG

SECRET = "hunter2-planted-secret"  # noqa: S105 - it is one on purpose
MOUNTINFO = (
    "22 1 0:20 / / rw - ext4 /dev/vda1 rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
    f"40 22 0:40 / /mnt/share rw - cifs //server/share rw,password={SECRET}\n"
    "41 22 0:41 / /var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/m rw - tmpfs tmpfs rw,size=65536k\n"
)
VERSION = "#!/bin/sh\necho Kubernetes v1.36.3\n"
STATIC_HEADER = f"staticPodURL: https://x/{SECRET}\nstaticPodURLHeader:\n  Authorization:\n  - Bearer {SECRET}\n"


def with_secrets(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod as an API server has it, with secrets in each field that can hold one."""
    copy: dict[str, Any] = json.loads(json.dumps(pod))
    copy["metadata"] |= {
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
            "kubernetes.io/config.source": "api",
            "koordinator.sh/qos": SECRET,
            "unified-cgroup.crio.io": "memory.high=1",
        },
        "labels": {"password": SECRET},
        "managedFields": [{"manager": SECRET}],
    }
    for one in copy["spec"]["containers"]:
        one |= {
            "image": f"registry/{SECRET}",
            "command": ["sh", "-c", SECRET],
            "args": [SECRET],
            "env": [{"name": "PASSWORD", "value": SECRET}],
            "envFrom": [{"secretRef": {"name": SECRET}}],
            "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
            "volumeMounts": [{"name": "v", "mountPath": f"/{SECRET}"}],
        }
    copy["spec"] |= {"volumes": [{"name": "v", "secret": {"secretName": SECRET}}], "serviceAccountName": SECRET}
    copy["status"] |= {"message": SECRET, "podIP": "10.0.0.1"}
    copy["status"]["conditions"] = [{"type": "Ready", "status": "True", "message": SECRET}]
    for status in copy["status"]["containerStatuses"]:
        status |= {"image": SECRET, "lastState": {"terminated": {"message": SECRET, "exitCode": 1, "reason": "Error"}}}
    return copy


class NodeFolder:
    """The folder, and what answers beside it."""

    def __init__(self, root: Path, document: Mapping[str, Any]) -> None:
        self.root = root
        self.document = document
        self.pods = [with_secrets(pod) for pod in document["pods"]]
        self.url = ""
        self.answers = True
        self.slow = 0.0
        self._write()

    def put(self, path: str, text: str | bytes) -> Path:
        """A file of the node's."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def cgroup(self, path: str) -> Path:
        """The folder of a cgroup."""
        return self.root / "sys/fs/cgroup" / path.lstrip("/")

    def process(self, pid: int, name: str, *, cgroup: str = "/", words: tuple[str, ...] = (), score: int = 0) -> None:
        """A process, with secrets where processes have them."""
        self.put(f"/proc/{pid}/comm", f"{name}\n")
        self.put(f"/proc/{pid}/cmdline", "\0".join((name, *words)) + "\0")
        self.put(f"/proc/{pid}/environ", f"TOKEN={SECRET}\0")
        self.put(f"/proc/{pid}/oom_score_adj", f"{score}\n")
        self.put(f"/proc/{pid}/statm", "3000 2000 100 1 0 900 0\n")
        self.put(f"/proc/{pid}/cgroup", f"0::{cgroup}\n")
        self.put(f"/proc/{pid}/status", "Name:\tx\nMems_allowed_list:\t0\n")

    def _write(self) -> None:
        facts = self.document["node"]
        self.put("/proc/1/mountinfo", MOUNTINFO)
        self.put("/proc/meminfo", f"MemTotal: {facts['mem_total_kib']} kB\nSwapTotal: {facts['swap_total_kib']} kB\n")
        self.put("/sys/devices/system/cpu/online", f"0-{facts['cpus'] - 1}\n")
        self.put("/proc/sys/kernel/osrelease", f"{facts['kernel']}\n")
        self.put("/proc/sys/vm/swappiness", "60\n")
        self.put("/proc/swaps", "Filename Type Size Used Priority\n")
        self.put("/proc/uptime", "1000.0 1.0\n")
        self.put("/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-257.13-1~deb13u1.so", "")
        words = (
            "--config=/var/lib/kubelet/config.yaml",
            "--node-ip",
            "10.0.0.1",
            f"--storage-driver-password={SECRET}",
        )
        self.process(500, "kubelet", cgroup="/system.slice/kubelet.service", words=words, score=-999)
        self.process(501, "systemd-oomd", cgroup="/system.slice/systemd-oomd.service", score=-900)
        self.put("/proc/500/exe", VERSION).chmod(0o755)
        self.put("/var/lib/kubelet/config.yaml", CONFIG + STATIC_HEADER + f"# {SECRET}\n")
        self.put("/var/lib/kubelet/pods/u/volumes/kubernetes.io~secret/s/password", SECRET)
        self.put("/var/lib/kubelet/memory_manager_state", '{"policyName": "None", "checksum": 1}')
        self.put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory pids\n")
        pid = 1000
        for path, files in self.document["cgroups"].items():
            folder = self.cgroup(path)
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                if name not in {"processes", "oom_score_adj", "comm"}:
                    (folder / name).write_text(f"{text}\n")
            pids = ""
            if files.get("processes", "0") != "0":
                pid += 1
                pids = f"{pid}\n"
                self.process(pid, files["comm"], cgroup=path, words=(SECRET,), score=int(files["oom_score_adj"]))
            (folder / "cgroup.procs").write_text(pids)

    def collect(self, *words: str, python: str = sys.executable) -> tuple[int, dict[str, Any], str]:
        """Runs the program: its status, its document, and what it says on standard error."""
        program = self.root.parent / "memqos-collect.py"
        program.write_text(collecting.program())
        argv = [python, "-I", str(program), "--root", str(self.root), "--pause", "0", "--kubelet-url", self.url, *words]
        if not self.url:
            argv = [word for word in argv if word not in {"--kubelet-url", ""}]
        environment = {"PATH": os.environ["PATH"], "PASSWORD": SECRET}
        done = subprocess.run(argv, capture_output=True, check=False, env=environment, timeout=60)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr.decode()


@contextlib.contextmanager
def node_folder(document: Mapping[str, Any]) -> Iterator[NodeFolder]:
    """A node on which a runtime and a kubelet answer. Its folder is a short one: a socket's path has 107 characters."""
    with tempfile.TemporaryDirectory(prefix="memqos-", dir="/tmp") as folder:
        yield from _answering(Path(folder) / "root", document)


def _answering(root: Path, document: Mapping[str, Any]) -> Iterator[NodeFolder]:
    node = NodeFolder(root, document)
    server = grpc.server(ThreadPoolExecutor(2))
    cri_pb2_grpc.add_RuntimeServiceServicer_to_server(_lists(document), server)  # type: ignore[no-untyped-call]
    (root / "run/containerd").mkdir(parents=True)
    server.add_insecure_port(f"unix:{root}/run/containerd/containerd.sock")
    server.start()
    kubelet = _kubelet(node)
    try:
        yield node
    finally:
        kubelet.shutdown()
        kubelet.server_close()
        server.stop(None).wait()


def _lists(document: Mapping[str, Any]) -> Lists:
    lists = Lists()
    spaces = {pod["metadata"]["uid"]: pod["metadata"]["namespace"] for pod in document["pods"]}
    sandboxes: dict[str, str] = {}
    for id_, (pod, name, uid) in document["containers"].items():
        if name == "(sandbox)":
            sandboxes[uid] = id_
            known = cri_pb2.PodSandboxMetadata(name=pod, namespace=spaces[uid], uid=uid)
            told = {"io.kubernetes.pod.env": SECRET}
            lists.sandboxes.append(
                cri_pb2.PodSandbox(id=id_, metadata=known, state=cri_pb2.SANDBOX_READY, annotations=told)
            )
    for id_, (_, name, uid) in document["containers"].items():
        if name != "(sandbox)":
            lists.containers.append(
                cri_pb2.Container(
                    id=id_,
                    pod_sandbox_id=sandboxes[uid],
                    metadata=cri_pb2.ContainerMetadata(name=name),
                    state=cri_pb2.CONTAINER_RUNNING,
                    labels={"password": SECRET},
                )
            )
    return lists


def _kubelet(node: NodeFolder) -> http.server.ThreadingHTTPServer:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said: dict[str, Any] = {
                "/configz": {"kubeletconfig": {"memoryThrottlingFactor": 0.9, "staticPodURLHeader": {"A": [SECRET]}}},
                "/pods": {"kind": "PodList", "apiVersion": "v1", "items": node.pods},
            }
            data = json.dumps(said[self.path]).encode()
            time.sleep(node.slow)
            self.send_response(200 if node.answers else 401)
            self.end_headers()
            # A collector that waited long enough has gone.
            with contextlib.suppress(BrokenPipeError):
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    node.url = f"http://127.0.0.1:{server.server_address[1]}"
    return server
