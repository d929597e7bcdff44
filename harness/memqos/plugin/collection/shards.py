"""--shard K/N: the cases of one of several jobs, who have the same suites and share nothing else.

Each job makes the same division for itself: from the cases, in their order, and the seconds that they took before.
Cases that look at one population stay together, so that it is made once.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Division", "divided"]

_UNKNOWN_SECONDS = 1.0
"""What a case counts where no case was ever timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Which cases each shard has, in their order. seconds: what each is expected to take.

    name: what tells one division from another; jobs whose divisions have different names do not fit together.
    """

    shards: tuple[tuple[str, ...], ...]
    seconds: tuple[float, ...]
    name: str


def divided(cases: Sequence[tuple[str, Hashable]], into: int, *, seconds: Mapping[str, float]) -> Division:
    """Divide cases among so many shards (1 or more), each with nearly the same time to work.

    cases: each id with what keeps it together with others. seconds: what cases took before; a case that is not among
    them counts as much as the median of those that are. The longest go first, each to the shard that has least so far
    (Graham 1969, LPT: at most a third longer than the best there is). With more shards than there is work for, some
    are empty.
    """
    known = [seconds[case] for case, _ in cases if case in seconds]
    usual = statistics.median(known) if known else _UNKNOWN_SECONDS
    units: dict[Hashable, list[str]] = {}
    for case, unit in cases:
        units.setdefault(unit, []).append(case)
    weights = [(sum(seconds.get(case, usual) for case in members), members) for members in units.values()]
    loads, chosen = [0.0] * into, [set[str]() for _ in range(into)]
    for weight, members in sorted(weights, key=lambda one: -one[0]):  # a stable order: the suites' own
        least = min(range(into), key=lambda shard: (loads[shard], len(chosen[shard]), shard))
        loads[least] += weight
        chosen[least].update(members)
    shards = tuple(tuple(case for case, _ in cases if case in one) for one in chosen)
    return Division(shards=shards, seconds=tuple(loads), name=_name(shards))


def _name(shards: Sequence[Sequence[str]]) -> str:
    """A few letters that are the same for the same division."""
    text = "\n\n".join("\n".join(shard) for shard in shards)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
