"""Errors of a runtime that does not answer, or not with what was asked for, whatever it is asked through."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineryError

__all__ = ["gone", "late", "usable_id"]

_ID = re.compile(r"\w[\w.-]{0,254}", re.ASCII)
_SHOWN = 100


def late(runtime: str, method: str, deadline: Deadline, *, data: Mapping[str, object]) -> DeadlineError:
    """It did not answer in time."""
    condition = f"{runtime} answers {method}"
    return DeadlineError(
        f"waited {deadline.elapsed:.1f} s for '{condition}'; there was no answer.",
        data={**data, "condition": condition, "last": None, "elapsed": deadline.elapsed},
    )


def gone(runtime: str, method: str, details: str, *, data: Mapping[str, object]) -> MachineryError:
    """Nothing is at the other end."""
    return MachineryError(
        f"{runtime} does not answer: {details}",
        where=method,
        next_step="See whether the runtime's service runs on the machine, and its journal.",
        data=data,
    )


def usable_id(runtime: str, method: str, text: str) -> str:
    """The id that a runtime gave what it made; MachineryError for one that no cgroup and no folder can have."""
    if not _ID.fullmatch(text):
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise MachineryError(
            f"{runtime} answered with {shown!r}, which is no id.",
            where=method,
            next_step="An id has letters, digits, '.', '-' and '_', and begins with a letter or a digit.",
            data={"id": text},
        )
    return text
