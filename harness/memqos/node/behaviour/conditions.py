"""Named conditions on a watched container, which behaviour tests wait for.

Conditions combine: all of several, any of them, or one after another.

    container.until(either(ended(), rises("memory.events", "high")))
    watch.until(after(victim.sees(rises("memory.events", "low")), neighbour.sees(ended())))

The parts are conditions of one container, or `sees` of several, and may be put together themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from memqos.cgroupfs import parse
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.engine.plan import Expected
from memqos.errors import UsageError
from memqos.model.knob import Bytes, Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.reading import Reading
from memqos.runtime.base import ContainerStatus
from memqos.workload.report import Done, ReportLine, StepLine

__all__ = [
    "PEAKS",
    "SMALL_PAGE",
    "THROTTLE_US",
    "WATCHED_FILES",
    "Combined",
    "Condition",
    "Sample",
    "Unfinished",
    "after",
    "amounts_of",
    "both",
    "counted",
    "either",
    "ended",
    "exceeds",
    "faults",
    "gathered",
    "held",
    "numa_of",
    "reaches",
    "rises",
    "stalls",
    "stat_of",
    "thread_stalls",
    "waits_of",
    "work_done",
]

WATCHED_FILES: Mapping[CgroupVersion, tuple[str, ...]] = {
    CgroupVersion.V2: (
        "memory.current", "memory.peak", "memory.min", "memory.low", "memory.high", "memory.max", "memory.oom.group",
        "memory.events", "memory.pressure", "memory.numa_stat", "memory.stat", "memory.swap.current",
        "memory.swap.peak", "memory.swap.max", "memory.swap.events", "memory.zswap.current", "cpuset.mems",
        "cgroup.events",
    ),
    CgroupVersion.V1: (
        "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt",
        "memory.memsw.usage_in_bytes", "memory.memsw.max_usage_in_bytes", "memory.memsw.limit_in_bytes",
        "memory.memsw.failcnt", "memory.oom_control", "memory.stat", "cpuset.mems",
    ),
}  # fmt: skip
"""The files that show behaviour, and the knobs that it depends on."""

PEAKS: Mapping[str, str] = {"memory.swap.current": "memory.swap.peak"}
"""Amounts whose maximum the kernel keeps, and its file (memory.swap.peak: from 6.5 on).

The peak includes what happened between two samples.
"""

THROTTLE_US = 10_000
"""A stall that counts as throttling, in µs of memory pressure.

The kernel skips the sleep of a task above memory.high for penalties of up to HZ/100 = 10 ms (mm/memcontrol.c,
mem_cgroup_handle_over_high), so a throttled task stalls for longer than that.
"""


SMALL_PAGE = 4096
"""Bytes of a page of which pods and texts have hundreds, so that a batch of 64 matters little."""

STALL_US = 4_000_000
"""A stall too long to be noise, in µs of memory pressure: two of the longest sleeps of a task above memory.high.

The growth in the meantime is compared with the model, however long it takes.
"""

GOOD = 10
"""How many times as long a program stalls that will never finish.

