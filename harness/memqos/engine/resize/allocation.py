"""Acceptance of a resize: by the API server, then by the kubelet.

API server: rejected changes never reach the kubelet.

Source: kube-apiserver `validation.ValidatePodResize` (1.32 and later, subresource resize), `ValidatePodUpdate` before.

Kubelet: a resize is infeasible, deferred, or allocated; several are tried in a fixed order.

Sources: kubelet `Kubelet.canResizePod` (1.27 to 1.33), `allocation.manager` (1.34 and later),
`podResizesAdmitHandler` (1.36). From 1.36 on there is no check against the node's allocatable: a resize that can never
fit is deferred like any other that does not fit now.

Containers: which are updated, in which order, and which are recreated.

The kubelet compares memory in bytes, cpu in thousandths, 0 for a missing amount. Source: kubelet
`computePodResizeAction`. The last applied amounts are the allocated ones, since one resize ends before the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import status_allocatable
from memqos.engine.plan import Input, Reason
from memqos.engine.pod.qos import pod_qos
from memqos.engine.pod.sums import amount, pod_level_set, pod_requests
from memqos.engine.releases.gates import enabled, stage
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import STAGES, Family, Gate, Novelty
from memqos.engine.resize.outcome import Activity, ResizeOutcome
from memqos.engine.swap import SwapCase, swaps
from memqos.model.pod import Container, ContainerKind, Pod, QosClass, ResizePolicy, ResourceList, Resources
from memqos.model.quantity import Quantity

__all__ = [
    "RESIZABLE",
    "Amounts",
    "Changes",
    "ContainerResize",
    "ResizeDecision",
    "changes_of",
    "changes_pod_level",
    "comes_back",
    "increases_requests",
    "kubelet_decision",
    "pending_order",
    "resize_decision",
    "resources_of",
]

RESIZABLE = ("cpu", "memory")
"""The resources that a resize may change."""


def objection(old: Pod, new: Pod, kubelet: Kubelet) -> str:
    """The API server's first error for a change from `old` to `new`; "" if it has none."""
    if stage(Gate.RESIZE, kubelet.release) is None:
        first = Release(STAGES[Gate.RESIZE][0].since)
        return f"pod updates may not change resources in {kubelet.release}: in-place resize begins with {first}"
    return next(_objections(old, new, kubelet), "")


def is_resizable(container: Container, kubelet: Kubelet) -> bool:
    """Whether containers of this kind can be resized: app containers, sidecars from 1.33, init containers from 1.36."""
    match container.kind:
        case ContainerKind.APP:
            return True
        case ContainerKind.SIDECAR:
            return kubelet.release.has(Novelty.RESIZE_SIDECARS)
        case ContainerKind.INIT:
            return enabled(Gate.RESIZE_INIT_CONTAINERS, kubelet.release, kubelet.settings.feature_gates)
        case _:
            return False


def _objections(old: Pod, new: Pod, kubelet: Kubelet) -> Iterator[str]:
    release = kubelet.release
    on = enabled(Gate.RESIZE, release, kubelet.settings.feature_gates)
    if not on and not release.has(Novelty.RESIZE_PAST_GATE):
        yield f"pod updates may not change resources while the gate {Gate.RESIZE} is off"
    yield from _pod_level(old, new, kubelet)
    if release.has(Novelty.RESIZE_SUBRESOURCE) and old.static:
        yield "static pods cannot be resized"
    yield from _order(old, new)
    if pod_qos(old, pod_level=kubelet.pod_level) is not pod_qos(new, pod_level=kubelet.pod_level):
        yield "Pod QOS Class may not change as a result of resizing"
    for was, now in zip(old.all_containers, new.all_containers, strict=False):
        yield from _container(was, now, kubelet)
    if _bare_pod(old) != _bare_pod(new):
        yield "only cpu and memory resources are mutable"


def _pod_level(old: Pod, new: Pod, kubelet: Kubelet) -> Iterator[str]:
    if not (pod_level_set(old) or pod_level_set(new)) or not kubelet.release.has(Novelty.RESIZE_SUBRESOURCE):
        return
    if not enabled(Gate.RESIZE_POD_LEVEL, kubelet.release, kubelet.settings.feature_gates):
        if stage(Gate.RESIZE_POD_LEVEL, kubelet.release):
            yield f"resize of pods with pod-level resources is forbidden while the gate {Gate.RESIZE_POD_LEVEL} is off"
        yield "pods with pod-level resources cannot be resized"
    if new.resources is None:
        yield "pod-level resources cannot be removed"
    was, now = (one.resources or Resources() for one in (old, new))
    if _removed(was.requests, now.requests):
        yield "pod-level resource requests cannot be removed"
    if _removed(was.limits, now.limits):
        yield "pod-level resource limits cannot be removed"
    if _others(was) != _others(now):
        yield "only cpu and memory resources are mutable at pod-level"


