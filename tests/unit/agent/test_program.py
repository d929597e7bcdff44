"""The program for targets: it fits a pipe, runs on Python 3.9, and starts with few imports."""

import ast
import json
import subprocess
import sys
import zlib

from memqos.agent.program import program


def sources() -> dict[str, str]:
    return dict(json.loads(zlib.decompress(program().packed)))


def test_the_program_fits_a_pipe_so_that_sending_it_never_blocks():
    assert len(program().packed) < 1 << 16


def test_every_module_is_python_3_9():
    modules = sources()
    assert {"memqos.agent.main", "memqos.agent.steps", "memqos.agent.cleanup", "jeepney.low_level"} <= set(modules)
    for name, text in modules.items():
        ast.parse(text, filename=name, feature_version=(3, 9))


def test_sent_modules_import_only_sent_modules_and_the_standard_library():
    modules = sources()
    for name, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module in modules or str(node.module).split(".")[0] in sys.stdlib_module_names, name


def test_reading_needs_no_import_of_the_cgroup_modules():
    """Under emulation each import costs time at every start."""
    argv = [sys.executable, "-X", "importtime", *program().command[1:]]
    told = subprocess.run(argv, input=program().stdin({"read": []}), capture_output=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.decode().splitlines()}
    assert told.stdout == b"{}\n"
    assert "memqos.agent.main" in imported
    assert not imported & {"memqos.agent.steps", "memqos.agent.cleanup", "pathlib", "threading", "typing"}


def test_a_truncated_program_ends():
    argv = [sys.executable, *program().command[1:]]
    told = subprocess.run(argv, input=program().packed[:100], capture_output=True, check=False)
    assert told.returncode == 1
