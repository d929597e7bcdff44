"""The runtime port in a real machine, for each handler, and the machine's view of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import wait
from memqos.engine.translate.runtimes import BUNDLES, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.probe.facts import target_facts
from memqos.runtime.base import ContainerSpec, Runtime, SandboxSpec
from memqos.runtime.contract import RuntimeCase, check_runtime_contract
from memqos.runtime.oci import OciRuntime
from memqos.target.base import Target
from memqos.workload.command import File, Hold, arguments
from tests.vm.runtimes import IMAGE, MI, contract_case, contract_parent, runtime_of, soon

Opens = Callable[[str, CgroupDriver], AbstractContextManager[Runtime]]

pytestmark = pytest.mark.vm


@pytest.fixture
def opens(request: pytest.FixtureRequest, target: Target) -> Opens:
    """Opens the runtime of a name, as a run does: "crun" over CRI, "oci:crun" driven directly."""

    @contextmanager
    def opened(name: str, driver: CgroupDriver) -> Iterator[Runtime]:
        if name.startswith("oci:"):
            directly = OciRuntime(target, program=name.removeprefix("oci:"), driver=driver)
            directly.greet(deadline=soon())
            yield directly
            return
        handler = name if driver is CgroupDriver.SYSTEMD else f"{name}-cgroupfs"
        with runtime_of(request.getfixturevalue("socket"), handler) as over_cri:
            yield over_cri

    return opened


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize(
    "name", ["runc", "crun", *(pytest.param(name, marks=pytest.mark.ports) for name in ("oci:runc", "oci:crun"))]
)
def test_every_runtime_keeps_the_contract(tree: CgroupTree, opens: Opens, name: str, driver: CgroupDriver) -> None:
    parent = contract_parent(driver)
    daemon = BUNDLES if name.startswith("oci:") else traits_of("containerd", "")
    layout = Runtimes(cri=daemon, oci=traits_of(name.removeprefix("oci:"), "")).layout(driver)

    @contextmanager
    def case() -> Iterator[RuntimeCase]:
        tree.make([parent], deadline=soon())
        with opens(name, driver) as runtime:
            yield contract_case(runtime, tree, layout, parent)

    check_runtime_contract(case)


def mount_namespaces(target: Target) -> list[str]:
    """All mount namespaces of the machine, by the processes in them."""
    return target.run(["sh", "-c", "readlink /proc/[0-9]*/ns/mnt | sort -u"], deadline=soon()).text.split()


@pytest.mark.parametrize("name", ["oci:runc", "oci:crun"])
def test_the_mounts_of_a_bundle_are_private_and_removed_with_it(
    target: Target, tree: CgroupTree, opens: Opens, name: str
) -> None:
    """systemd has no unit for them, and files that a container writes are on the disk while it lives."""
    parent = CgroupPath.parse("/contract.slice")
    tree.make([parent], deadline=soon())
    sandbox = SandboxSpec(
        name="mounts", namespace="default", uid="1", cgroup_parent=str(parent), log_directory="/var/log/pods/mounts"
    )
    spec = ContainerSpec(name="a", image=IMAGE, args=arguments([File(path="/written", size=MI), Hold()]))
    before = mount_namespaces(target)
    with opens(name, CgroupDriver.SYSTEMD) as runtime:
        handle = runtime.run_sandbox(sandbox, deadline=soon())
        container = runtime.create(handle, spec, deadline=soon())
        runtime.start(container, deadline=soon())
        written = f"/var/lib/memqos/bundles/{name.removeprefix('oci:')}/{handle.id}/{container.id}/upper/written"
        wait(
            "the container has written its file",
            lambda: target.read(written, deadline=soon()) or b"",
            until=lambda data: len(data) == MI,
            deadline=soon(),
        )
        meanwhile = mount_namespaces(target)
        mounts = target.read("/proc/1/mountinfo", deadline=soon())
        runtime.stop(container, grace=0, deadline=soon())
        runtime.remove(container, deadline=soon())
        runtime.remove_sandbox(handle, deadline=soon())

    assert mounts is not None
    assert b" overlay " not in mounts
    assert len(meanwhile) == len(before) + 2
    wait(
        "its mounts are gone",
        lambda: mount_namespaces(target),
        until=lambda now: now == before,
        deadline=soon(),
    )


def test_the_image_is_in_the_runtimes_store(socket: Path) -> None:
    with runtime_of(socket, "runc") as runtime:
        assert runtime.has_image(IMAGE, deadline=soon())
        assert not runtime.has_image("memqos.local/none:1", deadline=soon())
        assert runtime.conditions(deadline=soon())["RuntimeReady"]


def test_facts_are_those_of_the_topology(target: Target) -> None:
    facts = target_facts(target, deadline=soon())
    assert [zone.cpus for zone in facts.node.numa_nodes] == [(0,), (1,)]
    assert [zone.distances for zone in facts.node.numa_nodes] == [(10, 20), (20, 10)]
    assert all(900 * MI < zone.memory <= 1024 * MI for zone in facts.node.numa_nodes)
    assert sum(zone.memory for zone in facts.node.numa_nodes) == facts.node.memory
    assert 511 * MI < facts.node.swap <= 512 * MI
    assert (facts.node.cpus, facts.node.page_size, facts.node.swap_controller) == (2, 4096, True)
    assert facts.pressure
    assert {"memory", "cpu", "cpuset", "hugetlb", "pids"} <= facts.controllers
