"""A module imports only from layers below; model and engine touch no I/O; nothing imports itself in a circle."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.layers import ALLOWED_IN_PURE, LAYERS, NEVER_IMPORTED, PURE

PACKAGE = Path(__file__).parents[2] / "harness" / "memqos"

PROTO = "memqos.runtime.proto"
"""Generated code."""


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "proto" not in path.parts and "_data" not in path.parts)


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def group(module: str) -> str:
    found = [name for name in LAYERS if module == name or module.startswith(f"{name}.")]
    assert found, f"'{module}' is in no layer: add it to tests/meta/layers.py"
    return max(found, key=len)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every import in a file, at any depth, as dotted names with the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            assert node.module is not None
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            is_module = [name.startswith("memqos.") and module_exists(name.removeprefix("memqos.")) for name in names]
            for name, whole in zip(names, is_module, strict=True):
                yield (name if whole else node.module), node.lineno


def module_exists(name: str) -> bool:
    path = PACKAGE.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def allowed(own: str, wanted: str) -> bool:
    if wanted == own or wanted.startswith(f"{own}.") or own.startswith(f"{wanted}."):
        return True
    if group(wanted) in NEVER_IMPORTED:
        return ("*" in LAYERS[own] and group(wanted) == own) or group(wanted) in LAYERS[own]
    return "*" in LAYERS[own] or any(wanted == name or wanted.startswith(f"{name}.") for name in LAYERS[own])


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_imports_only_from_layers_below(path):
    own = group(dotted(path))
    for name, line in imports(path):
        where = f"{path.relative_to(PACKAGE)}:{line}"
        if name.startswith("memqos.") and not name.startswith(PROTO):
            wanted = name.removeprefix("memqos.")
            assert allowed(own, wanted), f"{where}: '{own}' may not import '{wanted}'"
        elif name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("memqos"):
            third = f"third:{name.split('.')[0]}"
            assert third in LAYERS[own], f"{where}: '{own}' may not import the package '{name}'"


@pytest.mark.parametrize("path", [path for path in modules() if group(dotted(path)) in PURE], ids=dotted)
def test_pure_layers_touch_no_io(path):
    for name, line in imports(path):
        if name.startswith("memqos."):
            continue
        top = name.split(".")[0]
        assert name in ALLOWED_IN_PURE or top in ALLOWED_IN_PURE, f"{path.name}:{line}: '{name}' is not pure"
    called = {
        node.func.id for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }  # fmt: skip
    assert not called & {"open", "print", "input", "exec", "eval", "__import__"}


TELL_TIME = {
    "enactor.kubelet.api_server",
    "enactor.kubelet.supervisor",
    "clock",
    "agent.channel",
    "agent.cleanup",
    "collector.program",
    "exploration.tree_program",
    "mutants.programs.oci_runtime",
}
"""The clock, and programs that run on machines without memqos."""


def test_only_the_clock_tells_the_time_and_the_agent_which_runs_where_there_is_none():
    for path in modules():
        if dotted(path) in TELL_TIME:
            continue
        names = {name.split(".")[0] for name, _ in imports(path)}
        assert "time" not in names, f"{path}: only memqos.clock imports time"


def test_imports_make_no_circle():
    edges: dict[str, set[str]] = {}
    for path in modules():
        own = dotted(path)
        edges[own] = {
            name.removeprefix("memqos.") for name, _ in imports(path)
            if name.startswith("memqos.") and PROTO not in name and module_exists(name.removeprefix("memqos."))
        } - {own}  # fmt: skip
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"circle: {' -> '.join([*trail[trail.index(module) :], module])}"
        if module not in done:
            for other in sorted(edges.get(module, ())):
                visit(other, (*trail, module))
            done.add(module)

    for module in sorted(edges):
        visit(module, ())


def test_the_plugin_knows_no_machine_but_through_places():
    """Not by a string either: a worker's place may be a machine that nobody here booted."""
    assert not {name for name in LAYERS["plugin"] if name == "*" or name.startswith("vm")}
    for path in modules():
        if group(dotted(path)) == "plugin":
            words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not [word for word in words if isinstance(word, str) and word.startswith("memqos.vm")], path
