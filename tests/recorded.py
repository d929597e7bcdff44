"""Recorded results (tests/bundles), and copies of them that a test may change or break."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRIXIE = Path(__file__).parent / "bundles" / "trixie"

Change = Callable[[dict[str, Any]], None]


def copied(to: Path, *, change: Change | None = None, killed: bool = False) -> Path:
    """A copy of the recorded results. change: done to each case. killed: as a run leaves it that had no end."""
    shutil.copytree(TRIXIE, to)
    bundle = json.loads((to / "bundle.json").read_text())
    for case in bundle["results"]:
        if change is not None:
            change(case)
    (to / "findings.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in bundle["results"]))
    if killed:
        (to / "bundle.json").unlink()
    else:
        (to / "bundle.json").write_text(json.dumps(bundle))
    return to


def deviating(case: dict[str, Any]) -> None:
    """Make memory.high of the container in the case of throttling be something else than expected."""
    for finding in case["findings"]:
        if "crossing" in case["id"] and finding["knob"] == "memory.high" and finding["expected"] != "max":
            finding |= {"verdict": "deviates", "observed": "max"}
            case |= {"outcome": "deviates", "reason": f"memory.high of {finding['subject']} is max", "error_code": 1}
