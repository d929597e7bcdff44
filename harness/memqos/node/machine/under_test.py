"""MachineUnderTest: what a node has, what it must hold for pods, and what its machine is put through."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from memqos.catalog.kubelets import KubeletCase
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding
from memqos.engine.cgroup.zonelist import Fallback, fallback
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.placement import table_after
from memqos.engine.plan import Plan
from memqos.engine.translate.versions import Feature, Runtimes
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.node.behaviour.scarce import reclaiming, scarce
from memqos.node.machine.daemon import Daemon, daemon_beside
from memqos.node.machine.huge_volume import HugeVolume, huge_volume
from memqos.node.machine.memory_volume import memory_volume
from memqos.node.machine.mounting import mounted
from memqos.node.machine.narrowing import narrow_zone
from memqos.node.machine.needs import lacking
from memqos.node.machine.swap_devices import SWAPS, order_finding
from memqos.node.machine.tight import tight
from memqos.node.machine.zswap import Zswap, zswap_on
from memqos.node.pods.binding import beside_each_other
from memqos.node.vital import Vital
from memqos.probe.facts import TargetFacts
from memqos.runtime.base import Mount, Runtime
from memqos.target.base import Target, checked

__all__ = ["READ_SECONDS", "MachineUnderTest"]

READ_SECONDS = 60.0


class MachineUnderTest:
    """A node before any pod is on it. is_own: whether it was booted for this run. Else as `NodeUnderTest`."""

    def __init__(
        self,
        *,
        target: Target,
        runtime: Runtime,
        facts: TargetFacts,
        driver: CgroupDriver,
        runtimes: Runtimes,
        is_own: bool,
        vital: Vital,
    ) -> None:
        self.target = target
        self.runtime = runtime
        self.facts: NodeFacts = facts.node
        self._facts = facts
        self.driver = driver
        self.tree = CgroupTree(target, facts.hierarchy)
        # A run starts every pod with the runtime under test, whatever its RuntimeClass.
        self._runtimes = dataclasses.replace(runtimes, every_class=True)
        self._is_own = is_own
        self._vital = vital

    def why_not(self, need: str) -> str:
        """Why the node lacks what a claim needs, "" if it has it; the names are those of `claims.NEEDS`."""
        oci = self._runtimes.oci
        bare = self.driver is CgroupDriver.SYSTEMD and oci.subgroup and not oci.has(Feature.SCOPE_HAS_PROTECTION)
        return lacking(need, facts=self._facts, runtime=self.runtime, is_own=self._is_own, bare_scope=bool(bare))

    def plan(
        self,
        pods: Sequence[Pod],
        kubelet: KubeletCase,
        *,
        ended: Sequence[Pod] = (),
        others: Mapping[str, KubeletCase] | None = None,
    ) -> Plan:
        """What this node must hold for these pods under this kubelet.

        ended: pods that were admitted before these, and whose memory the Memory Manager has back; those of these that
        it had placed beside them stay where they are. Empty is a node on which nothing ever ran. others: kubelets that
        have some of these pods, by uid, in its place; UsageError for one that has something else above pods.
        """
        case = self.kubelet(kubelet)
        table = table_after([*ended, *pods], case, ended=[pod.uid for pod in ended]) if ended else None
        plans = {uid: expect(pods, self.kubelet(other)) for uid, other in (others or {}).items()}
        return beside_each_other(expect(pods, case, table=table), plans)

    def kubelet(self, case: KubeletCase) -> Kubelet:
        """The kubelet of a case on this node, as the engine's rules see it."""
        return Kubelet.of(
            node=self.facts,
            settings=case.settings,
            release=case.release,
            driver=self.driver,
            variant=case.variant,
            runtimes=self._runtimes,
        )

    def narrowed(self, zone: int) -> contextlib.AbstractContextManager[None]:
        """While the context lasts, a NUMA zone has 48 MiB free; see `node.narrowing`."""
        return narrow_zone(self.target, zone)

    def memory_volume(self, *, noswap: bool) -> contextlib.AbstractContextManager[Mount]:
        """A memory-backed volume, which watched pods may be given; see `node.memory_volume`."""
        return memory_volume(self.target, noswap=noswap)

    def huge_volume(self) -> contextlib.AbstractContextManager[HugeVolume]:
        """A volume of huge pages, some on each zone, which watched pods may be given; see `node.huge_volume`."""
        return huge_volume(self.target)

    def swaps_in_order(self) -> Finding:
        """Now, nothing is on a swap device while one of a higher priority has room; see `node.swap_devices`."""
        result = self.target.run(["cat", SWAPS], deadline=Deadline.after(READ_SECONDS))
        return order_finding(checked(result, where=self.target.address).text, where=self.target.address)

    def zswap(self) -> contextlib.AbstractContextManager[Zswap]:
        """While the context lasts, what is swapped out is compressed in memory first; see `node.zswap`."""
        return zswap_on(self.tree)

    def fallback(self) -> Fallback:
        """Three zones of which the order shows in which the kernel turns to them; UsageError where there are none."""
        if (order := fallback(self.facts.zones)) is None:
            raise UsageError(
                "no NUMA zone of the machine has one that is nearer to it than another one.",
                next_step="Let the claim need 'distances'.",
            )
        return order

    def tight(self, kubelet: KubeletCase, pods: Sequence[Pod] = ()) -> KubeletCase:
        """The same kubelet with so much reserved that its pods have 256 MiB together; see `node.tight`.

        pods: have no more than their programs take at first, and 64 MiB, which is faster.
        """
        return tight(kubelet, self.facts, pods)

    @contextlib.contextmanager
    def scarce(self) -> Iterator[None]:
        """Until the context ends, the machine is short of memory as a whole, and only pods can make room.

        EnvironmentNotAbleError for a kernel without huge pages; see `node.scarce`.
        """
        with self._vital.guarded(), scarce(self.target, self.tree.hierarchy):
            yield

    def daemon(self, cgroup: str, *, shared: bool = False) -> contextlib.AbstractContextManager[Daemon]:
        """A daemon below this cgroup of the node ("/memqossys.slice"), beside its pods; see `node.daemon`."""
        return daemon_beside(self.tree, CgroupPath.parse(cgroup), shared=shared, cpus=self.facts.cpus)

    @contextlib.contextmanager
    def mounted(self, *, recursive: bool) -> Iterator[None]:
        """Until the context ends, cgroups are mounted with memory_recursiveprot, or without; see `node.mounting`."""
        known = self.tree
        with self._vital.guarded(), mounted(self.target, known.hierarchy, recursive=recursive) as hierarchy:
            self.tree = CgroupTree(self.target, hierarchy)
            try:
                yield
            finally:
                self.tree = known

    @contextlib.contextmanager
    def reclaiming(self, *, generations: bool) -> Iterator[None]:
        """Until the context ends, the kernel reclaims by the multi-generational LRU if it has it, or by the classic."""
        with self._vital.guarded(), reclaiming(self.target, generations=generations):
            yield
