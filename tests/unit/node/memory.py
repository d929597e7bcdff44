"""A small model of a kernel's memory: a program's anonymous memory and page cache in a fake cgroup.

It obeys the files as they are, right or wrong, like a kernel; so a suite that compares with the files' values cannot
find wrong ones.
"""

import json
import re

from memqos.engine.cgroup.throttle import stalls_from
from memqos.model.knob import Bytes, Knob
from memqos.model.node import CgroupVersion
from memqos.runtime.base import ContainerState
from memqos.workload.command import threads_of
from tests.unit.node.compressing import ZSWAP, Compressing
from tests.unit.node.fakes import Bench
from tests.unit.node.words import amount, asked, commands_of
from tests.unit.node.zoned import UNBOUNDED, Zoned

_HEAD = "Filename Type Size Used Priority\n"
SWAPS = (
    _HEAD + "/dev/vdb partition 65532 40000 10\n/dev/vdc partition 49148 0 5\n",
    _HEAD + "/dev/vdb partition 65532 20000 10\n/dev/vdc partition 49148 20000 5\n",
)
"""Swap on the first device, and on both."""

PAGE = 4096
LOOKS = 4
"""How often the runtime is queried about a throttled program before it ends."""
STALLED = "some avg10=9.00 avg60=9.00 avg300=9.00 total=900000\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=900000\n"


