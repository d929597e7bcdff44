"""A public name means one thing in its package (a folder), no module is too long or imported by a string."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.meta.test_layers import PACKAGE, modules

ONE_PER_REVISION = ("engine/memory_qos",)
"""Folders of revisions: each module answers the same questions, and a release takes one."""

MOST_LINES = 500
ONE_FILE = {"harness/memqos/collector/program.py", "harness/memqos/mutants/programs/oci_runtime.py"}
"""Programs that travel to machines as one file, where nothing can be imported."""

PAGES = "cli"
"""Each module with a page of the command line calls it `command`."""


def public_definitions(path: Path) -> Iterator[str]:
    """Classes, names of types and functions at the top of a module, but for those that begin with an underscore."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (name for name in names if re.match("[A-Z][A-Za-z]*[a-z]", name))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name


def is_page(path: str, name: str) -> bool:
    return path.startswith(f"{PAGES}/") and name == "command"


def test_no_public_class_or_function_is_defined_twice_in_a_package():
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in modules():
        where = path.relative_to(PACKAGE).as_posix()
        if where.startswith(ONE_PER_REVISION):
            continue
        for name in public_definitions(path):
            if not is_page(where, name):
                places[path.parent.as_posix(), name].append(where)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, "one package, one meaning for a name: rename one of them"


def test_what_the_exceptions_are_for_is_there():
    for folder in ONE_PER_REVISION:
        assert list((PACKAGE / folder).glob("v*.py"))
    pages = [path for path in (PACKAGE / PAGES).glob("*.py") if "command" in public_definitions(path)]
    assert len(pages) > 1


def test_no_module_is_imported_by_a_string():
    """Such an import is Any to the type checker and no edge to the test of layers; one in a function is both."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            assert name not in {"import_module", "__import__"}, f"{path}:{node.lineno}: imports a module by a string"
            if isinstance(node, ast.ImportFrom) and node.module == "importlib":
                assert not {alias.name for alias in node.names} & {"import_module", "__import__"}, path


def test_a_module_is_short_enough_to_be_read():
    root = PACKAGE.parents[1]
    places = [path for folder in ("harness", "suites", "tests", "tools") for path in (root / folder).rglob("*.py")]
    long = {path.relative_to(root).as_posix() for path in places if path.read_text().count("\n") > MOST_LINES}
    assert {path for path in long if "/proto/" not in path} == ONE_FILE
