"""Named conditions on a container that is watched: what a behaviour test waits for, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memqos.cgroupfs import parse
from memqos.model.path import CgroupPath
from memqos.model.reading import Reading
from memqos.runtime.base import ContainerStatus
from memqos.workload.report import Done, ReportLine

__all__ = ["WATCHED_FILES", "Condition", "Sample", "ended", "reaches", "rises", "work_done"]

WATCHED_FILES = (
    "memory.current", "memory.high", "memory.max", "memory.events", "memory.pressure", "memory.numa_stat",
    "memory.swap.current", "memory.swap.max", "memory.swap.events", "memory.stat", "cpuset.mems",
)  # fmt: skip

THROTTLE_US = 10_000
"""A stall that counts as throttling, in µs of memory pressure.

The kernel lets a task above memory.high go on without sleep for penalties of up to HZ/100 = 10 ms
(mm/memcontrol.c, mem_cgroup_handle_over_high), so one throttled task stalls for more than that.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at a container: its cgroup and its pod's, the runtime's word, and what the workload reported."""

    container: CgroupPath
    pod: CgroupPath
    reading: Reading
    status: ContainerStatus
    report: tuple[ReportLine, ...]

    def text(self, file: str) -> str | None:
        """A file of the container's cgroup, None if it is not there (any more)."""
        text = self.reading.file(self.container, file)
        return text if isinstance(text, str) else None

    def counter(self, file: str, key: str) -> int | None:
        """A counter of an events file or of memory.pressure ("some total", in µs).

        When the container's cgroup is gone with its last process, the pod's tells: events count up the tree.
        """
        for path in (self.container, self.pod):
            text = self.reading.file(path, file)
            if isinstance(text, str):
                return self._pressure(text, path) if key == "some total" else self._key(text, file, key, path)
        return None

    def number(self, file: str) -> int | None:
        """A file of one number, in bytes; None if it is not there or says "max"."""
        text = self.text(file)
        return None if text is None else parse.number_or_max(text, path=f"{self.container}/{file}")

    def _key(self, text: str, file: str, key: str, path: CgroupPath) -> int | None:
        return parse.counters(text, path=f"{path}/{file}").get(key)

    def _pressure(self, text: str, path: CgroupPath) -> int:
        return parse.pressure(text, path=f"{path}/memory.pressure").some.total


@dataclass(frozen=True, slots=True)
class Condition:
    """Something to wait for: its name as errors print it, and whether a sample shows it."""

    name: str
    holds: Callable[[Sample], bool]


def rises(file: str, key: str) -> Condition:
    """This counter is above zero, which it was when the cgroup was made; pressure: by more than one short sleep."""
    least = THROTTLE_US if file == "memory.pressure" else 0
    return Condition(f"{file} {key} rises", lambda sample: (sample.counter(file, key) or 0) > least)


def reaches(file: str, limit: str) -> Condition:
    """This amount has come as close to its limit as the kernel's batches let it come."""

    def holds(sample: Sample) -> bool:
        amount, bound = sample.number(file), sample.number(limit)
        return amount is not None and bound is not None and amount >= bound - SLACK

    return Condition(f"{file} reaches {limit}", holds)


SLACK = 256 << 10
"""Bytes by which an amount may differ from what is really used: one batch of 64 pages of 4 KiB that a CPU keeps
(mm/memcontrol.c, MEMCG_CHARGE_BATCH)."""


def ended() -> Condition:
    """The container is not running any more."""
    return Condition("the container has ended", lambda sample: sample.status.exit_code is not None)


def work_done(commands: int) -> Condition:
    """The workload has reported the end of this many commands."""
    return Condition(
        f"the workload has done {commands} commands",
        lambda sample: len({line.command for line in sample.report if isinstance(line, Done)}) >= commands,
    )