def _order(old: Pod, new: Pod) -> Iterator[str]:
    for field, was, now in (
        ("containers", old.containers, new.containers),
        ("initContainers", old.init_containers, new.init_containers),
    ):
        if len(was) != len(now):
            yield f"{field} may not be added or removed on resize"
        elif [one.name for one in was] != [one.name for one in now]:
            yield f"{field} may not be renamed or reordered on resize"


def _container(old: Container, new: Container, kubelet: Kubelet) -> Iterator[str]:
    if not is_resizable(old, kubelet) and replace(old, resize_policy={}) != replace(new, resize_policy={}):
        yield "resources for non-sidecar init containers are immutable"
    was, now = old.resources, new.resources
    if kubelet.release.has(Novelty.RESIZE_SUBRESOURCE):
        if _removed(was.requests, now.requests):
            yield "resource requests cannot be removed"
        if _removed(was.limits, now.limits):
            yield "resource limits cannot be removed"
    if kubelet.release.has(Novelty.RESIZE_LIMITS_KEPT) and not kubelet.release.has(Novelty.RESIZE_DECREASES):
        yield from _lowered(old, new)
    if _others(was) != _others(now) or _bare(old) != _bare(new):
        yield "only cpu and memory resources are mutable"
    if old.kind is ContainerKind.INIT and was != now and ResizePolicy.RESTART_CONTAINER in new.resize_policy.values():
        yield "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"


def _lowered(old: Container, new: Container) -> Iterator[str]:
    """Only 1.33: memory limits are lowered, and added, only with a restart of the container."""
    if new.resize_policy.get("memory") is ResizePolicy.RESTART_CONTAINER or "memory" not in new.resources.limits:
        return
    if "memory" not in old.resources.limits:
        yield "memory limits cannot be added unless resizePolicy is RestartContainer"
    elif new.resources.limits["memory"] < old.resources.limits["memory"]:
        yield "memory limits cannot be decreased unless resizePolicy is RestartContainer"


def _bare_pod(pod: Pod) -> Pod:
    return replace(pod, containers=(), init_containers=(), resources=None, uid="")


def _bare(container: Container) -> Container:
    return replace(container, resources=Resources(), resize_policy={})


def _removed(old: ResourceList, new: ResourceList) -> bool:
    return any(name not in new for name in old)


def _others(resources: Resources) -> tuple[ResourceList, ResourceList]:
    """The fields that a resize must not change."""
    requests, limits = (
        {name: value for name, value in amounts.items() if name not in RESIZABLE}
        for amounts in (resources.requests, resources.limits)
    )
    return requests, limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeDecision:
    """The decision about a resize before actuation; message: the kubelet's or API server's."""

    outcome: ResizeOutcome
    message: str
    reason: Reason


def pending_order(resizes: Sequence[tuple[Pod, Pod]], kubelet: Kubelet) -> list[tuple[Pod, Pod]]:
    """Pairs of (allocated, desired) in the kubelet's order.

    From 1.34 on: resizes that raise no request first, then by priority, Guaranteed before Burstable, then by waiting
    time, which is the order given. Before, the pods' workers handle them as they arrive.
    """
    if not kubelet.release.has(Novelty.RESIZE_QUEUE):
        return list(resizes)

    def rank(pair: tuple[Pod, Pod]) -> tuple[bool, int, bool]:
        old, new = pair
        if not increases_requests(old, new, kubelet):
            return False, 0, False
        guaranteed = pod_qos(new, pod_level=kubelet.pod_level) is QosClass.GUARANTEED
        return True, -(new.priority or 0), not guaranteed

    return sorted(resizes, key=rank)


def increases_requests(old: Pod, new: Pod, kubelet: Kubelet) -> bool:
    """Whether the whole pod requests more cpu or more memory than before."""
    was, now = (pod_requests(pod, pod_level=kubelet.pod_level) for pod in (old, new))
    return any(amount(now, name) > amount(was, name) for name in ("memory", "cpu"))


def resize_decision(old: Pod, new: Pod, others: Iterable[Pod], kubelet: Kubelet) -> ResizeDecision:
    """The kubelet's decision about one pod; others: every other pod of the node, with its allocated resources."""
    if _same(old, new):
        return _decision(
            kubelet, ResizeOutcome.UNCHANGED, "", "nothing to resize: the desired resources are already allocated"
        )
    refused = objection(old, new, kubelet)
    if refused:
        rule = "the API server rejects the change, so the kubelet never sees it"
        return _decision(kubelet, ResizeOutcome.FORBIDDEN, refused, rule, source="kube-apiserver ValidatePodResize")
    return kubelet_decision(old, new, others, kubelet)


