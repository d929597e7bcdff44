#!/usr/bin/python3
"""An OCI runtime that is wrong in the way that /run/wrong names; it stands where runc was, which is runc.dist now."""

import json
import os
import subprocess
import sys
from pathlib import Path

REAL, ARGUMENTS = sys.argv[0] + ".dist", sys.argv[1:]
WRONG = Path("/run/wrong").read_text()


def without_unified(text: str) -> str:
    spec = json.loads(text)
    spec["linux"]["resources"].pop("unified", None)
    return json.dumps(spec)


def change_what_was_started(folder: Path) -> None:
    if WRONG == "changes the unit":
        subprocess.run(["systemctl", "set-property", "--runtime", folder.name, "MemoryHigh=infinity"], check=True)


if "update" in ARGUMENTS and WRONG == "ignores updates":
    sys.exit(0)
if "create" in ARGUMENTS and "config.json" in WRONG:
    config = Path(ARGUMENTS[ARGUMENTS.index("--bundle") + 1], "config.json")
    before = config.read_text()
    config.write_text(without_unified(before))
    status = subprocess.call([REAL, *ARGUMENTS])
    if WRONG == "edits config.json and puts it back":
        config.write_text(before)
    sys.exit(status)
if "start" in ARGUMENTS:
    status = subprocess.call([REAL, *ARGUMENTS])
    for folder in Path("/sys/fs/cgroup").rglob(f"*{ARGUMENTS[-1]}*"):
        change_what_was_started(folder)
    sys.exit(status)
os.execv(REAL, [REAL, *ARGUMENTS])  # noqa: S606 - this process becomes the runtime
