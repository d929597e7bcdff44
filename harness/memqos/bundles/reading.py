"""Reads a results folder, whether its run ended, was killed, or left a damaged folder.

`bundle.json` has the end of a run. A killed run has none: then `run.json` has the plan of the run, and
`findings.jsonl`, which is written case by case, its findings. Missing parts are reported and never invented.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from memqos import claims
from memqos.bundles import consistency
from memqos.bundles.consistency import (
    TROUBLES,
    by_findings,
    count_of,
    differing_cases,
    hidden_verdicts,
    inconsistencies,
)
from memqos.bundles.files import BEGUN, BUNDLE, COMPRESSED, FAILED, FINDINGS, RUN, changed_among, machines
from memqos.catalog.data import data_root
from memqos.engine.answer.finding import Finding, Subject
from memqos.engine.plan import Reason
from memqos.errors import ExitCode, MemqosError, UsageError
from memqos.plain_file import read_plain
from memqos.report.bundle import SCHEMA, Bundle, LeftOut, Results
from memqos.report.documents import bundle as documents
from memqos.report.documents.answers import Mutants
from memqos.report.documents.kinds import Count
from memqos.report.outcome import TestResult, exit_code
from memqos.report.words import how_many
from memqos.validation import CheckedFile

__all__ = ["first_few", "read_results", "suites_score", "verification_notes"]

_LONGEST_BEGUN = 16 << 20


def how_far(cases: object, results: Sequence[TestResult], folder: Path) -> str:
    """The progress of a run without a bundle, as far as its folder shows. cases: number of planned cases."""
    said = f"No complete {BUNDLE}: the run was killed or is still running"
    if not count_of(cases):
        return f"{said}; its end and the number of missing cases are unknown."
    begun = _begun(folder, {result.id for result in results})
    during = f", while it ran {first_few(begun)}" if begun else ""
    return f"{said}, after {len(results)} of its {cases} cases{during}."


def _begun(folder: Path, ended: Set[str]) -> list[str]:
    """The cases that began and did not end; the last line may be incomplete."""
    file = folder / BEGUN
    if file.is_symlink() or not file.is_file():  # a link may point anywhere, and a pipe blocks
        return []
    with contextlib.suppress(OSError), file.open("rb") as stream:
        lines = stream.read(_LONGEST_BEGUN).decode("utf-8", "replace").split("\n")[:-1]
        return [case for case in dict.fromkeys(lines) if case not in ended]
    return []


def first_few(some: Sequence[object]) -> str:
    """The first ones, and the number of the others."""
    shown = ", ".join(map(str, some[:5]))
    return shown if len(some) <= 5 else f"{shown} and {len(some) - 5} more"  # noqa: PLR2004 - the five shown


_OF_FINDINGS = (FINDINGS, f"{FINDINGS}{COMPRESSED}")
"""The second name is that of a long finished run."""

LONGEST_BUNDLE = 256 << 20
LONGEST_FINDINGS = 512 << 20
LONGEST_LINE = 16 << 20
MOST_CASES = 200_000
"""More than this is not read: a run of all suites has some thousands of cases, of some KiB each."""
_MOST_DAMAGED = 1000

_OLDER_FORMATS = frozenset({"1", "2"})
"""Formats of bundles before the first release."""

_NOT_OBJECTS = "it contains no JSON object"


def read_results(place: Path) -> Results:
    """The results of a run. place: its folder, or its bundle.json or findings.jsonl.

    Raises UsageError for a place without results, or with results of another format.
    """
    folder = place.parent if place.name in {BUNDLE, *_OF_FINDINGS} and not place.is_dir() else place
    try:
        if not folder.is_dir():
            raise UsageError(f"'{place}' is not a results folder.", next_step="Name the folder that a run wrote.")
        if not any((folder / name).exists() for name in (BUNDLE, *_OF_FINDINGS, RUN)):
            raise UsageError(
                f"'{folder}' contains no results of memqos: it has neither {BUNDLE} nor {FINDINGS}.",
                next_step="Name the folder that a run wrote, such as results/TIME.",
            )
        return _read(folder)
    except OSError as error:
        raise UsageError(f"'{place}' cannot be read: {error.strerror}.") from error


def _read(folder: Path) -> Results:
    missing: list[str] = []
    head = _document(folder / BUNDLE, missing)
    if is_unended := head is None:
        head = _document(folder / RUN, missing) or {}
    _refuse_other_format(head, folder)
    told = _Told(head.pop("reasons", ()))
    whole = head.pop("results", ())
    kept_lines = list(_lines(folder / FINDINGS, missing))
    results = tuple(told.results(kept_lines, FINDINGS, missing))
    if not isinstance(whole, list | tuple):
        missing.append(f"The results in {BUNDLE} are damaged.")
    elif len(results) < len(whole):
        kept, results = len(results), max(results, tuple(told.results(whole, BUNDLE, missing)), key=len)
        if told.unexplained:
            missing.append(f"{BUNDLE} has lost the reasons of {how_many(told.unexplained, 'finding')}.")
        missing.append(f"{FINDINGS} has {kept} of the {len(whole)} cases of {BUNDLE}.")
    faults = tuple(differing_cases(kept_lines, whole)) if isinstance(whole, list) else ()
    bundle = _judged(head, _bundle(head, results, folder, missing), folder, faults, is_unended=is_unended)
    unended = (how_far(head.get("cases"), results, folder),) if is_unended else ()
    missing = [*unended, *missing, *_not_said(head, bundle)]
    return Results(folder=folder, bundle=bundle, missing=tuple(dict.fromkeys(missing)), unended=unended)


def _judged(
    head: Mapping[str, Any], bundle: Bundle, folder: Path, faults: Sequence[str], *, is_unended: bool
) -> Bundle:
    """The bundle with its inconsistencies, and the exit code that follows from its results."""
    changed = changed_among(folder, (BUNDLE, *_OF_FINDINGS, RUN))
    found = [f"{name} was changed after the run (SHA256SUMS)." for name in changed]
    found += [*consistency.Fields(head, BUNDLE).take("inconsistencies", list[str], []), *faults]
    found += hidden_verdicts(bundle.results) if is_unended else inconsistencies(head, bundle)
    if not found:
        return bundle
    told = {ExitCode(bundle.exit_code)} & TROUBLES
    results = tuple(map(by_findings, bundle.results))
    code = exit_code(results, interrupted=bundle.interrupted, troubles=[*told, ExitCode.MACHINERY])
    return replace(bundle, results=results, inconsistencies=tuple(dict.fromkeys(found)), exit_code=int(code))


def _refuse(word: str) -> None:
    """Reject NaN and Infinity, which Python writes but JSON does not have: a browser would not read them."""
    raise ValueError(f"{word} is no JSON")


def _refuse_other_format(head: Mapping[str, Any], folder: Path) -> None:
    """Raise UsageError for another format than SCHEMA; a document without format is damaged, and is read."""
    found = head.get("schema", SCHEMA)
    if found == SCHEMA:
        return
    raise UsageError(
        f"the results have the format '{found}', but this memqos reads only {SCHEMA}.",
        where=str(folder),
        next_step=_next_step(str(found)),
    )


def _next_step(schema: str) -> str:
    series, _, number = schema.rpartition("/")
    if series != SCHEMA.rpartition("/")[0]:
        return "Name the folder that a run wrote."
    if number in _OLDER_FORMATS:
        return "Run the cases again with this memqos."
    return "Use the memqos that wrote them, or a newer one."


def _document(file: Path, missing: list[str]) -> dict[str, Any] | None:
    """A JSON object, with its findings' reasons as text; None if it is incomplete."""
    if not file.exists():
        return None
    if not file.is_file():
        missing.append(f"{file.name} is not a file.")
        return None
    try:
        document = json.loads(read_plain(file, most=LONGEST_BUNDLE), parse_constant=_refuse)
    except UsageError as error:
        missing.append(f"{file.name} was not read: {error.what}")
        return None
    except (ValueError, RecursionError) as error:
        missing.append(f"{file.name} is damaged: {_first_line(error)}.")
        return None
    if not isinstance(document, dict):
        missing.append(f"{file.name} is damaged: {_NOT_OBJECTS}.")
        return None
    return document


