"""The files of planned cgroups: the value of each, written or not, and why a file is unavailable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroups import reserved_cgroups
from memqos.engine.plan import UNEXPLAINED, Expected, Input, Level, Reason, Ruling, Rulings, expected, kernel_revision
from memqos.engine.releases.gates import enabled
from memqos.engine.releases.table import Family, Gate, Novelty
from memqos.engine.translate.runtime_rules import values
from memqos.model.knob import ABSENT, Knob, KnobValue, Number, Text, knobs_of
from memqos.model.reading import read_back

__all__ = ["CgroupFiles", "unavailable"]

_MEMORY_QOS_KNOBS = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})
_WRITER = {
    Level.NODE: "the kubelet does not write it at this level",
    Level.RESERVED: "the kubelet does not write it at this level",
    Level.QOS: "the kubelet does not write it at this level",
    Level.POD: "the kubelet does not write it for this pod",
    Level.CONTAINER: "neither kubelet nor runtime writes it for this container",
}


def node_defaults(kubelet: Kubelet) -> dict[Knob, KnobValue]:
    """The text of unwritten cgroup v1 files that a new cgroup inherits from its parent.

    libcontainer copies the parent's cpuset into a new v1 cgroup, since no process can run without one.
    """
    numa_nodes = ",".join(str(numa.id) for numa in kubelet.node.numa_nodes)
    return {Knob.MEMORY_SWAPPINESS: Number(kubelet.node.swappiness), Knob.CPUSET_MEMS: Text(numa_nodes)}


def exists(knob: Knob, kubelet: Kubelet) -> bool:
    """Whether the kernel has the file: cgroup v1 counts memory and swap together only with swap accounting."""
    return kubelet.v2 or knob is not Knob.MEMORY_MEMSW_LIMIT_IN_BYTES or kubelet.node.swap_controller


def untouched(kubelet: Kubelet, knob: Knob, level: Level) -> Ruling:
    """The ruling for an unwritten file; with memory QoS off its reason says so for the files of memory QoS."""
    text = _WRITER[level]
    source = f"kernel, Documentation/admin-guide/cgroup-{'v2.rst' if kubelet.v2 else 'v1'}"
    if knob is Knob.MEMORY_SWAPPINESS:
        return Ruling(ABSENT, lambda: _swappiness_reason(kubelet, source))
    inputs: tuple[Input, ...] = ()
    if knob in _MEMORY_QOS_KNOBS and not kubelet.memory_qos:
        gate = f"featureGates.{Gate.MEMORY_QOS}"
        inputs = (Input(gate, "false", kubelet.settings.origin.get(gate, f"default of {kubelet.release}")),)
        text = f"without memory QoS {text}"
    reason = Reason(
        rule=f"{text}: the kernel's default applies",
        revision=kernel_revision(kubelet.node.cgroup_version),
        source=source,
        inputs=inputs,
    )
    return Ruling(ABSENT, lambda: reason)


def _swappiness_reason(kubelet: Kubelet, source: str) -> Reason:
    rule = "it is not written: a new cgroup inherits it from its parent, and the root has vm.swappiness"
    return Reason(
        rule=rule,
        revision=kernel_revision(kubelet.node.cgroup_version),
        source=source,
        inputs=(kubelet.fact("vm.swappiness", kubelet.node.swappiness),),
    )


_KERNEL = "kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1"
_PROTECTION = frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH})

_COUNTERPARTS: Mapping[Knob, str] = {
    Knob.MEMORY_MIN: "cgroup v1 does not protect memory: memory QoS writes nothing there",
    Knob.MEMORY_LOW: "cgroup v1 does not protect memory: memory QoS writes nothing there",
    Knob.MEMORY_HIGH: "cgroup v1 does not throttle by memory: memory QoS writes nothing there",
    Knob.MEMORY_MAX: "memory.limit_in_bytes limits memory there",
    Knob.MEMORY_SWAP_MAX: "memory.memsw.limit_in_bytes limits memory and swap together there",
    Knob.MEMORY_OOM_GROUP: "an OOM kill takes one process there",
    Knob.CPU_WEIGHT: "cpu.shares exists instead, as the kubelet computes it",
    Knob.CPU_MAX: "cpu.cfs_quota_us and cpu.cfs_period_us exist instead",
    Knob.HUGETLB_2MB_MAX: "hugetlb.2MB.limit_in_bytes exists instead",
    Knob.HUGETLB_1GB_MAX: "hugetlb.1GB.limit_in_bytes exists instead",
    Knob.MEMORY_LIMIT_IN_BYTES: "memory.max limits memory there",
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: "memory.swap.max limits swap alone there",
    Knob.MEMORY_SOFT_LIMIT_IN_BYTES: "memory.low and memory.high replace it",
    Knob.MEMORY_SWAPPINESS: "vm.swappiness holds for the whole machine there",
    Knob.MEMORY_OOM_CONTROL: "the OOM killer cannot be turned off there; memory.oom.group decides what it kills",
    Knob.CPU_SHARES: "cpu.weight exists instead, converted from shares",
    Knob.CPU_CFS_QUOTA_US: "cpu.max holds quota and period there",
    Knob.CPU_CFS_PERIOD_US: "cpu.max holds quota and period there",
    Knob.HUGETLB_2MB_LIMIT_IN_BYTES: "hugetlb.2MB.max exists instead",
    Knob.HUGETLB_1GB_LIMIT_IN_BYTES: "hugetlb.1GB.max exists instead",
}
_NOT_RULED: Mapping[Knob, str] = {
    Knob.PIDS_MAX: "podPidsLimit limits no pod, no reservation names pid, and the node's process capacity is not known",
    Knob.CPUSET_CPUS: "the CPU Manager assigns CPUs; kubepods gets all of them from 1.32 on under its policy none",
    Knob.CPUSET_MEMS: "the Memory Manager assigns NUMA nodes, and its policy is not Static",
}


def unavailable(kubelet: Kubelet, planned: Collection[Knob]) -> dict[Knob, Reason]:
    """The reason why each other knob than the `planned` ones is unavailable."""
    here = knobs_of(kubelet.node.cgroup_version)
    return {knob: _reason(knob, kubelet, exists=knob in here) for knob in Knob if knob not in planned}


def _reason(knob: Knob, kubelet: Kubelet, *, exists: bool) -> Reason:
    if exists:
        text = _NOT_RULED.get(knob, "the node does not have it")
        family = Family.MEMORY_MANAGER if knob is Knob.CPUSET_MEMS else Family.NODE
        return Reason(rule=f"{knob} is not planned: {text}", revision=kubelet.revisions[family], source="kubelet cm")
    version = kubelet.node.cgroup_version
    rule = f"{knob} does not exist on cgroup {version}: {_COUNTERPARTS[knob]}"
    fact = kubelet.fact("cgroup version", version)
    if knob not in _PROTECTION:
        return Reason(rule=rule, revision=kernel_revision(version), source=_KERNEL, inputs=(fact,))
    gate = f"featureGates.{Gate.MEMORY_QOS}"
    on = enabled(Gate.MEMORY_QOS, kubelet.release, kubelet.settings.feature_gates)
    if on and kubelet.release.has(Novelty.WARNS_ON_CGROUP_V1):
        rule = f"{rule}, and the kubelet warns of it when it starts"
    given = Input(gate, str(on).lower(), kubelet.settings.origin.get(gate, f"default of {kubelet.release}"))
    source = f"{_KERNEL}; kubelet generateLinuxContainerConfig, EnsureExists (IsCgroup2UnifiedMode)"
    return Reason(rule=rule, revision=kubelet.revisions[Family.MEMORY_QOS], source=source, inputs=(fact, given))


class CgroupFiles:
    """The planned files of one node's cgroups, by level.

    manages: whether the Memory Manager is on, so that containers have cpuset.mems. reasons: whether expectations have
    reasons; without them equal expectations are one shared object.
    """

    def __init__(self, kubelet: Kubelet, *, manages: bool, reasons: bool) -> None:
        self._kubelet = kubelet
        self._reasons = reasons
        files = kubelet.files
        sizes = [files.huge_pages[size] for size in kubelet.node.hugepage_sizes if size in files.huge_pages]
        self.everywhere = tuple(knob for knob in (*files.planned, *sizes) if exists(knob, kubelet))
        """The knobs of every cgroup."""
        of_containers = (*self.everywhere, Knob.CPUSET_MEMS) if manages else self.everywhere
        self._counts_pids = (kubelet.settings.pod_pids_limit or -1) > 0 or any(
            "pid" in amounts
            for amounts in (kubelet.capacity, *(one for _, one, _ in reserved_cgroups(kubelet).values()))
        )
        self._defaults = {} if kubelet.v2 else node_defaults(kubelet)
        self._unexplained: dict[Knob, dict[KnobValue, Expected]] = defaultdict(dict)
        self._texts: dict[tuple[str, str], Expected | None] = {}
        self._left_alone = {
            level: self._unwritten(level, of_containers if level is Level.CONTAINER else self.everywhere)
            for level in Level
        }

    def of(self, level: Level, rulings: Rulings) -> dict[Knob, Expected]:
        """Every planned knob of a cgroup, ruled on or unwritten."""
        knobs = self._left_alone[level].copy()
        if level is not Level.CONTAINER:
            knobs |= self._unwritten(level, self._known_of(level, rulings))
        for knob, ruling in ((knob, ruling) for knob, ruling in rulings.items() if knob in knobs):
            # Without reasons, files left unwritten on purpose do not differ from other unwritten files.
            if self._reasons or ruling.unmodelled:
                knobs[knob] = self._expected(knob, ruling)
            elif ruling.written is not ABSENT:
                found = None if ruling.otherwise else self._unexplained[knob].get(ruling.written)
                knobs[knob] = self._expected(knob, ruling) if found is None else found
        return knobs

    def unexplained(self, files: Iterable[tuple[str, str]]) -> dict[Knob, Expected]:
        """Every planned knob of a container with these texts in its files, for a plan without reasons."""
        knobs = self._left_alone[Level.CONTAINER].copy()
        for file in files:
            if file not in self._texts:
                self._texts[file] = self._of_text(file)
            found = self._texts[file]
            if found is not None and found.knob in knobs:
                knobs[found.knob] = found
        return knobs

    def _of_text(self, file: tuple[str, str]) -> Expected | None:
        """The expectation for a text; None for a file that plans do not cover."""
        page = self._kubelet.node.page_size
        for knob, written in values([file]).items():
            return Expected(knob=knob, written=written, value=read_back(knob, written, page), reason=UNEXPLAINED)
        return None

    def _unwritten(self, level: Level, knobs: Iterable[Knob]) -> dict[Knob, Expected]:
        """The texts of these files at a level while they are unwritten."""
        return {knob: self._expected(knob, untouched(self._kubelet, knob, level)) for knob in knobs}

    def _known_of(self, level: Level, rulings: Rulings) -> Iterator[Knob]:
        """The optional knobs of a cgroup above containers."""
        if Knob.CPUSET_CPUS in rulings:
            yield Knob.CPUSET_CPUS
        # The capacity for kubepods may be unknown; every other level is at "max" unless it is written.
        if self._counts_pids and (level is not Level.NODE or Knob.PIDS_MAX in rulings):
            yield Knob.PIDS_MAX

    def _expected(self, knob: Knob, ruling: Ruling) -> Expected:
        page = self._kubelet.node.page_size
        made = expected(knob, ruling, page_size=page, reasons=self._reasons, default=self._defaults.get(knob))
        if not self._reasons and not ruling.otherwise and not ruling.unmodelled:
            # Without reasons, equal values have equal expectations.
            self._unexplained[knob][ruling.written] = made
        return made
