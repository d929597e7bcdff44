"""Files with the place that they get in a machine, as a person writes them: SRC:DST or SRC:DST:MODE."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import UsageError

__all__ = ["PlacedFile", "placed_file"]

_FORM = "Write SRC:DST or SRC:DST:MODE, such as ./crio:/usr/local/bin/crio:755, with an absolute DST."
_PLACED = re.compile(r"(?P<source>.+?):(?P<destination>/[^:]*)(?::(?P<mode>[^:/]*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file or folder of this host, where it goes in the machine, and its mode there; None is the one that it has."""

    source: Path
    destination: str
    mode: int | None = None

    def __str__(self) -> str:
        return f"{self.source}:{self.destination}" + ("" if self.mode is None else f":{self.mode:o}")


def placed_file(text: str, origin: str) -> PlacedFile:
    """What a text says; a DST that ends in a slash is the folder that the file goes into.

    Raises UsageError, naming the origin, for another form, a DST that is not absolute and plain, or no mode.
    """
    match = _PLACED.fullmatch(text)
    if match is None:
        raise UsageError(f"'{text}' is not an absolute path in the machine.", where=origin, next_step=_FORM)
    source, destination, mode = Path(match["source"]), match["destination"], match["mode"]
    if destination.endswith("/"):
        destination += source.absolute().name
    parts = destination.split("/")[1:]
    if not all(parts) or {".", ".."} & set(parts) or "\0" in destination:
        raise UsageError(f"'{destination}' is not a plain path.", where=origin, next_step=_FORM)
    if mode is not None and not re.fullmatch(r"[0-7]{3,4}", mode, re.ASCII):
        raise UsageError(f"'{mode}' is not a mode such as 644 or 0755.", where=origin, next_step=_FORM)
    return PlacedFile(source, destination, None if mode is None else int(mode, 8))
