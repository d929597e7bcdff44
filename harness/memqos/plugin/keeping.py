"""--keep-vm: the machine of a worker's first failure is left running, with its pods if no further test runs."""

from __future__ import annotations

import pytest

from memqos.plugin.keys import FAILED, SETTINGS_KEY
from memqos.plugin.telling import Telling
from memqos.vm.kept import keep
from memqos.vm.qemu.machine import Machine

__all__ = ["is_for_keeps", "keep_after_failure", "leaves"]

_KEPT = pytest.StashKey[bool]()
"""Whether this worker has kept a machine already."""


def is_for_keeps(config: pytest.Config) -> bool:
    """Whether this worker's machine is to be left running: --keep-vm, a failure, and none kept before."""
    failed = config.stash.get(FAILED, False) and not config.stash.get(_KEPT, False)
    return config.stash[SETTINGS_KEY].keep_vm and failed


def leaves(config: pytest.Config, machine: Machine) -> bool:
    """Whether a machine is left as it is, with the pods that were tested on it.

    It is if it will be kept and nothing else runs on it, and if it is broken: that was told where it broke, and what is
    tested next, on another machine, must not be told that tidying up failed.
    """
    return not machine.state.is_usable or (is_for_keeps(config) and _is_last(config))


def _is_last(config: pytest.Config) -> bool:
    """Whether no further test will run, as after a failure under -x."""
    session: pytest.Session | None = config.pluginmanager.get_plugin("session")
    return session is not None and bool(session.shouldfail or session.shouldstop)


def keep_after_failure(config: pytest.Config, machine: Machine) -> None:
    """Leave the machine of a worker's first failure running, and say how it is entered and ended."""
    if not is_for_keeps(config) or not machine.state.is_usable:
        return
    kept = keep(machine)
    config.stash[_KEPT] = True
    telling = Telling(config)
    telling.line(f"the machine is kept as {kept.name}; enter it with: {kept.shell}")
    telling.line(f"end it with: memqos vm rm {kept.name}")
