"""A recorded node as a population: its kubelet made the plan true once, and nobody does anything about it now."""

from __future__ import annotations

from collections.abc import Iterator

from memqos.catalog.recorded_trees import RecordedTree
from memqos.enactor.base import Order
from memqos.enactor.nobody import Nobody
from memqos.engine.answer.verdict import ContainerIds
from memqos.node.pods.population import Population
from memqos.runtime.base import ContainerHandle, SandboxHandle, SandboxSpec

__all__ = ["recorded_population"]


def recorded_population(tree: RecordedTree, order: Order, ids: ContainerIds) -> Population:
    """What a tree has of what a kubelet was to make true. ids: the containers that the tree has of the order's pods."""
    enactor = Nobody(lambda: _containers(ids))
    standing = enactor.begin(tree.source)
    standing.bring(order)
    admitted = standing.admit(order, appears=lambda _: None)
    return Population(plan=order.plan, pods=admitted, reading=tree.reading, enacted_by=enactor.setter)


def _containers(ids: ContainerIds) -> Iterator[ContainerHandle]:
    """The containers as far as a tree knows them: by id, name and the uid of their pod."""
    for (uid, name), container_id in ids.items():
        spec = SandboxSpec(name="", namespace="", uid=uid, cgroup_parent="", log_directory="")
        yield ContainerHandle(id=container_id, name=name, sandbox=SandboxHandle(id="", spec=spec), log_path="")
