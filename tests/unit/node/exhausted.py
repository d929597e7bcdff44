"""A small model of the OOM killer, for pods that exhaust kubepods.

It has arithmetic of its own: the part of the exhausted memory that a program uses, and a thousandth of all for each
point of its score. It obeys the files as they are.
"""

import re
from fractions import Fraction

from tests.unit.node.memory import MemoryBench
from tests.unit.node.pressed import NODE, PressedBench
from tests.unit.node.words import amount


class ExhaustedBench(PressedBench):
    """The fake node with programs that hold anonymous memory; a steered one takes more than there is.

    ignores: "oom_score_adj" kills the largest program, "size" the one with the highest score; "" respects both.
    """

    def run_program(self, container):
        MemoryBench.run_program(self, container)
        anon = re.search(r"anon (\S+)", " ".join(self.args[container.id]))
        if anon is None:
            self.target.put(container.log_path, b"")
        self.use(self.path_of(container), amount(anon[1]) if anon else 0)

    def obey(self, fifo, line):
        greedy = self.steered[fifo]
        takes = amount(line.split()[1])
        path = self.path_of(greedy)
        others = {one.id: self.path_of(one) for one in self.steered.values() if one.id != greedy.id}
        used = {one: self.amount_in(at, "memory.current") for one, at in others.items()}
        limit = self.amount_in(NODE, "memory.max")
        swaps = min(self.amount_in(path, "memory.swap.max"), self.node.facts.swap)
        total = limit + self.node.facts.swap
        used[greedy.id] = min(takes, limit - sum(used.values()) + swaps)
        dies = max(used, key=lambda one: self._score(one, used[one], total))
        self.count_kill({**others, greedy.id: path}[dies])
        handles = {one.id: one for one in self.steered.values()}
        self.runtime.finish(handles[dies], exit_code=137, reason="OOMKilled")
        if dies != greedy.id:
            self.use(path, takes)
            self.say_done(greedy, "anon")

    def _score(self, container, usage, total):
        adj = self.runtime.resources_of(self.runtime.handles[container]).oom_score_adj
        points = Fraction(0 if self.ignores == "oom_score_adj" else adj, 1000)
        return points + (0 if self.ignores == "size" else Fraction(usage, total))
