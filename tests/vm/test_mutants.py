"""Mutants on a machine: ten of them; the hop that lost a value; and whole runs with a wrong runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memqos.engine.answer.finding import Verdict
from memqos.model.node import CgroupDriver
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.requests.container_requests import Requests
from memqos.place.base import Place
from memqos.place.vm import opened_vm
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions, RuntimeBinary
from tests.documents import misfits
from tests.unit.node.asked import CATALOGUE
from tests.vm.runs import SECONDS, WRONG_RUNTIME, bundle, memqos_run, program, set_fault, wrong_runtime
from tests.vm.test_place import node_alone, node_of

pytestmark = pytest.mark.vm


def mutants(folder: Path, *arguments: str) -> dict[str, object]:
    """The output of `memqos mutants`; it must end with 0."""
    command = [sys.executable, "-m", "memqos", "mutants", "--json", "score.json", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads((folder / "score.json").read_text())
    return found


def test_ten_mutants_are_killed_rightly(tmp_path: Path) -> None:
    # Always the same ten: every one of them was seen killed. `tox -e mutants` draws by date, and tries all.
    document = mutants(tmp_path, "--count", "10", "--seed", "gate")
    assert misfits(document, "mutants") == []
    assert document["complete"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Its runc can be made wrong, and is right until then."""
    brought = BootOptions(runtime_files=(RuntimeBinary(name="runc", path=WRONG_RUNTIME),))
    folder = tmp_path_factory.mktemp("log")
    with opened_vm(("trixie", "two-numa-nodes"), brought, folder=folder, progress=SILENT) as place:
        yield place


@pytest.fixture(scope="module")
def node(place: Place) -> Iterator[NodeUnderTest]:
    """containerd over that runc."""
    with node_of(place, CgroupDriver.SYSTEMD) as node:
        yield node


@pytest.fixture
def wrong_in(place: Place) -> Iterator[Callable[[str], None]]:
    """Makes runc wrong like a mutant, until the test ends."""
    yield lambda name: set_fault(place.target, name)
    set_fault(place.target, "right")


@pytest.mark.wrappers
@pytest.mark.parametrize(
    ("mutant", "request_", "by"),
    [
        ("drops-unified", "unified-high", "the daemon, or a runtime that changed its config.json"),
        ("edits-config-and-restores-it", "unified-high", "the OCI runtime"),
        ("ignores-updates", "update-unified-high", "the OCI runtime"),
        ("changes-the-unit", "unified-high", "the OCI runtime, or another writer of the systemd unit"),
    ],
)
def test_the_hop_that_lost_a_value_is_named(
    node: NodeUnderTest, wrong_in: Callable[[str], None], mutant: str, request_: str, by: str
) -> None:
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        wrong_in(mutant)
        assert lost_by(requests, request_) == [by]


@pytest.mark.wrappers
def test_the_hop_of_a_directly_driven_runtime_is_named(place: Place, wrong_in: Callable[[str], None]) -> None:
    node = node_alone(place, CgroupDriver.CGROUPFS)
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        wrong_in("drops-unified")
        assert lost_by(requests, "unified-high") == ["the OCI runtime, which changed its config.json"]


def lost_by(requests: Requests, name: str) -> list[str]:
    """The hop that lost the deviating value after this request."""
    found = requests.judge(CATALOGUE.any_request(name))
    return [one.lost.by for one in found if one.verdict is Verdict.DEVIATES and one.lost is not None]


# ---- the same by `memqos run`


def deviations(folder: Path) -> dict[str, set[str]]:
    """By claim the deviating knobs in a run's results."""
    knobs: dict[str, set[str]] = {}
    for one in bundle(folder)["results"]:
        of_this = {found["knob"] for found in one["findings"] if found["verdict"] == "deviates"}
        knobs.setdefault(one["claim"], set()).update(of_this)
    return knobs


