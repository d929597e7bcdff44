"""How long each thread of a workload waited for its memory, by its own clock. PURE."""

from __future__ import annotations

from memqos.workload.report import ReportLine, StepLine

__all__ = ["THREAD_US", "waits_of"]

THREAD_US = 1_000_000
"""What one thread waits that sleeps for its charges, in µs: half of the longest sleep, and more than a CPU is busy."""


def waits_of(report: tuple[ReportLine, ...]) -> dict[int, float]:
    """How long each of a program's threads waited at least, in µs, by its number: its longest wait of each step."""
    waits: dict[int, float] = {}
    for line in report:
        if isinstance(line, StepLine) and line.thread:
            waits[line.thread] = waits.get(line.thread, 0.0) + line.max_us
    return waits
