"""A ruling: what is written into one control file, and how to say why.

The reason is made on demand, so that a plan without reasons costs only the arithmetic. For the same purpose rulings,
and the cases and requests that they are made from, are not frozen though nobody changes them: a container takes a
dozen of these values, which never leave the engine, and freezing them took a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memqos.engine.plan import Expected, Reason
from memqos.model.knob import ABSENT, Knob, KnobValue
from memqos.model.node import CgroupVersion
from memqos.model.read_back import read_back

__all__ = ["UNEXPLAINED", "Ruling", "Rulings", "Why", "expected", "kernel_revision", "unexplained", "unified_entries"]

Why = Callable[[], Reason]

UNEXPLAINED = Reason(rule="", revision="", source="")
"""Stands in a plan that was asked for without reasons."""


def unexplained() -> Reason:
    """What a ruling says that was made for a plan without reasons."""
    return UNEXPLAINED


@dataclass(slots=True)
class Ruling:
    """The value that is written (ABSENT: the file is left alone), and the chain of reasons for it.

    otherwise: what other versions of the runtime write, where it is not known which one runs. unasked: why nobody
    could ask for what is wanted, "" if it was asked for. unmodelled: why nothing can be expected, "" if something can.
    """

    written: KnobValue
    why: Why
    otherwise: tuple[KnobValue, ...] = ()
    unasked: str = ""
    unmodelled: str = ""


Rulings = Mapping[Knob, Ruling]


def expected(
    knob: Knob, ruling: Ruling, *, page_size: int, reasons: bool, default: KnobValue | None = None
) -> Expected:
    """The expectation that follows from a ruling: what the kernel shows afterwards in a cgroup that was new.

    default: what a file shows that nobody wrote, where that is the node's and not the kernel's own default.
    """
    written = ruling.written
    if default is None:
        default = knob.kernel_default
    value = read_back(knob, default if written is ABSENT else written, page_size)
    undecided: tuple[KnobValue, ...] = ()
    if ruling.otherwise:
        others = [read_back(knob, default if one is ABSENT else one, page_size) for one in ruling.otherwise]
        several = tuple(dict.fromkeys((value, *others)))
        undecided = several if len(several) > 1 else ()
    reason = ruling.why() if reasons else unexplained()
    return Expected(
        knob=knob,
        written=written,
        value=value,
        reason=reason,
        undecided=undecided,
        unasked=ruling.unasked,
        unmodelled=ruling.unmodelled,
    )


def unified_entries(rulings: Rulings) -> dict[str, str]:
    """Rulings as entries of a unified map: control file to text, without those that leave their file alone."""
    return {str(knob): str(ruling.written) for knob, ruling in rulings.items() if ruling.written is not ABSENT}


def kernel_revision(version: CgroupVersion) -> str:
    """The revision of what the kernel alone decides, whatever the release of Kubernetes."""
    return f"kernel cgroup {version}"
