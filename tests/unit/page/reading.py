"""A report read back: what of it a browser would run, and the data that it would unpack."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """The elements of a page with their attributes, the text of each script, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in {"script", "style"} and self.scripts[-1][1] == "":
            self.scripts[-1] = (self.scripts[-1][0], data)
        else:
            self.text += data

    def data(self, name: str) -> Any:
        """What the program unpacks under this name."""
        packed = next(text for attributes, text in self.scripts if attributes.get("id") == f"blob-{name}")
        return json.loads(gzip.decompress(base64.b64decode(packed)))
