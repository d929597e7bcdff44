"""Notes on a plan: input without effect, assumptions, and problems on a real node.

Source: kubelet `DecodeKubeletConfiguration`, which decodes strictly, and if that fails for an unknown field decodes
again leniently (v1beta1, from 1.17 on); types of kubelet.config.k8s.io/v1beta1 from 1.22 to 1.37. The API server drops
a pod's unknown fields, and so does the kubelet's decoding of a file. The kubelet does not validate podPidsLimit
(`podContainerManagerImpl.EnsureExists` checks: above 0), nor the NUMA nodes of reservedMemory except under the Memory
Manager's policy Static.

Sources: kubelet `cm.enforceNodeAllocatableCgroups`, `cm.NewContainerManager` (cgroupRoot must exist),
`featuregate.SetFromMap`, `server.mergeKubeletConfigurations`; KEP-3983 (drop-ins), KEP-4033 (driver), KEP-5517
(claims).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memqos.engine.cgroup import layout
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroups import reserved_cgroups
from memqos.engine.node.placement import status_allocatable
from memqos.engine.node.validation import why_not_on
from memqos.engine.plan import Ignored, Remark
from memqos.engine.pod.sums import PREFIX, amount
from memqos.engine.pod.volumes import NOT_MODELLED
from memqos.engine.releases.gates import GROUPS, OTHER_GATES, enabled
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import FIELDS, POD_FIELDS, RELEASES, Gate, Maturity, Novelty
from memqos.engine.swap import SWAP
from memqos.engine.translate.annotations import annotation_notes
from memqos.engine.translate.specification import runtime_notes
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, SwapBehavior
from memqos.model.pod import ContainerKind, Pod
from memqos.model.quantity import ZERO, Quantity

__all__ = ["BEFORE_START", "ignored", "ignored_annotations", "remarks", "runtime_remarks", "unmodelled_pods"]

_NO_LIMIT = -1


def ignored(pods: Iterable[Pod], kubelet: Kubelet) -> tuple[Ignored, ...]:
    """Every field of the configuration and of the pods that has no effect in the release, in the order given."""
    settings = kubelet.settings
    return (*_settings(settings, kubelet.release), *_numbers(settings), *_fields_of_pods(pods, kubelet.release))


def ignored_annotations(pods: Iterable[Pod], kubelet: Kubelet) -> Iterator[Ignored]:
    """Annotations about resources that change nothing for admitted pods, with the reason."""
    for pod in pods:
        if pod.annotations:
            runtimes = kubelet.runtimes.of_class(pod.runtime_class_name, pod.runtime_handler)
            names = tuple(one.name for one in pod.all_containers)
            for name, what in annotation_notes(pod.annotations, names, runtimes):
                field = f"annotation {name} of pod {pod.namespace}/{pod.name}"
                yield Ignored(field=field, origin=pod.file, what=what)


def _numbers(settings: KubeletSettings) -> Iterator[Ignored]:
    """Meaningless numbers that a kubelet accepts silently; -1 is the usual value for no limit."""
    limit = settings.pod_pids_limit
    if limit is not None and limit < 1 and limit != _NO_LIMIT:
        what = f"{limit} means no limit to the kubelet, like every number below 1; the usual value is {_NO_LIMIT}"
        yield Ignored(field="podPidsLimit", origin=settings.origin.get("podPidsLimit", ""), what=what)
    for numa, _ in settings.reserved_memory or ():
        if numa < 0:
            what = f"no machine has a NUMA node {numa}; the kubelet checks it only under memoryManagerPolicy Static"
            yield Ignored(field="reservedMemory", origin=settings.origin.get("reservedMemory", ""), what=what)


def _settings(settings: KubeletSettings, release: Release) -> Iterator[Ignored]:
    for field, origin in settings.origin.items():
        since = Release(FIELDS.get(field, RELEASES[0]))
        if release < since:
            yield Ignored(
                field=field,
                origin=origin,
                what=f"the kubelet of {release} does not know this field, which came with {since}: it logs "
                '"Using lenient decoding as strict decoding failed" and ignores it',
            )


def _fields_of_pods(pods: Iterable[Pod], release: Release) -> Iterator[Ignored]:
    for pod in pods:
        name = f"pod {pod.namespace}/{pod.name}"
        given = [("spec.resources", name)] if pod.resources is not None else []
        for container in pod.all_containers:
            own = f"container {container.name} of {name}"
            given += [("restartPolicy", own)] if container.kind is ContainerKind.SIDECAR else []
            given += [("resizePolicy", own)] if container.resize_policy else []
        for field, of in given:
            since = Release(POD_FIELDS[field])
            if release < since:
                yield Ignored(
                    field=f"{field} of {of}",
                    origin=pod.file,
                    what=f"Kubernetes {release} does not know this field, which came with {since}: it is dropped",
                )


BEFORE_START = frozenset({"cgroupRoot", "kubeReservedCgroup", "systemReservedCgroup"})
"""The subjects of remarks about a kubelet's start; they do not apply to a running kubelet."""

