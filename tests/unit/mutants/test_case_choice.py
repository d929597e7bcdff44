"""Which cases are tried for a fault that shows only under a condition."""

import dataclasses

import pytest

from memqos.engine.translate.runtimes import TRIXIE
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
    assert tried("create", "container = 3") == [
        "lifecycle/several-containers",
        "lifecycle/several-containers-little",
        "lifecycle/several-containers-big",
    ]
    assert tried("create", "container = 5") == []


def test_a_second_container_is_created_by_a_restart_too(tried) -> None:
    several = tried("create", "container = 2")
    assert {"lifecycle/container-restart", "lifecycle/several-containers"} <= set(several)
    assert "requests/unified-high" not in several


def test_a_container_after_a_deleted_one_is_created_by_restarts_alone(tried) -> None:
    assert set(tried("create", "again = true")) == {
        "lifecycle/container-restart",
        "lifecycle/container-restart-little",
        "lifecycle/container-restart-big",
        "lifecycle/restart-with-huge-pages",
    }


def test_an_update_after_an_exec_has_cases_of_all_amounts(tried) -> None:
    assert tried("update", "entered = true") == [
        "lifecycle/update-after-exec",
        "lifecycle/update-after-exec-little",
        "lifecycle/update-after-exec-big",
        "lifecycle/stays",
    ]


def test_a_third_update_is_made_by_cases_with_three(tried) -> None:
    several = tried("update", "update = 3")
    assert "requests/update-repeatedly" in several
    assert "requests/update-unified-high" not in several


def test_the_default_run_is_tried_with_all_of_its_cases_that_can_notice(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(ROW.replace("oci =", 'claims = ["requests/shares"]\noci =') % ("create", "container = 1"))
    [mutant] = load_mutants([file], shipped=False)
    assert [one.claim.id for one in CHOICE.candidates(mutant)] == ["requests/shares"]
    found = dataclasses.replace(CHOICE, default_run=True).candidates(mutant)
    assert "requests/shares" not in {one.claim.id for one in found}
    assert "requests/unified-high" in {one.claim.id for one in found}
    assert all(one.claim.default for one in found)


CRI = """
[mine]
wrong = "It is wrong."
kind = "CRI server"
knobs = ["memory.high"]
cri = { %s }
"""


@pytest.mark.parametrize(("fault", "among", "absent"), [
    ('method = "UpdateContainerResources", request = [{ do = "drop", field = "linux/unified/memory.high" }]',
     {"requests/update-unified-high", "lifecycle/update-after-exec"}, {"requests/update-shares", "oci/part-unified"}),
    ('method = "UpdateContainerResources", number = 3, skip = true',
     {"requests/update-repeatedly"}, {"requests/update-twice"}),
    ('method = "UpdateContainerResources", of = "another container"',
     {"lifecycle/several-containers", "requests/update-later"}, {"requests/update-limit"}),
    ('method = "CreateContainer", number = 2, skip = true', {"lifecycle/container-restart"}, {"requests/limit"}),
    ('method = "CreateContainer", request = [{ do = "drop", field = "config/linux/resources/cpu_quota" }]',
     {"requests/quota"}, {"requests/shares", "requests/refuses-missing-cpu"}),
    ('method = "CreateContainer", request = [{ do = "set", field = "sandbox_config/linux/cgroup_parent", to = "/" }]',
     {"requests/limit", "requests/nothing"}, {"refusal/refuses-missing-cpu"}),
    ('method = "ContainerStats", reply = [{ do = "drop", field = "stats" }]', {"cri/stats-usage"}, {"cri/pod-stats"}),
    ('method = "Version", skip = true', set(), {"requests/limit"}),
])  # fmt: skip
def test_a_cri_server_without_claims_in_its_row(tmp_path, fault, among, absent) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(CRI % fault)
    [mutant] = load_mutants([file], shipped=False)
    found = {one.claim.id for one in CHOICE.candidates(mutant)}
    assert among <= found
    assert not absent & found
    assert bool(found) is bool(among)


def test_a_machine_without_claims_in_its_row(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    row = CRI.replace("CRI server", "foreign writer").replace("cri = { %s }", 'machine = { loop = "true" }')
    file.write_text(row)
    [mutant] = load_mutants([file], shipped=False)
    assert [one.claim.id for one in CHOICE.candidates(mutant)][:3] == [
        "requests/everything",
        "requests/update-everything",
        "lifecycle/stays",
    ]


def test_a_huge_page_limit_is_a_field_without_a_section(tried) -> None:
    several = tried("create", 'requires = ["hugepageLimits"]')
    assert "requests/everything-with-huge-pages" in several
    assert all("huge" in name for name in several)


def test_a_write_of_no_limit_of_huge_pages_shows_where_there_is_one(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    fault = 'oci = { on = ["start"], write = [{ file = "hugetlb.2MB.max", text = "max" }] }'
    file.write_text(CRI.replace("CRI server", "OCI runtime").replace("cri = { %s }", fault))
    [mutant] = load_mutants([file], shipped=False)
    found = {one.claim.id for one in CHOICE.candidates(mutant)}
    assert "requests/huge-pages" in found
    assert "requests/limit" not in found
