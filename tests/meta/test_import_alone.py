"""Every module can be imported first, in a fresh interpreter, without a warning and without doing anything."""

import subprocess
import sys

import pytest

from tests.meta.test_layers import PACKAGE, dotted, modules

SCRIPT = """
import builtins, importlib, sys, warnings
warnings.simplefilter("error")
before = set(sys.modules)
importlib.import_module(sys.argv[1])
"""


def name_of(path) -> str:
    module = dotted(path)
    return "memqos" if module == "__init__" else f"memqos.{module}"


@pytest.mark.parametrize("module", sorted({name_of(path) for path in modules() if path != PACKAGE / "__main__.py"}))
def test_imports_alone(module):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, module], capture_output=True, text=True, check=False, timeout=120
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