def kubelet_decision(old: Pod, new: Pod, others: Iterable[Pod], kubelet: Kubelet) -> ResizeDecision:
    """The kubelet's decision about a change that the API server accepted."""
    if old.static and not kubelet.release.has(Novelty.RESIZE_CONDITIONS):
        return _decision(
            kubelet, ResizeOutcome.IGNORED, "", "the kubelet ignores resizes of static pods without a message"
        )
    infeasible = _infeasible(old, new, kubelet)
    if infeasible is not None:
        rule = "the kubelet never carries out such a resize"
        return _decision(kubelet, ResizeOutcome.INFEASIBLE, infeasible, rule)
    message, inputs = _deferred(new, others, kubelet)
    if message:
        rule = "the node has no room for it with the other pods: the kubelet tries again later"
        said = message if kubelet.release.has(Novelty.RESIZE_SAYS_WHY) else ""
        return _decision(kubelet, ResizeOutcome.DEFERRED, said, rule, inputs=inputs)
    return _decision(
        kubelet, ResizeOutcome.IN_PROGRESS, "", "the resize fits on the node with the other pods", inputs=inputs
    )


def _decision(
    kubelet: Kubelet,
    outcome: ResizeOutcome,
    message: str,
    rule: str,
    *,
    inputs: tuple[Input, ...] = (),
    source: str = "kubelet allocation.manager, canResizePod",
) -> ResizeDecision:
    return ResizeDecision(
        outcome=outcome,
        message=message,
        reason=Reason(rule=rule, revision=kubelet.revisions[Family.RESIZE], source=source, inputs=inputs),
    )


def _same(old: Pod, new: Pod) -> bool:
    return old.resources == new.resources and [one.resources for one in old.all_containers] == [
        one.resources for one in new.all_containers
    ]


def _infeasible(old: Pod, new: Pod, kubelet: Kubelet) -> str | None:
    """The kubelet's message for an infeasible resize ("" if it is only logged); None if it is feasible."""
    release, gates = kubelet.release, kubelet.settings.feature_gates
    if not enabled(Gate.RESIZE, release, gates):
        return f"{Gate.RESIZE} is disabled"
    if new.static and not release.has(Novelty.RESIZE_STATIC_UNCHECKED):
        return "In-place resize of static-pods is not supported"
    if release.has(Novelty.RESIZE_CONDITIONS) and _recalculates_swap(old, new, kubelet):
        return "In-place resize of containers with swap is not supported."
    if pod_qos(new, pod_level=kubelet.pod_level) is QosClass.GUARANTEED and release.has(Novelty.RESIZE_SAYS_WHY):
        pinned = _pinned(old, new, kubelet)
        if pinned:
            return pinned
    return None if release.has(Novelty.RESIZE_ANY_SIZE) else _too_large(new, kubelet)


def _too_large(new: Pod, kubelet: Kubelet) -> str | None:
    release = kubelet.release
    requests = pod_requests(new, pod_level=kubelet.pod_level)
    whole = kubelet.allocatable if release.has(Novelty.RESIZE_OWN_ALLOCATABLE) else status_allocatable(kubelet)
    for name in ("memory", "cpu"):
        wanted, there = _counted(requests, name), _counted(whole, name)
        if wanted > there:
            text = f"Node didn't have enough capacity: {name}, requested: {wanted}, capacity: {there}"
            return text if release.has(Novelty.RESIZE_SAYS_WHY) else ""
    return None


def _recalculates_swap(old: Pod, new: Pod, kubelet: Kubelet) -> bool:
    """Whether a container with swap changes its memory request, and so its share of the swap, without a restart."""
    for was, now in zip(old.all_containers, new.all_containers, strict=True):
        restarts = was.resize_policy.get("memory") is ResizePolicy.RESTART_CONTAINER
        if amount(was.resources.requests, "memory") == amount(now.resources.requests, "memory") or restarts:
            continue
        for pod, container in ((old, was), (new, now)):
            qos = pod_qos(pod, pod_level=kubelet.pod_level)
            if swaps(SwapCase(pod=pod, qos=qos, container=container, kubelet=kubelet, memory_limit=0)):
                return True
    return False


