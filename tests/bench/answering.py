"""How long `memqos expect` takes, from the start of its process to the end: for one pod, for a node, for a cluster."""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from memqos.model.pod import Pod, ResourceList
from tests.bench.figures import Figure
from tests.bench.planning import pods

POD = Path(__file__).parents[2] / "fixtures" / "pods" / "burstable.yaml"
COMMAND = [sys.executable, "-m", "memqos", "expect", "--kubernetes", "1.36", "--set", "featureGates.MemoryQoS=true"]


def timed(arguments: Sequence[str], rounds: int) -> tuple[float, float, float]:
    """Medians of processor time and of what is waited for, in seconds, and the peak memory in MiB."""
    wall, processor = [], []
    for _ in range(rounds + 1):
        begin, spent = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)
        wall.append(time.monotonic() - begin)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime)
    # The first run finds files that were not read before.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return statistics.median(processor[1:]), statistics.median(wall[1:]), peak


def listed(times: int) -> str:
    """The pods of the bench's node so many times, in a namespace of its own each time, as kubectl prints them."""
    items = [manifest(one, f"team-{number}") for number in range(times) for one in pods()]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4)


def manifest(pod: Pod, namespace: str) -> dict[str, object]:
    containers = [
        {
            "name": one.name,
            "image": "example",
            "resources": {"requests": texts(one.resources.requests), "limits": texts(one.resources.limits)},
        }
        for one in pod.containers
    ]
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name, "namespace": namespace}}
    return {**head, "spec": {"containers": containers}}


def texts(amounts: ResourceList) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def figures(rounds: int) -> Iterator[Figure]:
    processor, wall, _ = timed([str(POD)], rounds)
    title = "memqos expect of one pod"
    yield Figure(name=f"{title}, processor time", value=processor, unit="s", to_hold=0.3)
    yield Figure(name=f"{title}, as waited for", value=wall, unit="s")
    with tempfile.TemporaryDirectory() as folder:
        for times, to_hold in ((1, 0.6), (10, 2.0)):
            file = Path(folder, f"{times}.json")
            file.write_text(listed(times), encoding="utf-8")
            for form, options in (("text", []), ("JSON", ["--json"])):
                processor, wall, peak = timed([str(file), *options], rounds)
                title = f"memqos expect of {500 * times:,} pods as {form}"
                yield Figure(name=f"{title}, processor time", value=processor, unit="s", to_hold=to_hold)
                yield Figure(name=f"{title}, as waited for", value=wall, unit="s")
                yield Figure(name=f"{title}, peak memory so far", value=peak, unit="MiB", to_hold=100.0)
