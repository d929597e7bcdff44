"""Enforcement on the target: performs steps in order and reports the first failure.

A request is one of these:

    {"perform": ...}   mounts: the mount point of each controller; on cgroup v2 the only key is ""
                       mark: the enforcement's name, an extended attribute of every cgroup that it makes; it removes
                       only those
                       seconds: how long a cgroup may take to appear or to go
                       steps: each with action, path, unit, properties [name, signature, value], writes [file, text];
                       for an adoption also making (properties), keeps (files), keeps_properties (names)
    {"leftovers": ...} mounts; claim: whether to mark our unmarked slices first, which is right once their maker has
                       ended

`perform` answers with done (number of steps), killed (processes that a removal found) and failure (None, or step, what
and kind: "leftover" for a cgroup of an earlier enforcement, "foreign" for one of another program, "refused" otherwise).
`leftovers` answers with leftovers: path, mark, and whether the cgroup was only adopted.

The original values of an adopted cgroup are kept in another of its extended attributes, so that they can be restored
even after the adopting process has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memqos.agent.cgroup import (
    Cgroup,
    StepError,
    cgroup_at,
    get,
    make_folders,
    put,
    read_attribute,
    removed,
    set_attribute,
)
from memqos.agent.systemd import Manager, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memqos.agent.systemd import PendingCall

Request = dict[str, Any]
Step = dict[str, Any]

SPACE = "user" if os.geteuid() else "trusted"
"""Of extended attributes; an ordinary user has those of its own cgroups (cgroup v2, Linux 5.7 and later)."""
ATTRIBUTE = f"{SPACE}.memqos"
KEPT = f"{SPACE}.memqos.kept"
CLAIMED = "claimed"
OURS = "memqos: "
"""The prefix of the description of every slice that memqos makes."""

PAUSE = 0.002
BEGINNINGS = ("make", "adopt")


def perform(request: Request, manager: Manager) -> dict[str, Any]:
    """The answer to a `perform` request. manager: systemd, for slices."""
    answer: dict[str, Any] = {"done": 0, "killed": [], "failure": None}
    slices = Slices(request, manager)
    stopped = False
    for index, step in enumerate(request["steps"]):
        try:
            if removes(request, step):
                if not stopped:
                    answer["killed"] = stop(
                        request, manager, [one for one in request["steps"][index:] if removes(request, one)]
                    )
                    stopped = True
                remove(request, step)
            elif step["action"] == "give back":
                put_back(request, manager, step)
            elif step["action"] == "adopt":
                adopt(request, manager, slices, step)
            else:
                make_or_change(request, manager, slices, step)
        except StepError as error:
            answer["failure"] = {"step": index, "what": error.what + slices.drop(), "kind": error.kind}
            break
        answer["done"] = index + 1
    return answer


class Slices:
    """Starts the slices of a request, each one step ahead: systemd makes the next slice while the agent writes files.

    Under emulation systemd takes as long for a slice as the agent does for its files. A slice that is started ahead
    gets its mark in its own step.
    """

    def __init__(self, request: Request, manager: Manager) -> None:
        made = [making(step) for step in request["steps"] if step["unit"] and step["action"] in BEGINNINGS]
        # Python 3.9 has neither itertools.pairwise nor a strict zip.
        self._after = {one["unit"]: following for one, following in zip(made, made[1:])}  # noqa: B905, RUF007
        self._mounts = request["mounts"]
        self._manager = manager
        self._ahead: dict[str, PendingCall] = {}

    def start(self, step: Step) -> None:
        """Start the slice of this step, and request the slice of the next one; the cgroup appears soon after."""
        self._manager.answer(self._ahead.pop(step["unit"]) if self.is_asked_for(step) else self._ask(step))
        after = self._after.get(step["unit"])
        if after is not None and not cgroup_at(self._mounts, after["path"]).folder.is_dir():
            self._ahead[after["unit"]] = self._ask(after)

    def is_asked_for(self, step: Step) -> bool:
        """Whether its slice was started ahead, so that its cgroup may already exist."""
        return step["unit"] in self._ahead

    def drop(self) -> str:
        """Stop a slice that was started ahead and is no longer needed; the error, "" for none."""
        try:
            for unit, asked in self._ahead.items():
                if self._is_made(asked):
                    self._manager.stop([unit])
        except StepError as error:
            return f"; nor could the slice after it be stopped: {error.what}"
        return ""

    def _is_made(self, asked: PendingCall) -> bool:
        try:
            self._manager.answer(asked)
        except RefusedError:
            return False
        return True

    def _ask(self, step: Step) -> PendingCall:
        return self._manager.ask_slice(step["unit"], step["properties"])


def making(step: Step) -> Step:
    """The step as one that makes its cgroup; for an adoption, the step for a missing cgroup."""
    if step["action"] == "make":
        return step
    return {**step, "action": "make", "properties": step["making"] + step["properties"]}


def make_or_change(request: Request, manager: Manager, slices: Slices, step: Step) -> None:
    """Make a cgroup or change an existing one: properties first, then files, in libcontainer's order."""
    cgroup = cgroup_of(request, step)
    if step["action"] == "make":
        if not slices.is_asked_for(step):
            refuse_existing(cgroup.folder)
        if step["unit"]:
            start_slice(request, slices, step, cgroup.systemd_folder)
        make_folders(cgroup)
        set_mark(cgroup.folder, request["mark"])
        cgroup.complete()
    elif step["unit"] and step["properties"]:
        manager.set_properties(step["unit"], step["properties"])
    for name, text in step["writes"]:
        put(cgroup.file(name), text)


