"""Changes that no kubelet makes: foreign writes to pod cgroups, NUMA bindings, limits below usage, halved protection.

Also plans with pods of several kubelets next to each other.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.base import Enactment
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedContainer, PlannedPod, Reason
from memqos.errors import UsageError
from memqos.model.cri import ContainerResources
from memqos.model.knob import MAX, Absent, Bytes, Knob, KnobValue, Text
from memqos.model.node import NodeFacts
from memqos.model.pod import Pod
from memqos.model.reading import Reading, read_back
from memqos.node.pods.population import Population

__all__ = [
    "NumaNodes",
    "another",
    "bound_container",
    "bound_to",
    "combined_plan",
    "drift_findings",
    "halved_classes",
    "limited_container",
    "refused_limit",
]

WRITING_SECONDS = 60.0


def write_over(tree: CgroupTree, cgroup: PlannedCgroup, *, page_size: int) -> Knob:
    """Write another value to one memory file of a pod's cgroup, as a foreign writer; returns the file.

    Limits are raised and protections added, so that nothing is killed or reclaimed. Raises UsageError for a cgroup
    without planned memory values.
    """
    for knob, foreign in ((Knob.MEMORY_MAX, MAX), (Knob.MEMORY_LOW, Bytes(page_size)), (Knob.MEMORY_MIN, Bytes(0))):
        expected = cgroup.knobs.get(knob)
        if expected is not None and not isinstance(expected.written, Absent) and expected.value != foreign:
            tree.write(cgroup.path, knob, str(foreign), deadline=Deadline.after(WRITING_SECONDS))
            return knob
    raise UsageError(f"the plan has no memory values for {cgroup.path}.", next_step="Use a pod with limits.")


def drift_findings(
    population: Population, pod: Pod, standing: Enactment, tree: CgroupTree, *, read: Callable[[Population], Reading]
) -> Sequence[Finding]:
    """A foreign write to the pod's cgroup changes that file only, until the cgroup is reconciled."""

    def judged() -> Sequence[Finding]:
        return dataclasses.replace(population, reading=read(population)).judge_pod(pod)

    page_size = population.node.page_size
    knob = write_over(tree, population.plan.pod(pod.uid).cgroup, page_size=page_size)
    drifted = judged()
    standing.reconcile(population.plan)
    return [drift_finding(drifted, pod, knob, population.enacted_by), *judged()]


def drift_finding(found: Sequence[Finding], pod: Pod, knob: Knob, setter: Setter) -> Finding:
    """A reading after the foreign write: this file deviates, and nothing else of the pod.

    found: the findings of the pod and its containers. setter: the creator of the pod's cgroup.
    """
    drifted = ", ".join(sorted(f"{one.subject}: {one.knob}" for one in found if one.verdict is Verdict.DEVIATES))
    of_the_pod = [one for one in found if one.knob == knob and one.verdict is Verdict.DEVIATES]
    expected = f"{of_the_pod[0].subject if of_the_pod else f'pod {pod.name}'}: {knob}"
    return Finding(
        verdict=Verdict.of(drifted == expected),
        subject=Subject.of_pod(pod.namespace, pod.name),
        cgroup=of_the_pod[0].cgroup if of_the_pod else "",
        knob="drift",
        set_by=setter,
        expected=expected,
        observed=drifted or "nothing",
    )


NumaNodes = int | Sequence[int]
"""The NUMA node that containers are bound to; or several that each may use, while it runs on the CPUs of the first."""

_ASKED = Reason(
    rule="the container is bound to the NUMA nodes that the test requests",
    revision="CRI v1",
    source="CRI LinuxContainerResources.cpuset_mems",
)
_LIMITED = Reason(
    rule="the container has the limit that the test requests while it runs",
    revision="CRI v1",
    source="CRI LinuxContainerResources.memory_limit_in_bytes",
)
_HALVED = Reason(
    rule="the class has half of its pods' requests, as before a kubelet adds its newest pods",
    revision="a test",
    source="kubelet cm/qos_container_manager_linux.go, UpdateCgroups",
)


def bound_to(plan: Plan, numa_nodes: NumaNodes, node: NodeFacts) -> Plan:
    """The plan with every container's request naming these NUMA nodes, as the Memory Manager would set it.

    With several nodes it names CPUs too, as the CPU Manager would. UsageError for several that are unknown, or of which
    the first has no CPUs.
    """
    if isinstance(numa_nodes, int):
        mems, on = str(numa_nodes), ""
    else:
        mems, on = (",".join(map(str, numbers)) for numbers in (numa_nodes, _cpus_of_first(numa_nodes, node)))
    return dataclasses.replace(plan, pods=tuple(_bound_pod(pod, mems, on) for pod in plan.pods))


