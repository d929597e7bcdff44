"""Actuation of a resize: the kubelet's steps, and its errors.

Reading a pod's cgroup back, and the message of UpdatePodSandboxResources.

Source: kubelet `GetPodCgroupConfig`, `mergeResourceConfig`, `subtractOverheadFromResourceConfig`.

Errors of an allocated resize: limits below current usage, or missing ones.

Source: kubelet `doPodResizeAction` (up to 1.33), `validateMemoryResizeAction` (1.34 and later).

Steps: memory first, then cpu.

For each: the pod's limit and then its request if they grow, the containers (lowered ones before raised ones), the pod's
request and then its limit if they shrink; so the containers' limits always fit below the pod's. Containers that a
resize restarts are stopped first and started last.

Memory QoS of the pod's cgroup (memory.min, memory.low, and memory.high with pod-level limits), by variant:

- shipped: up to 1.36 no resize writes it. 1.37.0 includes it in the write of the pod's memory limit; a change of the
  request alone writes nothing at the pod (kubernetes#142572).
- mended: the code after 1.37.0. A change of the request alone is one write, before the containers unless the protection
  shrinks; a change of the limit includes it as in 1.37.0.
- documented: by KEP-2570 the next reconciliation recomputes it.

Source: kubelet `doPodResizeAction`, `updatePodContainerResources`, `SetPodCgroupConfig`, 1.27 to 1.36; of 1.37
kubernetes pull request 140262, for the mended code `readCgroupMemoryQoSConfig` and
`TestDoPodResizeActionRequestOnlyMemoryResizeUpdatesPodMemoryLow`, which came with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from memqos.engine.cgroup.cpu import (
    milli_to_quota,
    milli_to_shares,
    shares_to_milli,
    shares_to_weight,
    weight_to_shares,
)
from memqos.engine.cgroup.kubelet_writes import hugetlb_rulings, quota_rulings, share_rulings
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Input, PlannedPod, Reason, Ruling, Rulings, expected
from memqos.engine.pod.cgroup import PodConfig, pod_config, request_container
from memqos.engine.pod.sums import amount
from memqos.engine.releases.release import Variant
from memqos.engine.releases.table import Family, Novelty
from memqos.engine.resize.allocation import Amounts, Changes, ContainerResize, resources_of
from memqos.engine.resize.outcome import ResizeStep, StepKind, Usage
from memqos.engine.translate.container_files import made_files, updated_files
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.specification import reach_of_update
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Absent, Bytes, CpuMax, Knob, KnobValue, Number
from memqos.model.node import CgroupDriver
from memqos.model.pod import Pod, QosClass
from memqos.model.reading import read_back

__all__ = ["Actuation", "hindrance", "without_overhead"]

NO_LIMIT = -1
"""The kubelet's number for "max" in memory.max or cpu.max, and for -1 in cpu.cfs_quota_us."""


def held_number(value: KnobValue) -> int:
    """The number in a file: bytes, µs of quota, a weight; NO_LIMIT for the word "max" and for -1."""
    match value:
        case Bytes(count) | Number(count):
            return count
        case CpuMax(quota=int() as quota):
            return quota
        case _:
            return NO_LIMIT


def held_by(pod: PlannedPod) -> ContainerResources:
    """The limits and shares of a pod's cgroup as a message; shares from a weight differ from the original ones."""
    found = ContainerResources()
    for knob, one in pod.cgroup.knobs.items():
        found = _with(found, knob, one.value)
    return found


def merged(held: ContainerResources, rulings: Rulings, shares: int) -> ContainerResources:
    """The cgroup's values after these files are written; shares: those behind a weight among them."""
    for knob, ruling in rulings.items():
        held = replace(held, cpu_shares=shares) if knob is Knob.CPU_WEIGHT else _with(held, knob, ruling.written)
    return held


def without_overhead(held: ContainerResources, pod: Pod) -> ContainerResources:
    """The part for the pod's containers; the overhead is subtracted even from a missing limit (-1).

    Fields that are not specified (0) stay so.
    """
    if "cpu" in pod.overhead:
        milli = amount(pod.overhead, "cpu").milli_value
        if held.cpu_period:
            held = replace(held, cpu_quota=held.cpu_quota - milli_to_quota(milli, held.cpu_period))
        if held.cpu_shares:
            held = replace(held, cpu_shares=milli_to_shares(shares_to_milli(held.cpu_shares) - milli))
    if "memory" in pod.overhead and held.memory_limit_in_bytes:
        left = held.memory_limit_in_bytes - amount(pod.overhead, "memory").value
        held = replace(held, memory_limit_in_bytes=left)
    return held