def _pinned(old: Pod, new: Pod, kubelet: Kubelet) -> str:
    """Why a Guaranteed pod with exclusive CPUs or NUMA nodes cannot be resized, "" if it can."""
    release, gates, settings = kubelet.release, kubelet.settings.feature_gates, kubelet.settings
    by_gate = release.has(Novelty.RESIZE_BY_RESOURCE)
    text = "Resize is infeasible for Guaranteed Pods alongside"
    for name, manager, policy, static, gate in (
        ("cpu", "CPU Manager", settings.cpu_manager_policy, "static", Gate.RESIZE_EXCLUSIVE_CPUS),
        ("memory", "Memory Manager", settings.memory_manager_policy, "Static", Gate.RESIZE_EXCLUSIVE_MEMORY),
    ):
        # 1.32 compares the Memory Manager's policy with a name that it never has, so it never objects.
        unseen = name == "memory" and not release.has(Novelty.RESIZE_CONDITIONS)
        if policy != static or unseen:
            continue
        if not by_gate and not enabled(Gate.RESIZE_EXCLUSIVE_CPUS, release, gates):
            return f"{text} {manager} static policy"
        if by_gate and not enabled(gate, release, gates) and _changes(old, new, name, kubelet):
            return f'{text} {manager} policy "{policy}"'
    return ""


def _changes(old: Pod, new: Pod, name: str, kubelet: Kubelet) -> bool:
    return any(
        amount(was.resources.requests, name) != amount(now.resources.requests, name)
        for was, now in zip(old.all_containers, new.all_containers, strict=True)
        if is_resizable(now, kubelet)
    )


def _counted(amounts: Mapping[str, Quantity], name: str) -> int:
    """An amount as the kubelet compares it: memory in bytes, cpu in thousandths."""
    return amount(amounts, name).value if name == "memory" else amount(amounts, name).milli_value


def _deferred(new: Pod, others: Iterable[Pod], kubelet: Kubelet) -> tuple[str, tuple[Input, ...]]:
    """The message if the node has no room now, "" if it has, and its numbers. Source: scheduler NodeResourcesFit."""
    wanted = pod_requests(new, pod_level=kubelet.pod_level)
    taken = [pod_requests(pod, pod_level=kubelet.pod_level) for pod in others]
    whole = status_allocatable(kubelet)
    message, inputs = "", []
    for name in ("cpu", "memory"):
        asked, there = _counted(wanted, name), _counted(whole, name)
        used = sum(_counted(one, name) for one in taken)
        inputs += [
            Input(f"{name} requested", str(asked), "desired pod"),
            Input(f"{name} of other pods", str(used), "allocated pods"),
            Input(f"{name} allocatable", str(there), "Node.status.allocatable"),
        ]
        if asked and asked > there - used and not message:
            message = f"Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {there}"
    return message, tuple(inputs)


