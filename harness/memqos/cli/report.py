"""`memqos report`: what is made of results folders alone, long after their runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from memqos import frame
from memqos.bundles.files import write
from memqos.bundles.reading import read_results
from memqos.cli.terminal import say
from memqos.errors import UsageError
from memqos.page.building import page_html

__all__ = ["command"]

HELP = """Make reports of the folder that a run left, also of a run that was killed.

\b
  memqos report html results/TIME -o report.html     one file to look at, which needs nothing else
"""


@click.group(name="report", help=HELP)
def command() -> None:
    """The page of `memqos report`."""


@command.command(name="html")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", default="report.html", show_default=True, metavar="FILE", help="The file; - is standard output."
)
def html(results: Path, output: str) -> None:
    """Write one HTML file to look at: overview, matrix, cases with their reasons and charts.

    It opens without a network, and holds no more than what is in RESULTS, a folder that a run wrote.

    \b
    Examples:
      memqos report html results/TIME -o report.html
    """
    _put(page_html(read_results(results)), output)


def _put(text: str, output: str) -> None:
    """Write a report, and say where it is."""
    if output == "-":
        sys.stdout.write(text)
        return
    try:
        write(Path(output), text)
    except OSError as error:
        refused = frame.of_the_host(error, where=output, next_step="Name another file with --output.")
        raise refused or UsageError(f"'{output}' cannot be written: {error.strerror}.", where="--output") from error
    say(f"report: {Path(output).resolve()}")
