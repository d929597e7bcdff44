"""The slices that a request has systemd make: it makes the next one while what the last one holds is written.

Sent to targets together with the agent, so it imports nothing but the standard library of Python 3.9. Under emulation
systemd takes as long for a slice as the agent does for its files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memqos.enforce.agent_bus import RefusedError
from memqos.enforce.agent_cgroup import StepError, cgroup_at

if TYPE_CHECKING:
    from memqos.enforce.agent_bus import Asked, Manager

Request = dict[str, Any]
Step = dict[str, Any]

BEGINNINGS = ("make", "adopt")


class Slices:
    """The slices of a request, through this manager. One that is asked for ahead is marked when its step is done."""

    def __init__(self, request: Request, manager: Manager) -> None:
        made = [making(step) for step in request["steps"] if step["unit"] and step["action"] in BEGINNINGS]
        # Python 3.9 has neither itertools.pairwise nor a strict zip.
        self._after = {one["unit"]: following for one, following in zip(made, made[1:])}  # noqa: B905, RUF007
        self._mounts = request["mounts"]
        self._manager = manager
        self._ahead: dict[str, Asked] = {}

    def start(self, step: Step) -> None:
        """Start the slice of a step that makes it, and ask for that of the one after it; its cgroup comes soon."""
        self._manager.answer(self._ahead.pop(step["unit"]) if self.is_asked_for(step) else self._ask(step))
        after = self._after.get(step["unit"])
        if after is not None and not cgroup_at(self._mounts, after["path"]).folder.is_dir():
            self._ahead[after["unit"]] = self._ask(after)

    def is_asked_for(self, step: Step) -> bool:
        """Whether its slice was asked for ahead, so that its cgroup may be there."""
        return step["unit"] in self._ahead

    def drop(self) -> str:
        """Stop what was asked for ahead and is not wanted any more; why that cannot be done, "" if it can."""
        try:
            for unit, asked in self._ahead.items():
                if self._is_made(asked):
                    self._manager.stop([unit])
        except StepError as error:
            return f"; nor could the slice after it be stopped: {error.what}"
        return ""

    def _is_made(self, asked: Asked) -> bool:
        try:
            self._manager.answer(asked)
        except RefusedError:
            return False
        return True

    def _ask(self, step: Step) -> Asked:
        return self._manager.ask_slice(step["unit"], step["properties"])


def making(step: Step) -> Step:
    """The step that makes what this one makes, or would adopt if it were there."""
    if step["action"] == "make":
        return step
    return {**step, "action": "make", "properties": step["making"] + step["properties"]}