If other tasks run on its CPU while it sleeps, one sleep buys a page instead of a batch of 64. From 96 % of 24 MiB to
the end that makes 205 sleeps of up to 72 ms, 4.6 s in all; this was measured beside a busy neighbour on the host.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of a container: its cgroup and its pod's, the runtime's status, and the workload's report.

    planned: the values that the container's interface files must hold, and that its behaviour is compared with. runs:
    whether the container was known to run by then; while a runtime creates it, its files still hold the kernel's
    defaults. page_size: the machine's page size in bytes. done: how many commands the workload has reported as
    finished.
    """

    container: CgroupPath
    pod: CgroupPath
    planned: Mapping[Knob, Expected]
    reading: Reading
    status: ContainerStatus
    report: tuple[ReportLine, ...]
    page_size: int
    runs: bool = True
    done: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Cached: each wait asks this of every sample.
        done = {line.command for line in self.report if isinstance(line, Done)}
        object.__setattr__(self, "done", len(done))

    @property
    def slack(self) -> int:
        """Bytes below its limit from which an amount counts as having reached it: a batch of pages.

        The kernel charges in batches (mm/memcontrol.c, MEMCG_CHARGE_BATCH), and stops swapping when a cgroup has fewer
        pages than that left (mm/vmscan.c, MIN_LRU_BATCH).
        """
        return CHARGE_BATCH * self.page_size

    def text(self, file: str) -> str | None:
        """A file of the container's cgroup; None if it does not exist (any more)."""
        text = self.reading.file(self.container, file)
        return text if isinstance(text, str) else None

    def counter(self, file: str, key: str) -> int | None:
        """A counter of an events file or of memory.pressure ("some total", "full total", in µs); None if missing.

        Read from the pod's cgroup. Events and pressure propagate up the tree, so the pod includes its container, keeps
        the counts when the container is gone, and counts hits of the pod's own limits, which bound the container too.
        """
        for path in (self.pod, self.container):
            text = self.reading.file(path, file)
            if isinstance(text, str):
                return self._pressure(text, key, path) if key.endswith(" total") else self._key(text, file, key, path)
        return None

    def number(self, file: str) -> int | None:
        """A file that holds an amount, in bytes; None if it does not exist."""
        text = self.text(file)
        return None if text is None else parse.number(text, path=f"{self.container}/{file}")

    def pod_number(self, file: str) -> int | None:
        """`number` for the pod's cgroup."""
        text = self.reading.file(self.pod, file)
        return parse.number(text, path=f"{self.pod}/{file}") if isinstance(text, str) else None

    def bound(self, limit: Knob) -> int | None:
        """The container's planned limit, in bytes as the kernel shows them; None if the plan sets none.

        Never the value of the file: a runtime that writes a wrong limit would be compared with its own mistake.
        """
        expected = self.planned.get(limit)
        return expected.value.count if expected is not None and isinstance(expected.value, Bytes) else None

    def pod_peak(self, file: str) -> int | None:
        """The peak of an amount in the pod's cgroup, which outlives the container's; None if missing."""
        peak = PEAKS.get(file, "")
        text = self.reading.file(self.pod, peak)
        return parse.number(text, path=f"{self.pod}/{peak}") if isinstance(text, str) else None

    def failures(self, file: str) -> int | None:
        """How often a cgroup v1 limit was hit, summed over the pod and the container; None if neither file exists.

        Such a counter (memory.failcnt) covers its own cgroup only and does not propagate up the tree.
        """
        texts = [(path, self.reading.file(path, file)) for path in (self.pod, self.container)]
        counts = [parse.number(text, path=f"{path}/{file}") for path, text in texts if isinstance(text, str)]
        return sum(counts) if counts else None

    def _key(self, text: str, file: str, key: str, path: CgroupPath) -> int | None:
        return parse.counters(text, path=f"{path}/{file}").get(key)

    def _pressure(self, text: str, key: str, path: CgroupPath) -> int:
        pressure = parse.pressure(text, path=f"{path}/memory.pressure")
        return (pressure.full if key == "full total" else pressure.some).total


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: its name as errors print it, whether a sample fulfils it, and what the sample shows of it."""

    name: str
    holds: Callable[[Sample], bool]
    shows: Callable[[Sample], str]


def amounts_of(sample: Sample, file: str) -> list[int]:
    """An amount in a sample, in bytes: the current value, and the peak so far if the kernel keeps it."""
    names = (file, PEAKS[file]) if file in PEAKS else (file,)
    return [amount for name in names if (amount := sample.number(name)) is not None]


def rises(file: str, key: str) -> Condition:
    """The counter is above zero, its value at creation of the cgroup; pressure: above one short sleep."""
    least = THROTTLE_US if file == "memory.pressure" else 0
    return Condition(
        f"{file} {key} rises",
        lambda sample: (sample.counter(file, key) or 0) > least,
        lambda sample: f"{key} {_or_unread(sample.counter(file, key))} in {sample.pod}/{file}",
    )


def stalls(*, for_good: bool = False) -> Condition:
    """Tasks of the container's pod have waited for memory for four seconds in all: two of the longest sleeps.

    for_good: wait long enough to rule out growth that is only slow; see GOOD.
    """
    least = STALL_US * (GOOD if for_good else 1)
    return Condition(
        f"memory.pressure some total reaches {least} µs",
        lambda sample: (sample.counter("memory.pressure", "some total") or 0) >= least,
        lambda sample: f"some total {_or_unread(sample.counter('memory.pressure', 'some total'))} µs in {sample.pod}",
    )


def thread_stalls() -> Condition:
    """One of the program's threads has waited for its memory for four seconds in all, by the workload's report.

    Memory that the program took before it started its threads does not count.
    """

    def longest(sample: Sample) -> float:
        return max(waits_of(sample.report).values(), default=0.0)

    return Condition(
        f"a thread has waited {STALL_US} µs",
        lambda sample: longest(sample) >= STALL_US,
        lambda sample: f"the longest that one has waited is {longest(sample):.0f} µs",
    )


def waits_of(report: tuple[ReportLine, ...]) -> dict[int, float]:
    """µs that each thread waited at least, by thread number: the sum of its longest wait in each step."""
    waits: dict[int, float] = {}
    for line in report:
        if isinstance(line, StepLine) and line.thread:
            waits[line.thread] = waits.get(line.thread, 0.0) + line.max_us
    return waits


FAULTS = 40
"""So many major faults show a container that reads its text again and again; one with its text locked has a few."""


def faults() -> Condition:
    """The container's memory.stat has counted FAULTS major faults."""
    return Condition(
        f"memory.stat pgmajfault reaches {FAULTS}",
        lambda sample: (stat_of(sample, "pgmajfault") or 0) >= FAULTS,
        lambda sample: f"pgmajfault {_or_unread(stat_of(sample, 'pgmajfault'))} in {sample.container}/memory.stat",
    )


