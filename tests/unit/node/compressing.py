"""zswap of a small kernel model: which pages of a program that exceeds its limit are compressed in memory."""

ZSWAP = "/sys/module/zswap/parameters/enabled"
PAGE = 4096
SMALLER = 8
"""The compression ratio of a page."""


class Compressing:
    """The zswap part of `MemoryBench`.

    ignores: "zswap" (all goes to the device), "memory.zswap.max", "memory.zswap.writeback", "accounting" (pages in
    zswap do not count as swap), "size" (compressed pages take as much as before), or "shrinking" (a full pool accepts
    nothing more, and nothing is written past it).
    """

    def _compress(self, container, path, held):
        """Whether the program has all that it asked for; else it was killed."""
        bound, share = self.amount_in(path, "memory.max"), self.amount_in(path, "memory.swap.max")
        pool = self.amount_in(path, "memory.zswap.max") if self.ignores != "memory.zswap.max" else 1 << 40
        may_write = self.ignores == "memory.zswap.writeback" or self._kernel_says(path, "memory.zswap.writeback") == "1"
        is_on = self.ignores != "zswap" and self.target.file(ZSWAP) == b"Y\n"
        over = max(0, held - bound)
        inside = min(over, pool * SMALLER) if is_on else 0
        past = over - inside if may_write and self.ignores != "shrinking" else 0
        takes = inside if self.ignores == "size" else inside // SMALLER
        counted = past if self.ignores == "accounting" else min(inside + past, share)
        stat = f"zswapped {inside}\nzswpwb {past // PAGE if inside else 0}\n"
        for cgroup in (path, path.parent):
            self.cgroups.show(cgroup, "memory.swap.current", f"{counted}\n")
            self.cgroups.show(cgroup, "memory.zswap.current", f"{takes}\n")
            self.cgroups.show(cgroup, "memory.stat", stat)
        if inside + past < over:
            self.doomed[container.id] = 0
            return False
        self._show_use(path, bound)
        return True

    def _kernel_says(self, path, file):
        return self.cgroups.text(path, file).strip()
