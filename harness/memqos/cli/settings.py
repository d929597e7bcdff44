"""The options that are settings: one per setting, from one table, the same for every verb.

Also `memqos settings`: every setting, its value and its origin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from memqos.cli.terminal import say
from memqos.config.files import settings_files
from memqos.config.settings import Settings, resolve
from memqos.config.table import SETTINGS, Kind, Setting

__all__ = ["MACHINE", "command", "setting_option", "setting_options", "settings_from"]

MACHINE = (
    "arch",
    "topology",
    "cgroup",
    "no-recursiveprot",
    "no-userns",
    "runtime",
    "runtime-binary",
    "runtime-deb",
    "containerd-binary",
    "containerd-config",
    "guest-file",
    "guest-unit",
    "guest-deb",
    "kernel-image",
    "initrd",
    "kernel-deb",
    "kernel-tree",
    "no-checkpoint",
)
"""The settings that describe a machine, besides its profile, and whether it is booted."""


def setting_option(setting: Setting) -> click.Option:
    """A setting as an option; its value arrives as the parameter setting_NAME, None if it was not given."""
    flag = setting.kind is Kind.FLAG
    text = f"{setting.help[0].upper()}{setting.help[1:]}."
    if setting.default not in (None, False, ()):
        default = ",".join(map(str, setting.default)) if isinstance(setting.default, tuple) else setting.default
        text += f" [default: {default}; {setting.environment}]"
    return click.Option(
        [f"--{setting.name}", f"setting_{setting.key}"],
        is_flag=flag,
        multiple=setting.kind.is_repeated,
        default=None,
        metavar=None if flag else setting.metavar,
        help=text,
    )


def setting_options(names: Collection[str]) -> Callable[[click.Command], click.Command]:
    """A decorator, applied above click's own, that gives a command the options of these settings."""

    def add(command: click.Command) -> click.Command:
        command.params += [setting_option(setting) for setting in SETTINGS if setting.name in names]
        return command

    return add


def settings_from(
    given: Mapping[str, Any], *, configuration: Path | None = None, overrides: Sequence[str] = ()
) -> Settings:
    """All settings: these parameters first, then the environment, then the project's files, then the defaults.

    configuration: a pytest configuration file to read too; overrides: replacements of its values
    ("memqos_driver=cgroupfs"). Raises UsageError for a value that its setting does not accept.
    """
    values = {setting.key: given.get(f"setting_{setting.key}") for setting in SETTINGS}
    # An option that may be repeated, and was not given, is an empty tuple.
    known = {key: None if value == () else value for key, value in values.items()}
    return resolve(known, os.environ, settings_files(Path.cwd(), configuration=configuration, overrides=overrides))


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
