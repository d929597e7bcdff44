"""`reservedMemory`: what of each zone is kept from containers, and that it adds up to the node's reservations.

Sources: kubelet `validation_reserved_memory.go`, `memory_manager.go` (validateReservedMemory),
`container_manager_linux.go` (GetNodeAllocatableReservation), `eviction/api` (GetThresholdQuantity).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from memqos.engine.numa.policies import configuration_error
from memqos.engine.numa.requests import is_counted
from memqos.engine.numa.zone_table import MEMORY
from memqos.model.node import KubeletSettings
from memqos.model.quantity import ZERO, Quantity, QuantityError

__all__ = ["Reserved", "by_zone", "check_fields", "check_sums", "hard_eviction", "in_words", "node_reservation"]

Reserved = Mapping[int, Mapping[str, int]]
"""Zone id to memory type to bytes that containers do not get."""

_FIELD = "reservedMemory"
_SIGNAL = "memory.available"
_DEFAULT_THRESHOLD = "100Mi"
_PERCENT = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{0,12})?%", re.ASCII)
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def in_words(amount: Fraction | int) -> str:
    """An amount of bytes as a person reads it: 1124Mi; the plain number where no binary unit fits."""
    step = 0
    whole = Fraction(amount)
    while whole and step < len(_UNITS) - 1 and (whole / 1024).denominator == 1:
        whole /= 1024
        step += 1
    if whole.denominator != 1:
        return f"{float(whole):g}"
    return f"{whole}{_UNITS[step]}"


def check_fields(settings: KubeletSettings) -> None:
    """ManifestError if `reservedMemory` itself is wrong: a type twice in a zone, a type that is no memory, a zero."""
    seen: set[tuple[int, str]] = set()
    for zone, limits in settings.reserved_memory or ():
        for kind, quantity in limits.items():
            if not is_counted(kind):
                raise configuration_error(
                    settings,
                    _FIELD,
                    f"'{kind}' of zone {zone} is no type of memory.",
                    "Use memory or hugepages-*.",
                )
            if quantity <= ZERO:
                raise configuration_error(
                    settings, _FIELD, f"{kind} of zone {zone} is {quantity}, and must be more than zero."
                )
            if not quantity.is_whole:
                raise configuration_error(
                    settings, _FIELD, f"{kind} of zone {zone} is {quantity}, which is not a whole number of bytes."
                )
            if (zone, kind) in seen:
                raise configuration_error(settings, _FIELD, f"{kind} of zone {zone} is given twice.", "Keep one.")
            seen.add((zone, kind))


def hard_eviction(settings: KubeletSettings, capacity: int) -> Quantity:
    """The hard eviction threshold of memory.available, in bytes; zero if it is not set, or set to 0% or 100%.

    Default 100Mi if `evictionHard` is not given at all. A percentage is of the capacity (bytes), in the kubelet's own
    arithmetic: a float32 fraction times a float64, truncated.
    """
    given = settings.eviction_hard
    text = _DEFAULT_THRESHOLD if given is None else given.get(_SIGNAL, "")
    if text in {"", "0%", "100%"}:
        return ZERO
    if _PERCENT.fullmatch(text):
        fraction = _float32(_float32(float(text.removesuffix("%"))) / 100)
        if 0 <= fraction <= 1:
            return Quantity.of_bytes(int(float(capacity) * fraction))
        raise configuration_error(settings, "evictionHard", f"{_SIGNAL} is {text}, and must be from 0% to 100%.")
    try:
        threshold = Quantity.parse(text)
    except QuantityError as error:
        raise configuration_error(settings, "evictionHard", f"{_SIGNAL}: {error}.") from error
    if threshold <= ZERO:
        raise configuration_error(settings, "evictionHard", f"{_SIGNAL} is {text}, and must be more than zero.")
    return threshold


def _float32(value: float) -> float:
    """The nearest IEEE single, as a float."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**24), exponent - 24)


def node_reservation(settings: KubeletSettings, capacity: int) -> dict[str, Quantity]:
    """What the node keeps of each memory type: system-reserved, kube-reserved and the hard eviction threshold."""
    total: dict[str, Quantity] = {}
    eviction = {MEMORY: hard_eviction(settings, capacity)}
    for part in (settings.system_reserved or {}, settings.kube_reserved or {}, eviction):
        for kind, quantity in part.items():
            if is_counted(kind):
                total[kind] = total.get(kind, ZERO) + quantity
    return {kind: quantity for kind, quantity in total.items() if not quantity.is_zero}


def check_sums(settings: KubeletSettings, reservation: Mapping[str, Quantity], zones: Mapping[int, object]) -> None:
    """ManifestError if a zone does not exist, or if a type's sum over zones is not exactly the node's reservation."""
    sums: dict[str, Quantity] = {}
    for zone, limits in settings.reserved_memory or ():
        if zone not in zones:
            raise configuration_error(
                settings,
                _FIELD,
                f"there is no zone {zone} on this machine.",
                f"It has {', '.join(map(str, sorted(zones)))}.",
            )
        for kind, quantity in limits.items():
            sums[kind] = sums.get(kind, ZERO) + quantity
    for kind in sorted(sums.keys() | reservation.keys(), key=lambda name: (name != MEMORY, name)):
        here, there = sums.get(kind, ZERO), reservation.get(kind, ZERO)
        if here != there:
            error = configuration_error(
                settings,
                _FIELD,
                f"the zones reserve {in_words(here.amount)} of {kind} together ({here.amount} bytes), but the node "
                f"reserves {in_words(there.amount)} ({there.amount} bytes).",
                "Both must be equal: systemReserved + kubeReserved + evictionHard memory.available (100Mi by default).",
            )
            error.data |= {"type": kind, "zones": here.amount, "node": there.amount}
            raise error


def by_zone(settings: KubeletSettings, zones: Mapping[int, object]) -> Reserved:
    """What is reserved in each zone, in bytes; an empty mapping for a zone without an entry."""
    reserved: dict[int, dict[str, int]] = {zone: {} for zone in zones}
    for zone, limits in settings.reserved_memory or ():
        reserved[zone] |= {kind: quantity.value for kind, quantity in limits.items()}
    return reserved
