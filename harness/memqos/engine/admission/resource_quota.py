"""The plugin ResourceQuota: pods that must name what a quota of their namespace counts, and pods that are too many.

Source: apiserver resourcequota `CheckRequest`; pkg/quota/v1/evaluator/core `podEvaluator`. With the gate
PodLevelResources (1.32 and later) a pod with resources of its own need not name them in its containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memqos.engine.admission.denial import Denial, forbidden
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input
from memqos.engine.pod.hugepages import PREFIX
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import pod_level_set, pod_limits, pod_requests
from memqos.model.cluster import QuotaScope, ResourceQuota
from memqos.model.pod import Pod, QosClass, ResourceList, Submission
from memqos.model.quantity import ZERO, Quantity

__all__ = ["QuotaUse"]

_PLUGIN = "plugin ResourceQuota"
_MUST_BE_NAMED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
_COUNTED = ("cpu", "memory", "ephemeral-storage")
_ONE = Quantity.of_bytes(1)
_AFFINITY = "CrossNamespacePodAffinity"


class QuotaUse:
    """What the quotas of a cluster count, pod after pod in the order of their creation."""

    def __init__(self, quotas: Sequence[ResourceQuota], kubelet: Kubelet) -> None:
        self._quotas: dict[str, list[ResourceQuota]] = {}
        self._used = {(one.namespace, one.name): dict(one.used or {}) for one in quotas}
        self._kubelet = kubelet
        for one in quotas:
            self._quotas.setdefault(one.namespace, []).append(one)

    def count(self, pod: Pod) -> None:
        """Count a pod that is stored already, in quotas whose use is not known otherwise."""
        usage = self._usage(pod)
        for quota in self._of(pod, Submission()):
            if quota.used is None:
                self._add(quota, usage)

    def admit(self, pod: Pod, submission: Submission) -> Denial | None:
        """Why a quota refuses a new pod; else count it."""
        matching = list(self._of(pod, submission))
        for quota in matching:
            missing = self._missing(pod, quota)
            if missing:
                rule = f"each container must name what ResourceQuota {quota.namespace}/{quota.name} counts"
                return _refused(pod, quota, f"failed quota: {quota.name}: must specify {missing}", rule)
        usage = self._usage(pod)
        charged = [one for one in matching if not (submission.counted and one.used is not None)]
        for quota in charged:
            over = self._over(quota, usage)
            if over:
                rule = f"the pods of a namespace must not exceed ResourceQuota {quota.namespace}/{quota.name} together"
                return _refused(pod, quota, f"exceeded quota: {quota.name}, {over}", rule)
        for quota in charged:
            self._add(quota, usage)
        return None

    def unknown(self, pod: Pod, submission: Submission) -> Iterator[tuple[ResourceQuota, str]]:
        """What cannot be judged of the quotas of a new pod's namespace."""
        for quota in self._quotas.get(pod.namespace, ()):
            if any(one.name == _AFFINITY for one in quota.scopes):
                yield quota, f"its scope {_AFFINITY} is not judged: it is taken to count none of the pods"
            elif quota.used is None and self._matches(pod, submission, quota):
                yield quota, "it has no status.used: what pods that are not given use is not counted"

    def _of(self, pod: Pod, submission: Submission) -> Iterator[ResourceQuota]:
        return (one for one in self._quotas.get(pod.namespace, ()) if self._matches(pod, submission, one))

    def _matches(self, pod: Pod, submission: Submission, quota: ResourceQuota) -> bool:
        return all(self._in_scope(pod, submission, scope) for scope in quota.scopes)

    def _in_scope(self, pod: Pod, submission: Submission, scope: QuotaScope) -> bool:
        if scope.name in {"BestEffort", "NotBestEffort"}:
            best_effort = pod_qos(pod, pod_level=self._kubelet.pod_level) is QosClass.BEST_EFFORT
            return best_effort is (scope.name == "BestEffort")
        if scope.name in {"Terminating", "NotTerminating"}:
            return submission.has_deadline is (scope.name == "Terminating")
        return scope.name == "PriorityClass" and _selects(scope, pod.priority_class_name)

    def _missing(self, pod: Pod, quota: ResourceQuota) -> str:
        """What containers must name and do not, as the plugin lists it; "" for nothing."""
        if self._kubelet.pod_level and pod_level_set(pod):
            return ""
        found: dict[str, set[str]] = {}
        for name in _MUST_BE_NAMED:
            if name not in quota.hard:
                continue
            for one in pod.containers + pod.init_containers:
                part, _, resource = name.rpartition(".")
                if resource not in (one.resources.limits if part == "limits" else one.resources.requests):
                    found.setdefault(name, set()).add(one.name)
        return "; ".join(f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(found.items()))

    def _usage(self, pod: Pod) -> dict[str, Quantity]:
        """What a pod counts for, by the names that quotas have for it."""
        found = {"pods": _ONE, "count/pods": _ONE}
        for part, amounts in (
            ("requests", pod_requests(pod, pod_level=self._kubelet.pod_level)),
            ("limits", pod_limits(pod, pod_level=self._kubelet.pod_level)),
        ):
            for name, value in amounts.items():
                found |= dict.fromkeys(_keys(part, name), value)
        return found

    def _over(self, quota: ResourceQuota, usage: ResourceList) -> str:
        used = self._used[quota.namespace, quota.name]
        exceeded = [
            name
            for name, limit in sorted(quota.hard.items())
            if name in usage and not usage[name].is_zero and limit < used.get(name, ZERO) + usage[name]
        ]
        if not exceeded:
            return ""
        parts = (("requested", usage), ("used", used), ("limited", quota.hard))
        return ", ".join(f"{word}: {_listed(amounts, exceeded)}" for word, amounts in parts)

    def _add(self, quota: ResourceQuota, usage: ResourceList) -> None:
        used = self._used[quota.namespace, quota.name]
        for name, value in usage.items():
            used[name] = used.get(name, ZERO) + value


def _keys(part: str, name: str) -> tuple[str, ...]:
    """The names under which a quota counts a request or a limit."""
    if name in _COUNTED:
        return (f"limits.{name}",) if part == "limits" else (name, f"requests.{name}")
    if part == "limits":
        return ()
    return (name, f"requests.{name}") if name.startswith(PREFIX) else (f"requests.{name}",)


def _selects(scope: QuotaScope, priority_class: str) -> bool:
    return {
        "Exists": bool(priority_class),
        "DoesNotExist": not priority_class,
        "In": priority_class in scope.values,
        "NotIn": priority_class not in scope.values,
    }[scope.operator]


def _listed(amounts: Mapping[str, Quantity], names: Sequence[str]) -> str:
    return ",".join(f"{name}={amounts.get(name, ZERO).canonical()}" for name in names)


def _refused(pod: Pod, quota: ResourceQuota, error: str, rule: str) -> Denial:
    named = Input("ResourceQuota", f"{quota.namespace}/{quota.name}", quota.origin)
    return forbidden(pod, error, plugin=_PLUGIN, rule=rule, inputs=(named,))
