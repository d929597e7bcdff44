"""Pods bound to one NUMA zone, for what is asked of zones without a Memory Manager."""

from __future__ import annotations

import dataclasses

from memqos.engine.plan import Plan

__all__ = ["bound_to"]


def bound_to(plan: Plan, zone: int) -> Plan:
    """The plan with every container's request naming this NUMA zone, as the Memory Manager would have it."""
    pods = tuple(
        dataclasses.replace(
            pod,
            containers=tuple(
                dataclasses.replace(
                    container, resources=dataclasses.replace(container.resources, cpuset_mems=str(zone))
                )
                for container in pod.containers
            ),
        )
        for pod in plan.pods
    )
    return dataclasses.replace(plan, pods=pods)
