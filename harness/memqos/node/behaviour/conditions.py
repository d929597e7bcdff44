"""Named conditions on a container that is watched: what a behaviour test waits for, as values.

What a watch waits for, put together: all of several conditions, any of them, or one after another.

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
from memqos.workload.report import Done, ReportLine

__all__ = [
    "PEAKS",
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
"""The files that behaviour shows in, and the knobs that it rests on."""

PEAKS: Mapping[str, str] = {"memory.swap.current": "memory.swap.peak"}
"""Amounts of which the kernel keeps the most there ever was, and where (memory.swap.peak: from 6.5 on).

What was between two looks is in it too.
"""

THROTTLE_US = 10_000
"""A stall that counts as throttling, in µs of memory pressure.

The kernel lets a task above memory.high go on without sleep for penalties of up to HZ/100 = 10 ms
(mm/memcontrol.c, mem_cgroup_handle_over_high), so one throttled task stalls for more than that.
"""


STALL_US = 4_000_000
"""A stall that is no hiccup, in µs of memory pressure: two of the longest sleeps of a task above memory.high.

How far a program comes meanwhile is held to the model, whatever the time.
"""

GOOD = 10
"""How many times as long a program stalls that will not come to its end.

Where others run on its CPU while it sleeps, a sleep buys a page instead of a batch of 64. From 96 % of 24 MiB on to the
end that makes 205 sleeps of up to 72 ms, 4.6 s in all, and so it was beside a busy neighbour on the host.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at a container: its cgroup and its pod's, the runtime's word, and what the workload reported.

    planned: what the container's control files must hold, which is what its behaviour is measured by. runs: whether
    the container was known to run by then: while a runtime makes it, its files still hold the kernel's defaults.
    page_size: bytes of a page of the machine. done: of how many commands the workload had reported the end.
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
        # Once: each wait asks it of all samples there are.
        done = {line.command for line in self.report if isinstance(line, Done)}
        object.__setattr__(self, "done", len(done))

    @property
    def slack(self) -> int:
        """Bytes below its limit at which an amount counts as having reached it: a batch of pages.

        The kernel charges in batches (mm/memcontrol.c, MEMCG_CHARGE_BATCH), and stops swapping when less than so many
        pages are left to a cgroup (mm/vmscan.c, MIN_LRU_BATCH).
        """
        return CHARGE_BATCH * self.page_size

    def text(self, file: str) -> str | None:
        """A file of the container's cgroup, None if it is not there (any more)."""
        text = self.reading.file(self.container, file)
        return text if isinstance(text, str) else None

    def counter(self, file: str, key: str) -> int | None:
        """A counter of an events file or of memory.pressure ("some total", "full total", in µs); None if none tells it.

        The pod's cgroup tells: events and pressure count up the tree, so it counts what its container counts, still
        counts it when the container is gone, and counts the pod's own limits, which the container runs into as well.
        """
        for path in (self.pod, self.container):
            text = self.reading.file(path, file)
            if isinstance(text, str):
                return self._pressure(text, key, path) if key.endswith(" total") else self._key(text, file, key, path)
        return None

    def number(self, file: str) -> int | None:
        """A file that counts an amount, in bytes; None if it is not there."""
        text = self.text(file)
        return None if text is None else parse.number(text, path=f"{self.container}/{file}")

    def pod_number(self, file: str) -> int | None:
        """The same of the pod's cgroup."""
        text = self.reading.file(self.pod, file)
        return parse.number(text, path=f"{self.pod}/{file}") if isinstance(text, str) else None

    def bound(self, limit: Knob) -> int | None:
        """The limit that the plan gives the container, in bytes as the kernel shows them; None if it gives none.

        Never what the file shows: a runtime that writes a wrong limit would be measured by its own mistake.
        """
        expected = self.planned.get(limit)
        return expected.value.count if expected is not None and isinstance(expected.value, Bytes) else None

    def pod_peak(self, file: str) -> int | None:
        """The most that the pod's cgroup, which outlives the container's, ever had of an amount; None if not told."""
        peak = PEAKS.get(file, "")
        text = self.reading.file(self.pod, peak)
        return parse.number(text, path=f"{self.pod}/{peak}") if isinstance(text, str) else None

    def failures(self, file: str) -> int | None:
        """How often a limit of cgroup v1 was run into, the pod's and the container's together; None if nothing tells.

        Such a counter (memory.failcnt) is its own cgroup's, and does not count up the tree.
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
    """Something to wait for: its name as errors print it, whether a sample shows it, and what it shows of it."""

    name: str
    holds: Callable[[Sample], bool]
    shows: Callable[[Sample], str]


def amounts_of(sample: Sample, file: str) -> list[int]:
    """What a sample shows of an amount, in bytes: now, and the most there was until now, if the kernel keeps it."""
    names = (file, PEAKS[file]) if file in PEAKS else (file,)
    return [amount for name in names if (amount := sample.number(name)) is not None]


def rises(file: str, key: str) -> Condition:
    """This counter is above zero, which it was when the cgroup was made; pressure: by more than one short sleep."""
    least = THROTTLE_US if file == "memory.pressure" else 0
    return Condition(
        f"{file} {key} rises",
        lambda sample: (sample.counter(file, key) or 0) > least,
        lambda sample: f"{key} {_or_unread(sample.counter(file, key))} in {sample.pod}/{file}",
    )


def stalls(*, for_good: bool = False) -> Condition:
    """Tasks of the container's pod have waited for memory for four seconds in all: two of the longest sleeps.

    for_good: for so long that they wait for more than growth which is only slow; see GOOD.
    """
    least = STALL_US * (GOOD if for_good else 1)
    return Condition(
        f"memory.pressure some total reaches {least} µs",
        lambda sample: (sample.counter("memory.pressure", "some total") or 0) >= least,
        lambda sample: f"some total {_or_unread(sample.counter('memory.pressure', 'some total'))} µs in {sample.pod}",
    )


FAULTS = 40
"""So many major faults of a container that reads its text in again and again; one whose text is locked has a few."""


def faults() -> Condition:
    """The container's memory.stat has counted FAULTS major faults."""
    return Condition(
        f"memory.stat pgmajfault reaches {FAULTS}",
        lambda sample: (stat_of(sample, "pgmajfault") or 0) >= FAULTS,
        lambda sample: f"pgmajfault {_or_unread(stat_of(sample, 'pgmajfault'))} in {sample.container}/memory.stat",
    )


