"""The one way to a person: text goes out through `say`, and nothing in it can move a cursor or colour a screen.

Names, values and notes come out of files. Whatever they hold, a control character is shown as what it is (\\x1b), and
so is a character that turns the direction of the text round, behind which another text could hide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from memqos.engine.plan import Plan

__all__ = ["harmless", "say", "say_document", "say_ignored"]

_HARMFUL = re.compile(
    "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f"  # controls, but for the line feed
    "\\xad\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e007f"  # unseen
    "\\u2028\\u2029\\ud800-\\udfff]"  # other ends of lines, and halves of characters
)


def harmless(text: str) -> str:
    """The text with every control character but the line feed written out, as Python writes it."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Write text for people to standard output, or to standard error."""
    click.echo(harmless(text) + end, err=err, nl=False)


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