def adopt(request: Request, manager: Manager, slices: Slices, step: Step) -> None:
    """Write to an existing cgroup and keep its original values; make a missing one."""
    cgroup = cgroup_of(request, step)
    folder = cgroup.folder
    if slices.is_asked_for(step) or not folder.is_dir():
        make_or_change(request, manager, slices, making(step))
        return
    if read_mark(folder) is not None:
        refuse_existing(folder)
    kept = read_kept(folder)
    if kept is not None and kept["mark"] != request["mark"]:
        raise StepError(f"the enforcement '{kept['mark']}' changed it and did not restore its values", "leftover")
    if kept is None:
        keep(request, manager, step, cgroup)
    make_or_change(request, manager, slices, {**step, "action": "change"})


def keep(request: Request, manager: Manager, step: Step, cgroup: Cgroup) -> None:
    """Keep the original values of an adopted cgroup in its extended attribute."""
    names = step["keeps_properties"] if step["unit"] else []
    kept = {
        "mark": request["mark"],
        "unit": step["unit"],
        "properties": manager.properties(step["unit"], names) if names else [],
        "writes": [[name, get(file).rstrip("\n")] for name, file in kept_files(step, cgroup)],
    }
    set_attribute(cgroup.folder, KEPT, json.dumps(kept))


def kept_files(step: Step, cgroup: Cgroup) -> list[tuple[str, Path]]:
    """Those files of an adopted cgroup that are kept and exist."""
    files = [(name, cgroup.file(name)) for name in step["keeps"]]
    return [(name, file) for name, file in files if file.is_file()]


def put_back(request: Request, manager: Manager, step: Step) -> None:
    """Restore an adopted cgroup's values; an unchanged or missing cgroup is not an error."""
    cgroup = cgroup_of(request, step)
    folder = cgroup.folder
    kept = read_kept(folder)
    if kept is None:
        return
    if kept["mark"] != request["mark"]:
        raise StepError(f"'{folder}' was not adopted by the enforcement '{request['mark']}'", "foreign")
    if kept["properties"]:
        manager.set_properties(kept["unit"], kept["properties"])
    for name, text in kept["writes"]:
        # write(2) of no bytes does nothing: an empty line clears cpuset.cpus and cpuset.mems.
        put(cgroup.file(name), text or "\n")
    try:
        os.removexattr(folder, KEPT)
    except OSError as error:
        raise StepError(f"the mark of '{folder}' cannot be removed: {error.strerror}") from error


def removes(request: Request, step: Step) -> bool:
    """Whether this step removes its cgroup; an adopted cgroup is removed only if this enforcement made it."""
    if step["action"] == "give back":
        return read_mark(cgroup_of(request, step).folder) == str(request["mark"])
    return bool(step["action"] == "remove")


def refuse_existing(folder: Path) -> None:
    """Raise StepError if the cgroup already exists."""
    if folder.is_dir():
        mark = read_mark(folder)
        if mark is None:
            raise StepError("it already exists and does not belong to memqos", "foreign")
        raise StepError(f"it already exists, left behind by the enforcement '{mark}'", "leftover")


def refuse_unmarked(folder: Path, mark: str) -> None:
    """Raise StepError unless this enforcement made the cgroup."""
    if folder.is_dir() and read_mark(folder) != mark:
        raise StepError(f"'{folder}' was not made by the enforcement '{mark}'", "foreign")


