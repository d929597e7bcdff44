"""The Docker Engine: from a HostConfig, as the API takes it, to what reaches the OCI runtime.

A daemon checks a HostConfig, fills in what is not said, keeps it, and passes it on when the container is started. Of an
update it passes on what is said alone, so that a file which it does not name is the OCI runtime's to leave alone.
Source: moby daemon/daemon_unix.go (`verifyPlatformContainerResources`, `adaptContainerSettings`, `getMemoryResources`,
`getCPUResources`), daemon/update_linux.go, container/container_unix.go (`UpdateContainer`); engines 20.10 to 28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memqos.engine.translate.docker import LEAST_MEMORY, host_config
from memqos.engine.translate.resources import DockerTranslation, OciResources, OciTranslation, Unsayable
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = [
    "HOST_CONFIG_FIELDS",
    "DockerdAnswer",
    "HostConfig",
    "asked_of_docker",
    "docker_created",
    "docker_updated",
    "translated",
]

HostConfig = Mapping[str, int | str]
"""What a request says of resources, by the names of the API; amounts in bytes, 0 and "" are not said."""

_NOTHING_STORED = OciResources()
_UNLIMITED = -1
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
"""Field of a HostConfig to that of linux.resources."""

_PIDS_LIMIT, _SCORE = "PidsLimit", "OomScoreAdj"

HOST_CONFIG_FIELDS = (*_OCI_FIELDS, _PIDS_LIMIT, _SCORE)
"""The fields that are understood here."""

_KEPT_SWAP = "dockerd passes no MemorySwap of -1 on to the OCI runtime: the limit that was set before stays."
_KEPT_LIMIT = "an update of Docker has no word for no memory limit: what was set once can be changed, not taken back."


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerdAnswer:
    """What the daemon makes of a HostConfig.

    held: all that it keeps for the container. resources: what reaches the OCI runtime. refusal: its own error, "" if it
    has none; then nothing changes.
    """

    held: HostConfig
    resources: OciResources
    refusal: str = ""


def docker_created(asked: HostConfig, *, swap_controller: bool = True) -> DockerdAnswer:
    """A container that is created with this. Without MemorySwap there is as much swap again as memory.

    swap_controller: whether the daemon finds memory.swap.max; it limits no swap without.
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
    """The same container after an update. held: what the daemon kept until now."""
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


def asked_of_docker(sent: ContainerResources, *, stored: OciResources = _NOTHING_STORED) -> DockerTranslation:
    """What memqos asks of Docker for a CRI request: all that was asked for so far, as in CRI what is not said stays.

    stored: what reached the OCI runtime until now; without it the request is that of a creation.
    ValueError as `host_config`.
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
    asked = host_config(whole)
    if stored.memory_swap and asked.host_config.get("MemorySwap") == _UNLIMITED:
        kept.append(Unsayable(knob=Knob.MEMORY_SWAP_MAX, value="max", why=_KEPT_SWAP, wordless=True))
    return replace(asked, unsayable=(*asked.unsayable, *kept))


def translated(
    sent: ContainerResources, *, stored: OciResources | None = None, swap_controller: bool = True
) -> OciTranslation:
    """What reaches the OCI runtime of a CRI request, by way of Docker. stored: as above, None for a creation.

    Of a text that is no amount nothing is asked: that is the refusal.
    """
    try:
        asked = asked_of_docker(sent, stored=stored or _NOTHING_STORED)
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
    """What the daemon refuses by itself, in its words; which CPUs and nodes there are is not known here."""
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


_LEAST_US, _MOST_PERIOD_US = 1_000, 1_000_000


def _passed_on(said: HostConfig) -> OciResources:
    """linux.resources of what is said. Of negative amounts only the quota's is passed on.

    The limit of processes ends in pids.max, as an entry of unified would.
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
