"""The formats that bundles had, and the step from each to the next: so an older one is read as one of today. Pure.

A format is raised when a field changes its meaning or goes. Fields that only came are left out of older bundles, and
are empty there. A new format adds its step here, and a bundle of the one before to tests/bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from memqos.engine.answer.setter import Setter
from memqos.report.bundle import SCHEMA

__all__ = ["FORMATS", "lost_by", "of_bundles", "upgraded"]

_Case = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """From one format to the next. case: what becomes of a case. unsaid: what the older one could not say."""

    case: Callable[[_Case], _Case]
    unsaid: str


def _with_setters(case: _Case) -> _Case:
    """The first format does not say who set what was observed: it is counted for somebody else."""
    findings = [{"set_by": Setter.OTHER.value, "lost": None, **finding} for finding in case["findings"]]
    return {"runtime": "", "driver": "", **case, "findings": findings}


def _as_it_is(case: _Case) -> _Case:
    """The second format has each reason with its finding, as a line of findings.jsonl has it to this day."""
    return case


_SERIES = SCHEMA.rpartition("/")[0]
_STEPS = {
    f"{_SERIES}/1": _Step(case=_with_setters, unsaid="who set what was observed"),
    f"{_SERIES}/2": _Step(case=_as_it_is, unsaid=""),
}
FORMATS = (*_STEPS, SCHEMA)
"""Every format that is read, oldest first."""


def of_bundles(found: object) -> bool:
    """Whether it is the name of a format of bundles, be it a newer one."""
    return isinstance(found, str) and found.startswith(f"{_SERIES}/")


def upgraded(case: Any, since: str) -> Any:
    """A case of this format as one of today's; raises KeyError or TypeError for what is no case."""
    for step in _steps(since):
        case = step.case(case)
    return case


def lost_by(since: str) -> str:
    """What a bundle of this format does not say, as people read it; "" for one of today."""
    return ", nor ".join(step.unsaid for step in _steps(since) if step.unsaid)


def _steps(since: str) -> Iterator[_Step]:
    yield from (_STEPS[name] for name in FORMATS[FORMATS.index(since) : -1])
