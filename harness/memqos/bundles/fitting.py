"""Whether shards fit together: parts of one division, each there, and none there twice. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["misfit_shards"]


def misfit_shards(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """What is wrong, a sentence each; nothing where no part is a shard.

    parts: each name with what its bundle says of its shard, empty for a whole run.
    """
    shards = [(name, shard) for name, shard in parts if shard]
    wholes: dict[tuple[str, ...], list[str]] = {}
    for name, shard in shards:
        whole = tuple(str(shard.get(key, "?")) for key in ("of", "cases", "division"))
        wholes.setdefault(whole, []).append(name)
    if len(wholes) > 1:
        told = "; ".join(
            f"{', '.join(names)}: {of} parts of {cases} cases, division {division}"
            for (of, cases, division), names in wholes.items()
        )
        yield f"the shards are of different divisions, so that cases may be missing or there twice ({told})"
        return
    for of, _, _ in wholes:
        numbers = [str(shard.get("number", "?")) for _, shard in shards]
        every = map(str, range(1, int(of) + 1)) if of.isdigit() else ()
        missing = [number for number in every if number not in numbers]
        if missing:
            yield f"of {of} shards {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
