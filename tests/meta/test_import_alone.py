"""Every module can be imported first, in an interpreter that knows none of ours, without a warning or a word."""

import json
import subprocess
import sys

import pytest

from tests.meta.test_layers import PACKAGE, dotted, modules

# One interpreter, which forks for every module and imports nothing of ours itself: starting one for each, with the
# libraries that most of them need, takes much longer.
SCRIPT = """
import importlib, json, os, sys, tempfile, traceback
import click, dataclasses, enum, fractions, grpc, pathlib, pytest, re, subprocess, testinfra, typing, yaml

def said_by(name):
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            try:
                importlib.import_module(name)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        return said.read().decode() + (f"wait status {status}" if status else "")

print(json.dumps({name: said_by(name) for name in sys.argv[1:]}))
"""


def name_of(path) -> str:
    module = dotted(path)
    return "memqos" if module == "__init__" else f"memqos.{module}"


NAMES = sorted({name_of(path) for path in modules() if path != PACKAGE / "__main__.py"})


@pytest.fixture(scope="module")
def said():
    """What each module said while it was imported; a traceback where it could not be."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, *NAMES], capture_output=True, text=True, check=True, timeout=300
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("module", NAMES)
def test_imports_alone(module, said):
    assert said[module] == ""
