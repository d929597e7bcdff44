"""`memqos run` as people call it, and runtimes that are wrong on purpose."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 1200
WRONG_RUNTIME = Path(__file__).parents[1] / "wrong_runtimes" / "program.py"

ALTERING = """\
#!/usr/bin/python3
# An OCI runtime that runs another container than it is asked for.
import json, os, sys

arguments = sys.argv[1:]
if "create" in arguments and "--bundle" in arguments:
    config = os.path.join(arguments[arguments.index("--bundle") + 1], "config.json")
    with open(config) as file:
        spec = json.load(file)
    resources = spec.get("linux", {}).get("resources", {})
    ALTER
    with open(config, "w") as file:
        json.dump(spec, file)
os.execv(sys.argv[0] + ".dist", [sys.argv[0] + ".dist", *arguments])
"""


def memqos_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run with its results in this folder, called from the one above."""
    command = [sys.executable, "-m", "memqos", "run", "--results", str(folder), *arguments]
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=SECONDS, check=False)


def bundle(folder: Path) -> dict[str, Any]:
    """What a run wrote."""
    found: dict[str, Any] = json.loads((folder / "bundle.json").read_text())
    return found


def program(path: Path, text: str) -> Path:
    """A file that can be run."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def altering_runtime(path: Path, statement: str) -> Path:
    """A runtime before which this statement changes `resources`, those of config.json."""
    return program(path, ALTERING.replace("ALTER", statement))


def wrong_runtime(folder: Path, way: str) -> Path:
    """A runtime in this folder that is wrong in a way of tests/wrong_runtimes."""
    text = WRONG_RUNTIME.read_text().replace('CHOSEN = ""', f"CHOSEN = {way!r}")
    return program(folder / "my-runc", text)
