"""JSON objects as the nodes of `yaml_nodes`, in a quarter of the time.

JSON is YAML, and the YAML reader defines the meaning. This reader handles only text with the same result: the elements
of a first document's `items`. At the first other text it stops before that object, and the YAML reader continues from
there, with its usual errors, bounds and lines.

Nodes are made on first use: most of a running pod's text is its status, of which little is used.
"""

from __future__ import annotations

import codecs
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from memqos.catalog.yaml_nodes import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    Item,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    ScalarValue,
    SequenceNode,
    parse_objects,
    plain_number,
)

__all__ = ["read_objects"]

_BEGIN = 1 << 14
_PIECE = 1 << 16
_LARGEST = MAX_BYTES - (1 << 16)
"""In bytes. The YAML reader also counts the bytes read ahead, and names the line where an object is too large."""

_LONGEST_KEY = 150
"""In characters. YAML's bound for a key is 1,024 written characters, of which one character takes up to six."""

_SPACE = re.compile(r"[ \n]*")
_KEY = re.compile(r'"([A-Za-z]{1,60})" *: *')
_OTHER_LAYOUT = re.compile(r"\n(?: *[\n:,]|(?<=[\[{]\n) *[\]}])|[ \t\r:]\n")
"""Exceptions from one value a line: a blank line, a line break within an entry, an empty collection in two lines."""

_UNLIKE_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\\u[dD][89a-fA-F]")
"""Characters that YAML refuses or treats as line breaks, and halves of surrogate pairs, which it refuses."""

_Heights = dict[int, int]


class _UnlikeYamlError(ValueError):
    """This reader may read the text differently from the YAML reader."""


class _Layout:
    """The layout of a text's values: all in one line, or each in its own line.

    step: lines of a scalar, 0 or 1. heights: lines of each collection, by id, if not `step`. root: keeps the
    collections alive, so that their ids stay.
    """

    __slots__ = ("heights", "root", "step")

    def __init__(self, root: object, step: int, heights: _Heights) -> None:
        self.root = root
        self.step = step
        self.heights = heights


class _Mapping(MappingNode):
    """A mapping whose entries are made on first use."""

    __slots__ = ("_layout", "_values")

    def __init__(self, values: dict[str, Any], line: int, layout: _Layout) -> None:
        self.line = line
        self._values = values
        self._layout = layout

    def __getattr__(self, name: str) -> tuple[MappingEntry, ...]:
        if name != "entries":
            raise AttributeError(name)
        nodes = _nodes(self._values.values(), self.line, self._layout)
        self.entries = tuple(
            [MappingEntry(key, node.line, node) for key, node in zip(self._values, nodes, strict=True)]
        )
        return self.entries

    def get(self, key: str) -> Node | None:
        """The value of a key; None if the key is not there."""
        return super().get(key) if key in self._values else None


class _Sequence(SequenceNode):
    """A list whose items are made on first use."""

    __slots__ = ("_layout", "_values")

    def __init__(self, values: list[Any], line: int, layout: _Layout) -> None:
        self.line = line
        self._values = values
        self._layout = layout

    def __getattr__(self, name: str) -> tuple[Node, ...]:
        if name != "items":
            raise AttributeError(name)
        self.items = tuple(_nodes(self._values, self.line, self._layout))
        return self.items


def _nodes(values: Sequence[Any] | Any, line: int, layout: _Layout) -> list[Node]:
    """The nodes of a collection's values, from this line on."""
    found: list[Node] = []
    step, heights = layout.step, layout.heights
    line += step
    for value in values:
        kind = type(value)
        if kind is str:
            found.append(ScalarNode(value, value, line))
            line += step
        elif kind is dict:
            found.append(_Mapping(value, line, layout))
            line += heights.get(id(value), step)
        elif kind is list:
            found.append(_Sequence(value, line, layout))
            line += heights.get(id(value), step)
        else:
            found.append(_scalar(value, line))
            line += step
    return found


_WORDS: Mapping[Any, str] = {None: "null", True: "true", False: "false"}


def _scalar(value: Any, line: int) -> ScalarNode:
    if type(value) is tuple:
        number, text = value
        return ScalarNode(number, text, line)
    return ScalarNode(value, value if isinstance(value, str) else _WORDS[value], line)


def _node(value: Any, text: str, line: int, depth: int) -> Node:
    """The node of a value decoded from this text at this line, at this depth."""
    if type(value) not in {dict, list}:
        return _scalar(value, line)
    newlines = text.count("\n")
    heights: _Heights = {}
    weight = [0]
    height = _measure(value, heights, MAX_DEPTH - depth, weight)
    if weight[0] > MAX_NODES:
        raise _UnlikeYamlError
    if not newlines:
        layout = _Layout(value, 0, {})
    elif height - 1 == newlines and not _OTHER_LAYOUT.search(text):
        # As many line breaks as places for one, none elsewhere and no two in one place: so each place has one.
        layout = _Layout(value, 1, heights)
    else:
        raise _UnlikeYamlError
    return _Mapping(value, line, layout) if isinstance(value, dict) else _Sequence(value, line, layout)


def _measure(value: Any, heights: _Heights, depth: int, weight: list[int]) -> int:
    """The number of lines of a collection with one value a line; adds those of its collections to `heights`.

    depth: the most levels. weight: a counter of scalars, keys and collections, to which this adds.
    """
    if depth <= 0:
        raise _UnlikeYamlError
    if not value:
        return 1
    lines = len(value) + 2
    is_mapping = type(value) is dict
    weight[0] += 2 * len(value)
    for one in value.values() if is_mapping else value:
        kind = type(one)
        if kind is dict or kind is list:
            lines += _measure(one, heights, depth - 1, weight) - 1
    heights[id(value)] = lines
    return lines


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs) or "<<" in values or (values and max(map(len, values)) > _LONGEST_KEY):
        raise _UnlikeYamlError
    return values


