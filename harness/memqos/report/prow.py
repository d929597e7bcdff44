"""`started.json` and `finished.json`, from which Prow's Spyglass and TestGrid take a job's times and result. Pure.

Source: kubernetes/test-infra, gubernator/README.md, "Job Artifact GCS Layout"; TestGrid, metadata.Started, Finished.
"""

from __future__ import annotations

import datetime
import json

from memqos.errors import ExitCode
from memqos.report.bundle import Bundle
from memqos.report.verdict import verdict_line

__all__ = ["files_of", "finished_json", "started_json"]

_RESULTS = {ExitCode.CONFORMS: "SUCCESS", ExitCode.INTERRUPTED: "ABORTED"}


def files_of(bundle: Bundle) -> dict[str, str]:
    """Both files by name, without empty ones."""
    found = {"started.json": started_json(bundle), "finished.json": finished_json(bundle)}
    return {name: text for name, text in found.items() if text}


def started_json(bundle: Bundle) -> str:
    """`started.json`: the start in seconds since 1970; "" if unknown."""
    return _document({"timestamp": _seconds(bundle.started)}) if bundle.started else ""


def finished_json(bundle: Bundle) -> str:
    """`finished.json`: end, result, and the system under test; "" for a killed run."""
    if not bundle.ended:
        return ""
    code = ExitCode(bundle.exit_code)
    versions = {f"{one.get('id', '?')}": ", ".join(map(str, one.get("runtimes", ()))) for one in bundle.machines}
    return _document(
        {
            "timestamp": _seconds(bundle.ended),
            "passed": code is ExitCode.CONFORMS,
            "result": _RESULTS.get(code, "FAILURE"),
            "metadata": {"verdict": verdict_line(bundle).removeprefix("verdict: "), **versions},
        }
    )


def _seconds(moment: str) -> int:
    return int(datetime.datetime.fromisoformat(moment).timestamp())


def _document(value: dict[str, object]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
