"""Words that a report says again and again, and what a machine said as text for a terminal."""

from __future__ import annotations

__all__ = ["how_many", "known_count", "plain"]


def known_count(number: int) -> str:
    """How many deviations are listed, where some are."""
    return f", {number} known" if number else ""


def how_many(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain(text: str) -> str:
    """A text for a terminal: what a machine said may hold anything."""
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)