def _with(held: ContainerResources, knob: Knob, value: KnobValue) -> ContainerResources:
    number = held_number(value)
    match knob:
        case Knob.MEMORY_MAX | Knob.MEMORY_LIMIT_IN_BYTES:
            held = replace(held, memory_limit_in_bytes=number)
        case Knob.CPU_WEIGHT:
            held = replace(held, cpu_shares=weight_to_shares(number))
        case Knob.CPU_SHARES:
            held = replace(held, cpu_shares=number)
        case Knob.CPU_MAX | Knob.CPU_CFS_QUOTA_US:
            held = replace(held, cpu_quota=number)
        case Knob.CPU_CFS_PERIOD_US:
            held = replace(held, cpu_period=number)
        case _:
            pass
    return replace(held, cpu_period=value.period) if isinstance(value, CpuMax) else held


def hindrance(new: Pod, *, qos: QosClass, before: PlannedPod, changes: Changes, usage: Usage, kubelet: Kubelet) -> str:
    """The kubelet's error when it carries the resize out; "" if none is known.

    Unknown usage causes no error.
    """
    config, name = pod_config(new, qos, kubelet), f'"{new.name}_{new.namespace}({new.uid})"'
    release = kubelet.release
    if not release.has(Novelty.RESIZE_WITHOUT_LIMITS):
        if changes.touches("memory") and config.memory is None:
            return f"podResources.Memory is nil for pod {new.name}"
        if changes.touches("cpu") and config.cpu_quota is None:
            return f"podResources.CPUQuota or podResources.CPUShares is nil for pod {new.name}"
    if not changes.touches("memory"):
        return ""
    if release.has(Novelty.RESIZE_DECREASES):
        return _decreases(config, before, changes, usage, kubelet)
    if usage.pod is not None and config.memory is not None and usage.pod >= config.memory:
        subject = name if release.has(Novelty.RESIZE_FULL_NAME) else new.name
        return f"aborting attempt to set pod memory limit less than current memory usage for pod {subject}"
    return ""


def _decreases(config: PodConfig, before: PlannedPod, changes: Changes, usage: Usage, kubelet: Kubelet) -> str:
    """1.34 and later: a lowered or added limit must be above current usage."""
    found = []
    now = held_number(before.cgroup.knobs[kubelet.files.memory_limit].value)
    wanted = config.memory
    if wanted is not None and wanted < now and usage.pod is not None and usage.pod >= wanted:
        found.append(f"attempting to set pod memory limit ({wanted}) below current usage ({usage.pod})")
    for change in changes.updated["memory"]:
        name, new, old = change.container.name, change.desired.memory_limit, change.current.memory_limit
        used = usage.containers.get(name)
        if new and (old == 0 or new < old) and used is not None and used >= new:
            # The kubelet prints the pod's usage here instead of the container's.
            shown = used if usage.pod is None else usage.pod
            found.append(f'attempting to set container "{name}" memory limit ({new}) below current usage ({shown})')
    if not found:
        return ""
    return "cannot decrease memory limits: " + (found[0] if len(found) == 1 else f"[{', '.join(found)}]")


_SOURCE = "kubelet doPodResizeAction"
_PROTECTS = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)