@pytest.mark.wrappers
def test_a_runtime_that_lies_about_updates_is_found_by_each_claim_about_them(tmp_path: Path) -> None:
    wrapper, folder = wrong_runtime(tmp_path, "ignores-updates"), tmp_path / "results"

    chosen = "update-limit or update-refuses-no-number or test_drift and not of_pod or test_exec_is_bound"
    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", chosen)

    assert done.returncode == 1, done.stdout + done.stderr
    assert deviations(folder) == {
        "requests/update-limit": {"memory.max"},
        "refusal/update-refuses-no-number": {"update"},
        "lifecycle/drift": {"memory.high"},
        "cri/exec-is-bound": set(),
    }


@pytest.mark.wrappers
def test_a_runtime_that_drops_unified_is_found_under_a_kubelet_that_uses_it(tmp_path: Path) -> None:
    wrapper, folder = wrong_runtime(tmp_path, "drops-unified"), tmp_path / "results"

    chosen = "v1.36-tiered and (burstable or guaranteed-one) and not overhead and containers or limited_swap_is_reached"
    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", chosen)

    assert done.returncode == 1, done.stdout + done.stderr
    assert set().union(*deviations(folder).values()) == {
        "memory.min", "memory.low", "memory.high", "memory.swap.max", "memory.oom.group",
    }  # fmt: skip
    assert {one["outcome"] for one in bundle(folder)["results"]} == {"deviates"}


KNOWN = """
[my-runc-leaves-memory-min]
runtime = "runc"
claim = "requests/unified-min"
knob = "memory.min"
observed = "0"
sentence = "memory.min is left out."
upstream = "mine"

[my-runc-has-high-right]
runtime = "runc"
claim = "requests/unified-high"
knob = "memory.high"
sentence = "memory.high is left out."
upstream = "mine"
"""


@pytest.mark.wrappers
@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict-known",), 1)], ids=["told", "strict"])
def test_a_users_list_marks_known_deviations_and_reports_gone_ones(
    tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    wrapper, folder = wrong_runtime(tmp_path, "drops-memory-min"), tmp_path / "results"
    (tmp_path / "mine.toml").write_text(KNOWN)

    chosen = ("-k", "requests and (unified-min or unified-high) and not update")
    done = memqos_run(folder, "--runtime-binary", str(wrapper), "--known", "mine.toml", *chosen, *options)

    assert done.returncode == code, done.stdout + done.stderr
    written = bundle(folder)
    outcomes = {one["claim"]: one["outcome"] for one in written["results"]}
    assert outcomes == {"requests/unified-min": "known", "requests/unified-high": "conforms"}
    assert "my-runc-leaves-memory-min: memory.min is left out. (mine)" in done.stdout
    [gone] = written["known_gone"]
    assert "has memory.high right in requests/unified-high: my-runc-has-high-right" in gone


ENDS_WITH_1 = "#!/bin/sh\necho 'this runtime does not work' >&2\nexit 1\n"


@pytest.mark.wrappers
def test_a_runtime_that_ends_with_1_is_machinery_and_no_deviation(tmp_path: Path) -> None:
    wrapper, folder = program(tmp_path / "my-runc", ENDS_WITH_1), tmp_path / "results"

    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", "v1.27-burstable and containers")

    assert done.returncode == 3, done.stdout + done.stderr
    written = bundle(folder)
    assert written["counts"]["findings"]["deviates"] == 0
    assert "machinery" in {result["outcome"] for result in written["results"]}
    assert "Traceback" not in done.stdout + done.stderr


BEHAVIOUR = ("protection", "throttling", "limits", "swap", "numa", "node", "isolation", "-m", "behaviour", "--all")


@pytest.mark.wrappers
def test_no_behaviour_conforms_of_programs_that_end_at_once(tmp_path: Path) -> None:
    """It is not enough that nothing was swapped, or that all of zero pages are on the right NUMA node."""
    wrapper, folder = wrong_runtime(tmp_path, "ends-at-once"), tmp_path / "results"

    done = memqos_run(folder, *BEHAVIOUR, "--runtime", "oci:crun", "--runtime-binary", str(wrapper))

    assert done.returncode in {1, 3}, done.stdout + done.stderr
    results = bundle(folder)["results"]
    assert {one["id"]: one["reason"] for one in results if one["outcome"] in {"conforms", "known"}} == {}
    assert "deviates" in {one["outcome"] for one in results}
    assert [one["id"] for one in results if one["outcome"] == "not observable" and not one["reason"]] == []
