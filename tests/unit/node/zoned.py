"""NUMA nodes of a small kernel model: where the memory of a fake container is."""

from tests.unit.node.words import amount, commands_of

UNBOUNDED = 1 << 62


class Zoned:
    """The NUMA part of `MemoryBench`; `narrow` is the rest of those that were narrowed."""

    def _huge_pages(self):
        """Those of the volume, by node."""
        used = {}
        for container, args in self.args.items():
            words = next((words for words in commands_of(args) if "/huge/pages" in words), None)
            path = self.runtime.cgroup_of(self.runtime.handles[container]) if words else None
            if path in self.cgroups:
                mems = self.cgroups.text(path, "cpuset.mems").strip()
                first = int(mems[:1] or 0) - (1 if self.ignores == "cpuset.mems" else 0)
                used[first] = amount(words[2]) >> 21
        return used

    def _spread(self, path, anon, file, shmem):
        """All of it on the first node that the cgroup may use; on the last one with a wrong kernel.

        For a program bound to CPUs, memory that does not fit its own node goes to the nearest allowed one.
        """
        mems = self.cgroups.text(path, "cpuset.mems").strip()
        zones = [zone.id for zone in self.node.facts.numa_nodes]
        if cpus := self.cgroups.text(path, "cpuset.cpus").strip():
            self._spill(path, anon, numbers(cpus), numbers(mems))
            return
        first = int(mems[:1] or 0)
        first = zones[first - 1] if self.ignores == "cpuset.mems" else first
        room = self.narrow.get(first, UNBOUNDED)
        file = min(file, room) if self.ignores != "cpuset.mems" else file
        rows = {"anon": min(anon, self.amount_in(path, "memory.max")), "file": file, "shmem": shmem}
        text = "".join(
            f"{kind} " + " ".join(f"N{zone}={used if zone == first else 0}" for zone in zones) + "\n"
            for kind, used in rows.items()
        )
        self.cgroups.show(path, "memory.numa_stat", text)

    def _spill(self, path, anon, cpus, allowed):
        zones = {zone.id: zone for zone in self.node.facts.numa_nodes}
        [home] = [zone for zone in zones.values() if set(cpus) & set(zone.cpus)]
        by_number = self.ignores in {"distances", "cpuset.mems"}
        others = [one for one in allowed or zones if one != home.id]
        near = min(others, key=lambda one: one if by_number else home.distances[one], default=home.id)
        here = min(anon, self.narrow.get(home.id, UNBOUNDED))
        used = {home.id: here, near: anon - here} if near != home.id else {home.id: anon}
        text = "anon " + " ".join(f"N{zone}={used.get(zone, 0)}" for zone in zones) + "\n"
        self.cgroups.show(path, "memory.numa_stat", text)

    def _overfills_zone(self, path, anon):
        """Whether the program wants more than the narrow node that it is bound to has."""
        mems = self.cgroups.text(path, "cpuset.mems").strip()
        return self.ignores != "cpuset.mems" and mems.isdigit() and anon > self.narrow.get(int(mems), UNBOUNDED)


def numbers(text):
    """A list as the kernel prints it: "0,2-3"."""
    spans = [span.partition("-") for span in text.split(",") if span]
    return [number for first, _, last in spans for number in range(int(first), int(last or first) + 1)]
