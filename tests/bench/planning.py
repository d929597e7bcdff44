"""How fast a node is planned, and in how much memory. Run it as a program.

    python tests/bench/planning.py

500 pods with 1,200 containers of all QoS classes, best of several rounds of processor time; memory is what the process
holds at its peak. Nothing is asserted: the figures belong to the machine that they were measured on.
"""

import resource
import sys
import time
from fractions import Fraction

from memqos.engine.expect import expect
from memqos.model.node import KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity

ROUNDS = 7
NODE = NodeFacts(memory=512 << 30, swap=8 << 30, cpus=64)
SETTINGS = KubeletSettings(
    feature_gates={"MemoryQoS": True},
    throttling_factor=Fraction(9, 10),
    memory_reservation_policy=ReservationPolicy.TIERED,
)


def amounts(cpu, memory):
    return {"cpu": Quantity.parse(cpu), "memory": Quantity.parse(memory)}


def container(name, number):
    requests, limits = amounts("10m", f"{64 + number}Mi"), amounts("100m", f"{128 + number}Mi")
    kinds = (Resources(requests=limits, limits=limits), Resources(requests=requests, limits=limits), Resources())
    return Container(name=name, kind=ContainerKind.APP, resources=kinds[number % 3])


def pods():
    for number in range(500):
        several = range(3 if number < 200 else 2)
        yield Pod(
            name=f"p{number}", uid=f"u{number}", containers=tuple(container(f"c{one}", number) for one in several)
        )


def main():
    node = tuple(pods())
    containers = sum(len(pod.containers) for pod in node)
    for reasons in (True, False):
        best = float("inf")
        for _ in range(ROUNDS):
            begin = time.process_time()
            expect(node, node=NODE, settings=SETTINGS, release="1.36", reasons=reasons)
            best = min(best, time.process_time() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        words = "with reasons" if reasons else "without reasons"
        sys.stdout.write(
            f"{words:16} {len(node)} pods, {containers} containers: {best:.3f} s, "
            f"{containers / best:.0f} containers/s, peak {peak:.0f} MiB\n"
        )


if __name__ == "__main__":
    main()
