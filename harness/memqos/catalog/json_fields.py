"""One JSON object of a file that a person wrote: its fields, taken with their checks."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field

from memqos.errors import ManifestError

__all__ = ["JsonFields", "parse_json"]


def parse_json(content: bytes, *, file: str) -> object:
    """A file's JSON; raises ManifestError for what is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError.at(f"is not JSON: {error}.", file=file) from error


@dataclass(frozen=True, slots=True)
class JsonFields:
    """An object and where it stands: the file, and the dotted field ("" is the top). Unknown fields are refused."""

    value: object
    file: str
    place: str
    known: Collection[str]
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.value, dict):
            raise self.error("", f"must be an object (got {shown(self.value)}).", self.value)
        for name in self.value:
            if name not in self.known:
                raise self.error(name, f"is not known here. Known: {', '.join(sorted(self.known))}.", name)
        object.__setattr__(self, "names", tuple(self.value))

    def error(self, name: str, what: str, got: object) -> ManifestError:
        """An error at one field of this object."""
        dotted = ".".join(part for part in (self.place, name) if part)
        return ManifestError.at(what, file=self.file, field=dotted, got=got)

    def get(self, name: str) -> object:
        """The field as it stands there, or None."""
        return self.value.get(name) if isinstance(self.value, dict) else None

    def number(self, name: str, *, low: int, high: int, absent: int | None = None) -> int:
        """A whole number from low to high; `absent` stands for a field that is not there, unless it is None."""
        got = self.get(name)
        if got is None and absent is not None:
            return absent
        if isinstance(got, bool) or not isinstance(got, int) or not low <= got <= high:
            raise self.error(name, f"must be a whole number from {low} to {high} (got {shown(got)}).", got)
        return got

    def text(self, name: str, *, absent: str = "") -> str:
        """A text; `absent` stands for a field that is not there."""
        got = self.get(name)
        if got is None:
            return absent
        if not isinstance(got, str):
            raise self.error(name, f"must be a text (got {shown(got)}).", got)
        return got

    def flag(self, name: str) -> bool | None:
        """true, false, or None for a field that is not there."""
        got = self.get(name)
        if got is not None and not isinstance(got, bool):
            raise self.error(name, f"must be true or false (got {shown(got)}).", got)
        return got

    def items(self, name: str, *, absent: list[object] | None = None) -> list[object]:
        """A list; not empty, unless it may be left out."""
        got = self.get(name)
        if got is None and absent is not None:
            return absent
        if not isinstance(got, list) or (absent is None and not got):
            raise self.error(name, f"must be a list that is not empty (got {shown(got)}).", got)
        return got

    def child(self, name: str, known: Collection[str]) -> JsonFields:
        """The object in a field; an empty one for a field that is not there."""
        got = self.get(name)
        place = ".".join(part for part in (self.place, name) if part)
        return JsonFields({} if got is None else got, self.file, place, known)


def shown(value: object) -> str:
    """A value as a message shows it."""
    return json.dumps(value)[:80]
