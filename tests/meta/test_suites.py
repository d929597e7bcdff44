"""Suites say what must be true and nothing else: each claim has a test, each test one claim, and no numbers."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos import claims
from memqos.cases import CaseKind, cases_of
from memqos.catalog.kubelets import load_kubelets
from memqos.catalog.requests import load_all_requests
from memqos.node.requests.cri_calls import CriVerbs
from memqos.node.requests.lifecycle import LifecycleVerbs
from memqos.node.requests.verbs import verbs_of

SUITES = Path(__file__).parents[2] / "suites"
FILES = sorted(SUITES.rglob("test_*.py"))
CLAIMS = claims.load(SUITES)
REQUESTS = load_all_requests()
CASES = cases_of(claims.load(SUITES).values())

MAY_IMPORT = {"pytest", "memqos", "memqos.testing"}


def functions_in(file: Path) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(file.read_text())
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def cited(file: Path, function: ast.FunctionDef) -> list[str]:
    """The claim ids in a test's markers, or those of the rows that it has as its cases."""
    given = {argument.arg for argument in function.args.args}
    if given & {"qos_request", "qos_case"}:
        verb = CaseKind.KUBELETS if "qos_kubelets_in_turn" in given else CaseKind.VERB
        kind = CaseKind.REQUEST if "qos_request" in given else verb
        return [case.claim.id for case in CASES if case.claim.chapter == file.parent.name and case.kind is kind]
    return [
        call.args[0].value
        for call in function.decorator_list
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "pytest.mark.claim"
        and isinstance(call.args[0], ast.Constant)
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_test_cites_one_claim_and_repeats_nothing(file):
    for function in functions_in(file):
        found = cited(file, function)
        of_rows = ast.unparse(function.args).startswith(("qos_request, ", "qos_case, "))
        assert len(found) == 1 or (of_rows and found), f"{file}:{function.lineno}: {function.name} cites {found}"
        for claim in found:
            assert claim in CLAIMS, f"{file}:{function.lineno}: there is no claim '{claim}'"
            assert CLAIMS[claim].chapter == file.parent.name


def test_every_claim_has_a_test():
    proved = {claim for file in FILES for function in functions_in(file) for claim in cited(file, function)}

    assert set(CLAIMS) == proved


def test_every_verb_is_asked_for_and_every_one_asked_for_is_a_verb():
    asked = {case.asks.verb for case in CASES if case.kind is CaseKind.VERB}

    assert asked == {*verbs_of(LifecycleVerbs), *verbs_of(CriVerbs)}
    assert set(verbs_of(LifecycleVerbs)).isdisjoint(verbs_of(CriVerbs))


def test_kubelets_in_turn_are_kubelets():
    known = {kubelet.id for kubelet in load_kubelets()}

    assert {name for case in CASES for name in case.asks.kubelets} <= known


def test_every_request_is_a_claim():
    assert set(REQUESTS) <= {claim.name for claim in CLAIMS.values()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_suite_holds_no_numbers_branches_or_machinery(file):
    for node in ast.walk(ast.parse(file.read_text())):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert name is not None
            assert name in MAY_IMPORT, f"{file}:{line}: a suite does not import '{name}'"
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            pytest.fail(f"{file}:{line}: the number {node.value} belongs to the engine, a fixture or a claim")
        assert not isinstance(node, ast.If | ast.IfExp | ast.While | ast.Try), f"{file}:{line}: a suite does not branch"
        assert not isinstance(node, ast.For), f"{file}:{line}: a suite does not loop"


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_test_says_its_claim(file):
    for function in functions_in(file):
        assert ast.get_docstring(function), f"{file}:{function.lineno}: {function.name} has no docstring"


def test_chapters_hold_claims_and_tests_and_nothing_else():
    for chapter in sorted(path for path in SUITES.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))):
        names = {path.name for path in chapter.iterdir() if path.name != "__pycache__"}
        assert "claims.toml" in names
        assert not {name for name in names if name != "claims.toml" and not name.startswith("test_")}
