"""Checks a document against a table of fields: unknown fields and wrong types, with file, line and dotted field.

Access to a checked mapping: a missing value, or one of another type, counts as not given.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memqos.catalog.yaml_nodes import MappingEntry, MappingNode, Node, ScalarNode, SequenceNode
from memqos.errors import ManifestError
from memqos.model.quantity import Quantity, QuantityError

__all__ = [
    "LARGEST",
    "FieldPath",
    "Fields",
    "UnknownField",
    "check",
    "known_quantity",
    "mapping",
    "parse_fields",
    "quantity_of",
    "strings",
    "text",
    "text_list",
    "whole",
    "without_unknown",
]

LARGEST = 2**63 - 1

_BLANKS = " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""The characters that Go's strings.TrimSpace removes, without those that Go's JSON escapes (\\n, \\t, U+2028).

Source: apimachinery, resource.Quantity.UnmarshalJSON; encoding/json, appendString.
"""

Fields = Mapping[str, Mapping[str, str]]
"""Type name to its fields, field name to type."""

_HEAD = re.compile(r"^(\w+):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The place of a value: file and dotted field; the node has its line."""

    file: str
    field: str = ""

    def child(self, *names: str) -> FieldPath:
        """A field of this value. A name with dots or slashes is in brackets."""
        field = self.field
        for name in names:
            bracketed = "." in name or "/" in name
            dotted = f"{field}.{name}" if field else name
            field = f"{field}[{name}]" if bracketed else dotted
        return FieldPath(self.file, field)

    def item(self, index: int) -> FieldPath:
        """An element of this list."""
        return FieldPath(self.file, f"{self.field}[{index}]")

    def error(self, what: str, line: int, *, got: object = None, next_step: str = "") -> ManifestError:
        """An error at this place; a value from an option has no line."""
        line = 0 if self.file.startswith("--") else line
        return ManifestError.at(what, file=self.file, line=line, field=self.field, got=got, next_step=next_step)


def parse_fields(text: str) -> dict[str, dict[str, str]]:
    """The table in a text: `Type: field type, field type, …`."""
    table: dict[str, dict[str, str]] = {}
    heads = list(_HEAD.finditer(text))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : following.start() if following else len(text)]
        table[head[1]] = dict(pair.split() for pair in body.replace("\n", " ").split(",") if pair.strip())
    return table


def check(node: Node, kind: str, fields: Fields, place: FieldPath) -> None:
    """Raise ManifestError for the first unknown field or wrong type below `node`, which must be a `kind`.

    As in Kubernetes, null counts as not given.
    """
    if not _fits(node, kind, fields):
        _check(node, kind, fields, place)


def _fits(node: Node, kind: str, fields: Fields) -> bool:
    """Whether `_check` certainly finds nothing, without computing places, which only errors need."""
    if isinstance(node, ScalarNode):
        value, wanted = node.value, _PLAIN.get(kind)
        if wanted is not None:
            return value is None or type(value) in wanted
        if type(value) is int and kind == "int":
            return -LARGEST <= value <= LARGEST
        return value is None or (kind == "quantity" and known_quantity(node) is not None)
    if isinstance(node, MappingNode):
        return _mapping_fits(node, kind, fields)
    if kind.startswith("[]"):
        kind = kind[2:]
        return all([_fits(item, kind, fields) for item in node.items])  # noqa: C419 - quicker than a generator
    return kind == "any"


def _mapping_fits(node: MappingNode, kind: str, fields: Fields) -> bool:
    if kind.startswith("map["):
        kind = kind[4:-1]
        return all([_fits(entry.value, kind, fields) for entry in node.entries])  # noqa: C419
    known = fields.get(kind)
    if known is None:
        return kind in _ANYTHING
    for entry in node.entries:
        if entry.key not in known or not _fits(entry.value, known[entry.key], fields):
            return False
    return True


def known_quantity(node: Node) -> Quantity | None:
    """The quantity in a text scalar; None for any other scalar."""
    return _quantity_in(node.value) if isinstance(node, ScalarNode) and isinstance(node.value, str) else None


@functools.lru_cache(maxsize=1024)
def _quantity_in(text: str) -> Quantity | None:
    try:
        return quantity_of(ScalarNode(text, text, 0), FieldPath(""))
    except ManifestError:
        return None


