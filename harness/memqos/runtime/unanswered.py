"""Errors of a runtime that does not answer, alike whatever it is asked through."""

from __future__ import annotations

from collections.abc import Mapping

from memqos.clock import Deadline
from memqos.errors import DeadlineError, MachineryError

__all__ = ["gone", "late"]


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
