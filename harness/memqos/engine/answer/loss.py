"""Where on its way a container's value was first lost: what each hop holds of it, from the daemon to the file.

A request becomes a stored specification, that a bundle's config.json, that the OCI runtime's own state and the
properties of a systemd unit, and that the text of a control file. Each hop is another program's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["HELD", "Hop", "HopHeld", "Loss", "changed_later", "first_lost", "unseen_loss"]


class Hop(StrEnum):
    """The places at which a value can be looked for, in the order in which it passes them."""

    SPEC = "the daemon's stored spec"
    CONFIG = "config.json"
    STATE = "the OCI runtime's state.json"
    UNIT = "the systemd unit"
    FILE = "the control file"


@dataclass(frozen=True, slots=True, kw_only=True)
class HopHeld:
    """One hop before the file.

    asked: what it has to say of the knob, in its own words; several where versions of the runtimes differ, "" for
    nothing. held: what it says. why_not: why that could not be seen, "" if it was. is_gone: whether it was there and is
    no more, so that it may have held what it had to.
    """

    hop: Hop
    asked: tuple[str, ...] = ()
    held: str = ""
    why_not: str = ""
    is_gone: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether it says something else than it has to."""
        return not self.why_not and self.held not in self.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The first hop that does not hold what was asked for.

    by: who lost it, "" if no hop could be seen. told: the same with what the hop before it had, as one line.
    documents: the hops' own files and answers, to be kept beside the findings.
    """

    by: str
    told: str
    hops: tuple[HopHeld, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


_BY = {
    Hop.SPEC: "the daemon",
    Hop.CONFIG: "the daemon, or a runtime that changed its config.json",
    Hop.STATE: "the OCI runtime",
    Hop.UNIT: "the OCI runtime, or whoever changed the systemd unit",
}
_CHANGED_BUNDLE = "the OCI runtime, which changed its config.json"
_AFTER_THE_UNIT = "whoever wrote the file after systemd"
_OCI_RUNTIME = "the OCI runtime"
_AFTER_THE_RUNTIME = "the OCI runtime, or whoever wrote the file after it"
_WHILE_IT_RAN = "whoever wrote the file while the container ran"

HELD = "held before"
"""The name, among a finding's evidence, of what a file held while the container ran and before it deviated."""


def first_lost(hops: Sequence[HopHeld], *, knob: str, observed: str, own_bundle: bool = False) -> Loss:
    """What the hops say of a control file that deviates, in their order; observed: its text.

    own_bundle: whether memqos wrote config.json, so that no daemon can have lost anything before it.

    A value that nobody asked for is first set, and not first lost, by the hop that has it.
    """
    seen = [hop for hop in hops if not hop.why_not]
    if not seen:
        reasons = "; ".join(f"{hop.hop}: {hop.why_not}" for hop in hops)
        return unseen_loss(reasons or "there is none to look at", hops)
    at = next((number for number, hop in enumerate(seen) if hop.is_lost), len(seen))
    asked = seen[min(at, len(seen) - 1)].asked
    before = _had("the request" if at == 0 else seen[at - 1].hop, " or ".join(asked) if at == 0 else seen[at - 1].held)
    now = f"{knob} has {observed}" if at == len(seen) else _has(seen[at])
    by = _CHANGED_BUNDLE if own_bundle and at < len(seen) and seen[at].hop is Hop.CONFIG else _by(seen, at, hops)
    verb = "lost" if any(asked) else "set"
    return Loss(by=by, told=f"first {verb}: {by} ({before}, {now})", hops=tuple(hops))


def changed_later(hops: Sequence[HopHeld], *, knob: str, held: str, observed: str) -> Loss:
    """A file that was seen to hold what was asked for while the container ran: no hop before it can have lost that."""
    told = f"first lost: {_WHILE_IT_RAN} ({knob} had {held}, and has {observed})"
    return Loss(by=_WHILE_IT_RAN, told=told, hops=tuple(hops))


def unseen_loss(reason: str, hops: Sequence[HopHeld] = ()) -> Loss:
    """Nothing can be said of who lost it, for this reason."""
    return Loss(by="", told=f"who lost it could not be seen: {reason}", hops=tuple(hops))


def _by(seen: Sequence[HopHeld], at: int, hops: Sequence[HopHeld]) -> str:
    if at < len(seen):
        return _BY[seen[at].hop]
    if seen[-1].hop is Hop.UNIT:
        return _AFTER_THE_UNIT
    return _AFTER_THE_RUNTIME if any(one.is_gone for one in hops) else _OCI_RUNTIME


def _had(where: str, said: str) -> str:
    return f"{where} had {said}" if said else f"{where} said nothing of it"


def _has(hop: HopHeld) -> str:
    return f"{hop.hop} has {hop.held}" if hop.held else f"{hop.hop} says nothing of it"