def _check(node: Node, kind: str, fields: Fields, place: FieldPath) -> None:
    if isinstance(node, ScalarNode) and node.value is None:
        return
    if kind.startswith("[]"):
        for index, item in enumerate(_sequence(node, place).items):
            _check(item, kind[2:], fields, place.item(index))
    elif kind.startswith("map["):
        for entry in _mapping(node, place).entries:
            _check(entry.value, kind[4:-1], fields, place.child(entry.key))
    elif kind in fields:
        _check_fields(_mapping(node, place), kind, fields, place)
    else:
        _CHECKS[kind](node, place)


def _check_fields(node: MappingNode, kind: str, fields: Fields, place: FieldPath) -> None:
    known = fields[kind]
    for entry in node.entries:
        if entry.key not in known:
            raise _unknown(entry.key, entry.line, list(known), place)
        _check(entry.value, known[entry.key], fields, place.child(entry.key))


def _unknown(name: str, line: int, known: list[str], place: FieldPath) -> ManifestError:
    hint = _meant(name, known)
    shown = _shown(name)
    return place.child(shown).error(
        f"unknown field '{shown}'.", line, got=name, next_step=f"Did you mean '{hint}'?" if hint else ""
    )


def _meant(name: str, known: list[str]) -> str:
    """The known name that differs only in case, or else the nearest one; "" for none."""
    near = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.6)
    same = [one for one in known if one.lower() == name.lower()]
    return (*same, *near, "")[0]


def _shown(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:77]}..."  # noqa: PLR2004 - a line's width


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that no table has: its place, its line, its name, and the known field that it may be a slip of, or ""."""

    place: FieldPath
    line: int
    name: str
    meant: str

    @property
    def shown(self) -> str:
        """The name, cut to a line's width."""
        return _shown(self.name)


def without_unknown(
    node: MappingNode, kind: str, fields: Fields, place: FieldPath
) -> tuple[MappingNode, tuple[UnknownField, ...]]:
    """A `kind` without the fields that its table does not have, at every level, and those fields."""
    found: list[UnknownField] = []
    known = fields[kind]
    entries = []
    for entry in node.entries:
        if entry.key not in known:
            meant = _meant(entry.key, list(known))
            found.append(UnknownField(place.child(_shown(entry.key)), entry.line, entry.key, meant))
            continue
        kept, more = _value_without(entry.value, known[entry.key], fields, place.child(entry.key))
        entries.append(entry if not more else MappingEntry(entry.key, entry.line, kept))
        found += more
    return (MappingNode(tuple(entries), node.line) if found else node), tuple(found)


def _value_without(node: Node, kind: str, fields: Fields, place: FieldPath) -> tuple[Node, tuple[UnknownField, ...]]:
    if isinstance(node, MappingNode) and kind in fields:
        return without_unknown(node, kind, fields, place)
    if isinstance(node, SequenceNode) and kind.startswith("[]"):
        pairs = [_value_without(item, kind[2:], fields, place.item(index)) for index, item in enumerate(node.items)]
        found = tuple(one for _, more in pairs for one in more)
        return SequenceNode(tuple(item for item, _ in pairs), node.line), found
    return node, ()


def _mapping(node: Node, place: FieldPath) -> MappingNode:
    if not isinstance(node, MappingNode):
        raise _wrong(node, "a mapping of fields", place)
    return node


def _sequence(node: Node, place: FieldPath) -> SequenceNode:
    if not isinstance(node, SequenceNode):
        raise _wrong(node, "a list", place)
    return node


_QUOTED = re.compile(r"true|false|-?\d{1,20}(\.\d{1,20})?", re.ASCII)
"""A text in quotes that is another value without them."""


def _wrong(node: Node, wanted: str, place: FieldPath) -> ManifestError:
    next_step = ""
    if isinstance(node, ScalarNode):
        got = f"'{node.text[:80]}'"
        if wanted == "a string":
            next_step = f'Put it in quotes: "{node.text[:80]}".'
        elif isinstance(node.value, str) and _QUOTED.fullmatch(node.value):
            next_step = f"Write it without quotes: {node.value}."
    else:
        got = "a list" if isinstance(node, SequenceNode) else "a mapping"
    return place.error(f"expected {wanted}, got {got}.", node.line, got=got, next_step=next_step)