class Actuation:
    """One pod's resize from `before`, as planned and running, to the resources of `new`."""

    def __init__(self, new: Pod, qos: QosClass, before: PlannedPod, changes: Changes, kubelet: Kubelet) -> None:
        self._pod = new
        self._qos = qos
        self._before = before
        self._changes = changes
        self._kubelet = kubelet
        self._config = pod_config(new, qos, kubelet)
        self._revision = kubelet.revisions[Family.RESIZE]
        self._held = {one.container.name: one.current for one in (*changes.updated["memory"], *changes.updated["cpu"])}
        self._sandbox = held_by(before)
        self._reach = _reach(kubelet.serving(new.runtime_class_name, new.runtime_handler).runtimes)

    def steps(self, *, pod_level: bool) -> Iterator[ResizeStep]:
        """Every step; pod_level: pod-level resources change too, so that both resources are checked."""
        for change in self._changes.restarted:
            yield self._restart(StepKind.STOP_CONTAINER, change, "it is recreated: its resizePolicy requires a restart")
        for resource in ("memory", "cpu"):
            if self._changes.touches(resource) or pod_level:
                yield from self._resource(resource)
        yield from self._reconciled()
        for change in self._changes.restarted:
            yield self._restart(StepKind.START_CONTAINER, change, "it starts with its new resources")
        for change in self._changes.started:
            rule = "it was not running, so the resize skipped it; it is recreated with its new resources"
            yield self._restart(StepKind.START_CONTAINER, change, rule)

    def _restart(self, kind: StepKind, change: ContainerResize, rule: str) -> ResizeStep:
        name = change.container.name
        message, knobs = None, dict[Knob, Expected]()
        if kind is StepKind.START_CONTAINER:
            message, knobs = self._container(name, change.desired, made=True)
        reason = Reason(
            rule=f"container {name}: {rule}", revision=self._revision, source="kubelet computePodResizeAction, SyncPod"
        )
        return ResizeStep(
            kind=kind, resource="", path=self._before.cgroup.path, container=name, message=message, knobs=knobs,
            reason=reason,
        )  # fmt: skip

    def _resource(self, resource: str) -> Iterator[ResizeStep]:
        limits, requests = self._limits(resource), self._requests(resource)
        if limits[1] > limits[0]:
            yield from self._write(resource, self._limit_rulings(resource), "limit", "grows", limits)
        if requests[1] > requests[0]:
            yield from self._write(resource, self._request_rulings(), "request", "grows", requests)
        alone = resource == "memory" and limits[0] == limits[1] and self._mends()
        protected = self._protected()
        if alone and protected[1] >= protected[0]:
            how = "grows" if protected[1] > protected[0] else "changes"
            yield from self._write(resource, self._config.protection, "request", how, protected)
        for change in self._changes.updated[resource]:
            yield self._update(resource, change)
        if alone and protected[1] < protected[0]:
            yield from self._write(resource, self._config.protection, "request", "shrinks", protected)
        shrinking = []
        if requests[1] < requests[0]:
            shrinking.append((self._request_rulings(), "request", requests))
        if limits[1] < limits[0]:
            shrinking.append((self._limit_rulings(resource), "limit", limits))
        if not self._kubelet.release.has(Novelty.RESIZE_REQUESTS_FIRST):
            shrinking.reverse()
        for rulings, what, numbers in shrinking:
            yield from self._write(resource, rulings, what, "shrinks", numbers)

    def _limits(self, resource: str) -> tuple[int, int]:
        """The pod's limit in its file, and the wanted one; -1 is none on cgroup v2, as the kubelet reads it."""
        files, knobs = self._kubelet.files, self._before.cgroup.knobs
        if resource == "memory":
            now = held_number(knobs[files.memory_limit].value)
            return now, self._config.memory or now
        now = held_number(knobs[files.cpu_limit[0]].value)
        return now, now if self._config.cpu_quota is None else self._config.cpu_quota

    def _requests(self, resource: str) -> tuple[int, int]:
        """The value for the pod's request: shares for cpu; nothing for memory, in every release."""
        kubelet, config = self._kubelet, self._config
        if resource == "memory":
            return 0, 0
        shares = self._before.cgroup.knobs[kubelet.files.cpu_share].value
        if not kubelet.v2:
            return held_number(shares), config.cpu_shares
        weight = held_number(shares)
        if kubelet.release.has(Novelty.RESIZE_LOSSY_WEIGHT) and shares_to_weight(config.cpu_shares) == weight:
            return config.cpu_shares, config.cpu_shares
        return weight_to_shares(weight), config.cpu_shares

    def _mends(self) -> bool:
        """Whether the pod's memory QoS gets a write of its own: the fix after 1.37.0, if the values differ."""
        kubelet = self._kubelet
        mended = kubelet.variant is Variant.MENDED and kubelet.release.has(Novelty.RESIZE_MEMORY_QOS)
        return mended and bool(self._outdated())

    def _outdated(self) -> Rulings:
        """The pod's memory QoS entries that differ from its cgroup."""
        page, held = self._kubelet.node.page_size, self._before.cgroup.knobs
        return {
            knob: ruling
            for knob, ruling in self._config.protection.items()
            if ruling.written is not ABSENT and read_back(knob, ruling.written, page) != held[knob].value
        }

    def _protected(self) -> tuple[int, int]:
        """The memory that the pod's cgroup protects now, and should protect; 0 for none."""
        page, held = self._kubelet.node.page_size, self._before.cgroup.knobs
        entries = {knob: self._config.protection[knob] for knob in _PROTECTS if knob in self._config.protection}
        return (
            max((held_number(held[knob].value) for knob in entries), default=0),
            max((held_number(read_back(knob, one.written, page)) for knob, one in entries.items()), default=0),
        )

    def _reconciled(self) -> Iterator[ResizeStep]:
        """The write of the next reconciliation by the text of KEP-2570; the kubelet's code has no such step."""
        kubelet, outdated = self._kubelet, self._outdated()
        if kubelet.variant is not Variant.DOCUMENTED or not outdated:
            return
        rule = "the pod's memory QoS is recomputed in the next reconciliation"
        reason = Reason(rule=rule, revision=self._revision, source="KEP-2570 (2026), in-place resize")
        yield ResizeStep(
            kind=StepKind.POD_CGROUP, resource="memory", path=self._before.cgroup.path, reason=reason,
            knobs=_planned(outdated, kubelet),
        )  # fmt: skip

    def _limit_rulings(self, resource: str) -> Rulings:
        config, kubelet = self._config, self._kubelet
        if resource == "memory":
            limit = Ruling(Bytes(config.memory or 0), lambda: _bare("the pod's memory limit", kubelet))
            along = kubelet.release.has(Novelty.RESIZE_MEMORY_QOS) and kubelet.variant is not Variant.DOCUMENTED
            return {kubelet.files.memory_limit: limit, **(config.protection if along else {})}
        return quota_rulings(kubelet, config.cpu_quota or NO_LIMIT, config.cpu_period or kubelet.cfs_period)

    def _request_rulings(self) -> Rulings:
        config, kubelet = self._config, self._kubelet
        shares = share_rulings(kubelet, config.cpu_shares, "1024 per CPU that the pod requests, at least 2")
        if kubelet.v2 or kubelet.release.has(Novelty.RESIZE_THROUGH_LIBCONTAINER) or config.cpu_period is None:
            return shares
        # The alpha writes the period together with the shares, if they are separate files.
        period = Ruling(Number(config.cpu_period), lambda: _bare("the period of the pod's CPU limit", kubelet))
        return {**shares, Knob.CPU_CFS_PERIOD_US: period}

    def _write(
        self, resource: str, rulings: Rulings, what: str, how: str, numbers: tuple[int, int]
    ) -> Iterator[ResizeStep]:
        kubelet = self._kubelet
        side = "after" if how == "shrinks" else "before"
        through = kubelet.release.has(Novelty.RESIZE_THROUGH_LIBCONTAINER)
        unit = {"memory": "bytes", "cpu": "µs of quota" if what == "limit" else "shares"}[resource]
        reason = Reason(
            rule=f"the pod's {resource} {what} {how}: its cgroup is written {side} the containers",
            revision=self._revision,
            source=_SOURCE,
            inputs=(
                Input(f"{what} read from the pod's cgroup", f"{numbers[0]} {unit}", "cgroup"),
                Input(f"{what} of the desired pod", f"{numbers[1]} {unit}", "pod sums"),
            ),
            because=() if through else _past_systemd(kubelet),
        )
        if through:
            what_else = "a resize names no page size, so every limit becomes 0, whatever the pod requests"
            rulings = {**rulings, **hugetlb_rulings(kubelet, {}, 0, what_else)}
        told = self._told(rulings, resource, reason)
        write = ResizeStep(
            kind=StepKind.POD_CGROUP, resource=resource, path=self._before.cgroup.path, reason=reason,
            knobs=_planned(rulings, kubelet) | (self._rewritten(rulings) if through else {}), past_driver=not through,
        )  # fmt: skip
        first = kubelet.release.has(Novelty.RESIZE_SANDBOX_FIRST)
        yield from (*told, write) if first else (write, *told)

    def _rewritten(self, rulings: Rulings) -> dict[Knob, Expected]:
        """The pod's cpu.max, if systemd takes the kubelet's period from it (seen with systemd 257).

        systemd writes all files of a slice when one of its properties is set: an unlimited quota with a period of 100
        ms, whatever CPUQuotaPeriodUSec is. Where the kubelet sets the quota, libcontainer writes the file after that.
        """
        kubelet = self._kubelet
        held = self._before.cgroup.knobs.get(Knob.CPU_MAX)
        if kubelet.driver is not CgroupDriver.SYSTEMD or held is None or Knob.CPU_MAX in rulings:
            return {}
        if not isinstance(held.value, CpuMax) or held.value.quota is not None:
            return {}
        rule = "systemd writes the slice's cpu.max as well: without a quota its period is 100000, not the kubelet's"
        source = "systemd src/core/cgroup.c cgroup_cpu_adjust_period_and_log"
        ruling = Ruling(ABSENT, lambda: Reason(rule=rule, revision=self._revision, source=source))
        found = expected(Knob.CPU_MAX, ruling, page_size=kubelet.node.page_size, reasons=True)
        return {} if found.value == held.value else {Knob.CPU_MAX: found}

    def _told(self, rulings: Rulings, resource: str, because: Reason) -> tuple[ResizeStep, ...]:
        """The request for the whole pod (1.33 and later), without the pod's overhead."""
        release = self._kubelet.release
        if not release.has(Novelty.RESIZE_SANDBOX):
            return ()
        self._sandbox = merged(self._sandbox, rulings, self._config.cpu_shares)
        rule = (
            "the runtime receives the pod's new size first: if it refuses, the resize stops here"
            if release.has(Novelty.RESIZE_SANDBOX_FIRST)
            else "the runtime receives the pod's new size; the kubelet ignores a refusal"
        )
        return (
            ResizeStep(
                kind=StepKind.UPDATE_SANDBOX,
                resource=resource,
                path=self._before.cgroup.path,
                reason=Reason(
                    rule=rule, revision=self._revision, source="kubelet updatePodSandboxResources", because=(because,)
                ),
                message=without_overhead(self._sandbox, self._pod),
            ),
        )

    def _update(self, resource: str, change: ContainerResize) -> ResizeStep:
        name, desired, held = change.container.name, change.desired, self._held[change.container.name]
        if resource == "memory":
            now = replace(held, memory_request=desired.memory_request, memory_limit=desired.memory_limit)
        else:
            now = replace(held, cpu_request=desired.cpu_request, cpu_limit=desired.cpu_limit)
        self._held[name] = now
        message, knobs = self._container(name, now, made=False)
        old, new = held.of(resource), now.of(resource)
        unit = "bytes" if resource == "memory" else "m"
        reason = Reason(
            rule=f"container {name}: its {resource} changes, the other resource keeps its last value",
            revision=self._revision,
            source="kubelet updatePodContainerResources",
            inputs=(
                Input(f"requests.{resource}", f"{old[0]} to {new[0]} {unit}", "allocated and desired pod"),
                Input(f"limits.{resource}", f"{old[1]} to {new[1]} {unit}", "allocated and desired pod"),
            ),
        )
        return ResizeStep(
            kind=StepKind.UPDATE_CONTAINER, resource=resource, path=self._before.cgroup.path, container=name,
            message=message, knobs=knobs, reason=reason, reach=self._reach,
        )  # fmt: skip

    def _container(self, name: str, amounts: Amounts, *, made: bool) -> tuple[ContainerResources, dict[Knob, Expected]]:
        """The message for a container, and the resulting files.

        made: whether the message is that of a creation, from the spec; an update has only cpu and memory, so its huge
        page limits are 0 for every container.
        """
        container = next(one for one in self._pod.all_containers if one.name == name)
        if not made:
            container = replace(container, resources=resources_of(amounts))
        planned = next(one for one in self._before.containers if one.name == name)
        request = request_container(self._pod, container, self._qos, self._kubelet)
        if not made:
            return request.resources, _planned(updated_files(request, self._pod, self._kubelet), self._kubelet)
        knobs = _planned(made_files(request, self._pod, self._kubelet).rulings, self._kubelet)
        if Knob.CPUSET_MEMS in planned.cgroup.knobs:
            knobs[Knob.CPUSET_MEMS] = planned.cgroup.knobs[Knob.CPUSET_MEMS]
        return replace(request.resources, cpuset_mems=planned.resources.cpuset_mems), knobs


def _past_systemd(kubelet: Kubelet) -> tuple[Reason, ...]:
    """Up to 1.31 the kubelet writes the files directly, with either driver."""
    if kubelet.driver is not CgroupDriver.SYSTEMD:
        return ()
    rule = "it is written without systemd, which restores the slice's old value when it next writes its properties"
    return (
        Reason(
            rule=rule, revision=kubelet.revisions[Family.RESIZE], source="kubelet cgroupManagerImpl.SetCgroupConfig"
        ),
    )


def _bare(rule: str, kubelet: Kubelet) -> Reason:
    return Reason(rule=rule, revision=kubelet.revisions[Family.SUMS], source="kubelet cm.ResourceConfigForPod")


def _planned(rulings: Mapping[Knob, Ruling], kubelet: Kubelet) -> dict[Knob, Expected]:
    """The written files with their resulting texts, without unwritten ones."""
    page = kubelet.node.page_size
    every = {knob: expected(knob, ruling, page_size=page, reasons=True) for knob, ruling in rulings.items()}
    return {knob: one for knob, one in every.items() if not isinstance(one.written, Absent)}


def _reach(runtimes: Runtimes) -> str:
    rule, source = reach_of_update(runtimes)
    return f"{rule} ({source})" if rule else ""
