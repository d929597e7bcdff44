"""The part of enforcement that runs on the target: does steps one after the other, and says which one failed.

Its source is sent to the target's python3 whole, so that one command does the work of many: it imports nothing but
the standard library of Python 3.9 and nothing of memqos. A request comes as JSON on standard input:

    verb     perform or leftovers
    mount    the cgroup v2 mount
    mark     the name of the enforcement, kept as an extended attribute of every cgroup it makes; it removes no other
    seconds  how long a cgroup may take to appear or to go
    steps    each with action, path, unit, properties [name, signature, words], writes [file, text]; of an adoption
             also making (properties), keeps (files), keeps_properties (names)

What an adopted cgroup held is kept in another of its extended attributes, so that it can be put back even if whoever
adopted it is gone.

and the answer goes as JSON to standard output. To perform: done (how many steps), killed (processes that a removal
found), and failure (None, or step, what, and kind: "leftover" for a cgroup that an earlier enforcement made, "foreign"
for one that somebody else did, "refused" otherwise). To leftovers: leftovers, each a path, its mark, and whether it
was only adopted.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ATTRIBUTE = "trusted.memqos"
KEPT = "trusted.memqos.kept"
BUS = "org.freedesktop.systemd1"
SYSTEMD = (BUS, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
PAUSE = 0.01

Request = dict[str, Any]
Step = dict[str, Any]


class StepError(Exception):
    """A step could not be done."""

    def __init__(self, what: str, kind: str = "refused") -> None:
        super().__init__(what)
        self.what = what
        self.kind = kind


def perform(request: Request) -> dict[str, Any]:
    """The answer to a request to do steps."""
    answer: dict[str, Any] = {"done": 0, "killed": [], "failure": None}
    stopped = False
    for index, step in enumerate(request["steps"]):
        try:
            if removes(request, step):
                if not stopped:
                    answer["killed"] = stop(request, [one for one in request["steps"][index:] if removes(request, one)])
                    stopped = True
                remove(request, step)
            elif step["action"] == "give back":
                put_back(request, step)
            elif step["action"] == "adopt":
                adopt(request, step)
            else:
                make_or_change(request, step)
        except StepError as error:
            answer["failure"] = {"step": index, "what": error.what, "kind": error.kind}
            break
        answer["done"] = index + 1
    return answer


def make_or_change(request: Request, step: Step) -> None:
    """Make a cgroup, or change one that exists: properties first, then the files, as libcontainer does both."""
    folder = folder_of(request, step)
    if step["action"] == "make":
        refuse_existing(folder)
        if step["unit"]:
            start_slice(request, step, folder)
        else:
            make_folder(folder)
        set_mark(folder, request["mark"])
        enable_controllers(Path(request["mount"]), folder)
    elif step["unit"] and step["properties"]:
        manager("SetUnitProperties", "sba(sv)", step["unit"], "true", *property_words(step))
    for name, text in step["writes"]:
        put(folder / name, text)


def adopt(request: Request, step: Step) -> None:
    """Write to a cgroup that is there, and keep what it held; make it if it is not there."""
    folder = folder_of(request, step)
    if not folder.is_dir():
        make_or_change(request, {**step, "action": "make", "properties": step["making"] + step["properties"]})
        return
    if read_mark(folder) is not None:
        refuse_existing(folder)
    kept = read_kept(folder)
    if kept is not None and kept["mark"] != request["mark"]:
        raise StepError(f"the enforcement '{kept['mark']}' changed it and did not put back what it held", "leftover")
    if kept is None:
        keep(request, step, folder)
    make_or_change(request, {**step, "action": "change"})


def keep(request: Request, step: Step, folder: Path) -> None:
    """Write down what an adopted cgroup holds, in itself."""
    names = step["keeps_properties"] if step["unit"] else []
    kept = {
        "mark": request["mark"],
        "unit": step["unit"],
        "properties": unit_properties(step["unit"], names) if names else [],
        "writes": [[name, get(folder / name).rstrip("\n")] for name in step["keeps"] if (folder / name).is_file()],
    }
    set_attribute(folder, KEPT, json.dumps(kept))


def put_back(request: Request, step: Step) -> None:
    """Give an adopted cgroup back with the values that it had; one that was not changed, or is gone, is no error."""
    folder = folder_of(request, step)
    kept = read_kept(folder)
    if kept is None:
        return
    if kept["mark"] != request["mark"]:
        raise StepError(f"'{folder}' was not adopted by the enforcement '{request['mark']}'", "foreign")
    if kept["properties"]:
        manager("SetUnitProperties", "sba(sv)", kept["unit"], "true", *property_words(kept))
    for name, text in kept["writes"]:
        # An empty write would be none: a set of CPUs or nodes is emptied by an empty line.
        put(folder / name, text or "\n")
    try:
        os.removexattr(folder, KEPT)
    except OSError as error:
        raise StepError(f"the mark of '{folder}' cannot be removed: {error.strerror}") from error


def unit_properties(unit: str, names: list[str]) -> list[list[Any]]:
    """The values of a slice's properties, each as [name, signature, words]; busctl says them as it takes them."""
    path = "/org/freedesktop/systemd1/unit/" + "".join(
        one if one.isascii() and one.isalnum() else f"_{ord(one):02x}" for one in unit
    )
    text = run("busctl", "--system", "get-property", BUS, path, f"{BUS}.Slice", *names)
    answers = [line.split() for line in text.splitlines()]
    return [[name, answers[index][0], answers[index][1:]] for index, name in enumerate(names)]