def start_slice(request: Request, slices: Slices, step: Step, folder: Path) -> None:
    """Start a transient slice, and wait for its cgroup."""
    slices.start(step)
    if not until(request, folder.is_dir):
        raise StepError(f"systemd started '{step['unit']}' but '{folder}' did not appear")


def stop(request: Request, manager: Manager, steps: list[Step]) -> list[int]:
    """Kill the processes in these cgroups and stop their slices at once; the PIDs of the killed processes."""
    killed: list[int] = []
    units = []
    for step in steps:
        cgroup = cgroup_of(request, step)
        refuse_unmarked(cgroup.folder, request["mark"])
        found = cgroup.processes()
        if found:
            cgroup.kill()
        killed += [pid for pid in found if pid not in killed]
        units += [step["unit"]] if step["unit"] and cgroup.systemd_folder.is_dir() else []
    if units:
        manager.stop(units)
    return killed


def remove(request: Request, step: Step) -> None:
    """Remove a cgroup and its descendants; a missing cgroup is not an error."""
    cgroup = cgroup_of(request, step)
    if not until(request, lambda: removed(cgroup)):
        raise StepError(f"it still exists after {request['seconds']:.0f} s")


def until(request: Request, holds: Callable[[], bool]) -> bool:
    """Wait until `holds` is true; False after the request's time."""
    pause = threading.Event()
    for _ in range(max(1, int(request["seconds"] / PAUSE))):
        if holds():
            return True
        pause.wait(PAUSE)
    return holds()


def cgroup_of(request: Request, step: Step) -> Cgroup:
    """A step's cgroup."""
    return cgroup_at(request["mounts"], step["path"])


def set_mark(folder: Path, mark: str) -> None:
    """Mark the cgroup with the name of its enforcement."""
    set_attribute(folder, ATTRIBUTE, mark)


def read_mark(folder: Path) -> str | None:
    """The enforcement that made this cgroup; None without a mark."""
    return read_attribute(folder, ATTRIBUTE)


def read_kept(folder: Path) -> dict[str, Any] | None:
    """An adopted cgroup's original values and the run that adopted it; None if not adopted or missing."""
    text = read_attribute(folder, KEPT)
    return None if text is None else json.loads(text)


def claim(mounts: dict[str, str], manager: Manager) -> None:
    """Mark our slices that have no mark yet: their run was killed before it marked them."""
    for unit in manager.slices_described(OURS):
        folder = cgroup_at(mounts, slice_path(unit)).folder
        if folder.is_dir() and read_mark(folder) is None:
            set_mark(folder, CLAIMED)


def slice_path(unit: str) -> str:
    """The cgroup path of a slice, whose name contains its parents (systemd.slice(5))."""
    parts = unit[: -len(".slice")].split("-")
    return "".join(f"/{'-'.join(parts[:count])}.slice" for count in range(1, len(parts) + 1))


def leftovers(mounts: dict[str, str]) -> list[tuple[str, str, bool]]:
    """Every marked cgroup, outermost first: path, mark, and whether it was only adopted."""
    mount = cgroup_at(mounts, "/").mount
    found = []
    for name, _, _ in os.walk(mount):
        folder = Path(name)
        mark, kept = read_mark(folder), read_kept(folder)
        if mark is not None or kept is not None:
            path = f"/{folder.relative_to(mount)}"
            found.append((path, kept["mark"] if mark is None and kept else mark or "", mark is None))
    return sorted(found)


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    with contextlib.closing(Manager()) as manager:
        if "perform" in asked:
            return perform(asked["perform"], manager)
        mounts = asked["leftovers"]["mounts"]
        if asked["leftovers"].get("claim"):
            # Without a systemd that answers there are no slices of ours.
            with contextlib.suppress(StepError):
                claim(mounts, manager)
        return {"leftovers": leftovers(mounts)}


@contextlib.contextmanager
def until_left(file: int) -> Iterator[None]:
    """End this process as soon as its input `file` ends: the caller is gone then."""
    read_end, write_end = os.pipe()
    poll = select.poll()
    for one in (file, read_end):
        poll.register(one, select.POLLIN)

    def watch() -> None:
        # The caller sends nothing before the answer: readable input is its end.
        if file in {ready for ready, _ in poll.poll()}:
            os._exit(1)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        os.close(write_end)
        watching.join()
        os.close(read_end)