def _lines(file: Path, missing: list[str]) -> Iterator[object]:
    """The JSON values of a file, one per line; malformed lines are counted, and the last may be incomplete."""
    damaged: list[int] = []
    smaller = file.with_name(f"{file.name}{COMPRESSED}")
    is_compressed = not file.exists() and smaller.is_file()
    if not file.is_file() and not is_compressed:
        # Only a regular file is read: reading a pipe would wait for a writer.
        missing.append(f"{file.name} is {'not a file' if file.exists() else 'missing'}.")
        return
    try:
        with gzip.open(smaller) if is_compressed else file.open("rb") as stream:
            for number, line in enumerate(_bounded_lines(stream), 1):
                try:
                    yield json.loads(line, parse_constant=_refuse)
                except (ValueError, RecursionError):
                    damaged.append(number)
                    if len(damaged) >= _MOST_DAMAGED:
                        raise _EndlessError("it has hundreds of damaged lines") from None
    except _EndlessError as error:
        missing.append(f"{smaller.name if is_compressed else file.name} was not read to its end: {error}.")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        missing.append(f"{smaller.name} is damaged: {_first_line(error)}.")
    if damaged:
        missing.append(f"{file.name} is damaged in {_at_lines(damaged)}, so cases are missing.")


class _EndlessError(Exception):
    """A file is longer than that of any run; a compressed file of a few KiB can take hours to read."""