_ALL_RUN: Mapping[str, Activity] = {}
_LEAST_CPU_REQUEST, _LEAST_CPU_LIMIT = 2, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """A container's requests and limits: memory in bytes, cpu in thousandths; 0 for none."""

    memory_request: int = 0
    memory_limit: int = 0
    cpu_request: int = 0
    cpu_limit: int = 0

    def of(self, resource: str) -> tuple[int, int]:
        """(request, limit) of "memory" or "cpu"."""
        memory = resource == "memory"
        return (self.memory_request, self.memory_limit) if memory else (self.cpu_request, self.cpu_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResize:
    """A running container whose resources change. current, desired: before and after the whole resize."""

    container: Container
    current: Amounts
    desired: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """restarted: containers stopped first and started last; updated: resource to containers, in order.

    started: containers that did not run and are recreated after the resize. The kubelet skips containers that do not
    run: they cause no write at the pod (kubernetes#138760). Containers that stay ended are in none of these.

    The order of updates: lowered amounts (last container first) before raised ones.
    """

    restarted: tuple[ContainerResize, ...] = ()
    updated: Mapping[str, tuple[ContainerResize, ...]]
    started: tuple[ContainerResize, ...] = ()

    def touches(self, resource: str) -> bool:
        """Whether the kubelet checks the pod's amount of this resource: a restart makes it check both."""
        return bool(self.updated.get(resource) or self.restarted)


def changes_of(old: Pod, new: Pod, kubelet: Kubelet, activities: Mapping[str, Activity] = _ALL_RUN) -> Changes:
    """The changes from `old`, which runs, to `new`; regular init containers have ended.

    activities: by name, for containers that do not run.
    """
    restarted: list[ContainerResize] = []
    started: list[ContainerResize] = []
    updated: dict[str, list[ContainerResize]] = {"memory": [], "cpu": []}
    for was, now in zip(old.init_containers + old.containers, new.init_containers + new.containers, strict=True):
        change = _change(was, now, old, new, kubelet)
        if change is None:
            continue
        activity = activities.get(now.name, Activity.RUNNING)
        if activity is not Activity.RUNNING:
            started += [change] if comes_back(activity, now, new) else []
            continue
        kinds = {resource: _kind(change, resource, kubelet) for resource in RESIZABLE}
        if any(kinds[one] and now.resize_policy.get(one) is ResizePolicy.RESTART_CONTAINER for one in RESIZABLE):
            restarted.append(change)
            continue
        for resource, direction in kinds.items():
            if direction > 0:
                updated[resource].append(change)
            elif direction < 0:
                updated[resource].insert(0, change)
    return Changes(
        restarted=tuple(restarted),
        updated={name: tuple(found) for name, found in updated.items()},
        started=tuple(started),
    )


def comes_back(activity: Activity, container: Container, pod: Pod) -> bool:
    """Whether a container that does not run is restarted; a sidecar always is."""
    if container.kind is ContainerKind.SIDECAR or pod.restart_policy == "Always":
        return True
    return activity is Activity.CRASH_LOOPING and pod.restart_policy != "Never"


def changes_pod_level(old: Pod, new: Pod, kubelet: Kubelet) -> bool:
    """Whether pod-level resources change in place (1.35 and later, behind a gate)."""
    on = enabled(Gate.RESIZE_POD_LEVEL, kubelet.release, kubelet.settings.feature_gates)
    return on and old.resources != new.resources


def resources_of(amounts: Amounts) -> Resources:
    """The resources behind an update's message: every key is present, even with zero."""
    return Resources(
        requests={
            "cpu": Quantity.parse(f"{amounts.cpu_request}m"),
            "memory": Quantity.of_bytes(amounts.memory_request),
        },
        limits={"cpu": Quantity.parse(f"{amounts.cpu_limit}m"), "memory": Quantity.of_bytes(amounts.memory_limit)},
    )


def _change(was: Container, now: Container, old: Pod, new: Pod, kubelet: Kubelet) -> ContainerResize | None:
    release = kubelet.release
    not_resized = {ContainerKind.INIT, *(() if release.has(Novelty.RESIZE_SIDECARS) else {ContainerKind.SIDECAR})}
    if was.kind in not_resized:
        return None
    if not release.has(Novelty.RESIZE_WITHOUT_LIMITS) and not now.resources.limits:
        return None
    current, desired = _amounts(was, old, kubelet), _amounts(now, new, kubelet)
    if release.has(Novelty.RESIZE_READS_BACK) and not release.has(Novelty.RESIZE_EXACT_AMOUNTS):
        desired = _as_effective(current, desired)
    return None if current == desired else ContainerResize(container=now, current=current, desired=desired)


def _amounts(container: Container, pod: Pod, kubelet: Kubelet) -> Amounts:
    requests, limits = container.resources.requests, dict(container.resources.limits)
    if enabled(Gate.RESIZE_POD_LEVEL, kubelet.release, kubelet.settings.feature_gates) and pod.resources is not None:
        for name in RESIZABLE:
            if amount(limits, name).is_zero and name in pod.resources.limits:
                limits[name] = pod.resources.limits[name]
    return Amounts(
        memory_request=amount(requests, "memory").value,
        memory_limit=amount(limits, "memory").value,
        cpu_request=amount(requests, "cpu").milli_value,
        cpu_limit=amount(limits, "cpu").milli_value,
    )


def _as_effective(current: Amounts, desired: Amounts) -> Amounts:
    """1.32 reads the amounts back from the runtime, and treats amounts as equal if the kernel does."""
    if max(current.cpu_request, desired.cpu_request) <= _LEAST_CPU_REQUEST:
        desired = replace(desired, cpu_request=current.cpu_request)
    if max(current.cpu_limit, desired.cpu_limit) <= _LEAST_CPU_LIMIT:
        desired = replace(desired, cpu_limit=current.cpu_limit)
    return desired


def _kind(change: ContainerResize, resource: str, kubelet: Kubelet) -> int:
    """1 for a raised resource, -1 for a lowered one, 0 for an unchanged one; the limit decides before the request."""
    (old_request, old_limit), (new_request, new_limit) = change.current.of(resource), change.desired.of(resource)
    if old_limit != new_limit:
        return 1 if new_limit > old_limit else -1
    if resource == "memory" and not kubelet.release.has(Novelty.RESIZE_MEMORY_REQUESTS):
        return 0
    return (new_request > old_request) - (new_request < old_request)
