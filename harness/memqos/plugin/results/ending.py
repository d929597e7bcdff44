"""How a run ends: errors outside of tests, and the exit code that follows from them and from the results.

Also errors and failures as pytest's report shows them, and the files of a bundle: the cited claims, the summary for
people and CI systems, and the hashes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from memqos import claims, frame
from memqos.bundles import files
from memqos.bundles.files import seal
from memqos.catalog.data import data_root
from memqos.engine.answer import explain
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import ExitCode, MachineryError, MemqosError, UsageError
from memqos.interruption import Interruption
from memqos.page.building import page_html
from memqos.plugin.keys import claims_below
from memqos.report import ci_results, matrix, summary
from memqos.report.bundle import Bundle, Results
from memqos.report.markdown import markdown
from memqos.report.outcome import Outcome, TestResult, exit_code
from memqos.report.summary import known_line
from memqos.report.verdict import causes_of

__all__ = ["FILES", "RunEnd", "cited", "error_text", "failure_text", "publish", "summary_lines"]


def error_text(error: MemqosError) -> str:
    """What happened and where, and the next step on a line of its own."""
    head = f"{error.where}: {error.what}" if error.where else error.what
    return f"{head}\n{error.next_step}" if error.next_step else head


def failure_text(findings: Iterable[Finding]) -> str:
    """The deviating findings with their reason chains, the number of conforming ones, and the not observable ones."""
    findings = tuple(findings)
    parts = [explain.failure(finding) for finding in findings if finding.verdict is Verdict.DEVIATES]
    unseen: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        if finding.verdict is Verdict.NOT_OBSERVABLE:
            unseen.setdefault((str(finding.subject), finding.why_not), []).append(finding.knob)
    parts += [
        f"not observable: {', '.join(dict.fromkeys(knobs))} of {subject}: {why_not}"
        for (subject, why_not), knobs in unseen.items()
    ]
    listed = dict.fromkeys(known_line(finding) for finding in findings if finding.verdict is Verdict.KNOWN)
    parts += [f"known: {line}" for line in listed]
    conforming = sum(finding.verdict is Verdict.CONFORMS for finding in findings)
    if conforming:
        parts.append(f"({conforming} other findings of this test conform)")
    return "\n\n".join(parts)


_CRASH = "crash_file"


class RunEnd:
    """How a run ends, as far as known. crash_folder: the preferred folder for a crash file, once there is one."""

    def __init__(self, interruption: Interruption) -> None:
        self.crash_folder: Path | None = None
        self._interruption = interruption
        self._broken_off = False
        self._closed_pipe = False
        self._troubles: list[MemqosError] = []

    @property
    def interrupted(self) -> bool:
        """Whether the run was interrupted."""
        return self._broken_off or self._interruption.came

    @property
    def closed_pipe(self) -> bool:
        """Whether the run's output is closed."""
        return self._closed_pipe

    @property
    def text(self) -> str:
        """Errors outside of tests, one line each; an error of many places is one line."""
        places: dict[tuple[str, str], list[str]] = {}
        for error in self._troubles:
            places.setdefault((error.what, error.next_step), []).append(error.where)
        lines = (MemqosError(what, where=_in_short(where), next_step=step) for (what, step), where in places.items())
        return "\n".join(" ".join(str(error).split()) for error in lines)

    def code(self, results: Sequence[TestResult]) -> ExitCode:
        """The exit code of a run with these results."""
        troubles = [error.exit_code for error in self._troubles]
        if self._closed_pipe:
            troubles.append(ExitCode.CLOSED_PIPE)
        return exit_code(results, interrupted=self.interrupted, troubles=troubles)

    def hold(self) -> None:
        """Ignore interrupts from now on: the results are being written."""
        self._interruption.hold()

    def add(self, error: MemqosError) -> None:
        """Remember an error that is reported elsewhere."""
        self._troubles.append(error)

    def suffer(self, error: BaseException) -> None:
        """Remember an error outside of tests, and print it."""
        if isinstance(error, pytest.exit.Exception):
            # It ends a run as an interrupt does, whatever code it names.
            self._broken_off = True
        elif isinstance(error, KeyboardInterrupt) or (self._interruption.came and isinstance(error, OSError)):
            return  # Counted at its origin; a terminal that is closed takes its streams with it.
        elif frame.is_closed_pipe(error):
            self._closed_pipe = True
            frame.lead_nowhere(sys.stdout)
        elif not self._follows(error):
            told = frame.known(error, keep=self.crash_folder, sentence=_workers_word(error))
            if str(told) not in map(str, self._troubles):
                self.add(told)
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(f"\nmemqos: error: {error_text(told)}\n")

    def _follows(self, error: BaseException) -> bool:
        """Whether this follows from an unexpected error and adds nothing."""
        return not isinstance(error, MemqosError | OSError) and any(_CRASH in told.data for told in self._troubles)

    def judge(self, status: int, *, usage: str, others_failed: bool) -> None:
        """Take pytest's own exit status into account. usage: a worker's usage error.

        others_failed: tests outside memqos.
        """
        if usage or status == pytest.ExitCode.USAGE_ERROR:
            self.add(UsageError(usage or str(sys.exception() or "pytest refused its arguments.")))
        if others_failed:
            self.add(MachineryError("a test that does not belong to memqos failed."))
        if self._troubles or self._closed_pipe:
            return
        if status == pytest.ExitCode.INTERRUPTED:
            self._broken_off = True
        if status == pytest.ExitCode.INTERNAL_ERROR:
            self.add(MachineryError("pytest ended with an internal error."))


