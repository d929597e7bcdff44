"""No test reaches into what is private: it goes through public functions, and through the fakes' own methods.

A name that begins with an underscore belongs to the module, or to the class, that defines it.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.meta.test_layers import PACKAGE

TESTS = Path(__file__).parents[1]

REACHING: dict[str, set[str]] = {}
"""By the path of a file below tests/ the private names that it still uses; names may leave this list, none may come."""

OTHERS = frozenset({"_asdict", "_exit", "_fields", "_get_local_constants", "_replace", "_stats"})
"""Documented names of the standard library, mutmut's record of the functions that ran, what hypothesis draws from."""

PATCHES = frozenset({"delattr", "getattr", "hasattr", "object", "patch", "setattr"})
"""Functions and methods that take an attribute by its name or its path."""

Classes = Mapping[str, tuple[set[str], set[str]]]
"""By a class's name its bases' names and its private attributes."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name.strip("_") != "" and name not in OTHERS


def reached(tree: ast.Module, product: Classes, every: Classes) -> set[str]:
    """The private names that a module reads, sets, patches or imports and that belong to another module.

    every: the classes of the product and of the tests.
    """
    return set(from_outside(tree)) | set(by_inheritance(tree, product, every))


def from_outside(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name):
                yield from filter(is_private, [name])
            case ast.ImportFrom(module=module, names=names):
                yield from filter(is_private, [*(module or "").split("."), *(one.name for one in names)])
            case ast.Import(names=names):
                yield from filter(is_private, [part for one in names for part in one.name.split(".")])
            case ast.Call(func=function, args=[ast.Constant(value=str(path)), *_]) if last_name(function) in PATCHES:
                yield from filter(is_private, path.split("."))
            case ast.Call(func=function, args=[_, ast.Constant(value=str(name)), *_]) if last_name(function) in PATCHES:
                yield from filter(is_private, [name])


def by_inheritance(tree: ast.Module, product: Classes, every: Classes) -> Iterator[str]:
    """Of a class that inherits from one of the product: what it overrides or uses of that one's private names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            inherited = {name for base in ancestors(node, every) if base in product for name in product[base][1]}
            used = {one.attr for one in ast.walk(node) if is_own(one)} if inherited else set()
            yield from inherited & {*used, *defined(node)}


def ancestors(node: ast.ClassDef, every: Classes) -> set[str]:
    found: set[str] = set()
    left = [last_name(base) for base in node.bases]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += every[name][0] if name in every else []
    return found


def classes_of(trees: Iterable[ast.Module]) -> Classes:
    """All classes; those of the same name count as one."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases, names = found.setdefault(node.name, (set(), set()))
                bases |= {last_name(base) for base in node.bases}
                names |= set(defined(node))
    return found


def defined(node: ast.ClassDef) -> Iterator[str]:
    """The private names that a class itself has: of methods, and of attributes that it sets."""
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef) and is_private(one.name):
            yield one.name
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and is_own(one):
            yield one.attr


def is_own(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            return is_private(name)
    return False


def last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return last_name(value)
    return ""


def test_no_further_test_reaches_into_privates() -> None:
    product = classes_of(ast.parse(text) for path in PACKAGE.rglob("*.py") if "class " in (text := path.read_text()))
    tests = {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    every = {**product, **classes_of(tests.values())}
    found = {str(path.relative_to(TESTS)): reached(tree, product, every) for path, tree in tests.items()}
    assert {path: names for path, names in found.items() if names} == REACHING


PRODUCT = ast.parse("class Fake:\n    def __init__(self): self._files = {}\n    def _find(self): pass")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("bench.target._plain._files['/a'] = b''", {"_plain", "_files"}),
        ("from memqos.x import _known, known", {"_known"}),
        ("from memqos._x import known", {"_x"}),
        ("import memqos._x.y", {"_x"}),
        ("monkeypatch.setattr(module, '_SECONDS', 1)", {"_SECONDS"}),
        ("monkeypatch.setattr('memqos.x._seconds', 1)", {"_seconds"}),
        ("class Wrong(Fake):\n    def _find(self): pass", {"_find"}),
        ("class Wrong(Fake): pass\nclass Worse(Wrong):\n    def find(self): return self._files", {"_files"}),
        ("class Wrong(Fake):\n    def find(self): return super()._find()", {"_find"}),
        ("class Own:\n    def __init__(self): self._files = self.__class__", set()),
        ("class Own(Fake):\n    def __init__(self): self._other = self.files", set()),
        ("known._replace(a=1); os._exit(1); x.__dict__; monkeypatch.setattr(module, 'SECONDS', 1)", set()),
    ],
)
def test_each_way_into_privates_is_found(text: str, names: set[str]) -> None:
    tree, product = ast.parse(text), classes_of([PRODUCT])
    assert reached(tree, product, classes_of([PRODUCT, tree])) == names
