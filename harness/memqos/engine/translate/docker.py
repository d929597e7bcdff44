"""From CRI LinuxContainerResources to Docker's HostConfig, and what Docker has no field for.

HostConfig knows limits, shares, sets of CPUs and nodes, and a reservation (memory.low); not memory.min, memory.high,
memory.oom.group, huge pages, nor any other control file by its name. Source: moby `HostConfig` and
`verifyPlatformContainerResources`, engines 20.10 to 28.
"""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.translate.kernel_text import memparse
from memqos.engine.translate.resources import DockerTranslation, Unsayable
from memqos.engine.translate.systemd import property_number
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = ["LEAST_MEMORY", "DockerTranslation", "host_config"]

LEAST_MEMORY = 6 << 20
"""Bytes: Docker takes no limit and no reservation below."""

_UNLIMITED = -1
_LEAST_US, _MOST_PERIOD_US = 1_000, 1_000_000
_ANNOTATIONS: Mapping[str, str] = {Knob.MEMORY_MIN: "MemoryMin", Knob.MEMORY_HIGH: "MemoryHigh"}
_DEFAULTS = {knob.value: str(knob.kernel_default) for knob in Knob}
_WHY: Mapping[str, str] = {
    Knob.MEMORY_MIN: "HostConfig has no field for memory.min: MemoryReservation is memory.low.",
    Knob.MEMORY_HIGH: "HostConfig has no field for memory.high.",
    Knob.MEMORY_OOM_GROUP: "HostConfig has no field for memory.oom.group: OomKillDisable is ignored on cgroup v2.",
    Knob.CPU_WEIGHT: "HostConfig has CpuShares, which the OCI runtime converts: a weight cannot be chosen.",
}


def host_config(
    sent: ContainerResources, *, swap_controller: bool = True, swap_follows_memory: bool = True
) -> DockerTranslation:
    """The HostConfig that says the same as a CRI request.

    Docker allows as much swap again as memory unless told otherwise, so MemorySwap is said with every memory limit.
    swap_controller: whether memory.swap.max exists; nothing is said of swap without it. swap_follows_memory: whether
    the CRI runtime takes a memory limit without a swap limit as no swap (`Feature.SWAP_FOLLOWS_MEMORY`).
    A unified entry wins over the classic field, and one that says the kernel's default needs no saying.
    Raises ValueError for a unified entry that is no amount.
    """
    draft = _Draft(sent)
    draft.memory(swap_controller=swap_controller, swap_follows_memory=swap_follows_memory)
    draft.cpu()
    for size, limit in sent.hugepage_limits:
        draft.leave(f"hugetlb.{size}.max", str(limit), "HostConfig has no field for huge page limits.")
    draft.rest()
    if sent.oom_score_adj:
        draft.said["OomScoreAdj"] = sent.oom_score_adj
    annotations = {
        f"org.systemd.property.{_ANNOTATIONS[left.knob]}": f"uint64 {property_number(left.knob, left.value)}"
        for left in draft.left
        if left.knob in _ANNOTATIONS
    }
    return DockerTranslation(host_config=draft.said, unsayable=tuple(draft.left), annotations=annotations)


