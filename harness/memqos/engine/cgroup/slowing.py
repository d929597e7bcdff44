"""What a plan's memory.high does to programs that cannot give memory back: where they sleep, stall, and end.

The model is `engine.cgroup.throttle`. It is about one task that grows and of which nothing can be reclaimed; page cache
that makes room is not slowed. Jiffies are taken to be 4 ms (CONFIG_HZ 250), which moves a threshold by a page or so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from memqos.engine.answer.verdict import subject
from memqos.engine.cgroup.throttle import least_sleep, sleeps_from, stalls_from
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.model.knob import Bytes, Knob

__all__ = ["Slowed", "slowing", "slowing_document", "slowing_text"]

_HZ = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """One cgroup with a memory.high: amounts of memory.current in bytes.

    sleeps_from: where growth begins to cost sleep; stalls_from: where it comes to 256 KiB in 2 s. end: the memory.max
    at which a program is killed; None without one. least_seconds: how long it sleeps at least on its way there; None
    without an end.
    """

    subject: str
    path: str
    high: int
    sleeps_from: int
    stalls_from: int
    end: int | None
    least_seconds: Fraction | None

    @property
    def stalls(self) -> bool:
        """Whether it stalls before it is killed."""
        return self.end is None or self.stalls_from < self.end


def slowing(plan: Plan, *, page_size: int = 4096) -> tuple[Slowed, ...]:
    """Every container and pod of this plan that has a memory.high, in the plan's order."""
    return tuple(_slowed(plan, page_size))


def _slowed(plan: Plan, page_size: int) -> Iterator[Slowed]:
    for pod in plan.pods:
        for cgroup in (pod.cgroup, *(one.cgroup for one in pod.containers)):
            high = _bytes(cgroup, Knob.MEMORY_HIGH)
            if high is None:
                continue
            end = _bytes(cgroup, Knob.MEMORY_MAX)
            least = None if end is None else least_sleep(Bytes(high), end, hz=_HZ, page_size=page_size)
            yield Slowed(
                subject=subject(cgroup, pod),
                path=str(cgroup.path),
                high=high,
                sleeps_from=sleeps_from(Bytes(high), hz=_HZ, page_size=page_size),
                stalls_from=stalls_from(Bytes(high), hz=_HZ, page_size=page_size),
                end=end,
                least_seconds=least,
            )


def _bytes(cgroup: PlannedCgroup, knob: Knob) -> int | None:
    expected = cgroup.knobs.get(knob)
    return expected.value.count if expected is not None and isinstance(expected.value, Bytes) else None


def slowing_document(found: tuple[Slowed, ...]) -> list[dict[str, Any]]:
    """As JSON: amounts in bytes, leastMilliseconds rounded down (null without a memory.max)."""
    return [
        {
            "subject": one.subject,
            "path": one.path,
            "high": one.high,
            "sleepsFrom": one.sleeps_from,
            "stallsFrom": one.stalls_from,
            "end": one.end,
            "stalls": one.stalls,
            "leastMilliseconds": None if one.least_seconds is None else int(one.least_seconds * 1000),
        }
        for one in found
    ]


def slowing_text(found: tuple[Slowed, ...]) -> str:
    """For people: where each cgroup with a memory.high is slowed, stalls and ends."""
    lines = [
        "Throttling: what memory.high does to one task that grows and of whose memory nothing can be reclaimed.",
    ]
    if not found:
        return "\n".join([*lines, "", "No container and no pod has a memory.high: nothing is slowed."])
    for one in found:
        if one.end is not None and one.end <= one.sleeps_from:
            lines += ["", one.subject, f"  memory.high {one.high}: it ends at memory.max {one.end} before it sleeps"]
            continue
        lines += ["", one.subject, f"  memory.high {one.high}: it sleeps from {one.sleeps_from} on"]
        if one.stalls:
            lines.append(f"  stalls from {one.stalls_from} on: 256 KiB in 2 s")
        if one.end is None or one.least_seconds is None:
            lines.append("  never ends: there is no memory.max")
            continue
        after = f"after at least {_told(one.least_seconds)} of sleep"
        lines.append(f"  {'then ' if one.stalls else ''}ends at memory.max {one.end}, {after}")
    return "\n".join(lines)


def _told(seconds: Fraction) -> str:
    """Rounded down, in the largest units that tell it."""
    minutes, rest = divmod(int(seconds * 10), 600)
    if not minutes:
        return f"{rest // 10}.{rest % 10} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest // 10} s"
