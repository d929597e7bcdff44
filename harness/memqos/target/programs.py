"""What the programs of a machine say that they are."""

from __future__ import annotations

import re

__all__ = ["version_in"]

VERSION = re.compile(r"(?:v|release-)?\d{1,9}\.\d[\w.+~:-]{0,60}|\d{1,5}", re.ASCII)
"""What a version looks like; the hash of a commit, which may begin with a digit too, is none."""


def version_in(text: str) -> str | None:
    """The version in a program's first line: the first word that begins like 1.2, or is a number; None without one."""
    words = text.partition("\n")[0].split()
    return next((word for word in words if VERSION.fullmatch(word)), None)
