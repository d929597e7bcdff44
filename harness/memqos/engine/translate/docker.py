"""Docker: from CRI through cri-dockerd to HostConfig, and through dockerd to OCI.

HostConfig: CRI LinuxContainerResources as Docker's HostConfig, and fields that Docker lacks.

HostConfig has limits, shares, sets of CPUs and nodes, and a reservation (memory.low). It has no memory.min,
memory.high, memory.oom.group, huge pages, or other interface files by name. Source: moby `HostConfig` and
`verifyPlatformContainerResources`, engines 20.10 to 28.

The Docker Engine: from a HostConfig to the OCI runtime's request.

The daemon checks a HostConfig, fills in defaults, stores it, and passes it on when the container starts. In an update
it passes only the named fields on, so the OCI runtime decides about other files. Source: moby daemon/daemon_unix.go
(`verifyPlatformContainerResources`, `adaptContainerSettings`, `getMemoryResources`, `getCPUResources`),
daemon/update_linux.go, container/container_unix.go (`UpdateContainer`); engines 20.10 to 28.

cri-dockerd: from CRI LinuxContainerResources to the HostConfig of its request to the Docker Engine.

It sets MemorySwap to the memory limit, which means no swap, whatever the request has, and drops unified entries and
huge pages: memory.min, memory.high, memory.oom.group and LimitedSwap are lost (kubernetes#124096). Source:
Mirantis/cri-dockerd core/helpers_linux.go `updateCreateConfig` and core/container_update_resources.go, 0.3.0 to 0.4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memqos.engine.translate.kernel_text import memparse
from memqos.engine.translate.resources import DockerTranslation, OciResources, OciTranslation, Unsayable
from memqos.engine.translate.systemd import property_number
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = ["LEAST_MEMORY", "DockerTranslation", "DockerdAnswer", "HostConfig", "host_config"]

LEAST_MEMORY = 6 << 20
"""Bytes: the least limit and reservation that Docker accepts."""

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
    sent: ContainerResources,
    *,
    swap_controller: bool = True,
    swap_follows_memory: bool = True,
    least: int = LEAST_MEMORY,
) -> DockerTranslation:
    """The HostConfig equivalent to a CRI request.

    By default Docker allows as much swap as memory, so every memory limit comes with MemorySwap. swap_controller:
    whether memory.swap.max exists; without it a request has no swap. swap_follows_memory: whether the CRI runtime
    treats a memory limit without a swap limit as no swap (`Feature.SWAP_FOLLOWS_MEMORY`). least: bytes below which no
    amount of memory is requested.
    A unified entry wins over the classic field; an entry with the kernel's default is left out. Raises ValueError for a
    unified entry that is no amount.
    """
    draft = _Draft(sent, least)
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
    """Builds a HostConfig."""

    def __init__(self, sent: ContainerResources, least: int) -> None:
        self._sent = sent
        self._least = least
        self._unified = dict(sent.unified)
        self.said: dict[str, int | str] = {}
        self.left: list[Unsayable] = []

    def leave(self, knob: str, value: str, why: str) -> None:
        """Record a value without a field."""
        self.left.append(Unsayable(knob=knob, value=value, why=why, wordless=True))

    def memory(self, *, swap_controller: bool, swap_follows_memory: bool) -> None:
        """Limit, swap and reservation; each is removed from the unified entries."""
        limit = self._amount(Knob.MEMORY_MAX, self._sent.memory_limit_in_bytes)
        if 0 <= limit < self._least and (limit or Knob.MEMORY_MAX in self._sent.unified):
            self.leave(
                Knob.MEMORY_MAX, str(limit), f"Docker rejects a memory limit below 6 MiB ({LEAST_MEMORY} bytes)."
            )
            limit = _UNLIMITED
        limited = limit > 0
        if limited:
            self.said["Memory"] = limit
        swap = self._swap(swap_follows_memory=swap_follows_memory)
        if swap_controller:
            if limited:
                self.said["MemorySwap"] = _UNLIMITED if swap is None else limit + swap
            elif swap is not None:
                self.leave(Knob.MEMORY_SWAP_MAX, str(swap), "Docker accepts MemorySwap only with Memory.")
        reservation = self._amount(Knob.MEMORY_LOW, 0)
        if reservation == _UNLIMITED:
            self.leave(Knob.MEMORY_LOW, "max", "MemoryReservation is an amount: Docker cannot express max.")
        elif 0 < reservation < self._least:
            self.leave(Knob.MEMORY_LOW, str(reservation), "Docker rejects a MemoryReservation below 6 MiB.")
        elif limited and reservation > limit:
            self.leave(Knob.MEMORY_LOW, str(reservation), "Docker rejects a MemoryReservation above Memory.")
        elif reservation:
            self.said["MemoryReservation"] = reservation

    def _amount(self, knob: Knob, classic: int) -> int:
        """Bytes from the unified entry, else from the classic field; -1 is max."""
        text = self._unified.pop(knob, None)
        if text is None:
            return classic
        return _UNLIMITED if text == "max" else memparse(text)

    def _swap(self, *, swap_follows_memory: bool) -> int | None:
        """The wanted memory.swap.max in bytes; None is max, also without a request.

        It is negative if the memory+swap limit is below the memory limit: Docker then refuses the request.
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
            self.leave(Knob.CPU_MAX, value, "Docker accepts a quota of at least 1 ms, and a period from 1 ms to 1 s.")
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
        """The unified entries without a field."""
        pids = self._unified.pop(Knob.PIDS_MAX, "max")
        if pids != "max":
            self.said["PidsLimit"] = memparse(pids)
        for name, value in self._unified.items():
            if value != _DEFAULTS.get(name):
                self.leave(name, value, _WHY.get(name, f"HostConfig has no field for {name}."))