_NOT_RELEASED = (
    "not released: the rules of 1.37, and WorkloadControlledSwap by the text of KEP-5359 (enhancements#5569, "
    "kubernetes#142885); options of KEP-6232 (kubernetes#140473) are checked. Left out, since no text says what is "
    "written: limits.swap of whole pods, NodeReservationPolicy (kubernetes#142854), the system partition of KEP-5894 "
    "(kubernetes#142200)"
)
_KIBI = 1024
_V1_KERNEL = re.compile(r"\.(?:el[78]|amzn2)\b|^[1-4]\.|^5\.4\.0-")
"""Kernels of distributions whose default is cgroup v1; 5.4.0- is Ubuntu 20.04's.

Source: Kubernetes documentation, About cgroup v2, Linux Distribution cgroup v2 support.
"""
_TOO_SMALL = Quantity.of_bytes(1 << 20)
"""A limit below this is a mistake: runc's init needs some MiB before the program starts."""


def remarks(pods: Iterable[Pod], kubelet: Kubelet) -> tuple[Remark, ...]:
    """Every remark on this kubelet, its node and these pods, in this order."""
    return (
        *_preview(kubelet),
        *_configuration(kubelet),
        *_drop_ins(kubelet),
        *_unknown_gates(kubelet),
        *_without_gate(kubelet),
        *_volumes(kubelet),
        *_required_cgroups(kubelet),
        *_user_namespace(kubelet),
        *_node(kubelet),
        *_pods(pods, kubelet),
    )


def runtime_remarks(pods: Iterable[Pod], kubelet: Kubelet) -> Iterator[Remark]:
    """Remarks about the runtimes of these admitted pods."""
    classes = dict.fromkeys((("", ""), *((pod.runtime_class_name, pod.runtime_handler) for pod in pods)))
    told = (note for names in classes for note in runtime_notes(kubelet.runtimes.of_class(*names)))
    for about, what in dict.fromkeys(told):
        yield Remark(about, "", what)
    if kubelet.runtimes.crio is not None:
        yield from (Remark(*note) for note in kubelet.runtimes.crio.notes())


def unmodelled_pods(pods: Iterable[Pod], kubelet: Kubelet) -> dict[str, str]:
    """The uid of every pod whose cgroups the rules cannot plan, with the reason."""
    if not kubelet.release.has(Novelty.CLAIMS_COUNT) or not _claims_count(kubelet):
        return {}
    why = (
        f"with the feature gate {Gate.DRA_NODE_RESOURCES} the kubelet of {kubelet.release} adds DRA allocations of "
        "cpu, memory and huge pages to its cgroups (KEP-5517), which memqos does not model"
    )
    return {pod.uid: f"the pod has resource claims ({', '.join(pod.claims)}): {why}" for pod in pods if pod.claims}


def _claims_count(kubelet: Kubelet) -> bool:
    return enabled(Gate.DRA_NODE_RESOURCES, kubelet.release, kubelet.settings.feature_gates)


def _preview(kubelet: Kubelet) -> Iterator[Remark]:
    if not kubelet.release.is_preview:
        return
    yield Remark(f"Kubernetes {kubelet.release}", "", _NOT_RELEASED)
    if "memoryManagerPolicyOptions" in kubelet.settings.origin:
        yield Remark(
            "memoryManagerPolicyOptions",
            kubelet.settings.origin["memoryManagerPolicyOptions"],
            "memory-drift-tolerance (KEP-6232, kubernetes#140473) is about a kubelet's start from an earlier state: it "
            "changes no value of a plan, and recorded states are held to the exact amounts",
        )


