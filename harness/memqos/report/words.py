"""Texts that several reports use, and safe text for a terminal."""

from __future__ import annotations

import re

__all__ = ["how_many", "known_count", "plain", "slug"]

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