def _cpus_of_first(numa_nodes: Sequence[int], node: NodeFacts) -> tuple[int, ...]:
    cpus = {numa_node.id: numa_node.cpus for numa_node in node.numa_nodes}
    if not numa_nodes or not cpus.keys() >= set(numa_nodes) or not cpus[numa_nodes[0]]:
        raise UsageError(
            f"no container can be bound to the NUMA nodes {list(numa_nodes)} and run on the first of them.",
            next_step="NUMA nodes of the machine: "
            f"{', '.join(f'{numa_node} with {len(held)} CPUs' for numa_node, held in cpus.items())}.",
        )
    return cpus[numa_nodes[0]]


def halved_classes(plan: Plan, *, page_size: int) -> Plan:
    """The plan with half of each QoS class's memory.min, in whole pages: as before a kubelet adds its newest pods."""
    return dataclasses.replace(plan, qos=tuple(_halved(cgroup, page_size) for cgroup in plan.qos))


def another(pod: Pod, suffix: str) -> Pod:
    """A copy of this pod with this name suffix and a uid of its own, always the same."""
    uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{pod.uid} {suffix}"))
    return dataclasses.replace(pod, name=f"{pod.name}-{suffix}", uid=uid)


def combined_plan(plan: Plan, others: Mapping[str, Plan]) -> Plan:
    """The plan with some of its pods, by uid, as other kubelets plan them.

    UsageError if another kubelet has other values above pods, since those cgroups are shared.
    """
    for uid, other in others.items():
        if [one.knobs for one in (other.node, *other.qos)] != [one.knobs for one in (plan.node, *plan.qos)]:
            raise UsageError(
                f"the pod '{plan.pod(uid).name}' cannot run beside the others under its own kubelet: the kubelets "
                "write different values above pods.",
                next_step="Use kubelets that differ only in values of pods, such as the throttling factor.",
            )
    return dataclasses.replace(plan, pods=tuple(others.get(pod.uid, plan).pod(pod.uid) for pod in plan.pods))


def _halved(cgroup: PlannedCgroup, page_size: int) -> PlannedCgroup:
    least = cgroup.knobs.get(Knob.MEMORY_MIN)
    if least is None or not isinstance(least.value, Bytes):
        return cgroup
    half = read_back(Knob.MEMORY_MIN, Bytes(least.value.count // 2), page_size)
    halved = Expected(knob=Knob.MEMORY_MIN, written=half, value=half, reason=_HALVED)
    return dataclasses.replace(cgroup, knobs={**cgroup.knobs, Knob.MEMORY_MIN: halved})


def _bound_pod(pod: PlannedPod, mems: str, cpus: str) -> PlannedPod:
    bound = (bound_container(container, mems, cpus=cpus) for container in pod.containers)
    return dataclasses.replace(pod, containers=tuple(bound))


def bound_container(container: PlannedContainer, mems: str, *, cpus: str = "") -> PlannedContainer:
    """The container with its request naming these NUMA nodes and CPUs; "" keeps its own."""
    resources = container.resources
    bound = dataclasses.replace(resources, cpuset_mems=mems, cpuset_cpus=cpus or resources.cpuset_cpus)
    return _asked(container, bound, Knob.CPUSET_MEMS, read_back(Knob.CPUSET_MEMS, Text(mems), 1), _ASKED)


def limited_container(container: PlannedContainer, limit: int, *, page_size: int) -> PlannedContainer:
    """The container with this memory limit in bytes and its previous swap."""
    resources = container.resources
    swap = resources.memory_swap_limit_in_bytes
    lowered = dataclasses.replace(
        resources,
        memory_limit_in_bytes=limit,
        memory_swap_limit_in_bytes=swap - resources.memory_limit_in_bytes + limit if swap > 0 else swap,
    )
    shown = read_back(Knob.MEMORY_MAX, Bytes(limit), page_size)
    return _asked(container, lowered, Knob.MEMORY_MAX, shown, _LIMITED)


def refused_limit(container: PlannedContainer, why: str) -> PlannedContainer:
    """The container with its current memory.max planned, because its runtime refused another one; why: its message."""
    return _expecting(container, dataclasses.replace(container.cgroup.knobs[Knob.MEMORY_MAX], inexpressible=why))


def _asked(
    container: PlannedContainer, resources: ContainerResources, knob: Knob, value: KnobValue, reason: Reason
) -> PlannedContainer:
    expected = Expected(knob=knob, written=value, value=value, reason=reason)
    return _expecting(dataclasses.replace(container, resources=resources), expected)


def _expecting(container: PlannedContainer, expected: Expected) -> PlannedContainer:
    knobs = {**container.cgroup.knobs, expected.knob: expected}
    return dataclasses.replace(container, cgroup=dataclasses.replace(container.cgroup, knobs=knobs))
