"""The settings of a run, each with where it came from."""

from __future__ import annotations

import os

import pytest

from memqos.config.files import settings_files
from memqos.config.settings import Settings, resolve
from memqos.config.table import SETTINGS

__all__ = ["settings_given"]


def settings_given(config: pytest.Config) -> Settings:
    """Those that `memqos run` has resolved already, with the origins that its user knows, or else pytest's options.

    Files are those from the current folder upwards, and the one that pytest took. Raises UsageError as `resolve` and
    `settings_files` do. A worker of xdist is told values only, by its controller.
    """
    for plugin in config.pluginmanager.get_plugins():
        settings = getattr(plugin, "memqos_settings", None)
        if isinstance(settings, Settings):
            return settings
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
