"""`memqos baseline`: writes a file that accepts a run's deviations until a date."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from memqos.bundles.reading import read_results
from memqos.cli.terminal import say
from memqos.clock import utc_now
from memqos.errors import UsageError
from memqos.known import baseline_text

__all__ = ["command"]

HELP = """Write a baseline: accept the deviations of a run until a date.

`memqos run --baseline FILE` then reports them as known, and they do not fail a run up to and including that date.

\b
Example:
  memqos baseline results/TIME --until 2027-01-31 --reason "runc issue 1" > baseline.toml
"""


def _baseline(*, results: str, until: str, reason: str) -> int:
    try:
        day = datetime.date.fromisoformat(until)
    except ValueError:
        raise UsageError(f"'{until}' is not a date such as 2027-01-31.", where="--until") from None
    today = utc_now().date()
    if day < today:
        raise UsageError(
            f"{day} is over: the baseline would accept nothing.",
            where="--until",
            next_step=f"Name {today} or a later date (UTC).",
        )
    if not reason.strip():
        raise UsageError("the reason is empty.", where="--reason", next_step="Give a reason.")
    read = read_results(Path(results))
    for one in (*read.missing, *read.bundle.inconsistencies):
        say(f"memqos: note: {read.name}: {one}", err=True)
    found = read.bundle.results
    deviations = [(result.claim, finding) for result in found for finding in result.deviations]
    if not deviations:
        raise UsageError(f"nothing deviates in '{results}'.", next_step="No baseline is needed.")
    click.echo(baseline_text(deviations, until=day, reason=reason), nl=False)
    return 0


command = click.Command(
    name="baseline",
    help=HELP,
    callback=_baseline,
    params=[
        click.Argument(["results"], metavar="RESULTS"),
        click.Option(
            ["--until"], required=True, metavar="DAY", help="The last day on which the baseline applies, YYYY-MM-DD."
        ),
        click.Option(["--reason"], required=True, metavar="TEXT", help="Why the deviations are accepted."),
    ],
)
