"""Files that are checked by types: what does not fit is rejected with the file, the line, the field and the next step.

msgspec compares a document with a type and stops at the first value that does not fit. What a value must be is in the
type: the description of its `Meta`, or else what follows from its kind.
"""

from __future__ import annotations

import datetime
import json
import re
import reprlib
import tomllib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast

import msgspec
from msgspec import inspect

from memqos.errors import ManifestError, UsageError
from memqos.plain_file import read_plain

__all__ = ["CheckedFile", "MisfitError", "Parsed", "Place", "checked", "dotted", "line_in", "parse_json"]

Kind = TypeVar("Kind")
Place = tuple[str | int, ...]

_BUILTIN = (datetime.date, datetime.time, datetime.datetime)
"""Types that TOML has: a quoted date is a string."""
_LONGEST_SHOWN = 80
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _LONGEST_SHOWN
"""Shows little of a value that is long or deeply nested."""
_MOST = 4 << 20
_NONE: Mapping[str, object] = {}


class Parsed(ABC):
    """A type of our own that is made of what a file has. words: what that must be, as a message says it."""

    words: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse(cls, value: object) -> Self:
        """The value; TypeError or ValueError for what is none."""


class MisfitError(ValueError):
    """A value does not fit its type. place: keys and indexes that lead to it."""

    def __init__(self, what: str, place: Place, got: object, next_step: str = "") -> None:
        super().__init__(what)
        self.what, self.place, self.got, self.next_step = what, place, got, next_step


def checked(value: object, kind: type[Kind], *, table: str = "an object") -> Kind:
    """The value as this type. table: what its format calls an object.

    Raises MisfitError for the first part of it that does not fit.
    """
    try:
        return msgspec.convert(value, kind, builtin_types=_BUILTIN, dec_hook=_parsed)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), value, kind, table) from None
    except UnicodeError:
        raise MisfitError("a text has characters that are not Unicode.", (), None) from None


def _parsed(kind: type, value: object) -> object:
    if not issubclass(kind, Parsed):
        raise TypeError(kind)
    try:
        return kind.parse(value)
    except (TypeError, ValueError):
        raise ValueError(f"Expected {kind.words}") from None


def dotted(place: Place) -> str:
    """A place as messages show it: "create.updates[0].limit"."""
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place).removeprefix(".")


def _misfit(told: str, value: object, kind: type, table: str) -> MisfitError:
    what, _, path = told.rpartition(" - at `$") if " - at `$" in told else (told, "", "")
    place: list[str | int] = []
    expected: inspect.Type | None = inspect.type_info(kind)
    for key, index, some in re.findall(r"\.([^.\[\]`]+)|\[(\d+)\]|(\[\.\.\.\])", path):
        step = _odd_key(value, expected) if some else key or int(index)
        if step is None:
            break
        value, expected = _at(value, step), _inner(expected, step)
        place.append(step)
    if name := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        known = ", ".join(field.encode_name for field in _fields(expected))
        return MisfitError(
            f"unknown field '{name[1][:_LONGEST_SHOWN]}'.", (*place, name[1]), _at(value, name[1]), f"Known: {known}."
        )
    if name := re.fullmatch(r"Object missing required field `(.*)`", what, re.DOTALL):
        return MisfitError(f"missing required field '{name[1]}'.", tuple(place), None)
    if not what.startswith(("Expected ", "Invalid ")):
        return MisfitError(what, tuple(place), value)
    called = f"'{dotted(tuple(place[-1:]))}'" if place else "it"
    return MisfitError(f"{called} must be {_words(expected, table)}, not {_SHOWN.repr(value)}.", tuple(place), value)


def _odd_key(value: object, expected: inspect.Type | None) -> str | None:
    """The key of the value that does not fit in an object of any keys: msgspec does not name it."""
    inner = _inner(expected, "")
    kinds: dict[Any, Any] = {inspect.StrType: str, inspect.IntType: int, inspect.DictType: dict}
    kind = getattr(inner, "cls", None) or kinds.get(type(inner))
    for key, one in value.items() if kind is not None and isinstance(value, dict) else ():
        try:
            msgspec.convert(one, kind, dec_hook=_parsed)
        except msgspec.ValidationError:
            return str(key)
    return None


def _at(value: object, step: str | int) -> object:
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


def _bare(kind: inspect.Type | None) -> inspect.Type | None:
    return _bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _inner(kind: inspect.Type | None, step: str | int) -> inspect.Type | None:
    """The type of what is at this key or index; None where that is not known."""
    match _bare(kind):
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            return inner if isinstance(step, int) else None
        case inspect.DictType(value_type=inner):
            return inner
    return next((field.type for field in _fields(kind) if field.encode_name == step), None)


def _fields(kind: inspect.Type | None) -> tuple[inspect.Field, ...]:
    match _bare(kind):
        case inspect.UnionType(types=types):
            return tuple(field for one in types for field in _fields(one))
        case inspect.StructType(fields=fields) | inspect.TypedDictType(fields=fields):
            return fields
    return ()


_WORDS: Mapping[type, str] = {
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.DateType: "a day such as 2027-01-31, without quotes",
}


