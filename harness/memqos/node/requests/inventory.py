"""What pods leave on a machine: an inventory of cgroups, mounts, systemd units and processes, and a daemon's memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.target.base import Target, checked

__all__ = ["Inventory", "anonymous_memory_of", "inventory_of"]

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
