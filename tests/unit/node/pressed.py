"""Reclaim in miniature, for pods that press on each other below kubepods' limit.

It has arithmetic of its own, far simpler than the engine's: what the files on the way from kubepods down to a container
all protect stays, and the rest is taken in equal parts. It obeys the files as they are.
"""

import json
import re

from memqos.model.path import CgroupPath
from tests.unit.node.memory import MemoryBench, amount

NODE = CgroupPath.parse("/kubepods.slice")


class PressedBench(MemoryBench):
    """The fake node whose programs hold page cache, of which a steered neighbour takes some.

    ignores: the knob that its kernel does not heed; "" heeds all.
    """

    def _run(self, container):
        super()._run(container)
        path = self._path(container)
        cache = re.search(r"file \S+ (\S+)", " ".join(self.args[container.id]))
        if cache is None:
            self.target._plain._files[container.log_path] = b""
        self._use(path, amount(cache[1]) if cache else 0)

    def _path(self, container):
        return self.runtime._known(container, "test").cgroup

    def _use(self, path, usage):
        self.cgroups.show(path, "memory.current", f"{usage}\n")
        self.cgroups.show(path.parent, "memory.current", f"{usage}\n")

    def _obey(self, fifo, line):
        neighbour = self.steered[fifo]
        paths = {handle.id: self._path(handle) for handle in self.steered.values()}
        used = {one: self._amount(path, "memory.current") for one, path in paths.items()}
        takes = amount(line.split()[1])
        short = sum(used.values()) + takes - self._amount(NODE, "memory.max")
        others = {one: path for one, path in paths.items() if one != neighbour.id}
        for knobs in (("memory.min", "memory.low"), ("memory.min",)):
            spare = {one: max(0, used[one] - self._kept(path, knobs)) for one, path in others.items()}
            part = min(1, short / (sum(spare.values()) or 1)) if short > 0 else 0
            for one, path in others.items():
                taken = int(spare[one] * part)
                if taken and knobs == ("memory.min",):
                    self._count_low(path)
                used[one], short = used[one] - taken, short - taken
                self._use(path, used[one])
        self._use(self._path(neighbour), takes)
        done = {"event": "done", "ms": 1, "command": 1, "verb": "anon", "id": 1, "bytes": takes, "max_us": 1}
        text = f"2026-01-01T00:00:00Z stdout F {json.dumps(done)}\n".encode()
        self.target._plain._files[neighbour.log_path] = text

    def _kept(self, path, knobs):
        way = [one for one in (path, *path.ancestors) if one.below(NODE)]
        return max(0 if knob == self.ignores else min(self._amount(one, knob) for one in way) for knob in knobs)

    def _count_low(self, path):
        for cgroup in (path, path.parent):
            text = self.cgroups.text(cgroup, "memory.events")
            self.cgroups.show(cgroup, "memory.events", text.replace("low 0", "low 3"))