HostConfig = Mapping[str, int | str]
"""The resources of a request, by the API's names; amounts in bytes, 0 and "" mean not set."""

_NOTHING_STORED = OciResources()
_MOST_SCORE = 1000

_OCI_FIELDS: Mapping[str, str] = {
    "Memory": "memory_limit",
    "MemorySwap": "memory_swap",
    "MemoryReservation": "memory_reservation",
    "CpuShares": "cpu_shares",
    "CpuQuota": "cpu_quota",
    "CpuPeriod": "cpu_period",
    "CpusetCpus": "cpus",
    "CpusetMems": "mems",
}
"""Field of a HostConfig to field of linux.resources."""

_PIDS_LIMIT, _SCORE = "PidsLimit", "OomScoreAdj"

_KEPT_SWAP = "dockerd does not pass a MemorySwap of -1 on to the OCI runtime: the earlier limit stays."
_KEPT_LIMIT = "a Docker update cannot remove a memory limit: once set, it can only be changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerdAnswer:
    """The daemon's result for a HostConfig.

    held: its stored resources of the container. resources: the OCI runtime's request. refusal: the daemon's error, ""
    for none; after an error nothing changes.
    """

    held: HostConfig
    resources: OciResources
    refusal: str = ""


def docker_created(asked: HostConfig, *, swap_controller: bool = True) -> DockerdAnswer:
    """A container created with this. Without MemorySwap, as much swap as memory is allowed.

    swap_controller: whether the daemon finds memory.swap.max; without it swap is not limited.
    """
    if refusal := next(_wrong(asked, update=False), ""):
        return DockerdAnswer(held={}, resources=_NOTHING_STORED, refusal=refusal)
    held = {name: value for name, value in asked.items() if value}
    memory = _number(held, "Memory")
    if memory and "MemorySwap" not in held:
        held["MemorySwap"] = 2 * memory
    if memory and not swap_controller:
        held["MemorySwap"] = _UNLIMITED
    return DockerdAnswer(held=held, resources=_passed_on(held))


