"""The program that creates trees of cgroups on a machine, lets their leaves use memory, and prints the observations.

It is sent to machines as a single file with the standard library alone. Its argument is {"mount", "seconds", "trees"}
as JSON; it prints a list for `memqos.exploration.cgroup_trees`, with {"error": …} for a tree that could not be created.
It removes all its cgroups.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

CHUNK = 1 << 20
NAME = "memqos-explore"

Described = dict[str, Any]


def put(path: str, text: str) -> None:
    """Write an interface file."""
    with open(path, "w") as stream:
        stream.write(text)


def text_of(path: str) -> str:
    """An interface file's text, "" for a missing one."""
    try:
        with open(path) as stream:
            return stream.read()
    except OSError:
        return ""


def seen(folder: str) -> dict[str, int]:
    """A cgroup's amounts, and the counters of memory.events."""
    found = {}
    for name in ("memory.current", "memory.swap.current"):
        text = text_of(f"{folder}/{name}").strip()
        if text.isdecimal():
            found[name] = int(text)
    for line in text_of(f"{folder}/memory.events").splitlines():
        key, _, count = line.partition(" ")
        found[key] = int(count)
    return found


class Tree:
    """A tree on this machine. root: its folder. scratch: a folder on a disk for the files whose pages are read."""

    def __init__(self, root: str, tree: Described, scratch: str) -> None:
        self.root, self.tree, self.scratch = root, tree, scratch
        self.children: list[int] = []

    def folder(self, cgroup: Described) -> str:
        """The folder of one of its cgroups."""
        return f"{self.root}/{cgroup['path']}"

    def make(self) -> None:
        """Create its cgroups and write their files."""
        os.mkdir(self.root)
        put(f"{self.root}/cgroup.subtree_control", "+memory")
        for one in self.tree["cgroups"]:
            os.mkdir(self.folder(one))
            for name, count in one["files"].items():
                put(f"{self.folder(one)}/{name}", str(count))
            if not (one["file"] or one["anon"]):
                put(f"{self.folder(one)}/cgroup.subtree_control", "+memory")

    def fill(self, seconds: float) -> None:
        """Let each leaf use its memory; a slow one for at most so many seconds."""
        pending = []
        for number, one in enumerate(self.tree["cgroups"]):
            if one["file"] or one["anon"]:
                reading, writing = os.pipe()
                child = os.fork()
                if not child:
                    self._use(one, f"{self.scratch}/{number}", writing)
                os.close(writing)
                self.children.append(child)
                pending.append(reading)
        end = time.monotonic() + seconds
        for reading in pending:
            self._await(reading, end)
            os.close(reading)

    def _await(self, reading: int, end: float) -> None:
        os.set_blocking(reading, False)
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                os.read(reading, 1)  # a byte, or the end of a killed program
                return
            time.sleep(0.02)

    def _use(self, one: Described, file: str, writing: int) -> None:
        """In a child process: enter the cgroup, use memory, and report it."""
        try:
            put(f"{self.folder(one)}/cgroup.procs", "0")
            if one["file"]:
                # The pages of a hole are page cache too and need no disk.
                with open(file, "wb") as stream:
                    stream.truncate(one["file"])
                handle = os.open(file, os.O_RDONLY)
                buffer = bytearray(CHUNK)
                while os.readv(handle, [buffer]):
                    pass
                os._exit(0)
            memory = mmap.mmap(
                -1, -(-one["anon"] // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            )
            # A huge page is charged at once, while memory.high counts batches of 64 pages.
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for place in range(0, len(memory), mmap.PAGESIZE):
                memory[place] = 1
            os.write(writing, b"d")
            while True:
                signal.pause()
        finally:
            os._exit(1)

    def see(self) -> dict[str, dict[str, int]]:
        """The observations of all its cgroups; the root's name is ""."""
        return {"": seen(self.root), **{one["path"]: seen(self.folder(one)) for one in self.tree["cgroups"]}}

    def remove(self) -> None:
        """Kill its programs, and remove it."""
        if os.path.isdir(self.root):
            put(f"{self.root}/cgroup.kill", "1")
        for child in self.children:
            os.waitpid(child, 0)
        for one in reversed(self.tree["cgroups"]):
            remove(self.folder(one))
        remove(self.root)


def remove(folder: str) -> None:
    """Remove a cgroup; retries while it is still busy."""
    for _ in range(100):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)


def tried(tree: Described, root: str, seconds: float) -> Described:
    """The observations of one tree before and after its limit."""
    scratch = tempfile.mkdtemp(prefix=NAME, dir="/var/tmp")
    made = Tree(root, tree, scratch)
    try:
        began = time.monotonic()
        made.make()
        made.fill(seconds)
        before = made.see()
        if tree.get("limit") is not None:
            put(f"{root}/memory.max", str(tree["limit"]))
        after = made.see()
        return {"before": before, "after": after, "seconds": time.monotonic() - began}
    except OSError as error:
        return {"error": str(error)}
    finally:
        made.remove()
        shutil.rmtree(scratch, ignore_errors=True)


def main(text: str) -> None:
    """Try all trees of a request, one after another."""
    request = json.loads(text)
    put(f"{request['mount']}/cgroup.subtree_control", "+memory")
    answers = [
        tried(tree, f"{request['mount']}/{NAME}-{os.getpid()}-{number}", request["seconds"])
        for number, tree in enumerate(request["trees"])
    ]
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
