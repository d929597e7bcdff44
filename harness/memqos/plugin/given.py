"""The settings of a run, each with where it came from."""

from __future__ import annotations

import os

import pytest

from memqos.config.files import settings_files
from memqos.config.settings import Settings, resolve
from memqos.config.table import SETTINGS

__all__ = ["SETTINGS_TOLD", "settings_given", "told_elsewhere"]

SETTINGS_TOLD = "memqos_settings"
"""The name under which a worker on another host is told them: its environment and its files are not the run's."""


def settings_given(config: pytest.Config) -> Settings:
    """Those that `memqos run` has resolved already, with the origins that its user knows, or else pytest's options.

    Files are those from the current folder upwards, and the one that pytest took. Raises UsageError as `resolve` and
    `settings_files` do. A worker of xdist is told values only, by its controller.
    """
    for plugin in config.pluginmanager.get_plugins():
        settings = getattr(plugin, "memqos_settings", None)
        if isinstance(settings, Settings):
            return settings
    told: dict[str, str | list[str]] | None = getattr(config, "workerinput", {}).get(SETTINGS_TOLD)
    if told is not None:
        return resolve(told, {}, option_prefix="--memqos-")
    given = {
        setting.key: config.getoption(setting.pytest_option.removeprefix("--").replace("-", "_"))
        for setting in SETTINGS
    }
    files = settings_files(
        config.invocation_params.dir,
        configuration=config.inipath,
        overrides=config.getoption("override_ini") or (),
    )
    return resolve(given, os.environ, files, option_prefix="--memqos-")


def told_elsewhere(settings: Settings) -> dict[str, str | list[str]]:
    """What was given, by key, as the texts that a worker elsewhere resolves to the same settings."""
    return {
        one.setting.key: list(map(str, one.value))
        if one.setting.kind.is_repeated and isinstance(one.value, tuple)
        else one.text
        for one in settings.entries()
        if one.is_given and one.value is not None
    }
