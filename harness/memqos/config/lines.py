"""The lines of values in a settings file, which tomllib and configparser do not report."""

from __future__ import annotations

import re

__all__ = ["line_of"]


def line_of(text: str, section: str, key: str = "") -> int:
    """The line, from 1 on, of a key below a section's head; of the head itself without a key. 0 where none is found."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        head = re.match(r"\s*\[([^]]*)\]", line)
        if head and "=" not in line.partition("]")[0]:
            inside = head[1].replace(" ", "").strip("\"'") == section
            if inside and not key:
                return number
        elif inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=:]", line):
            return number
    return 0
