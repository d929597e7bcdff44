"""YAML or JSON text as nodes with their lines; hostile text leads to an error, not to exhausted memory.

It reads several documents in one text, resolves scalars like Kubernetes' own YAML reader (YAML 1.1: `on` is a boolean,
`0100` is octal), and rejects duplicate keys. Depth, size, and the expansion of aliases are bounded before nodes are
built. A long list is read one object at a time, and the bounds are those of one object.

Nodes never change but are not frozen: a cluster has millions, and freezing them took a tenth of the reading time.
"""

from __future__ import annotations

import codecs
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import yaml

from memqos.errors import ManifestError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "MAX_OBJECTS",
    "Item",
    "MappingEntry",
    "MappingNode",
    "Node",
    "ScalarNode",
    "ScalarValue",
    "SequenceNode",
    "parse_documents",
    "parse_objects",
    "plain_number",
]

ScalarValue = None | bool | int | float | str

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_INFINITE = (".inf", ".Inf", ".INF")
_NO_JSON = frozenset({*(f"{sign}{word}" for sign in ("", "+", "-") for word in _INFINITE), ".nan", ".NaN", ".NAN"})
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)", re.ASCII)
_LONGEST_NUMBER = 64


def resolved(event: yaml.ScalarEvent) -> ScalarValue:
    """The value of a scalar: a quoted one is text, a plain one may be null, a boolean or a number."""
    text: str = event.value
    if event.tag == "tag:yaml.org,2002:str" or (event.style is not None and event.style != ""):
        return text
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text in _NO_JSON:
        # A float that JSON lacks: where a text is expected it is rejected, as in the API server.
        return math.nan if text[1] in "nN" else math.inf
    return plain_number(text) if text[0] in "+-.0123456789" else text


def plain_number(written: str) -> int | float | str:
    """The number of a plain scalar that begins with a digit, a sign or a point, or its text."""
    if len(written) > _LONGEST_NUMBER:
        return written
    # A number may have underscores between digits; any other text keeps them: 1_000Mi is text.
    text = written if written[0] == "." else written.replace("_", "")
    if _INT.fullmatch(text):
        digits = text.lstrip("+-")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
        count = int(digits, 8) if octal else int(digits, 0)
        return -count if text[0] == "-" else count
    found = float(text) if _FLOAT.fullmatch(text) else math.inf
    # A number beyond the range of floats stays text, as in Kubernetes' reader.
    return written if found in {math.inf, -math.inf} else found


MAX_BYTES = 3 << 20
"""The API server's own limit of one request."""

MAX_STREAM_BYTES = 8 << 30
"""For all objects together: a cluster's 150,000 pods, as kubectl prints them, take about 3 GiB."""


_JSON_AFTER_JSON = re.compile(r"(?<=\})(\s{0,100}\n)\{")
_END_OF_JSON = re.compile(r"\}\s{0,100}\Z")


class Readable(Protocol):
    """A source of bytes, b"" at the end."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes."""
        ...


