"""What happened to one container, and the findings that can be made of it. Pure: everything is in the samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from memqos.cgroupfs import parse
from memqos.engine.answer import verdict
from memqos.engine.answer.behaviour import behaviour_reason, behaviour_setter
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.answer.loss import Loss
from memqos.model.knob import Knob
from memqos.node.conditions import PEAKS, SLACK, THROTTLE_US, Sample, amounts_of, held
from memqos.node.growth import furthest, slowed
from memqos.node.premises import Premises, began, broken_of
from memqos.workload.report import Done, StepLine

__all__ = ["Course"]

_EVIDENCE = {False: ("memory.current", "memory.events"), True: ("memory.usage_in_bytes", "memory.oom_control")}
"""The files of usage and of events, by whether the readings are of cgroup v1."""

OOM_EXIT_CODE = 137
"""128 + SIGKILL, which is how a runtime tells that the kernel killed the container's first process."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """Samples of one container from its start to the end of the watch, at least one.

    While a premise does not hold, in any sample, no behaviour is judged: each is *not observable*, and the deviation is
    among `premises`. Amounts are measured by the plan's limits, never by those that the files show.
    losses: who lost a premise that does not hold, by cgroup and control file.
    commands: how many of the workload's commands come to an end.
    """

    rests_on: Premises
    samples: tuple[Sample, ...]
    losses: Mapping[tuple[str, str], Loss] = field(default_factory=dict)
    commands: int = 0

    @cached_property
    def premises(self) -> tuple[Finding, ...]:
        """The knobs that the behaviour rests on, judged in every sample: settle them with the behaviour."""
        found = self.rests_on.judge(self.samples)
        return tuple(replace(one, lost=self.losses.get((one.cgroup, one.knob))) for one in found)

    def rises(self, file: str, key: str, *, why_not: str = "") -> Finding:
        """A counter went up from zero; pressure: by more than one short sleep. why_not: as of `keeps`."""
        least = THROTTLE_US if file == "memory.pressure" else 0
        return self._counter(file, key, f"above {least}", lambda seen: seen > least, why_not=why_not)

    def stays(self, file: str, key: str, *, why_not: str = "") -> Finding:
        """A counter is still zero, as it was when the cgroup was made. why_not: as of `keeps`."""
        return self._counter(file, key, "0", lambda seen: seen == 0, why_not=why_not)

    def stays_empty(self, file: str) -> Finding:
        """An amount was zero in every sample."""
        most = max(self._amounts(file), default=None)
        return self._finding(file, "0 all the time", most, most == 0)

    def stays_within(self, file: str, limit: Knob, *, forced: bool = False) -> Finding:
        """An amount never passed its limit in any sample; both as the kernel shows them.

        forced: but for charges that cannot fail, which the kernel lets through a page at a time (mm/memcontrol.c,
        try_charge_memcg, force): as many as one batch may be above the limit.
        """
        slack = SLACK if forced else 0
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
        least = bound - SLACK
        if least <= 0:
            why = f"the planned {limit} of {bound} is no more than the {SLACK} bytes by which it may be missed"
            return self._finding(file, f"near {bound} ({limit})", most, holds=False, why_not=why)
        holds = most is not None and most >= least
        unseen = "" if holds or most is None else self._unseen(file, least, most)
        return self._finding(file, f"at least {least} ({limit} less {SLACK})", most, holds, why_not=unseen)

    def exceeds(self, file: str, limit: Knob) -> Finding:
        """An amount passed, in some sample, what is another file's limit."""
        bound = self.samples[0].bound(limit)
        most = max(self._amounts(file), default=None)
        if bound is None:
            return self._unbounded(file, limit)
        return self._finding(file, f"more than {bound} ({limit})", most, most is not None and most > bound)

    def waits(self) -> Finding:
        """For most of the time since its growth costs sleep, tasks of its pod waited for memory."""
        high = self.samples[0].bound(Knob.MEMORY_HIGH)
        if high is None:
            return self._unbounded("memory.pressure", Knob.MEMORY_HIGH, key="some total")
        looks = [(one.reading.at, stalled) for one in slowed(self.samples, high)
                 if (stalled := one.counter("memory.pressure", "some total")) is not None]  # fmt: skip
        seconds = looks[-1][0] - looks[0][0] if looks else 0.0
        why = "" if seconds else "no two samples show it above memory.high by so much that it sleeps"
        waited = (looks[-1][1] - looks[0][1]) / 1e6 if looks else 0.0
        expected = f"more than half of {seconds:.1f} s above memory.high"
        return self._finding(
            "memory.pressure", expected, f"{waited:.1f} s", waited > seconds / 2, key="some total", why_not=why
        )

    def grows_as_delayed(self) -> Finding:
        """Above memory.high it never grew faster than the kernel's sleeps allow; not observable of one sample alone."""
        high = self.samples[0].bound(Knob.MEMORY_HIGH)
        if high is None:
            return self._unbounded("memory.current", Knob.MEMORY_HIGH)
        far = furthest(self.samples, high)
        if far is None:
            why = f"fewer than two samples show it above memory.high {high} by so much that it sleeps"
            return self._finding("memory.current", "no faster than the sleeps allow", None, holds=False, why_not=why)
        expected = f"at most {far.allowed}, {far.seconds:.1f} s after {far.start}"
        return self._finding("memory.current", expected, far.usage, far.usage <= far.allowed)

    def keeps(self, usage: int, *, since: float, why_not: str = "") -> Finding:
        """Memory in use was never less than it was before, but for one batch, since reclaim began elsewhere.

        why_not: why that cannot be expected, "" if it can.
        """
        least = min(self._used_since(since), default=None)
        holds = least is not None and least >= usage - SLACK
        expected = f"at least {usage - SLACK} ({usage} before, less {SLACK})"
        return self._finding("memory.current", expected, least, holds, key="kept", why_not=why_not)

    def gives_way(self, usage: int, *, since: float, why_not: str = "") -> Finding:
        """Memory in use became less than it was before, by more than one batch."""
        least = min(self._used_since(since), default=None)
        holds = least is not None and least < usage - SLACK
        expected = f"less than {usage - SLACK} ({usage} before, less {SLACK})"
        return self._finding("memory.current", expected, least, holds, key="taken", why_not=why_not)

    def _used_since(self, since: float) -> list[int]:
        """Memory in use at that time and after it: there is a sample of each change, and none while nothing changes."""
        seen = [(sample.reading.at, sample.number("memory.current")) for sample in self.samples]
        before = [amount for at, amount in seen if at <= since and amount is not None]
        return before[-1:] + [amount for at, amount in seen if at > since and amount is not None]

    def ran_into(self, file: str) -> Finding:
        """The pod or its container ran into a limit of cgroup v1, which this file counts (memory.failcnt)."""
        counts = [count for sample in self.samples if (count := sample.failures(file)) is not None]
        most = max(counts, default=None)
        return self._finding(file, "above 0", most, most is not None and most > 0)

    def still_runs(self) -> Finding:
        """The container was running at the end of the watch."""
        status = self.samples[-1].status
        observed = "running" if status.exit_code is None else f"ended with {status.exit_code} ({status.reason})"
        return self._word("state", "running", observed)

    def exit_code_tells_kill(self) -> Finding:
        """The runtime gives the exit code of a killed process."""
        code = self.samples[-1].status.exit_code
        return self._word("exit code", str(OOM_EXIT_CODE), "still running" if code is None else str(code))

    def reason_tells_oom(self) -> Finding:
        """The runtime's reason is OOMKilled."""
        reason = self.samples[-1].status.reason
        return self._word("reason", "OOMKilled", reason or "none")

    def progressed(self) -> Finding:
        """The workload itself reported that it used memory."""
        most = max((line.bytes for line in self.samples[-1].report if isinstance(line, StepLine | Done)), default=0)
        return self._word("report", "some bytes used", "some bytes used" if most else "none", bytes_used=str(most))

    def finishes(self) -> Finding:
        """The workload itself reported the end of all commands that it was given and that come to an end."""
        done = len({line.command for line in self.samples[-1].report if isinstance(line, Done)})
        return self._word("report", f"{self.commands} commands done", f"{min(done, self.commands)} commands done")

    def anon_only_on(self, zone: int) -> Finding:
        """All of the container's anonymous memory was on one NUMA zone when it held the most of it."""
        return self._anon_on((zone,))

    def anon_only_where_planned(self) -> Finding:
        """All of the container's anonymous memory was on the zones that its plan binds it to."""
        planned = self.rests_on.planned.resources.cpuset_mems
        if not planned:
            why = "the plan binds the container to no zone"
            return self._finding("memory.numa_stat", "anon on the planned zones only", None, holds=False, why_not=why)
        return self._anon_on([int(zone) for zone in planned.split(",")])

    def placed_elsewhere_than(self, other: Course) -> Finding:
        """The container's cpuset.mems was another one than in another course, by the last reading of each."""
        here, there = (_last(course.samples, Knob.CPUSET_MEMS) for course in (self, other))
        unread = "" if there else f"{Knob.CPUSET_MEMS} could not be read in the course that it is held against"
        return self._finding(Knob.CPUSET_MEMS, f"not {there}", here or None, here != there, why_not=unread)

    def _anon_on(self, zones: Collection[int]) -> Finding:
        spread = [
            parse.numa_stat(text, path=f"{sample.container}/memory.numa_stat")["anon"]
            for sample in self.samples
            if (text := sample.text("memory.numa_stat")) is not None
        ]
        named = " ".join(f"N{zone}" for zone in zones)
        if not spread:
            return self._finding("memory.numa_stat", f"anon on {named} only", None, holds=False)
        most = max(spread, key=lambda one: sum(one.values()))
        elsewhere = sum(amount for number, amount in most.items() if number not in zones)
        shown = "anon " + " ".join(f"N{number}={amount}" for number, amount in sorted(most.items()))
        least = held(self.samples[-1].report)
        holds = elsewhere == 0 and sum(most.get(zone, 0) for zone in zones) >= least
        return self._finding("memory.numa_stat", f"anon of at least {least} on {named} only", shown, holds)

    def _amounts(self, file: str) -> list[int]:
        return [amount for sample in self.samples for amount in amounts_of(sample, file)]

    def _unseen(self, file: str, least: int, most: int) -> str:
        """Why an amount may have come to `least` though no more than `most` was seen; "" if it cannot have."""
        if self.samples[-1].status.exit_code is None:
            return ""
        unseen = f"{file} was seen at {most}, and the container ended before the next look"
        peak = max((peak for sample in self.samples if (peak := sample.pod_peak(file)) is not None), default=None)
        if peak is None:
            return unseen
        return "" if peak < least else f"{unseen}, with a {PEAKS[file]} of {peak} in its pod"

    def _counter(self, file: str, key: str, expected: str, holds: Callable[[int], bool], *, why_not: str) -> Finding:
        values = [value for sample in self.samples if (value := sample.counter(file, key)) is not None]
        most = max(values, default=None)
        observed = None if most is None else f"{key} {most}"
        held_true = most is not None and holds(most)
        return self._finding(file, f"{key} {expected}", observed, held_true, key=key, why_not=why_not)

    def _word(self, what: str, expected: str, observed: str, **evidence: str) -> Finding:
        """A finding on what the runtime or the workload says, which is in no cgroup's file."""
        finding = self._finding(what, expected, observed, observed == expected)
        return replace(finding, evidence={**finding.evidence, **evidence})

    def _unbounded(self, file: str, limit: Knob, *, key: str = "") -> Finding:
        why_not = f"the plan sets no {limit}"
        return self._finding(file, f"measured by {limit}", None, holds=False, key=key, why_not=why_not)

    def _finding(
        self, file: str, expected: str, observed: object, holds: bool, *, key: str = "", why_not: str = ""
    ) -> Finding:
        """A finding on a file of the container's cgroup; an observation of None was not made.

        why_not: why what was observed tells nothing, "" if it does.
        """
        why_not = self._premise_broken() or why_not
        unread = f"{file} could not be read while the container ran" if observed is None else ""
        unseen = why_not or unread
        return Finding(
            verdict=Verdict.NOT_OBSERVABLE if unseen else Verdict.CONFORMS if holds else Verdict.DEVIATES,
            subject=verdict.subject(self.rests_on.planned.cgroup, self.rests_on.pod),
            cgroup=str(self.samples[-1].container),
            knob=file,
            set_by=behaviour_setter(file, key),
            expected=expected,
            observed="" if unseen else str(observed),
            reason=behaviour_reason(file, key, self.rests_on.planned.cgroup.knobs),
            why_not=unseen,
            evidence=self._evidence(),
        )

    def _premise_broken(self) -> str:
        if undecided := self.rests_on.undecided:
            return f"what it rests on is not known: {undecided}"
        broken = broken_of(self.premises)
        return f"what it rests on does not hold: {broken}" if broken else ""

    def _evidence(self) -> Mapping[str, str]:
        """How long it was watched, the most memory in use, and the events that counters are judged by: the pod's."""
        first, last = self.samples[0], self.samples[-1]
        usage, events = _EVIDENCE[first.reading.file(first.container, "memory.usage_in_bytes") is not None]
        texts = (sample.reading.file(sample.pod, events) for sample in reversed(self.samples))
        counts = next((text for text in texts if isinstance(text, str)), "")
        return {
            "samples": str(len(self.samples)),
            "seconds": f"{last.reading.at - began(self.samples):.1f}",
            f"{events} of the pod": " ".join(counts.split()) or "not read",
            f"{usage} of the container, at most": str(max(self._amounts(usage), default="not read")),
        }


def _last(samples: Sequence[Sample], file: str) -> str:
    """The last text of a file of the container's cgroup, "" if it was never read."""
    texts = [text.strip() for sample in samples if (text := sample.text(file)) is not None]
    return texts[-1] if texts else ""
