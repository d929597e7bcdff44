"""The kubelet for which rules compute: a configuration and a node, resolved with the defaults of one release.

Its allocatable is capacity minus system-reserved minus kube-reserved, never below zero. The hard
eviction threshold is not subtracted, unlike in Node.status.allocatable. Source: kubelet
`getNodeAllocatableInternalAbsolute`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypedDict

from memqos.engine.cgroup.interface_files import CONTROL_FILES, ControlFiles
from memqos.engine.cgroup.layout import Layout
from memqos.engine.node.cgroup_driver import driver_of
from memqos.engine.plan import Input
from memqos.engine.pod.sums import amount
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.release import Release, Variant, before_release, revisions
from memqos.engine.releases.table import Family, Gate, Novelty
from memqos.engine.translate.resources import RuntimeHost
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.model.node import (
    CgroupDriver,
    CgroupVersion,
    KubeletSettings,
    NodeFacts,
    ReservationPolicy,
    SwapBehavior,
)
from memqos.model.pod import ResourceList
from memqos.model.quantity import ZERO, Quantity

__all__ = ["Kubelet", "allocatable"]


def node_capacity(node: NodeFacts) -> dict[str, Quantity]:
    """The machine's capacity: memory in bytes, cpu in whole CPUs, pid in processes and threads, if known."""
    found = {"memory": Quantity.of_bytes(node.memory), "cpu": Quantity.of_bytes(node.cpus)}
    return found if node.pids is None else {**found, "pid": Quantity.of_bytes(node.pids)}


def allocatable(node: NodeFacts, settings: KubeletSettings) -> dict[str, Quantity]:
    """The amounts for pods after both reservations; zero if the reservations exceed the capacity."""
    left = {}
    for name, whole in node_capacity(node).items():
        rest = whole - _reserved(settings.system_reserved, name) - _reserved(settings.kube_reserved, name)
        left[name] = rest if rest > ZERO else ZERO
    return left


def _reserved(reservation: ResourceList | None, name: str) -> Quantity:
    return amount(reservation, name) if reservation else ZERO


_NO_SETTINGS = KubeletSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """The kubelet and its node, for rules; `of` makes it.

    runtimes: the runtimes of its containers; runtimes_text: their names in reasons; candidates: the runtimes with each
    possible version, one if versions are known. host: the node's facts that decide for them. layout: the cgroups of
    containers. factor: the throttling factor as the kubelet's float64; None if it is not set (possible from 1.37 on).
    factor_text: its text in the configuration. revisions: rule family to the revision in force.
    capacity, allocatable: cpu and memory; allocatable as `engine.allocatable` defines it.
    cfs_period: µs per quota, as sent.
    single_process_oom_kill: the effective value; kills_whole_group: whether containers get memory.oom.group 1.
    v2: whether the node mounts cgroup v2 alone; files: the interface files of its version of cgroups.
    driver_assumed: an assumption about the driver or a contradiction of it, "" for none. build: a note about a build
    before a release, "" for a release. exclusive_cpus: whether containers with exclusive CPUs (static CPU Manager) get
    no quota.
    """

    release: Release
    build: str
    variant: Variant
    driver: CgroupDriver
    driver_assumed: str
    node: NodeFacts
    settings: KubeletSettings
    runtimes: Runtimes
    runtimes_text: str
    candidates: tuple[Runtimes, ...]
    host: RuntimeHost
    layout: Layout
    revisions: Mapping[Family, str]
    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    memory_qos: bool
    factor: float | None
    factor_text: str
    policy: ReservationPolicy
    pod_level: bool
    sidecars: bool
    node_swap: bool
    swap_behavior: SwapBehavior
    cfs_quota: bool
    cfs_period: int
    exclusive_cpus: bool
    single_process_oom_kill: bool
    kills_whole_group: bool
    cgroups_per_qos: bool
    enforced: tuple[str, ...]
    v2: bool
    files: ControlFiles

    @classmethod
    def of(
        cls,
        *,
        node: NodeFacts,
        release: Release | str,
        settings: KubeletSettings = _NO_SETTINGS,
        driver: CgroupDriver | None = None,
        variant: Variant = Variant.SHIPPED,
        runtimes: Runtimes = TRIXIE,
    ) -> Kubelet:
        """The kubelet of this release with this configuration on this node, its fields with the release's defaults.

        driver None: the driver that the runtime reports if the release asks for it, else the configured one, else
        cgroupfs, the kubelet's default: `node.cgroup_driver.driver_of`. variant decides where documentation and code
        differ. runtimes: Debian trixie's by default.

        Raises UnknownNameError for a release without rules.
        """
        build = before_release(release) if isinstance(release, str) else ""
        release = Release.of(release)
        chosen = driver_of(release, settings, runtimes, known=driver)
        driver = chosen.driver
        v2 = node.cgroup_version is CgroupVersion.V2
        return cls(
            release=release,
            build=build,
            variant=variant,
            driver=driver,
            driver_assumed=chosen.assumed,
            node=node,
            settings=settings,
            runtimes=runtimes,
            runtimes_text=str(runtimes),
            candidates=runtimes.candidates,
            host=_host(node, driver, runtimes),
            layout=runtimes.layout(driver),
            revisions=revisions(release, variant),
            capacity=node_capacity(node),
            allocatable=allocatable(node, settings),
            policy=settings.memory_reservation_policy or ReservationPolicy.NONE,
            swap_behavior=settings.swap_behavior or SwapBehavior.UNSET,
            cfs_quota=settings.cpu_cfs_quota is not False,
            cgroups_per_qos=settings.cgroups_per_qos is not False,
            enforced=_enforced(settings),
            v2=v2,
            files=CONTROL_FILES[node.cgroup_version],
            **_gated(release, settings, v2=v2),
            **_throttling(release, settings),
            **_killing(release, settings, v2=v2),
        )

    def serving(self, runtime_class: str, handler: str = "") -> Kubelet:
        """The same kubelet with the runtimes for pods of this RuntimeClass; itself for "", which is none.

        handler: that of the class, "" if unknown.
        """
        runtimes = self.runtimes.of_class(runtime_class, handler)
        if runtimes == self.runtimes:
            return self
        return replace(
            self,
            runtimes=runtimes,
            runtimes_text=str(runtimes),
            candidates=runtimes.candidates,
            layout=runtimes.layout(self.driver),
        )

    def setting(self, name: str, value: object) -> Input:
        """A field of the configuration as a rule's input, with its place in the file, or "default"."""
        return Input(name, str(value), self.settings.origin.get(name, "default"))

    def fact(self, name: str, value: object) -> Input:
        """A fact of the node as a rule's input."""
        return Input(name, str(value), self.node.origin)


