"""Sets of zones as bit masks, with the orders that the Topology Manager puts them in.

Source: kubelet `cm/topologymanager/bitmask`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

__all__ = ["EMPTY", "FULL", "Mask", "masks_of"]

_BITS = 64


@dataclass(frozen=True, slots=True)
class Mask:
    """A set of zones: bit n stands for zone n, 0 to 63. No bit set is the empty set, not "any zone"."""

    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.bits < 1 << _BITS:
            raise ValueError(f"{self.bits} is not a mask of {_BITS} bits")

    @classmethod
    def of(cls, zones: Iterable[int]) -> Mask:
        """The mask of these zones; ValueError if one is outside 0 to 63."""
        bits = 0
        for zone in zones:
            if not 0 <= zone < _BITS:
                raise ValueError(f"zone {zone} is outside 0 to {_BITS - 1}, which is all that a mask can hold")
            bits |= 1 << zone
        return cls(bits)

    @property
    def zones(self) -> tuple[int, ...]:
        """The zones of the set, ascending."""
        return tuple(zone for zone in range(self.bits.bit_length()) if self.bits >> zone & 1)

    @property
    def count(self) -> int:
        """How many zones the set has."""
        return self.bits.bit_count()

    def __contains__(self, zone: int) -> bool:
        return 0 <= zone < _BITS and bool(self.bits >> zone & 1)

    def __bool__(self) -> bool:
        return self.bits != 0

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.bits & other.bits)

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.bits | other.bits)

    def __sub__(self, other: Mask) -> Mask:
        return Mask(self.bits & ~other.bits)

    def includes(self, other: Mask) -> bool:
        """Whether every zone of the other set is in this one."""
        return self.bits & other.bits == other.bits

    def __str__(self) -> str:
        # Two digits per step, as the kubelet logs it. Its comparison is strict, so that a lone bit 2, 4, 6 … comes
        # out one digit shorter than its neighbours ("100", but "0101").
        steps = [step for step in range(_BITS - 2, 0, -2) if self.bits > 1 << step]
        return f"{self.bits:0{steps[0] + 2 if steps else 2}b}"


EMPTY = Mask(0)
FULL = Mask((1 << _BITS) - 1)


@lru_cache(maxsize=64)
def masks_of(zones: tuple[int, ...]) -> tuple[Mask, ...]:
    """Every non-empty set of these zones: fewest zones first, then in lexicographic order of the zones given."""
    return tuple(Mask.of(chosen) for size in range(1, len(zones) + 1) for chosen in combinations(zones, size))