def _bounded_lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """The lines of a file, read piece by piece.

    Raises _EndlessError for a line, a file or a number of lines beyond that of any run.
    """
    size = number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        size, number = size + len(line), number + 1
        if len(line) > LONGEST_LINE:
            raise _EndlessError(f"line {number} has more than {LONGEST_LINE >> 20} MiB")
        if size > LONGEST_FINDINGS:
            raise _EndlessError(f"it has more than {LONGEST_FINDINGS >> 20} MiB")
        if number > MOST_CASES:
            raise _EndlessError(f"it has more than {MOST_CASES} lines")
        yield line


class _Told:
    """Makes results from documents; equal parts are kept once, and repeated lines count once.

    reasons: the reasons by index. unexplained: number of findings whose index has no reason.
    """

    def __init__(self, reasons: object) -> None:
        self.unexplained = 0
        self._by_place = dict(enumerate(reasons)) if isinstance(reasons, list) else {}
        self._reasons: dict[str, Reason | None] = {}
        self._texts: dict[str, str] = {}
        self._subjects: dict[Subject, Subject] = {}

    def results(self, documents: Iterable[object], name: str, missing: list[str]) -> Iterator[TestResult]:
        """The results in documents; malformed ones are reported. name: of their file."""
        damaged: list[int] = []
        for number, document in enumerate(documents, 1):
            try:
                yield self._result(document)
            except (*consistency.MISFITS, KeyError, TypeError, AttributeError):
                damaged.append(number)
        if damaged:
            missing.append(f"{name} has malformed cases at number {first_few(damaged)}.")

    def _result(self, document: Any) -> TestResult:
        return consistency.result_of(document, tuple(self._finding(one) for one in document["findings"]))

    def _finding(self, document: Mapping[str, Any]) -> Finding:
        finding = consistency.finding_of(document)
        texts = {name: getattr(finding, name) for name in ("cgroup", "knob", "expected", "observed")}
        kept: dict[str, Any] = {name: self._texts.setdefault(text, text) for name, text in texts.items()}
        about = self._subjects.setdefault(finding.subject, finding.subject)
        return replace(finding, subject=about, reason=self._reason(document["reason"]), **kept)

    def _reason(self, document: Any) -> Reason | None:
        if document is None:
            return None
        if isinstance(document, int) and not isinstance(document, bool):
            if document not in self._by_place:
                self.unexplained += 1
                return None
            document = self._by_place[document]
        key = json.dumps(document)
        if key not in self._reasons:
            self._reasons[key] = consistency.reason_of(document)
        return self._reasons[key]


