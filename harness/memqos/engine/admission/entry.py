"""Admission of new pods: the pods as the API server stores them, the refused ones, and values that are undetermined.

The order is the API server's: NamespaceLifecycle, plugins that change a pod (LimitRanger, Priority, RuntimeClass,
webhooks), validation, then plugins that only refuse (LimitRanger again, ResourceQuota last). Plugins that concern
neither resources nor priority (ServiceAccount, DefaultTolerationSeconds, PodSecurity …) change no value and are left
out. Source: pkg/kubeapiserver/options `AllOrderedPlugins`; apiserver `Store.Create`.

Validation catches invalid defaults: a LimitRange's default or a recommendation may put a request above a limit. Source:
pkg/apis/core/validation `validateResourceRequirements`, `validatePodResourceConsistency`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memqos.engine.admission.denial import Denial, forbidden, invalid
from memqos.engine.admission.plugins import (
    QuotaUse,
    admit_priority,
    admit_runtime_class,
    check_limits,
    contested_defaults,
    with_limit_range_defaults,
)
from memqos.engine.admission.vertical_pod_autoscaler import (
    autoscaler_of,
    targets,
    what_it_may_change,
    with_recommendation,
)
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Refusal, Remark
from memqos.engine.pod.sums import PREFIX, aggregate
from memqos.engine.releases.defaulting import seen_by
from memqos.model.cluster import NO_OBJECTS, ClusterObjects, LimitRange
from memqos.model.pod import Container, Pod, Resources, Submission

__all__ = ["Admission", "admitted"]

_Fault = tuple[str, tuple[Input, ...]]
"""The API server's message, and the conflicting values."""


def check_resources(pod: Pod, kubelet: Kubelet) -> Denial | None:
    """The first error in the pod's resources; None if they are valid."""
    found = [
        *_of_containers("initContainers", pod.init_containers),
        *_of_containers("containers", pod.containers),
        *(_of_pod(pod, pod.resources) if kubelet.pod_level and pod.resources is not None else ()),
    ]
    if not found:
        return None
    inputs = tuple(dict.fromkeys(one for _, own in found for one in own))
    rule = "a request must not exceed its limit, and a container's resources must not exceed its pod's"
    return invalid(pod, [message for message, _ in found], rule=rule, inputs=inputs)


def _of_containers(field: str, containers: tuple[Container, ...]) -> Iterator[_Fault]:
    for index, one in enumerate(containers):
        limits = one.resources.limits
        for name, request in one.resources.requests.items():
            limit = limits.get(name)
            path = f"spec.{field}[{index}].resources"
            inputs = tuple(
                Input(f"{part}.{name} of container {one.name}", str(value), one.origin.get(f"{part}.{name}", ""))
                for part, value in (("requests", request), ("limits", limit))
                if value is not None
            )
            if limit is None:
                if name.startswith(PREFIX):
                    yield f"{path}.limits: Required value: Limit must be set for non overcommitable resources", inputs
            elif name.startswith(PREFIX) and request != limit:
                what = f"must be equal to {name} limit of {limit.canonical()}"
                yield f'{path}.requests: Invalid value: "{request.canonical()}": {what}', inputs
            elif limit < request:
                what = f"must be less than or equal to {name} limit of {limit.canonical()}"
                yield f'{path}.requests: Invalid value: "{request.canonical()}": {what}', inputs


def _huge_pages_alone(pod: Pod) -> list[tuple[str, Container]]:
    """The containers, with their fields, that name huge pages and neither cpu nor memory.

    Of a pod with resources of its own nothing is said.
    """
    if pod.resources is not None:
        return []
    every = (("initContainers", pod.init_containers), ("containers", pod.containers))
    named = [
        (f"spec.{field}[{index}].resources", one, {*one.resources.requests, *one.resources.limits})
        for field, containers in every
        for index, one in enumerate(containers)
    ]
    return [
        (path, one)
        for path, one, names in named
        if any(name.startswith(PREFIX) for name in names) and names.isdisjoint({"cpu", "memory"})
    ]


def check_huge_pages(pod: Pod) -> Denial | None:
    """The error for containers with huge pages that name neither cpu nor memory; None without one."""
    found = _huge_pages_alone(pod)
    if not found:
        return None
    given = tuple(Input(f"huge pages of container {one.name}", path, pod.file) for path, one in found)
    errors = [f"{path}: Forbidden: HugePages require cpu or memory" for path, _ in found]
    return invalid(pod, errors, rule="a container with huge pages requests or limits cpu or memory too", inputs=given)


