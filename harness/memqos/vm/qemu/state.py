"""The states of a machine, and the error for a verb that is not for the state it is in."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from memqos.errors import WrongStateError

__all__ = ["USABLE", "MachineState", "wrong_state"]


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
        return self in USABLE


USABLE = (MachineState.READY, MachineState.DIRTY)


def wrong_state(machine: str, doing: str, current: MachineState, accepted: Sequence[MachineState]) -> WrongStateError:
    """What is raised where a machine in this state is asked to do what only the accepted states allow."""
    return WrongStateError(
        f"cannot {doing} while it is {current}: it must be {' or '.join(accepted)}.",
        where=machine,
        data={"current": str(current), "accepted": [str(state) for state in accepted]},
    )