def _in_short(places: Sequence[str]) -> str:
    """The first place and the number of others."""
    first, *others = dict.fromkeys(places)
    return f"{first} and {len(others)} more" if others else first


def _workers_word(error: BaseException) -> str:
    """An xdist worker's internal error: its traceback arrives as the text of an AssertionError."""
    lines = str(error).strip().removesuffix("assert False").strip().splitlines()
    is_traceback = isinstance(error, AssertionError) and bool(lines) and lines[0].startswith("Traceback")
    return lines[-1].strip() if is_traceback else ""


def _page(bundle: Bundle, folder: Path) -> str:
    return page_html(Results(folder=folder, bundle=bundle))


def _matrix_text(bundle: Bundle) -> str:
    lines = list(matrix.matrix_lines(matrix.matrix_of(bundle.results)))
    return "\n".join(lines) + "\n" if lines else ""


FILES: Mapping[str, Callable[[Bundle, Path], str]] = {
    "junit_01.xml": lambda bundle, _: ci_results.junit_xml(bundle),
    "started.json": lambda bundle, _: ci_results.started_json(bundle),
    "finished.json": lambda bundle, _: ci_results.finished_json(bundle),
    "matrix.txt": lambda bundle, _: _matrix_text(bundle),
    "report.html": _page,
    "bundle.json": lambda bundle, _: bundle.to_text(),
}
"""The files of a bundle by name, "" for an empty one; this one is the last, and knows which others failed."""


_NOT_WRONG = frozenset({Outcome.CONFORMS, Outcome.KNOWN, Outcome.NOT_OBSERVABLE})


def cited(results: Iterable[TestResult], *, root: Path) -> dict[str, dict[str, str]]:
    """The claims that results cite, with their sentences; a run's folder is readable without its suites."""
    found: dict[str, dict[str, str]] = {}
    for result in results:
        if result.claim and result.claim not in found:
            file = root / result.id.partition("::")[0]
            with contextlib.suppress(MemqosError):
                found[result.claim] = claims_below(file.parent.parent)[result.claim].to_json()
    return found


def publish(bundle: Bundle, folder: Path) -> None:
    """The last step: compress evidence, and write the run's hashes and the summary for a CI system."""
    with contextlib.suppress(OSError, ValueError):
        not_wrong = (one.folder for one in bundle.results if one.outcome in _NOT_WRONG and one.folder)
        shared = (each for kind in ("machines", "populations") for each in folder.glob(f"{kind}/*"))
        files.compress_evidence([*map(folder.joinpath, not_wrong), *shared])
        files.compress_evidence(map(folder.joinpath, _repeated(bundle)), with_logs=True)
        files.compress_findings(folder)
        (folder / files.BEGUN).unlink(missing_ok=True)
        seal(folder)
        if summary_file := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary_file).open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(markdown(bundle, name=folder.name))


def _repeated(bundle: Bundle) -> Iterator[str]:
    """The folders of conforming cases whose evidence repeats an earlier case's; that case keeps its own."""
    causes = causes_of(bundle.results)
    first = {cause.results[0].id for cause in causes}
    yield from dict.fromkeys(
        one.folder for cause in causes for one in cause.results if one.folder and one.id not in first
    )


def summary_lines(bundle: Bundle, folder: Path, *, config: pytest.Config, verbosity: int) -> Iterator[str]:
    """The verdict and its details, with paths relative to pytest's start folder."""
    here, root = config.invocation_params.dir, config.rootpath
    # Where `memqos run` finds cases by their ids alone.
    found = {here, here / "suites", data_root() / "suites"}
    page = folder / "report.html"
    yield from summary.summary_lines(
        bundle,
        results_folder=os.path.relpath(folder, here),
        suites=os.path.relpath(root, here) if claims.is_suites_root(root) and root not in found else "",
        report=os.path.relpath(page, here) if page.exists() else "",
        verbosity=verbosity,
    )
