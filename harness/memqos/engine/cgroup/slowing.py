"""What a plan's memory.high does to programs that cannot give memory back: where they sleep, stall, and end.

The model is `engine.cgroup.throttle`. It is about one task that grows and of which nothing can be reclaimed; page cache
of data that makes room is not slowed. How long it takes to memory.max is a range: each sleep pays for a batch of 64
pages, of which the task keeps between all and one, since the rest is given back when another task charges on its CPU.
Measured: 38 pages down to 1, and 1 in every run that took minutes. A task whose own text is the only page cache that
is charged to it may go a third way: each pass reclaims the text, the task reads it in again, and it never ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from memqos.engine.answer.verdict import subject
from memqos.engine.cgroup.throttle import CHARGE_BATCH, DEFAULT_HZ, least_sleep, sleeps_from, stalls_from
from memqos.engine.cgroup.unanswered import Unanswered, knobs_unmodelled, unanswered_document, unanswered_text
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.model.knob import Bytes, Knob

__all__ = ["Slowed", "duration", "slowing", "slowing_document", "slowing_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """One cgroup with a memory.high: amounts of memory.current in bytes.

    sleeps_from: where growth begins to cost sleep; stalls_from: where it comes to one batch in 2 s. end: the memory.max
    at which a program is killed; None without one. least_seconds: how long it sleeps at least on its way there, if it
    keeps all pages of each batch; None without an end. batch: bytes that one sleep pays for. hz: jiffies in a second.
    end_unknown: why memory.max is not known, "" where it is; then there is no end here.
    """

    subject: str
    path: str
    high: int
    sleeps_from: int
    stalls_from: int
    end: int | None
    least_seconds: Fraction | None
    batch: int
    hz: int
    end_unknown: str = ""

    @property
    def most_seconds(self) -> Fraction | None:
        """How long it sleeps on its way to memory.max if it keeps one page of each batch; None without an end."""
        return None if self.least_seconds is None else CHARGE_BATCH * self.least_seconds

    @property
    def stalls(self) -> bool:
        """Whether it stalls before it is killed."""
        return self.end is None or self.stalls_from < self.end


def slowing(plan: Plan, *, page_size: int = 4096, hz: int = DEFAULT_HZ) -> tuple[Slowed, ...]:
    """Every container and pod of this plan that has a memory.high, in the plan's order.

    hz: jiffies in a second (CONFIG_HZ); it moves sleeps_from by a page or so, and nothing much beyond.
    """
    return tuple(_slowed(plan, page_size, hz))


def _slowed(plan: Plan, page_size: int, hz: int) -> Iterator[Slowed]:
    for pod in plan.pods:
        for cgroup in (pod.cgroup, *(one.cgroup for one in pod.containers)):
            high = _bytes(cgroup, Knob.MEMORY_HIGH)
            if high is None:
                continue
            end = _bytes(cgroup, Knob.MEMORY_MAX)
            least = None if end is None else least_sleep(Bytes(high), end, hz=hz, page_size=page_size)
            yield Slowed(
                subject=subject(cgroup, pod),
                path=str(cgroup.path),
                high=high,
                sleeps_from=sleeps_from(Bytes(high), hz=hz, page_size=page_size),
                stalls_from=stalls_from(Bytes(high), hz=hz, page_size=page_size),
                end=end,
                least_seconds=least,
                batch=CHARGE_BATCH * page_size,
                hz=hz,
                end_unknown=knobs_unmodelled(cgroup, (Knob.MEMORY_MAX,)),
            )


def _bytes(cgroup: PlannedCgroup, knob: Knob) -> int | None:
    expected = cgroup.knobs.get(knob)
    return expected.value.count if expected is not None and isinstance(expected.value, Bytes) else None


def slowing_document(found: tuple[Slowed, ...], left_out: tuple[Unanswered, ...] = ()) -> list[dict[str, Any]]:
    """As JSON: amounts in bytes; leastMilliseconds and mostMilliseconds rounded down (null without a memory.max).

    left_out: the containers whose memory.high is not modelled: they follow with the reason alone.
    """
    rows: list[dict[str, Any]] = [
        {
            "subject": one.subject,
            "path": one.path,
            "high": one.high,
            "sleepsFrom": one.sleeps_from,
            "stallsFrom": one.stalls_from,
            "end": one.end,
            "stalls": one.stalls,
            "leastMilliseconds": None if one.least_seconds is None else int(one.least_seconds * 1000),
            "mostMilliseconds": None if one.most_seconds is None else int(one.most_seconds * 1000),
            "hz": one.hz,
            **({"endNotModelled": one.end_unknown} if one.end_unknown else {}),
        }
        for one in found
    ]
    return [*rows, *unanswered_document(left_out)]


def slowing_text(found: tuple[Slowed, ...], left_out: tuple[Unanswered, ...] = ()) -> str:
    """For people: where each cgroup with a memory.high is slowed, stalls and ends; left_out as `slowing_document`."""
    lines = [
        "Throttling: what memory.high does to one task that grows and of whose memory nothing can be reclaimed.",
    ]
    if not found:
        others = "other " if left_out else ""
        none = f"No {others}container and no pod has a memory.high: nothing is slowed."
        return "\n".join([*lines, *unanswered_text(left_out), "", none])
    lines += [
        f"Each sleep pays for {CHARGE_BATCH} pages. The shorter time is that of a task that keeps all of them, the",
        "longer that of one that keeps 1; long runs come near the longer one. Page cache of data and swap make room.",
    ]
    for one in found:
        lines += ["", one.subject, *_lines(one)]
    if any(one.end is None or one.sleeps_from < one.end for one in found):
        lines += [
            "",
            "A third way has no end: where the only page cache charged to a container is its own program text, each",
            "pass reclaims the text and the program reads it in again. Then anon stands still, pgmajfault grows, and",
            "nothing is killed. The plan does not show whether that happens: it depends on which cgroup read the text.",
        ]
    return "\n".join([*lines, *unanswered_text(left_out)])


def _lines(one: Slowed) -> Iterator[str]:
    if one.end is not None and one.end <= one.sleeps_from:
        yield f"  memory.high {one.high}: it ends at memory.max {one.end} before it sleeps"
        return
    yield f"  memory.high {one.high}: it sleeps from {one.sleeps_from} on"
    if one.stalls:
        yield f"  stalls from {one.stalls_from} on: {one.batch >> 10} KiB in 2 s"
    if one.end is None or one.least_seconds is None or one.most_seconds is None:
        yield f"  not modelled: {one.end_unknown}" if one.end_unknown else "  no end of its own: there is no memory.max"
        return
    least, most = duration(one.least_seconds), duration(one.most_seconds)
    yield f"  ends at memory.max {one.end}, if it keeps growing: after {least} to {most} of sleep"


def duration(seconds: Fraction) -> str:
    """Rounded down, in the two largest units that tell it: 5.5 s, 7 min 10 s, 25 h 30 min."""
    minutes, rest = divmod(int(seconds * 10), 600)
    if not minutes:
        return f"{rest // 10}.{rest % 10} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest // 10} s"
