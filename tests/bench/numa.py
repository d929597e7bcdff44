"""How many pods a second the Memory Manager and the Topology Manager admit on eight zones.

Each figure is admissions a second of processor time (admit, containers started, release), reasons included, with 40
other pods in the table.
"""

from collections.abc import Iterator
from functools import partial

from memqos.engine.numa.admit import Admitted, admit, pod_started, release, start
from memqos.engine.numa.policies import Policies
from memqos.engine.releases.release import Release
from memqos.model.node import KubeletSettings, NodeFacts, NumaNode
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity
from tests.bench.figures import Figure, processor_seconds

AT_ONCE = 50
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
        NumaNode(
            id=n, memory=64 * GIB, hugepages={2 << 20: 1024}, distances=tuple(10 + 11 * (n != m) for m in range(8))
        )
        for n in range(8)
    )
    facts = NodeFacts(memory=8 * 64 * GIB, numa_nodes=zones)
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


def one_after_another(pod, table, policies):
    """Admit a pod, start its containers, release it, as often as AT_ONCE says."""
    for _ in range(AT_ONCE):
        outcome = admit(pod, table=table, policies=policies)
        if isinstance(outcome, Admitted):
            release(pod.uid, pod_started(pod, outcome.table, policies))


PODS = {
    "one container": guaranteed("p", "1Gi"),
    "one container, 2Mi pages": guaranteed("p", "1Gi", pages="64Mi"),
    "two containers, one init container": guaranteed("p", "1Gi", "2Gi", init=("1Gi",)),
    "wider than a zone": guaranteed("p", "100Gi"),
}


def figures(rounds: int) -> Iterator[Figure]:
    for policy in ("none", "best-effort", "restricted", "single-numa-node"):
        for scope in ("container", "pod"):
            table, policies = node(policy, scope)
            for name, pod in PODS.items():
                seconds = processor_seconds(partial(one_after_another, pod, table, policies), rounds)
                title = f"admit on 8 zones: {policy}, {scope}, {name}"
                yield Figure(name=title, value=AT_ONCE / seconds, unit="pods/s", to_hold=2000.0, at_most=False)
