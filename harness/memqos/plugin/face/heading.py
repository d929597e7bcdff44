"""What is going to be tested, said before the first case."""

from __future__ import annotations

import os

import pytest

from memqos.config.settings import unknown_variables
from memqos.plugin.keys import SETTINGS_KEY, is_run_of_suites
from memqos.version import __version__

__all__ = ["heading"]


def heading(config: pytest.Config) -> list[str]:
    """One line on it, if this is a run of suites, and what was not left at its default."""
    settings = config.stash[SETTINGS_KEY]
    changed = [f"{one.setting.name}={one.text} ({one.origin})" for one in settings.entries() if one.is_given]
    notes = [f"memqos: {note}" for note in unknown_variables(os.environ)]
    if not changed and not is_run_of_suites(config):
        return []
    booted = f"{','.join(settings.profile)}/{settings.topology}"
    head = (
        f"memqos {__version__}: machine {settings.target or booted}, "
        f"{','.join(settings.runtime)}, {','.join(settings.driver)} driver"
    )
    return [head, *([f"memqos settings: {', '.join(changed)}"] if changed else []), *notes]
