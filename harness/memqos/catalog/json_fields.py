"""One JSON object of a file that a person wrote: its fields, taken with their checks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from memqos.errors import ManifestError

__all__ = ["JsonFields", "line_in", "parse_json"]


def parse_json(content: bytes, *, file: str, next_step: str = "") -> object:
    """A file's JSON; raises ManifestError for what is none, and for an object that has a key twice."""

    def error(what: str, line: int = 0) -> ManifestError:
        return ManifestError.at(what, file=file, line=line, next_step=next_step)

    def single(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
            raise error(f"the key '{twice[:80]}' occurs twice in one object.")
        return found

    try:
        return json.loads(content.decode("utf-8-sig"), parse_constant=_no_number, object_pairs_hook=single)
    except UnicodeDecodeError as problem:
        raise error(f"byte {problem.start} is not UTF-8.") from None
    except json.JSONDecodeError as problem:
        # Where a text or object begins that does not end is the column.
        what = problem.msg.removesuffix(" starting at")
        raise error(f"this is not JSON, at column {problem.colno}: {what}.", problem.lineno) from None
    except ValueError as problem:
        # What Python says of a number with thousands of digits comes with advice behind a colon.
        raise error(f"this is not JSON that memqos accepts: {str(problem).partition(':')[0]}.") from None
    except RecursionError:
        raise error("the nesting is deeper than memqos reads.") from None


_SPACE = re.compile(r"[ \t\r\n]*")


def line_in(text: str, place: Iterable[str | int]) -> int:
    """The line, from 1 on, of the value that these keys and indexes lead to in a JSON text; 0 if they do not."""
    decoder, at = json.JSONDecoder(), _after_space(text, 0)
    for step in place:
        number, found = 0, None
        at = _after_space(text, at + 1)
        while found is None and text[at : at + 1] not in {"]", "}", ""}:
            key: object = number
            if isinstance(step, str):
                key, at = decoder.raw_decode(text, at)
                at = _after_space(text, _after_space(text, at) + 1)
            if key == step:
                found = at
            else:
                at = _after_space(text, decoder.raw_decode(text, at)[1])
                at = _after_space(text, at + 1) if text[at : at + 1] == "," else at
            number += 1
        if found is None:
            return 0
        at = found
    return text.count("\n", 0, at) + 1


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number")


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