def removes(request: Request, step: Step) -> bool:
    """Whether this step removes its cgroup: one that is given back is removed if this enforcement made it."""
    if step["action"] == "give back":
        return read_mark(folder_of(request, step)) == str(request["mark"])
    return bool(step["action"] == "remove")


def refuse_existing(folder: Path) -> None:
    """A cgroup that is there already is not ours to take over."""
    if folder.is_dir():
        mark = read_mark(folder)
        if mark is None:
            raise StepError("it exists already and is somebody else's", "foreign")
        raise StepError(f"it exists already, left behind by the enforcement '{mark}'", "leftover")


def refuse_unmarked(folder: Path, mark: str) -> None:
    """What this enforcement did not make, it does not kill or remove."""
    if folder.is_dir() and read_mark(folder) != mark:
        raise StepError(f"'{folder}' was not made by the enforcement '{mark}'", "foreign")


def make_folder(folder: Path) -> None:
    """Make a cgroup and those above it."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise StepError(f"'{folder}' cannot be made: {error.strerror}") from error


def start_slice(request: Request, step: Step, folder: Path) -> None:
    """Start a transient slice, and wait for its cgroup."""
    manager("StartTransientUnit", "ssa(sv)a(sa(sv))", step["unit"], "replace", *property_words(step), "0")
    if not until(request, folder.is_dir):
        raise StepError(f"systemd started '{step['unit']}' but '{folder}' did not appear")


def property_words(step: Step) -> list[str]:
    """The properties as busctl takes an a(sv)."""
    words = [str(len(step["properties"]))]
    for name, signature, values in step["properties"]:
        words += [name, signature, *values]
    return words


def manager(method: str, *words: str) -> None:
    """Call systemd's manager."""
    run("busctl", "--system", "--quiet", "call", *SYSTEMD, method, *words)


