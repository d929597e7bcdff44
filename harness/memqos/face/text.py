"""Safe text for terminals: without control characters, wrapped and coloured.

Names, values and notes come from files. Control characters are shown by number, and so are characters that change the
direction of text, which could hide another text.

The stream of a face: standard output from before pytest's capture.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import select
import textwrap
import threading
from collections.abc import Mapping
from typing import Any, TextIO

import click

__all__ = ["Output", "for_terminal", "harmless", "takes_colours"]

_HARMFUL = re.compile(
    "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f"  # controls, but for the line feed
    "\\xad\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e007f"  # unseen
    "\\u2028\\u2029\\ud800-\\udfff]"  # other ends of lines, and halves of characters
)


_NARROWEST = 40
"""The least width for wrapping, even if the terminal reports less."""

_LABEL = re.compile(r" *(?:source|given|sum|rounding|cgroup|expected|look|seen|not written:) +")
_STYLES: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = (
    (re.compile(r"^memqos: (?:error|finding): "), {"fg": "red"}),
    (re.compile(r"^memqos: note: |^not observable: |^not judged|^assumed to run on "), {"fg": "yellow"}),
    (re.compile(r"^verdict: conforms "), {"fg": "green", "bold": True}),
    (re.compile(r"^verdict: (?:interrupted|nothing was observed) "), {"fg": "yellow", "bold": True}),
    (re.compile(r"^verdict: "), {"fg": "red", "bold": True}),
    (re.compile(r"^ *\S.* (?:is .*, expected |is refused: )"), {"fg": "red", "bold": True}),
    (re.compile(r": \d+ conform, 0 deviate, \d+ not observable$"), {"fg": "green", "bold": True}),
    (re.compile(r": \d+ conform, \d+ deviate, \d+ not observable$"), {"fg": "red", "bold": True}),
    (re.compile(r"^ +(?:source|given|sum|rounding|because|look|not written:)(?: |$)"), {"dim": True}),
    (re.compile(r"^ *container \S+ of pod |^pod \S+/\S+ \("), {"bold": True}),
)
"""Styles of lines by pattern; the first match applies."""


def harmless(text: str) -> str:
    """The text with every control character except the line feed as a Python escape."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def takes_colours(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: NO_COLOR is empty or unset, and TERM is not dumb."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def for_terminal(text: str, *, width: int, colours: bool) -> str:
    """A harmless text, wrapped and coloured for a terminal of so many columns."""
    lines = [_coloured(line, _wrapped(line, max(width, _NARROWEST)), colours=colours) for line in text.split("\n")]
    return "\n".join(lines)


def _wrapped(line: str, width: int) -> str:
    """The indentation of continuation lines."""
    if len(line) <= width:
        return line
    label = _LABEL.match(line)
    hanging = " " * (label.end() if label else len(line) - len(line.lstrip()) + 4)
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line.lstrip(),
        width,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _coloured(line: str, wrapped: str, *, colours: bool) -> str:
    if colours:
        for form, style in _STYLES:
            if form.search(line):
                return "\n".join(click.style(one, **style) for one in wrapped.split("\n"))
    return wrapped


_FALLBACK = (80, 24)


class Output(io.TextIOBase):
    """Writes to a duplicate of a stream's file, from any thread, at any time.

    A closed reader or a full disk raises once, in the main thread, which ends the run. Later output is lost, and so is
    output of other threads that cannot be written.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._lost = False
        stream.flush()
        try:
            handle = os.dup(stream.fileno())
        except (OSError, ValueError):  # a stream in memory
            self._own, self._stream = False, stream
        else:
            self._own = True
            self._stream = open(handle, "w", encoding=stream.encoding, errors="backslashreplace", newline="")  # noqa: SIM115, PTH123

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's own."""
        return self._stream.encoding or "utf-8"

    @property
    def speaks_unicode(self) -> bool:
        """Whether its encoding has non-ASCII characters."""
        return self.encoding.lower().replace("-", "").startswith("utf")

    @property
    def size(self) -> tuple[int, int]:
        """Current columns and lines of the terminal; 80 and 24 for anything else."""
        with contextlib.suppress(OSError, ValueError):
            columns, lines = os.get_terminal_size(self._stream.fileno())
            if columns and lines:
                return columns, lines
        return _FALLBACK

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The duplicate's file descriptor; raises like a stream in memory."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write and flush."""
        with self._lock:
            if not self._lost:
                try:
                    self._stream.write(text)
                    self._stream.flush()
                except (OSError, ValueError):
                    if threading.current_thread() is threading.main_thread():
                        self._lost = True
                        raise
        return len(text)

    def check(self) -> None:
        """Raise BrokenPipeError, once, if the reader closed the pipe; needs no write."""
        if self._own and not self._lost and not self.isatty():
            poll = select.poll()
            poll.register(self._stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                self._lost = True
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def close(self) -> None:
        """Close the duplicate."""
        if self._own:
            self._own = False
            with contextlib.suppress(OSError, ValueError):
                self._stream.close()
        super().close()
