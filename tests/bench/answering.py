"""How long `memqos expect` takes for one pod, from the start of its process to the end."""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure

POD = Path(__file__).parents[2] / "fixtures" / "pods" / "burstable.yaml"
COMMAND = [sys.executable, "-m", "memqos", "expect", str(POD), "--kubernetes", "1.36"]


def figures(rounds: int) -> Iterator[Figure]:
    wall, processor = [], []
    for _ in range(rounds + 1):
        begin, spent = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL)
        wall.append(time.monotonic() - begin)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime)
    # The first run finds files that nobody has read yet.
    title = "memqos expect of one pod"
    yield Figure(name=f"{title}, processor time", value=statistics.median(processor[1:]), unit="s", to_hold=0.3)
    yield Figure(name=f"{title}, as waited for", value=statistics.median(wall[1:]), unit="s")
