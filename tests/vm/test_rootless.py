"""OCI runtimes as an ordinary user runs them in a real machine: the port's contract, and what of a run is judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.engine.translate.runtimes import BUNDLES, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver
from memqos.place.base import Place
from memqos.place.vm import opened_vm
from memqos.runtime.contract import RuntimeCase, check_runtime_contract
from memqos.runtime.delegation import Delegated
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions
from tests.vm.runs import altering_runtime, bundle, memqos_run
from tests.vm.runtimes import contract_case, contract_parent, soon

pytestmark = [pytest.mark.vm, pytest.mark.ports]

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS
CASES = "hold_their_values and v1.36-none and guaranteed"
STEERED = "test_memory_peak_keeps_the_maximum"
"""A case whose program takes commands while it runs."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(True, id="own-userns"), pytest.param(False, id="shared-userns", marks=pytest.mark.profiles)],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened_vm(
        ("trixie", "two-numa-nodes"),
        BootOptions(),
        folder=tmp_path_factory.mktemp("log"),
        progress=SILENT,
        own_user_namespace=request.param,
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("program", "driver"),
    [
        ("crun", SYSTEMD),
        ("runc", CGROUPFS),
        pytest.param("crun", CGROUPFS, marks=pytest.mark.profiles),
        pytest.param("runc", SYSTEMD, marks=pytest.mark.profiles),
    ],
)
def test_rootless_runtimes_keep_the_contract(place: Place, program: str, driver: CgroupDriver) -> None:
    parent = contract_parent(driver)
    layout = Runtimes(cri=BUNDLES, oci=traits_of(program, "")).layout(driver)

    @contextlib.contextmanager
    def case() -> Iterator[RuntimeCase]:
        with place.connect(f"rootless:{program}", driver, record=lambda _: None, deadline=soon()) as runtime:
            assert isinstance(runtime, Delegated)
            assert runtime.delegation is not None
            tree = CgroupTree(runtime.delegation.target, runtime.delegation.hierarchy)
            tree.make([parent], deadline=soon())
            yield contract_case(runtime, tree, layout, parent)

    check_runtime_contract(case)


def test_a_run_judges_what_an_ordinary_user_may_write(tmp_path: Path) -> None:
    folder = tmp_path / "results"

    done = memqos_run(folder, "--runtime", "rootless:crun", "-k", f"({CASES}) or {STEERED}")

    assert done.returncode == 0, done.stdout + done.stderr
    findings = [one for result in bundle(folder)["results"] for one in result["findings"]]
    seen = {one["knob"] for one in findings if one["verdict"] == "conforms"}
    assert {"memory.max", "memory.swap.max", "cpu.weight"} <= seen
    unseen = {one["knob"]: one["why_not"] for one in findings if one["verdict"] == "not observable"}
    assert "no process can lower oom_score_adj" in unseen["oom_score_adj"]
    assert "the controller is missing" in unseen["hugetlb.2MB.max"]


def test_a_rootless_runtime_that_loses_the_limit_deviates(tmp_path: Path) -> None:
    wrong = altering_runtime(tmp_path / "crun", 'resources["memory"] = {}')

    done = memqos_run(tmp_path / "results", "--runtime", "rootless:crun", "--runtime-binary", str(wrong), "-k", CASES)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "memory.max" in done.stdout