def stat_of(sample: Sample, key: str) -> int | None:
    """A row of the container's own memory.stat; None where it cannot be read, or has no such row."""
    text = sample.text("memory.stat")
    return None if text is None else parse.counters(text, path=f"{sample.container}/memory.stat").get(key)


def reaches(file: str, limit: Knob) -> Condition:
    """This amount has come as close to its planned limit as the kernel's batches let it come."""

    def holds(sample: Sample) -> bool:
        amounts, bound = amounts_of(sample, file), sample.bound(limit)
        return bool(amounts) and bound is not None and max(amounts) >= bound - sample.slack

    return Condition(f"{file} reaches {limit}", holds, lambda sample: _beside(sample, file, limit))


def exceeds(file: str, limit: Knob) -> Condition:
    """This amount has passed what is planned as another file's limit."""

    def holds(sample: Sample) -> bool:
        amount, bound = sample.number(file), sample.bound(limit)
        return amount is not None and bound is not None and amount > bound

    return Condition(f"{file} exceeds {limit}", holds, lambda sample: _beside(sample, file, limit))


def _beside(sample: Sample, file: str, limit: Knob) -> str:
    amount, bound = _or_unread(sample.number(file)), sample.bound(limit)
    return f"{amount} in {sample.container}/{file}, beside a planned {limit} of {'max' if bound is None else bound}"


def _or_unread(number: int | None) -> str:
    return "(not there)" if number is None else str(number)


def ended() -> Condition:
    """The container is not running any more."""
    return Condition(
        "the container has ended",
        lambda sample: sample.status.exit_code is not None,
        lambda sample: f"the container {sample.container} is {sample.status.state}",
    )


def counted(key: str) -> Condition:
    """memory.numa_stat counts all that the workload holds; the kernel brings its statistics up to date every 2 s.

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


def gathered(key: str, zone: int) -> Condition:
    """memory.numa_stat counts all that the workload holds on one NUMA node; key: as of `counted`."""

    def count(sample: Sample) -> int:
        return (numa_of(sample, key) or {}).get(zone, 0)

    return Condition(
        f"memory.numa_stat counts as much {key} on N{zone} as the workload holds",
        lambda sample: count(sample) >= held(sample.report, key) > 0,
        lambda sample: f"{key} N{zone}={count(sample)} in {sample.container}/memory.numa_stat",
    )


def numa_of(sample: Sample, key: str) -> dict[int, int] | None:
    """Bytes by zone of a row of memory.numa_stat; None where it cannot be read, empty for a row that is not there."""
    text = sample.text("memory.numa_stat")
    return None if text is None else parse.numa_stat(text, path=f"{sample.container}/memory.numa_stat").get(key, {})


_VERBS = {"anon": "anon", "file": "file", "shmem": "tmpfs"}
"""The workload's commands, by the row of memory.numa_stat in which what they use is counted."""


