"""`memqos settings`: every setting, its value and its origin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from memqos.cli.setting_options import setting_option, settings_from
from memqos.cli.terminal import say
from memqos.config.settings import Settings
from memqos.config.table import SETTINGS

__all__ = ["command", "lines"]

FORMAT = 1

HELP = """Show every setting that a run here would use, and its origin.

A setting is an option of `memqos run`, a variable MEMQOS_NAME, a key of [tool.memqos] in pyproject.toml, or memqos_NAME
in pytest's own file; the first of these that is set wins. The command shows options given here as `memqos run` would
apply them.

\b
Examples:
  memqos settings
  memqos settings --driver cgroupfs
  memqos settings --json
"""


def _show(*, as_json: bool, **given: Any) -> None:
    settings = settings_from(given)
    if as_json:
        click.echo(json.dumps({"memqos_format": FORMAT, "settings": settings.to_json()}, indent=1))
        return
    for line in lines(settings):
        say(line)


def lines(settings: Settings) -> Iterator[str]:
    """Name, value and origin of each; "-" where a setting is not set."""
    rows = [(one.setting.name, one.text or "-", one.origin) for one in settings.entries()]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, value, origin in rows:
        yield f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}"


command = click.Command(
    name="settings",
    help=HELP,
    callback=_show,
    params=[
        *(setting_option(setting) for setting in SETTINGS),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of lines."),
    ],
)
