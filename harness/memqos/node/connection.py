"""Opens a node: a place, one of its runtimes, and an enactor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from memqos.cgroupfs.tree import CgroupTree
from memqos.enactor.base import Patience
from memqos.enactor.registry import MEMQOS, KubeletAccess, Maker, Site, make_enactor
from memqos.engine.translate.runtimes import Runtimes
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.occupancy import Cleanup, HealthChecks
from memqos.node.pods.recorder import Recorder
from memqos.place.base import Place
from memqos.probe.facts import TargetFacts
from memqos.probe.sampler import GuestSampler
from memqos.runtime.base import Runtime
from memqos.runtime.delegation import Delegated, Delegation
from memqos.target.base import Target

__all__ = ["node_on"]


def node_on(
    place: Place,
    runtime: Runtime,
    *,
    recorder: Recorder,
    driver: CgroupDriver,
    runtimes: Runtimes,
    target: Target | None = None,
    facts: NodeFacts | None = None,
    parallel: int = 1,
    leaves: Callable[[], bool] = lambda: False,
    lingers: Callable[[], bool] = lambda: False,
    patience: Patience | None = None,
    enactor: str | Maker = MEMQOS,
    kubelet: KubeletAccess | None = None,
) -> NodeUnderTest:
    """The node for tests: a place with one of its runtimes and the enactor of this name.

    target: reaches the place, for example over agents; None uses the place's own. facts: replaces the place's facts.
    enactor: a name in `enactor.registry.ENACTORS`, UnknownNameError for any other; or a factory. kubelet: the kubelet
    in the machine, for the enactor of that name.
    """
    target = target or place.target
    known, sampler = place.facts if facts is None else dataclasses.replace(place.facts, node=facts), place.sampler
    tree = CgroupTree(target, known.hierarchy)
    user = runtime.delegation if isinstance(runtime, Delegated) else None
    if user is not None:
        known = _delegated_to(user, known)
        assert isinstance(sampler, GuestSampler)  # noqa: S101 - of the machines that have ordinary users
        sampler = dataclasses.replace(sampler, hierarchy=user.hierarchy)
        tree = CgroupTree(user.target, user.hierarchy)
    layout = runtimes.layout(driver)
    site = Site(runtime=runtime, tree=tree, layout=layout, parallel=parallel, patience=patience, kubelet=kubelet)
    return NodeUnderTest(
        target=target,
        runtime=runtime,
        enactor=make_enactor(enactor, site),
        sampler=sampler,
        facts=known,
        recorder=recorder,
        driver=driver,
        runtimes=runtimes,
        cleanup=Cleanup(disposable=place.is_disposable, leaves=leaves, lingers=lingers),
        health=HealthChecks(check=place.check_alive, examine=place.examine),
        parallel=parallel,
    )


def _delegated_to(user: Delegation, facts: TargetFacts) -> TargetFacts:
    """The machine as an ordinary user has it."""
    return dataclasses.replace(
        facts,
        node=dataclasses.replace(facts.node, user_namespace=True),
        hierarchy=user.hierarchy,
        controllers=user.controllers,
        delegated=str(user.above),
    )