def _words(kind: inspect.Type | None, table: str) -> str:
    """What a value of this type is, as a message says it."""
    words = _WORDS.get(type(kind), "something else")
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=schema):
            words = str((schema or {}).get("description", "")) or _words(inner, table)
        case inspect.UnionType(types=types):
            words = " or ".join(_words(one, table) for one in types if not isinstance(one, inspect.NoneType))
        case inspect.EnumType() | inspect.LiteralType():
            values = [one.value for one in kind.cls] if isinstance(kind, inspect.EnumType) else kind.values
            words = f"one of {', '.join(str(one) for one in values if one != '')}"
        case inspect.DictType(value_type=inner):
            words = table if isinstance(inner, inspect.AnyType) else f"{table}, each value {_words(inner, table)}"
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            words = "a list" if isinstance(inner, inspect.AnyType) else f"a list, each item {_words(inner, table)}"
        case inspect.StructType() | inspect.TypedDictType():
            words = table
        case inspect.CustomType(cls=cls) if issubclass(cls, Parsed):
            words = cls.words
    return words


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A TOML or JSON file. name: what errors call it. table: what its format calls an object."""

    name: str
    text: str
    document: Any
    table: str = "a table"

    @classmethod
    def json(cls, name: str, content: bytes) -> CheckedFile:
        """A JSON file's content. Raises ManifestError for what is not JSON, or has a key twice in one object."""
        return cls(name, content.decode("utf-8-sig", "replace"), parse_json(content, file=name), "an object")

    @classmethod
    def toml(cls, file: Path, *, what: str, most: int = _MOST) -> CheckedFile:
        """A plain file of `most` bytes or fewer. what: what it is, for the error if it cannot be read.

        Raises UsageError for a file that cannot be read, is not plain or too long, ManifestError for what is not TOML.
        """
        try:
            text = read_plain(file, most=most).decode()
            return cls(str(file), text, tomllib.loads(text))
        except OSError as error:
            raise UsageError(f"{what} cannot be read: {error.strerror}.", where=str(file)) from None
        except UnicodeDecodeError:
            raise ManifestError.at("the file is not TOML: it is not UTF-8.", file=str(file)) from None
        except RecursionError:
            raise ManifestError.at("the nesting is deeper than memqos reads.", file=str(file)) from None
        except ValueError as error:
            # What Python says of a number with thousands of digits comes with advice behind a semicolon.
            told, line = str(error).partition(";")[0], re.search(r"at line (\d+)", str(error))
            raise ManifestError.at(
                f"the file is not TOML: {told}.", file=str(file), line=int(line[1]) if line else 0
            ) from None

    def error(
        self, what: str, place: Place, *, field: str | None = None, got: object = None, next_step: str = ""
    ) -> ManifestError:
        """What is wrong at a place, with its line or else its parent. field: what to call it; None is its path."""
        line, called = self._line(place), dotted(place) if field is None else field
        return ManifestError.at(what, file=self.name, line=line, field=called, got=got, next_step=next_step)

    def where(self, place: Place) -> str:
        """A place as errors name it."""
        line = self._line(place)
        return f"{self.name}:{line}: {dotted(place)}" if line else f"{self.name}: {dotted(place)}"

    def _line(self, place: Place) -> int:
        if self.table == "an object":
            return next((line for end in range(len(place), 0, -1) if (line := line_in(self.text, place[:end]))), 0)
        lines = dict(_lines(self.text))
        return next((lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), 0)

    def checked(
        self,
        place: Place,
        kind: type[Kind],
        *,
        field: str = "",
        value: object = None,
        more: Mapping[str, object] = _NONE,
    ) -> Kind:
        """What is at a place as this type. Raises ManifestError for what does not fit.

        field: what an error calls the place; "" for its dotted path. value: taken instead of what is there.
        more: fields that the file may not have itself.
        """
        if value is None:
            value = reduce(_at, place, cast("object", self.document))
        try:
            return checked(_joined(value, more), kind, table=self.table)
        except MisfitError as error:
            # A field that is missing is named in words, and so is the last part of a place; what it is in comes before.
            is_missing = error.what.startswith("missing required field")
            called, within = field or dotted(place), dotted(error.place if is_missing else error.place[:-1])
            called += f".{within}" if called and within[:1] not in {"", "["} else within
            whole = (*place, *error.place)
            raise self.error(error.what, whole, field=called, got=error.got, next_step=error.next_step) from None


def _joined(value: object, more: Mapping[str, object]) -> object:
    if not more or not isinstance(value, dict):
        return value
    if both := sorted(set(more) & set(value)):
        raise MisfitError(f"unknown field '{both[0]}'.", (both[0],), value[both[0]])
    return {**value, **more}


_HEAD = re.compile(r"\s*(\[\[?)\s*([^]]*?)\s*\]")
_PART = r"""(?:[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")


def _lines(text: str) -> Iterator[tuple[Place, int]]:
    """The places of tables and of keys at the beginning of a line, with their lines from 1 on."""
    table: Place = ()
    lengths: dict[Place, int] = {}
    quotes = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not quotes:
            if head := _HEAD.match(line):
                table = _resolved(_parts(head[2]), lengths)
                if head[1] == "[[":
                    at = lengths[table] = lengths.get(table, -1) + 1
                    table = (*table, at)
                yield table, number
            elif key := _KEY.match(line):
                yield (*table, *_parts(key[1])), number
        for found in re.findall(r'"""|\'\'\'', line):
            quotes = "" if quotes == found else quotes or found


def _resolved(path: Place, lengths: Mapping[Place, int]) -> Place:
    """A table's path; below an array of tables it is of the array's last one."""
    found: Place = ()
    for number, part in enumerate(path, start=1):
        found = (*found, part)
        if found in lengths and number < len(path):
            found = (*found, lengths[found])
    return found


def _parts(text: str) -> Place:
    return tuple(_unquoted(one) for one in re.findall(_PART, text))


def _unquoted(part: str) -> str:
    if part[0] != '"':
        return part.strip("'")
    try:
        return str(json.loads(part))
    except ValueError:
        return part[1:-1]


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
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"byte {problem.start} is not UTF-8.", line) from None
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
