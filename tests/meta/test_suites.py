"""Suites say what must be true and nothing else: each claim has a test, each test one claim, and no numbers."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos import claims
from memqos.catalog.requests import load_all_requests

SUITES = Path(__file__).parents[2] / "suites"
FILES = sorted(SUITES.rglob("test_*.py"))
CLAIMS = claims.load(SUITES)
REQUESTS = load_all_requests()

MAY_IMPORT = {"pytest", "memqos", "memqos.testing"}


def functions_in(file: Path) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(file.read_text())
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def cited(file: Path, function: ast.FunctionDef) -> list[str]:
    """The claim ids in a test's markers, or those that a test of requests has as its cases."""
    if any(argument.arg == "qos_request" for argument in function.args.args):
        return [f"{file.parent.name}/{name}" for name in REQUESTS if f"{file.parent.name}/{name}" in CLAIMS]
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
        asks = "_request, " in ast.unparse(function.args)
        assert len(found) == 1 or (asks and found), f"{file}:{function.lineno}: {function.name} cites {found}"
        for claim in found:
            assert claim in CLAIMS, f"{file}:{function.lineno}: there is no claim '{claim}'"
            assert CLAIMS[claim].chapter == file.parent.name


def test_every_claim_has_a_test():
    proved = {claim for file in FILES for function in functions_in(file) for claim in cited(file, function)}

    assert set(CLAIMS) == proved


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
