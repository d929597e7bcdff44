"""Whether shards fit together: parts of one division, each there, and none there twice. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["misfit_shards"]


def misfit_shards(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """What is wrong, a sentence each; nothing where no part is a shard, or each division has all its shards.

    parts: each name with what its bundle says of its shard, empty for a whole run.
    """
    shards = [(name, shard) for name, shard in parts if shard]
    wholes: dict[tuple[str, ...], list[str]] = {}
    for name, shard in shards:
        whole = _whole_of(shard, [other for _, other in shards])
        wholes.setdefault(whole, []).append(name)
    lacking = {whole: missing for whole, names in wholes.items() if (missing := _missing(whole[0], names, parts))}
    if len(lacking) > 1:
        told = "; ".join(
            f"{', '.join(wholes[of, cases, division])}: {of} parts of {cases} cases, division {division}"
            for of, cases, division in lacking
        )
        yield f"the shards are of different divisions, so that cases may be missing or there twice ({told})"
        return
    for (of, _, _), missing in lacking.items():
        yield f"of {of} shards {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"


def _whole_of(shard: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a shard is part of; of one that was killed before it divided its cases, the only one that it can be of."""
    known = {_told(one) for one in shards if one.get("division") and one.get("of") == shard.get("of")}
    return known.pop() if not shard.get("division") and len(known) == 1 else _told(shard)


def _told(shard: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(shard.get(key, "?")) for key in ("of", "cases", "division"))


def _missing(of: str, names: Sequence[str], parts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The numbers of a division that none of these parts has."""
    numbers = {str(shard.get("number", "?")) for name, shard in parts if name in names}
    return [number for number in map(str, range(1, int(of) + 1)) if number not in numbers] if of.isdigit() else []
