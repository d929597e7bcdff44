"""Puts files of a person in places of their own in a machine that is to be saved, and starts units that need them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.errors import DeadlineError, UnfitFileError
from memqos.target.base import Target, checked
from memqos.vm.trees import BroughtTree

__all__ = ["put_trees", "start_units"]

START_SECONDS = 120.0
"""How long a unit may take to start; systemd's own patience is 90 s, unless the unit says otherwise."""

SETTLING_SECONDS = 2.0
"""How long it must go on then: a daemon that finds a fault in its configuration ends within that."""

JOURNAL_LINES = "20"

LOOK = """\
import json, os, subprocess, sys
faults = []
for place, is_folder in json.load(sys.stdin):
    folder, name = os.path.split(place)
    real = os.path.join(os.path.realpath(folder), name)
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        faults.append([place, above + " is no folder"])
    elif not os.path.lexists(real):
        continue
    elif is_folder:
        if not os.path.isdir(real):
            faults.append([place, "it is there and is no folder"])
    elif os.path.islink(real) or not os.path.isfile(real):
        kind = "a folder" if os.path.isdir(real) and not os.path.islink(real) else "a link or a special file"
        faults.append([place, "it is there and is " + kind])
    elif real in sys.argv[1:]:
        faults.append([place, "the machine needs its own"])
    else:
        for one in {real, place}:
            told = subprocess.run(["dpkg", "--search", one], capture_output=True, text=True)
            if told.returncode == 0:
                faults.append([place, "it belongs to the package " + told.stdout.partition(":")[0]])
                break
json.dump(faults, sys.stdout)
"""
"""Reads a list of places with whether each is a folder, and says which cannot be had, and why."""

OWN = (
    "/etc/containerd/config.toml", "/etc/fstab", "/etc/group", "/etc/hostname", "/etc/hosts", "/etc/machine-id",
    "/etc/passwd", "/etc/shadow", "/root/.ssh/authorized_keys",
)  # fmt: skip
"""Files that no package has and the machine could not do without, or that have an option of their own."""


def put_trees(target: Target, trees: Sequence[BroughtTree], *, deadline: Deadline) -> None:
    """Put each tree into its place, in order.

    Files of packages and of memqos are not replaced: --runtime-binary, --containerd-binary and --runtime-deb are for
    those. Raises UnfitFileError, naming the option, for a place that a tree cannot have, and for what tar cannot do.
    """
    for tree in trees:
        asked = json.dumps(list(tree.places())).encode()
        argv = ["python3", "-c", LOOK, *OWN]
        faults = json.loads(checked(target.run(argv, deadline=deadline, stdin=asked), where=target.address).text)
        if faults:
            place, why = faults[0]
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            raise UnfitFileError(
                f"'{tree.path}' cannot be put at {place} in this machine: {why}{more}.",
                where=tree.option,
                next_step="Choose another DST; what packages bring is replaced with --runtime-binary, "
                "--containerd-binary, --containerd-config, --runtime-deb or --guest-deb.",
            )
        told = target.run(
            ["tar", "-x", "-C", "/", "--no-overwrite-dir", "--keep-directory-symlink", "--same-owner", "-p"],
            deadline=deadline,
            stdin=tree.archive(),
        )
        if told.status != 0:
            said = told.error_text.strip()[-600:]
            raise UnfitFileError(f"'{tree.path}' cannot be put into this machine: {said}", where=tree.option)


def start_units(target: Target, units: Sequence[str]) -> None:
    """Enable and start these units, in order, and see that they go on.

    Raises UnfitFileError with the end of its journal for one that is not there, does not start, or fails right then.
    """
    if not units:
        return
    deadline = Deadline.after(START_SECONDS)
    checked(target.run(["systemctl", "daemon-reload"], deadline=deadline), where=target.address)
    for unit in units:
        deadline = Deadline.after(START_SECONDS)
        for verb in ("enable", "start"):
            try:
                told = target.run(["systemctl", verb, unit], deadline=deadline)
            except DeadlineError:
                raise _fault(target, unit, f"it did not {verb} within {START_SECONDS:.0f} s") from None
            if told.status != 0:
                raise _fault(target, unit, f"it cannot be {verb}{'d' if verb == 'enable' else 'ed'}", told.error_text)
    SYSTEM_CLOCK.sleep(SETTLING_SECONDS)
    for unit in units:
        state = target.run(["systemctl", "show", "--value", "--property=ActiveState", unit], deadline=deadline)
        if (word := state.text.strip()) not in {"active", "inactive"}:
            raise _fault(target, unit, f"{SETTLING_SECONDS:.0f} s after its start it is {word or 'not there'}")


def _fault(target: Target, unit: str, what: str, said: str = "") -> UnfitFileError:
    journal = target.run(
        ["journalctl", "--no-pager", "--output=cat", f"--unit={unit}", f"--lines={JOURNAL_LINES}"],
        deadline=Deadline.after(START_SECONDS),
    ).text.strip()
    return UnfitFileError(
        f"the unit {unit} does not run in this machine: {what}. {said.strip()}".rstrip()
        + (f"\nIts journal ends with:\n{journal}" if journal else ""),
        where="--guest-unit",
        next_step="Mend it, or what it needs: --guest-file and --guest-deb bring more.",
    )
