"""`memqos run` as users call it, and runtimes that are wrong on purpose."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from memqos.clock import Deadline
from memqos.mutants.programs import oci_runtime
from memqos.mutants.table import load_mutants
from memqos.target.base import Target

SECONDS = 1200
WRONG_RUNTIME = Path(oci_runtime.__file__)
"""An OCI runtime that is right until a file in the machine describes its fault."""
FAULTS = {one.name: one.oci.document() for one in load_mutants() if one.oci is not None}
FAULTS |= {
    "ends-at-once": {"on": ("create",), "process": [{"do": "set", "field": "args", "to": ["/memload", "nothing"]}]},
    "right": {"on": ()},
}
"""By the name of a mutant its fault; and of two more."""

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
    """A run's files."""
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


def wrong_runtime(folder: Path, name: str) -> Path:
    """A runtime in this folder with the fault of a mutant."""
    return program(folder / "my-runc", oci_runtime.alone(FAULTS[name]))


def set_fault(target: Target, name: str) -> None:
    """Give WRONG_RUNTIME the fault of a mutant for containers created from now on."""
    folder = f"{oci_runtime.FOLDER}/pods"
    assert target.run(["mkdir", "-p", folder], deadline=Deadline.after(60)).status == 0
    target.write(f"{folder}/any", json.dumps(FAULTS[name]).encode(), deadline=Deadline.after(60))
