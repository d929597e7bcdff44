"""Narrows a plan to some pods and containers; everything is planned all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from memqos.engine.plan import Plan, PlannedCgroup, PlannedPod
from memqos.errors import UnknownNameError

__all__ = ["narrowed"]


def narrowed(plan: Plan, pods: Sequence[str], containers: Sequence[str]) -> Plan:
    """The plan with only these pods and containers.

    pods: "name" or "namespace/name", containers: names; both may have the wildcards * ? [, and none means all. The
    cgroups above pods are left out. If containers are named, the cgroups of pods have no files. Raises UnknownNameError
    for a name without a match.
    """
    if not pods and not containers:
        return plan
    names = [f"{pod.namespace}/{pod.name}" for pod in plan.pods] + [refusal.name for refusal in plan.refusals]
    _check("pod", pods, names)
    _check("container", containers, sorted({one.name for pod in plan.pods for one in pod.containers}))
    chosen = [_with(pod, containers) for pod in plan.pods if _is_named(f"{pod.namespace}/{pod.name}", pods)]
    return replace(
        plan,
        node=_bare(plan.node),
        qos=(),
        reserved=(),
        pods=tuple(pod for pod in chosen if pod.containers or not containers),
        refusals=tuple(one for one in plan.refusals if _is_named(one.name, pods)) if not containers else (),
    )


def _check(kind: str, patterns: Sequence[str], known: list[str]) -> None:
    for pattern in patterns:
        if not any(_is_named(name, [pattern]) for name in known):
            raise UnknownNameError.of(kind, pattern, known, where=f"--{kind}")


def _is_named(full: str, patterns: Sequence[str]) -> bool:
    """Whether a name (a pod's is namespace/name) matches one of these; without patterns every name matches."""
    name = full.rpartition("/")[2]
    return not patterns or any(fnmatchcase(full if "/" in one else name, one) for one in patterns)


def _with(pod: PlannedPod, containers: Sequence[str]) -> PlannedPod:
    if not containers:
        return pod
    kept = tuple(one for one in pod.containers if _is_named(one.name, containers))
    return replace(pod, cgroup=_bare(pod.cgroup), containers=kept)


def _bare(cgroup: PlannedCgroup) -> PlannedCgroup:
    return replace(cgroup, knobs={}, summed=frozenset())