@functools.lru_cache(maxsize=4096)
def _number(text: str) -> tuple[ScalarValue, str]:
    return plain_number(text), text


def _constant(name: str) -> object:
    raise _UnlikeYamlError(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_mapping, parse_int=_number, parse_float=_number, parse_constant=_constant
)


def read_objects(stream: BinaryIO, file: str) -> Iterator[Item | Node]:
    """The same as `yaml_nodes.parse_objects`, faster for a list in JSON."""
    items = _JsonItems(stream)
    yield from items.parts()
    yield from parse_objects(items, file, lead=items.lead, passed=items.passed, index=items.index)


class _JsonItems:
    """The elements of a JSON document's `items` at the start of a stream; the YAML reader reads the rest.

    After `parts` has ended: `lead` is a text that replaces the part read, with its line breaks; `passed` is the size of
    that part in bytes, `index` its number of items. `read` gives the remaining bytes.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._left = b""
        self._ended = False
        self._at = 0
        self._line = 1
        self.lead = ""
        self.passed = 0
        self.index = 0

    def read(self, size: int = -1, /) -> bytes:
        """The remaining bytes; b"" at the end."""
        data, self._left = self._left[:size], self._left[size:]
        return data or self._stream.read(size)

    def parts(self) -> Iterator[Item]:
        """The items, up to the first one that this reader does not handle."""
        self._left = begin = self._stream.read(_BEGIN)
        if not begin.lstrip(b" \n").startswith(b"{"):
            return
        try:
            self._text = self._decoder.decode(begin)
            kind, at = self._head()
        except (ValueError, RecursionError):
            return
        head, self._at = self._text[:at], at
        self._line += head.count("\n")
        self.passed = len(head.encode())
        yield from self._items(kind)
        # The head again, and an empty line for each line read.
        self.lead = head + "\n" * (self._line - 1 - head.count("\n"))
        # The decoder holds the first bytes of a character.
        pending = self._decoder.getstate()[0]
        self._left = self._text[self._at :].encode() + pending + self._left

    def _head(self) -> tuple[str, int]:
        """The document's kind, if known where its items begin, and that place."""
        text, kind, names = self._text, "", set()
        at = _after(_SPACE, text, 0)
        if text[at : at + 1] != "{":
            raise _UnlikeYamlError
        while True:
            key = _KEY.match(text, _after(_SPACE, text, at + 1))
            if key is None or key[1] in names:
                raise _UnlikeYamlError
            names.add(key[1])
            at = key.end()
            if key[1] == "items":
                if text[at : at + 1] != "[":
                    raise _UnlikeYamlError
                return kind, at + 1
            value, end = _decoded(text, at)
            node = _node(value, text[at:end], 1, 1)
            if key[1] == "kind" and isinstance(node, ScalarNode):
                kind = node.text
            at = _after(_SPACE, text, end)
            if text[at : at + 1] != ",":
                raise _UnlikeYamlError

    def _items(self, kind: str) -> Iterator[Item]:
        self._left = b""
        while True:
            begin = _after(_SPACE, self._text, self._at)
            found = self._item(begin)
            if found is None:
                if not self._more():
                    return
                continue
            value, end, following = found
            line = self._line + self._text.count("\n", self._at, begin)
            try:
                node = _node(value, self._text[begin:end], line, 2)
            except (ValueError, RecursionError):
                return
            self._pass(following)
            yield Item(node, self.index, kind)
            self.index += 1

    def _item(self, begin: int) -> tuple[Any, int, int] | None:
        """The object that begins here, its end, and the place after its comma, or of a bracket."""
        if self._text[begin : begin + 1] != "{":
            return None
        try:
            value, end = _decoded(self._text, begin)
        except (ValueError, RecursionError):
            return None
        following = _after(_SPACE, self._text, end)
        after = self._text[following : following + 1]
        return (value, end, following + (after == ",")) if after in {",", "]"} else None

    def _pass(self, at: int) -> None:
        passed = self._text[self._at : at]
        self._line += passed.count("\n")
        self.passed += len(passed) if passed.isascii() else len(passed.encode())
        self._at = at

    def _more(self) -> bool:
        """Read more, if there is more and the text so far may be part of one object."""
        if self._ended or len(self._text) - self._at > _LARGEST:
            return False
        rest = self._text[self._at :]
        if rest[:1] == "]" or rest.lstrip(" \n")[:1] not in {"", "{"}:
            return False
        data = self._stream.read(_PIECE)
        self._ended = not data
        held = self._decoder.getstate()[0]
        try:
            self._text, self._at = rest + self._decoder.decode(data), 0
        except UnicodeDecodeError:
            # The YAML reader names the place.
            self._decoder.reset()
            self._left = held + data
            return False
        return not self._ended


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """The value that begins here and its end; ValueError for one that YAML may read differently."""
    value, end = _DECODER.raw_decode(text, at)
    own = text[at:end]
    is_plain = own.isascii() and "\x7f" not in own and "\\u" not in own
    if not is_plain and _UNLIKE_YAML.search(own):
        raise _UnlikeYamlError
    if (end - at if is_plain else len(own.encode())) > _LARGEST:
        raise _UnlikeYamlError
    return value, end
