"""Each mutant of the fakes is killed by a claim that names its file and cgroup; a right system has no deviation."""

from __future__ import annotations

from functools import cache

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
