"""A session: judges batches of examples one after another, and shrinks and keeps those that deviate.

They are kept in a database: a folder with one readable JSON file for each finding, for a team to share.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Level
from memqos.errors import MachineryError, UsageError
from memqos.exploration import Document
from memqos.exploration.examples import Example, Kind, example_of, shape_of_pod
from memqos.exploration.judge import ExampleResult
from memqos.exploration.shrinker import Shrinker
from memqos.plain_file import read_plain

__all__ = ["Database", "ExampleRunner", "Found", "Session", "load_found", "shape_of"]


FORMAT = 1
MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An example with a deviation.

    name: what deviates ("pods-container-memory.min"), also the file's name in a database. finding: its text. expected,
    observed: the values. known: the listed deviation that explains it, "" for none. shrunk: whether shrinking finished.
    system: the machine and its runtimes. beside: whether it shows only with other pods on the node. seen: how often it
    was seen in this session. seconds: from the start of the session to the first occurrence, and to the smallest
    example.
    """

    name: str
    example: Example
    finding: str
    expected: str
    observed: str
    known: str = ""
    shrunk: bool = False
    system: Sequence[str] = ()
    seen: int = 1
    tries: int = 0
    found_after: float = 0.0
    shrunk_after: float = 0.0
    lost: str = ""
    again: bool = True

    def document(self) -> Document:
        """The JSON document."""
        return {
            "memqos_explore": FORMAT,
            "name": self.name,
            "finding": self.finding,
            "expected": self.expected,
            "observed": self.observed,
            **({"lost": self.lost} if self.lost else {}),
            **({"known": self.known} if self.known else {}),
            "shrunk": self.shrunk,
            "seen_again": self.again,
            "system": list(self.system),
            "example": self.example.document(),
        }

    def reported(self) -> Document:
        """The entry of a report: the document with the session's counts."""
        return {
            **self.document(),
            "seen": self.seen,
            "tries": self.tries,
            "found_after_seconds": round(self.found_after, 1),
            "shrunk_after_seconds": round(self.shrunk_after, 1),
        }


class Database:
    """The findings in a folder; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def keep(self, found: Found) -> Path | None:
        """Write the finding, replacing an earlier one of the same name; UsageError if the folder is not writable."""
        if self._folder is None:
            return None
        file = self._folder / f"{found.name}.json"
        text = json.dumps(found.document(), indent=1) + "\n"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = file.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(file)
        except OSError as error:
            raise UsageError(f"{error.strerror}.", where=str(file), next_step="Give another --database.") from None
        return file

    def load(self) -> Sequence[Found]:
        """The kept findings, sorted by name; UsageError for a file that is not a finding."""
        if self._folder is None or not self._folder.is_dir():
            return ()
        return [load_found(file) for file in sorted(self._folder.glob("*.json"))]


def load_found(file: Path) -> Found:
    """The finding in a file of a database, or a bare example; UsageError for anything else."""
    try:
        document: Any = json.loads(read_plain(file, most=MOST_BYTES))
    except OSError as error:
        step = "Give a file that memqos explore wrote."
        raise UsageError(f"{error.strerror}.".lower(), where=str(file), next_step=step) from None
    except ValueError as error:
        raise UsageError(f"it is not JSON: {error}.", where=str(file)) from None
    if not isinstance(document, dict):
        raise UsageError("it is not an object.", where=str(file), next_step="Give a file that memqos explore wrote.")
    inner = document.get("example", document)
    example = example_of(inner if isinstance(inner, dict) else {}, where=str(file))

    def text(name: str) -> str:
        return str(document.get(name, ""))

    return Found(
        name=text("name") or name_of_example(example),
        example=example,
        finding=text("finding"),
        expected=text("expected"),
        observed=text("observed"),
        known=text("known"),
        shrunk=document.get("shrunk") is True,
        system=tuple(map(str, document.get("system", ()))),
    )


def name_of_example(example: Example) -> str:
    """A name for an example without a finding."""
    text = json.dumps(example.document(), sort_keys=True)
    return f"{example.kind}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def name_of(example: Example, finding: Finding) -> str:
    """The name of a deviation: kind of example, level and file, so that examples of one fault share it."""
    parts = [example.kind.value, finding.subject.level.value, finding.subject.part, finding.knob]
    return "-".join(filter(None, parts)).replace(" ", "-").replace("/", "-")


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
