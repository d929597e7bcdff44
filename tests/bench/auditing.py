"""Fleets: how long `memqos audit FOLDER` takes, and the memory of its processes.

python -m tests.bench.auditing [--nodes 1000] [--pods 60] [--jobs 2]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure
from tests.recorded_nodes import write_fleet

NODES = 100


def audited(nodes: int, pods: int, jobs: int) -> tuple[float, float, int, str]:
    """Seconds on the clock and of processor time, KiB of the largest process, and the last line of the answer."""
    with tempfile.TemporaryDirectory(prefix="memqos-bench-") as folder:
        write_fleet(Path(folder), nodes=nodes, pods=pods, different=50)
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        argv = [sys.executable, "-m", "memqos", "audit", folder, "--jobs", str(jobs)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        seconds, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return seconds, processor, used.ru_maxrss, (done.stdout or done.stderr).rstrip().rpartition("\n")[2]


def figures(_: int) -> list[Figure]:
    _, processor, _, _ = audited(NODES, 60, 1)
    what = "audit 1,000 recorded nodes of 60 pods: half of the processor time, as on two cores"
    return [Figure(name=what, value=processor * 1000 / NODES / 2, unit="s", to_hold=60.0)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.auditing", description="Measure audits of fleets")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=0)
    given = parser.parse_args()
    seconds, processor, largest, said = audited(given.nodes, given.pods, given.jobs)
    sys.stdout.write(
        f"{said}\n{seconds:.1f} s, {processor:.1f} s of processor time, {largest >> 10} MiB in the largest process\n"
    )


if __name__ == "__main__":
    main()