def _configuration(kubelet: Kubelet) -> Iterator[Remark]:
    settings = kubelet.settings
    if kubelet.build:
        yield Remark("kubelet", "", kubelet.build)
    if kubelet.driver_assumed:
        yield Remark("cgroupDriver", settings.origin.get("cgroupDriver", ""), kubelet.driver_assumed)
    for note in settings.notes:
        yield Remark(note.field, note.origin, note.what)


def _drop_ins(kubelet: Kubelet) -> Iterator[Remark]:
    files, release = kubelet.settings.drop_ins, kubelet.release
    if not files or release.has(Novelty.DROP_INS_BY_DEFAULT):
        return
    what = (
        f"the kubelet of {release} reads --config-dir only with KUBELET_CONFIG_DROPIN_DIR_ALPHA in its environment"
        if release.has(Novelty.DROP_INS)
        else f"the kubelet of {release} has no --config-dir, which came with {Release(Novelty.DROP_INS.since)}"
    )
    yield Remark("--config-dir", files[0], f"{what}; the files are merged here as later kubelets do")


def _unknown_gates(kubelet: Kubelet) -> Iterator[Remark]:
    """Feature gates that are in none of memqos's tables."""
    settings = kubelet.settings
    ours = {*Gate, *GROUPS.values()}
    for name in settings.feature_gates:
        if name in ours or name in OTHER_GATES:
            continue
        near = [gate for gate in sorted(ours) if gate.rstrip("s") == name.rstrip("s")]
        meant = f"; did you mean '{near[0]}'?" if near else ""
        yield Remark(
            f"featureGates.{name[:80]}",
            settings.origin.get(f"featureGates.{name}", ""),
            f"memqos does not know this feature gate, and assumes that it changes nothing; if the kubelet of "
            f'{kubelet.release} does not know it either, it does not start ("unrecognized feature gate: '
            f'{name[:80]}"){meant}',
        )


def _without_gate(kubelet: Kubelet) -> Iterator[Remark]:
    """Fields that need MemoryQoS while it is off; /configz shows the default factor in either case."""
    settings, release = kubelet.settings, kubelet.release
    if kubelet.memory_qos or settings.throttling_factor is None or settings.effective:
        return
    why = "MemoryQoS is off" if kubelet.v2 else "MemoryQoS does nothing on cgroup v1"
    yield Remark(
        "memoryThrottlingFactor",
        settings.origin.get("memoryThrottlingFactor", ""),
        f"the factor has no effect: {why} ({release}), so no memory.high is written",
    )


def _volumes(kubelet: Kubelet) -> Iterator[Remark]:
    """Resizes of memory-backed volumes, which change when and whether cgroups are written."""
    gates = kubelet.settings.feature_gates
    if enabled(Gate.RESIZE_VOLUMES, kubelet.release, gates):
        name = next((one for one in (Gate.RESIZE_VOLUMES, GROUPS[Maturity.ALPHA]) if one in gates), "")
        yield Remark(f"featureGates.{name}", kubelet.settings.origin.get(f"featureGates.{name}", ""), NOT_MODELLED)


def _required_cgroups(kubelet: Kubelet) -> Iterator[Remark]:
    """Cgroups that must exist when the kubelet starts, by the path that the driver makes of their names."""
    settings, driver = kubelet.settings, kubelet.driver
    required = {
        f"{field}Cgroup": layout.reserved_path(cgroup, driver)
        for field, (cgroup, _, _) in reserved_cgroups(kubelet).items()
    }
    root = layout.root_name(settings.cgroup_root)
    if root and kubelet.cgroups_per_qos:
        required["cgroupRoot"] = layout.cgroup_path(root, driver)
    for name, path in required.items():
        what = f"the kubelet does not create {path}, and does not start without it: it must exist beforehand"
        if name == "cgroupRoot" and driver is CgroupDriver.SYSTEMD and settings.cgroup_root.endswith(".slice"):
            what += "; cgroupRoot names a slice without its ending"
        yield Remark(name, settings.origin.get(name, ""), what)


