"""What runs inside the place in memory: an agent that enforces, and a sampler that looks, both on fake cgroups."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.model.path import CgroupPath
from memqos.probe.looks import Appended, Look, Said
from memqos.probe.sampler import Sampling
from memqos.runtime.fake_cgroups import FakeCgroups
from memqos.target.fake import FakeAnswer, FakeTarget, Handler

__all__ = ["FakeAgent", "FakeSampler"]

_ENDS = frozenset({"remove", "give back"})


class FakeAgent:
    """Does an enforcement's steps on cgroups in memory, in the place of the program that is sent to a target.

    refused: a part of a path below which nothing can be made or changed from now on; "" refuses nothing.
    """

    def __init__(self, cgroups: FakeCgroups) -> None:
        self.refused = ""
        self._cgroups = cgroups
        self._kept: dict[CgroupPath, dict[str, str]] = {}

    def commands(self) -> Mapping[tuple[str, ...], Handler]:
        """The command that it answers, for FakeTarget."""
        return {("python3", "-I", "-S", "-c"): self._run}

    def _run(self, _: Sequence[str], stdin: bytes, __: Deadline) -> FakeAnswer:
        request = json.loads(stdin)
        if request["verb"] == "leftovers":
            return 0, b'{"leftovers": []}', b""
        answer: dict[str, Any] = {"done": 0, "killed": [], "failure": None}
        for index, step in enumerate(request["steps"]):
            if step["action"] not in _ENDS and self.refused and self.refused in step["path"]:
                answer["failure"] = {"step": index, "what": "the kernel refused it", "kind": "refused"}
                break
            self._do(step, CgroupPath.parse(step["path"]))
            answer["done"] = index + 1
        return 0, json.dumps(answer).encode(), b""

    def _do(self, step: Mapping[str, Any], path: CgroupPath) -> None:
        if step["action"] == "give back" and path in self._kept:
            for name, text in self._kept.pop(path).items():
                self._cgroups.put(path, name, text)
            return
        if step["action"] in _ENDS:
            self._cgroups.remove(path)
            return
        if step["action"] == "adopt" and path in self._cgroups:
            self._kept.setdefault(path, {name: self._cgroups.text(path, name) for name in step["keeps"]})
        self._cgroups.make(path)
        for name, text in step["writes"]:
            self._cgroups.put(path, name, text)


class FakeSampler:
    """Sees what cgroups in memory hold whenever it is asked, and nothing in between: nothing happens by itself.

    obeys: given each line that is written for a workload, and the FIFO it is written into; nobody reads them else.
    """

    def __init__(self, cgroups: FakeCgroups, target: FakeTarget) -> None:
        self.obeys: Callable[[str, str], None] = lambda _fifo, _line: None
        self._cgroups = cgroups
        self._target = target

    @contextlib.contextmanager
    def open(self, paths: Sequence[CgroupPath], files: Sequence[str]) -> Iterator[Sampling]:
        """Watch these cgroups and those below them."""
        yield _FakeSampling(self._cgroups, self._target, paths, files, self.obeys)


class _FakeSampling:
    """What changed since the last call. written: lines for FIFOs; failed: what is said next."""

    def __init__(
        self,
        cgroups: FakeCgroups,
        target: FakeTarget,
        paths: Sequence[CgroupPath],
        files: Sequence[str],
        obeys: Callable[[str, str], None],
    ) -> None:
        self._obeys = obeys
        self._cgroups = cgroups
        self._target = target
        self._paths = tuple(paths)
        self._files = files
        self._known: dict[CgroupPath, dict[str, str | None]] = {}
        self._followed: dict[str, tuple[str, int]] = {}
        self.written: list[tuple[str, str]] = []
        self.failed: list[Said] = []

    def watch(self, paths: Sequence[CgroupPath]) -> None:
        """Watch these as well."""
        self._paths = (*self._paths, *paths)

    def next(self, *, seconds: float) -> Sequence[Said]:  # noqa: ARG002 - nothing happens while one waits
        """What changed since the last call."""
        failed, self.failed = self.failed, []
        return [*self._looks(), *self._appended(), *failed]

    def look(self, *, deadline: Deadline) -> Sequence[Said]:  # noqa: ARG002 - a look takes no time
        """The same."""
        return self.next(seconds=0)

    def follow(self, name: str, path: str, *, patient: str) -> None:  # noqa: ARG002 - nothing waits here
        """Say what this file has from now on."""
        self._followed[name] = path, 0

    def write(self, fifo: str, line: str) -> None:
        """Remember it, and give it to who obeys."""
        self.written.append((fifo, line))
        self._obeys(fifo, line)

    def finish(self) -> None:
        """See nothing any more: no cgroup, and no file."""
        self._paths = ()
        self._known.clear()
        self._followed.clear()

    def _looks(self) -> Iterator[Look]:
        at = SYSTEM_CLOCK.now()
        now = {path: self._cgroups.texts(path, self._files) for path in self._cgroups.below(self._paths)}
        for path in [path for path in self._known if path not in now]:
            del self._known[path]
            yield Look(at=at, folder=self._cgroups.hierarchy.folder(path), why="gone", files={})
        for path, texts in now.items():
            before = self._known.get(path)
            changed = {name: text for name, text in texts.items() if before is None or before[name] != text}
            self._known[path] = texts
            if changed:
                folder = self._cgroups.hierarchy.folder(path)
                yield Look(at=at, folder=folder, why="clock" if before else "new", files=changed)

    def _appended(self) -> Iterator[Appended]:
        for name, (path, read) in self._followed.items():
            text = (self._target.read(path, deadline=Deadline.after(1)) or b"").decode()
            self._followed[name] = path, len(text)
            if text[read:]:
                yield Appended(at=SYSTEM_CLOCK.now(), name=name, text=text[read:])
