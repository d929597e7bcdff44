"""Each mutant of the fakes is killed by a claim that names its file and cgroup; a right system has no deviation."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from memqos.model.node import CgroupDriver
from memqos.mutants.fakes import FakeRig
from memqos.mutants.rigs import Catalogue
from memqos.mutants.table import Mutant, load_mutants
from memqos.mutants.trial import Fate, try_mutants

CATALOGUE = Catalogue()
ALL = load_mutants()


@cache
def rig(runtime: str = "containerd+runc", driver: CgroupDriver = CgroupDriver.SYSTEMD) -> FakeRig:
    return FakeRig(runtime, driver, CATALOGUE)


HOSTED = [one for one in ALL if not one.equivalent and not rig().why_not(one)]


def problems(rig: FakeRig, mutants: list[Mutant]) -> dict[str, object]:
    """The mutants that were not killed rightly, with the findings."""
    found = {}
    for one in try_mutants(rig, mutants):
        if one.fate not in {Fate.NOT_TRIED, Fate.EQUIVALENT} and not one.is_right:
            found[one.mutant.name] = one.kill or one.why or one.claims
    return found


@pytest.mark.parametrize("mutant", HOSTED, ids=lambda one: one.name)
def test_a_mutant_is_killed_rightly(mutant: Mutant) -> None:
    assert problems(rig(), [mutant]) == {}


def test_the_fakes_can_imitate_most_mutants() -> None:
    assert len(HOSTED) > 170


@pytest.mark.parametrize(
    ("runtime", "driver"),
    [
        ("containerd+crun", CgroupDriver.SYSTEMD),
        ("oci:runc", CgroupDriver.SYSTEMD),
        ("oci:crun", CgroupDriver.CGROUPFS),
    ],
)
def test_a_mutant_is_killed_rightly_with_other_runtimes_and_the_other_driver(
    runtime: str, driver: CgroupDriver
) -> None:
    """Every eighth of them."""
    assert problems(rig(runtime, driver), ALL[::8]) == {}


NO_EFFECT = """
[mine]
wrong = "It leaves out what these pods do not have."
kind = "enforcement"
level = "node"
knobs = ["cpu.weight"]
plan = { %s }
"""


@pytest.mark.parametrize(("fault", "fate"), [
    ('without = ["sidecars"]', Fate.NOT_TRIED),
    ('change = [{ level = "node", file = "cpu.weight", do = "percent", to = 101 }]', Fate.NOT_TRIED),
    ('change = [{ level = "node", file = "cpu.weight", do = "add", to = -100 }]', Fate.KILLED),
])  # fmt: skip
def test_a_wrong_plan_without_an_effect_is_not_tried(tmp_path: Path, fault: str, fate: Fate) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(NO_EFFECT % fault)
    [outcome] = try_mutants(rig(), load_mutants([file], shipped=False))
    assert outcome.fate is fate
    assert ("is the right one: name others with 'pods' and 'kubelets'" in outcome.why) is (fate is Fate.NOT_TRIED)


def test_statistics_need_programs(tmp_path: Path) -> None:
    row = '[mine]\nwrong = "It halves."\nkind = "CRI server"\nknobs = ["usage"]\n'
    fault = 'cri = { method = "ContainerStats", reply = [{ do = "percent", field = "stats", to = 50 }] }\n'
    (tmp_path / "mine.toml").write_text(row + fault)
    [outcome] = try_mutants(rig(), load_mutants([tmp_path / "mine.toml"], shipped=False))
    assert (outcome.fate, outcome.why) == (Fate.NOT_TRIED, "the fakes run no programs that use memory")


def test_a_right_system_is_clean_in_every_case_that_kills() -> None:
    several = [rig().case_choice.candidates(one) for one in HOSTED if one.plan is None]
    names = {next(one.claim.id for one in cases if not rig().lacks(one.claim)) for cases in several}
    assert len(names) > 20
    unclean = {}
    for name in names:
        with rig().under(None, 0) as system:
            if found := system.find(CATALOGUE.cases[name]):
                unclean[name] = found
    assert unclean == {}
