"""The files that a run writes from its bundle at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from memqos.page.building import page_html
from memqos.report import junit, matrix, prow
from memqos.report.bundle import Bundle, Results

__all__ = ["FILES"]


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
