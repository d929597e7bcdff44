"""Pods bound to one NUMA zone, for what is asked of zones without a Memory Manager."""

from __future__ import annotations

import dataclasses

from memqos.engine.plan import Expected, Plan, PlannedContainer, PlannedPod, Reason
from memqos.model.knob import Knob, Text

__all__ = ["bound_container", "bound_to"]

_ASKED = Reason(
    rule="the container is bound to the NUMA zone that the test asks for",
    revision="CRI v1",
    source="CRI LinuxContainerResources.cpuset_mems",
)


def bound_to(plan: Plan, zone: int) -> Plan:
    """The plan with every container's request naming this NUMA zone, as the Memory Manager would have it."""
    return dataclasses.replace(plan, pods=tuple(_bound_pod(pod, str(zone)) for pod in plan.pods))


def _bound_pod(pod: PlannedPod, zone: str) -> PlannedPod:
    return dataclasses.replace(pod, containers=tuple(bound_container(container, zone) for container in pod.containers))


def bound_container(container: PlannedContainer, zone: str) -> PlannedContainer:
    """The container with its request naming this NUMA zone."""
    value = Text(zone)
    expected = Expected(knob=Knob.CPUSET_MEMS, written=value, value=value, reason=_ASKED)
    knobs = {**container.cgroup.knobs, Knob.CPUSET_MEMS: expected}
    return dataclasses.replace(
        container,
        resources=dataclasses.replace(container.resources, cpuset_mems=zone),
        cgroup=dataclasses.replace(container.cgroup, knobs=knobs),
    )
