"""Runtimes that are wrong on purpose, on a machine: each is found by its claims, which name its knobs and no other.

All on one machine, into which the program is put in runc's place as --runtime-binary does it. Which way it is wrong in
is written there for each test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.engine.answer.finding import Verdict
from memqos.errors import MachineryError
from memqos.model.node import CgroupDriver
from memqos.node.under_test import NodeUnderTest
from memqos.place.base import Place
from memqos.place.vm import opened_vm
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions
from tests.unit.node.asked import deviating
from tests.vm.runs import WRONG_RUNTIME, bundle, memqos_run, program, wrong_runtime
from tests.vm.test_place import node_alone, node_of
from tests.wrong_runtimes.claims import Asking, OnePod, asked_on
from tests.wrong_runtimes.table import DIRECT, ON_A_MACHINE, Wrong

pytestmark = [pytest.mark.vm, pytest.mark.wrappers]

EVERYTHING = ("requests/everything", "requests/update-everything")
ASKED = sorted({claim for wrong in ON_A_MACHINE for claim in wrong.found})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Its runc is one that can be wrong, and is right until it is told."""
    brought = BootOptions(runtime_binary=WRONG_RUNTIME)
    folder = tmp_path_factory.mktemp("log")
    with opened_vm(("trixie", "two-zones"), brought, folder=folder, progress=SILENT) as place:
        yield place


@pytest.fixture(scope="module")
def node(place: Place) -> Iterator[NodeUnderTest]:
    """containerd over that runc."""
    with node_of(place, CgroupDriver.SYSTEMD) as node:
        yield node


@pytest.fixture
def wrong_in(place: Place) -> Iterator[Callable[[str], None]]:
    """Lets runc be wrong in a way, until the test ends."""

    def set_way(way: str) -> None:
        place.target.write("/run/wrong", way.encode(), deadline=Deadline.after(60))

    yield set_way
    set_way("right")


@pytest.fixture(scope="module")
def pod(node: NodeUnderTest) -> Iterator[OnePod]:
    """Where most of the requests are made."""
    pod = OnePod(node)
    yield pod
    pod.end()


@pytest.mark.parametrize("wrong", ON_A_MACHINE, ids=lambda wrong: wrong.way)
def test_a_wrong_runtime_is_found_by_its_claims(pod: OnePod, wrong_in: Callable[[str], None], wrong: Wrong) -> None:
    asking = None if wrong.needs_own_pod else pod.asking()
    if wrong.needs_own_pod:
        pod.end()
    wrong_in(wrong.way)
    try:
        found = {claim: deviating((asking or pod.asking()).find(claim)) for claim in wrong.found}
    except MachineryError:
        pod.leave()
        raise
    if wrong.needs_own_pod:
        pod.end()
    assert found == wrong.found


def test_a_runtime_whose_containers_leave_their_cgroups_is_found(pod: OnePod, wrong_in: Callable[[str], None]) -> None:
    """systemd may remove a scope that is empty."""
    wrong_in("leaves its cgroup")
    found = deviating(pod.asking().find("lifecycle/stays"))
    assert found in ({"cgroup"}, {"cgroup.procs"})


def test_a_right_runtime_is_clean_ten_times_of_ten(pod: OnePod) -> None:
    """Each time all fields are asked for at creation and by an update; once every claim that finds a wrong one.

    A wrapper that passes everything on is at work.
    """
    others = [claim for claim in ASKED if claim not in EVERYTHING]
    unclean = {
        (time, claim, one.knob): one.observed
        for time in range(10)
        for claim in (*EVERYTHING, *others[time::10])
        for one in pod.asking().find(claim)
        if one.verdict is not Verdict.CONFORMS
    }
    assert unclean == {}


@pytest.mark.parametrize(
    ("way", "request_", "by"),
    [
        ("drops unified", "unified-high", "the daemon, or a runtime that changed its config.json"),
        ("edits config.json and puts it back", "unified-high", "the OCI runtime"),
        ("ignores updates", "update-unified-high", "the OCI runtime"),
        ("changes the unit", "unified-high", "the OCI runtime, or another writer of the systemd unit"),
    ],
)
def test_the_hop_that_lost_a_value_is_named(
    pod: OnePod, wrong_in: Callable[[str], None], way: str, request_: str, by: str
) -> None:
    asking = pod.asking()
    wrong_in(way)
    assert lost_by(asking, request_) == [by]


