"""--keep-vm: the machine of a worker's first failure is left running as the failure left it, with its pods."""

from __future__ import annotations

import dataclasses

import pytest

from memqos.plugin.evidence import Folder
from memqos.plugin.keys import SETTINGS_KEY
from memqos.plugin.telling import Telling
from memqos.vm.kept import keep
from memqos.vm.qemu.machine import Machine

__all__ = ["choose", "is_for_keeps", "keep_chosen", "leaves", "lingers"]

_CHOSEN = pytest.StashKey[Machine]()
"""The machine that this worker keeps."""


def choose(config: pytest.Config, machine: Machine) -> bool:
    """Keep this machine, on which a test failed, if the settings say so and it is the first one; whether that is so."""
    if not lingers(config):
        return False
    config.stash[_CHOSEN] = machine
    return True


def is_for_keeps(config: pytest.Config, machine: Machine) -> bool:
    """Whether this machine is to be left running."""
    return config.stash.get(_CHOSEN, None) is machine


def lingers(config: pytest.Config) -> bool:
    """Whether pods stay until their node is used again: the test that used them may yet be told to have failed."""
    return config.stash[SETTINGS_KEY].keep_vm and _CHOSEN not in config.stash


def leaves(config: pytest.Config, machine: Machine) -> bool:
    """Whether a machine is left as it is, with the pods that were tested on it.

    It is if it will be kept, and if it is broken: that was told where it broke, and what is tested next, on another
    machine, must not be told that tidying up failed.
    """
    return not machine.state.is_usable or is_for_keeps(config, machine)


def keep_chosen(config: pytest.Config, machine: Machine, folder: Folder) -> None:
    """Leave the machine running if it was chosen, say how it is entered and ended, and note its name in the folder.

    One that has broken since is given up for the next one on which a test fails.
    """
    if not is_for_keeps(config, machine):
        return
    if not machine.state.is_usable:
        del config.stash[_CHOSEN]
        return
    kept = keep(machine)
    folder.write("kept.json", dataclasses.asdict(kept))
    Telling(config).line(
        f"{kept.machine} is kept as {kept.name}, with the pods of the failure: "
        f"`memqos vm shell {kept.name}` enters it, `memqos vm rm {kept.name}` ends it"
    )
