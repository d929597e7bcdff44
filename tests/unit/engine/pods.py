"""Builders of pods for tests of the engine."""

from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity

NODE = NodeFacts(memory=8 << 30, swap=4 << 30, cpus=4)
ON = KubeletSettings(feature_gates={"MemoryQoS": True})


def amounts(given):
    return {name: Quantity.parse(str(text)) for name, text in (given or {}).items()}


def resources(requests=None, limits=None):
    return Resources(requests=amounts(requests), limits=amounts(limits))


def container(requests=None, limits=None, *, name="c", kind=ContainerKind.APP, **more):
    return Container(name=name, kind=kind, resources=resources(requests, limits), **more)


def pod(*containers, name="p", **more):
    return Pod(name=name, uid=f"uid-{name}", containers=containers or (container(),), **more)


def equal(cpu, memory, **more):
    both = {"cpu": cpu, "memory": memory}
    return container(both, both, **more)
