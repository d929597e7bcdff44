"""The populations on a node in turn: what one leaves for the next, and whether the machine is alive.

If the machine has failed, its own failure is raised instead of the many errors that follow from it. An inventory has
the cgroups, mounts, systemd units and processes that pods may leave, and the memory of daemons.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from memqos.clock import Deadline
from memqos.enactor.base import Enactment, Enactor
from memqos.errors import MachineryError, UsageError
from memqos.model.pod import Pod
from memqos.target.base import Target, checked

__all__ = ["Cleanup", "HealthChecks", "Inventory", "Occupancy", "anonymous_memory_of", "inventory_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChecks:
    """Both raise the machine's own failure, if it has one.

    check: cheap, called before anything begins. examine: takes an error that may come from the failure; without one it
    checks again.
    """

    check: Callable[[], None] = lambda: None
    examine: Callable[[MachineryError], None] | None = None

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Any error in this context is replaced by the machine's own failure, if it has one."""
        self.check()
        try:
            yield
        except MachineryError as error:
            if self.examine is None:
                self.check()
            else:
                self.examine(error)
            raise


@dataclass(slots=True, kw_only=True)
class Cleanup:
    """How a machine is left.

    disposable: it is thrown away at the end, so an interrupt need not wait for pods to be removed. leaves: the user
    wants to inspect the pods, so they stay. lingers: the user may still want to, so they stay until the machine is used
    again.
    """

    disposable: bool = False
    leaves: Callable[[], bool] = lambda: False
    lingers: Callable[[], bool] = lambda: False
    _lingering: list[Callable[[], None]] = field(default_factory=list)

    @contextlib.contextmanager
    def ending(self, well: Callable[[], None], badly: Callable[[], None]) -> Iterator[None]:
        """End a context by one of these, depending on an error; after an interrupt, depending on `Cleanup`.

        Anything that ends a test counts as an error here, also if it is not an Exception, such as pytest's skip.
        """

        def quietly() -> None:
            # The first error is the one to report: an error in tidying up must not replace it.
            with contextlib.suppress(MachineryError):
                badly()

        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            if not self.disposable:
                badly()
            raise
        except BaseException:
            self._tidy_up(quietly)
            raise
        self._tidy_up(well)

    def clear_away(self) -> None:
        """Remove what lingers of earlier populations, unless the user wants to inspect it."""
        lingering, self._lingering = self._lingering, []
        for clear in lingering if not self.leaves() else ():
            clear()

    def _tidy_up(self, clear: Callable[[], None]) -> None:
        if self.lingers():
            self._lingering.append(clear)
        elif not self.leaves():
            clear()


class Occupancy:
    """The pods on a node now, admitted by an enactor. Raises the machine's own failure as `health` finds it."""

    def __init__(self, enactor: Enactor, *, cleanup: Cleanup, health: HealthChecks) -> None:
        self._enactor = enactor
        self._cleanup = cleanup
        self._health = health
        self._kept: Enactment | None = None
        self._standing: Enactment | None = None

    @property
    def keeps(self) -> bool:
        """Whether the next population finds the pods of the last one."""
        return self._kept is not None

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Until the context ends, populations leave cgroups and pods in place, and the next one reuses what fits."""
        self._cleanup.clear_away()
        self._kept = standing = self._enactor.begin("memqos")
        try:
            with self._health.guarded(), self._clearing(standing):
                yield
        finally:
            self._kept = None

    @contextlib.contextmanager
    def begun(self, name: str) -> Iterator[Enactment]:
        """Room for a population of this name; it is removed when the context ends, unless pods are kept."""
        self._cleanup.clear_away()
        kept = self._kept
        self._standing = standing = kept or self._enactor.begin(name)
        ending = self._cleanup.ending(lambda: None, standing.clear) if kept else self._clearing(standing)
        with self._health.guarded(), ending:
            yield standing

    def standing(self) -> Enactment:
        """The current population; UsageError without one."""
        if self._standing is None:
            raise UsageError("the node has no pods.", next_step="Admit some first.")
        return self._standing

    def with_pod(self, pod: Pod) -> Enactment:
        """The current population if this pod is in it; UsageError if not."""
        if self._standing is None or pod.uid not in self._standing.pods:
            raise UsageError(f"the pod '{pod.name}' is not on the node.", next_step="Admit it first.")
        return self._standing

    def _clearing(self, standing: Enactment) -> contextlib.AbstractContextManager[None]:
        """End with none of it left on the node."""
        return self._cleanup.ending(standing.clear, standing.clear)


LOOKING_SECONDS = 60.0

_LOOK = """
find "$1" -mindepth 1 -type d -printf 'cgroups %p\\n'
cut -d ' ' -f 5 /proc/self/mountinfo | sed 's/^/mounts /'
systemctl list-units --all --plain --no-legend --type=scope,slice,mount 2>/dev/null |
    sed 's/^/units /' | cut -d ' ' -f 1,2
cat /proc/[0-9]*/comm 2>/dev/null | sed 's/^/processes /'
true
"""
# cat ignores a process that has ended since it was listed; awk would fail to open its file.
WEIGH_SCRIPT = r"""
cat /proc/[0-9]*/status 2>/dev/null |
awk -v names=" $1 " '/^Name:/ { name = " " $2 " " } /^RssAnon:/ && index(names, name) { kib += $2 }
                    END { printf "%.0f\n", kib * 1024 }'
"""
_OF_CONTAINERS = re.compile(r"shim|conmon|runc|crun|runsc|youki|pause|memload")
"""Processes that belong to pods; others come and go on a machine by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Names by kind; a name with several instances appears as often."""

    cgroups: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.cgroups, self.mounts, self.units, self.processes))

    def beyond(self, before: Inventory) -> Inventory:
        """The names that are new since then."""
        return Inventory(
            cgroups=_more(self.cgroups, before.cgroups),
            mounts=_more(self.mounts, before.mounts),
            units=_more(self.units, before.units),
            processes=_more(self.processes, before.processes),
        )


def inventory_of(target: Target, folder: str) -> Inventory:
    """The current inventory, with one command. folder: of the cgroup below which pods leave theirs.

    Raises MachineryError if it cannot be read.
    """
    deadline = Deadline.after(LOOKING_SECONDS)
    result = checked(target.run(["sh", "-c", _LOOK, "sh", folder], deadline=deadline), where=target.address)
    pairs = [line.partition(" ")[::2] for line in result.text.splitlines()]
    kinds = {kind: tuple(name for found, name in pairs if found == kind) for kind in ("cgroups", "mounts", "units")}
    programs = (name for found, name in pairs if found == "processes" and _OF_CONTAINERS.search(name))
    return Inventory(**kinds, processes=tuple(programs))


def anonymous_memory_of(target: Target, programs: Sequence[str]) -> int:
    """The anonymous memory of all processes with these names, in bytes; 0 if there is none.

    Raises MachineryError if they cannot be read.
    """
    deadline = Deadline.after(LOOKING_SECONDS)
    argv = ["sh", "-c", WEIGH_SCRIPT, "sh", " ".join(programs)]
    return int(checked(target.run(argv, deadline=deadline), where=target.address).text)


def _more(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted((Counter(now) - Counter(before)).elements()))
