"""The value types of documents: numbers with their ranges, and texts with their form."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

__all__ = [
    "Amount",
    "CgroupPath",
    "ControlFile",
    "Count",
    "CountOrNoLimit",
    "Format",
    "Jiffies",
    "OomScoreAdj",
    "Positive",
    "Release",
    "Seconds",
]

Format = Literal[1]
Count = Annotated[int, Meta(ge=0)]
CountOrNoLimit = Annotated[int, Meta(ge=-1)]
Positive = Annotated[int, Meta(ge=1)]
OomScoreAdj = Annotated[int, Meta(ge=-1000, le=1000)]
Jiffies = Annotated[int, Meta(ge=24)]
Seconds = Annotated[float, Meta(ge=0)]
Amount = Annotated[str, Meta(pattern="^(max|[0-9]+)$")]
CgroupPath = Annotated[str, Meta(pattern="^/")]
ControlFile = Annotated[str, Meta(pattern=r"^[a-z]+\.[A-Za-z0-9_.]+$")]
Release = Annotated[str, Meta(pattern=r"^1\.(2[2-9]|3[0-7]|38-preview)$")]