def _bundle(head: Mapping[str, Any], results: tuple[TestResult, ...], folder: Path, missing: list[str]) -> Bundle:
    fields, counts = (consistency.Fields(document, BUNDLE) for document in (head, head.get("counts")))
    settings = fields.take("settings", dict[str, documents.Setting], {})
    merged = fields.take("merged", documents.Merged | None, None)
    cases, not_run = fields.take("cases", Count, 0), counts.take("not_run", Count, 0)
    said = head["machines"] if isinstance(head.get("machines"), list) else machines(folder)
    interrupted = bool(head.get("interrupted", not head.get("ended")))
    bundle = Bundle(
        started=consistency.moment_of(fields.take("started", str, "")),
        ended=consistency.moment_of(fields.take("ended", str, "")),
        exit_code=_code(head, results, interrupted=interrupted),
        interrupted=interrupted,
        error=fields.take("error", str, ""),
        versions=fields.take("versions", dict[str, str], {}),
        host=fields.take("host", dict[str, Any], {}),
        settings=settings,
        machines=tuple(consistency.machine_of(one) for one in said if isinstance(one, dict)),
        results=results,
        not_run=not_run or max(0, cases - len(results)),
        known_gone=tuple(fields.take("known_gone", list[str], [])),
        left_out=LeftOut(**counts.take("left_out", documents.LeftOut, {"claims": 0, "cases": 0})),
        claims=fields.take("claims", dict[str, documents.Claim], {}) or _claims_brought(results),
        merged=None if merged is None else consistency.merged_of(merged),
        shard=fields.take("shard", documents.Shard | None, None) or consistency.requested_shard(settings),
    )
    missing += fields.misfits + counts.misfits
    return bundle


def _code(head: Mapping[str, Any], results: tuple[TestResult, ...], *, interrupted: bool) -> int:
    """The exit code of the run; for a killed run, the one that its results give."""
    try:
        return int(ExitCode(head.get("exit_code")))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return int(exit_code(results, interrupted=interrupted))


def _claims_brought(results: Iterable[TestResult]) -> Mapping[str, Mapping[str, str]]:
    """The sentences of claims from this memqos, for results without them."""
    try:
        known = claims.load(data_root() / "suites")
    except MemqosError:
        return {}
    cited = {result.claim for result in results}
    return {name: claim.to_json() for name, claim in known.items() if name in cited}


def _not_said(head: Mapping[str, Any], bundle: Bundle) -> Iterator[str]:
    """Facts that this run did not keep."""
    for name, what in (
        ("settings", "The settings of the run and their origins are unknown."),
        ("versions", "The versions of memqos and of what it uses are unknown."),
    ):
        if not head.get(name):
            yield what
    yield from verification_notes(bundle)
    if not bundle.machines and any(result.machine for result in bundle.results):
        yield "The machines' descriptions are missing."
    cited = {result.claim for result in bundle.results if result.claim}
    if not head.get("claims") and cited & set(bundle.claims):
        yield "The claims' sentences come from the memqos that made this report: the run did not keep them."
    if unknown := sorted(cited - set(bundle.claims)):
        yield f"The sentences of {len(unknown)} claims are unknown, such as {unknown[0]}."


def verification_notes(bundle: Bundle) -> Iterator[str]:
    """The parts of a merged bundle that failed verification."""
    for part in bundle.merged.parts if bundle.merged is not None else ():
        if part.verified == FAILED:
            yield f"{part.name} was changed after its run (memqos report verify): {first_few(part.faults)}."


def _at_lines(numbers: list[int]) -> str:
    return f"line {numbers[0]}" if len(numbers) == 1 else f"lines {first_few(numbers)}"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


_MOST_SCORE = 16 << 20
"""Bytes."""


def suites_score(mutants: Path | None) -> str:
    """The suites' score in one line, from a file of `memqos mutants --json`; "" without one.

    UsageError for a file that cannot be read, ManifestError for another document.
    """
    if mutants is None:
        return ""
    try:
        content = read_plain(mutants, most=_MOST_SCORE)
    except OSError as error:
        raise UsageError(f"the score of mutants cannot be read: {error.strerror}.", where=str(mutants)) from None
    found = CheckedFile.json(str(mutants), content).checked((), Mutants)
    score = found["score"]
    tried = score["killed"] + score["survived"]
    part = "" if found["complete"] else ", not all were tried"
    cases = "the default run" if found.get("default_run") else "the suites"
    return (
        f"{cases} killed {score['killed']} of {tried} mutants, {score['right']} with the right file and cgroup "
        f"({found['system']}; {found['at'][:10]}{part})"
    )
