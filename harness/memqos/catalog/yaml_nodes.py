"""YAML or JSON text as nodes that know their lines: hostile text costs one error, not the machine.

Several documents in one text, strings resolved to scalars as Kubernetes' own YAML reader does (YAML 1.1: `on` is a
boolean, `0100` is octal), duplicate keys refused. Depth, size, and what aliases expand to are bounded before anything
is built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from memqos.errors import ManifestError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "Entry",
    "MappingNode",
    "Node",
    "ScalarNode",
    "ScalarValue",
    "SequenceNode",
    "parse_documents",
]

MAX_BYTES = 3 << 20
"""The API server's own limit of one request."""
MAX_DEPTH = 64
MAX_NODES = 200_000

ScalarValue = None | bool | int | float | str


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value. text: as it was written; line: 1-based."""

    value: ScalarValue
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value; `line` is the key's."""

    key: str
    line: int
    value: Node


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys and values in the order they were written; no key occurs twice."""

    entries: tuple[Entry, ...]
    line: int

    def get(self, key: str) -> Node | None:
        """The value of a key; None if the key is not there."""
        for entry in self.entries:
            if entry.key == key:
                return entry.value
        return None

    def line_of(self, key: str) -> int:
        """The line of a key; the mapping's own if the key is not there."""
        for entry in self.entries:
            if entry.key == key:
                return entry.line
        return self.line


Node = ScalarNode | SequenceNode | MappingNode


def parse_documents(data: bytes, file: str) -> tuple[Node, ...]:
    """The documents in a text; those without content are left out, as kubectl leaves them out.

    Raises ManifestError with the line for text that is not UTF-8, not YAML, too big, too deep, with a key twice, or
    with aliases that expand beyond MAX_NODES.
    """
    if len(data) > MAX_BYTES:
        raise ManifestError.at(
            f"the file has more than {MAX_BYTES} bytes, which no API server accepts.",
            file=file,
            next_step="Split it into files of one object each.",
        )
    text = _decoded(data, file)
    return tuple(_Builder(text, file).documents())


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError.at(
            f"byte {error.start} is not UTF-8 (0x{data[error.start]:02x}).",
            file=file,
            line=line,
            next_step="Save the file as UTF-8.",
        ) from None


@dataclass(slots=True)
class _Open:
    """A collection that is being read."""

    mapping: bool
    line: int
    anchor: str | None
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    merged: list[Node] = field(default_factory=list)
    key: tuple[str, int] | None = None
    weight: int = 1


class _Builder:
    """Makes nodes from the parser's events, without recursion."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._total = 0
        self._root: Node | None = None

    def documents(self) -> Iterator[Node]:
        """Every document that has content."""
        for event in self._events():
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._root = {}, None
            elif isinstance(event, yaml.DocumentEndEvent):
                root = self._root
                if root is not None and not (isinstance(root, ScalarNode) and root.value is None):
                    yield root
            else:
                self._take(event)

    def _events(self) -> Iterator[yaml.Event]:
        loader = getattr(yaml, "CLoader", yaml.Loader)
        try:
            yield from yaml.parse(self._text, Loader=loader)
        except yaml.YAMLError as error:
            raise self._not_yaml(error) from None

    def _not_yaml(self, error: yaml.YAMLError) -> ManifestError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "the text cannot be read"
        line = 0 if mark is None else mark.line + 1
        lines = self._text.splitlines()
        tab = 0 < line <= len(lines) and "\t" in lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
        return ManifestError.at(
            f"this is not YAML: {problem}.",
            file=self._file,
            line=line,
            next_step="Indent with spaces: YAML does not allow tabs there." if tab else "",
        )

    def _take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            known = self._anchors.get(event.anchor or "")
            if known is None:
                raise self._error(f"the alias '*{event.anchor}' has no anchor before it.", line)
            self._add(*known, line=line)
        elif isinstance(event, yaml.ScalarEvent):
            value = _resolved(event)
            node = ScalarNode(value, event.value, line)
            if event.anchor:
                self._anchors[event.anchor] = (node, 1)
            self._add(node, 1, line=line)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._stack) >= MAX_DEPTH:
                raise self._error(f"the nesting is deeper than {MAX_DEPTH} levels, which no manifest needs.", line)
            if self._stack and self._stack[-1].mapping and self._stack[-1].key is None:
                raise self._error("a key must be a word, not a list or a mapping.", line)
            self._stack.append(_Open(isinstance(event, yaml.MappingStartEvent), line, event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()

    def _close(self) -> None:
        done = self._stack.pop()
        node: Node
        if done.mapping:
            entries = dict(done.entries)
            for other in done.merged:
                for entry in self._merge_sources(other, done.line):
                    entries.setdefault(entry.key, entry)
            node = MappingNode(tuple(entries.values()), done.line)
        else:
            node = SequenceNode(tuple(done.items), done.line)
        if done.anchor:
            self._anchors[done.anchor] = (node, done.weight)
        self._add(node, done.weight, line=done.line, counted=True)

    def _merge_sources(self, node: Node, line: int) -> Iterator[Entry]:
        for one in node.items if isinstance(node, SequenceNode) else (node,):
            if not isinstance(one, MappingNode):
                raise self._error("'<<' merges mappings only.", line)
            yield from one.entries

    def _add(self, node: Node, weight: int, *, line: int, counted: bool = False) -> None:
        """Put a finished node into the collection that is open; `weight` is how many nodes it expands to."""
        if not counted:
            self._total += weight
        if self._total > MAX_NODES:
            raise self._error(f"the text expands to more than {MAX_NODES} values (aliases of aliases?).", line)
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        parent.weight += weight
        if not parent.mapping:
            parent.items.append(node)
        elif parent.key is None:
            if not isinstance(node, ScalarNode):
                raise self._error("a key must be a word, not a list or a mapping.", line)
            parent.key = (node.text, line)
        else:
            self._put(parent, node)

    def _put(self, parent: _Open, node: Node) -> None:
        assert parent.key is not None  # noqa: S101 - for the type checker: the caller has just looked
        key, line = parent.key
        parent.key = None
        if key == "<<":
            parent.merged.append(node)
            return
        if key in parent.entries:
            raise self._error(f"the key '{key}' is already there, at line {parent.entries[key].line}.", line, field=key)
        parent.entries[key] = Entry(key, line, node)

    def _error(self, what: str, line: int, *, field: str = "") -> ManifestError:
        return ManifestError.at(what, file=self._file, line=line, field=field)


_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)", re.ASCII)
_LONGEST_NUMBER = 64


def _resolved(event: yaml.ScalarEvent) -> ScalarValue:
    """The value of a scalar: quoted ones are text, plain ones may be null, a boolean or a number."""
    text: str = event.value
    if event.tag == "tag:yaml.org,2002:str" or (event.style is not None and event.style != ""):
        return text
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return _number(text.replace("_", "")) if text[0] in "+-.0123456789" and len(text) <= _LONGEST_NUMBER else text


def _number(text: str) -> int | float | str:
    if _INT.fullmatch(text):
        digits = text.lstrip("+-")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
        count = int(digits, 8) if octal else int(digits, 0)
        return -count if text[0] == "-" else count
    found = float(text) if _FLOAT.fullmatch(text) else text
    # What no float can hold stays text, as Kubernetes' own reader has it.
    return text if found in {math.inf, -math.inf} else found
