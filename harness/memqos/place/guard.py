"""Leaves a machine that is there as it was, whatever way a run ends: by a guard on the machine itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from memqos.agent.process import AgentProcess, LostError
from memqos.agent.program import program
from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, MachineryError, TargetError
from memqos.runtime.cri_wire import MADE_BY_LABEL
from memqos.runtime.docker_wire import SANDBOX_LABEL
from memqos.target.base import Target

__all__ = ["FOLDER", "Guard", "guarded"]

FOLDER = "/var/lib/memqos"
"""Where programs of ours are on a machine that is there, for as long as a run lasts."""

LOCK = "/run/memqos.lock"

MADE_IN = (("/var/log/pods", ""), ("/var/log", "pods"), ("/run", "memqos"), ("/var/lib", "memqos"))
"""The folders in which a run leaves others, and how these begin."""

SIGN_EVERY = 5.0
SILENCE_SECONDS = 30.0
PATIENCE_SECONDS = 120.0
"""For the guard of a run that lost its connection: it waits for its silence and the runtime, and then cleans up."""

REMOVAL_SECONDS = 40.0
"""For the runtime to come to the end of what it was asked last, before which it may refuse to remove that."""

SETTLING_SECONDS = 20.0
"""For the runtime to be done with what a run asked for that was killed meanwhile. With all processors taken, containerd
was at that for eight seconds."""

CLEAN_SECONDS = 180.0


class Guard:
    """A guard that is on its post."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent
        self._lock = threading.Lock()

    def tell(self, **line: object) -> None:
        """Send it a message, or only a sign of life. A cleanup process that has exited has cleaned up, or cannot."""
        with self._lock:
            self._agent.tell(line)

    def at_the_end(self, argv: Sequence[str]) -> None:
        """Have it run this command when all else is cleaned up."""
        self.tell(undo=list(argv))

    def answer(self, *, deadline: Deadline, **request: object) -> str:
        """Its answer; "" if it has exited or is too slow: it ends by itself."""
        try:
            with self._lock:
                return str(self._agent.ask(request, deadline)["said"])
        except LostError:
            self._agent.end()
            return ""


@contextlib.contextmanager
def guarded(
    target: Target,
    *,
    socket: str,
    hierarchy: Hierarchy,
    engine: str = "",
    is_lost: Callable[[], bool] = lambda: False,
) -> Iterator[Guard]:
    """A machine under guard: when the context ends, or we or the connection do, nothing of ours is left on it.

    socket: of the runtime that sandboxes are made with, "" for none. engine: of the Docker Engine that containers are
    made with, the same. What an earlier run left is taken back first. is_lost: whether
    the machine is known not to be reached any more: then its guard does its work unheard.
    Raises EnvironmentNotAbleError if another run is on the machine or it cannot be guarded, and at the end TargetError
    with what could not be taken back.
    """
    request = {
        "lock": LOCK,
        "silence": SILENCE_SECONDS,
        "patience": PATIENCE_SECONDS,
        "removal": REMOVAL_SECONDS,
        "settling": SETTLING_SECONDS,
        "socket": socket,
        "label": MADE_BY_LABEL,
        "engine": engine,
        "sandbox": SANDBOX_LABEL,
        "mounts": dict(hierarchy.mounts),
        "folders": MADE_IN,
    }
    sent = program()
    with target.open(sent.command) as process:
        guard = Guard(AgentProcess(process, sent))
        _require_ready(guard.answer(guard=request, deadline=Deadline.after(CLEAN_SECONDS)), target)
        ended = threading.Event()
        signs = threading.Thread(target=_show_life, args=(guard, ended), name="memqos-guard", daemon=True)
        signs.start()
        try:
            yield guard
        finally:
            ended.set()
            signs.join()
            said = guard.answer(end=True, deadline=Deadline.after(CLEAN_SECONDS))
            process.kill()
        if said != "clean" and not is_lost():
            raise TargetError(
                f"cleanup incomplete: {said or 'the cleanup process exited'}.",
                where=target.address,
                next_step="If the connection was lost, the cleanup process there removes the rest: check in a minute.",
            )


def _show_life(guard: Guard, ended: threading.Event) -> None:
    while not ended.wait(SIGN_EVERY):
        guard.tell()


def _require_ready(said: str, target: Target) -> None:
    if said == "ready":
        return
    if said == "busy":
        raise EnvironmentNotAbleError(
            "another run of memqos is on this machine.", where=target.address, next_step="Wait until it has ended."
        )
    if not said:
        raise EnvironmentNotAbleError(
            "the cleanup process cannot run there: its python3 does not run.",
            where=target.address,
            next_step="Install the package python3 there.",
        )
    raise MachineryError(
        f"what an earlier run left there cannot be cleaned up: {said}.",
        where=target.address,
        next_step="Remove it by hand.",
    )