class _Gated(TypedDict):
    """The fields that feature gates decide."""

    memory_qos: bool
    pod_level: bool
    sidecars: bool
    node_swap: bool
    cfs_period: int
    exclusive_cpus: bool


class _Throttling(TypedDict):
    """The throttling factor as a number and as text."""

    factor: float | None
    factor_text: str


class _Killing(TypedDict):
    """The extent of an OOM kill."""

    single_process_oom_kill: bool
    kills_whole_group: bool


def _gated(release: Release, settings: KubeletSettings, *, v2: bool) -> _Gated:
    def on(gate: Gate) -> bool:
        return enabled(gate, release, settings.feature_gates)

    return _Gated(
        memory_qos=on(Gate.MEMORY_QOS) and v2,
        pod_level=on(Gate.POD_LEVEL_RESOURCES),
        sidecars=on(Gate.SIDECARS),
        node_swap=on(Gate.NODE_SWAP),
        cfs_period=_period(settings, custom=on(Gate.CFS_QUOTA_PERIOD)),
        exclusive_cpus=on(Gate.NO_QUOTA_WITH_EXCLUSIVE_CPUS) and settings.cpu_manager_policy == "static",
    )


def _throttling(release: Release, settings: KubeletSettings) -> _Throttling:
    factor = settings.throttling_factor
    if factor is None:
        factor = _default_factor(release)
    if factor is None:
        return _Throttling(factor=None, factor_text="not set")
    # The configured text; a configured decimal is exact.
    return _Throttling(factor=float(factor), factor_text=repr(float(factor)))


def _killing(release: Release, settings: KubeletSettings, *, v2: bool) -> _Killing:
    single = not v2 if settings.single_process_oom_kill is None else settings.single_process_oom_kill
    spared = single and release.has(Novelty.SINGLE_PROCESS_OOM_KILL)
    return _Killing(
        single_process_oom_kill=single, kills_whole_group=v2 and release.has(Novelty.OOM_GROUP) and not spared
    )


def _host(node: NodeFacts, driver: CgroupDriver, runtimes: Runtimes) -> RuntimeHost:
    return RuntimeHost(
        driver=driver,
        cgroup_version=node.cgroup_version,
        page_size=node.page_size,
        swap_file=node.swap_controller,
        systemd=runtimes.systemd,
    )


def _default_factor(release: Release) -> Fraction | None:
    """The default of `memoryThrottlingFactor`: 0.8 up to 1.26, 0.9 up to 1.36, then none."""
    defaults = {Novelty.HIGH_BETWEEN: Fraction(9, 10), Novelty.MEMORY_QOS_BETA: None}
    return release.newest(Fraction(8, 10), defaults)


def _period(settings: KubeletSettings, *, custom: bool) -> int:
    return settings.cpu_cfs_quota_period_us if custom and settings.cpu_cfs_quota_period_us else 100_000


def _enforced(settings: KubeletSettings) -> tuple[str, ...]:
    """The effective keys of `enforceNodeAllocatable`: ("pods",) by default, none for "none"."""
    if settings.cgroups_per_qos is False:
        return ()
    keys = ("pods",) if settings.enforce_node_allocatable is None else settings.enforce_node_allocatable
    return tuple(key for key in keys if key not in {"", "none"})
