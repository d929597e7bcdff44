"""What tests, tools and pages name exists: a test whose subject has moved would guard nothing, and pass."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "harness" / "memqos"
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PLACES = (ROOT, PACKAGE, PACKAGE.parent, ROOT / "docs")
"""What pages name paths from."""

NOT_MODULES = frozenset({"memqos.local", "memqos.sandbox", "memqos.txt", "memqos.testing.txt"})
"""A host's name, a label, and files of expected texts."""
EXAMPLES = frozenset(
    {
        "docs/systemd.md",
        "harness/memqos/engine/memory_qos/v1_99.py",
        "harness/memqos/engine/translate/halfrun.py",
        "harness/memqos/runtime/halfrun.py",
        "suites/team/claims.toml",
        "suites/team/test_team.py",
        "vm/guest/halfrun/etc/containerd/config.toml",
    }
)
"""Files that a reader makes, by pages that say how, and one of another project."""


def is_there(path: str) -> bool:
    """Whether the repository has something of this path; * and ? are wildcards."""
    if any(sign in path for sign in "*?["):
        return any(ROOT.glob(path.rstrip("/")))
    return (ROOT / path).exists()


class Folders(ast.NodeVisitor):
    """The paths that a module makes of its own place, as far as they are written out in it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.names: dict[str, Path] = {}
        self.found: list[tuple[int, Path]] = []

    def visit_Assign(self, node: ast.Assign) -> None:
        path = self.path(node.value)
        if path is not None and isinstance(node.targets[0], ast.Name):
            self.names[node.targets[0].id] = path
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        path = self.path(node)
        if path is None:
            self.generic_visit(node)
        else:
            self.found.append((node.lineno, path))

    def path(self, node: ast.expr) -> Path | None:
        match node:
            case ast.Call(func=ast.Name(id="Path"), args=[ast.Name(id="__file__")]):
                return self.file
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.Attribute(value=value) | ast.Subscript(value=ast.Attribute(value=value)):
                below = self.path(value)
                return below and above(below, node)
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(name))):
                folder = self.path(left)
                return folder and folder / name
        return None


def above(path: Path, node: ast.expr) -> Path | None:
    """What `.parent` or `.parents[number]` of a path is."""
    match node:
        case ast.Attribute(attr="parent"):
            return path.parent
        case ast.Subscript(value=ast.Attribute(attr="parents"), slice=ast.Constant(value=int(number))):
            return path.parents[number]
    return None


def folders_of(file: Path) -> Folders:
    found = Folders(file)
    found.visit(ast.parse(file.read_text()))
    return found


def strings(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("file", TESTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_paths_that_tests_make_of_their_own_place_exist(file):
    assert [f"line {line}: {path}" for line, path in folders_of(file).found if not path.exists()] == []


@pytest.mark.parametrize("file", TESTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_modules_that_tests_name_exist(file):
    assert [f"line {line}: {text}" for line, text in strings(file) if is_module_name(text) and not resolves(text)] == []


def is_module_name(text: str) -> bool:
    named = re.fullmatch(r"memqos(\.[A-Za-z_][A-Za-z0-9_]*)+", text) and not text.endswith((".toml", ".json"))
    return bool(named) and text not in NOT_MODULES


def resolves(name: str) -> bool:
    """Whether this is a module, or a name that is written in one."""
    place, rest = PACKAGE, name.split(".")[1:]
    while rest and (place / rest[0]).is_dir():
        place, rest = place / rest[0], rest[1:]
    if rest and (place / f"{rest[0]}.py").is_file():
        place, rest = place / f"{rest[0]}.py", rest[1:]
    source = place if place.is_file() else place / "__init__.py"
    return all(re.search(rf"\b{one}\b", source.read_text()) for one in rest)


@pytest.mark.parametrize("file", sorted((ROOT / "tests" / "meta").glob("*.py")), ids=lambda file: file.name)
def test_files_that_meta_tests_name_exist(file):
    """These tests leave files out by their names: a name that no file has leaves nothing out."""
    known = {path.name for folder in ("harness", "suites", "tests") for path in (ROOT / folder).rglob("*.py")}
    named = {text for _, text in strings(file) if re.fullmatch(r"[\w/]+\.py", text)} - EXAMPLES
    assert {name for name in named if name.rpartition("/")[2] not in known} == set()


def braces(pattern: str) -> list[str]:
    head, sign, rest = pattern.partition("{")
    if not sign:
        return [pattern]
    inner, _, tail = rest.partition("}")
    return [f"{head}{one}{tail}" for one in inner.split(",")]


def configured() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tool, tox = project["tool"], (ROOT / "tox.ini").read_text()
    ruff, wheel, mutmut = tool["ruff"], tool["hatch"]["build"]["targets"]["wheel"], tool["mutmut"]
    per_file = [path for pattern in ruff["lint"]["per-file-ignores"] for path in braces(pattern)]
    words = {word.removeprefix("--ignore=") for word in re.split(r"[\s,=]+", tox)}
    return {
        "ruff": [*ruff["extend-exclude"], *ruff["src"], *per_file],
        "wheel": [*wheel["packages"], *wheel["force-include"], tool["hatch"]["version"]["path"]],
        "mutmut": [*mutmut["pytest_add_cli_args_test_selection"], *mutmut["also_copy"]]
        + [one.partition("=")[2] for one in mutmut["pytest_add_cli_args"] if one.startswith("--ignore=")]
        + [one.replace("src/memqos", "harness/memqos") for one in mutmut["only_mutate"]],
        "tox": [word for word in words if re.match(r"(tests|harness|suites|ci|vm|docs)/", word)],
        "pytest": tool["pytest"]["ini_options"]["testpaths"],
    }


@pytest.mark.parametrize(("where", "paths"), configured().items(), ids=configured())
def test_paths_in_the_configuration_exist(where, paths):
    assert paths
    assert [path for path in paths if not is_there(path)] == []


NAMED = re.compile(r"(?<![\w/.:-])((?:[a-z_0-9]+/)+[a-z_0-9.]+\.(?:py|json|toml|ini|sh|md|j2))(?![\w/-])")
OF_OURS = re.compile(r"(?:harness|suites|tests|docs|vm|fixtures|ci|engine|plugin|node|place|report|enforce|probe)/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_ours_that_pages_name_exist(page):
    named = {name for name in NAMED.findall(page.read_text()) if OF_OURS.match(name)} - EXAMPLES
    assert {name for name in named if not any((place / name).exists() for place in (*PLACES, page.parent))} == set()


def test_what_does_not_exist_is_found(tmp_path):
    moved = tmp_path / "moved"
    moved.write_text('from pathlib import Path\nHERE = Path(__file__).parent\nGONE = HERE / "gone" / "file"\n')
    assert [path.name for _, path in folders_of(moved).found if not path.exists()] == ["file"]
    assert not resolves("memqos.engine" + ".gone")
    assert resolves("memqos.engine.expect.expect")
    assert not is_there("harness/memqos/gone/*")
