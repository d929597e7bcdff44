"""How long a runtime takes for requests, and how much memory it takes for itself.

Both are information, not part of the verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Timing", "overhead_text", "timing_text"]

_STEPS: Mapping[str, str] = {
    "RunPodSandbox": "sandbox",
    "CreateContainer": "create",
    "create": "create",
    "ContainerCreate": "create",
    "StartContainer": "start",
    "start": "start",
    "ContainerStart": "start",
    "UpdateContainerResources": "update",
    "update": "update",
    "ContainerUpdate": "update",
}
"""The timed requests, by their names in CRI, OCI runtimes and the Docker Engine."""

_MIB = 1 << 20


@dataclass(slots=True)
class Timing:
    """Seconds per answer, by step; refused requests do not count."""

    _seconds: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in _STEPS.values()})

    def add(self, method: str, seconds: float) -> None:
        """Add one answer; other methods are ignored."""
        if method in _STEPS:
            self._seconds[_STEPS[method]].append(seconds)

    def told(self) -> Mapping[str, Mapping[str, float]]:
        """By step: the number of answers, their median and longest in seconds; without steps that have none."""
        return {
            step: {
                "count": len(seconds),
                "median": round(statistics.median(seconds), 3),
                "longest": round(max(seconds), 3),
            }
            for step, seconds in self._seconds.items()
            if seconds
        }


def timing_text(told: Mapping[str, Mapping[str, Any]]) -> str:
    """One machine's timing in one line."""
    return ", ".join(f"{step} {one['median']:.2f} s ({one['count']})" for step, one in told.items())


def overhead_text(told: Mapping[str, int]) -> str:
    """The memory of one machine's runtime in one line."""
    words = {
        "beside": "{} in the pod outside of its container",
        "starting": "at most {} in a container until its process ran",
        "monitor": "{} per shim or monitor",
    }
    return ", ".join(text.format(f"{told[name] / _MIB:.1f} MiB") for name, text in words.items() if name in told)
