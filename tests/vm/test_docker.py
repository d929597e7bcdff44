"""The Docker Engine in a real machine whose image has it: the port's contract, and that the default image has none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.engine.answer.finding import Verdict
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.laboratory.station import runtimes_of
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.place.base import Place
from memqos.place.vm import opened_vm
from memqos.runtime.base import ContainerSpec, SandboxSpec
from memqos.runtime.contract import RuntimeCase, check_runtime_contract
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions, RuntimeBinary
from memqos.workload.command import Hold, arguments
from tests.unit.node.asked import CATALOGUE
from tests.vm.runs import WRONG_RUNTIME, set_fault
from tests.vm.runtimes import IMAGE, contract_case, contract_parent, remove, soon
from tests.vm.test_place import Forgetful

pytestmark = [pytest.mark.vm, pytest.mark.ports]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("log")
    with opened_vm(
        ("trixie", "two-numa-nodes"), BootOptions(), folder=folder, progress=SILENT, additions=("docker",)
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("program", "driver"),
    [
        ("runc", CgroupDriver.SYSTEMD),
        pytest.param("runc", CgroupDriver.CGROUPFS, marks=pytest.mark.profiles),
        pytest.param("crun", CgroupDriver.SYSTEMD, marks=pytest.mark.profiles),
        pytest.param("crun", CgroupDriver.CGROUPFS, marks=pytest.mark.profiles),
    ],
)
def test_docker_keeps_the_runtimes_contract(place: Place, program: str, driver: CgroupDriver) -> None:
    tree = CgroupTree.of(place.target, deadline=soon())
    parent = contract_parent(driver)
    layout = Runtimes(cri=traits_of("docker", ""), oci=traits_of(program, "")).layout(driver)

    @contextlib.contextmanager
    def case() -> Iterator[RuntimeCase]:
        tree.make([parent], deadline=soon())
        with place.connect(f"docker+{program}", driver, record=lambda _: None, deadline=soon()) as runtime:
            yield contract_case(runtime, tree, layout, parent)
        remove(tree, parent)

    check_runtime_contract(case)


def test_the_output_of_a_container_is_found(place: Place, tmp_path: Path) -> None:
    tree = CgroupTree.of(place.target, deadline=soon())
    parent = CgroupPath.parse("/output.slice")
    tree.make([parent], deadline=soon())
    sandbox = SandboxSpec(name="o", namespace="d", uid="2", cgroup_parent=str(parent), log_directory="/l")
    with place.connect("docker+runc", CgroupDriver.SYSTEMD, record=lambda _: None, deadline=soon()) as runtime:
        pod = runtime.run_sandbox(sandbox, deadline=soon())
        spec = ContainerSpec(name="a", image=IMAGE, args=arguments([Hold()]))
        container = runtime.create(pod, spec, deadline=soon())
        runtime.start(container, deadline=soon())
        status, stdout, _ = runtime.exec(container, ("/memload", "hold", "0"), deadline=soon())
        assert (status, b"start" in stdout) == (0, True)
        log = place.target.read(container.log_path, deadline=soon()) or b""
        assert b'"stream":"stdout"' in log
        runtime.remove_sandbox(pod, deadline=soon())
    remove(tree, parent)


@pytest.mark.profiles
def test_the_hop_below_docker_that_lost_a_value_is_named(tmp_path: Path) -> None:
    brought, driver = BootOptions(runtime_files=(RuntimeBinary(name="runc", path=WRONG_RUNTIME),)), CgroupDriver.SYSTEMD
    with (
        opened_vm(
            ("trixie", "two-numa-nodes"), brought, folder=tmp_path, progress=SILENT, additions=("docker",)
        ) as place,
        place.connect("docker+runc", driver, record=lambda _: None, deadline=soon()) as runtime,
    ):
        said = runtime.version(deadline=soon())
        runtimes = runtimes_of(
            cri=said.name, cri_version=said.version, oci="runc", oci_version=TRIXIE.oci.version, hugetlb=False
        )
        node = node_on(place, runtime, recorder=Forgetful(), driver=driver, runtimes=runtimes)
        with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
            set_fault(place.target, "limit-a-page-high")
            found = requests.judge(CATALOGUE.any_request("limit"))
    lost = {one.knob: one.lost and one.lost.by for one in found if one.verdict is Verdict.DEVIATES}
    assert lost == {"memory.max": "the daemon, or a runtime that changed its config.json"}
