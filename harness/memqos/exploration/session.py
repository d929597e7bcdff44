"""A session: judges batches of examples one after another, and shrinks and keeps those that deviate."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Level
from memqos.errors import MachineryError
from memqos.exploration import Document
from memqos.exploration.database import Database, Found, name_of
from memqos.exploration.examples import Example, Kind, shape_of_pod
from memqos.exploration.judge import ExampleResult
from memqos.exploration.shrinker import Shrinker

__all__ = ["Counts", "ExampleRunner", "Session", "shape_of"]

Known = Callable[[Finding, Kind], Finding]
"""Marks a finding as known if it is listed for the machine's versions."""

KNOWN = "known"
_FAILURES = 3
"""This many batches that fail as a whole in a row mean a broken machine."""


class ExampleRunner(Protocol):
    """Runs and judges examples: a `Judge`, or a comparison of two machines."""

    def try_all(self, examples: Sequence[Example], *, alone: bool = False) -> Sequence[ExampleResult]:
        """The result of each example, in order."""
        ...


class ExampleSource(Protocol):
    """A source of drawn examples."""

    def batch(self, number: int) -> Sequence[Example]:
        """The examples of one round."""
        ...


@dataclass(slots=True)
class Counts:
    """A session's counts so far.

    examples, pods, containers: run and judged. files: findings with an observed value. shapes: distinct shapes of
    examples. skipped: examples that did not run, by reason. troubles: failed starts, by error. known: observed listed
    deviations. seconds: since the start; judging: those without the shrinking.
    """

    examples: Counter[str] = field(default_factory=Counter)
    pods: int = 0
    containers: int = 0
    files: int = 0
    shapes: set[str] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    judging: float = 0.0

    @property
    def rate(self) -> float:
        """Containers judged per minute, without the time for shrinking."""
        return self.containers / self.judging * 60 if self.judging else 0.0


