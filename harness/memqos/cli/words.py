"""Errors for wrong words on the command line: what is wrong, what is similar, where to look."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import click

from memqos.errors import UnknownNameError, UsageError

__all__ = ["DEBUG", "KnownVerbs", "in_our_words", "unknown_option"]

DEBUG = "debug"
"""Key in click's context object: whether to show tracebacks."""


class KnownVerbs(click.Group):
    """A group whose error for an unknown verb lists its verbs."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that the first word names. Raises UnknownNameError for another word."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UnknownNameError.of("verb", args[0], self.list_commands(ctx), where=ctx.command_path)
        return super().resolve_command(ctx, args)


def in_our_words(error: click.UsageError) -> UsageError:
    """Click's usage error as ours."""
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
