"""Mutants as rows: valid files, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.mutants.rigs import Catalogue
from memqos.mutants.table import Kind, Level, load_mutants, select_mutants

ROW = """
[mine]
wrong = "It drops memory.low."
kind = "OCI runtime"
knobs = ["memory.low"]
oci = { on = ["create"], change = [{ do = "drop", field = "unified/memory.low", when = "< 4Mi" }] }
"""


@pytest.fixture
def loaded(tmp_path: Path):
    def load(text: str):
        file = tmp_path / "mine.toml"
        file.write_text(text)
        return load_mutants([file], shipped=False)

    return load


def test_memqos_has_more_than_a_hundred_and_twenty_of_all_kinds() -> None:
    mutants = load_mutants()
    assert len([one for one in mutants if not one.equivalent]) >= 120
    assert {one.kind for one in mutants} >= set(Kind) - {Kind.KERNEL}


def test_every_claim_pod_and_kubelet_of_a_row_exists() -> None:
    catalogue = Catalogue()
    for mutant in load_mutants():
        assert set(mutant.claims) <= set(catalogue.cases), mutant.name
        if mutant.plan is not None:
            assert [catalogue.pod(name).name for name in mutant.plan.pods] == list(mutant.plan.pods)
            names = [*mutant.plan.kubelets, *([mutant.plan.kubelet] if mutant.plan.kubelet else [])]
            assert [catalogue.kubelet(name).id for name in names] == names


def test_an_equivalent_mutant_has_a_reason_and_the_others_an_effect() -> None:
    for mutant in load_mutants():
        does = [one for one in (mutant.oci, mutant.cri, mutant.plan, mutant.machine) if one is not None]
        assert len(does) == (0 if mutant.equivalent else 1), mutant.name


def test_amounts_are_bytes_for_the_programs(loaded) -> None:
    [mutant] = loaded(ROW)
    assert mutant.levels == (Level.CONTAINER,)
    assert mutant.oci.document() == {
        "on": ("create",),
        "change": [{"do": "drop", "field": "unified/memory.low", "when": "< 4194304"}],
    }


def test_several_levels(loaded) -> None:
    [mutant] = loaded(ROW.replace("knobs", 'level = ["pod", "sibling"]\nknobs'))
    assert mutant.levels == (Level.POD, Level.SIBLING)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('kind = "OCI runtime"', 'kind = "runtime"', "'kind' must be one of OCI runtime, CRI server"),
        ('do = "drop"', 'do = "lose"', "'do' must be one of drop, set"),
        ("unified/memory.low", "", "'field' must be a string that is not empty"),
        ('on = ["create"]', "on = []", "'on' must be a list of verbs that is not empty"),
        ('on = ["create"]', 'on = ["pause"]', "must be one of create, delete, events"),
        ('knobs = ["memory.low"]', "", "missing required field 'knobs'"),
        ("oci = ", "ocl = ", "unknown field 'ocl'"),
        ("oci = {", "cri = { method = 'Version' }\noci = {", "has exactly one table: oci"),
        ('on = ["create"]', 'on = ["create"], acts = ["explode"]', "'acts' must be of kill"),
        ('on = ["create"]', 'on = ["create"], program = "no.py"', "there is no file 'no.py' in its folder"),
        ('on = ["create"]', 'on = ["create"], late = 600', "'late' must be 0 to 60 seconds"),
    ],
)
def test_errors_name_file_and_line(loaded, old: str, new: str, told: str) -> None:
    with pytest.raises(ManifestError) as error:
        loaded(ROW.replace(old, new))
    assert told in error.value.what
    assert "mine.toml:" in error.value.where


def test_a_planned_file_that_no_kubelet_writes_is_named(loaded) -> None:
    row = ROW.replace('kind = "OCI runtime"', 'kind = "enforcement"')
    before, _, _ = row.partition("oci = ")
    with pytest.raises(
        ManifestError, match="'file' must be an interface file that a kubelet writes, not 'oom_score_adj'"
    ):
        loaded(f'{before}plan = {{ change = [{{ level = "pod", file = "oom_score_adj", do = "drop" }}] }}\n')


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ('plan = { factor = "abc" }', "'factor' must be a number above 0 and at most 1, not 'abc'"),
        ('plan = { factor = "0" }', "'factor' must be a number above 0 and at most 1, not '0'"),
        (
            'plan = { change = [{ level = "pod", file = "memory.high", do = "move", to = "up" }] }',
            "'to' of 'move' must be one of node, class, pod, container, not 'up'",
        ),
        (
            'plan = { change = [{ level = "pod", file = "memory.high", do = "set", to = "much" }] }',
            "'much' is neither a number nor 'max'",
        ),
        (
            'plan = { change = [{ level = "pod", file = "memory.high", do = "add" }] }',
            "'to' of 'add' must be a whole number or an amount, not ''",
        ),
        (
            'oci = { on = ["create"], change = [{ do = "round", field = "memory/limit", to = 0 }] }',
            "'to' of 'round' must be above 0",
        ),
        ('oci = { on = ["create"], change = [{ do = "copy", field = "memory/limit" }] }', "'copy' needs 'to'"),
        (
            'plan = { change = [{ level = "pod", file = "cpu.weight", do = "set", to = 0 }] }',
            "'to' of cpu.weight must be 1 to 10000, not '0'",
        ),
        *(
            (f'oci = {{ on = ["create"], change = [{{ do = "drop", field = "a", when = "{when}" }}] }}', told)
            for when, told in (
                ("<4Mi", "'when' must be one of <, >, <=, >=, =, !=, a space and an amount or @field, or 'odd',"),
                ("~ 5", "or 'odd', 'odd pages', 'unknown', not '~ 5'"),
                ("< much", "not '< much'"),
                ("odd page", "not 'odd page'"),
                ("= ", "not '= '"),
                ("<", "not '<'"),
                ("> 4mb", "'when': '4mb' is not a quantity"),
            )
        ),
        ('oci = { on = ["create"], only = { container = 0 }, skip = true }', "must be a number from 1, not 0"),
        ('oci = { on = ["create"], late = 2 }', "'oci' has no fault: nothing is done otherwise"),
        ('cri = { method = "Version", number = 2 }', "'cri' has no fault"),
        ('plan = { pods = ["burstable"] }', "'plan' has no fault"),
        ('cri = { method = "Create" }', "'method' must be one of RunPodSandbox"),
    ],
)
def test_arguments_that_nothing_can_be_computed_with(loaded, fault: str, told: str) -> None:
    kind = {"plan": "enforcement", "oci": "OCI runtime", "cri": "CRI server"}[fault.partition(" ")[0]]
    before, _, _ = ROW.replace('kind = "OCI runtime"', f'kind = "{kind}"').partition("oci = ")
    with pytest.raises(ManifestError) as error:
        loaded(f"{before}{fault}\n")
    assert told in error.value.what


def test_two_of_a_name(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(ROW)
    with pytest.raises(ManifestError, match="there is another mutant 'mine'"):
        load_mutants([tmp_path], shipped=False)


def test_a_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no TOML files"):
        load_mutants([tmp_path], shipped=False)


def test_selecting_by_parts_of_names(loaded) -> None:
    mutants = load_mutants()
    names = [one.name for one in select_mutants(mutants, "no-zswap or cpu-burst")]
    assert names == ["no-zswap", "no-zswap-writeback", "cpu-burst"]
    with pytest.raises(UnknownNameError, match="no-zswop"):
        select_mutants(mutants, "no-zswop")