def docker_updated(held: HostConfig, asked: HostConfig, *, swap_controller: bool = True) -> DockerdAnswer:
    """The same container after an update. held: the daemon's stored resources before."""
    said = {name: value for name, value in asked.items() if value and name != _SCORE}
    memory = _number(said, "Memory")
    if memory and not swap_controller:
        said["MemorySwap"] = _UNLIMITED
    refusal = next(_wrong(said, update=True), "")
    if not refusal and memory > _number(held, "MemorySwap") and "MemorySwap" not in said:
        refusal = (
            "Memory limit should be smaller than already set memoryswap limit, update the memoryswap at the same time"
        )
    if refusal:
        return DockerdAnswer(held=held, resources=_NOTHING_STORED, refusal=refusal)
    return DockerdAnswer(held={**held, **said}, resources=_passed_on(said))


def docker_request(
    sent: ContainerResources, *, stored: OciResources = _NOTHING_STORED, least: int = LEAST_MEMORY
) -> DockerTranslation:
    """Memqos's request to Docker for a CRI request: all requests so far, since in CRI unspecified values stay.

    stored: the OCI runtime's resources so far; None for a creation. least: as in `host_config`. ValueError as in
    `host_config`.
    """
    limit, swap = sent.memory_limit_in_bytes, sent.memory_swap_limit_in_bytes
    kept: list[Unsayable] = []
    if stored.memory_limit and limit == _UNLIMITED:
        kept.append(Unsayable(knob=Knob.MEMORY_MAX, value="max", why=_KEPT_LIMIT, wordless=True))
    if stored.memory_limit and limit <= 0:
        limit, swap = stored.memory_limit, swap or stored.memory_swap or _UNLIMITED
    low = {} if stored.memory_reservation is None else {Knob.MEMORY_LOW.value: str(stored.memory_reservation)}
    whole = replace(
        sent,
        memory_limit_in_bytes=limit,
        memory_swap_limit_in_bytes=swap,
        cpu_shares=sent.cpu_shares or stored.cpu_shares or 0,
        cpu_quota=sent.cpu_quota or stored.cpu_quota or 0,
        cpu_period=sent.cpu_period or stored.cpu_period or 0,
        cpuset_cpus=sent.cpuset_cpus or stored.cpus or "",
        cpuset_mems=sent.cpuset_mems or stored.mems or "",
        unified={**low, **stored.unified, **sent.unified},
    )
    asked = host_config(whole, least=least)
    if stored.memory_swap and asked.host_config.get("MemorySwap") == _UNLIMITED:
        kept.append(Unsayable(knob=Knob.MEMORY_SWAP_MAX, value="max", why=_KEPT_SWAP, wordless=True))
    return replace(asked, unsayable=(*asked.unsayable, *kept))


def translated(
    sent: ContainerResources, *, stored: OciResources | None = None, swap_controller: bool = True
) -> OciTranslation:
    """The OCI runtime's request for a CRI request sent through Docker. stored: as above, None for a creation.

    A text that is no amount is not sent: it is the refusal.
    """
    try:
        asked = docker_request(sent, stored=stored or _NOTHING_STORED)
    except ValueError as error:
        return OciTranslation(resources=_NOTHING_STORED, refusal=str(error))
    if stored is None:
        answer = docker_created(asked.host_config, swap_controller=swap_controller)
    else:
        answer = docker_updated({}, asked.host_config, swap_controller=swap_controller)
    creates = stored is None and not answer.refusal
    return OciTranslation(
        resources=answer.resources,
        oom_score_adj=sent.oom_score_adj if creates else None,
        unsayable=asked.unsayable,
        refusal=answer.refusal,
    )


