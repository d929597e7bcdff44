"""The settings of a run, each with where it came from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from memqos.config.files import settings_files
from memqos.config.settings import Settings, resolve
from memqos.config.table import SETTINGS
from memqos.plugin.carrying import Carried, with_carried_files

__all__ = ["settings_given", "told_elsewhere"]

_TOLD, _FILES, _FOLDER = "memqos_settings", "memqos_files", "memqos_files_folder"
"""The names under which a worker on another host is told them: its environment and its files are not the run's."""


def settings_given(config: pytest.Config) -> Settings:
    """Those that `memqos run` has resolved already, with the origins that its user knows, or else pytest's options.

    Files are those from the current folder upwards, and the one that pytest took. Raises UsageError as `resolve` and
    `settings_files` do. A worker of xdist is told values only, by its controller.
    """
    for plugin in config.pluginmanager.get_plugins():
        settings = getattr(plugin, "memqos_settings", None)
        if isinstance(settings, Settings):
            return settings
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if _TOLD in told:
        settings = resolve(told[_TOLD], {}, option_prefix="--memqos-")
        return with_carried_files(settings, told[_FILES], Path(told[_FOLDER]))
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


def told_elsewhere(settings: Settings, files: Carried, folder: str) -> dict[str, Any]:
    """What makes a worker elsewhere resolve the same settings. folder: of its host, for the files that they name."""
    texts = {
        one.setting.key: list(map(str, one.value))
        if one.setting.kind.is_repeated and isinstance(one.value, tuple)
        else one.text
        for one in settings.entries()
        if one.is_given and one.value is not None
    }
    return {_TOLD: texts, _FILES: files, _FOLDER: folder}
