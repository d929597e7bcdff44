"""How many xdist workers a run of suites gets: no more than machines fit on this host."""

from __future__ import annotations

import os

import pytest

from memqos.catalog.topologies import load_topology
from memqos.config.settings import Settings, resolve
from memqos.config.table import SETTINGS
from memqos.errors import MemqosError
from memqos.vm.cache.store import default_cache
from memqos.vm.checkpoint.stored import list_checkpoints
from memqos.vm.host.capacity import capacity, read_host

__all__ = ["limit_workers"]


def limit_workers(config: pytest.Config, asked: int | str) -> tuple[int, str]:
    """How many of the workers that were asked for there can be, and one line that says so.

    asked: a number, or xdist's words "auto" and "logical" for as many as there can be. Settings that cannot be
    resolved are left for pytest_configure to refuse.
    """
    try:
        settings = _settings(config)
        topology = load_topology(settings.word("topology"))
        ready = [
            one.used_bytes
            for one in list_checkpoints(default_cache(os.environ))
            if (one.profile in settings.profiles and one.topology == topology.name)
        ]
        most = capacity(read_host(), memory_bytes=topology.memory_bytes, checkpoint_bytes=max(ready, default=0))
    except MemqosError:
        return (asked, "") if isinstance(asked, int) else (1, "")
    if not isinstance(asked, int) or asked > most.machines:
        instead = f" instead of {asked}" if isinstance(asked, int) else ""
        return most.machines, f"memqos: {_machines(most.machines)} at a time{instead}: {most.reason}"
    return asked, f"memqos: {_machines(asked)} at a time"


def _settings(config: pytest.Config) -> Settings:
    given = {
        setting.key: config.getoption(setting.pytest_option.removeprefix("--").replace("-", "_"))
        for setting in SETTINGS
    }
    return resolve(given, os.environ, option_prefix="--memqos-")


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"
