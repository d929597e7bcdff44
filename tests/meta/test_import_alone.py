"""Every module can be imported first, in an interpreter that knows none of ours, without a warning or a word."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.meta.test_layers import PACKAGE, dotted, module_exists, modules

# Interpreters are forked: one that has imported a module goes on to those that import it, so that what they share is
# loaded once, and nothing that they do not load themselves. Starting one for each takes much longer.
SCRIPT = """
import importlib, json, os, sys, tempfile, traceback
import click, dataclasses, enum, fractions, grpc, pathlib, pytest, re, subprocess, testinfra, typing, yaml

below = json.load(sys.stdin)
told = os.dup(1)

def tell(name, text):
    os.write(told, (json.dumps([name, text]) + "\\n").encode())

def visit(name):
    child = os.fork()
    if child:
        if status := os.waitpid(child, 0)[1]:
            tell(name, f"wait status {status}")
        return
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        try:
            importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        said.seek(0)
        tell(name, said.read().decode())
    for other in below.get(name, ()):
        visit(other)
    os._exit(0)

for name in below[""]:
    visit(name)
"""


def name_of(path: Path) -> str:
    module = dotted(path)
    return "memqos" if module == "__init__" else f"memqos.{module}"


FILES = {name_of(path): path for path in modules() if path != PACKAGE / "__main__.py"}


@cache
def loads(name: str) -> frozenset[str]:
    """Our modules that a module imports when it is imported, directly."""
    found: set[str] = set()
    for node in ast.parse(FILES[name].read_text()).body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            below = (f"{node.module}.{alias.name}" for alias in node.names)
            whole = {one for one in below if one.startswith("memqos.") and module_exists(one.removeprefix("memqos."))}
            found |= whole or {node.module}
    return frozenset(found & FILES.keys() - {name})


@cache
def closure(name: str) -> frozenset[str]:
    return frozenset({name}).union(*map(closure, loads(name)))


@pytest.fixture(scope="module")
def said():
    """What each module said while it was imported; a traceback where it could not be."""
    below: dict[str, list[str]] = {"": []}
    for name in FILES:
        largest = max(loads(name), key=lambda other: len(closure(other)), default="")
        below.setdefault(largest, []).append(name)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        input=json.dumps(below), capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    told: dict[str, str] = {}
    for line in done.stdout.splitlines():
        name, text = json.loads(line)
        told[name] = told.get(name, "") + text
    return told


@pytest.mark.parametrize("module", sorted(FILES))
def test_imports_alone(module, said):
    assert said[module] == ""
