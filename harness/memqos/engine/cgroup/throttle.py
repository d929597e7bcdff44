"""Throttling by memory.high: the kernel's sleeps, and the usage at which a plan's containers stall and end.

A model for claims about behaviour, with the kernel's own arithmetic: whole pages, whole jiffies, 64-bit unsigned
integers. A task that was charged a batch while its cgroup or an ancestor was over memory.high reclaims; if that frees
nothing, it sleeps before it returns to user space:

    overage = (usage - high) * 2^20 / high                   in pages, the largest of the cgroup and its ancestors
    penalty = overage^2 * HZ / 2^34 * charged / batch        in jiffies, at most 2 * HZ; up to HZ / 100 no sleep

For one batch of 64 pages that is 64 * ((usage - high) / high)^2 seconds: a program sleeps from an overage of 1.25 % on,
and reaches the cap at 17.68 %, where it grows by 256 KiB in 2 s. Source: mm/memcontrol.c `mem_cgroup_handle_over_high`,
`calculate_overage`, `calculate_high_delay`; include/linux/memcontrol.h `MEMCG_CHARGE_BATCH`; the same from Linux 6.1 to
7.2. Before 6.1 a batch was of 32 pages. The kernel adds delays for memory.swap.high; Kubernetes never sets it.

For a plan the model describes one growing task without reclaimable memory; reclaimable page cache of data is not
slowed. The time to memory.max is a range: each sleep pays for a batch of 64 pages, of which the task keeps between one
and all, since the rest is returned when another task charges on its CPU. Measured: 38 pages down to 1, and 1 in every
run that took minutes. A third case: if a task's own text is the only page cache charged to its cgroup, each pass
reclaims the text, the task reads it in again, and this never ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from memqos.engine.answer.finding import Subject, subject_of
from memqos.engine.cgroup.usage import Unanswered, knobs_unmodelled, unanswered_document, unanswered_text
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.model.knob import Bytes, Knob

__all__ = [
    "CHARGE_BATCH",
    "DEFAULT_HZ",
    "Growth",
    "Over",
    "Slowed",
    "delay",
    "duration",
    "fastest_growth",
    "least_sleep",
    "least_wait",
    "overage",
    "sleeps_from",
    "slowing",
    "slowing_document",
    "slowing_text",
    "stalls_from",
]

CHARGE_BATCH = 64
"""Pages charged to a task at once, before it uses them: so much each CPU may charge ahead, and memory.stat may lag.

Source: kernel mm/memcontrol.c, MEMCG_CHARGE_BATCH.
"""

DEFAULT_HZ = 250
"""Jiffies in a second (CONFIG_HZ) of Debian's and Ubuntu's server kernels; Fedora's and RHEL's have 1000."""

_PRECISION_SHIFT = 20
_SCALING_SHIFT = 14
_CAP_SECONDS = 2
_FLOOR_PART = 100
_WORD = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """One cgroup's usage and its memory.high, both in bytes; a threshold of zero counts as one page."""

    usage: int
    high: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A program's maximal growth: `usage` in bytes, after `slept` seconds of sleep."""

    usage: int
    slept: Fraction


def overage(over: Over, *, page_size: int = 4096) -> int:
    """The overage of a cgroup in 2^20ths of its memory.high; zero at or below it."""
    usage, high = over.usage // page_size, over.high.count // page_size
    if usage <= high:
        return 0
    high = max(high, 1)
    return ((usage - high) << _PRECISION_SHIFT) // high


