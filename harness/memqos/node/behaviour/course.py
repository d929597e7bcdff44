"""The course of one container over a watch, and the findings about it. Pure: everything is in the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.cgroup.throttle import CHARGE_BATCH
from memqos.model.knob import Knob
from memqos.node.behaviour.conditions import THROTTLE_US, Sample
from memqos.node.behaviour.location import NumaPlacement, SwapUse
from memqos.node.behaviour.oom import OomKills
from memqos.node.behaviour.preconditions import Observed
from memqos.node.behaviour.throttling import Throttling, looks_at
from memqos.workload.report import Done, StepLine

__all__ = ["Course"]


@dataclass(frozen=True)
class Course:
    """Findings about a container's counters, usage and progress. oom, throttling, swap, numa: findings by topic."""

    observed: Observed

    @property
    def premises(self) -> tuple[Finding, ...]:
        """The knobs that the behaviour depends on, judged; see `Observed.premises`."""
        return self.observed.premises

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples, in order; at least one."""
        return self.observed.samples

    @cached_property
    def oom(self) -> OomKills:
        """Kills by the kernel, and what the runtime reports of them."""
        return OomKills(self.observed)

    @cached_property
    def throttling(self) -> Throttling:
        """Growth and sleep above memory.high."""
        return Throttling(self.observed)

    @cached_property
    def swap(self) -> SwapUse:
        """Memory in swap and in zswap."""
        return SwapUse(self.observed)

    @cached_property
    def numa(self) -> NumaPlacement:
        """Memory by NUMA node."""
        return NumaPlacement(self.observed)

    def still_runs(self, *, spent: str = "") -> Finding:
        """The container was running at the end of the watch.

        spent: why a kill breaks no rule, such as that no container had reclaimable memory left; "" if it does. A kill
        is then not observable, as is one that large pages explain (`_cramped`). Any other end still deviates.
        """
        spent = spent or self._cramped
        status = self.samples[-1].status
        observed = "running" if status.exit_code is None else f"ended with {status.exit_code} ({status.reason})"
        found = self.observed.word("state", "running", observed)
        if spent and all(one.verdict is Verdict.CONFORMS for one in self.oom.is_killed()):
            return found.unseen(f"it {observed}, and {spent}")
        return found

    def lives(self, *, spent: str = "") -> tuple[Finding, Finding]:
        """The kernel killed no process of the container, and it still runs.

        spent: as for `still_runs`. A kill that it or large pages explain is not observable (`_cramped`).
        """
        spared, why = self.oom.is_spared(), spent or self._cramped
        if why and spared.verdict is Verdict.DEVIATES:
            spared = spared.unseen(f"it was killed, and {why}")
        return spared, self.still_runs(spent=spent)

    def rises(self, file: str, key: str, *, why_not: str = "") -> Finding:
        """A counter rose from zero; pressure: by more than one short sleep. why_not: as for `keeps`."""
        least = THROTTLE_US if file == "memory.pressure" else 0
        return self.observed.counter(file, key, f"above {least}", lambda seen: seen > least, why_not=why_not)

    def stays(self, file: str, key: str, *, why_not: str = "") -> Finding:
        """A counter is still zero, as when the cgroup was created. why_not: as for `keeps`."""
        return self.observed.counter(file, key, "0", lambda seen: seen == 0, why_not=why_not)

    def rises_by_batches(self, file: str, key: str, *, at_most: int, why_not: str = "") -> Finding:
        """A counter of pages is at most `at_most` times CHARGE_BATCH. why_not: as for `keeps`."""
        most = at_most * CHARGE_BATCH
        expected = f"at most {most} pages ({at_most} times a batch of {CHARGE_BATCH})"
        return self.observed.counter(file, key, expected, lambda seen: seen <= most, why_not=why_not)

    def stays_within(self, file: str, limit: Knob, *, forced: bool = False) -> Finding:
        """An amount never exceeded its limit in any sample; both in the kernel's units.

        forced: allow one batch above the limit, for charges that cannot fail and that the kernel lets through a page at
        a time (mm/memcontrol.c, try_charge_memcg, force).
        """
        slack = self.observed.slack if forced else 0
        bound = self.samples[0].bound(limit)
        most = max(self.observed.amounts(file), default=None)
        if bound is None:
            return self.observed.unbounded(file, limit)
        expected = f"at most {bound + slack} ({limit}{f' and {slack}' if slack else ''})"
        return self.observed.finding(file, expected, most, most is not None and most <= bound + slack)

    def comes_near(self, file: str, limit: Knob) -> Finding:
        """An amount came within one CPU's charge batch of its limit.

        Not observable if the container ended between two samples, because the last steps before a kill take less time
        than a sample, unless its pod's peak rules it out; nor for a limit of at most one batch.
        """
        bound = self.samples[0].bound(limit)
        most = max(self.observed.amounts(file), default=None)
        if bound is None:
            return self.observed.unbounded(file, limit)
        least = bound - self.observed.slack
        if least <= 0:
            why = f"the planned {limit} of {bound} is no more than the {self.observed.slack} bytes of tolerance"
            return self.observed.finding(file, f"near {bound} ({limit})", most, holds=False, why_not=why)
        holds = most is not None and most >= least
        unseen = "" if holds or most is None else self.observed.unseen(file, least, most)
        return self.observed.finding(
            file, f"at least {least} ({limit} less {self.observed.slack})", most, holds, why_not=unseen
        )

    def exceeds(self, file: str, limit: Knob) -> Finding:
        """An amount exceeded the limit of another file in some sample."""
        bound = self.samples[0].bound(limit)
        most = max(self.observed.amounts(file), default=None)
        if bound is None:
            return self.observed.unbounded(file, limit)
        return self.observed.finding(file, f"more than {bound} ({limit})", most, most is not None and most > bound)

    def rises_no_more(self, file: str, key: str, *, since: float) -> Finding:
        """A counter that rose before `since`, in seconds of the machine's clock, did not rise after it."""
        counts = [(sample.reading.at, sample.counter(file, key)) for sample in self.samples]
        seen = [(at, count) for at, count in counts if count is not None]
        before = max((count for at, count in seen if at <= since), default=0)
        after = max((count for at, count in seen if at > since), default=None)
        why = "" if before else f"it had not risen by then: {key} {before}"
        expected = f"{key} {before}, as it was"
        observed = None if after is None else f"{key} {after}"
        return self.observed.finding(file, expected, observed, after == before, key=key, why_not=why)

    def falls_below(self, most: int) -> Finding:
        """The last usage is in the lower half between the lowest usage seen and `most` bytes."""
        seen = [usage for _, usage in looks_at(self.samples)]
        bound = (most + min(seen, default=0)) // 2
        last = seen[-1] if seen else None
        expected = f"less than {bound}, half of the way down from {most}"
        return self.observed.finding("memory.current", expected, last, last is not None and last < bound, key="fallen")

    def shrinks_to_limit(self) -> Finding:
        """Usage never exceeds the memory.max that was set while it used more."""
        most = max(self.observed.amounts("memory.current"), default=None)
        bound = self.samples[0].bound(Knob.MEMORY_MAX)
        if bound is None:
            return self.observed.unbounded("memory.current", Knob.MEMORY_MAX)
        expected = f"at most {bound} ({Knob.MEMORY_MAX})"
        return self.observed.finding(
            "memory.current", expected, most, most is not None and most <= bound, key="limited"
        )

    def stays_near(self, most: int) -> Finding:
        """The last usage is in the upper half between the lowest usage seen and `most` bytes."""
        seen = [usage for _, usage in looks_at(self.samples)]
        bound = (most + min(seen, default=0)) // 2
        last = seen[-1] if seen else None
        expected = f"at least {bound}, half of the way up to {most}"
        return self.observed.finding("memory.current", expected, last, last is not None and last >= bound, key="left")

    def peaked(self, most: int, *, cpus: int) -> Finding:
        """The last memory.peak is at least `most` bytes, less a batch for each CPU.

        most: the usage before plus what was allocated then. The usage before may include a batch that each CPU had
        charged ahead and returned when another cgroup was charged on it (mm/memcontrol.c, drain_stock).
        """
        least = most - cpus * self.observed.slack
        peak = next((seen for one in reversed(self.samples) if (seen := one.number("memory.peak")) is not None), None)
        expected = f"at least {least} ({most}, less {self.observed.slack} for each CPU)"
        return self.observed.finding("memory.peak", expected, peak, peak is not None and peak >= least)

    def keeps(self, usage: int, *, since: float, cpus: int, why_not: str = "") -> Finding:
        """Since reclaim began elsewhere, usage never fell below what it was before, less a batch for each CPU.

        cpus: those it may have run on. Each counts what it charged ahead as used, and returns it at the first reclaim
        in an ancestor (mm/memcontrol.c, drain_all_stock). why_not: why this is not observable, "" if it is.
        """
        least, whole = self.least_used(since), usage - cpus * self.observed.slack
        holds = least is not None and least >= whole
        expected = f"at least {whole} ({usage} before, less {self.observed.slack} for each CPU)"
        return replace(
            self.observed.finding("memory.current", expected, least, holds, key="kept", why_not=why_not), measured=True
        )

    def keep_together(self, others: Sequence[Course], whole: int, *, since: float, why_not: str = "") -> Finding:
        """The lowest usage of each, summed with the others, is at least `whole` bytes; why_not: as for `keeps`."""
        together = self._least_together(others, since)
        holds = together is not None and together >= whole
        expected = f"at least {whole} together with the other containers"
        return self.observed.finding("memory.current", expected, together, holds, key="share", why_not=why_not)

    def give_way_together(self, others: Sequence[Course], usage: int, *, since: float, why_not: str = "") -> Finding:
        """The lowest usage of each, summed with the others, is less than `usage` bytes; why_not: as for `keeps`."""
        together = self._least_together(others, since)
        holds = together is not None and together < usage
        expected = f"less than {usage} together with the other containers"
        return self.observed.finding("memory.current", expected, together, holds, key="taken", why_not=why_not)

    def _least_together(self, others: Sequence[Course], since: float) -> int | None:
        """The sum of the lowest usage of each, each at its own time; None if one is unknown."""
        amounts = [one.least_used(since) for one in (self, *others)]
        seen = [amount for amount in amounts if amount is not None]
        return sum(seen) if len(seen) == len(amounts) else None

    def gives_way(self, usage: int, *, since: float, cpus: int, why_not: str = "") -> Finding:
        """Usage fell by more than `keeps` allows."""
        least, whole = self.least_used(since), usage - cpus * self.observed.slack
        holds = least is not None and least < whole
        expected = f"less than {whole} ({usage} before, less {self.observed.slack} for each CPU)"
        return replace(
            self.observed.finding("memory.current", expected, least, holds, key="taken", why_not=why_not), measured=True
        )

    def least_used(self, since: float) -> int | None:
        """The lowest usage from that time on, in bytes; None if no sample has it.

        Samples are taken at changes only, so the last one before that time counts too.
        """
        seen = [(sample.reading.at, sample.number("memory.current")) for sample in self.samples]
        before = [amount for at, amount in seen if at <= since and amount is not None]
        after = [amount for at, amount in seen if at > since and amount is not None]
        return min(before[-1:] + after, default=None)

    def ran_into(self, file: str) -> Finding:
        """The pod or its container hit a cgroup v1 limit, as counted in `file` (memory.failcnt)."""
        counts = [count for sample in self.samples if (count := sample.failures(file)) is not None]
        most = max(counts, default=None)
        return self.observed.finding(file, "above 0", most, most is not None and most > 0)

    def gets_through(self) -> tuple[Finding, Finding, Finding]:
        """It lives, and its workload finished all commands that end by themselves."""
        killed, runs = self.lives()
        return killed, self.finishes(), runs

    def swaps_through(self) -> tuple[Finding, Finding]:
        """The kernel killed no process of it, and its workload finished.

        A kill is not observable where the kernel had to stop swapping (`SwapUse.stops_early`), and then no end is.
        """
        spared, done, why = self.oom.is_spared(), self.finishes(), self.swap.stops_early()
        if not why or spared.verdict is not Verdict.DEVIATES:
            return spared, done
        return spared.unseen(f"it was killed, and {why}"), done.unseen(f"it was killed, and {why}")

    @cached_property
    def _cramped(self) -> str:
        """Why a kill breaks no rule: the sleeps end in memory.max, or swap had too little room; "" if neither."""
        return self.throttling.reaches_limit() or self.swap.stops_early()

    def progressed(self) -> Finding:
        """The workload itself reported that it used memory."""
        most = max((line.bytes for line in self.samples[-1].report if isinstance(line, StepLine | Done)), default=0)
        return self.observed.word(
            "report", "some bytes used", "some bytes used" if most else "none", bytes_used=str(most)
        )

    def finishes(self) -> Finding:
        """The workload reported the end of all its commands that end by themselves."""
        done = min(self.samples[-1].done, self.observed.commands)
        return self.observed.word("report", f"{self.observed.commands} commands done", f"{done} commands done")
