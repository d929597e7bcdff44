"""The contract of the place port, for machines."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.catalog.kubelets import load_kubelets
from memqos.catalog.pods import load_pod_catalog
from memqos.clock import Deadline
from memqos.engine.answer.finding import Verdict
from memqos.laboratory.station import runtimes_of
from memqos.model.node import CgroupDriver
from memqos.node import NodeUnderTest
from memqos.node.connection import node_on
from memqos.place.base import Place
from memqos.place.contract import PlaceCase, check_place_contract
from memqos.place.existing_machine import ExistingMachine, opened_existing
from memqos.place.vm import opened_vm
from memqos.runtime.oci import OciRuntime
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions
from memqos.vm.qemu.machine import Machine
from tests.vm.machines import output, start, url_of

pytestmark = pytest.mark.vm


@contextlib.contextmanager
def machine_case(folder: Path) -> Iterator[PlaceCase]:
    """A machine whose QEMU is killed."""
    with opened_vm(("trixie", "one-numa-node"), BootOptions(), folder=folder, progress=SILENT) as place:
        pid = place.machine.pid

        def lose() -> None:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

        yield PlaceCase(place=place, lose=lose)


def test_a_machine_of_a_profile(tmp_path: Path) -> None:
    check_place_contract(lambda: machine_case(tmp_path / "machine"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """An existing machine: its users below know only a URL and a key."""
    with start(tmp_path_factory.mktemp("there"), topology="two-numa-nodes") as machine:
        yield machine


@pytest.fixture
def url(machine: Machine, tmp_path: Path) -> str:
    return url_of(machine, tmp_path)


def test_an_existing_machine(machine: Machine, url: str) -> None:
    @contextlib.contextmanager
    def case() -> Iterator[PlaceCase]:
        with opened_existing(url) as place:
            # The parent of the process that runs commands is the one that serves this connection.
            own = place.target.run(["sh", "-c", "ps -o ppid= -p $PPID"], deadline=Deadline.after(60)).text.strip()
            yield PlaceCase(place=place, lose=lambda: output(machine, "kill", own) and None)

    check_place_contract(case)


class Forgetful:
    """A recorder whose records are not read."""

    def plan(self, plan: object, *, requested: object = None) -> None:
        pass

    def reading(self, reading: object) -> None:
        pass

    def weight(self, weight: object) -> None:
        pass

    def look(self, look: object) -> None:
        pass

    def spoken(self, spoken: object) -> None:
        pass


@contextlib.contextmanager
def node_of(place: Place, driver: CgroupDriver) -> Iterator[NodeUnderTest]:
    """A node with containerd over runc."""
    offer = place.runtimes["containerd+runc"]
    with place.connect(offer.name, driver, record=lambda _: None, deadline=Deadline.after(60)) as runtime:
        version = runtime.version(deadline=Deadline.after(60))
        runtimes = runtimes_of(
            cri=version.name,
            cri_version=version.version,
            oci=offer.oci.name,
            oci_version=offer.oci.version,
            hugetlb=offer.hugetlb,
        )
        yield node_on(place, runtime, recorder=Forgetful(), driver=driver, runtimes=runtimes)


def node_alone(place: Place, driver: CgroupDriver) -> NodeUnderTest:
    """A node with runc driven directly."""
    runtime = OciRuntime(place.target, program="runc", driver=driver)
    version = place.runtimes["containerd+runc"].oci.version
    runtimes = runtimes_of(cri="", cri_version="", oci="runc", oci_version=version, hugetlb=True)
    return node_on(place, runtime, recorder=Forgetful(), driver=driver, runtimes=runtimes)


def verdicts_of(place: ExistingMachine, driver: CgroupDriver) -> list[Verdict]:
    """The catalogue's first pods under one kubelet on this place, judged."""
    with node_of(place, driver) as node:
        [kubelet] = [one for one in load_kubelets() if one.id == "v1.27"]
        pods = load_pod_catalog()[:3]
        with node.admitted(pods, kubelet) as population:
            found = [finding for pod in pods for finding in population.judge_pod(pod)]
            found += population.judge_node()
        assert node.leftovers() == ()
    return [finding.verdict for finding in found]


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_pods_on_an_existing_machine_have_their_values(machine: Machine, url: str, driver: CgroupDriver) -> None:
    cgroups = ("find", "/sys/fs/cgroup", "-maxdepth", "2", "-type", "d", "-not", "-name", "session*")
    before = output(machine, *cgroups)
    with opened_existing(url) as place:
        assert place.runtimes["containerd+runc"].oci.version == machine.contents.versions["runc"]
        verdicts = verdicts_of(place, driver)
    assert len(verdicts) > 20
    assert set(verdicts) == {Verdict.CONFORMS}
    assert output(machine, *cgroups) == before
