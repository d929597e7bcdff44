"""The text of a manifest's file, a piece at a time: UTF-8, with a bound for what one object takes."""

from __future__ import annotations

import codecs
import re
from typing import Protocol

from memqos.errors import ManifestError

__all__ = ["MAX_BYTES", "MAX_STREAM_BYTES", "Readable", "YamlText"]

MAX_BYTES = 3 << 20
"""The API server's own limit of one request."""

MAX_STREAM_BYTES = 8 << 30
"""Of all objects together: a cluster's 150,000 pods, as kubectl prints them, take about 3 GiB."""


_JSON_AFTER_JSON = re.compile(r"(?<=\})(\s{0,100}\n)\{")
_END_OF_JSON = re.compile(r"\}\s{0,100}\Z")


class Readable(Protocol):
    """What gives bytes, b"" at the end."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes."""
        ...


class YamlText:
    """What a YAML parser reads from. It meets no exception in there: `check` raises what was wrong.

    JSON objects that follow one another, as `jq -c` prints them, are documents to kubectl and not to YAML: they get the
    mark that YAML asks for, in the same line.

    A text may have been read in part: `lead` stands for those `passed` bytes.

    Beside the piece that was read last it keeps the one before it, for what an error says of a line.
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
        """Another object begins about here: the parser has read a little ahead."""
        self._since = self._bytes

    def check(self) -> None:
        """Raise ManifestError for bytes that are not UTF-8, and for an object of more than MAX_BYTES."""
        if self._problem is not None:
            raise self._problem

    def line(self, number: int) -> str:
        """A line (1-based) near the end of what was read; "" for one that is not kept."""
        lines = "".join(self._pieces).split("\n")
        return lines[number - self._line] if 0 <= number - self._line < len(lines) else ""

    def read(self, size: int = 1 << 14, /) -> str:
        """The next piece, "" at the end, and from the first problem on."""
        text, self._lead = self._lead, ""
        ended = False
        # A piece may end in the midst of a character.
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
        """The text with marks between JSON objects; what may be the end of one waits for what follows it."""
        text = _JSON_AFTER_JSON.sub(r"\1--- {", self._held + text)
        end = None if ended else _END_OF_JSON.search(text)
        self._held = text[end.start() :] if end else ""
        return text[: end.start()] if end else text

    def _too_large(self) -> ManifestError:
        what = f"one object has more than {MAX_BYTES} bytes, which no API server accepts."
        return ManifestError.at(what, file=self._file, line=self._line)

    def _not_utf_8(self, error: UnicodeDecodeError, read: int) -> ManifestError:
        # The error's own bytes begin with those of a character that the piece before began with.
        before = read - len(error.object)
        line = self._line + sum(piece.count("\n") for piece in self._pieces)
        return ManifestError.at(
            f"byte {before + error.start} is not UTF-8 (0x{error.object[error.start]:02x}).",
            file=self._file,
            line=line + error.object.count(b"\n", 0, error.start),
            next_step="Save the file as UTF-8.",
        )
