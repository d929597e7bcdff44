"""Recorded results (tests/bundles), and copies of them that a test may change or break."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRIXIE = Path(__file__).parent / "bundles" / "trixie"

Change = Callable[[dict[str, Any]], None]


def copied(to: Path, *, change: Change | None = None, killed: bool = False) -> Path:
    """A copy of the recorded results. change: done to each case. killed: as a run leaves it that had no end."""
    shutil.copytree(TRIXIE, to)
    cases = cases_of(to)
    for case in cases:
        if change is not None:
            change(case)
    (to / "findings.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    if killed:
        (to / "bundle.json").unlink()
    else:
        bundle = json.loads((to / "bundle.json").read_text())
        (to / "bundle.json").write_text(json.dumps(of_these({**bundle, "reasons": []}, cases)))
    return to


def of_these(bundle: dict[str, Any], cases: list[dict[str, Any]]) -> dict[str, Any]:
    """A bundle of these cases, with the counts and the exit code that a run writes for them."""
    outcomes = Counter(case["outcome"] for case in cases)
    findings = [finding for case in cases for finding in case["findings"]]
    verdicts = Counter(finding["verdict"] for finding in findings)
    by_setter = Counter((finding.get("set_by", "unknown writer"), finding["verdict"]) for finding in findings)
    counts = bundle["counts"]
    observed = outcomes["conforms"] + outcomes["known"]
    return {
        **bundle,
        "exit_code": 1 if outcomes["deviates"] else 3 if outcomes["machinery"] else 0 if observed else 5,
        "counts": {
            **counts,
            "tests": {name: outcomes[name] for name in counts["tests"]},
            "findings": {name: verdicts[name] for name in counts["findings"]},
            "set_by": {
                setter: {verdict: by_setter[setter, verdict] for verdict in told}
                for setter, told in counts["set_by"].items()
            },
        },
        "results": cases,
    }


def cases_of(folder: Path) -> list[dict[str, Any]]:
    """The cases of findings.jsonl, each finding with its reason."""
    return [json.loads(line) for line in (folder / "findings.jsonl").read_text().splitlines()]


def deviating(case: dict[str, Any]) -> None:
    """Make memory.high of the container in the case of throttling be something else than expected."""
    for finding in case["findings"]:
        if "crossing" in case["id"] and finding["knob"] == "memory.high" and finding["expected"] != "max":
            finding |= {"verdict": "deviates", "observed": "max"}
            case |= {"outcome": "deviates", "reason": f"memory.high of {finding['subject']} is max", "error_code": 1}
