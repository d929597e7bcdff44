"""The common setup for tests of one machine's runtimes, cgroups and workloads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.cgroup.layout import Layout
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.model.reading import Reading
from memqos.runtime.base import ContainerHandle, ContainerSpec, Runtime, SandboxSpec
from memqos.runtime.contract import RuntimeCase
from memqos.runtime.cri import CriRuntime, connect
from memqos.target.base import checked
from memqos.workload.command import Hold, arguments

SOCKET = "/run/containerd/containerd.sock"
IMAGE = "memqos.local/memload:1"
MI = 1 << 20


def soon(seconds: float = 180) -> Deadline:
    return Deadline.after(seconds)


@contextlib.contextmanager
def runtime_of(socket: Path, handler: str) -> Iterator[CriRuntime]:
    """A runtime that leaves no sandbox behind, whatever a test did."""
    with connect(socket, name=f"containerd+{handler}", handler=handler, deadline=soon()) as runtime:
        try:
            yield runtime
        finally:
            for sandbox in runtime.sandboxes(deadline=soon()):
                runtime.remove_sandbox_by_id(sandbox, deadline=soon())


def read_below(tree: CgroupTree, root: CgroupPath, names: Iterable[str]) -> Reading:
    """These files of a cgroup and of all below it."""
    found = tree.target.run(["find", tree.hierarchy.folder(root), "-type", "d"], deadline=soon()).text.splitlines()
    return tree.read_cgroups(map(tree.hierarchy.cgroup_of, found), names, deadline=soon())


def contract_parent(driver: CgroupDriver) -> CgroupPath:
    """The pod's cgroup for `contract_case`."""
    return CgroupPath.parse("/contract.slice" if driver is CgroupDriver.SYSTEMD else "/contract")


def contract_case(runtime: Runtime, tree: CgroupTree, layout: Layout, parent: CgroupPath) -> RuntimeCase:
    """The case of the runtime's contract below this cgroup of the tree."""
    return RuntimeCase(
        runtime=runtime,
        sandbox=SandboxSpec(
            name="contract",
            namespace="default",
            uid="1",
            cgroup_parent=str(parent),
            log_directory="/var/log/pods/contract",
        ),
        container=ContainerSpec(name="a", image=IMAGE, args=arguments([Hold()])),
        read=lambda container, knob: str(
            tree.read_text(layout.container(parent, container.id), knob, deadline=soon())
        ).strip(),
    )


def cgroup_of(runtime: CriRuntime, tree: CgroupTree, container: ContainerHandle) -> CgroupPath:
    return tree.cgroup_of(runtime.pid(container, deadline=soon()), deadline=soon())


def remove(tree: CgroupTree, root: CgroupPath) -> None:
    """Remove a cgroup and its descendants, which have no processes any more."""
    folder = tree.hierarchy.folder(root)
    removal = ["find", folder, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]
    checked(tree.target.run(removal, deadline=soon()), where=folder)
