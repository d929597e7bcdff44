"""The package itself, the suites or the documented API reach every function, class and constant of the package.

Tests do not count as users: code that only tests reach is dead. The check goes by names: one use of a name keeps all
definitions of that name.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLAIN = {
    "property",
    "cached_property",
    "staticmethod",
    "classmethod",
    "contextmanager",
    "cache",
    "lru_cache",
    "dataclass",
}
"""Decorators that do not make their function reachable; any other one registers it (click, pytest, hypothesis)."""

CALLED_FROM_OUTSIDE = {
    # http.server calls the handler by the request's method, and these by name.
    "do_GET", "do_POST", "do_PUT", "do_PATCH", "do_DELETE", "log_message", "protocol_version", "daemon_threads",
    # click and io call these.
    "format_commands", "list_commands", "get_command", "resolve_command", "writable", "seekable",
    # xdist's scheduler calls these.
    "_split_scope", "_assign_work_unit", "remove_node", "schedule",
}  # fmt: skip
SCHEMAS = "harness/memqos/report/documents"
"""Its types become memqos.schema.json by their modules, not by name."""

FOR_TESTS = re.compile(r"(^|/)(fake|fake_cgroups|contract)\.py$")
"""Fakes and contracts are there for tests, memqos's own and those of others: their names need no other user."""


@dataclass(frozen=True)
class Definition:
    """A name that a module or class defines, and the lines of its body."""

    name: str
    file: Path
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first} {self.name}"


def _is_registered(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    names = [_last_name(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list]
    return any(name not in PLAIN for name in names)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def definitions_in(tree: ast.Module, file: Path) -> Iterator[Definition]:
    """Functions, classes, methods and module constants, without those that a framework calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not _is_registered(node):
            is_called = node.name.startswith(("__", "pytest_")) or node.name in CALLED_FROM_OUTSIDE
            if not is_called:
                yield Definition(node.name, file, node.lineno, node.end_lineno or node.lineno)
    for node in tree.body:
        for name in _assigned(node):
            if not name.startswith("__"):
                yield Definition(name, file, node.lineno, node.end_lineno or node.lineno)


def _assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [one.id for one in node.targets if isinstance(one, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def uses_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that is read, called or spelled out in a string, with its line; `__all__` and imports do not count."""
    skipped = {
        id(inner)
        for node in tree.body
        if "__all__" in _assigned(node) or isinstance(node, ast.ImportFrom)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg, node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            yield from ((word, node.lineno) for word in WORD.findall(node.value))


def documented() -> Iterator[str]:
    """The words in code of the documentation and in the data files that name functions."""
    for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for code in re.findall(r"```.*?```|`[^`]+`", file.read_text(encoding="utf-8"), re.DOTALL):
            yield from WORD.findall(code)
    for folder in ("suites", "vm", "fixtures"):
        for file in (ROOT / folder).rglob("*.toml"):
            yield from WORD.findall(file.read_text(encoding="utf-8"))
    yield from WORD.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def dead(modules: dict[Path, ast.Module], others: list[ast.Module], words: set[str]) -> list[Definition]:
    """Definitions of these modules that nothing reaches but themselves and other dead ones."""
    defined = [one for file, tree in modules.items() for one in definitions_in(tree, file)]
    uses: dict[str, list[tuple[Path, int]]] = defaultdict(list)
    for file, tree in modules.items():
        for name, line in uses_in(tree):
            uses[name].append((file, line))
    outside = words | {name for tree in others for name, _ in uses_in(tree)}
    left = [one for one in defined if one.name not in outside]
    found: dict[Path, list[Definition]] = defaultdict(list)
    while True:
        more = [
            one
            for one in left
            if all(
                any(body.first <= line <= body.last for body in [one, *found[file]] if body.file == file)
                for file, line in uses[one.name]
            )
        ]
        if not more:
            return sorted((one for some in found.values() for one in some), key=str)
        for one in more:
            found[one.file].append(one)
        left = [one for one in left if one not in more]


def _parsed(folder: Path) -> dict[Path, ast.Module]:
    return {
        file.relative_to(ROOT): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(folder.rglob("*.py"))
        if "proto" not in file.parts
    }


def test_nothing_is_dead() -> None:
    modules = {
        file: tree
        for file, tree in _parsed(ROOT / "harness" / "memqos").items()
        if not FOR_TESTS.search(str(file)) and not str(file).startswith(SCHEMAS)
    }
    others = [tree for name in ("suites", "tools", "tests/bench") for tree in _parsed(ROOT / name).values()]
    found = dead(modules, others, set(documented()))
    assert not found, "nothing reaches\n" + "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def used(): ...\ndef main(): used()\nmain()", []),
        ("def lonely(): ...", ["lonely"]),
        ("def again(n): return again(n - 1)", ["again"]),
        ("def first(): second()\ndef second(): ...", ["first", "second"]),
        ("__all__ = ['exported']\ndef exported(): ...", ["exported"]),
        ("@click.command()\ndef command(): ...", []),
        ("class A:\n    def never(self): ...\nA()", ["never"]),
        ("LEFT = 5", ["LEFT"]),
        ("VERBS = {'a': 'act'}\ndef act(): ...\nprint(VERBS)", []),
    ],
)
def test_the_check_itself(source: str, names: list[str]) -> None:
    found = dead({Path("module"): ast.parse(source)}, [], set())
    assert [one.name for one in sorted(found, key=lambda one: one.first)] == names