class YamlText:
    """The input of a YAML parser. Reading never raises: `check` raises the error.

    kubectl reads consecutive JSON objects, as `jq -c` prints them, as documents, YAML does not: they get YAML's
    document mark in the same line.

    If part of a text was read already, `lead` replaces those `passed` bytes.

    It keeps the last two pieces, to quote a line in an error.
    """

    def __init__(self, stream: Readable, file: str, *, lead: str = "", passed: int = 0) -> None:
        self._stream = stream
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8" if passed else "utf-8-sig")()
        self._lead = lead
        self._bytes = passed
        self._since = passed
        self._held = ""
        self._pieces = ("", "")
        self._line = 1
        self._problem: ManifestError | None = None

    def begin(self) -> None:
        """Start to count another object, which begins about here: the parser has read a little ahead."""
        self._since = self._bytes

    def check(self) -> None:
        """Raise ManifestError for bytes that are not UTF-8, and for an object of more than MAX_BYTES."""
        if self._problem is not None:
            raise self._problem

    def line(self, number: int) -> str:
        """A line (1-based) near the end of the text read; "" if it is no longer kept."""
        lines = "".join(self._pieces).split("\n")
        return lines[number - self._line] if 0 <= number - self._line < len(lines) else ""

    def read(self, size: int = 1 << 14, /) -> str:
        """The next piece; "" at the end, and after the first problem."""
        text, self._lead = self._lead, ""
        ended = False
        # A piece may end within a character.
        while not (text or ended or self._problem):
            data = self._stream.read(size)
            ended = not data
            if self._bytes + len(data) - self._since > MAX_BYTES + size:
                self._problem = self._too_large()
                break
            if self._bytes + len(data) > MAX_STREAM_BYTES:
                self._problem = ManifestError.at(
                    f"there are more than {MAX_STREAM_BYTES >> 30} GiB in it.",
                    file=self._file,
                    next_step="Split it into several files.",
                )
                break
            try:
                text = self._decoder.decode(data, final=ended)
            except UnicodeDecodeError as error:
                self._problem = self._not_utf_8(error, self._bytes + len(data))
                break
            self._bytes += len(data)
            text = self._separated(text, ended=ended)
        if text:
            self._line += self._pieces[0].count("\n")
            self._pieces = (self._pieces[1], text)
        return text

    def _separated(self, text: str, *, ended: bool) -> str:
        """The text with marks between JSON objects; a possible end of one waits for the next piece."""
        text = _JSON_AFTER_JSON.sub(r"\1--- {", self._held + text)
        end = None if ended else _END_OF_JSON.search(text)
        self._held = text[end.start() :] if end else ""
        return text[: end.start()] if end else text

    def _too_large(self) -> ManifestError:
        what = f"one object has more than {MAX_BYTES} bytes, which no API server accepts."
        return ManifestError.at(what, file=self._file, line=self._line)

    def _not_utf_8(self, error: UnicodeDecodeError, read: int) -> ManifestError:
        # The error's bytes include those of a character that began in the previous piece.
        before = read - len(error.object)
        line = self._line + sum(piece.count("\n") for piece in self._pieces)
        packed = before == 0 and error.object.startswith((b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"))
        return ManifestError.at(
            f"byte {before + error.start} is not UTF-8 (0x{error.object[error.start]:02x}).",
            file=self._file,
            line=line + error.object.count(b"\n", 0, error.start),
            next_step="It is compressed: decompress it first." if packed else "Save the file as UTF-8.",
        )


MAX_DEPTH = 64
MAX_NODES = 200_000
MAX_OBJECTS = 500_000
"""In one stream, including empty documents: Kubernetes supports 150,000 pods in a cluster."""

_TOO_DEEP = f"the nesting is deeper than {MAX_DEPTH} levels, which no manifest needs."
_TOO_DEEP_TO_SCAN = "exceeded maximum nesting depth"
"""libyaml's message from 0.2.6 on: it reads ahead by a line, and may reach its bound before memqos's."""
_DEPTH_OF_OBJECTS = 2
"""The open levels at the end of a list's object: the document and its items."""


@dataclass(slots=True)
class ScalarNode:
    """One value. text: its original text; line: 1-based."""

    value: ScalarValue
    text: str
    line: int


@dataclass(slots=True)
class MappingEntry:
    """A key with its value; `line` is the key's."""

    key: str
    line: int
    value: Node


@dataclass(slots=True)
class SequenceNode:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(slots=True)
class MappingNode:
    """Keys and values in the order of the text; no key occurs twice."""

    entries: tuple[MappingEntry, ...]
    line: int

    def get(self, key: str) -> Node | None:
        """The value of a key; None if missing."""
        for entry in self.entries:
            if entry.key == key:
                return entry.value
        return None

    def line_of(self, key: str) -> int:
        """The line of a key; the mapping's own if missing."""
        for entry in self.entries:
            if entry.key == key:
                return entry.line
        return self.line


Node = ScalarNode | SequenceNode | MappingNode


@dataclass(frozen=True, slots=True)
class Item:
    """One element of a document's `items`, before that document ends; `kind` is the document's, "" if unknown yet."""

    node: Node
    index: int
    kind: str


def parse_objects(
    stream: Readable, file: str, *, lead: str = "", passed: int = 0, index: int = 0
) -> Iterator[Item | Node]:
    """The documents in a stream as they end, each without its `items`, whose elements come before it.

    Only one object is in memory at a time; the bounds of all together are MAX_OBJECTS and MAX_STREAM_BYTES.

    lead: text before the stream's, which replaces `passed` bytes read by another reader. index: the number of `items`
    in those.

    Raises ManifestError as in `parse_documents`, with its bounds for each object.
    """
    yield from _Builder(YamlText(stream, file, lead=lead, passed=passed), file, lists=True, index=index).parts()


def parse_documents(data: bytes, file: str) -> tuple[Node, ...]:
    """The documents in a text without empty ones, as in kubectl.

    Raises ManifestError with the line for text that is not UTF-8, not YAML, too big, too deep, with a key twice, or
    with aliases that expand to more than MAX_NODES.
    """
    if len(data) > MAX_BYTES:
        raise ManifestError.at(
            f"the file has more than {MAX_BYTES} bytes, which no API server accepts.",
            file=file,
            next_step="Split it into files of one object each.",
        )
    parts = _Builder(YamlText(io.BytesIO(data), file), file, lists=False).parts()
    return tuple(part for part in parts if not isinstance(part, Item))


@dataclass(slots=True)
class _Open:
    """An unfinished collection."""

    mapping: bool
    line: int
    anchor: str | None
    items: list[Node] = field(default_factory=list)
    entries: dict[str, MappingEntry] = field(default_factory=dict)
    merged: list[Node] = field(default_factory=list)
    key: tuple[str, int] | None = None
    weight: int = 1


class _Builder:
    """Makes nodes from the parser's events, without recursion."""

    def __init__(self, text: YamlText, file: str, *, lists: bool, index: int = 0) -> None:
        self._text = text
        self._file = file
        self._lists = lists
        self._item: Item | None = None
        self._index = index
        self._objects = index
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._total = 0
        self._root: Node | None = None

    def parts(self) -> Iterator[Item | Node]:
        """Every document with content, after the elements of its list."""
        for event in self._events():
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._root = {}, None
                self._begin()
            elif isinstance(event, yaml.DocumentEndEvent):
                root, self._index = self._root, 0
                if root is not None and not (isinstance(root, ScalarNode) and root.value is None):
                    yield root
            else:
                self._take(event)
            if self._item is not None:
                yield self._item
                self._item = None

    def _begin(self) -> None:
        """Reset the counts for another object."""
        self._total = 0
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise ManifestError.at(
                f"there are more than {MAX_OBJECTS} objects and documents in it.",
                file=self._file,
                next_step="Split it into several files.",
            )
        self._text.begin()

    def _events(self) -> Iterator[yaml.Event]:
        loader = getattr(yaml, "CLoader", yaml.Loader)(self._text)
        try:
            yield from iter(loader.get_event, None)
        except yaml.YAMLError as error:
            self._text.check()
            raise self._not_yaml(error) from None
        self._text.check()

    def _not_yaml(self, error: yaml.YAMLError) -> ManifestError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "the text cannot be read"
        line = 0 if mark is None else mark.line + 1
        if problem == _TOO_DEEP_TO_SCAN:
            return self._error(_TOO_DEEP, line)
        text = self._text.line(line)
        tab = "\t" in text[: len(text) - len(text.lstrip())]
        step = (
            "Indent with spaces: YAML does not allow tabs there."
            if tab
            else _rendered(self._text.line(line - 1) + text)
        )
        return ManifestError.at(f"this is not YAML: {problem}.", file=self._file, line=line, next_step=step)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        parent = self._stack[-1] if self._stack and self._total < MAX_NODES else None
        if parent is not None and parent.mapping and parent.key is None and not event.anchor:
            # Half of all scalars are keys, without a node.
            self._total += 1
            parent.weight += 1
            parent.key = (event.value, line)
            return
        node = ScalarNode(resolved(event), event.value, line)
        if event.anchor:
            self._anchors[event.anchor] = (node, 1)
        self._add(node, 1, line=line)

    def _take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            known = self._anchors.get(event.anchor or "")
            if known is None:
                raise self._error(f"the alias '*{event.anchor}' has no anchor before it.", line)
            self._add(*known, line=line)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._stack) >= MAX_DEPTH:
                raise self._error(_TOO_DEEP, line)
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

    def _merge_sources(self, node: Node, line: int) -> Iterator[MappingEntry]:
        for one in node.items if isinstance(node, SequenceNode) else (node,):
            if not isinstance(one, MappingNode):
                raise self._error("'<<' merges mappings only.", line)
            yield from one.entries

    def _add(self, node: Node, weight: int, *, line: int, counted: bool = False) -> None:
        """Put a finished node into the open collection; `weight` is its number of nodes with aliases expanded."""
        if not counted:
            self._total += weight
        if self._total > MAX_NODES:
            raise self._error(f"the text expands to more than {MAX_NODES} values (aliases of aliases?).", line)
        if not self._stack:
            self._root = node
            return
        if self._lists and len(self._stack) == _DEPTH_OF_OBJECTS and self._is_list_of_objects():
            kind = self._stack[0].entries.get("kind")
            known = kind.value.text if kind is not None and isinstance(kind.value, ScalarNode) else ""
            self._item = Item(node, self._index, known)
            self._index += 1
            self._begin()
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

    def _is_list_of_objects(self) -> bool:
        """Whether the open collection is the `items` of a document."""
        document, items = self._stack
        return document.mapping and not items.mapping and document.key is not None and document.key[0] == "items"

    def _put(self, parent: _Open, node: Node) -> None:
        assert parent.key is not None  # noqa: S101 - for the type checker: the caller has just looked
        key, line = parent.key
        parent.key = None
        if key == "<<":
            parent.merged.append(node)
            return
        if key in parent.entries:
            raise self._error(f"the key '{key}' is a duplicate of line {parent.entries[key].line}.", line, field=key)
        parent.entries[key] = MappingEntry(key, line, node)

    def _error(self, what: str, line: int, *, field: str = "") -> ManifestError:
        step = _rendered(self._text.line(line))
        return ManifestError.at(what, file=self._file, line=line, field=field, next_step=step)


def _rendered(line: str) -> str:
    """The next step for a line of a template, "" for any other."""
    return "It is a line of a template: give its output (helm template …)." if "{{" in line else ""