class _Draft:
    """A HostConfig in the making."""

    def __init__(self, sent: ContainerResources) -> None:
        self._sent = sent
        self._unified = dict(sent.unified)
        self.said: dict[str, int | str] = {}
        self.left: list[Unsayable] = []

    def leave(self, knob: str, value: str, why: str) -> None:
        """Note what cannot be said."""
        self.left.append(Unsayable(knob=knob, value=value, why=why, wordless=True))

    def memory(self, *, swap_controller: bool, swap_follows_memory: bool) -> None:
        """Limit, swap and reservation; each is taken out of the unified entries."""
        limit = self._amount(Knob.MEMORY_MAX, self._sent.memory_limit_in_bytes)
        if 0 <= limit < LEAST_MEMORY and (limit or Knob.MEMORY_MAX in self._sent.unified):
            self.leave(Knob.MEMORY_MAX, str(limit), f"Docker takes no memory limit below 6 MiB ({LEAST_MEMORY} bytes).")
            limit = _UNLIMITED
        limited = limit > 0
        if limited:
            self.said["Memory"] = limit
        swap = self._swap(swap_follows_memory=swap_follows_memory)
        if swap_controller:
            if limited:
                self.said["MemorySwap"] = _UNLIMITED if swap is None else limit + swap
            elif swap is not None:
                self.leave(Knob.MEMORY_SWAP_MAX, str(swap), "Docker takes MemorySwap together with Memory only.")
        reservation = self._amount(Knob.MEMORY_LOW, 0)
        if reservation == _UNLIMITED:
            self.leave(Knob.MEMORY_LOW, "max", "MemoryReservation is an amount: Docker has no word for max.")
        elif 0 < reservation < LEAST_MEMORY:
            self.leave(Knob.MEMORY_LOW, str(reservation), "Docker takes no MemoryReservation below 6 MiB.")
        elif limited and reservation > limit:
            self.leave(Knob.MEMORY_LOW, str(reservation), "Docker takes no MemoryReservation above Memory.")
        elif reservation:
            self.said["MemoryReservation"] = reservation

    def _amount(self, knob: Knob, classic: int) -> int:
        """Bytes from the unified entry, else from the classic field; -1 is max."""
        text = self._unified.pop(knob, None)
        if text is None:
            return classic
        return _UNLIMITED if text == "max" else memparse(text)

    def _swap(self, *, swap_follows_memory: bool) -> int | None:
        """What memory.swap.max should be in bytes; None is max, which is also what nobody says.

        A limit of memory and swap below that of memory comes out negative, and so as it was asked for: it is Docker's
        to refuse.
        """
        limit, both = self._sent.memory_limit_in_bytes, self._sent.memory_swap_limit_in_bytes
        if Knob.MEMORY_SWAP_MAX in self._unified:
            asked = self._amount(Knob.MEMORY_SWAP_MAX, 0)
            return None if asked == _UNLIMITED else asked
        if both > 0:
            return both - max(limit, 0)
        return 0 if both == 0 and limit > 0 and swap_follows_memory else None

    def cpu(self) -> None:
        """Shares, quota and period, CPUs and nodes."""
        sent = self._sent
        quota, period = sent.cpu_quota, sent.cpu_period
        if Knob.CPU_MAX in self._unified:
            text, _, rest = self._unified.pop(Knob.CPU_MAX).partition(" ")
            quota, period = _UNLIMITED if text == "max" else memparse(text), memparse(rest or "100000")
        if 0 < quota < _LEAST_US or (period and not _LEAST_US <= period <= _MOST_PERIOD_US):
            value = f"{'max' if quota <= 0 else quota} {period or 100_000}"
            self.leave(Knob.CPU_MAX, value, "Docker takes a quota from 1 ms, and a period from 1 ms to 1 s.")
            quota = period = 0
        fields: tuple[tuple[str, int | str], ...] = (
            ("CpuShares", sent.cpu_shares),
            ("CpuQuota", quota),
            ("CpuPeriod", period),
            ("CpusetCpus", self._unified.pop(Knob.CPUSET_CPUS, sent.cpuset_cpus)),
            ("CpusetMems", self._unified.pop(Knob.CPUSET_MEMS, sent.cpuset_mems)),
        )
        self.said |= {name: value for name, value in fields if value}

    def rest(self) -> None:
        """The unified entries that no field took."""
        pids = self._unified.pop(Knob.PIDS_MAX, "max")
        if pids != "max":
            self.said["PidsLimit"] = memparse(pids)
        for name, value in self._unified.items():
            if value != _DEFAULTS.get(name):
                self.leave(name, value, _WHY.get(name, f"HostConfig has no field for {name}."))
