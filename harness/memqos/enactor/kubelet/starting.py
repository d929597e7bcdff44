"""The pods that a kubelet was given and has not started yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod
from memqos.errors import EnactorNotAbleError

__all__ = ["Starting", "require_room"]


@dataclass(slots=True)
class Starting:
    """A pod that the kubelet has and has not started yet. until: when it has failed. seen: whether its cgroup was."""

    admitted: AdmittedPod
    until: Deadline
    seen: bool = False


def require_room(pods: Sequence[AdmittedPod]) -> None:
    """Raise EnactorNotAbleError if the kubelet rejected the pod for lack of resources (reason OutOfcpu, …)."""
    for one in pods:
        if one.failure is not None and str(one.failure.data.get("reason", "")).startswith("OutOf"):
            raise EnactorNotAbleError(
                one.failure.what, where=one.failure.where, next_step="Give a topology with more CPUs or memory."
            )
