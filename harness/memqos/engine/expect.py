"""The engine's one entry: pods, node, settings and release in, the expected tree with its reasons out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from memqos.engine import layout
from memqos.engine.cgroup_files import CgroupFiles
from memqos.engine.container import ContainerRequest, overhead_resources, request_container, sandbox_resources
from memqos.engine.defaulting import seen_by
from memqos.engine.fit import node_room
from memqos.engine.kubelet import Kubelet, resolve
from memqos.engine.node_cgroups import Demand, kubepods_rulings, qos_rulings, reserved_cgroups, reserved_rulings
from memqos.engine.numa.zone_table import ZoneTable
from memqos.engine.placement import Placement, place
from memqos.engine.plan import Level, Plan, PlannedCgroup, PlannedContainer, PlannedPod, Reason
from memqos.engine.pod_cgroup import pod_config, pod_rulings
from memqos.engine.qos import pod_qos
from memqos.engine.release import Family, Release, Variant
from memqos.engine.ruling import UNEXPLAINED, Ruling, Rulings
from memqos.engine.sums import PodSums, amount, pod_requests, pod_sums
from memqos.engine.translate.container import translate
from memqos.engine.translate.translation import ContainerTranslation
from memqos.engine.translate.versions import Runtimes
from memqos.engine.unavailable import unavailable
from memqos.engine.validation import check_settings
from memqos.model.knob import ABSENT, Text
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts
from memqos.model.path import CgroupPath
from memqos.model.pod import Container, Pod, QosClass
from memqos.model.traits import CONTAINERD_1_7_RUNC_1_1, RuntimeTraits

__all__ = ["expect"]

_NO_SETTINGS = KubeletSettings()


def expect(
    pods: Iterable[Pod],
    *,
    node: NodeFacts,
    settings: KubeletSettings = _NO_SETTINGS,
    release: Release | str,
    driver: CgroupDriver | None = None,
    variant: Variant = Variant.SHIPPED,
    traits: RuntimeTraits = CONTAINERD_1_7_RUNC_1_1,
    runtimes: Runtimes | None = None,
    reasons: bool = True,
    table: ZoneTable | None = None,
    fit: bool = False,
) -> Plan:
    """The expected tree of one node with these pods, all of them running that the kubelet admits.

    The plan lists pods by namespace, name and uid. Their order matters to admission only: they come as they are given.
    The Memory Manager (policy Static) refuses some, perhaps, and adds cpuset.mems to what is planned for containers.
    table: what it holds already, None for nothing. fit: whether pods are refused, too, for which nothing is left of
    the node's cpu, memory or huge pages; without it every pod is taken to have room.

    driver None is the configured one, else cgroupfs, the kubelet's default. variant chooses where documentation and
    code differ. traits is what runs the containers; runtimes says the same by names and versions, wins over traits,
    and has every container's request translated to OCI, to Docker and to files (`PlannedContainer.translation`).
    reasons False leaves every reason empty, which is several times faster.

    On a node with cgroup v1 the cgroups have the files of the v1 controllers; `Plan.unavailable` says why the files of
    cgroup v2 are not there.

    Raises UnknownNameError for a release without rules, ManifestError for settings that this release's kubelet refuses,
    UsageError for zones that cannot hold what is reserved in them.
    """
    if runtimes is not None:
        traits = runtimes.traits
    kubelet = resolve(node, settings, release=Release.of(release), driver=driver, variant=variant, traits=traits)
    check_settings(kubelet)
    room = node_room(kubelet) if fit else None
    placement = place([seen_by(pod, kubelet) for pod in pods], kubelet, table, room=room)
    ordered = sorted(placement.pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))
    return _Planner(kubelet, placement, runtimes, reasons=reasons).plan(ordered)


class _Planner:
    """Puts rulings into cgroups."""

    def __init__(self, kubelet: Kubelet, placement: Placement, runtimes: Runtimes | None, *, reasons: bool) -> None:
        self._runtimes = runtimes
        self._kubelet = kubelet
        self._placement = placement
        self._reasons = reasons
        self._files = CgroupFiles(kubelet, manages=placement.manages, reasons=reasons)
        self._root = layout.kubepods_name(kubelet.settings.cgroup_root, cgroups_per_qos=kubelet.cgroups_per_qos)

    def plan(self, pods: Sequence[Pod]) -> Plan:
        """The whole node."""
        kubelet = self._kubelet
        level = kubelet.pod_level
        classed = [(pod, pod_qos(pod, pod_level=level), pod_sums(pod, pod_level=level)) for pod in pods]
        demand = self._demand(classed)
        per_qos = kubelet.cgroups_per_qos
        classes = (QosClass.BURSTABLE, QosClass.BEST_EFFORT) if per_qos else ()
        plan = Plan(
            release=str(kubelet.release),
            driver=kubelet.driver,
            revisions={family.value: name for family, name in kubelet.revisions.items()},
            node=self._cgroup(
                Level.NODE, self._path(self._root), kubepods_rulings(demand, kubelet) if per_qos else None
            ),
            qos=tuple(
                self._cgroup(
                    Level.QOS, self._path(layout.qos_name(self._root, qos)), qos_rulings(qos, demand, kubelet), qos=qos
                )
                for qos in classes
            ),
            reserved=tuple(
                self._cgroup(
                    Level.RESERVED,
                    layout.reserved_path(cgroup, kubelet.driver),
                    reserved_rulings(field, reserved, whole=whole, kubelet=kubelet),
                )
                for field, (cgroup, reserved, whole) in reserved_cgroups(kubelet).items()
            ),
            pods=tuple(self._pod(pod, qos, sums) for pod, qos, sums in classed),
            refusals=self._placement.refusals,
            cgroup_version=kubelet.node.cgroup_version,
        )
        if not self._reasons:
            return plan
        planned = {knob for cgroup in plan.cgroups() for knob in cgroup.knobs} or set(self._files.everywhere)
        return replace(plan, unavailable=unavailable(kubelet, planned))

    def _demand(self, classed: Sequence[tuple[Pod, QosClass, PodSums]]) -> Demand:
        """Sums over the pods. Memory honours pod-level requests whatever the gate says, as the kubelet's loop does."""
        guaranteed = burstable = milli = 0
        for pod, qos, sums in classed:
            if qos is QosClass.BEST_EFFORT:
                continue
            same = pod.resources is None or self._kubelet.pod_level
            memory = amount(sums.requests if same else pod_requests(pod, pod_level=True), "memory").value
            if qos is QosClass.GUARANTEED:
                guaranteed += memory
                continue
            burstable += memory
            milli += amount(sums.requests, "cpu").milli_value
        return Demand(guaranteed_memory=guaranteed, burstable_memory=burstable, burstable_milli_cpu=milli)

    def _pod(self, pod: Pod, qos: QosClass, sums: PodSums) -> PlannedPod:
        kubelet = self._kubelet
        per_qos = kubelet.cgroups_per_qos
        path = self._path(layout.pod_name(self._root, qos, pod.uid) if per_qos else self._root)
        rulings = pod_rulings(pod_config(pod, qos, kubelet, sums), pod, qos, kubelet) if per_qos else None
        return PlannedPod(
            name=pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            qos=qos,
            qos_reason=self._qos_reason(qos),
            cgroup=self._cgroup(Level.POD, path, rulings, qos=qos, pod=pod.uid),
            containers=tuple(
                self._container(request_container(pod, one, qos, kubelet, self._mems(pod, one)), pod, qos, path)
                for one in pod.all_containers
            ),
            sandbox_resources=sandbox_resources(pod, kubelet, sums),
            sandbox_overhead=overhead_resources(pod, kubelet),
        )

    def _mems(self, pod: Pod, container: Container) -> Ruling | None:
        """What the Memory Manager rules on a container's zones; None if it is off, or never saw the container."""
        admitted = self._placement.admitted.get(pod.uid)
        reason = admitted.reasons.get(container.name) if admitted is not None else None
        if admitted is None or reason is None:
            return None
        mems = admitted.cpuset_mems.get(container.name)
        return Ruling(ABSENT if mems is None else Text(mems), lambda: reason)

    def _qos_reason(self, qos: QosClass) -> Reason:
        if not self._reasons:
            return UNEXPLAINED
        rules = {
            QosClass.GUARANTEED: "every container limits cpu and memory, and the sums of requests equal the limits'",
            QosClass.BURSTABLE: "something is requested or limited, but not cpu and memory of every container equally",
            QosClass.BEST_EFFORT: "no container requests or limits cpu or memory",
        }
        revision = self._kubelet.revisions[Family.QOS_CLASS]
        return Reason(rule=rules[qos], revision=revision, source="kubelet v1qos.ComputePodQOS")

    def _container(self, request: ContainerRequest, pod: Pod, qos: QosClass, path: CgroupPath) -> PlannedContainer:
        name = request.container.name
        cgroup = PlannedCgroup(
            level=Level.CONTAINER,
            path=path,
            knobs=self._files.of_container(request, pod),
            qos=qos,
            pod=pod.uid,
            container=name,
        )
        return PlannedContainer(
            name=name,
            resources=request.resources,
            cgroup=cgroup,
            oom_score_adj=request.oom.value,
            oom_score_adj_reason=request.oom.why() if self._reasons else UNEXPLAINED,
            kind=request.container.kind,
            translation=self._translation(request, cgroup),
        )

    def _translation(self, request: ContainerRequest, cgroup: PlannedCgroup) -> ContainerTranslation | None:
        if self._runtimes is None:
            return None
        kubelet = self._kubelet
        return translate(
            request.resources, self._runtimes, node=kubelet.node, driver=kubelet.driver, planned=cgroup.knobs
        )

    def _path(self, name: layout.CgroupName) -> CgroupPath:
        return layout.cgroup_path(name, self._kubelet.driver)

    def _cgroup(
        self,
        level: Level,
        path: CgroupPath,
        rulings: Rulings | None,
        *,
        qos: QosClass | None = None,
        pod: str = "",
    ) -> PlannedCgroup:
        """A cgroup with every planned knob; rulings None is a cgroup that is not the kubelet's own: without knobs."""
        knobs = {} if rulings is None else self._files.of(level, rulings)
        return PlannedCgroup(level=level, path=path, knobs=knobs, qos=qos, pod=pod)
