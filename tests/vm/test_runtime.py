"""The runtime port in a real machine, for each handler, and what the machine says of itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.engine.translate.versions import BUNDLES, Runtimes, traits_of
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.probe.facts import target_facts
from memqos.runtime.base import ContainerHandle, ContainerSpec, SandboxSpec
from memqos.runtime.contract import RuntimeCase, check_runtime_contract
from memqos.runtime.oci import OciRuntime
from memqos.target.base import Target
from memqos.workload.command import Hold, arguments
from tests.vm.runtimes import IMAGE, MI, cgroup_of, runtime_of, soon

pytestmark = pytest.mark.vm


@pytest.mark.parametrize("handler", ["runc", "runc-cgroupfs", "crun", "crun-cgroupfs"])
def test_every_handler_keeps_the_runtimes_contract(tree: CgroupTree, socket: Path, handler: str) -> None:
    parent = CgroupPath.parse("/contract" if "cgroupfs" in handler else "/contract.slice")

    @contextlib.contextmanager
    def case() -> Iterator[RuntimeCase]:
        tree.make([parent], deadline=soon())
        with runtime_of(socket, handler) as runtime:

            def read(container: ContainerHandle, knob: Knob) -> str:
                return str(tree.read_text(cgroup_of(runtime, tree, container), knob, deadline=soon())).strip()

            yield RuntimeCase(
                runtime=runtime,
                sandbox=SandboxSpec(
                    name="contract",
                    namespace="default",
                    uid="1",
                    cgroup_parent=str(parent),
                    log_directory="/var/log/pods/contract",
                ),
                container=ContainerSpec(name="a", image=IMAGE, args=arguments([Hold()])),
                read=read,
            )
        tree.remove_tree(parent, deadline=soon())

    check_runtime_contract(case)


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("program", ["runc", "crun"])
def test_runtimes_that_are_driven_directly_keep_it_too(
    target: Target, tree: CgroupTree, program: str, driver: CgroupDriver
) -> None:
    parent = CgroupPath.parse("/contract.slice" if driver is CgroupDriver.SYSTEMD else "/contract")
    layout = Runtimes(cri=BUNDLES, oci=traits_of(program, "")).layout(driver)

    @contextlib.contextmanager
    def case() -> Iterator[RuntimeCase]:
        tree.make([parent], deadline=soon())
        runtime = OciRuntime(target, program=program, driver=driver)
        runtime.greet(deadline=soon())
        yield RuntimeCase(
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
        tree.remove_tree(parent, deadline=soon())

    check_runtime_contract(case)


def test_the_image_is_in_the_runtimes_store(socket: Path) -> None:
    with runtime_of(socket, "runc") as runtime:
        assert runtime.has_image(IMAGE, deadline=soon())
        assert not runtime.has_image("memqos.local/none:1", deadline=soon())
        assert runtime.conditions(deadline=soon())["RuntimeReady"]


def test_facts_are_those_of_the_topology(target: Target) -> None:
    facts = target_facts(target, deadline=soon())
    assert [zone.cpus for zone in facts.node.zones] == [(0,), (1,)]
    assert [zone.distances for zone in facts.node.zones] == [(10, 20), (20, 10)]
    assert all(900 * MI < zone.memory <= 1024 * MI for zone in facts.node.zones)
    assert sum(zone.memory for zone in facts.node.zones) == facts.node.memory
    assert 511 * MI < facts.node.swap <= 512 * MI
    assert (facts.node.cpus, facts.node.page_size, facts.node.swap_controller) == (2, 4096, True)
    assert facts.pressure
    assert {"memory", "cpu", "cpuset", "hugetlb", "pids"} <= facts.controllers
