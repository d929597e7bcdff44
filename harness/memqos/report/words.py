"""Texts that several reports use, and safe text for a terminal.

The command that runs one test of a run again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from memqos.report.bundle import Bundle
from memqos.report.outcome import TestResult

__all__ = ["again", "how_many", "known_count", "plain", "slug"]

_LONGEST_NAME = 120


def known_count(number: int) -> str:
    """The number of known deviations; "" for 0."""
    return f", {number} known" if number else ""


def how_many(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain(text: str) -> str:
    """A text with control characters written out, since it comes from a machine."""
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def slug(text: str) -> str:
    """A name for a folder: letters, digits and a few signs; of a longer text the last 120 characters."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "_", text).strip("_")[-_LONGEST_NAME:]


_LISTS = {"profile", "runtime", "driver"}
"""Settings that name a case; their values are one option, separated by commas."""
_NOT_AGAIN = {"results", "shard", "last_failed", "keep_vm", "kubernetes", "time_budget", "all"}
"""Settings of a whole run that must not be repeated for one test."""


def again(bundle: Bundle, result: TestResult, *, suites: str = "") -> str:
    """The command that reruns this test with the same settings; in merged results with those of the test's part.

    suites: the folder of the cases, "" for memqos's own suites.
    """
    words = ["memqos", "run"]
    settings = _settings(bundle, result)
    for name, setting in settings.items():
        value = setting["value"]
        if setting["origin"] == "default" or name in _NOT_AGAIN or value in (None, False, []):
            continue
        option = f"--{name.replace('_', '-')}"
        if name in _LISTS and isinstance(value, (list, tuple)):
            words += [option, ",".join(map(str, value))]
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += [option, str(one)]
    for name, value in _system(result).items() if bundle.merged else ():
        if value and name not in settings:
            words += [f"--{name}", value]
    words += [word for release in _releases(settings, result) for word in ("--kubernetes", release)]
    return shlex.join([*words, f"{suites}/{result.id}" if suites else result.id])


def _settings(bundle: Bundle, result: TestResult) -> Mapping[str, Mapping[str, Any]]:
    """The settings of the test's run; merged results prefix them with the name of the part."""
    named = (result.machine, result.folder.partition("/")[2])
    parts = bundle.merged.parts if bundle.merged else ()
    own = [part for part in parts if any(name.startswith(f"{part.name}-") for name in named)]
    return max(own, key=lambda part: len(part.name)).settings if own else bundle.settings


def _system(result: TestResult) -> Mapping[str, str]:
    """The options that select the test's system, for merged results that lack the settings of its part."""
    is_there = "://" in result.profile
    return {"target" if is_there else "profile": result.profile, "runtime": result.runtime, "driver": result.driver}


def _releases(settings: Mapping[str, Mapping[str, Any]], result: TestResult) -> list[str]:
    """The release of a case, if it was selected by --kubernetes: the catalogue may have no kubelet for it."""
    asked = settings.get("kubernetes", {}).get("value")
    return [release for release in (asked if isinstance(asked, list) else ()) if f"[v{release}" in result.id]
