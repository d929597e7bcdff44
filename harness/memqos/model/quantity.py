"""Kubernetes quantities, exact: parsed as the API server parses them, never through a float.

Source: apimachinery `resource.ParseQuantity`. Amounts finer than a nano are rounded up to a nano (away from zero
for negative ones), as upstream does. Amounts above 2^63-1 are capped there; upstream caps those with a binary suffix,
and the others overflow on conversion to a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

__all__ = ["ZERO", "Quantity", "QuantityError", "ResourceList"]

_NANOS = 10**9
_NANOS_IN_A_MILLI = 10**6
_CAP = (2**63 - 1) * _NANOS
_LONGEST = 128
_KIBI = 1024
_FORM = re.compile(r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<suffix>[a-zA-Z]*|[eE][+-]?[0-9]+)")
_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{letter: Fraction(10 ** (3 * power)) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}


class QuantityError(ValueError):
    """A text that is not a quantity; the message names the valid form."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount, with its original text.

    nanos: the amount in thousand millionths of a base unit (byte, CPU); no quantity is finer. written: "" for a
    computed amount. Two quantities are equal if their amounts are, whatever their texts: "1Gi" equals "1073741824".
    """

    nanos: int
    written: str = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """The quantity of this text; QuantityError if Kubernetes would refuse it.

        Also refused: a text without digits ("Mi", "."; upstream reads some of them as zero and refuses others, such as
        "Pi"), and one longer than 128 characters.

        An exponent with a value beyond the cap (or below a nano) is not expanded, so a hostile "1e1000000000" costs
        nothing.
        """
        return _parsed(text)

    @classmethod
    def of_bytes(cls, count: int) -> Quantity:
        """A whole amount in base units."""
        return cls(count * _NANOS)

    @property
    def amount(self) -> Fraction:
        """Base units, exactly."""
        return Fraction(self.nanos, _NANOS)

    @property
    def value(self) -> int:
        """Base units (bytes, CPUs), rounded up to a whole one: upstream's Value()."""
        return -(-self.nanos // _NANOS)

    @property
    def milli_value(self) -> int:
        """Thousandths of a base unit, rounded up: upstream's MilliValue()."""
        return -(-self.nanos // _NANOS_IN_A_MILLI)

    @property
    def is_zero(self) -> bool:
        """Whether the amount is exactly zero."""
        return not self.nanos

    @property
    def is_whole(self) -> bool:
        """Whether the amount is a whole number of base units."""
        return not self.nanos % _NANOS

    @property
    def is_whole_millis(self) -> bool:
        """Whether the amount is a whole number of thousandths of a base unit."""
        return not self.nanos % _NANOS_IN_A_MILLI

    def defaulted(self) -> Quantity:
        """The same, rounded up to whole milli units, like every quantity of a pod after API defaulting."""
        return Quantity(self.milli_value * _NANOS_IN_A_MILLI, self.written)

    def canonical(self) -> str:
        """As an API server prints it, in the suffix family of its text: "1Gi" for "1024Mi".

        A small or fractional binary one gets a decimal suffix. In the API server a computed amount has the suffix of
        its parts; here it has a binary one if it is a multiple of 1024. Source: apimachinery
        `Quantity.CanonicalizeBytes`.
        """
        binary = self.written.endswith("i") or (not self.written and self.value % _KIBI == 0)
        if binary and self.is_whole and abs(self.value) >= _KIBI:
            return _scaled(self.value, _KIBI, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
        if not self.nanos:
            return "0"
        return _scaled(self.nanos, 1000, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __str__(self) -> str:
        """Its original text; a computed amount in base units if whole, else in milli, else in nano units."""
        if self.written:
            return self.written
        if self.is_whole:
            return str(self.value)
        return f"{self.milli_value}m" if self.is_whole_millis else f"{self.nanos}n"


def _scaled(amount: int, step: int, suffixes: tuple[str, ...]) -> str:
    """A whole amount in the largest unit that it is a multiple of; the units are a factor `step` apart."""
    power = 0
    while amount % step == 0 and power < len(suffixes) - 1:
        amount //= step
        power += 1
    return f"{amount}{suffixes[power]}"


def _scale(suffix: str, text: str) -> Fraction:
    """The factor of a suffix or of a decimal exponent."""
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix[:1] in {"e", "E"} and suffix[1:].lstrip("+-").isdigit():
        exponent = int(suffix[1:])
        # Beyond these bounds the cap or the nano decides for any digits: a text has at most 128 of them.
        return Fraction(10) ** max(-_LONGEST - 10, min(exponent, _LONGEST + 20))
    raise QuantityError(
        f"'{text}' is not a quantity: '{suffix}' is not a suffix (Ki Mi Gi Ti Pi Ei, n u m k M G T P E, e3)"
    )


ZERO = Quantity(0)

ResourceList = Mapping[str, Quantity]
"""Resource name (cpu, memory, hugepages-2Mi …) to amount; a missing name was not given, which is not zero."""


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    if len(text) > _LONGEST:
        raise QuantityError(f"a quantity of {len(text)} characters is longer than the {_LONGEST} that are accepted")
    match = _FORM.fullmatch(text)
    if not match:
        raise QuantityError(f"'{text}' is not a quantity: write a number and a suffix such as Mi, Gi, M, G, m or e3")
    amount = Fraction(match["number"].rstrip(".")) * _scale(match["suffix"], text)
    nanos = min(math.ceil(amount * _NANOS), _CAP)
    return Quantity(-nanos if match["sign"] == "-" else nanos, text)