def test_the_hop_of_a_runtime_that_is_driven_directly_is_named(
    pod: OnePod, place: Place, wrong_in: Callable[[str], None]
) -> None:
    pod.end()
    with asked_on(node_alone(place, CgroupDriver.CGROUPFS)) as asking:
        wrong_in("drops unified")
        assert lost_by(asking, "unified-high") == ["the OCI runtime, which changed its config.json"]


LOST_BY_RUNC = {"memory.oom.group"}
"""After updates in part, with systemd: a known deviation."""


@pytest.fixture(scope="module")
def alone(place: Place) -> NodeUnderTest:
    """That runc with nothing above it."""
    return node_alone(place, CgroupDriver.SYSTEMD)


@pytest.mark.parametrize("way", DIRECT)
def test_a_wrong_runtime_that_is_driven_directly_is_found_by_what_is_asked_of_it(
    pod: OnePod, alone: NodeUnderTest, wrong_in: Callable[[str], None], way: str
) -> None:
    pod.end()
    expected = DIRECT[way]
    with asked_on(alone, "one-zone") as asking:
        right = {claim: deviating(asking.find(claim)) - LOST_BY_RUNC for claim in expected}
        wrong_in(way)
        found = {claim: deviating(asking.find(claim)) - LOST_BY_RUNC for claim in expected}
    assert set().union(*right.values()) == set()
    assert found == expected


def lost_by(asking: Asking, request: str) -> list[str]:
    """Who lost what deviates after this request."""
    found = asking.find(f"requests/{request}")
    return [one.lost.by for one in found if one.verdict is Verdict.DEVIATES and one.lost is not None]


# ---- the same by `memqos run`


def deviations(folder: Path) -> dict[str, set[str]]:
    """By claim the knobs that deviate in what a run wrote."""
    knobs: dict[str, set[str]] = {}
    for one in bundle(folder)["results"]:
        of_this = {found["knob"] for found in one["findings"] if found["verdict"] == "deviates"}
        knobs.setdefault(one["claim"], set()).update(of_this)
    return knobs


def test_a_runtime_that_lies_about_updates_is_found_by_each_claim_about_them(tmp_path: Path) -> None:
    wrapper, folder = wrong_runtime(tmp_path, "ignores updates"), tmp_path / "results"

    chosen = "update-limit or update-refuses-no-number or test_drift and not of_pod or test_exec_is_bound"
    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", chosen)

    assert done.returncode == 1, done.stdout + done.stderr
    assert deviations(folder) == {
        "requests/update-limit": {"memory.max"},
        "refusal/update-refuses-no-number": {"update"},
        "lifecycle/drift": {"memory.high"},
        "cri/exec-is-bound": set(),
    }


def test_a_runtime_that_drops_unified_is_found_where_a_kubelet_asks_for_it(tmp_path: Path) -> None:
    wrapper, folder = wrong_runtime(tmp_path, "drops unified"), tmp_path / "results"

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


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict-known",), 1)], ids=["told", "strict"])
def test_what_a_list_of_ones_own_says_is_known_and_what_is_gone_is_told(
    tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    wrapper, folder = wrong_runtime(tmp_path, "drops memory.min"), tmp_path / "results"
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


def test_a_runtime_that_ends_with_1_is_machinery_and_no_deviation(tmp_path: Path) -> None:
    wrapper, folder = program(tmp_path / "my-runc", ENDS_WITH_1), tmp_path / "results"

    done = memqos_run(folder, "--runtime-binary", str(wrapper), "-k", "v1.27-burstable and containers")

    assert done.returncode == 3, done.stdout + done.stderr
    written = bundle(folder)
    assert written["counts"]["findings"]["deviates"] == 0
    assert "machinery" in {result["outcome"] for result in written["results"]}
    assert "Traceback" not in done.stdout + done.stderr


BEHAVIOUR = ("protection", "throttling", "limits", "swap", "numa", "node", "isolation", "-m", "behaviour", "--all")


def test_no_behaviour_conforms_of_programs_that_end_at_once(tmp_path: Path) -> None:
    """That nothing was swapped, or that all of nothing is on the right zone, is not enough."""
    wrapper, folder = wrong_runtime(tmp_path, "ends at once"), tmp_path / "results"

    done = memqos_run(folder, *BEHAVIOUR, "--runtime", "oci:crun", "--runtime-binary", str(wrapper))

    assert done.returncode in {1, 3}, done.stdout + done.stderr
    results = bundle(folder)["results"]
    assert {one["id"]: one["reason"] for one in results if one["outcome"] in {"conforms", "known"}} == {}
    assert "deviates" in {one["outcome"] for one in results}
    assert [one["id"] for one in results if one["outcome"] == "not observable" and not one["reason"]] == []
