"""How fast a node is planned, and in how much memory: 500 pods with 1,200 containers of all QoS classes."""

import resource
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.model.node import KubeletSettings, NodeFacts, ReservationPolicy
from memqos.model.pod import Container, ContainerKind, Pod, ResourceList, Resources
from memqos.model.quantity import Quantity
from tests.bench.figures import Figure, processor_seconds

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


def apart(pod: Pod) -> Pod:
    """The same pod, none of whose containers asks for as much as any other of the node."""

    def more(amounts: ResourceList, index: int) -> ResourceList:
        extra = Quantity.of_bytes(4096 * (index + 1))
        return {name: amount + extra if name == "memory" else amount for name, amount in amounts.items()}

    containers = []
    for index, one in enumerate(pod.containers):
        own = Resources(requests=more(one.resources.requests, index), limits=more(one.resources.limits, index))
        containers.append(replace(one, resources=own))
    return replace(pod, containers=tuple(containers))


def read_reasons(plan: Plan) -> int:
    """How many reasons the files of a plan have; each is made when it is read."""
    return sum(bool(expected.reason.rule) for cgroup in plan.cgroups() for expected in cgroup.knobs.values())


def figures(rounds: int) -> Iterator[Figure]:
    node = tuple(pods())
    containers = sum(len(pod.containers) for pod in node)

    def plan(pods: Sequence[Pod], *, reasons: bool) -> Plan:
        return expect(pods, Kubelet.of(node=NODE, settings=SETTINGS, release="1.36"), reasons=reasons)

    explained = processor_seconds(lambda: plan(node, reasons=True), rounds)
    yield Figure(name="plan 500 pods, 1,200 containers, with reasons", value=explained, unit="s", to_hold=0.1)
    read = processor_seconds(lambda: read_reasons(plan(node, reasons=True)), rounds)
    yield Figure(name="the same, and every reason read", value=read, unit="s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Figure(name="peak memory of that", value=peak, unit="MiB", to_hold=150.0)
    rate = containers / processor_seconds(lambda: plan(node, reasons=False), rounds)
    yield Figure(name="plan without reasons", value=rate, unit="containers/s", to_hold=20_000.0, at_most=False)
    unlike = tuple(apart(pod) for pod in node)
    rate = containers / processor_seconds(lambda: plan(unlike, reasons=False), rounds)
    yield Figure(name="plan without reasons, containers of a pod all different", value=rate, unit="containers/s")
    replicas = tuple(replace(node[number % 30], name=pod.name, uid=pod.uid) for number, pod in enumerate(node[:400]))
    several = sum(len(pod.containers) for pod in replicas)
    rate = several / processor_seconds(lambda: plan(replicas, reasons=False), rounds)
    yield Figure(name="plan without reasons, 400 replicas of 30 pods", value=rate, unit="containers/s")
