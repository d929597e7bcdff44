"""Plans enforced on a real kernel, by both drivers: read, changed, withdrawn, and swept when a run died."""

from __future__ import annotations

from pathlib import Path

import pytest

from memqos.cgroupfs import parse
from memqos.cgroupfs.tree import CgroupTree
from memqos.enforce.apply import Enforcement, find_leftovers
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.errors import TargetError
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, KubeletSettings
from memqos.model.path import CgroupPath
from memqos.model.pod import Container, Pod, Resources
from memqos.model.quantity import Quantity
from memqos.model.reading import Reading
from memqos.probe.facts import target_facts
from memqos.runtime.base import ContainerSpec, SandboxSpec
from memqos.target.base import Target
from memqos.workload.command import Hold, arguments
from tests.vm.runtimes import IMAGE, cgroup_of, runtime_of, soon

pytestmark = pytest.mark.vm


def quantities(**amounts: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in amounts.items()}


PODS = (
    Pod(
        name="guaranteed",
        uid="0000-0001",
        containers=(
            Container(
                name="a",
                resources=Resources(
                    requests=quantities(cpu="1", memory="64Mi"), limits=quantities(cpu="1", memory="64Mi")
                ),
            ),
        ),
    ),
    Pod(
        name="burstable",
        uid="0000-0002",
        containers=(
            Container(
                name="a",
                resources=Resources(
                    requests=quantities(cpu="100m", memory="33333333"), limits=quantities(memory="96Mi")
                ),
            ),
        ),
    ),
    Pod(name="besteffort", uid="0000-0003", containers=(Container(name="a"),)),
)
SETTINGS = KubeletSettings(
    feature_gates={"MemoryQoS": True},
    enforce_node_allocatable=("pods", "system-reserved"),
    system_reserved=quantities(memory="100Mi", cpu="100m"),
    system_reserved_cgroup="/sysres",
)


@pytest.fixture(scope="module", params=list(CgroupDriver))
def driver(request: pytest.FixtureRequest) -> CgroupDriver:
    return request.param


@pytest.fixture(scope="module")
def plan(target: Target, driver: CgroupDriver) -> Plan:
    facts = target_facts(target, deadline=soon())
    return expect(PODS, Kubelet.of(node=facts.node, settings=SETTINGS, release="1.27", driver=driver))


def differences(reading: Reading, cgroup: PlannedCgroup, path: CgroupPath) -> list[str]:
    """Knobs of a planned cgroup that do not have the expected value; hugetlb depends on containerd's settings."""
    found = []
    for knob, expected in cgroup.knobs.items():
        text = parse.present(reading.file(path, knob), path=f"{path}/{knob}")
        if not knob.startswith("hugetlb") and knob.parse(text) != expected.value:
            found.append(f"{path}/{knob}: {text!r}, expected {expected.value}")
    return found


def test_a_plan_is_enforced_read_and_withdrawn(
    tree: CgroupTree, socket: Path, driver: CgroupDriver, plan: Plan
) -> None:
    handler = "runc" if driver is CgroupDriver.SYSTEMD else "runc-cgroupfs"
    with Enforcement(tree, name="test") as enforcement, runtime_of(socket, handler) as runtime:
        enforcement.apply(plan, deadline=soon())
        paths = {}
        for pod in plan.pods:
            sandbox = runtime.run_sandbox(
                SandboxSpec(
                    name=pod.name,
                    namespace=pod.namespace,
                    uid=pod.uid,
                    cgroup_parent=str(pod.cgroup.path),
                    log_directory=f"/var/log/pods/{pod.uid}",
                    resources=pod.sandbox_resources,
                    overhead=pod.sandbox_overhead,
                ),
                deadline=soon(),
            )
            spec = ContainerSpec(name="a", image=IMAGE, args=arguments([Hold()]), resources=pod.containers[0].resources)
            container = runtime.create(sandbox, spec, deadline=soon())
            runtime.start(container, deadline=soon())
            paths[pod.uid] = plan.layout.container(pod.cgroup.path, container.id)
            assert cgroup_of(runtime, tree, container) == paths[pod.uid]
        places = {
            **{cgroup.path: cgroup for cgroup in (plan.node, *plan.reserved, *plan.qos)},
            **{pod.cgroup.path: pod.cgroup for pod in plan.pods},
            **{paths[pod.uid]: pod.containers[0].cgroup for pod in plan.pods},
        }
        reading = tree.read_cgroups(places, list(Knob), deadline=soon())
    found = [difference for path, cgroup in places.items() for difference in differences(reading, cgroup, path)]
    assert found == []
    assert len(plan.reserved) == 1
    assert not tree.exists(plan.node.path, deadline=soon())
    assert find_leftovers(tree, deadline=soon()) == ()


def test_values_change_with_the_next_plan(tree: CgroupTree, target: Target, driver: CgroupDriver, plan: Plan) -> None:
    facts = target_facts(target, deadline=soon())
    fewer = expect(PODS[1:], Kubelet.of(node=facts.node, settings=SETTINGS, release="1.27", driver=driver))
    with Enforcement(tree, name="test") as enforcement:
        enforcement.apply(plan, deadline=soon())
        assert (
            tree.read_text(plan.node.path, "memory.min", deadline=soon())
            == f"{plan.node.knobs[Knob.MEMORY_MIN].value}\n"
        )
        enforcement.apply(fewer, deadline=soon())
        reading = tree.read_cgroups([fewer.node.path], list(Knob), deadline=soon())
        assert not tree.exists(plan.pod(PODS[0].uid).cgroup.path, deadline=soon())
        assert all(tree.exists(pod.cgroup.path, deadline=soon()) for pod in fewer.pods)
        assert differences(reading, fewer.node, fewer.node.path) == []
        assert plan.node.knobs[Knob.MEMORY_MIN].value != fewer.node.knobs[Knob.MEMORY_MIN].value


def test_what_a_dead_run_left_behind_is_refused_and_named(tree: CgroupTree, plan: Plan) -> None:
    dead = Enforcement(tree, name="dead run")
    dead.apply(plan, deadline=soon())
    with pytest.raises(TargetError, match="left behind by the enforcement 'dead run'"):
        Enforcement(tree, name="next run").apply(plan, deadline=soon())
    leftovers = set(find_leftovers(tree, deadline=soon()))
    assert leftovers >= {plan.node.path, *(pod.cgroup.path for pod in plan.pods)}
    assert dead.withdraw(deadline=soon()) == ()
    assert find_leftovers(tree, deadline=soon()) == ()


def test_a_kubelets_own_cgroup_is_not_taken_over(tree: CgroupTree, plan: Plan) -> None:
    tree.make([plan.node.path], deadline=soon())
    try:
        with (
            pytest.raises(TargetError, match="does not belong to memqos"),
            Enforcement(tree, name="test") as enforcement,
        ):
            enforcement.apply(plan, deadline=soon())
        assert tree.exists(plan.node.path, deadline=soon())
    finally:
        tree.target.run(["rmdir", tree.hierarchy.folder(plan.node.path)], deadline=soon())
