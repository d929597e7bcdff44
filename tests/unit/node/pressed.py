"""A small model of reclaim, for pods that press on each other below kubepods' limit.

It has arithmetic of its own, far simpler than the engine's: memory protected by every file between kubepods and the
container stays, and the rest is taken in equal parts. It obeys the files as they are.
"""

import json
import re

from memqos.model.path import CgroupPath
from tests.unit.node.memory import MemoryBench
from tests.unit.node.words import amount

NODE = CgroupPath.parse("/kubepods.slice")
MOUNTED = b"cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate,memory_recursiveprot 0 0\n"
ZONEINFO = """\
Node 0, zone    DMA32
  pages free     {free}
        boost    0
        min      400
        low      500
        high     600
"""


class PressedBench(MemoryBench):
    """The fake node with programs that hold page cache; a steered neighbour takes some of it.

    ignores: the knob that its kernel ignores, "recursiveprot" (a mount option), or "proportion" (the first one gets all
    that several claim); "" respects all. spare: bytes that the whole machine has left, if the machine runs short; None
    if kubepods does. generations: whether memory.low is then reclaimed with the rest. in_turn: whether everything of
    one is taken before the next.
    """

    def __init__(self, *args, ignores="", spare=None, generations=False, in_turn=False, **facts):
        super().__init__(*args, ignores=ignores, **facts)
        self.spare = spare
        self.generations = generations
        self.in_turn, self.first = in_turn, iter
        self.taken = 0
        self.lost, self.again = {}, {}
        self.target.put("/proc/mounts", MOUNTED)
        self.target.put("/proc/sys/vm/nr_hugepages", b"0\n")
        self.target.put("/sys/kernel/mm/lru_gen/enabled", b"0x0007\n" if generations else b"0x0000\n")
        self.leave(spare or 0)

    def leave(self, spare):
        """The machine has so much free memory above its watermarks."""
        self.target.put("/proc/zoneinfo", ZONEINFO.format(free=spare // 4096 + 500).encode())

    def run_program(self, container):
        super().run_program(container)
        path = self.path_of(container)
        cache = re.search(r"file \S+ (\S+)", " ".join(self.args[container.id]))
        if cache is None:
            self.target.put(container.log_path, b"")
        self.use(path, amount(cache[1]) if cache else 0)
        self.count_stolen(path, 0)

    def path_of(self, container):
        return self.runtime.cgroup_of(container)

    def use(self, path, usage):
        self.cgroups.show(path, "memory.current", f"{usage}\n")
        self.cgroups.show(path.parent, "memory.current", f"{usage}\n")

    def obey(self, fifo, line):
        container, (verb, *words) = self.steered[fifo], line.split()
        if verb == "anon":
            self._take(container, amount(words[0]))
        elif verb == "read":
            self.read_again(self.path_of(container))
        self.say_done(container, verb)

    def say_done(self, container, verb, ms=1):
        number = len(self.target.file(container.log_path).splitlines()) + 1
        done = {"event": "done", "ms": ms, "command": number, "verb": verb, "id": 1, "bytes": 1, "max_us": 1}
        self.target.append(container.log_path, f"2026-01-01T00:00:00Z stdout F {json.dumps(done)}\n".encode())

    def read_again(self, path):
        """It reads its file: reclaimed pages come back, and give it no more room."""
        self.count_again(path, self.lost[path] // 4096)

    def _take(self, neighbour, takes):
        paths = {handle.id: self.path_of(handle) for handle in self.steered.values()}
        used = {one: self.amount_in(path, "memory.current") for one, path in paths.items()}
        left = self.amount_in(NODE, "memory.max") - sum(used.values()) if self.spare is None else self.spare
        short = takes - left
        others = {one: path for one, path in paths.items() if one != neighbour.id}
        tiers = (("memory.min", "memory.low"), ("memory.min",))
        for knobs in tiers[1:] if self.generations and self.spare is not None else tiers:
            spare = {one: max(0, used[one] - self.protected(path, knobs)) for one, path in others.items()}
            part = min(1, short / (sum(spare.values()) or 1)) if short > 0 else 0
            for one, path in self.first(list(others.items())):
                taken = int(max(0, min(spare[one], short)) if self.in_turn else spare[one] * part)
                if taken and knobs == ("memory.min",) and self.protected(path, ("memory.low",)):
                    self.count_low(path)
                if taken:
                    self.count_stolen(path, taken)
                used[one], short = used[one] - taken, short - taken
                self.use(path, used[one])
        self.use(self.path_of(neighbour), used[neighbour.id] + takes)
        if self.spare is not None:
            self.spare = max(0, self.spare - takes)
            self.leave(self.spare)
        self.taken += takes

    def protected(self, path, knobs):
        top = [] if self.spare is None else [NODE]
        way = [one for one in path.ancestors if one.below(NODE) or one in top]
        return max(
            0 if knob == self.ignores else min(self.asks_for(path, knob), *(self.part(one, path, knob) for one in way))
            for knob in knobs
        )

    def asks_for(self, path, knob):
        """A container's request, or with memory_recursiveprot its pod's, if there is no other."""
        recursive = b"recursiveprot" in self.target.file("/proc/mounts") and self.ignores != "recursiveprot"
        own = self.amount_in(path, knob)
        return self.amount_in(path.parent, knob) if recursive and not own else own

    def part(self, above, path, knob):
        """A cgroup's protection for this child, by its part of the claims and usage of all children."""
        has = self.amount_in(above, knob)
        claims = {
            one: min(self.asks_for(one, knob), self.amount_in(one, "memory.current"))
            for one in map(self.path_of, self.steered.values())
            if one.below(above)
        }
        whole = sum(claims.values())
        if whole <= has or self.ignores == "proportion":
            return has
        return has * claims[path] // whole

    def count_stolen(self, path, taken):
        self.lost[path] = self.lost.get(path, 0) + taken
        self.count_again(path, 0)

    def count_again(self, path, pages):
        self.again[path] = self.again.get(path, 0) + pages
        for cgroup in (path, path.parent):
            stolen, again = self.lost[path] // 4096, self.again[path]
            self.cgroups.show(cgroup, "memory.stat", f"pgsteal {stolen}\nworkingset_refault_file {again}\n")

    def count_low(self, path):
        for cgroup in (path, path.parent):
            text = self.cgroups.text(cgroup, "memory.events")
            self.cgroups.show(cgroup, "memory.events", text.replace("low 0", "low 3"))
