"""The states of a machine."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["MachineState"]


class MachineState(StrEnum):
    """Where a machine is in its life."""

    OFF = "off"
    BOOTING = "booting"
    READY = "ready"
    CHECKPOINTED = "checkpointed"
    DIRTY = "dirty"
    BROKEN = "broken"

    @property
    def is_usable(self) -> bool:
        """Whether commands can be run in it."""
        return self in {MachineState.READY, MachineState.DIRTY}
