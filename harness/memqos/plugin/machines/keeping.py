"""--keep-vm: the place of a worker's first failure is left running as the failure left it, with its pods."""

from __future__ import annotations

import pytest

from memqos.laboratory.evidence import Folder
from memqos.place.base import Place
from memqos.plugin.face.telling import Telling
from memqos.plugin.keys import INTERRUPTION, LANE, SETTINGS_KEY

__all__ = ["choose", "is_for_keeps", "keep_chosen", "leaves", "lingers"]

_CHOSEN = pytest.StashKey[Place]()
"""The place that this worker keeps."""


def choose(config: pytest.Config, place: Place) -> bool:
    """Keep this place, on which a test failed, if the settings say so and it is the first one; whether that is so."""
    if not lingers(config):
        return False
    config.stash[_CHOSEN] = place
    return True


def is_for_keeps(config: pytest.Config, place: Place) -> bool:
    """Whether this place is to be left to a person."""
    return config.stash.get(_CHOSEN, None) is place


def lingers(config: pytest.Config) -> bool:
    """Whether pods stay until their node is used again: the test that used them may yet be told to have failed."""
    settings = config.stash[SETTINGS_KEY]
    # A machine that is there stays anyhow, and nothing of ours on it.
    return settings.keep_vm and not settings.target and _CHOSEN not in config.stash


def leaves(config: pytest.Config, place: Place) -> bool:
    """Whether a place is left as it is, with the pods that were tested on it.

    It is if it will be kept, and if it is broken: that was told where it broke, and what is tested next, on another
    one, must not be told that tidying up failed. And if the place ends with it, because it is given up for what a test
    left on it, or a signal ends the run: what is on it may hang, and the run does not wait for it.
    """
    lane = config.stash.get(LANE, None)
    is_given_up = lane is not None and lane.has_given_up(place)
    ends = place.is_disposable and (is_given_up or config.stash[INTERRUPTION].came)
    return ends or not place.condition.is_usable or is_for_keeps(config, place)


def keep_chosen(config: pytest.Config, place: Place, folder: Folder) -> None:
    """Leave the place to a person if it was chosen, say how it is entered and ended, and note its name in the folder.

    One that has broken since is given up for the next one on which a test fails.
    """
    if not is_for_keeps(config, place):
        return
    if not place.condition.is_usable:
        del config.stash[_CHOSEN]
        return
    kept = place.keep()
    folder.write("kept.json", kept.document)
    Telling(config).line(
        f"{kept.machine} keeps running as {kept.name}, with the pods of the failure: "
        f"`{kept.enter}` enters it, `{kept.end}` ends it"
    )
