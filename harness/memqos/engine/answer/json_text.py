"""JSON as indented text, quick for the long documents of plans: what many cgroups share is written once.

The text is what `json.dumps(value, indent=1)` makes of the same values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted

from memqos.engine.pod.alike import slot, slots_in

__all__ = ["JsonText", "Slotted", "Template"]

_KEPT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A document, perhaps with slots in its texts; equal only to itself."""

    document: object


@dataclass(frozen=True, slots=True)
class Slotted:
    """A document of which all that is shared is in `template`; names: what goes into its slots."""

    template: Template
    names: tuple[str, ...] = ()


class JsonText:
    """Makes text of documents whose values may be `Slotted`, and keeps what it made of the last templates."""

    def __init__(self) -> None:
        self._cut = lru_cache(maxsize=_KEPT)(_parts)
        self._whole = lru_cache(maxsize=_KEPT)(_plain)

    def text(self, value: object, depth: int = 0) -> str:
        """The text of a value that stands `depth` levels deep."""
        return _text(value, "\n" + depth * " ", quoted, self._filled)

    def _filled(self, value: Slotted, line: str) -> str:
        if not value.names:
            return self._whole(value.template, line)
        parts, numbers = self._cut(value.template, line)
        if numbers:
            names = [quoted(name)[1:-1] for name in value.names]
            parts = parts.copy()
            parts[1::2] = [names[number] for number in numbers]
        return "".join(parts)


def _parts(template: Template, line: str) -> tuple[list[str], list[int]]:
    """The text of a template cut at its slots, every second part a slot's, and the slots' numbers."""
    parts = slots_in(_text(template.document, line, _quoted_around_slots, _nothing_slotted))
    return parts, [int(number) for number in parts[1::2]]


def _plain(template: Template, line: str) -> str:
    """The text of a template without slots; what looks like one is a person's."""
    return _text(template.document, line, quoted, _nothing_slotted)


def _quoted_around_slots(text: str) -> str:
    if text.isascii():
        return quoted(text)
    parts = slots_in(text)
    parts[::2] = [quoted(part)[1:-1] for part in parts[::2]]
    parts[1::2] = [slot(int(number)) for number in parts[1::2]]
    return f'"{"".join(parts)}"'


def _nothing_slotted(value: Slotted, line: str) -> str:
    raise TypeError(f"a template inside a template: {value.template.document!r} at {line!r}")


def _text(value: object, line: str, quote: Callable[[str], str], fill: Callable[[Slotted, str], str]) -> str:
    """line: a line feed, and the indentation of the value's own line.

    Most values are texts: for these it does not call itself, which is twice as quick.
    """
    if isinstance(value, str):
        return quote(value)
    inner = line + " "
    if isinstance(value, dict):
        parts = [
            f"{quoted(name)}: {quote(one) if type(one) is str else _text(one, inner, quote, fill)}"
            for name, one in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}" if parts else "{}"
    if isinstance(value, list | tuple):
        parts = [quote(one) if type(one) is str else _text(one, inner, quote, fill) for one in value]
        return f"[{inner}{f',{inner}'.join(parts)}{line}]" if parts else "[]"
    return fill(value, line) if isinstance(value, Slotted) else json.dumps(value)
