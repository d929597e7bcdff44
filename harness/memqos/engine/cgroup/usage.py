"""How much memory containers use: as somebody says it, else as it is assumed of a plan."""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.plan import Plan, PlannedContainer
from memqos.model.knob import Bytes, Knob
from memqos.model.pod import ContainerKind

__all__ = ["ContainerUsage", "known_usage", "use_of"]

ContainerUsage = Mapping[tuple[str, str], int]
"""(pod uid, container name) to the bytes that the container uses."""


def known_usage(plan: Plan, usage: ContainerUsage | None) -> ContainerUsage:
    """The usage that was given; KeyError names a container of it that the plan does not have."""
    known = {(pod.uid, one.name) for pod in plan.pods for one in pod.containers}
    for key in usage or ():
        if key not in known:
            raise KeyError("/".join(key))
    return dict(usage or {})


def use_of(one: PlannedContainer, given: int | None) -> tuple[int, str]:
    """How much a container uses in bytes, and how that is known: "given", or "assumed: ..."."""
    if given is not None:
        return given, "given"
    if one.kind is ContainerKind.INIT:
        return 0, "assumed: nothing, since an init container has ended"
    for knob in (Knob.MEMORY_MAX, Knob.MEMORY_MIN, Knob.MEMORY_LOW):
        expected = one.cgroup.knobs.get(knob)
        if expected is not None and isinstance(expected.value, Bytes) and expected.value.count:
            return expected.value.count, f"assumed: all of its {knob}"
    if one.resources.memory_limit_in_bytes > 0:
        # The own cgroup of a container in a sandbox does not hold the limit, and that of others is not modelled.
        return one.resources.memory_limit_in_bytes, "assumed: all of its memory limit"
    return 0, "assumed: nothing, since it has neither limit nor protection"
