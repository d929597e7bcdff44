"""The command that runs one test of a run again."""

from __future__ import annotations

import shlex

from memqos.report.bundle import Bundle
from memqos.report.outcome import TestResult

__all__ = ["again"]

_LISTS = {"profile", "runtime", "driver"}
"""Settings whose values are one option, separated by commas: what a case is named by."""
_NOT_AGAIN = {"results", "shard", "last_failed", "keep_vm", "kubernetes", "time_budget", "all"}
"""Settings that are about a whole run, and not about one test of it."""


def again(bundle: Bundle, result: TestResult, *, suites: str = "") -> str:
    """The command that runs this one test again with the same settings.

    suites: the folder that the cases are in, "" for memqos's own suites.
    """
    words = ["memqos", "run"]
    for name, setting in bundle.settings.items():
        value = setting["value"]
        if setting["origin"] == "default" or name in _NOT_AGAIN or value in (None, False, []):
            continue
        option = f"--{name.replace('_', '-')}"
        if name in _LISTS and isinstance(value, (list, tuple)):
            words += [option, ",".join(map(str, value))]
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += [option, str(one)]
    words += [word for release in _releases(bundle, result) for word in ("--kubernetes", release)]
    return shlex.join([*words, f"{suites}/{result.id}" if suites else result.id])


def _releases(bundle: Bundle, result: TestResult) -> list[str]:
    """The release that a case was run for, where it was asked for: the catalogue may have no kubelet of that."""
    asked = bundle.settings.get("kubernetes", {}).get("value") or ()
    return [release for release in asked if f"[v{release}" in result.id]