def delay(levels: Sequence[Over], *, hz: int, charged: int = CHARGE_BATCH, page_size: int = 4096) -> int:
    """The sleep of a task that was charged so many pages and could reclaim nothing: jiffies, zero for none.

    levels: its cgroup and its ancestors with a memory.high; only the largest overage counts.
    hz: jiffies in a second (CONFIG_HZ of the kernel).

    As in the kernel, the square wraps at 64 bits: beyond about 130 (1000 HZ) or 260 (250 HZ) times memory.high the
    sleep is short again at single usages.
    """
    most = max((overage(one, page_size=page_size) for one in levels), default=0)
    penalty = (most * most * hz) % _WORD
    penalty = (penalty >> _PRECISION_SHIFT) >> _SCALING_SHIFT
    penalty = min(penalty * charged // CHARGE_BATCH, _CAP_SECONDS * hz)
    return penalty if penalty > hz // _FLOOR_PART else 0


def sleeps_from(high: Bytes, *, hz: int, page_size: int = 4096) -> int:
    """The least usage, in bytes, at which a batch costs a sleep."""
    return _least(high, hz // _FLOOR_PART + 1, hz=hz, page_size=page_size)


def stalls_from(high: Bytes, *, hz: int, page_size: int = 4096) -> int:
    """The least usage, in bytes, at which a batch costs the longest sleep: 256 KiB in 2 s with pages of 4 KiB.

    There a program is not killed and makes practically no progress.
    """
    return _least(high, _CAP_SECONDS * hz, hz=hz, page_size=page_size)


def fastest_growth(
    start: int, high: Bytes, *, seconds: int, hz: int, threads: int = 1, page_size: int = 4096
) -> Growth:
    """The most that a program can use after so many seconds, from a usage of `start` bytes, if nothing is reclaimed.

    An upper bound: charging takes no time, and a sleep of n jiffies ends with the n-th tick, after more than n - 1 of
    them. `threads` sleep in parallel. A batch is charged before its sleep, so each thread has one ahead. Time without
    sleep bounds nothing: if no sleep is due, the answer is the usage at which sleeping begins plus the batches charged
    ahead.
    """
    if seconds <= 0 or threads <= 0:
        raise ValueError(f"seconds and threads must be above zero (got {seconds} and {threads})")
    batch = CHARGE_BATCH * page_size
    usage, left, slept = max(start, sleeps_from(high, hz=hz, page_size=page_size)), seconds * hz, 0
    while True:
        pause = delay([Over(usage=usage, high=high)], hz=hz, page_size=page_size)
        least = max(pause - 1, 1)
        if slept + least > left:
            break
        usage, slept = usage + threads * batch, slept + least
    return Growth(usage=usage + threads * batch, slept=Fraction(slept, hz))


def least_sleep(high: Bytes, end: int, *, hz: int, page_size: int = 4096) -> Fraction:
    """The least seconds that one task sleeps from memory.high to a usage of `end` bytes, if nothing is reclaimed.

    Zero without a sleep. Each sleep counts one jiffy less than requested, since the kernel's timer may round it down
    that far.
    """
    batch, slept = CHARGE_BATCH * page_size, 0
    usage, stalled = high.count + batch, stalls_from(high, hz=hz, page_size=page_size)
    while usage <= min(end, stalled):
        slept += max(delay([Over(usage=usage, high=high)], hz=hz, page_size=page_size) - 1, 0)
        usage += batch
    capped = max(0, (end - usage) // batch + 1)
    return Fraction(slept + capped * (_CAP_SECONDS * hz - 1), hz)


def least_wait(over: Over, size: int, *, hz: int, page_size: int = 4096) -> Fraction:
    """The least seconds that a program sleeps for `size` bytes while another one in its cgroup is over memory.high.

    The other one may have charged a batch less one page ahead, and may leave it another batch for each batch that it
    pays for. over: the usage of both when it begins, which only grows.
    """
    pages = -(-size // page_size)
    paid = max(0, ceil(Fraction(pages - (CHARGE_BATCH - 1), 2 * CHARGE_BATCH)))
    return paid * Fraction(max(delay([over], hz=hz, page_size=page_size) - 1, 0), hz)


def _least(high: Bytes, penalty: int, *, hz: int, page_size: int) -> int:
    """The least usage whose batch costs at least this many jiffies, by bisection: up to it the delay is monotonic."""
    least = max(high.count // page_size, 1)
    low, top = least, 2 * least + 1
    while low < top:
        middle = (low + top) // 2
        if delay([Over(usage=middle * page_size, high=high)], hz=hz, page_size=page_size) >= penalty:
            top = middle
        else:
            low = middle + 1
    return low * page_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """One cgroup with a memory.high: amounts of memory.current in bytes.

    sleeps_from: the usage at which growth begins to cost sleep; stalls_from: at which it is one batch in 2 s. end: the
    memory.max at which a program is killed; None without one. least_seconds: its least sleep up to there, if it keeps
    all pages of each batch; None without an end. batch: bytes that one sleep pays for. hz: jiffies in a second.
    end_unknown: why memory.max is unknown, "" if it is known; end is then None.
    """

    subject: Subject
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
        """Its sleep up to memory.max if it keeps one page of each batch; None without an end."""
        return None if self.least_seconds is None else CHARGE_BATCH * self.least_seconds

    @property
    def stalls(self) -> bool:
        """Whether it stalls before it is killed."""
        return self.end is None or self.stalls_from < self.end


def slowing(plan: Plan, *, page_size: int = 4096, hz: int = DEFAULT_HZ) -> tuple[Slowed, ...]:
    """Every container and pod of this plan that has a memory.high, in the plan's order.

    hz: jiffies in a second (CONFIG_HZ); it changes sleeps_from by a page or so, and little else.
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
                subject=subject_of(cgroup, pod),
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

    left_out: the containers whose memory.high is not modelled: each follows with its reason only.
    """
    rows: list[dict[str, Any]] = [
        {
            "subject": str(one.subject),
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
    """As text: where each cgroup with a memory.high is slowed, stalls and ends; left_out: see `slowing_document`."""
    lines = [
        "Throttling: what memory.high does to one growing task whose memory cannot be reclaimed.",
    ]
    if not found:
        others = "other " if left_out else ""
        none = f"No {others}container and no pod has a memory.high: nothing is slowed."
        return "\n".join([*lines, *unanswered_text(left_out), "", none])
    lines += [
        f"One sleep covers {CHARGE_BATCH} charged pages. The shorter time is for a task that keeps all of them, the",
        "longer for a task that keeps one; long runs are close to the longer time. Page cache of data, and swap,",
        "cost no sleep.",
    ]
    for one in found:
        lines += ["", str(one.subject), *_lines(one)]
    if any(one.end is None or one.sleeps_from < one.end for one in found):
        lines += [
            "",
            "A third case never ends: if the only page cache charged to a container is its own program text, each pass",
            "reclaims the text and the program faults it in again. Then anon does not change, pgmajfault rises, and",
            "nothing is killed. A plan cannot show whether this happens: it depends on which cgroup read the text.",
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
        yield f"  not modelled: {one.end_unknown}" if one.end_unknown else "  no end of its own: memory.max is not set"
        return
    least, most = duration(one.least_seconds), duration(one.most_seconds)
    yield f"  ends at memory.max {one.end}, if it keeps growing: after {least} to {most} of sleep"


def duration(seconds: Fraction) -> str:
    """Rounded down to the two largest units: 5.5 s, 7 min 10 s, 25 h 30 min."""
    minutes, rest = divmod(int(seconds * 10), 600)
    if not minutes:
        return f"{rest // 10}.{rest % 10} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest // 10} s"
