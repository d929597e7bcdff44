"""Restores an existing machine however a run ends, by a guard process on the machine itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from memqos.agent.program import AgentProcess, LostError, program
from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, MachineryError, TargetError
from memqos.runtime.cri_wire import MADE_BY_LABEL
from memqos.runtime.docker_wire import SANDBOX_LABEL
from memqos.runtime.oci_commands import BUNDLES
from memqos.target.base import Target

__all__ = ["FOLDER", "Guard", "guarded"]

FOLDER = "/var/lib/memqos"
"""The folder of memqos's programs on an existing machine during a run."""

LOCK = "/run/memqos.lock"

MADE_IN = (
    ("/var/log/pods", ""),
    ("/var/log", "pods"),
    ("/var/log", "memqos"),
    ("/run", "memqos"),
    ("/var/lib", "memqos"),
)
"""Folders in which a run creates others, and the prefixes of these."""

SIGN_EVERY = 5.0
SILENCE_SECONDS = 30.0
PATIENCE_SECONDS = 120.0
"""Seconds to wait for the guard of a run that lost its connection: its silence, the runtime, and the cleanup."""

REMOVAL_SECONDS = 40.0
"""Seconds for the runtime to finish its last call; until then it may refuse to remove that container."""

SETTLING_SECONDS = 20.0
"""Seconds for the runtime to finish the calls of a killed run. With all CPUs busy, containerd took eight seconds."""

CLEAN_SECONDS = 180.0


class Guard:
    """A running guard."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent
        self._lock = threading.Lock()

    def tell(self, **line: object) -> None:
        """Send it a message, or only a sign of life. An exited guard is ignored: it cleaned up, or cannot."""
        with self._lock:
            self._agent.tell(line)

    def at_the_end(self, argv: Sequence[str]) -> None:
        """Make it run this command at the end of the cleanup."""
        self.tell(undo=list(argv))

    def answer(self, *, deadline: Deadline, **request: object) -> str:
        """Its answer; "" if it has exited or is too slow."""
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
    bundles: bool = False,
    is_lost: Callable[[], bool] = lambda: False,
) -> Iterator[Guard]:
    """Guard a machine: when the context, memqos or the connection ends, everything of memqos is removed from it.

    First removes leftovers of earlier runs. socket: the CRI socket for sandboxes, "" for none. engine: the Docker
    Engine's socket, "" for none. bundles: whether an OCI runtime is used without a server. is_lost: whether the machine
    is known to be unreachable; its guard then cleans up without an answer.
    Raises EnvironmentNotAbleError if another run uses the machine or it cannot be guarded, and at the end TargetError
    with what could not be removed.
    """
    request = {"socket": socket, "engine": engine, "bundles": BUNDLES if bundles else "", **_same_everywhere()}
    request["mounts"] = dict(hierarchy.mounts)
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


def _same_everywhere() -> dict[str, object]:
    """The part of a guard's request that no machine changes."""
    return {
        "lock": LOCK,
        "silence": SILENCE_SECONDS,
        "patience": PATIENCE_SECONDS,
        "removal": REMOVAL_SECONDS,
        "settling": SETTLING_SECONDS,
        "label": MADE_BY_LABEL,
        "sandbox": SANDBOX_LABEL,
        "folders": MADE_IN,
    }


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