def stat_of(sample: Sample, key: str) -> int | None:
    """A row of the container's own memory.stat; None if it is missing or unreadable."""
    text = sample.text("memory.stat")
    return None if text is None else parse.counters(text, path=f"{sample.container}/memory.stat").get(key)


def reaches(file: str, limit: Knob) -> Condition:
    """The amount is within one charge batch of its planned limit."""

    def holds(sample: Sample) -> bool:
        amounts, bound = amounts_of(sample, file), sample.bound(limit)
        return bool(amounts) and bound is not None and max(amounts) >= bound - sample.slack

    return Condition(f"{file} reaches {limit}", holds, lambda sample: _beside(sample, file, limit))


def exceeds(file: str, limit: Knob) -> Condition:
    """The amount exceeds the planned limit of another file."""

    def holds(sample: Sample) -> bool:
        amount, bound = sample.number(file), sample.bound(limit)
        return amount is not None and bound is not None and amount > bound

    return Condition(f"{file} exceeds {limit}", holds, lambda sample: _beside(sample, file, limit))


def _beside(sample: Sample, file: str, limit: Knob) -> str:
    amount, bound = _or_unread(sample.number(file)), sample.bound(limit)
    return f"{amount} in {sample.container}/{file}; planned {limit} is {'max' if bound is None else bound}"


def _or_unread(number: int | None) -> str:
    return "(not there)" if number is None else str(number)


def ended() -> Condition:
    """The container no longer runs."""
    return Condition(
        "the container has ended",
        lambda sample: sample.status.exit_code is not None,
        lambda sample: f"the container {sample.container} is {sample.status.state}",
    )


def counted(key: str) -> Condition:
    """memory.numa_stat counts all that the workload holds; the kernel updates its statistics every 2 s.

    key: a row of memory.numa_stat: anon, file, shmem.
    """

    def count(sample: Sample) -> int:
        return sum((numa_of(sample, key) or {}).values())

    return Condition(
        f"memory.numa_stat counts as much {key} as the workload holds",
        lambda sample: count(sample) >= held(sample.report, key) > 0,
        lambda sample: (
            f"{key} {count(sample)} of {held(sample.report, key)} bytes held, in {sample.container}/memory.numa_stat"
        ),
    )


def gathered(key: str, numa_node: int) -> Condition:
    """memory.numa_stat counts all that the workload holds on one NUMA node; key: as for `counted`."""

    def count(sample: Sample) -> int:
        return (numa_of(sample, key) or {}).get(numa_node, 0)

    return Condition(
        f"memory.numa_stat counts as much {key} on N{numa_node} as the workload holds",
        lambda sample: count(sample) >= held(sample.report, key) > 0,
        lambda sample: f"{key} N{numa_node}={count(sample)} in {sample.container}/memory.numa_stat",
    )


def numa_of(sample: Sample, key: str) -> dict[int, int] | None:
    """Bytes by NUMA node of a row of memory.numa_stat; None if unreadable, empty if the row is missing."""
    text = sample.text("memory.numa_stat")
    return None if text is None else parse.numa_stat(text, path=f"{sample.container}/memory.numa_stat").get(key, {})


_VERBS = {"anon": "anon", "file": "file", "shmem": "tmpfs"}
"""The workload's commands, by the row of memory.numa_stat that counts their memory."""


