"""A small model of swapping, for pods that run short below kubepods.

It obeys the files as they are: containers swap up to their limits until the neighbour has its amount, and if that is
not enough the largest is killed.
"""

import re

from tests.unit.node.memory import MemoryBench
from tests.unit.node.pressed import NODE, PressedBench
from tests.unit.node.words import amount


class CrowdedBench(PressedBench):
    """The fake node with programs that hold memory of any kind; ignores: as for MemoryBench."""

    def __init__(self, *args, **facts):
        super().__init__(*args, **facts)
        self.used = {}
        self.commands = {}

    def run_program(self, container):
        MemoryBench.run_program(self, container)
        held = re.findall(r"(?:anon|file \S+) (\S+)", " ".join(self.args[container.id]))
        if not held:
            self.target.put(container.log_path, b"")
        self.use(self.path_of(container), sum(map(amount, held)))

    def obey(self, fifo, line):
        neighbour = self.steered[fifo]
        self.commands.setdefault(neighbour.id, []).append(amount(line.split()[1]))
        takes = sum(self.commands[neighbour.id])
        others = {one.id: self.path_of(one) for one in self.steered.values() if one.id != neighbour.id}
        others = {one: path for one, path in others.items() if path in self.cgroups}
        used = {one: self.amount_in(path, "memory.current") for one, path in others.items()}
        short = sum(used.values()) + takes - self.amount_in(NODE, "memory.max")
        for one, path in others.items():
            swaps = max(0, min(short, used[one] // 2, self.may_swap(path)))
            self.cgroups.show(path, "memory.swap.current", f"{swaps}\n")
            self.use(path, used[one] - swaps)
            short -= swaps
        if short > 0:
            largest = max(used, key=used.get)
            self.count_kill(others[largest])
            self.runtime.finish(next(one for one in self.steered.values() if one.id == largest), exit_code=137)
        self.use(self.path_of(neighbour), takes)
        self.say_done(neighbour, "anon")

    def use(self, path, usage):
        """A pod uses what all its containers do."""
        self.used[path] = usage
        self.cgroups.show(path, "memory.current", f"{usage}\n")
        whole = sum(amount for one, amount in self.used.items() if one.parent == path.parent)
        self.cgroups.show(path.parent, "memory.current", f"{whole}\n")

    def may_swap(self, path):
        if self.ignores in {"swappiness", "memory.swap.max"}:
            return 0 if self.ignores == "swappiness" else 4 << 20
        return self.amount_in(path, "memory.swap.max")