class Session:
    """Explores until a deadline; `counts` and `found` hold the results so far at any moment.

    draws: gives examples. tries: judges them. known: marks listed deviations. system: the machine's runtimes, for
    findings. told: called after each batch and each finding.
    """

    def __init__(
        self,
        draws: ExampleSource,
        tries: ExampleRunner,
        *,
        until: Deadline,
        database: Database | None = None,
        known: Known = lambda finding, _: finding,
        system: Sequence[str] = (),
        told: Callable[[Session], None] = lambda _: None,
        first: int = 0,
    ) -> None:
        self._draws = draws
        self._tries = tries
        self._until = until
        self._database = database or Database(None)
        self._known = known
        self._system = tuple(system)
        self._told = told
        self._number = first
        self._begun = SYSTEM_CLOCK.now()
        self.counts = Counts()
        self.found: dict[str, Found] = {}
        self.gone: list[str] = []
        self.doing = ""

    def run(self, *, batches: int | None = None) -> None:
        """Explore until the deadline, or for this many batches. MachineryError if the machine is broken."""
        self._replay(self._database.load())
        failures, count = 0, 0
        while not self._until.expired and (batches is None or count < batches):
            examples = self._draws.batch(self._number)
            self._number, count = self._number + 1, count + 1
            self.doing = f"batch {count}, {examples[0].kind}"
            begun = SYSTEM_CLOCK.now()
            try:
                tried = self._tries.try_all(examples)
            except MachineryError as error:
                failures += 1
                self.counts.troubles[str(error)] += 1
                if failures == _FAILURES:
                    raise
                continue
            finally:
                self.counts.judging += SYSTEM_CLOCK.now() - begun
                self._look_at_clock()
            failures = 0
            self._note(tried)
            self._told(self)

    def replay(self, kept: Found) -> bool:
        """Run one example again without shrinking; True if the same deviates (anything, without a finding)."""
        [tried] = self._tries.try_all([kept.example], alone=True)
        self._count(tried)
        for finding in self._marked([*tried.findings, *tried.above], kept.example.kind):
            name = name_of(kept.example, finding)
            if finding.verdict is Verdict.DEVIATES and name not in self.found:
                self.found[name] = self._found(name, kept.example, finding)
        return bool(self.found) if not kept.finding else kept.name in self.found

    # ---- batches

    def _replay(self, kept: Sequence[Found]) -> None:
        """Run the database's examples first; continue to shrink those whose shrinking had not finished."""
        for one in kept:
            if self._until.expired:
                return
            self.doing = f"kept finding {one.name}"
            [tried] = self._tries.try_all([one.example], alone=True)
            before = set(self.found)
            self._note([tried], shrunk=one.shrunk)
            if one.name not in {*self.found} - before and not tried.trouble and not tried.skipped:
                self.gone.append(one.name)
            self._told(self)

    def _note(self, tried: Sequence[ExampleResult], *, shrunk: bool = False) -> None:
        for one in tried:
            self._count(one)
        for one in tried:
            self._pursue_all(one, self._marked(one.findings, one.example.kind), [one.example], shrunk=shrunk)
        if tried:
            first = next((one for one in tried if one.above), tried[0])
            neighbours = [one.example for one in tried if not one.skipped]
            self._pursue_all(first, self._marked(first.above, first.example.kind), neighbours, shrunk=shrunk)

    def _count(self, one: ExampleResult) -> None:
        counts = self.counts
        if one.skipped:
            counts.skipped[_without_names(one.skipped)] += 1
            return
        counts.examples[one.example.kind.value] += 1
        counts.pods += len(one.example.pods)
        counts.containers += one.containers
        seen = [finding for finding in (*one.findings, *one.above) if finding.verdict is not Verdict.NOT_OBSERVABLE]
        counts.files += len(seen)
        counts.shapes.add(shape_of(one.example))
        if one.trouble:
            counts.troubles[_without_names(one.trouble)] += 1

    def _marked(self, findings: Iterable[Finding], kind: Kind) -> list[Finding]:
        """The deviations, with the listed ones marked as known."""
        deviating = [one for one in findings if one.verdict is Verdict.DEVIATES]
        return [self._known(one, kind) for one in deviating]

    def _pursue_all(
        self, tried: ExampleResult, findings: Sequence[Finding], neighbours: Sequence[Example], *, shrunk: bool
    ) -> None:
        for finding in findings:
            if finding.verdict is Verdict.KNOWN:
                self.counts.known[finding.evidence.get(KNOWN, "")] += 1
                continue
            name = name_of(tried.example, finding)
            if name in self.found:
                before = self.found[name]
                self.found[name] = dataclasses.replace(before, seen=before.seen + 1)
                continue
            self._pursue(name, finding, neighbours, shrunk=shrunk)

    # ---- deviations

    def _pursue(self, name: str, finding: Finding, neighbours: Sequence[Example], *, shrunk: bool) -> None:
        """Keep a deviation, shrink its example, and keep the smallest one."""
        whole = together(neighbours)
        self._keep(self._found(name, whole, finding))
        self._told(self)
        if shrunk:
            self._keep(dataclasses.replace(self.found[name], shrunk=True))
            return
        self.doing = f"shrinking {name}"
        # A deviation above pods may come from any of the pods; a pod's own files are its own.
        alone = len(whole.pods) > 1 and finding.subject.level not in {Level.POD, Level.CONTAINER}

        def wrong(examples: Sequence[Example]) -> Sequence[bool]:
            tried = self._tries.try_all(examples, alone=alone)
            self._look_at_clock()
            self._told(self)
            return [self._same(one, name) is not None for one in tried]

        if not wrong([whole])[0]:
            self._keep(dataclasses.replace(self.found[name], again=False))
            return

        def keep(example: Example) -> None:
            self._keep(dataclasses.replace(self.found[name], example=example))

        shrinking = Shrinker(wrong, is_over=lambda: self._until.expired, keep=keep)
        smallest = shrinking.shrink(whole)
        [last] = self._tries.try_all([smallest], alone=True)
        seen = self._same(last, name)
        found = self._found(name, smallest, seen or finding)
        after = SYSTEM_CLOCK.now() - self._begun
        self._keep(
            dataclasses.replace(
                found,
                shrunk=not self._until.expired,
                again=seen is not None,
                tries=shrinking.tries,
                found_after=self.found[name].found_after,
                shrunk_after=after,
                seen=self.found[name].seen,
            )
        )
        self._told(self)

    def _same(self, tried: ExampleResult, name: str) -> Finding | None:
        """The deviation of this name; None without one."""
        for finding in self._marked([*tried.findings, *tried.above], tried.example.kind):
            if finding.verdict is Verdict.DEVIATES and name_of(tried.example, finding) == name:
                return finding
        return None

    def _found(self, name: str, example: Example, finding: Finding) -> Found:
        return Found(
            name=name,
            example=example,
            finding=str(finding),
            expected=finding.expected,
            observed=finding.observed,
            system=self._system,
            found_after=SYSTEM_CLOCK.now() - self._begun,
            lost=finding.lost.told if finding.lost is not None else "",
        )

    def _keep(self, found: Found) -> None:
        self.found[found.name] = found
        self._database.keep(found)

    def _look_at_clock(self) -> None:
        self.counts.seconds = SYSTEM_CLOCK.now() - self._begun


def together(examples: Sequence[Example]) -> Example:
    """Examples of the same kubelet as one example with all their pods."""
    first, *others = examples
    if not others:
        return first
    pods = [
        {**manifest, "metadata": {**manifest["metadata"], "name": f"p{number}"}}
        for number, one in enumerate(examples)
        for manifest in one.pods
    ]
    return dataclasses.replace(first, pods=tuple(pods))


def shape_of(example: Example) -> str:
    """The shape of an example: its fields without their amounts."""
    pods = [shape_of_pod(manifest) for manifest in example.pods]
    steps = [
        [verb, sorted(request), sorted(request.get("unified", {}))]
        for one in example.steps
        for verb, request in one.items()
    ]
    if example.tree is not None:
        return json.dumps([example.kind.value, _shape_of_tree(example.tree)])
    kubelets = [[one.kubernetes, sorted(one.config)] for one in (example.kubelet, *example.then)]
    return json.dumps([example.kind.value, pods, steps, kubelets if example.pods else []])


def _shape_of_tree(cgroup: Document) -> list[object]:
    return [sorted(cgroup), *map(_shape_of_tree, cgroup.get("children", ()))]


def _without_names(text: str) -> str:
    """A text without its numbers, so that equal reasons are counted together."""
    return "".join("#" if letter.isdigit() else letter for letter in text)[:200]