def held(report: tuple[ReportLine, ...], key: str) -> int:
    """Bytes of a kind that the workload has said to hold with all commands that are done; key: as of `counted`."""
    done = (line for line in report if isinstance(line, Done) and line.verb == _VERBS[key])
    return sum({line.command: line.bytes for line in done}.values())


def work_done(commands: int) -> Condition:
    """The workload has reported the end of this many commands."""
    return Condition(
        f"the workload has done {commands} commands",
        lambda sample: sample.done >= commands,
        lambda sample: f"it has done {sample.done}",
    )


T = TypeVar("T")
U = TypeVar("U")


class Join(StrEnum):
    """How parts go together, in the word that stands between them."""

    ALL = "and"
    ANY = "or"
    IN_TURN = "and later"


@dataclass(frozen=True, slots=True)
class Combined(Generic[T]):
    """Several things to wait for as one."""

    join: Join
    parts: tuple[Combined[T] | T, ...]

    def each(self, make: Callable[[T], Combined[U] | U]) -> Combined[U]:
        """The same of what is made of each part."""
        parts = (part.each(make) if isinstance(part, Combined) else make(part) for part in self.parts)
        return Combined(self.join, tuple(parts))

    def leaves(self) -> Iterator[T]:
        """All that is put together in this, in its order."""
        for part in self.parts:
            if isinstance(part, Combined):
                yield from part.leaves()
            else:
                yield part

    def told(self, name: Callable[[T], str]) -> str:
        """This in words: parts that are put together differently are in brackets."""
        words = []
        for part in self.parts:
            if isinstance(part, Combined):
                text = part.told(name)
                differs = part.join is not self.join and len(part.parts) > 1 and len(self.parts) > 1
                words.append(f"({text})" if differs else text)
            else:
                words.append(name(part))
        return f" {self.join} ".join(words)


def either(*parts: Combined[T] | T) -> Combined[T]:
    """Any one of these; UsageError for none."""
    return _combined(Join.ANY, parts)


def both(*parts: Combined[T] | T) -> Combined[T]:
    """All of these, each at some time, in whatever order; UsageError for none."""
    return _combined(Join.ALL, parts)


def after(first: Combined[T] | T, *then: Combined[T] | T) -> Combined[T]:
    """Each of these in a look that came after those in which the ones before it were seen; UsageError for only one.

    What lasts, such as a counter that rose, is seen in every later look: it may have begun before.
    """
    if not then:
        raise UsageError("no condition is named to come after it.", where="after()", next_step="Name what comes then.")
    return _combined(Join.IN_TURN, (first, *then))


def _combined(join: Join, parts: tuple[Combined[T] | T, ...]) -> Combined[T]:
    if not parts:
        raise UsageError("no condition is named.", next_step="Put together at least one.")
    return Combined(join, parts)


class Unfinished(Generic[T]):
    """How much of something that is waited for was seen so far."""

    def __init__(self, combined: Combined[T]) -> None:
        self._join = combined.join
        self._parts: list[Unfinished[T] | _Leaf[T]] = [
            Unfinished(part) if isinstance(part, Combined) else _Leaf(part) for part in combined.parts
        ]

    @property
    def is_seen(self) -> bool:
        """Whether enough of its parts were seen, at whatever times."""
        some = any if self._join is Join.ANY else all
        return some(part.is_seen for part in self._parts)

    def see(self, holds: Callable[[T], bool]) -> None:
        """One look more. holds: whether it shows something; asked only for what is still waited for."""
        if self.is_seen:
            return
        waiting = [part for part in self._parts if not part.is_seen]
        for part in waiting[:1] if self._join is Join.IN_TURN else waiting:
            part.see(holds)

    def unseen(self) -> Iterator[T]:
        """What is still waited for."""
        if not self.is_seen:
            for part in self._parts:
                yield from part.unseen()


class _Leaf(Generic[T]):
    """One condition."""

    def __init__(self, what: T) -> None:
        self._what = what
        self.is_seen = False

    def see(self, holds: Callable[[T], bool]) -> None:
        """One look more."""
        self.is_seen = holds(self._what)

    def unseen(self) -> Iterator[T]:
        """Itself, until it was seen."""
        if not self.is_seen:
            yield self._what
