"""Output of the command line: all text goes through `say`, which writes control characters out.

Also errors for wrong words on the command line: what is wrong, what is similar, where to look.
"""

from __future__ import annotations

import difflib
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from memqos.engine.answer.document import JsonText
from memqos.engine.plan import Plan
from memqos.errors import ExitCode, UnknownNameError, UsageError
from memqos.face.text import for_terminal, harmless, takes_colours

__all__ = ["DEBUG", "KnownVerbs", "in_our_words", "say", "say_document", "say_ignored", "unknown_option"]

_ALIKE = 3
"""Up to so many notes with the same text are printed one by one."""

_AT_ONCE = 1 << 16
"""Characters of a JSON document that are written at once."""


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Write text for people to standard output, or to standard error.

    On a terminal it is wrapped at words to the terminal's width, and coloured unless NO_COLOR is set or the terminal
    is a dumb one. Anywhere else lines stay as they are, for other programs.
    """
    text = harmless(text)
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        text = for_terminal(text, width=shutil.get_terminal_size().columns, colours=takes_colours())
    click.echo(text + end, err=err, nl=False)


def say_document(document: Mapping[str, Any]) -> None:
    """Write a JSON object to standard output, some of it at a time: its lists may be iterators, which are not kept."""
    held: list[str] = []
    size = 0
    for piece in _pieces(document):
        held.append(piece)
        size += len(piece)
        if size > _AT_ONCE:
            click.echo("".join(held), nl=False)
            held, size = [], 0
    click.echo("".join(held), nl=False)


def _pieces(document: Mapping[str, Any]) -> Iterator[str]:
    texts = JsonText()
    for number, (name, value) in enumerate(document.items()):
        yield f"{',' if number else '{'}\n {json.dumps(name)}: "
        if isinstance(value, Iterator):
            empty = True
            for element in value:
                yield f"{'[' if empty else ','}\n  {texts.text(element, 2)}"
                empty = False
            yield "[]" if empty else "\n ]"
        else:
            yield texts.text(value, 1)
    yield "\n}\n"


def say_ignored(*plans: Plan) -> None:
    """Print a note on standard error for each input without effect, and for each remark of the plans; once.

    Of more than three notes with the same text for different pods or fields only the first is printed: a cluster may
    have thousands. The JSON document has each.
    """
    told = [(one.origin, one.field, one.what) for plan in plans for one in plan.ignored]
    told += [(one.origin, one.about, one.what) for plan in plans for one in plan.remarks]
    alike: dict[str, list[tuple[str, str]]] = {}
    for origin, about, what in dict.fromkeys(told):
        alike.setdefault(what, []).append((origin, about))
    for what, where in alike.items():
        shown = where if len(where) <= _ALIKE else where[:1]
        more = f" The same holds for {len(where) - 1} more; --json lists them." if len(where) > _ALIKE else ""
        for origin, about in shown:
            # The place of an option is its name.
            place = f"{origin}: " if origin and not about.startswith("--") else ""
            say(f"memqos: note: {place}{about}: {what}{'' if what.endswith('?') else '.'}{more}", err=True)


DEBUG = "debug"
"""Key in click's context object: whether to show tracebacks."""


class KnownVerbs(click.Group):
    """A group that prints its help where no verb is given, and whose error for an unknown verb lists its verbs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words after the group's name. Without any: the help, and the exit code of a usage error."""
        if not args and not ctx.resilient_parsing:
            say(ctx.get_help(), err=True)
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that the first word names. Raises UnknownNameError for another word."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UnknownNameError.of("command", args[0], self.list_commands(ctx), where=ctx.command_path)
        return super().resolve_command(ctx, args)


def in_our_words(error: click.UsageError) -> UsageError:
    """Click's usage error as a UsageError of memqos."""
    where = error.ctx.command_path if error.ctx is not None else "memqos"
    if isinstance(error, click.NoSuchOption):
        options = error.ctx.command.params if error.ctx is not None else ()
        return unknown_option(error.option_name, (word for option in options for word in option.opts), where=where)
    return UsageError(error.format_message(), where=where, next_step=_help(where))


def unknown_option(word: str, known: Iterable[str], *, where: str) -> UsageError:
    """The error for an unknown option."""
    name = word.partition("=")[0]
    close = difflib.get_close_matches(name, [option for option in known if option.startswith("--")], n=3, cutoff=0.7)
    meant = f"Did you mean {' or '.join(close)}? " if close else ""
    return UsageError(f"unknown option '{name}'.", where=where, next_step=f"{meant}{_help(where)}")


def _help(where: str) -> str:
    return f"See {where} --help."
