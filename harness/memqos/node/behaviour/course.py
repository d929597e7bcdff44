"""What happened to one container, and the findings that can be made of it. Pure: everything is in the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.model.knob import Knob
from memqos.node.behaviour.conditions import THROTTLE_US
from memqos.node.behaviour.location import Placed, Swapped
from memqos.node.behaviour.oom import OomJudged
from memqos.node.behaviour.throttling import Throttled, looks_at
from memqos.workload.report import Done, StepLine

__all__ = ["Course"]


class Course(Throttled, Swapped, Placed, OomJudged):
    """What happened to a container; see `Judged`."""

    def rises(self, file: str, key: str, *, why_not: str = "") -> Finding:
        """A counter went up from zero; pressure: by more than one short sleep. why_not: as of `keeps`."""
        least = THROTTLE_US if file == "memory.pressure" else 0
        return self._counter(file, key, f"above {least}", lambda seen: seen > least, why_not=why_not)

    def stays(self, file: str, key: str, *, why_not: str = "") -> Finding:
        """A counter is still zero, as it was when the cgroup was made. why_not: as of `keeps`."""
        return self._counter(file, key, "0", lambda seen: seen == 0, why_not=why_not)

    def rises_by_batches(self, file: str, key: str, *, at_most: int, why_not: str = "") -> Finding:
        """A counter of pages is at no more than so many times CHARGE_BATCH. why_not: as of `keeps`."""
        most = at_most * CHARGE_BATCH
        expected = f"at most {most} pages ({at_most} times a batch of {CHARGE_BATCH})"
        return self._counter(file, key, expected, lambda seen: seen <= most, why_not=why_not)

    def stays_within(self, file: str, limit: Knob, *, forced: bool = False) -> Finding:
        """An amount never passed its limit in any sample; both as the kernel shows them.

        forced: but for charges that cannot fail, which the kernel lets through a page at a time (mm/memcontrol.c,
        try_charge_memcg, force): as many as one batch may be above the limit.
        """
        slack = self.slack if forced else 0
        bound = self.samples[0].bound(limit)
        most = max(self._amounts(file), default=None)
        if bound is None:
            return self._unbounded(file, limit)
        expected = f"at most {bound + slack} ({limit}{f' and {slack}' if slack else ''})"
        return self._finding(file, expected, most, most is not None and most <= bound + slack)

    def comes_near(self, file: str, limit: Knob) -> Finding:
        """An amount came within one batch of a CPU of its limit.

        Not observable of a container that ended between two looks, unless its pod's peak shows that it cannot have come
        near: the last steps of a program that is killed take less time than a look. Nor of a limit within a batch of
        zero, which everything is near to.
        """
        bound = self.samples[0].bound(limit)
        most = max(self._amounts(file), default=None)
        if bound is None:
            return self._unbounded(file, limit)
        least = bound - self.slack
        if least <= 0:
            why = f"the planned {limit} of {bound} is no more than the {self.slack} bytes by which it may be missed"
            return self._finding(file, f"near {bound} ({limit})", most, holds=False, why_not=why)
        holds = most is not None and most >= least
        unseen = "" if holds or most is None else self._unseen(file, least, most)
        return self._finding(file, f"at least {least} ({limit} less {self.slack})", most, holds, why_not=unseen)

    def exceeds(self, file: str, limit: Knob) -> Finding:
        """An amount passed, in some sample, what is another file's limit."""
        bound = self.samples[0].bound(limit)
        most = max(self._amounts(file), default=None)
        if bound is None:
            return self._unbounded(file, limit)
        return self._finding(file, f"more than {bound} ({limit})", most, most is not None and most > bound)

    def rises_no_more(self, file: str, key: str, *, since: float) -> Finding:
        """A counter that rose before this time, in seconds of the machine's clock, has stood still from then on."""
        counts = [(sample.reading.at, sample.counter(file, key)) for sample in self.samples]
        seen = [(at, count) for at, count in counts if count is not None]
        before = max((count for at, count in seen if at <= since), default=0)
        after = max((count for at, count in seen if at > since), default=None)
        why = "" if before else f"it had not risen by then: {key} {before}"
        expected = f"{key} {before}, as it was"
        observed = None if after is None else f"{key} {after}"
        return self._finding(file, expected, observed, after == before, key=key, why_not=why)

    def falls_below(self, most: int) -> Finding:
        """In the last sample less memory was in use than so much, by more than half of what lies above the least."""
        seen = [usage for _, usage in looks_at(self.samples)]
        bound = (most + min(seen, default=0)) // 2
        last = seen[-1] if seen else None
        expected = f"less than {bound}, half of the way down from {most}"
        return self._finding("memory.current", expected, last, last is not None and last < bound, key="fallen")

    def shrinks_to_limit(self) -> Finding:
        """No more is in use, in any sample, than the memory.max that it was given while it used more."""
        most = max(self._amounts("memory.current"), default=None)
        bound = self.samples[0].bound(Knob.MEMORY_MAX)
        if bound is None:
            return self._unbounded("memory.current", Knob.MEMORY_MAX)
        expected = f"at most {bound} ({Knob.MEMORY_MAX})"
        return self._finding("memory.current", expected, most, most is not None and most <= bound, key="limited")

    def stays_near(self, most: int) -> Finding:
        """In the last sample at least half as much was in use as that, by what lies above the least there ever was."""
        seen = [usage for _, usage in looks_at(self.samples)]
        bound = (most + min(seen, default=0)) // 2
        last = seen[-1] if seen else None
        expected = f"at least {bound}, half of the way up to {most}"
        return self._finding("memory.current", expected, last, last is not None and last >= bound, key="left")

    def peaked(self, most: int, *, cpus: int) -> Finding:
        """In the last sample memory.peak, which the kernel keeps, was so much, whatever was in use by then.

        most: what was in use before, and what was taken then. The first may have had a batch that each CPU had charged
        ahead, and gave back when another cgroup was charged on it (mm/memcontrol.c, drain_stock).
        """
        least = most - cpus * self.slack
        peak = next((seen for one in reversed(self.samples) if (seen := one.number("memory.peak")) is not None), None)
        expected = f"at least {least} ({most}, less {self.slack} for each CPU)"
        return self._finding("memory.peak", expected, peak, peak is not None and peak >= least)

    def keeps(self, usage: int, *, since: float, cpus: int, why_not: str = "") -> Finding:
        """Memory in use was never less than it was before, but for batches, since reclaim began elsewhere.

        cpus: those it may have run on. What each charged ahead for it counts as in use, and is given back at the first
        reclaim anywhere above it (mm/memcontrol.c, drain_all_stock). why_not: why that cannot be expected, "" if it
        can.
        """
        least, whole = self.least_used(since), usage - cpus * self.slack
        holds = least is not None and least >= whole
        expected = f"at least {whole} ({usage} before, less {self.slack} for each CPU)"
        return replace(
            self._finding("memory.current", expected, least, holds, key="kept", why_not=why_not), measured=True
        )

    def keep_together(self, others: Sequence[Course], whole: int, *, since: float, why_not: str = "") -> Finding:
        """With these others it never had less in use than this, by what each had least; why_not: as of `keeps`."""
        together = self._least_together(others, since)
        holds = together is not None and together >= whole
        expected = f"at least {whole} with those beside it"
        return self._finding("memory.current", expected, together, holds, key="share", why_not=why_not)

    def give_way_together(self, others: Sequence[Course], usage: int, *, since: float, why_not: str = "") -> Finding:
        """With these others it had less in use than this, by what each had least; why_not: as of `keeps`."""
        together = self._least_together(others, since)
        holds = together is not None and together < usage
        expected = f"less than {usage} with those beside it"
        return self._finding("memory.current", expected, together, holds, key="taken", why_not=why_not)

    def _least_together(self, others: Sequence[Course], since: float) -> int | None:
        """What these had least in use, each at its own time; None if that of one is not known."""
        amounts = [one.least_used(since) for one in (self, *others)]
        seen = [amount for amount in amounts if amount is not None]
        return sum(seen) if len(seen) == len(amounts) else None

    def gives_way(self, usage: int, *, since: float, cpus: int, why_not: str = "") -> Finding:
        """Memory in use became less than it was before, by more than what `keeps` allows."""
        least, whole = self.least_used(since), usage - cpus * self.slack
        holds = least is not None and least < whole
        expected = f"less than {whole} ({usage} before, less {self.slack} for each CPU)"
        return replace(
            self._finding("memory.current", expected, least, holds, key="taken", why_not=why_not), measured=True
        )

    def least_used(self, since: float) -> int | None:
        """The least memory that was in use from that time on, in bytes; None if no sample tells.

        There is a sample of each change, and none while nothing changes.
        """
        seen = [(sample.reading.at, sample.number("memory.current")) for sample in self.samples]
        before = [amount for at, amount in seen if at <= since and amount is not None]
        after = [amount for at, amount in seen if at > since and amount is not None]
        return min(before[-1:] + after, default=None)

    def ran_into(self, file: str) -> Finding:
        """The pod or its container ran into a limit of cgroup v1, which this file counts (memory.failcnt)."""
        counts = [count for sample in self.samples if (count := sample.failures(file)) is not None]
        most = max(counts, default=None)
        return self._finding(file, "above 0", most, most is not None and most > 0)

    def gets_through(self) -> tuple[Finding, Finding, Finding]:
        """The same, and its workload did all that it was told to do, and that comes to an end."""
        killed, runs = self.lives()
        return killed, self.finishes(), runs

    def progressed(self) -> Finding:
        """The workload itself reported that it used memory."""
        most = max((line.bytes for line in self.samples[-1].report if isinstance(line, StepLine | Done)), default=0)
        return self._word("report", "some bytes used", "some bytes used" if most else "none", bytes_used=str(most))

    def finishes(self) -> Finding:
        """The workload itself reported the end of all commands that it was given and that come to an end."""
        done = min(self.samples[-1].done, self.commands)
        return self._word("report", f"{self.commands} commands done", f"{done} commands done")
