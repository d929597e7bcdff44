"""Every module, and every public class and function of the package, says what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import memqos

PACKAGE = Path(memqos.__file__).parent
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if "_pb2" not in path.name]


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from definitions(child, f"{prefix}{child.name}.")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_is_public_is_described(path):
    tree = ast.parse(path.read_text())
    own = [name for name, node in definitions(tree) if not node.name.startswith("_") and not ast.get_docstring(node)]
    assert ast.get_docstring(tree), "the module has no docstring"
    assert own == []
