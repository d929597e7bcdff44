"""What leaves a run: the claims that it cites, its summary as people and CI systems read it, and its hashes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from memqos import claims
from memqos.bundles import files
from memqos.bundles.verifying import seal
from memqos.catalog.data import data_root
from memqos.errors import MemqosError
from memqos.page.building import page_html
from memqos.plugin.collection.citing import claims_below
from memqos.report import junit, matrix, prow, summary
from memqos.report.bundle import Bundle, Results
from memqos.report.causes import causes_of
from memqos.report.markdown import markdown
from memqos.report.outcome import Outcome, TestResult

__all__ = ["cited", "publish", "summary_shown"]


def _page(bundle: Bundle, folder: Path) -> str:
    return page_html(Results(folder=folder, bundle=bundle))


def _matrix_text(bundle: Bundle) -> str:
    lines = list(matrix.matrix_lines(matrix.matrix_of(bundle.results)))
    return "\n".join(lines) + "\n" if lines else ""


FILES: Mapping[str, Callable[[Bundle, Path], str]] = {
    "junit_01.xml": lambda bundle, _: junit.junit_xml(bundle),
    "started.json": lambda bundle, _: prow.started_json(bundle),
    "finished.json": lambda bundle, _: prow.finished_json(bundle),
    "matrix.txt": lambda bundle, _: _matrix_text(bundle),
    "report.html": _page,
    "bundle.json": lambda bundle, _: bundle.to_text(),
}
"""The files of a bundle by name, "" for one that says nothing; itself is the last, and knows how the others fared."""


_NOT_WRONG = frozenset({Outcome.CONFORMS, Outcome.KNOWN, Outcome.NOT_OBSERVABLE})


def cited(results: Iterable[TestResult], *, root: Path) -> dict[str, dict[str, str]]:
    """The claims that results cite, with what they say; a run's folder is to be read without its suites."""
    found: dict[str, dict[str, str]] = {}
    for result in results:
        if result.claim and result.claim not in found:
            file = root / result.id.partition("::")[0]
            with contextlib.suppress(MemqosError):
                found[result.claim] = claims_below(file.parent.parent)[result.claim].to_json()
    return found


def publish(bundle: Bundle, folder: Path) -> None:
    """The very last: evidence made small, the run's hashes, and its summary for a CI system that takes one."""
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
    """The folders of cases with nothing wrong that another before them had not; of that one the end of a run tells."""
    causes = causes_of(bundle.results)
    first = {cause.results[0].id for cause in causes}
    yield from dict.fromkeys(
        one.folder for cause in causes for one in cause.results if one.folder and one.id not in first
    )


def summary_shown(bundle: Bundle, folder: Path, *, config: pytest.Config, verbosity: int) -> Iterator[str]:
    """The verdict and what is behind it, with paths as they are from where pytest was called."""
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
