"""The files that a plan was made of, as a person gave them: pods, and the kubelet's configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from memqos.report.as_json import Json

__all__ = ["manifests_text"]

LONGEST = 64 << 10
"""A longer file is named and not kept: no manifest is."""

_ORIGIN = re.compile(r"^(?P<file>.+\.(?:ya?ml|json)):\d+$")


def manifests_text(plan: Json) -> str:
    """The files that a plan's document names as origins, each once behind its name; "" if none of them is there."""
    files = dict.fromkeys(found["file"] for origin in _origins(plan) if (found := _ORIGIN.match(origin)))
    return "---\n".join(text for text in map(_text, map(Path, files)) if text)


def _origins(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(origin := value.get("origin"), str):
            yield origin
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _origins(one)


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LONGEST:
            return f"# {file.name} is longer than {LONGEST >> 10} KiB\n"
        text = file.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:
        return ""
    return f"# {file.name}\n{text.rstrip()}\n"
