"""What machines take: seconds to boot, save and restore them, and the memory that clones share. Run it as a program.

    python -m tests.bench.machines [--rounds 10] [--json]

Medians of several rounds, with the host's load beside them: a busy host is slower. It asserts nothing; the figures to
hold are printed beside those that were found, and belong to software emulation on two processors.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.cli.doctor import Bench, median
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.errors import MachineError
from memqos.model.topology import Topology, TopologyNode
from memqos.target.attended import attended
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from memqos.vm.checkpoint import list_checkpoints

HALF_GIB = 1 << 29
SMALL = Topology(name="bench-1536", cpus=2, numa_nodes=(TopologyNode(id=0, memory_bytes=3 * HALF_GIB, cpus=(0, 1)),))

TO_HOLD = {
    "cold boot to first CRI answer": 25.0,
    "checkpoint saved": 0.5,
    "restore to running": 0.3,
    "restore to first command": 1.0,
    "restore to first CRI answer": 1.5,
    "memqos run of one value case": 15.0,
    "four clones of 1.5 GiB, in GiB": 2.0,
    "silent guest recognised": 10.0,
}

COMMANDS = 50

CASE = "v1.27-burstable and containers"


def measure(rounds):
    cache = default_cache(os.environ)
    bench = Bench(profile=load_profile("trixie"), topology=load_topology("two-numa-nodes"), cache=cache)
    # The first one may have to make image and checkpoint.
    bench.restore(container=False)
    yield "cold boot to first CRI answer", bench.cold_boot().seconds["first CRI answer"]
    saved = [one.manifest["seconds"]["save"] for one in list_checkpoints(cache)]
    yield "checkpoint saved", statistics.median(saved)
    figures = median([bench.restore() for _ in range(rounds)])
    for name, seconds in figures.items():
        yield f"restore to {name}" if name != "asked" else "restore, with finding and verifying", seconds
    yield "memqos run of one value case", statistics.median(one_case() for _ in range(3))
    held = clones(Bench(profile=load_profile("trixie"), topology=SMALL, cache=cache), 4)
    yield "four clones of 1.5 GiB, in GiB", sum(held) / (1 << 30)
    yield "silent guest recognised", silence(cache)
    yield from commands(cache).items()


def clones(bench, count):
    """Bytes of this host that machines side by side take: the anonymous memory of each, then the pages that all map.

    The kernel's Pss divides shared memory by the number of processes that share it, so the sum over all is the whole.
    """
    own, files = [], 0
    with contextlib.ExitStack() as stack:
        machines = [stack.enter_context(bench.machine(checkpoint=True)) for _ in range(count)]
        for machine in machines:
            kib = dict(rollup(Path(f"/proc/{machine.pid}/smaps_rollup").read_text()))
            own.append(kib["Pss_Anon"] << 10)
            files += kib["Pss_File"] << 10
    return (*own, files)


def rollup(text):
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        yield name, int(rest.split()[0])


def one_case():
    with tempfile.TemporaryDirectory() as folder:
        began = SYSTEM_CLOCK.now()
        argv = [sys.executable, "-m", "memqos", "run", "--results", f"{folder}/results", "-k", CASE]
        subprocess.run(argv, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return SYSTEM_CLOCK.now() - began


def silence(cache):
    """From a guest's last word to the error that names it as silent."""
    with (
        tempfile.TemporaryDirectory() as folder,
        boot(load_profile("trixie"), SMALL, image_cache=cache, log_dir=Path(folder)) as machine,
    ):
        deadline = Deadline.after(60)
        machine.target.run(["sh", "-c", "ip link set eth0 down >/dev/null 2>&1 &"], deadline=deadline)
        began = SYSTEM_CLOCK.now()
        with contextlib.suppress(MachineError):
            machine.target.run(["sleep", "50"], deadline=deadline)
        return SYSTEM_CLOCK.now() - began


def commands(cache):
    """Seconds of a command that does nothing, in turns: a host's pace changes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        boot(load_profile("trixie"), SMALL, image_cache=cache, log_dir=Path(folder)) as machine,
        attended(machine.target) as near,
    ):
        took = {"command over ssh": [], "command by an agent": []}
        for number in range(COMMANDS + 1):
            for seconds, target in zip(took.values(), (machine.target, near), strict=True):
                result = target.run(["true"], deadline=Deadline.after(60))
                if number:  # the first one calls the agent
                    seconds.append(result.seconds)
        return {name: statistics.median(seconds) for name, seconds in took.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="restores to take the median of (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    found = {}
    for name, value in measure(options.rounds):
        found[name] = {"found": round(value, 3), "to hold": TO_HOLD.get(name), "load": round(os.getloadavg()[0], 2)}
        if not options.json:
            limit = f"(to hold: {TO_HOLD[name]})" if name in TO_HOLD else ""
            sys.stdout.write(f"{name:38} {value:8.3f}  load {found[name]['load']:5.2f}  {limit}\n")
            sys.stdout.flush()
    if options.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