def held(report: tuple[ReportLine, ...], key: str) -> int:
    """Bytes of a kind that the workload reports to hold after all finished commands; key: as for `counted`."""
    done = (line for line in report if isinstance(line, Done) and line.verb == _VERBS[key])
    return sum({line.command: line.bytes for line in done}.values())


def work_done(commands: int) -> Condition:
    """The workload has reported this many commands as finished."""
    return Condition(
        f"the workload has done {commands} commands",
        lambda sample: sample.done >= commands,
        lambda sample: f"it has done {sample.done}",
    )


T = TypeVar("T")
U = TypeVar("U")


class Join(StrEnum):
    """How the parts of a combination are joined; the value is the word between them."""

    ALL = "and"
    ANY = "or"
    IN_TURN = "and later"


@dataclass(frozen=True, slots=True)
class Combined(Generic[T]):
    """Several conditions combined into one."""

    join: Join
    parts: tuple[Combined[T] | T, ...]

    def each(self, make: Callable[[T], Combined[U] | U]) -> Combined[U]:
        """The same combination with each part mapped."""
        parts = (part.each(make) if isinstance(part, Combined) else make(part) for part in self.parts)
        return Combined(self.join, tuple(parts))

    def leaves(self) -> Iterator[T]:
        """All single conditions in this combination, in order."""
        for part in self.parts:
            if isinstance(part, Combined):
                yield from part.leaves()
            else:
                yield part

    def in_words(self, name: Callable[[T], str]) -> str:
        """This combination in words; nested combinations are in brackets."""
        words = []
        for part in self.parts:
            if isinstance(part, Combined):
                text = part.in_words(name)
                differs = part.join is not self.join and len(part.parts) > 1 and len(self.parts) > 1
                words.append(f"({text})" if differs else text)
            else:
                words.append(name(part))
        return f" {self.join} ".join(words)


def either(*parts: Combined[T] | T) -> Combined[T]:
    """Any one of these conditions; UsageError for none."""
    return _combined(Join.ANY, parts)


def both(*parts: Combined[T] | T) -> Combined[T]:
    """All of these conditions, each at any time and in any order; UsageError for none."""
    return _combined(Join.ALL, parts)


def after(first: Combined[T] | T, *then: Combined[T] | T) -> Combined[T]:
    """Each of these conditions in a sample after the one that fulfilled the previous; UsageError for only one.

    A lasting condition, such as a counter that rose, holds in every later sample: it may have begun before.
    """
    if not then:
        raise UsageError(
            "'after' needs a second condition.", where="after()", next_step="Name the condition that follows."
        )
    return _combined(Join.IN_TURN, (first, *then))


def _combined(join: Join, parts: tuple[Combined[T] | T, ...]) -> Combined[T]:
    if not parts:
        raise UsageError("no condition is given.", next_step="Give at least one condition.")
    return Combined(join, parts)


class Unfinished(Generic[T]):
    """Progress of one condition or combination over the samples so far."""

    def __init__(self, combined: Combined[T]) -> None:
        self._join = combined.join
        self._parts: list[Unfinished[T] | _Leaf[T]] = [
            Unfinished(part) if isinstance(part, Combined) else _Leaf(part) for part in combined.parts
        ]

    @property
    def is_seen(self) -> bool:
        """Whether enough of its parts were fulfilled, at whatever times."""
        some = any if self._join is Join.ANY else all
        return some(part.is_seen for part in self._parts)

    def see(self, holds: Callable[[T], bool]) -> None:
        """Take one more sample. holds: whether a condition holds in it; called only for pending conditions."""
        if self.is_seen:
            return
        waiting = [part for part in self._parts if not part.is_seen]
        for part in waiting[:1] if self._join is Join.IN_TURN else waiting:
            part.see(holds)

    def unseen(self) -> Iterator[T]:
        """The pending conditions."""
        if not self.is_seen:
            for part in self._parts:
                yield from part.unseen()


class _Leaf(Generic[T]):
    """One condition."""

    def __init__(self, what: T) -> None:
        self._what = what
        self.is_seen = False

    def see(self, holds: Callable[[T], bool]) -> None:
        """Take one more sample."""
        self.is_seen = holds(self._what)

    def unseen(self) -> Iterator[T]:
        """Itself while it is pending."""
        if not self.is_seen:
            yield self._what
