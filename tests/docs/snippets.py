"""Commands and files shown in the documentation, taken out of Markdown so that they can be run.

A block opened with ```console holds commands (lines that begin with "$ ") and what they print; a line of `…` stands
for any number of lines, and `…` inside a line for any text. A block that follows `<!-- file: NAME -->` is a file that
the commands find. `<!-- exit: N -->` before a console block is the exit code of its last command. A page's blocks
run in order, in one folder. Blocks opened with ```console vm need a machine and run with the tests marked so; those
opened with ```console checkout change the package, and run in a copy of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
README = Path(__file__).parents[2] / "README.md"

_BLOCK = re.compile(
    r"(?:<!-- (?P<note>file|exit): (?P<value>\S+) -->\n)?^```(?P<kind>[a-z]+)(?P<flag> \w+)?\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block: a file to write (name), or commands with what they print."""

    page: Path
    line: int
    file: str
    body: str
    flag: str
    status: int

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command with the lines that are shown after it."""
        found: list[tuple[str, list[str]]] = []
        for line in self.body.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def pages() -> list[Path]:
    return [README, *sorted(DOCS.rglob("*.md"))]


def snippets(page: Path) -> Iterator[Snippet]:
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        note, value = match["note"], match["value"]
        if note != "file" and match["kind"] != "console":
            continue
        yield Snippet(
            page=page,
            line=text.count("\n", 0, match.start("body")),
            file=value if note == "file" else "",
            body=match["body"],
            flag=(match["flag"] or "").strip(),
            status=int(value) if note == "exit" else 0,
        )


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the printed lines are the shown ones, where `…` stands for anything."""
    pattern = "\n".join("(?:.*\n?)*?" if line.strip() == "…" else _line(line) for line in shown)
    pattern = pattern.replace("(?:.*\n?)*?\n", "(?:.*\n)*?")
    return re.fullmatch(pattern, "\n".join(printed)) is not None


def _line(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.rstrip().split("…"))
