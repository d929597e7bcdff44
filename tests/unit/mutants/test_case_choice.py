"""Which cases are tried for a fault that shows only under a condition."""

import dataclasses

import pytest

from memqos.engine.translate.versions import TRIXIE
from memqos.mutants.case_choice import CaseChoice
from memqos.mutants.rigs import Catalogue
from memqos.mutants.table import load_mutants

CATALOGUE = Catalogue()
CHOICE = CaseChoice(CATALOGUE.cases, CATALOGUE.requests, dataclasses.replace(TRIXIE, hugetlb=True))
ROW = """
[mine]
wrong = "It sets memory.high too low."
kind = "OCI runtime"
knobs = ["memory.high"]
oci = { on = ["%s"], only = { %s }, change = [{ do = "add", field = "unified/memory.high", to = -4096 }] }
"""


@pytest.fixture
def tried(tmp_path):
    def names(verb: str, only: str) -> list[str]:
        file = tmp_path / "mine.toml"
        file.write_text(ROW % (verb, only))
        [mutant] = load_mutants([file], shipped=False)
        return [one.claim.id for one in CHOICE.candidates(mutant)]

    return names


def test_a_third_container_is_created_by_the_case_of_several(tried) -> None:
    assert tried("create", "container = 3") == ["lifecycle/several-containers"]
    assert tried("create", "container = 5") == []


def test_a_second_container_is_created_by_a_restart_too(tried) -> None:
    several = tried("create", "container = 2")
    assert {"lifecycle/container-restart", "lifecycle/several-containers"} <= set(several)
    assert "requests/unified-high" not in several


def test_a_container_after_a_deleted_one_is_created_by_restarts_alone(tried) -> None:
    assert set(tried("create", "again = true")) == {
        "lifecycle/container-restart",
        "lifecycle/restart-with-huge-pages",
    }


def test_an_update_after_an_exec_has_one_case(tried) -> None:
    assert tried("update", "entered = true") == ["lifecycle/update-after-exec"]


def test_a_third_update_is_made_by_cases_with_three(tried) -> None:
    several = tried("update", "update = 3")
    assert "requests/update-repeatedly" in several
    assert "requests/update-unified-high" not in several


def test_a_huge_page_limit_is_a_field_without_a_section(tried) -> None:
    several = tried("create", 'requires = ["hugepageLimits"]')
    assert "requests/everything-with-huge-pages" in several
    assert all("huge" in name for name in several)