class MemoryBench(Zoned, Compressing, Bench):
    """The fake node, on which each container's program has taken all that its cgroup allows.

    breaks: (file, text) that every container's cgroup shows instead of the runtime's value, from its start on. ignores:
    what its kernel ignores: a knob, "swappiness" (it never swaps), "free" (it keeps pages in swap), "moving" (of pages,
    to other NUMA nodes), "lowering" (of a limit below usage), "ending" (it charges for an ended program's memory, and
    not for the files that it left), "noswap" (of a tmpfs), "priority" (of swap devices), "threads" (all but the first
    of a program are not throttled), "distances" (of NUMA nodes, which it takes by number), or what `Compressing` names.
    """

    def __init__(self, breaks=None, *, ignores="", **facts):
        super().__init__(**facts)
        self.breaks = breaks
        self.ignores = ignores
        self.steered = {}
        self.sampler.obeys = self.obey
        self.doomed = {}
        self.stalling = {}
        self.holds = {}
        self.looked_at = set()
        texts = self.cgroups.texts

        def look(path, files):
            self.looked_at.add(path)
            return texts(path, files)

        self.cgroups.texts = look
        self.args = {}
        self.held = {}
        self.peaks = {}
        create, start, status = self.runtime.create, self.runtime.start, self.runtime.status

        def created(sandbox, spec, *, deadline):
            handle = create(sandbox, spec, deadline=deadline)
            self.args[handle.id] = spec.args
            for mount in spec.mounts:
                self.steered[f"{mount.host_path}/commands"] = handle
            return handle

        def started(container, *, deadline):
            start(container, deadline=deadline)
            self.run_program(container)

        def looked_at(container, *, deadline):
            self._grow(container)
            looks = self.doomed.get(container.id)
            seen = status(container, deadline=deadline)
            if looks is not None and seen.state is ContainerState.RUNNING:
                self.doomed[container.id] = looks + 1
                if looks > 0:
                    self.count_kill(self.runtime.cgroup_of(container))
                    self.runtime.finish(container, exit_code=137, reason="OOMKilled")
            return seen

        self.runtime.create, self.runtime.start, self.runtime.status = created, started, looked_at
        self._exec, self.runtime.exec = self.runtime.exec, self._run_beside
        self._update, self.runtime.update = self.runtime.update, self.move
        self.narrow = {}
        self.noswap = False
        self.huge = 0
        self.target.put(ZSWAP, b"N\n")
        self.target.on(("cat", "/proc/swaps"), lambda *_: (0, SWAPS[self.ignores == "priority"].encode(), b""))
        self.target.on(("sh", "-ec"), self._narrow)

    def _slow_down(self, container, path):
        """A program above memory.high stalls if that is below memory.max, and otherwise reaches memory.max."""
        high, limit = self.high_of(path), self.amount_in(path, "memory.max")
        if not 0 < high < self.amount_in(path, "memory.current") < limit:
            return
        if stalls_from(Bytes(high), hz=250) < limit:
            self._show_use(path, stalls_from(Bytes(high), hz=250))
            self.stalling[container.id] = path, 3
        else:
            self._show_use(path, limit - 3 * PAGE)
            self.stalling[container.id] = path, 2
            self.doomed[container.id] = -LOOKS

    def _threads(self, container):
        """The report of each thread of a stalling program; nothing for a single-threaded one."""
        count = threads_of(self.args[container.id])
        waiting = 0 if container.id not in self.stalling else 1 if self.ignores == "threads" else count
        numbers = range(1, count + 1) if count > 1 else ()
        return [{"thread": one, "max_us": 4e6 if one <= waiting else 40.0} for one in numbers] or [{}]

    def _grow(self, container):
        """At each sample one page more and five times as much waiting, for a stalling program."""
        path, left = self.stalling.get(container.id, (None, 0))
        if left and path in self.looked_at and path in self.cgroups:
            self.stalling[container.id] = path, left - 1
            self._show_use(path, self.amount_in(path, "memory.current") + PAGE)
            stalled = STALLED.replace("900000", f"{5_000_000 * 5 ** (3 - left)}")
            for cgroup in (path, path.parent):
                self.cgroups.show(cgroup, "memory.pressure", stalled)

    def obey(self, fifo, line):
        """A program that takes memory, frees all that it holds, or ends with it."""
        container = self.steered[fifo]
        path = self.runtime.cgroup_of(container)
        verb, *words = line.split()
        number, held = self.held.get(
            container.id, (len(commands_of(self.args[container.id])), self.holds[container.id][0])
        )
        held = held + amount(words[0]) if verb == "anon" else held if self.ignores == "free" else 0
        self.held[container.id] = number + 1, held
        for cgroup in (path, path.parent) if verb != "anon" and self.ignores != "free" else ():
            self.cgroups.show(cgroup, "memory.swap.current", "0\n")
        if held > self.high_of(path):
            self.count_high(path)
        self._show_use(path, held)
        if verb == "exit":
            self.runtime.finish(container, exit_code=0)
        if "fill=runs" in words and not self._compress(container, path, held):
            return
        done = {"event": "done", "ms": 2, "command": number + 1, "verb": verb, "id": 1, "bytes": 1, "max_us": 1}
        self.target.append(container.log_path, f"2026-01-01T00:00:00Z stdout F {json.dumps(done)}\n".encode())

    def _narrow(self, argv, *_):
        """A NUMA node gets narrow, or wide again."""
        verb, zone, amount = [*argv[3:6], "", "", ""][:3]
        if verb == "memqos-huge-pages":
            used = self._huge_pages()
            rows = [f"{zone.id} {self.huge} {self.huge - used.get(zone.id, 0)}" for zone in self.node.facts.numa_nodes]
            return 0, "\n".join(rows).encode(), b""
        if verb in {"memqos-huge", "memqos-unhuge"}:
            self.huge = 16 if verb == "memqos-huge" else 0
        if verb == "memqos-volume":
            self.noswap = self.ignores != "noswap" and "noswap" in amount
        if verb == "memqos-narrow":
            self.narrow[int(zone)] = int(amount)
        if verb == "memqos-widen":
            self.narrow.pop(int(zone))
        return 0, b"0 1\n", b""

    def move(self, container, resources, *, deadline):
        self._update(container, resources, deadline=deadline)
        limit = self.amount_in(path := self.runtime.cgroup_of(container), "memory.max")
        if self.ignores != "lowering" and self.amount_in(path, "memory.current") > limit:
            self._show_use(path, limit)
        if self.ignores != "moving":
            self._spread(self.runtime.cgroup_of(container), *self.holds[container.id])

    def _run_beside(self, container, argv, *, deadline):
        self._exec(container, argv, deadline=deadline)
        path = self.runtime.cgroup_of(container)
        if sum(asked(argv[1:])) <= self.amount_in(path, "memory.max"):
            used = self.amount_in(path, "memory.current") + sum(asked(argv[1:]))
            self._peak(path, used)
            if ("anon" in argv) is (self.ignores == "ending"):
                self._show_use(path, used)
            return 0, b"", b""
        self.count_kill(path)
        if self.cgroups.text(path, "memory.oom.group").strip() == "1":
            self.runtime.finish(container, exit_code=137, reason="OOMKilled")
        return 137, b"", b""

    def count_kill(self, path):
        if self.cgroups.hierarchy.version is CgroupVersion.V1:
            return
        for cgroup in (path, path.parent):
            text = self.cgroups.text(cgroup, "memory.events")
            self.cgroups.show(cgroup, "memory.events", text.replace("oom_kill 0", "oom_kill 1"))

    def kill(self, *asked):
        """On cgroup v1 killing a process kills all of them here."""
        if self.cgroups.hierarchy.version is not CgroupVersion.V1:
            return super().kill(*asked)
        self.runtime.finish_all()
        return 0, b"", b""

    def run_program(self, container):
        path = self.runtime.cgroup_of(container)
        if self.breaks is not None:
            self.cgroups.show(path, *self.breaks)
        anon, file = asked(self.args[container.id])
        shmem = sum(amount(words[2]) for words in commands_of(self.args[container.id]) if words[0] == "tmpfs")
        self.holds[container.id] = anon - shmem, file + shmem, shmem
        legacy = self.cgroups.hierarchy.version is CgroupVersion.V1
        killed = self._on_v1(path, anon) if legacy else self.on_v2(path, anon, file)
        if not legacy:
            self._spread(path, *self.holds[container.id])
            killed = killed or self._overfills_zone(path, anon)
        if killed:
            self.doomed[container.id] = 0
        elif not legacy:
            self._slow_down(container, path)
        line = {"event": "done", "ms": 1, "command": 1, "verb": "anon", "id": 1, "bytes": anon, "max_us": 1}
        if container.id in {*self.doomed, *self.stalling}:
            lines = [line | {"event": "step", "of": anon, **thread} for thread in self._threads(container)]
        else:
            used = [words for words in commands_of(self.args[container.id]) if words[0] in {"anon", "file", "tmpfs"}]
            lines = [
                line
                | {
                    "command": number,
                    "verb": words[0],
                    "id": number,
                    "bytes": amount(words[1 if words[0] == "anon" else 2]),
                }
                for number, words in enumerate(used, start=1)
            ]
        report = "".join(f"2026-01-01T00:00:00Z stdout F {json.dumps(one)}\n" for one in lines)
        self.target.put(container.log_path, report.encode())

    def count_high(self, path):
        for cgroup in (path, path.parent):
            text = self.cgroups.text(cgroup, "memory.events")
            [count] = re.findall(r"high (\d+)", text)
            self.cgroups.show(cgroup, "memory.events", text.replace(f"high {count}", f"high {int(count) + 1}"))

    def on_v2(self, path, anon, file):
        high = self.high_of(path)
        limit, swap_limit = (self.amount_in(path, name) for name in ("memory.max", "memory.swap.max"))
        swap_limit = {"swappiness": 0, "memory.swap.max": UNBOUNDED}.get(self.ignores, swap_limit)
        swap = min(max(0, anon - min(high, limit)), swap_limit, 0 if self.noswap else self.node.facts.swap)
        resident = anon - swap
        throttled = resident > high and high < limit
        used = min(high + PAGE, limit) if throttled else min(resident, limit)
        # Memory protected up to the limit cannot be reclaimed at the limit.
        is_stuck = used + file > limit and self.ignores != "memory.min" and self.amount_in(path, "memory.min") >= limit
        killed = (resident > limit and not throttled) or is_stuck
        events = {
            "low": 0,
            "high": int(anon + file > high and high < limit),
            "max": int(killed or (swap or used + file > limit)),
        }
        quiet = not (throttled or killed or any(events.values()))
        for cgroup in (path,) if quiet else (path, path.parent):
            text = "".join(f"{key} {value}\n" for key, value in {**events, "oom": 0, "oom_kill": int(killed)}.items())
            self.cgroups.show(cgroup, "memory.events", text)
            if throttled or swap:
                self.cgroups.show(cgroup, "memory.pressure", STALLED)
        self._show_use(path, max(used, min(used + file, high, limit)))
        for cgroup in (path, path.parent):
            self.cgroups.show(cgroup, "memory.swap.current", f"{swap}\n")
        return killed

    def _on_v1(self, path, anon):
        limit, both = (self.amount_in(path, f"memory.{name}limit_in_bytes") for name in ("", "memsw."))
        used = min(anon, limit)
        total = min(anon, both)
        # One that may swap waits for the disk; one that may not is killed when it would exceed its limits.
        self.cgroups.show(path, "memory.usage_in_bytes", f"{used}\n")
        self.cgroups.show(path, "memory.max_usage_in_bytes", f"{used}\n")
        self.cgroups.show(path, "memory.memsw.usage_in_bytes", f"{total}\n")
        self.cgroups.show(path, "memory.memsw.max_usage_in_bytes", f"{total}\n")
        self.cgroups.show(path, "memory.failcnt", f"{int(anon > limit)}\n")
        return anon > both or (anon > limit and not self.node.facts.swap)

    def high_of(self, path):
        """Its usage before it is throttled, by its own memory.high or by the rest of its pod's."""
        used_beside = self.amount_in(path.parent, "memory.current") - self.amount_in(path, "memory.current")
        above = self.amount_in(path.parent, "memory.high")
        return min(self.amount_in(path, "memory.high"), above if above == UNBOUNDED else max(0, above - used_beside))

    def _peak(self, path, usage):
        most = max(usage, self.peaks.get(path, 0) if self.ignores != "peak" else 0)
        self.peaks[path] = most
        self.cgroups.show(path, "memory.peak", f"{most}\n")

    def _show_use(self, path, usage):
        """Of a container, and of its pod by as much more."""
        self._peak(path, usage)
        more = usage - self.amount_in(path, "memory.current")
        self.cgroups.show(path, "memory.current", f"{usage}\n")
        self.cgroups.show(path.parent, "memory.current", f"{self.amount_in(path.parent, 'memory.current') + more}\n")

    def amount_in(self, path, name):
        text = self.cgroups.text(path, name).strip()
        return UNBOUNDED if text == "max" else int(text)


def other_values(knob: Knob):
    """Values that a wrong runtime may leave in a file: the kernel's default, nothing at all, and a page more."""
    return {
        Knob.CPUSET_MEMS: ("", "0-1"),
        Knob.MEMORY_LIMIT_IN_BYTES: ("9223372036854771712", "4096", "67112960"),
        Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: ("9223372036854771712", "4096", "67112960"),
    }.get(knob, ("max", "0", "67112960"))