def _wrong(said: HostConfig, *, update: bool) -> Iterator[str]:
    """The daemon's own errors; the machine's CPUs and nodes are unknown here."""
    memory, both, reservation = (_number(said, name) for name in ("Memory", "MemorySwap", "MemoryReservation"))
    quota, period, score = (_number(said, name) for name in ("CpuQuota", "CpuPeriod", _SCORE))
    if memory and memory < LEAST_MEMORY:
        yield "Minimum memory limit allowed is 6MB"
    if 0 < both < memory:
        yield "Minimum memoryswap limit should be larger than memory limit, see usage"
    if both > 0 and not memory and not update:
        yield "You should always set the Memory limit when using Memoryswap limit, see usage"
    if 0 < reservation < LEAST_MEMORY:
        yield "Minimum memory reservation allowed is 6MB"
    if 0 < memory < reservation:
        yield "Minimum memory limit can not be less than memory reservation limit, see usage"
    if period and not _LEAST_US <= period <= _MOST_PERIOD_US:
        yield "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)"
    if 0 < quota < _LEAST_US:
        yield "CPU cfs quota can not be less than 1ms (i.e. 1000)"
    if abs(score) > _MOST_SCORE:
        yield f"Invalid value {score}, range for oom score adj is [-1000, 1000]"


def _passed_on(said: HostConfig) -> OciResources:
    """linux.resources of a HostConfig. A negative amount is passed on only for the quota.

    The limit of processes becomes pids.max, like an entry of unified.
    """
    passed: dict[str, int | str] = {}
    for name, field in _OCI_FIELDS.items():
        value = said.get(name)
        if isinstance(value, str) or (value and (value > 0 or name == "CpuQuota")):
            passed[field] = value
    pids = _number(said, _PIDS_LIMIT)
    unified = {Knob.PIDS_MAX.value: str(pids) if pids > 0 else "max"} if pids else {}
    return OciResources(**passed, unified=unified)  # type: ignore[arg-type]


def _number(said: HostConfig, name: str) -> int:
    return int(said.get(name, 0))


def through_cri_dockerd(sent: ContainerResources, *, update: bool, swap_controller: bool = True) -> OciTranslation:
    """The OCI runtime's request. update: whether it changes an existing container.

    swap_controller: whether Docker finds memory.swap.max.
    """
    asked: dict[str, int | str] = {
        "Memory": sent.memory_limit_in_bytes,
        "MemorySwap": sent.memory_limit_in_bytes,
        "CpuShares": sent.cpu_shares,
        "CpuQuota": sent.cpu_quota,
        "CpuPeriod": sent.cpu_period,
        "CpusetCpus": sent.cpuset_cpus,
        "CpusetMems": sent.cpuset_mems,
    }
    if update:
        answer = docker_updated({}, asked, swap_controller=swap_controller)
    else:
        answer = docker_created({**asked, "OomScoreAdj": sent.oom_score_adj}, swap_controller=swap_controller)
    return OciTranslation(
        resources=answer.resources,
        oom_score_adj=None if update or answer.refusal else sent.oom_score_adj,
        unsayable=tuple(_lost(sent)),
        refusal=answer.refusal,
    )


def _lost(sent: ContainerResources) -> Iterator[Unsayable]:
    limit, both = sent.memory_limit_in_bytes, sent.memory_swap_limit_in_bytes
    if both and both != limit and Knob.MEMORY_SWAP_MAX not in sent.unified:
        value = "max" if both < 0 else str(max(both - limit, 0))
        yield Unsayable(knob=Knob.MEMORY_SWAP_MAX, value=value, why="cri-dockerd drops a swap limit.")
    for name, value in sent.unified.items():
        lost_nothing = value == ("0" if name == Knob.MEMORY_SWAP_MAX and limit else _DEFAULTS.get(name))
        if not lost_nothing:
            yield Unsayable(knob=name, value=value, why="cri-dockerd drops unified entries.")
    for size, amount in sent.hugepage_limits:
        yield Unsayable(knob=f"hugetlb.{size}.max", value=str(amount), why="cri-dockerd drops huge page limits.")
