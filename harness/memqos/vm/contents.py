"""Which programs are in a machine, as far as it is known: what plans and expectations rest on."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Contents", "Told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a program says that it is, by its own name and version; "" for what it does not say."""

    name: str = ""
    version: str = ""


@dataclass(slots=True, kw_only=True)
class Contents:
    """What is in a machine by now.

    versions: by the program's name; one that is not in it is not known. brought: what a person's file says of itself,
    by the name of the program whose place it took. hugetlb: whether containerd passes huge page limits on, which
    memqos's own configuration of it does (vm/guest).
    """

    versions: dict[str, str] = field(default_factory=dict)
    brought: dict[str, Told] = field(default_factory=dict)
    hugetlb: bool = True