def _of_pod(pod: Pod, own: Resources) -> Iterator[_Fault]:
    """Pod-level requests that containers exceed together, and pod-level limits that one of them exceeds."""
    for name, asked in aggregate(pod).items():
        whole = own.requests.get(name)
        if whole is not None and whole < asked:
            what = f"must be greater than or equal to aggregate container requests of {asked.canonical()}"
            given = Input(f"resources.requests.{name}", str(whole), pod.origin.get(f"resources.requests.{name}", ""))
            yield f'spec.resources.requests[{name}]: Invalid value: "{whole.canonical()}": {what}', (given,)
    for index, one in enumerate(pod.containers):
        for name, limit in one.resources.limits.items():
            whole = own.limits.get(name)
            if whole is not None and whole < limit:
                what = f"must be less than or equal to pod limits of {whole.canonical()}"
                path = f"spec.resources.containers[{index}][{name}].limits"
                given = Input(
                    f"limits.{name} of container {one.name}", str(limit), one.origin.get(f"limits.{name}", "")
                )
                yield f'{path}: Invalid value: "{limit.canonical()}": {what}', (given,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The stored pods in the order given, the refused ones, and notes.

    undetermined: per pod (uid), why the API server may choose other values for it; the pod has one of the possible
    values.
    """

    pods: tuple[Pod, ...]
    refusals: tuple[Refusal, ...] = ()
    remarks: tuple[Remark, ...] = ()
    undetermined: Mapping[str, str] = field(default_factory=dict)


def admitted(pods: Iterable[Pod], kubelet: Kubelet) -> Admission:
    """Admit new pods in the order given; pods that are already stored and static pods stay unchanged.

    kubelet: the API server is assumed to have its release and its feature gates.
    """
    given = tuple(pods)
    if all(_is_stored(pod) for pod in given):
        return Admission(pods=given)
    there = [pod for pod in given if _is_stored(pod)]
    servers: dict[int, _Server] = {}
    stored, refusals, remarks = [], [], dict[Remark, None]()
    undetermined: dict[str, str] = {}
    for pod in given:
        if pod.submission is None or _is_stored(pod):
            stored.append(pod)
            continue
        cluster = pod.submission.cluster
        if id(cluster) not in servers:
            servers[id(cluster)] = _Server(cluster, kubelet, there)
        server = servers[id(cluster)]
        outcome = server.admit(seen_by(pod, kubelet), pod.submission)
        if isinstance(outcome, Denial):
            refusals.append(outcome.refusal(pod))
            continue
        stored.append(outcome)
        remarks |= dict.fromkeys(server.remarks(pod, pod.submission))
        if contested := server.contested(pod):
            undetermined[pod.uid] = "; ".join(one.what for one in contested)
            remarks |= dict.fromkeys(contested)
    return Admission(
        pods=tuple(stored),
        refusals=tuple(refusals),
        remarks=tuple(remarks),
        undetermined=undetermined,
    )


def _is_stored(pod: Pod) -> bool:
    """Whether admission leaves a pod unchanged: it is stored, static, or no object applies to it."""
    submission = pod.submission
    return submission is None or pod.static or (submission.cluster is NO_OBJECTS and _is_plain(pod, submission))


def _is_plain(pod: Pod, submission: Submission) -> bool:
    """Whether an API server without any objects stores the pod unchanged, at priority 0."""
    return not (
        pod.priority_class_name
        or pod.priority
        or pod.runtime_class_name
        or pod.overhead
        or pod.ephemeral_containers
        or submission.preemption_policy
        or _huge_pages_alone(pod)
    )


class _Server:
    """The API server of one cluster: its objects, and the usage that its quotas have counted."""

    def __init__(self, cluster: ClusterObjects, kubelet: Kubelet, there: Iterable[Pod]) -> None:
        self._cluster = cluster
        self._kubelet = kubelet
        self._quotas = QuotaUse(cluster.resource_quotas, kubelet)
        self._ranges: dict[str, list[LimitRange]] = {}
        for one in cluster.limit_ranges:
            self._ranges.setdefault(one.namespace, []).append(one)
        for pod in there:
            self._quotas.count(pod)

    def admit(self, pod: Pod, submission: Submission) -> Pod | Denial:
        """The pod as it is stored, or the denial."""
        refused = self._terminating(pod)
        if refused is not None:
            return refused
        ranges = self._ranges.get(pod.namespace, ())
        changed = self._changed(with_limit_range_defaults(pod, ranges), submission, ranges)
        if isinstance(changed, Denial):
            return changed
        defaulted = (changed.containers, changed.init_containers) != (pod.containers, pod.init_containers)
        denial = (
            (check_resources(changed, self._kubelet) if defaulted else None)
            or check_huge_pages(changed)
            or check_limits(changed, ranges, self._kubelet)
            or self._quotas.admit(changed, submission)
        )
        return denial or replace(changed, submission=None)

    def _changed(self, pod: Pod, submission: Submission, ranges: Sequence[LimitRange]) -> Pod | Denial:
        outcome = admit_priority(pod, submission)
        if isinstance(outcome, Denial):
            return outcome
        outcome = admit_runtime_class(outcome, submission)
        if isinstance(outcome, Denial) or not submission.cluster.recommendations:
            return outcome
        autoscaler = autoscaler_of(pod, submission.cluster)
        return outcome if autoscaler is None else with_recommendation(outcome, autoscaler, ranges)

    def _terminating(self, pod: Pod) -> Denial | None:
        for one in self._cluster.namespaces:
            if one.name == pod.namespace and one.terminating:
                error = f"unable to create new content in namespace {one.name} because it is being terminated"
                rule = "a namespace that is being deleted takes no new pods"
                named = Input("Namespace", one.name, one.origin)
                return forbidden(pod, error, plugin="plugin NamespaceLifecycle", rule=rule, inputs=(named,))
        return None

    def contested(self, pod: Pod) -> list[Remark]:
        """Defaults of an admitted pod that depend on the order of LimitRanges."""
        about = f"LimitRanges of namespace {pod.namespace}"
        return [Remark(about, "", what) for what in contested_defaults(pod, self._ranges.get(pod.namespace, ()))]

    def remarks(self, pod: Pod, submission: Submission) -> Iterator[Remark]:
        """Notes about unknown values of an admitted pod."""
        for quota, what in self._quotas.unknown(pod, submission):
            yield Remark(f"ResourceQuota {quota.namespace}/{quota.name}", quota.origin, what)
        if pod.ephemeral_containers:
            what = "the API server accepts ephemeral containers only for a running pod; they are planned as added later"
            yield Remark(f"pod {pod.namespace}/{pod.name}", pod.file, what)
        for one in self._cluster.autoscalers:
            applied = self._cluster.recommendations and one.recommendations is not None
            if not applied and targets(one, pod):
                about = f"VerticalPodAutoscaler {one.namespace}/{one.name}"
                yield Remark(about, one.origin, what_it_may_change(one))
