"""How many pods a second the Memory Manager and the Topology Manager admit on eight zones. Run it as a program.

    python tests/bench/numa.py

Each figure is admissions a second of processor time (admit, containers started, release), reasons included, with 40
other pods in the table. Nothing is asserted: the figure belongs to the machine that it was measured on.
"""

import sys
import time

from memqos.engine.numa.admit import Admitted, admit, release, start, started
from memqos.engine.numa.policies import Policies
from memqos.engine.release import Release
from memqos.model.node import KubeletSettings, NodeFacts, NumaZone
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity

SECONDS = 0.4
GIB = 1 << 30


def guaranteed(uid, *sizes, init=(), pages=""):
    def container(name, size, kind):
        own = {"cpu": Quantity.parse("1"), "memory": Quantity.parse(size)}
        if pages:
            own["hugepages-2Mi"] = Quantity.parse(pages)
        return Container(name=name, kind=kind, resources=Resources(requests=own, limits=own))

    return Pod(
        name=uid,
        uid=uid,
        init_containers=tuple(container(f"i{n}", size, ContainerKind.INIT) for n, size in enumerate(init)),
        containers=tuple(container(f"c{n}", size, ContainerKind.APP) for n, size in enumerate(sizes)),
    )


def node(policy, scope):
    zones = tuple(
        NumaZone(
            id=n, memory=64 * GIB, hugepages={2 << 20: 1024}, distances=tuple(10 + 11 * (n != m) for m in range(8))
        )
        for n in range(8)
    )
    facts = NodeFacts(memory=8 * 64 * GIB, zones=zones)
    settings = KubeletSettings(
        memory_manager_policy="Static",
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        eviction_hard={},
        system_reserved={"memory": Quantity.parse("8Gi")},
        reserved_memory=tuple((n, {"memory": Quantity.parse("1Gi")}) for n in range(8)),
    )
    policies = Policies.of(settings, Release(36))
    table = start(facts, settings, policies)
    for n in range(40):
        outcome = admit(guaranteed(f"other{n}", "1Gi"), table=table, policies=policies)
        assert isinstance(outcome, Admitted)
        table = outcome.table
    return table, policies


def rate(pod, table, policies):
    count, begin = 0, time.process_time()
    while time.process_time() - begin < SECONDS:
        outcome = admit(pod, table=table, policies=policies)
        if isinstance(outcome, Admitted):
            release(pod.uid, started(pod, outcome.table, policies))
        count += 1
    return count / (time.process_time() - begin), type(outcome).__name__


def main():
    pods = {
        "one container": guaranteed("p", "1Gi"),
        "one container, 2Mi pages": guaranteed("p", "1Gi", pages="64Mi"),
        "two containers and an init container": guaranteed("p", "1Gi", "2Gi", init=("1Gi",)),
        "wider than a zone": guaranteed("p", "100Gi"),
    }
    for policy in ("none", "best-effort", "restricted", "single-numa-node"):
        for scope in ("container", "pod"):
            table, policies = node(policy, scope)
            for name, pod in pods.items():
                figure, outcome = rate(pod, table, policies)
                sys.stdout.write(f"{policy:17} {scope:10} {name:37} {figure:9.0f}/s  {outcome}\n")


if __name__ == "__main__":
    main()
