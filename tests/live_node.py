"""A node in memory on which pods run, as somebody finds it who only reads: its cgroups, and a real CRI socket."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from memqos.catalog.data import data_root
from memqos.cgroupfs.parse import first_process_command
from memqos.clock import Deadline
from memqos.engine.translate.runtimes import TRIXIE
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.place import collecting, discovery, recording
from memqos.place.fake import FAKE_FACTS, FakePlace
from memqos.plugin.collection.catalogue import Catalogue
from memqos.probe import facts
from memqos.runtime.proto import cri_pb2, cri_pb2_grpc
from memqos.target.fake import FakeAnswer
from tests.unit.probe.test_facts import FILES, printed

KIB = 1024
NODE = replace(FAKE_FACTS, hugepage_sizes=(2097152, 1073741824))
MOUNTS = {
    "v2": "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate,memory_recursiveprot 0 0\n",
    "v1": "".join(
        f"cgroup /sys/fs/cgroup/{name} cgroup rw,{option} 0 0\n"
        for name, option in {
            **{one: one for one in ("cpu,cpuacct", "cpuset", "hugetlb", "memory", "pids")},
            "systemd": "name=systemd",
        }.items()
    ),
}
CONFIG = "/var/lib/kubelet/config.yaml"


class Lists(cri_pb2_grpc.RuntimeServiceServicer):  # type: ignore[misc]
    """What containerd says of the pods that run; nothing else is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.drops_huge_pages = True
        self.sandboxes: list[Any] = []
        self.containers: list[Any] = []
        self.later: list[Any] | None = None
        """The containers from the second list on; None for the same."""

    def Version(self, _: Any, __: Any) -> Any:  # noqa: N802
        return cri_pb2.VersionResponse(runtime_name="containerd", runtime_version="1.7.24", runtime_api_version="v1")

    def RuntimeConfig(self, _: Any, context: Any) -> None:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")

    def Status(self, _: Any, __: Any) -> Any:  # noqa: N802
        runc = {"runtimeType": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}}
        config: dict[str, Any] = {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": runc}}}
        config["disableHugetlbController"] = self.drops_huge_pages
        return cri_pb2.StatusResponse(info={"config": json.dumps(config)})

    def ListPodSandbox(self, _: Any, __: Any) -> Any:  # noqa: N802
        return cri_pb2.ListPodSandboxResponse(items=self.sandboxes)

    def ListContainers(self, _: Any, __: Any) -> Any:  # noqa: N802
        containers, self.containers = self.containers, self.containers if self.later is None else self.later
        return cri_pb2.ListContainersResponse(containers=containers)


class LiveNode:
    """The node; `place` has its cgroups. What a test takes away from it is not there to be read."""

    def __init__(self, place: FakePlace, lists: Lists, socket: Path) -> None:
        self.place = place
        self.lists = lists
        self.kubelet = ["Kubernetes v1.27.7", "/", "/usr/bin/kubelet", f"--config={CONFIG}"]
        self.listens = str(socket)
        self.special: set[str] = set()
        self.target = place.target
        version = place.facts.node.cgroup_version.value
        others = {path: text for path, text in FILES.items() if "/node10/" not in path}
        said = others | {"/proc/mounts": MOUNTS[version]} | _of_the_machine(place.facts.node)
        if version == "v1":
            said |= {"/sys/fs/cgroup/memory/system.slice/memory.memsw.limit_in_bytes": "1\n"}
        self._on(("sh", "-c", facts.FACTS_SCRIPT), lambda: printed(said))
        self._on(("sh", "-c", recording.FOLDERS_SCRIPT), self._folders)
        self._on(("sh", "-c", recording.KUBELET_SCRIPT), lambda: "".join(f"{one}\n" for one in self.kubelet).encode())
        self._on(("sh", "-c", recording.SYSTEMD_SCRIPT), lambda: b"systemd 257 (257.13-1~deb13u1)\n")
        self._on(("sh", "-c", recording.VERSION_SCRIPT), lambda: b"runc version 1.1.15+ds1\n")
        self._on(("sh", "-c", discovery.LISTENING_SCRIPT), self._listening)
        self._on(first_process_command("comm", ()), lambda: b"")
        self.target.on(("sh", "-c", collecting.PYTHON_SCRIPT), lambda *_: (collecting.NO_PYTHON, b"", b""))
        self.target.on(("sh", "-c", recording.PLAIN_SCRIPT), self._plain)
        self.target.on(("sh", "-c", recording.DROP_INS_SCRIPT), self._drop_ins)
        self.target.put(CONFIG, (data_root() / "fixtures/kubelet/v1.27.yaml").read_bytes())

    def _on(self, argv: tuple[str, ...], says: Any) -> None:
        def answer(_: Sequence[str], __: bytes, ___: Deadline) -> FakeAnswer:
            return 0, says(), b""

        self.target.on(argv, answer)

    def _plain(self, argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        """The script itself knows what no plain file is: `special` says that here."""
        path, most = argv[-2:]
        if path in self.special:
            return 4, b"", b""
        text = self.target.file(path)
        return (3, b"", b"") if text is None else (0, text[: int(most)], b"")

    def _drop_ins(self, argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        paths = [path for path in (*self.target.paths, *self.special) if path.startswith(f"{argv[-2]}/")]
        return (0, "".join(f"{one}\0" for one in reversed(paths)).encode(), b"") if paths else (3, b"", b"")

    def _listening(self) -> bytes:
        return f"{self.listens}\n".encode()

    def _folders(self) -> bytes:
        cgroups = self.place.cgroups
        paths = [CgroupPath(), *cgroups.below([CgroupPath()])]
        return "".join(f"{cgroups.hierarchy.folder(path)}\0" for path in paths).encode()


def _of_the_machine(node: NodeFacts) -> Mapping[str, str]:
    zones = "/sys/devices/system/node"
    return {
        "/proc/meminfo": f"MemTotal:  {node.memory // KIB} kB\nSwapTotal: {node.swap // KIB} kB\n",
        "/sys/devices/system/cpu/online": f"0-{node.cpus - 1}\n",
        f"{zones}/node0/meminfo": f"Node 0 MemTotal: {node.numa_nodes[0].memory // KIB} kB\n",
        f"{zones}/node0/cpulist": "0\n",
        f"{zones}/node0/distance": "10 20\n",
        f"{zones}/node1/meminfo": f"Node 1 MemTotal: {node.numa_nodes[1].memory // KIB} kB\n",
        f"{zones}/node1/cpulist": "1\n",
        f"{zones}/node1/distance": "20 10\n",
    }


@contextlib.contextmanager
def live_node(
    socket: Path,
    *,
    pods: Sequence[str] = ("burstable", "best-effort", "guaranteed-two"),
    kubelet: str = "v1.27",
    driver: CgroupDriver = CgroupDriver.SYSTEMD,
    node: NodeFacts = NODE,
) -> Iterator[LiveNode]:
    """Pods of the catalogue, put there by memqos in the place of one of its kubelets: a right node."""
    catalogue, place, lists = Catalogue(), FakePlace(facts=node, runtimes=TRIXIE), Lists()
    on = node_on(place, place.runtime(driver), recorder=NoRecorder(), driver=driver, runtimes=TRIXIE)  # type: ignore[arg-type]
    server = grpc.server(ThreadPoolExecutor(2))
    cri_pb2_grpc.add_RuntimeServiceServicer_to_server(lists, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        with on.admitted([catalogue.pod(name) for name in pods], catalogue.kubelet(kubelet)) as population:
            for admitted in population.pods.values():
                _listed(lists, admitted)
            yield LiveNode(place, lists, socket)
    finally:
        server.stop(None).wait()


def _listed(lists: Lists, admitted: Any) -> None:
    pod = admitted.pod
    known = cri_pb2.PodSandboxMetadata(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    lists.sandboxes.append(cri_pb2.PodSandbox(id=admitted.sandbox.id, metadata=known, state=cri_pb2.SANDBOX_READY))
    for name, handle in admitted.containers.items():
        lists.containers.append(
            cri_pb2.Container(
                id=handle.id,
                pod_sandbox_id=admitted.sandbox.id,
                metadata=cri_pb2.ContainerMetadata(name=name),
                state=cri_pb2.CONTAINER_RUNNING,
            )
        )
