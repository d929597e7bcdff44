"""The contract of the enactor port on a real kernel and runtime, with both drivers, and of the observer."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.enactor.base import Order
from memqos.enactor.contract import EnactorCase, check_enactor_contract
from memqos.enactor.kubelet_stand_in import KubeletStandIn
from memqos.enactor.observer import Observer
from memqos.engine.answer.verdict import judged_files
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import resize_pods
from memqos.engine.translate.runtimes import TRIXIE
from memqos.model.node import CgroupDriver, KubeletSettings, ReservationPolicy
from memqos.model.path import CgroupPath
from memqos.model.pod import Container, Pod, Resources
from memqos.model.quantity import Quantity
from memqos.probe.facts import target_facts
from memqos.target.base import Target
from memqos.workload.command import Hold, arguments
from tests.vm.runtimes import IMAGE, read_below, runtime_of, soon

pytestmark = pytest.mark.vm

RUNTIMES = dataclasses.replace(TRIXIE, hugetlb=True)


def pod(name: str, request: str, limit: str) -> Pod:
    resources = Resources(
        requests={"memory": Quantity.parse(request)},
        limits={"memory": Quantity.parse(limit)},
    )
    app = Container(name="app", image=IMAGE, args=tuple(arguments([Hold()])), resources=resources)
    return Pod(name=name, uid=f"0000-{name}", containers=(app,))


PODS = (pod("one", "32Mi", "64Mi"), pod("two", "16Mi", "48Mi"))
LARGER = pod("one", "48Mi", "96Mi")


@contextlib.contextmanager
def case_of(target: Target, tree: CgroupTree, socket: Path, driver: CgroupDriver) -> Iterator[EnactorCase]:
    def kubelet(release: str, policy: ReservationPolicy | None = None) -> Kubelet:
        settings = KubeletSettings(feature_gates={"MemoryQoS": True}, memory_reservation_policy=policy)
        return Kubelet.of(node=facts, settings=settings, release=release, driver=driver, runtimes=RUNTIMES)

    facts = target_facts(target, deadline=soon()).node
    tiered, older = kubelet("1.36", ReservationPolicy.TIERED), kubelet("1.27")
    plan = expect(PODS, tiered)
    handler = "runc" if driver is CgroupDriver.SYSTEMD else "runc-cgroupfs"
    files = judged_files(tree.hierarchy.version)
    with runtime_of(socket, handler) as runtime:
        yield EnactorCase(
            enactor=KubeletStandIn(runtime=runtime, tree=tree, layout=RUNTIMES.layout(driver), parallel=len(PODS)),
            order=Order(kubelet=tiered, plan=plan, pods=PODS),
            other=Order(kubelet=older, plan=expect(PODS, older), pods=PODS),
            resized=resize_pods(PODS, [LARGER], tiered),
            desired=LARGER,
            read=lambda: read_below(tree, CgroupPath(plan.node.path.parts[:1]), files),
        )


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_memqos_in_the_kubelets_place_keeps_the_contract(
    target: Target, tree: CgroupTree, socket: Path, driver: CgroupDriver
) -> None:
    check_enactor_contract(lambda: case_of(target, tree, socket, driver))


def test_an_observer_leaves_running_pods_alone(target: Target, tree: CgroupTree, socket: Path) -> None:
    @contextlib.contextmanager
    def standing() -> Iterator[EnactorCase]:
        with case_of(target, tree, socket, CgroupDriver.SYSTEMD) as case:
            made = case.enactor.begin("before the observer")
            try:
                made.bring(case.order)
                made.admit(case.order, appears=lambda _: None)
                running = [one for admitted in made.pods.values() for one in admitted.containers.values()]
                yield dataclasses.replace(case, enactor=Observer(lambda: running), other=None)
            finally:
                made.clear()

    check_enactor_contract(standing)
