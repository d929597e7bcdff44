"""The layout of golden texts, for reviews in a diff."""

import json
import textwrap
from typing import Any

WIDTH = 120


def page(text: str) -> str:
    """A text with its long lines broken between words; a broken line ends with a backslash."""
    return "\n".join(broken for line in text.split("\n") for broken in _broken(line))


def _broken(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    margin = line[: len(line) - len(line.lstrip())]
    pieces = textwrap.wrap(
        line[len(margin) :],
        WIDTH - 2,
        initial_indent=margin,
        subsequent_indent=f"{margin}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(f"{piece} \\" for piece in pieces[:-1]), pieces[-1]]


def laid_out(value: Any, *, depth: int = 0, room: int = WIDTH) -> str:
    """A JSON document: a value that fits is one line; otherwise each field and each entry has its own lines."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= room or not isinstance(value, dict | list) or not value:
        return line
    margin = "  " * (depth + 1)
    fields = (
        ((f"{json.dumps(name)}: ", one) for name, one in value.items())
        if isinstance(value, dict)
        else (("", one) for one in value)
    )
    inner = [
        f"{margin}{name}{laid_out(one, depth=depth + 1, room=WIDTH - len(margin) - len(name) - 1)}"
        for name, one in fields
    ]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([begin, ",\n".join(inner), f"{'  ' * depth}{end}"])
