"""The rig of a machine over a place in memory with recorded commands: faults are put there and removed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from memqos.config.systems import SystemKey
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.errors import MachineryError
from memqos.model.node import CgroupDriver
from memqos.mutants.cri_server import WrongServer
from memqos.mutants.rigs import Catalogue, RequestsUnderMutant
from memqos.mutants.session import MachineRig
from memqos.mutants.table import CriFault, load_mutants
from memqos.mutants.trial import Level
from memqos.mutants.wrong_enactor import Switch
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.place.fake import FakePlace

CATALOGUE = Catalogue()
MUTANTS = {one.name: one for one in load_mutants()}
ALONE = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)


class Bed:
    """A rig, and the scripts run on its machine with their standard input."""

    def __init__(self) -> None:
        self.scripts: list[tuple[str, bytes]] = []
        self.units: list[str] = []
        place = FakePlace(runtimes=ALONE)
        switch, driver = Switch(CATALOGUE.kubelets), CgroupDriver.SYSTEMD
        node = node_on(
            place, place.runtime(driver), recorder=NoRecorder(), driver=driver, runtimes=ALONE, enactor=switch.enactor
        )

        ends_containers = place.target.script(("sh", "-c"))

        def script(words, stdin, deadline):
            self.scripts.append((words[2], stdin))
            if "memqos-mutants" in words[2] or "set --" in words[2]:
                return 0, b"/f/memory.high\tmax\n" if "set --" in words[2] else b"", b""
            return ends_containers(words, stdin, deadline)

        def unit(words, stdin, deadline):
            self.units.append(words[0])
            return 0, b"", b""

        place.target.on(("sh", "-c"), script)
        for name in ("env", "systemd-run", "systemctl"):
            place.target.on((name,), unit)
        key = SystemKey("trixie", "two-numa-nodes", "oci:runc", driver)
        station = SimpleNamespace(key=key, place=place, node=node, runtimes=["runc 1.1.15"])
        opening = SimpleNamespace(switch=switch, catalogue=CATALOGUE, settings=SimpleNamespace(known=()), pool=None)
        self.server = WrongServer()
        self.rig = MachineRig(opening, station, node, self.server)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_a_fault_is_set_for_one_pod_and_removed(bed: Bed) -> None:
    with bed.rig.under(MUTANTS["drops-memory-min"], 1):
        begins, fault = bed.scripts[-1]
        assert "cat >/run/memqos-mutants/pods/kubepods-besteffort-pod" in begins
        assert b'"field": "unified/memory.min"' in fault
    assert bed.scripts[-1][0].startswith("rm -f /run/memqos-mutants/pods/kubepods-besteffort-pod")


def test_files_written_outside_are_restored(bed: Bed) -> None:
    with bed.rig.under(MUTANTS["sibling-loses-high"], 0):
        pass
    script, held = bed.scripts[-1]
    assert "while IFS=" in script
    assert held == b"/f/memory.high\tmax\n"


def test_a_right_system_has_no_deviation(bed: Bed) -> None:
    with bed.rig.under(None, 0) as system:
        assert system.find(CATALOGUE.cases["requests/limit"]) == []


def test_pods_are_recreated_after_an_error(bed: Bed) -> None:
    def fails() -> None:
        with bed.rig.under(None, 0):
            raise MachineryError("no answer.")

    with bed.rig.under(None, 1):
        first = bed.rig.askers
    with pytest.raises(MachineryError, match="no answer"):
        fails()
    with bed.rig.under(None, 1):
        assert bed.rig.askers is not first


def test_containers_that_wait_to_be_judged_belong_to_one_trial(bed: Bed) -> None:
    updated_later = CATALOGUE.requests["update-later"]
    with bed.rig.under(None, 0) as beside, bed.rig.under(None, 1) as system:
        beside.requests.stand(updated_later)
        assert beside.requests.standing
        assert not system.requests.standing


def test_a_wrong_plan_is_judged_by_the_right_one(bed: Bed) -> None:
    with bed.rig.under(MUTANTS["node-min-dropped"], 0) as system:
        [found] = system.find(CATALOGUE.cases["values/node"])
    assert (found.knob, found.level) == ("memory.min", Level.NODE)
    assert bed.rig.askers == []


def test_a_separate_program_is_stopped(bed: Bed) -> None:
    with bed.rig.under(MUTANTS["loop-resets-high"], 0):
        assert bed.units == ["systemd-run"]
    assert bed.units == ["systemd-run", "systemctl"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("drops-memory-min", ""),
        ("cri-update-drops-unified", "no CRI server is above the runtime"),
        ("sandbox-limited", "it is only for containerd+* and fake"),
        ("no-zswap", ""),
    ],
)
def test_faults_that_a_machine_supports(bed: Bed, name: str, why: str) -> None:
    assert bed.rig.why_not(MUTANTS[name]) == why


def test_a_file_that_the_kernel_lacks(bed: Bed) -> None:
    bed.rig.files = ("memory.max", "memory.high", "cpu.max")
    assert bed.rig.why_not(MUTANTS["no-zswap"]) == "the kernel has no memory.zswap.max"
    assert bed.rig.why_not(MUTANTS["no-huge-pages"]) == ""


@pytest.mark.parametrize(
    ("name", "alone"),
    [
        ("drops-memory-min", False), ("sibling-loses-high", False), ("class-protected", True), ("leaves-a-mount", True),
        ("second-container-without-min", True), ("node-min-dropped", True), ("reload-loses-high", True),
    ],
)  # fmt: skip
def test_a_fault_beyond_its_pod_is_tried_alone(bed: Bed, name: str, alone: bool) -> None:
    assert bed.rig.is_exclusive(MUTANTS[name]) is alone


def test_a_changed_request_of_a_sandbox_is_tried_on_a_new_pod(bed: Bed) -> None:
    """The pods that run already have their sandboxes."""
    elsewhere = MUTANTS["cri-sandbox-elsewhere"]
    with bed.rig.under(None, 0):
        pass
    before = bed.rig.askers
    assert bed.rig.is_exclusive(elsewhere)
    with bed.rig.under(elsewhere, 0) as system:
        assert isinstance(system, RequestsUnderMutant)
        assert before
        assert bed.rig.askers == []
        assert bed.server.fault is elsewhere.cri
    assert bed.server.fault is None


def test_a_failing_sandbox_leaves_running_pods_alone(bed: Bed) -> None:
    failing = replace(MUTANTS["cri-sandbox-elsewhere"], cri=CriFault(method="RunPodSandbox", fail="before"))
    with bed.rig.under(failing, 0):
        assert bed.rig.askers