def run(*argv: str) -> str:
    """Run a program; what it says. Its standard error is the reason when it fails."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise StepError(f"'{argv[0]}' cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        raise StepError(f"'{argv[0]}' ended with status {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout


def enable_controllers(mount: Path, folder: Path) -> None:
    """Hand every controller down to this cgroup, as libcontainer does for those above each cgroup it makes."""
    above = mount
    for name in folder.relative_to(mount).parts:
        handed = set(get(above / "cgroup.subtree_control").split())
        for word in get(above / "cgroup.controllers").split():
            if word not in handed:
                hand_down(above, word)
        above = above / name


def hand_down(above: Path, controller: str) -> None:
    """Enable one controller; one that cannot be (cpu with real-time tasks) is missed by the knob that needs it."""
    try:
        put(above / "cgroup.subtree_control", "+" + controller)
    except StepError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in {errno.EBUSY, errno.EINVAL}:
            raise


def stop(request: Request, steps: list[Step]) -> list[int]:
    """Kill what runs in the cgroups of these removals, and stop their slices all at once; the processes that ran."""
    killed: list[int] = []
    units = []
    for step in steps:
        folder = folder_of(request, step)
        refuse_unmarked(folder, request["mark"])
        found = [pid for below, _, _ in os.walk(folder) for pid in processes(Path(below))]
        if found:
            put(folder / "cgroup.kill", "1")
        killed += [pid for pid in found if pid not in killed]
        units += [step["unit"]] if step["unit"] and folder.is_dir() else []
    if units:
        run("systemctl", "--quiet", "stop", *units)
    return killed


def remove(request: Request, step: Step) -> None:
    """Remove a cgroup and all below it; one that is gone is no error."""
    folder = folder_of(request, step)
    if not until(request, lambda: removed(folder)):
        raise StepError(f"it is still there after {request['seconds']:.0f} s")


def removed(folder: Path) -> bool:
    """Remove what can be removed now, deepest first; whether nothing is left."""
    for below, _, _ in os.walk(folder, topdown=False):
        try:
            Path(below).rmdir()
        except OSError as error:
            # Busy until its last process is reaped, and systemd may be quicker than we are.
            if error.errno not in {errno.EBUSY, errno.ENOENT, errno.ENOTEMPTY}:
                raise StepError(f"'{below}' cannot be removed: {error.strerror}") from error
    return not folder.is_dir()


def processes(folder: Path) -> list[int]:
    """The processes of one cgroup; none if it vanished or cannot have any."""
    try:
        return [int(word) for word in get(folder / "cgroup.procs").split()]
    except StepError:
        return []


def until(request: Request, holds: Callable[[], bool]) -> bool:
    """Whether this came true in the request's time."""
    pause = threading.Event()
    for _ in range(max(1, int(request["seconds"] / PAUSE))):
        if holds():
            return True
        pause.wait(PAUSE)
    return holds()


def folder_of(request: Request, step: Step) -> Path:
    """The folder of a step's cgroup."""
    return Path(request["mount"], step["path"].lstrip("/"))


def set_mark(folder: Path, mark: str) -> None:
    """Say whose cgroup this is."""
    set_attribute(folder, ATTRIBUTE, mark)


def read_mark(folder: Path) -> str | None:
    """Who made this cgroup; None if it is not marked."""
    return read_attribute(folder, ATTRIBUTE)


def read_kept(folder: Path) -> dict[str, Any] | None:
    """What an adopted cgroup held, and who adopted it; None if nobody did, or it is gone."""
    text = read_attribute(folder, KEPT)
    return None if text is None else json.loads(text)


def set_attribute(folder: Path, name: str, text: str) -> None:
    """Write an extended attribute."""
    try:
        os.setxattr(folder, name, text.encode())
    except OSError as error:
        raise StepError(f"'{folder}' cannot be marked: {error.strerror}") from error


def read_attribute(folder: Path, name: str) -> str | None:
    """An extended attribute; None if there is none, or no such folder."""
    try:
        return os.getxattr(folder, name).decode("utf-8", "replace")
    except OSError:
        return None


def get(path: Path) -> str:
    """A file's text."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise StepError(f"'{path}' cannot be read: {error.strerror}") from error


def put(path: Path, text: str) -> None:
    """Write text to a control file with one write(2)."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StepError(f"writing '{text}' to '{path}' failed: {error.strerror}") from error


def leftovers(mount: Path) -> list[tuple[str, str, bool]]:
    """Every marked cgroup, outermost first: path, mark, and whether it was only adopted."""
    found = []
    for name, _, _ in os.walk(mount):
        folder = Path(name)
        mark, kept = read_mark(folder), read_kept(folder)
        if mark is not None or kept is not None:
            path = f"/{folder.relative_to(mount)}"
            found.append((path, kept["mark"] if mark is None and kept else mark or "", mark is None))
    return sorted(found)


def main() -> None:
    """Read the request, write the answer."""
    request: Request = json.load(sys.stdin)
    perform_it = request["verb"] == "perform"
    answer = perform(request) if perform_it else {"leftovers": leftovers(Path(request["mount"]))}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