def quantity_of(node: Node, place: FieldPath) -> Quantity:
    """The quantity in a scalar; ManifestError if it is none."""
    if not isinstance(node, ScalarNode) or isinstance(node.value, bool) or node.value is None:
        raise _wrong(node, "a quantity", place)
    # Kubernetes reads numbers through JSON: a YAML octal or a float is a number first, then a quantity. It also drops
    # blanks around a quantity; a line feed or a tab is two characters in JSON and stays.
    text = node.value.strip(_BLANKS) if isinstance(node.value, str) else _json_number(node.value)
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise place.error(f"{error}.", node.line, got=node.text[:80]) from None
    if quantity.amount == LARGEST and text != str(LARGEST):
        raise place.error(f"'{text[:40]}' is above Kubernetes' maximum of 2^63-1.", node.line, got=text[:80])
    return quantity


def _json_number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    text = repr(value)
    return text.removesuffix(".0").replace("e+", "e")


def _scalar(kinds: tuple[type, ...], wanted: str) -> Callable[[Node, FieldPath], None]:
    def checked(node: Node, place: FieldPath) -> None:
        right = isinstance(node, ScalarNode) and isinstance(node.value, kinds)
        if right and isinstance(node, ScalarNode) and isinstance(node.value, bool) and bool not in kinds:
            right = False
        if not right:
            raise _wrong(node, wanted, place)

    return checked


def _int(node: Node, place: FieldPath) -> None:
    _scalar((int,), "a whole number")(node, place)
    if isinstance(node, ScalarNode) and isinstance(node.value, int) and not -LARGEST <= node.value <= LARGEST:
        raise place.error(f"{node.text[:40]} is not a number that 64 bits hold.", node.line, got=node.text[:80])


def _quantity(node: Node, place: FieldPath) -> None:
    quantity_of(node, place)


def _object(node: Node, place: FieldPath) -> None:
    _mapping(node, place)


def _any(node: Node, place: FieldPath) -> None:
    del node, place


_CHECKS: dict[str, Callable[[Node, FieldPath], None]] = {
    "string": _scalar((str,), "a string"),
    "bool": _scalar((bool,), "true or false"),
    "int": _int,
    "number": _scalar((int, float), "a number"),
    "intOrString": _scalar((int, str), "a whole number or a string"),
    "time": _scalar((str,), "a time"),
    "duration": _scalar((str,), 'a duration such as "1m30s"'),
    "quantity": _quantity,
    "object": _object,
    "any": _any,
}
_PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    "number": (int, float),
    "intOrString": (int, str),
    "time": (str,),
    "duration": (str,),
    "any": (str, int, float, bool),
}
"""Types of scalars that are checked by the value's type alone."""
_ANYTHING = ("object", "any")


def text(node: MappingNode, name: str) -> str:
    """A string; "" if it was not given."""
    value = node.get(name)
    return value.value if isinstance(value, ScalarNode) and isinstance(value.value, str) else ""


def said_in_status(node: MappingNode) -> str:
    """What a Status says, the API server's answer instead of an object, in 200 characters at most."""
    return (text(node, "message") or text(node, "reason") or "no message")[:200]


def whole(node: MappingNode, name: str) -> int | None:
    """A whole number."""
    value = node.get(name)
    return value.value if isinstance(value, ScalarNode) and isinstance(value.value, int) else None


def text_list(node: MappingNode, name: str) -> tuple[str, ...]:
    """The strings of a list."""
    value = node.get(name)
    if not isinstance(value, SequenceNode):
        return ()
    return tuple(item.text for item in value.items if isinstance(item, ScalarNode))


def strings(node: Node | None) -> dict[str, str]:
    """The scalars of a mapping."""
    if not isinstance(node, MappingNode):
        return {}
    return {entry.key: entry.value.text for entry in node.entries if isinstance(entry.value, ScalarNode)}


def mapping(node: MappingNode, name: str) -> MappingNode:
    """A mapping; an empty one if it was not given."""
    value = node.get(name)
    return value if isinstance(value, MappingNode) else MappingNode((), node.line_of(name))
