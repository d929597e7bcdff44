"""Podman's Docker-compatible service in a real machine: the port's contract, and what a run says of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.place.base import Place
from memqos.place.vm import opened_vm
from memqos.runtime.base import Capability, ContainerSpec, SandboxSpec
from memqos.runtime.contract import RuntimeCase, check_runtime_contract
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions
from memqos.workload.command import Hold, arguments
from tests.vm.runs import altering_runtime, memqos_run
from tests.vm.runtimes import IMAGE, contract_case, contract_parent, remove, soon

pytestmark = [pytest.mark.vm, pytest.mark.ports]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("log")
    with opened_vm(
        ("trixie", "two-numa-nodes"), BootOptions(), folder=folder, progress=SILENT, additions=("podman",)
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("program", "driver"),
    [
        ("crun", CgroupDriver.SYSTEMD),
        pytest.param("crun", CgroupDriver.CGROUPFS, marks=pytest.mark.profiles),
        pytest.param("runc", CgroupDriver.SYSTEMD, marks=pytest.mark.profiles),
        pytest.param("runc", CgroupDriver.CGROUPFS, marks=pytest.mark.profiles),
    ],
)
def test_podman_keeps_the_runtimes_contract(place: Place, program: str, driver: CgroupDriver) -> None:
    tree = CgroupTree.of(place.target, deadline=soon())
    parent = contract_parent(driver)
    layout = Runtimes(cri=traits_of("podman", ""), oci=traits_of(program, "")).layout(driver)

    @contextlib.contextmanager
    def case() -> Iterator[RuntimeCase]:
        tree.make([parent], deadline=soon())
        with place.connect(f"podman+{program}", driver, record=lambda _: None, deadline=soon()) as runtime:
            assert runtime.version(deadline=soon()).name == "podman"
            assert Capability.HOST_CONFIG not in runtime.capabilities
            yield contract_case(runtime, tree, layout, parent)
        remove(tree, parent)

    check_runtime_contract(case)


def test_the_output_of_a_container_is_found(place: Place, tmp_path: Path) -> None:
    parent = CgroupPath.parse("/output.slice")
    CgroupTree.of(place.target, deadline=soon()).make([parent], deadline=soon())
    spec = SandboxSpec(
        name="output", namespace="default", uid="2", cgroup_parent=str(parent), log_directory="/var/log/pods/output"
    )
    with place.connect("podman+crun", CgroupDriver.SYSTEMD, record=lambda _: None, deadline=soon()) as runtime:
        sandbox = runtime.run_sandbox(spec, deadline=soon())
        try:
            container = runtime.create(
                sandbox, ContainerSpec(name="a", image=IMAGE, args=arguments([Hold()])), deadline=soon()
            )
            runtime.start(container, deadline=soon())
            assert place.target.read(container.log_path, deadline=soon()) is not None
        finally:
            runtime.remove_sandbox(sandbox, deadline=soon())


def test_a_runtime_of_another_name_that_loses_the_limit_deviates(tmp_path: Path) -> None:
    wrong = altering_runtime(tmp_path / "my-crun", 'resources["memory"] = {}')
    wrong.write_text(wrong.read_text().replace('sys.argv[0] + ".dist"', '"/usr/bin/crun"'))

    done = memqos_run(tmp_path / "results", "--runtime", f"podman+{wrong}", "-k", "test_memory_peak_keeps_the_maximum")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "memory.max of container app of pod default/holds-guaranteed" in done.stdout