def _user_namespace(kubelet: Kubelet) -> Iterator[Remark]:
    """Limits of a kubelet in a user namespace."""
    if not kubelet.node.user_namespace:
        return
    what = (
        "the kubelet runs in a user namespace (KEP-2033): it writes only below the cgroup that was delegated to it. "
        "Files of a controller that is not delegated do not exist (systemd delegates no hugetlb, and cpuset, cpu and "
        "io only if the unit says so), and oom_score_adj cannot be lowered below the runtime's own: not observable"
    )
    if not enabled(Gate.USER_NAMESPACE, kubelet.release, kubelet.settings.feature_gates):
        what += f"; the kubelet starts there only with the feature gate {Gate.USER_NAMESPACE}, which is off here"
    yield Remark("status.nodeInfo.runningInUserNamespace", kubelet.node.origin, what)


def _node(kubelet: Kubelet) -> Iterator[Remark]:
    """The cgroup version that a Node object lacks, and its allocatable next to what the configuration leaves."""
    told, kernel = kubelet.node.allocatable, kubelet.node.kernel
    if told is None:
        return
    may_be_v1 = kubelet.v2 and not why_not_on(CgroupVersion.V1, kubelet.settings, kubelet.release)
    if may_be_v1 and _V1_KERNEL.search(kernel):
        what = (
            f"the kernel {kernel} is of a distribution whose default is cgroup v1, and the Node does not have the "
            "version: v2 is assumed; --cgroup v1 plans the files of v1"
        )
        yield Remark("status.nodeInfo.kernelVersion", kubelet.node.origin, what)
    planned = dict(status_allocatable(kubelet))
    huge = sum((one for name, one in told.items() if name.startswith(PREFIX)), ZERO)
    planned["memory"] -= huge
    for name in ("cpu", "memory"):
        if name in told and told[name] != planned[name]:
            left, kibibytes = planned[name], told[name].written.endswith("Ki") and not planned[name].value % _KIBI
            yield Remark(
                f"status.allocatable.{name}",
                kubelet.node.origin,
                f"the Node reports {told[name]}, this configuration leaves "
                f"{f'{left.value // _KIBI}Ki' if kibibytes else left}: the node runs with another configuration, or "
                "with flags that are not given here",
            )


def _pods(pods: Iterable[Pod], kubelet: Kubelet) -> Iterator[Remark]:
    unmodelled = unmodelled_pods(given := tuple(pods), kubelet)
    for pod in given:
        where = f"pod {pod.namespace}/{pod.name}"
        if pod.uid in unmodelled:
            yield Remark(where, pod.file, unmodelled[pod.uid])
        elif pod.claims and kubelet.release.has(Novelty.CLAIMS_COUNT):
            yield Remark(
                where,
                pod.file,
                f"its resource claims ({', '.join(pod.claims)}) do not count in its cgroups: the feature gate "
                f"{Gate.DRA_NODE_RESOURCES} is off in {kubelet.release}",
            )
        swap = [one for one in pod.all_containers if SWAP in one.resources.limits]
        if swap and kubelet.swap_behavior is not SwapBehavior.WORKLOAD:
            what = f"limits.swap has no effect under {kubelet.swap_behavior or 'NoSwap'} (KEP-5359)"
            yield Remark(where, swap[0].origin.get("limits.swap", pod.file), what)
        limits = [(f"container {one.name} of {where}", one.resources, one.origin) for one in pod.all_containers]
        if pod.resources is not None and kubelet.pod_level:
            limits.append((where, pod.resources, pod.origin))
        for whose, resources, origin in limits:
            limit = amount(resources.limits, "memory")
            if ZERO < limit < _TOO_SMALL:
                place = origin.get("limits.memory", origin.get("resources.limits.memory", pod.file))
                yield Remark(f"limits.memory of {whose}", place, _too_small(limit))


def _too_small(limit: Quantity) -> str:
    size = f"{limit.value} byte{'' if limit.value == 1 else 's'}"
    meant = "" if limit.is_whole else "; m means thousandths of a byte, Mi is meant"
    return f"{limit} is {size}: no container starts with so little{meant}"
