"""The one way to a person: text goes out through `say`, and nothing in it can move a cursor or colour a screen.

Names, values and notes come out of files. Whatever they hold, a control character is shown as what it is (\\x1b), and
so is a character that turns the direction of the text round, behind which another text could hide.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import click

from memqos.engine.plan import Plan

__all__ = ["for_terminal", "harmless", "say", "say_document", "say_ignored"]

_HARMFUL = re.compile(
    "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f"  # controls, but for the line feed
    "\\xad\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e007f"  # unseen
    "\\u2028\\u2029\\ud800-\\udfff]"  # other ends of lines, and halves of characters
)


_NARROWEST = 40
"""Narrower than this nothing can be read, whatever the terminal says of itself."""

_LABEL = re.compile(r" *(?:source|given|sum|rounding|cgroup|expected|look|seen|not written:) +")
_STYLES: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = (
    (re.compile(r"^memqos: (?:error|finding): "), {"fg": "red"}),
    (re.compile(r"^memqos: note: |^not observable: |^not judged|^taken to run on "), {"fg": "yellow"}),
    (re.compile(r"^\S.* (?:is .*, expected |is refused: )"), {"fg": "red", "bold": True}),
    (re.compile(r": \d+ conform, 0 deviate, \d+ not observable$"), {"fg": "green", "bold": True}),
    (re.compile(r": \d+ conform, \d+ deviate, \d+ not observable$"), {"fg": "red", "bold": True}),
    (re.compile(r"^ +(?:source|given|sum|rounding|because|look|not written:)(?: |$)"), {"dim": True}),
    (re.compile(r"^ *container \S+ of pod |^pod \S+/\S+ \("), {"bold": True}),
)
"""What a line of an answer is, by how it reads, and how it looks then; the first that fits."""


def harmless(text: str) -> str:
    """The text with every control character but the line feed written out, as Python writes it."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Write text for people to standard output, or to standard error.

    On a terminal it is wrapped at words to the terminal's width, and coloured unless NO_COLOR is set or the terminal
    is a dumb one. Anywhere else lines stay as they are, for other programs.
    """
    text = harmless(text)
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        text = for_terminal(text, width=shutil.get_terminal_size().columns, colours=colours)
    click.echo(text + end, err=err, nl=False)


def for_terminal(text: str, *, width: int, colours: bool) -> str:
    """A text, which must be harmless, as a terminal of so many columns shows it."""
    lines = [_coloured(line, _wrapped(line, max(width, _NARROWEST)), colours=colours) for line in text.split("\n")]
    return "\n".join(lines)


def _wrapped(line: str, width: int) -> str:
    """What goes on stands a little further in, below the text that it goes on with."""
    if len(line) <= width:
        return line
    label = _LABEL.match(line)
    hanging = " " * (label.end() if label else len(line) - len(line.lstrip()) + 4)
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line.lstrip(),
        width,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _coloured(line: str, wrapped: str, *, colours: bool) -> str:
    if colours:
        for form, style in _STYLES:
            if form.search(line):
                return "\n".join(click.style(one, **style) for one in wrapped.split("\n"))
    return wrapped


def say_document(document: Mapping[str, Any]) -> None:
    """Write a JSON object to standard output, a piece at a time: its lists may be iterators, which are not kept."""
    for number, (name, value) in enumerate(document.items()):
        click.echo(f"{',' if number else '{'}\n {json.dumps(name)}: ", nl=False)
        if isinstance(value, Iterator):
            empty = True
            for element in value:
                click.echo(f"{'[' if empty else ','}\n  {_indented(element, 2)}", nl=False)
                empty = False
            click.echo("[]" if empty else "\n ]", nl=False)
        else:
            click.echo(_indented(value, 1), nl=False)
    click.echo("\n}")


def _indented(value: object, depth: int) -> str:
    # No text in JSON holds a line feed as it is.
    return json.dumps(value, indent=1).replace("\n", "\n" + depth * " ")


def say_ignored(*plans: Plan) -> None:
    """A note on standard error for each field that was given though the release does not know it; once."""
    for one in dict.fromkeys(one for plan in plans for one in plan.ignored):
        say(f"memqos: note: {f'{one.origin}: ' if one.origin else ''}{one.field}: {one.what}.", err=True)
